"""The frozen result of a fit: small, immutable, callable, saved without pickle."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from lowtide import modalities
from lowtide.bundles import read_bundle, write_bundle
from lowtide.checks import LowtideError, check_rows, count, one_of
from lowtide.estimate.learners import CRITICS, critic_class
from lowtide.estimate.learners.base import Array, Critic, normalise
from lowtide.estimate.learners.network import Disclosures, Masked
from lowtide.estimate.objectives import information_of
from lowtide.features import Features
from lowtide.formatting import html_of, interval, text_of
from lowtide.interface import Estimate, TextTable
from lowtide.labels import Classes, Label
from lowtide.types import Floats, Floats32, Ints

_CHUNK = 1 << 24  # floats that a batch of prefixes may hold at once
_ENCODER = "encoder."  # how the tensors of an encoder begin


class Attribution(NamedTuple):
    """Order-free shares of the density.

    Attributes:
        values: (n, m, |S|) Shapley values of `A ↦ i(s; x_A)`; they add up to the whole density as
            the critic gives it for any subset (of images, that of the any-mask networks).
        error: (n, m, |S|) their Monte-Carlo standard error.
        orders: how many random orders they average.
    """

    values: Floats
    error: Floats
    orders: int


class TermConditionals(NamedTuple):
    """Conditional densities of the terms that are present, laid out like the CSR matrix they belong
    to.

    Attributes:
        indptr: (n + 1,) where each row starts.
        terms: (nnz,) the feature of each entry.
        values: (nnz, |S|) `i(s; x_j | x^{j−1})` along the order of the features.
    """

    indptr: Ints
    terms: Ints
    values: Floats


class Encoder(Protocol):
    """How data of one kind becomes rows that a critic scores; frozen at fit time, so that later
    data is read alike.

    Attributes:
        kind: the name of its modality.
    """

    kind: ClassVar[str]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the input columns; empty where they have none."""
        ...

    @property
    def inputs(self) -> int:
        """How many columns the input has; of images the numbers in each, of texts the terms of the
        vocabulary.
        """
        ...

    def features(self) -> Features:
        """What one feature is, unless a user says otherwise."""
        ...

    def encode(self, x: Any) -> Any:
        """Rows with a `shape` (n, columns): an array, a CSR matrix, or an object whose slices a
        critic reads.

        Such an object may tell the floats that a row takes while it is scored as its `cost`.
        """
        ...

    def to_config(self) -> dict[str, Any]:
        """What the modality rebuilds it from, besides the tensors; plain JSON values."""
        ...

    def tensors(self) -> dict[str, Array]:
        """Its arrays."""
        ...


@dataclass(frozen=True)
class FitReport:
    """How the fit went.

    Attributes:
        chosen: the critic that won, in words.
        converged: whether every critic in it stopped before its last epoch.
        held_out: the information on rows the critic had not seen; `None` where none were held out.
        training: the same on the rows it was trained on.
        candidates: held-out information of every candidate, by name.
    """

    chosen: str
    converged: bool
    held_out: Estimate | None
    training: float
    candidates: dict[str, float] = field(default_factory=dict)


def described(critic: str, trim: float, report: FitReport | None, **more: object) -> TextTable:
    """A fitted density in a few lines: what it is asked about, its critic, and how much it
    found.
    """
    about = [(name.replace("_", " "), str(value)) for name, value in more.items()]
    about.append(("critic", critic if report is None else report.chosen))
    if report is not None and report.held_out is not None:
        about.append(("information, held out", f"{interval(report.held_out)} nats"))
    return TextTable(
        "An information density", ("", ""), (*about, ("answers", f"within ±{trim:g} nats"))
    )


