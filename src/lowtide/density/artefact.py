"""The frozen result of a fit: small, immutable, callable, saved without pickle."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from lowtide.bundles import read_bundle, write_bundle
from lowtide.density.critics import CRITICS
from lowtide.density.critics.bag import Bag
from lowtide.density.critics.base import Critic
from lowtide.density.critics.paper import PaperCritic
from lowtide.density.estimates import mean_with_interval
from lowtide.density.objectives import normalise
from lowtide.errors import Floats, LowtideError, count
from lowtide.features import Features
from lowtide.images.critic import ImageCritic
from lowtide.images.encoder import Grid, ImageEncoder, ImageRows
from lowtide.interface import Estimate
from lowtide.labels import Classes, Label
from lowtide.tables.encoder import TableEncoder, read_encoder
from lowtide.texts.encoder import TextEncoder
from lowtide.texts.explaining import Explanation, explain

_CHUNK = 1 << 24  # floats that a batch of prefixes may hold at once
_SIMILAR = "encoder.similar"  # among the tensors of a density of texts


class Attribution(NamedTuple):
    """Order-free shares of the density.

    Attributes:
        values: (n, m, |S|) Shapley values of `A ↦ i(s; x_A)`; they add up to the whole density (of images: to that of
            the any-mask networks).
        error: (n, m, |S|) their Monte-Carlo standard error.
        orders: how many random orders they average.
    """

    values: Floats
    error: Floats
    orders: int


class TermConditionals(NamedTuple):
    """Conditional densities of the terms that are present, laid out like the CSR matrix they belong to.

    Attributes:
        indptr: (n + 1,) where each row starts.
        terms: (nnz,) the feature of each entry.
        values: (nnz, |S|) `i(s; x_j | x^{j−1})` along the order of the features.
    """

    indptr: NDArray[np.intp]
    terms: NDArray[np.intp]
    values: Floats


@dataclass(frozen=True)
class FitReport:
    """How the fit went.

    Attributes:
        chosen: the critic that won, in words.
        converged: whether every critic in it stopped before its last epoch.
        held_out: the information on rows the critic had not seen; `None` for the paper's recipe, which holds none out.
        training: the same on the rows it was trained on.
        candidates: held-out information of every candidate, by name.
    """

    chosen: str
    converged: bool
    held_out: Estimate | None
    training: float
    candidates: dict[str, float] = field(default_factory=dict)

    @property
    def overfits(self) -> bool:
        """Whether the training figure lies above the held-out interval."""
        return self.held_out is not None and self.training > self.held_out.high


@dataclass(frozen=True)
class Density:
    """Estimated information densities of a finite secret, for any partially observed row, in nats.

    Attributes:
        classes: the values of the secret and their prior.
        features: what the m features are.
        critic: the fitted function.
        trim: answers are clipped to ±trim. Clipping is done here, on the answer, never inside the training loss: a
            critic beyond the trim still has a gradient.
        encoder: how tables, images or texts are read.
        report: how the fit went.
    """

    classes: Classes
    features: Features
    critic: Critic
    trim: float
    encoder: TableEncoder | ImageEncoder | TextEncoder
    report: FitReport | None = None

    def __call__(self, x: Any) -> Floats:
        """`i(s; x)`, (n, |S|)."""
        return self.density(x)

    def density(self, x: Any) -> Floats:
        """`i(s; x)` for every row and class, (n, |S|)."""
        rows = self.encoder.encode(x)
        return self._by_chunks(rows, lambda part, _: self.critic.scores(part), width=_width(rows))

    def observed(self, x: Any, mask: ArrayLike) -> Floats:
        """`i(s; x_A)`, (n, |S|), for the features A where `mask`, (m,) or (n, m), is true."""
        rows = self.encoder.encode(x)
        seen = self.features.mask(mask)
        if seen.ndim == 2 and len(seen) != rows.shape[0]:
            raise LowtideError(f"mask has {len(seen)} rows and X {rows.shape[0]}; give one mask, or one per row")

        def score(part: Any, place: slice) -> torch.Tensor:
            mine = seen[place] if seen.ndim == 2 else np.broadcast_to(seen, (part.shape[0], len(self.features)))
            return self.critic.scores(part, torch.from_numpy(np.array(mine)))

        return self._by_chunks(rows, score, width=max(_width(rows), len(self.features)))

    def prefixes(self, x: Any) -> Floats:
        """`i(s; x^j)` for j = 0 … m, (n, m + 1, |S|), in one pass over the features."""
        return self._prefixes(self.encoder.encode(x), None)

    def conditionals(self, x: Any) -> Floats | TermConditionals:
        """`i(s; x_j | x^{j−1})`, (n, m, |S|), within ±2·trim (paper, Eq. 17); of sparse rows the present terms only."""
        rows = self.encoder.encode(x)
        if sparse.issparse(rows):
            return self._present(rows)
        return np.diff(self._prefixes(rows, None), axis=1)

    def shapley(self, x: Any, *, orders: int = 32, seed: int = 0) -> Attribution:
        """Order-free attribution: conditionals averaged over random orders of the features.

        Of images the players are 8 × 8 blocks of patches at most, and the value of a block is shared evenly by its
        patches: single patches by the thousand would need as many evaluations for every order.

        Args:
            x: rows.
            orders: how many orders to draw; every second one is the reverse of the one before it, which cancels
                much of the variance.
            seed: of the orders.
        """
        rows = self.encoder.encode(x)
        pairs = max(2, count("orders", orders, 2) // 2)
        rng = np.random.default_rng(seed)
        shape = (rows.shape[0], len(self.features), len(self.classes.labels))
        players = int(self.critic.blocks().max()) + 1 if isinstance(self.critic, ImageCritic) else shape[1]
        total, squares = np.zeros(shape), np.zeros(shape)
        for _ in range(pairs):
            order = rng.permutation(players)
            both = 0.5 * (self._along(rows, order) + self._along(rows, order[::-1].copy()))
            total += both
            squares += both**2
        mean = total / pairs
        spread = np.maximum(squares / pairs - mean**2, 0.0) * pairs / (pairs - 1)
        return Attribution(mean, np.sqrt(spread / pairs), 2 * pairs)

    def information(self, x: Any, s: ArrayLike, *, level: float = 0.95) -> Estimate:
        """`I(S; X)` from rows the fit has not seen, with its interval.

        The mean of a normalised critic is a lower bound on the information up to sampling error; on the rows of the
        fit itself it would be too high (see `report` for the cross-fitted figure).
        """
        g = self.density(x)
        codes = self.classes.encode(s)
        if len(codes) != len(g):
            raise LowtideError(f"X has {len(g)} rows and s {len(codes)}; they must match")
        return mean_with_interval(g[np.arange(len(g)), codes], level)

    def explain(
        self, text: str, *, budget: float | None = None, secret_class: Label | None = None, seed: int = 0
    ) -> Explanation:
        """What one text tells, word by word, and how to bring it under a budget; of densities of texts.

        Args:
            text: any text, however long.
            budget: look for words to remove or replace until `max_s |i(s; text)|` is at most this, in nats.
            secret_class: the class by which to shade the text; by default the one that gains most belief.
            seed: of the random orders of the order-free shares.
        """
        return explain(self, text, budget=budget, secret_class=secret_class, seed=seed)

    def save(self, path: str | Path) -> None:
        """Write `config.json` and `model.safetensors` into the folder `path`."""
        config, tensors = self.parts()
        write_bundle(Path(path), config, tensors)

    @classmethod
    def load(cls, path: str | Path) -> Density:
        """Read a density back from the folder `path`."""
        config, tensors = read_bundle(Path(path))
        return cls.from_parts(config, tensors, path)

    def parts(self) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
        """The density as plain JSON and tensors."""
        config = {
            "secret": "classes",
            "classes": list(self.classes.labels),
            "prior": self.classes.prior.tolist(),
            # The grid of images, or the vocabulary of texts, in `encoder`, says what their features are.
            "features": _plain(self.features) if isinstance(self.encoder, TableEncoder) else None,
            **shared_config(self),
        }
        tensors = self.critic.tensors()
        if isinstance(self.encoder, TextEncoder):
            tensors = {**tensors, _SIMILAR: torch.tensor(self.encoder.similar)}
        return config, tensors

    @classmethod
    def from_parts(cls, config: dict[str, Any], tensors: dict[str, torch.Tensor], where: str | Path) -> Density:
        """Rebuild what `parts` took apart; `where` it came from is for the error message."""
        try:
            settings = dict(config["critic"])
            own = {name: value for name, value in tensors.items() if name != _SIMILAR}
            critic = CRITICS[settings.pop("kind")].from_saved(settings, own)
            encoder, plain = _read_encoder(config["encoder"], tensors), config["features"]
            features = (
                encoder.features() if plain is None else Features(np.array(plain["groups"]), tuple(plain["names"]))
            )
            return cls(
                Classes(tuple(config["classes"]), np.array(config["prior"])),
                features,
                critic,
                float(config["trim"]),
                encoder,
                read_report(config["report"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise LowtideError(f"{where} lacks or garbles a part of a density; save it again") from error

    def _prefixes(self, rows: Any, order: torch.Tensor | None) -> Floats:
        width = max(_width(rows), (len(self.features) + 1) * max(64, len(self.classes.labels)))
        return self._by_chunks(rows, lambda part, _: self.critic.prefix_scores(part, order), width=width)

    def _along(self, rows: Any, order: NDArray[np.intp]) -> Floats:
        """Conditionals along an order, put back at the place of each feature."""
        if isinstance(self.critic, ImageCritic):
            return self._along_blocks(self.critic, rows, order)
        steps = np.diff(self._prefixes(rows, torch.from_numpy(order)), axis=1)
        result = np.empty_like(steps)
        result[:, order] = steps
        return result

    def _along_blocks(self, critic: ImageCritic, rows: Any, order: NDArray[np.intp]) -> Floats:
        """The same for blocks of patches, shared evenly by the patches of each."""
        block = critic.blocks()
        players = [torch.from_numpy(np.flatnonzero(block == k)) for k in order]
        steps = np.diff(self._by_chunks(rows, lambda part, _: critic.walk(part, players), width=_width(rows)), axis=1)
        result = np.empty_like(steps)
        result[:, order] = steps
        return (result / np.bincount(block)[:, None])[:, block]

    def _present(self, rows: Any) -> TermConditionals:
        """Conditionals of the present terms of sparse rows, without ever making them dense."""
        where = rows.indptr.astype(np.intp), rows.indices.astype(np.intp)
        if not isinstance(self.critic, Bag | PaperCritic):
            return TermConditionals(*where, np.zeros((rows.nnz, len(self.classes.labels))))
        log_prior = torch.from_numpy(np.log(self.classes.prior)).float()
        nothing = sparse.csr_array((1, rows.shape[1]), dtype=np.float32)
        with torch.no_grad():
            scores = torch.cat([self.critic.scores(nothing), self.critic.present_scores(rows)])
            scores = normalise(scores, log_prior) if getattr(self.critic, "normalised", True) else scores
        running = scores.clamp(-self.trim, self.trim)
        # The first entry of every row follows an empty prefix, whose density is 0, or what the paper's recipe says.
        before = running[:-1].clone()
        before[torch.from_numpy(rows.indptr[:-1][np.diff(rows.indptr) > 0].astype(np.int64))] = running[0]
        return TermConditionals(*where, (running[1:] - before).double().numpy())

    @torch.no_grad()
    def _by_chunks(self, rows: Any, score: Any, *, width: int) -> Floats:
        """Score rows in chunks that fit in memory, then normalise and trim."""
        log_prior = torch.from_numpy(np.log(self.classes.prior))
        settle = normalise if getattr(self.critic, "normalised", True) else lambda scores, _: scores
        size = max(1, _CHUNK // max(1, width))
        parts = []
        for start in range(0, rows.shape[0], size):
            place = slice(start, start + size)
            as_it_is = sparse.issparse(rows) or isinstance(rows, ImageRows)
            part = rows[place] if as_it_is else torch.from_numpy(np.array(rows[place], dtype=np.float32))
            parts.append(settle(score(part, place), log_prior).clamp(-self.trim, self.trim))
        return torch.cat(parts).double().numpy()


def _width(rows: Any) -> int:
    """Floats that a row takes while it is scored."""
    return int(rows.cost if isinstance(rows, ImageRows) else rows.shape[1])


def _plain(features: Features) -> dict[str, Any]:
    return {"groups": features.groups.tolist(), "names": list(features.names)}


def _read_encoder(
    config: dict[str, Any], tensors: dict[str, torch.Tensor]
) -> TableEncoder | ImageEncoder | TextEncoder:
    if "vocabulary" in config:
        return TextEncoder.from_config(config, tensors[_SIMILAR].numpy())
    return ImageEncoder(Grid(**config["grid"])) if "grid" in config else read_encoder(config)


def shared_config(density: Any) -> dict[str, Any]:
    """What the bundle of every density holds, whatever its secret."""
    return {
        "encoder": density.encoder.to_config() if isinstance(density.encoder, TextEncoder) else asdict(density.encoder),
        "trim": density.trim,
        "critic": {"kind": density.critic.kind, **density.critic.settings()},
        "report": asdict(density.report) if density.report else None,
    }


def read_report(config: dict[str, Any] | None) -> FitReport | None:
    """Rebuild a report from its JSON."""
    if config is None:
        return None
    held_out = None if config["held_out"] is None else Estimate(**config["held_out"])
    return FitReport(**{**config, "held_out": held_out})
