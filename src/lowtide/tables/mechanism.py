"""How hidden features are disclosed: redacted, noised, or answered at random; and which columns are
merged before.

All of it happens on encoded rows, where an input column of numbers or dates is one column, beside
which stands a mark where values were missing, and one of text is one column per category. Whatever
the noise, a guarantee needs a bounded range: values are clipped to it before noise is added.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from lowtide.checks import LowtideError, check_shape, one_of, within
from lowtide.disclose.noise import Ids, KeyedNoise, row_ids, value_ids
from lowtide.features import Features
from lowtide.tables import layout
from lowtide.tables.encoder import TableEncoder, read_encoder
from lowtide.tables.merging import Merging
from lowtide.theory import response
from lowtide.types import Bools, Floats, Floats32, Ints

_ENDS = ("low", "high")
_LEARNT = ("fills", "dates", "others", "spans")
_PLAIN = ("lam", "fill", "clip")


class NoiseLevel(TypedDict, total=False):
    """How much noise hidden numbers and answers take.

    Attributes:
        lam: λ in units of each column's range. Without it λ is calibrated so that all features that
            are not kept, hidden together, keep (ε, δ) in both directions for every class.
        epsilon: ε ≥ 0 of the promise; responses are always calibrated from it.
        delta: δ in (0, 1).
        prior: (|S|,) class shares; without them the promise is made for every prior, which takes
            more noise.
    """

    lam: float | None
    epsilon: float | None
    delta: float | None
    prior: ArrayLike | None


@dataclass(frozen=True, eq=False)
class TableMechanism:
    """How the hidden features of a table are disclosed; make one with `TableMechanism.build`.

    Attributes:
        encoder: how tables become rows.
        features: which feature each encoded column belongs to.
        kinds: for each input column `redact`, `gaussian` (numbers, dates) or `response` (text).
        low: (columns,) lower end of the range of each noised input column, NaN elsewhere.
        high: (columns,) upper end.
        keeps: (columns,) probability that a response tells the truth outright, 0 elsewhere.
        lam: λ in units of a column's range; `None` when nothing is noised.
        fill: what a redacted number shows.
        clip: whether noised values are clipped to the range again. That is post-processing: it
            never raises E_γ.
        merging: what makes columns coarser before anything else; the encoder then reads the merged
            table.
    """

    encoder: TableEncoder
    features: Features
    kinds: tuple[layout.Kind, ...]
    low: Floats
    high: Floats
    keeps: Floats
    lam: float | None = None
    fill: float = 0.0
    clip: bool = True
    merging: Merging | None = None

    def __post_init__(self) -> None:
        layout.owners(
            self.encoder, self.features
        )  # refuses a column that belongs to several features
        if (
            not len(self.kinds)
            == len(self.low)
            == len(self.high)
            == len(self.keeps)
            == len(self.encoder.categories)
        ):
            raise LowtideError(
                f"a mechanism needs one entry for each of {len(self.encoder.categories)} input"
                " columns"
            )
        for name, kind, values in zip(
            layout.column_names(self.encoder), self.kinds, self.encoder.categories, strict=True
        ):
            one_of("kind", kind, ("redact", "gaussian", "response"))
            if (kind == "gaussian" and values is not None) or (
                kind == "response" and values is None
            ):
                raise LowtideError(
                    f"column {name!r}: gaussian noise is for numbers, a response for text"
                )
        noised = np.array([kind == "gaussian" for kind in self.kinds])
        if noised.any():
            within("lam", self.lam or 0.0, 0.0, np.inf, low_open=True, high_open=True)
            if not (self.low < self.high)[noised].all():
                raise LowtideError("every noised column needs a range of low < high")
        within("keeps", self.keeps, 0.0, 1.0)
        within("fill", self.fill, -np.inf, np.inf, low_open=True, high_open=True)
        for name in ("low", "high", "keeps"):
            array = np.array(getattr(self, name), dtype=np.float64)
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @classmethod
    def build(
        cls,
        encoder: TableEncoder,
        features: Features,
        rows: Any,
        *,
        kind: Literal["redact", "gaussian"],
        categorical: Literal["redact", "response"] = "redact",
        bounds: layout.Bounds | None = None,
        fill: float = 0.0,
        keep: Sequence[str] = (),
        clip: bool = True,
        **level: Unpack[NoiseLevel],
    ) -> TableMechanism:
        """Choose how each column is hidden, and how much noise it takes.

        Args:
            encoder: how tables become rows.
            features: which feature each encoded column belongs to.
            rows: (n, encoded columns) reference rows, for the range of columns without `bounds`.
            kind: what happens to numbers and dates.
            categorical: what happens to text.
            bounds: the valid range of all columns of numbers, or of some by name; of dates, in days
                since 1970-01-01, by name only. Better than the reference rows' own: the smallest
                and largest value of the data are themselves data.
            fill: what a redacted number shows.
            keep: names of features that are not to be hidden: no noise is spent on them, nor is
                their range needed. Where `hide` is told to hide one nonetheless, it is redacted.
            clip: whether noised values are clipped to the range again.
            **level: how much noise, see `NoiseLevel`.
        """
        lam = level.get("lam")
        one_of("kind", kind, ("redact", "gaussian"))
        one_of("categorical", categorical, ("redact", "response"))
        kinds = layout.choose_kinds(encoder, features, kind, categorical, keep)
        low = np.full(len(kinds), np.nan)
        high = np.full(len(kinds), np.nan)
        noised = np.array([kind == "gaussian" for kind in kinds])
        if noised.any():
            least, most = layout.ranges(encoder, rows, bounds)
            low[noised] = least[noised]
            high[noised] = most[noised]
            layout.refuse_constants(encoder, features, noised & ~(low < high))
        if lam is not None:
            lam = float(within("lam", lam, 0.0, np.inf, low_open=True, high_open=True))
        lam, keeps = layout.scales(
            encoder, kinds, lam, level.get("epsilon"), level.get("delta"), level.get("prior")
        )
        return cls(encoder, features, kinds, low, high, keeps, lam, float(fill), clip)

    def of(self, chosen: ArrayLike) -> TableMechanism:
        """The same for the columns of some features alone, (m,); a table may have others, which it
        does not read.
        """
        mask = self.features.mask(chosen)
        stays = mask[self._owners]
        encoder = self.encoder
        own = {
            name: tuple(itertools.compress(getattr(encoder, name), stays))
            for name in ("names", "categories", *_LEARNT)
        }
        groups = np.cumsum(mask)[self.features.groups[mask[self.features.groups]]] - 1
        return replace(
            self,
            encoder=TableEncoder(**own),
            features=Features(groups, tuple(itertools.compress(self.features.names, mask))),
            kinds=tuple(itertools.compress(self.kinds, stays)),
            low=self.low[stays],
            high=self.high[stays],
            keeps=self.keeps[stays],
        )

    @property
    def draws(self) -> bool:
        """Whether it needs noise, and therefore a key and row ids."""
        return "gaussian" in self.kinds or "response" in self.kinds

    @property
    def blurs(self) -> Bools:
        """(m,) the features that are noised or answered at random when they are hidden."""
        return np.array([bool(columns) for columns in self._noisy], dtype=bool)

    def ratios(self) -> Floats:
        """`D_j/λ_j` of each feature, (m,): √(number of noised columns)/lam, and 0 where nothing is
        noised.
        """
        noised = np.array([kind == "gaussian" for kind in self.kinds])
        counts = np.bincount(self._owners[noised], minlength=len(self.features))
        return np.sqrt(counts) / (self.lam or 1.0)

    def responses(self, feature: int) -> list[tuple[float, int]]:
        """The (keep, k) of each response that feature number `feature` holds; none for a single
        category.
        """
        return [
            (float(self.keeps[j]), len(self.encoder.categories[j] or ()))
            for j in self._noisy[feature]
            if self.kinds[j] == "response" and len(self.encoder.categories[j] or ()) > 1
        ]

    def bound(self, epsilon: float, hidden: ArrayLike, *, prior: ArrayLike | None = None) -> float:
        """The worst `E_{e^ε}` that the hidden features leave, over both directions and all classes.

        Args:
            epsilon: ε ≥ 0.
            hidden: (m,) the features hidden together.
            prior: (|S|,) class shares; without them the bound is the one between two rows, for
                every prior.
        """
        mask = self.features.mask(hidden)
        ratio = float(np.sqrt(np.square(self.ratios()[mask]).sum()))
        answers = [one for j in np.flatnonzero(mask) for one in self.responses(int(j))]
        keeps = [keep for keep, _ in answers]
        sizes = [k for _, k in answers]

        def pairwise(inner: Floats) -> Floats:
            return response.pairwise(inner, ratio, keeps, sizes)

        if prior is None:
            return float(pairwise(within("epsilon", epsilon, 0.0, np.inf)))
        return float(response.lift(pairwise, epsilon, prior).max())

    def hide(
        self,
        rows: ArrayLike,
        hidden: ArrayLike,
        *,
        noise: KeyedNoise | None = None,
        ids: Any = None,
    ) -> Floats32:
        """Return new rows with the hidden features disclosed; all other cells are the same bit for
        bit (paper, Eq. 14).

        That a number was missing is hidden, too: the mark of a hidden one is always 0, and what is
        noised is the value that stands for it.

        Args:
            rows: (n, encoded columns).
            hidden: (m,) or (n, m), true where a feature is hidden.
            noise: keyed noise: a cell keeps its noise as long as its value stays the same, under
                any plan.
            ids: n row ids; see `noise.row_ids`.
        """
        result = self._rows(rows)
        mask = self._mask(hidden, len(result))
        np.copyto(
            result, self._filling[0], where=mask[..., self.features.groups] & self._filling[1]
        )
        each = np.broadcast_to(mask, (len(result), len(self.features)))
        drawn = [j for j, columns in enumerate(self._noisy) if columns and each[:, j].any()]
        if drawn:
            numbers = row_ids(ids, len(result))
            if noise is None:
                raise LowtideError(
                    "hidden features need noise; give noise=KeyedNoise(key), with a key from"
                    " new_key()"
                )
            for j in drawn:
                for column in self._noisy[j]:
                    self._draw(result, np.flatnonzero(each[:, j]), numbers, noise, column)
        return result

    def to_config(self) -> dict[str, Any]:
        """Plain JSON. What stands under `private` was learnt from the data and is not for
        publication.
        """
        encoder = self.encoder
        features = self.features
        private = {
            name: [None if np.isnan(end) else float(end) for end in getattr(self, name)]
            for name in _ENDS
        }
        plain = TableEncoder(encoder.names, encoder.categories)
        learnt = {
            name: list(getattr(encoder, name))
            for name in _LEARNT
            if getattr(encoder, name) != getattr(plain, name)
        }
        return {
            "kinds": list(self.kinds),
            "keeps": self.keeps.tolist(),
            **{name: getattr(self, name) for name in _PLAIN},
            "columns": list(encoder.names),
            "features": {"groups": features.groups.tolist(), "names": list(features.names)},
            "private": {
                **private,
                "categories": [
                    None if values is None else list(values) for values in encoder.categories
                ],
                **learnt,
                **({} if self.merging is None else {"merging": self.merging.to_config()}),
            },
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> TableMechanism:
        """Read back what `to_config` wrote."""
        return cls(**_read_config(config))

    @cached_property
    def _owners(self) -> Ints:
        """The feature of each input column."""
        return layout.owners(self.encoder, self.features)

    @cached_property
    def _starts(self) -> Ints:
        """Where each input column begins among the encoded ones."""
        return np.array(layout.column_starts(self.encoder))

    @cached_property
    def _noisy(self) -> list[list[int]]:
        """For each feature its input columns that need noise."""
        columns: list[list[int]] = [[] for _ in self.features.names]
        for j, owner in enumerate(self._owners):
            if self.kinds[j] in ("gaussian", "response"):
                columns[owner].append(j)
        return columns

    @cached_property
    def _filling(self) -> tuple[Floats32, Bools]:
        """What each encoded column shows when redacted, and whether it is; marks of missing values
        always are.
        """
        number = np.array([values is None for values in self.encoder.categories])
        first = np.zeros(self._starts[-1], dtype=bool)
        first[self._starts[:-1]] = True
        number = np.repeat(number, self.encoder.widths)
        shown = np.where(number & first, self.fill, 0.0).astype(np.float32)
        redacted = np.repeat([kind == "redact" for kind in self.kinds], self.encoder.widths)
        return shown, redacted | (number & ~first)

    def _rows(self, rows: ArrayLike) -> Floats32:
        if sparse.issparse(rows):
            raise LowtideError(
                "rows are sparse, and a mechanism needs dense ones; give rows.toarray()"
            )
        result = np.array(rows, dtype=np.float32)
        check_shape("rows", result.shape, ("n", int(self._starts[-1])))
        return result

    def _mask(self, hidden: ArrayLike, n: int) -> Bools:
        mask = self.features.mask(hidden)
        if mask.ndim == 2 and len(mask) != n:
            raise LowtideError(
                f"hidden has {len(mask)} rows and the table {n}; give one choice, or one per row"
            )
        return mask

    def _draw(self, result: Floats32, rows: Ints, ids: Ids, noise: KeyedNoise, column: int) -> None:
        """Put a noised or randomly answered input column into the given rows.

        Its noise is that of the column's name, not of its place in this plan: another plan gives no
        second look.
        """
        name = layout.column_names(self.encoder)[column]
        start = self._starts[column]
        end = self._starts[column + 1]
        if self.kinds[column] == "gaussian":
            low = self.low[column]
            high = self.high[column]
            values = result[rows, start]
            drawn = noise.cells(name, ids[rows], values).gaussian((self.lam or 0.0) * (high - low))
            result[rows, start] = layout.add_noise(values, drawn, low, high, clip=self.clip)
            return
        truth = result[rows, start:end]
        texts = value_ids([*(self.encoder.categories[column] or ()), ""])
        codes = np.where(truth.any(axis=1), truth.argmax(axis=1), -1)
        cells = noise.cells(name, ids[rows], texts[codes])
        answered = cells.answers(float(self.keeps[column]), end - start)
        codes = np.where(answered < 0, codes, answered)
        # A category that the encoder does not know is answered evenly.
        result[rows, start:end] = np.eye(end - start)[
            np.where(codes < 0, cells.answers(0.0, end - start), codes)
        ]


def _read_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the mechanism whose configuration this is."""
    try:
        private = config["private"]
        if not all(values is None or _are_texts(values) for values in private["categories"]):
            raise TypeError("categories")
        if isinstance(config["fill"], bool) or not isinstance(config["fill"], (int, float)):
            raise TypeError("fill")
        return {
            "encoder": read_encoder({**private, "names": config["columns"]}),
            "features": Features(
                np.array(config["features"]["groups"]), tuple(config["features"]["names"])
            ),
            "kinds": tuple(config["kinds"]),
            **{
                name: np.array(
                    [np.nan if end is None else end for end in private[name]], dtype=float
                )
                for name in _ENDS
            },
            "keeps": np.array(config["keeps"], dtype=float),
            **{name: config[name] for name in _PLAIN},
            "merging": Merging.from_config(private["merging"]) if "merging" in private else None,
        }
    except LowtideError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise LowtideError(
            "the configuration lacks or garbles a part of a mechanism; save it again"
        ) from error


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)