@dataclass(frozen=True, repr=False)
class Density:
    """Estimated information densities of a finite secret, for any partially observed row, in nats.

    Attributes:
        classes: the values of the secret and their prior.
        features: what the m features are.
        critic: the fitted function.
        trim: answers are clipped to ±trim. Clipping is done here, on the answer, never inside the
            training loss: a critic beyond the trim still has a gradient.
        encoder: how data is read.
        report: how the fit went.
    """

    classes: Classes
    features: Features
    critic: Critic
    trim: float
    encoder: Encoder
    report: FitReport | None = None

    def __call__(self, x: Any) -> Floats:
        """`i(s; x)`, (n, |S|)."""
        return self.density(x)

    def table(self) -> TextTable:
        """What it is asked about and how well it was fitted, without a value of the data or a label
        of the secret.
        """
        asked = {
            "kind": self.encoder.kind,
            "features": len(self.features),
            "classes": len(self.classes.labels),
        }
        return described(self.critic.kind, self.trim, self.report, **asked)

    def __repr__(self) -> str:
        return text_of([self.table()])

    def _repr_html_(self) -> str:
        return html_of([self.table()])

    def density(self, x: Any) -> Floats:
        """`i(s; x)` for every row and class, (n, |S|)."""
        rows = self.encoder.encode(x)
        return self._by_chunks(rows, lambda part, _: self.critic.scores(part), width=_width(rows))

    def observed(self, x: Any, mask: ArrayLike) -> Floats:
        """`i(s; x_A)`, (n, |S|), for the features A where `mask`, (m,) or (n, m), is true."""
        rows = self.encoder.encode(x)
        seen = self.features.mask(mask)
        if seen.ndim == 2 and len(seen) != rows.shape[0]:
            raise LowtideError(
                f"mask has {len(seen)} rows and X {rows.shape[0]}; give one mask, or one per row"
            )

        def score(part: Any, place: slice) -> Array:
            mine = (
                seen[place]
                if seen.ndim == 2
                else np.broadcast_to(seen, (part.shape[0], len(self.features)))
            )
            return self.critic.scores(part, np.array(mine))

        return self._by_chunks(rows, score, width=max(_width(rows), len(self.features)))

    def alone(self, x: Any) -> Floats:
        """`i(s; x_j)` of each feature by itself, (n, m, |S|); of tables at a cost that grows with
        m, not with m².
        """
        rows = self.encoder.encode(x)
        m = len(self.features)

        def score(part: Any, _: slice) -> Array:
            if isinstance(self.critic, Masked):
                nothing = Disclosures(self.critic, part)
                return np.stack([nothing.scores(j) for j in range(m)], axis=1)
            masks = np.eye(m, dtype=bool)
            return np.stack(
                [self.critic.scores(part, np.tile(mask, (part.shape[0], 1))) for mask in masks],
                axis=1,
            )

        return self._by_chunks(rows, score, width=self._prefix_width(rows, m))

    def prefixes(self, x: Any) -> Floats:
        """`i(s; x^j)` for j = 0 … m, (n, m + 1, |S|), in one pass over the features."""
        return self._prefixes(self.encoder.encode(x), None)

    def conditionals(self, x: Any) -> Floats | TermConditionals:
        """`i(s; x_j | x^{j−1})`, (n, m, |S|), within ±2·trim (paper, Eq. 17); of sparse rows the
        present terms only.
        """
        from scipy import sparse

        rows = self.encoder.encode(x)
        if sparse.issparse(rows):
            return self._present(rows)
        return np.diff(self._prefixes(rows, None), axis=1)

    def shapley(self, x: Any, *, orders: int = 32, seed: int = 0) -> Attribution:
        """Order-free attribution: conditionals averaged over random orders of the features.

        A critic may take features together as one player, whose value they share evenly. That of
        images does, in 8 × 8 blocks of patches at most: single patches by the thousand would need
        as many evaluations for every order.

        Args:
            x: rows.
            orders: how many orders to draw; every second one is the reverse of the one before it,
                which cancels much of the variance.
            seed: of the orders.
        """
        rows = self.encoder.encode(x)
        pairs = max(2, count("orders", orders, 2) // 2)
        rng = np.random.default_rng(seed)
        shape = (rows.shape[0], len(self.features), len(self.classes.labels))
        player = self.critic.players(len(self.features))
        total = np.zeros(shape)
        squares = np.zeros(shape)
        for _ in range(pairs):
            order = rng.permutation(int(player.max()) + 1)
            both = 0.5 * (
                self._along(rows, player, order) + self._along(rows, player, order[::-1].copy())
            )
            total += both
            squares += both**2
        mean = total / pairs
        spread = np.maximum(squares / pairs - mean**2, 0.0) * pairs / (pairs - 1)
        return Attribution(mean, np.sqrt(spread / pairs), 2 * pairs)

    def information(self, x: Any, s: ArrayLike, *, level: float = 0.95) -> Estimate:
        """`I(S; X)` from rows the fit has not seen, with its interval.

        The mean of a normalised critic is a lower bound on the information up to sampling error; on
        the rows of the fit itself it would be too high (see `report` for the cross-fitted figure).
        """
        g = self.density(x)
        codes = self.classes.encode(s)
        check_rows("s", codes.shape, len(g))
        return information_of(g[np.arange(len(g)), codes], level)

    def explain(
        self,
        sample: Any,
        *,
        budget: float | None = None,
        secret_class: Label | None = None,
        seed: int = 0,
    ) -> Any:
        """What one sample tells, part by part, and how to bring it under a budget; of texts, an
        `Explanation`.

        Args:
            sample: one sample; any text, however long.
            budget: look for parts to remove or replace until `max_s |i(s; sample)|` is at most
                this, in nats.
            secret_class: the class by which to shade the parts; by default the one that gains most
                belief.
            seed: of the random orders of the order-free shares.
        """
        modality = modalities.get(self.encoder.kind)
        return modality.explain(self, sample, budget=budget, secret_class=secret_class, seed=seed)

    def save(self, path: str | Path) -> None:
        """Write `config.json` and `model.safetensors` into the folder `path`."""
        config, tensors = self.parts()
        write_bundle(Path(path), config, tensors)

    @classmethod
    def load(cls, path: str | Path, *, critics: Iterable[type[Critic]] = ()) -> Density:
        """Read a density back from the folder `path`; `critics` are classes of your own that it may
        hold.
        """
        config, tensors = read_bundle(Path(path))
        return cls.from_parts(config, tensors, path, critics=critics)

    def parts(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """The density as plain JSON and tensors."""
        own = self.features == self.encoder.features()
        config = {
            "secret": "classes",
            "classes": list(self.classes.labels),
            "prior": self.classes.prior.tolist(),
            "features": None
            if own
            else {"groups": self.features.groups.tolist(), "names": list(self.features.names)},
            "encoder": {"kind": self.encoder.kind, **self.encoder.to_config()},
            "trim": self.trim,
            "critic": {"kind": self.critic.kind, **self.critic.settings()},
            "report": asdict(self.report) if self.report else None,
        }
        kept = {f"{_ENCODER}{name}": value for name, value in self.encoder.tensors().items()}
        return config, {**self.critic.tensors(), **kept}

    @classmethod
    def from_parts(
        cls,
        config: dict[str, Any],
        tensors: dict[str, Array],
        where: str | Path,
        *,
        critics: Iterable[type[Critic]] = (),
    ) -> Density:
        """Rebuild what `parts` took apart.

        Args:
            config: plain JSON.
            tensors: the arrays.
            where: where they came from, for error messages.
            critics: classes that it may hold besides those of the library.
        """
        try:
            modality = modalities.get(str(config["encoder"]["kind"]))
            settings = dict(config["critic"])
            others = {**modality.critics, **{critic.kind: critic for critic in critics}}
            own = {name: value for name, value in tensors.items() if not name.startswith(_ENCODER)}
            kind = one_of("critic of the saved density", settings.pop("kind"), (*CRITICS, *others))
            critic_type = others[kind] if kind in others else critic_class(kind)
            critic = critic_type.from_saved(settings, own)
            kept = {
                name.removeprefix(_ENCODER): tensors[name] for name in tensors if name not in own
            }
            encoder: Encoder = modality.read_encoder(config["encoder"], kept)
            plain = config["features"]
            features = (
                encoder.features()
                if plain is None
                else Features(np.array(plain["groups"]), tuple(plain["names"]))
            )
            return cls(
                Classes(tuple(config["classes"]), np.array(config["prior"])),
                features,
                critic,
                float(config["trim"]),
                encoder,
                read_report(config["report"]),
            )
        except LowtideError:
            raise
        except (
            LookupError,
            TypeError,
            AttributeError,
            ValueError,
            ArithmeticError,
            RuntimeError,
        ) as error:
            raise LowtideError(
                f"{where} lacks or garbles a part of a density; save it again"
            ) from error

    def _prefixes(self, rows: Any, order: Ints | None) -> Floats:
        width = self._prefix_width(rows, len(self.features))
        return self._by_chunks(
            rows, lambda part, _: self.critic.prefix_scores(part, order), width=width
        )

    def _prefix_width(self, rows: Any, steps: int) -> int:
        """Floats that a row takes while it is scored at every step."""
        return max(_width(rows), (steps + 1) * max(64, len(self.classes.labels)))

    def _along(self, rows: Any, player: Ints, order: Ints) -> Floats:
        """Conditionals along an order of the players, shared evenly by the features (m,) of each
        player.
        """
        width = self._prefix_width(rows, len(order))
        scores = self._by_chunks(
            rows, lambda part, _: self.critic.player_scores(part, order), width=width
        )
        steps = np.diff(scores, axis=1)
        result = np.empty_like(steps)
        result[:, order] = steps
        return (result / np.bincount(player)[:, None])[:, player]

    def _present(self, rows: Any) -> TermConditionals:
        """Conditionals of the present terms of sparse rows, without ever making them dense."""
        from scipy import sparse

        where = rows.indptr.astype(np.intp), self.features.groups[rows.indices]
        log_prior: Floats32 = np.log(self.classes.prior).astype(np.float32)
        nothing = sparse.csr_array((1, rows.shape[1]), dtype=np.float32)
        present = self.critic.present_scores(rows)
        scores = np.concatenate([self.critic.scores(nothing), present])
        scores = normalise(scores, log_prior) if self.critic.normalised else scores
        running = scores.clip(-self.trim, self.trim)
        # The first entry of every row follows an empty prefix, whose density is 0, or what a critic
        # of one's own says.
        before = running[:-1].copy()
        before[rows.indptr[:-1][np.diff(rows.indptr) > 0]] = running[0]
        return TermConditionals(*where, (running[1:] - before).astype(np.float64))

    def _by_chunks(self, rows: Any, score: Any, *, width: int) -> Floats:
        """Score rows in chunks that fit in memory, then normalise and trim."""
        log_prior = np.log(self.classes.prior)
        settle = normalise if self.critic.normalised else lambda scores, _: scores
        size = max(1, _CHUNK // max(1, width))
        parts: list[Floats] = []
        for start in range(0, rows.shape[0], size):
            place = slice(start, start + size)
            part = rows[place]
            if isinstance(rows, np.ndarray):
                part = np.array(part, dtype=np.float32)
            settled = settle(score(part, place), log_prior).clip(-self.trim, self.trim)
            parts.append(np.asarray(settled, dtype=np.float64))
        return np.concatenate(parts)


def _width(rows: Any) -> int:
    """Floats that a row takes while it is scored."""
    return int(getattr(rows, "cost", rows.shape[1]))


def read_report(config: dict[str, Any] | None) -> FitReport | None:
    """Rebuild a report from its JSON."""
    if config is None:
        return None
    held_out = None if config["held_out"] is None else Estimate(**config["held_out"])
    return FitReport(**{**config, "held_out": held_out})
