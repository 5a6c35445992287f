"""The policy `redraw`: every value is kept as often as its density allows, and otherwise drawn
anew.

Features are released one after the other. The density of each is fitted on what rows have released
before it, by the very draws of a rehearsal, so that it knows the pasts it is asked about. A row is
always asked about by models that were fitted without it, and without its copies: its fold follows
from its values.

Where rows are few a second pass, in the reverse order, does the same to what the first has
released. With exact densities it finds nothing to do; with estimated ones it removes most of what
their errors have left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowtide.disclose.noise import Ids, KeyedNoise
from lowtide.tables.codes import CodedColumn, points_of
from lowtide.tables.donors import Donors
from lowtide.tables.frequencies import Frequencies
from lowtide.tables.questions import Question
from lowtide.tables.row_folds import FOLDS, folds_of, folds_to_fit, value_bits
from lowtide.tables.screening import LOOKED_AT, Screen
from lowtide.tables.step_density import StepDensity, fit_step, under
from lowtide.theory import redraw as theory
from lowtide.training import one_thread
from lowtide.types import Bools, Floats, Ints

PROPOSALS = 64  # the most
_GOLDEN = 0.6180339887498949  # multiples of it spread evenly over (0, 1)
ROWS_AT_ONCE = 16_384
_MANY_ROWS = 60_000  # so many leave little for a second pass to do, and take long


class RedrawnRows(NamedTuple):
    """What was released of n rows.

    Attributes:
        codes: (n, columns).
        changed: (n, columns) whether each value is another than it was.
        spent: (n,) `log P'_s/R` of each row, by the densities of the plan.
    """

    codes: Floats
    changed: Bools
    spent: Floats


@dataclass(frozen=True, eq=False)
class FeatureStep:
    """One feature.

    Attributes:
        columns: which columns it has; they are drawn together.
        past: the columns that it looks at, all released before it; all of them, where these are
            few.
        density: what a candidate tells.
        donors: the law that proposals come from.
    """

    columns: tuple[int, ...]
    past: tuple[int, ...]
    density: StepDensity
    donors: Donors

    def concerns(self, codes: Floats) -> Ints:
        """The rows, by their place, of which something may be changed, from codes (n, columns) of
        the feature.

        A density without models says that nothing tells anything: then all are kept but values that
        are not known.
        """
        return (
            np.arange(len(codes))
            if len(self.density.names)
            else np.flatnonzero(self._unknown(codes))
        )

    def _unknown(self, codes: Floats) -> Bools:
        cells = np.column_stack([own.cell(codes[:, j]) for j, own in enumerate(self.density.own)])
        return np.asarray((cells < 0).any(axis=1))

    def apply(
        self,
        asked: Question,
        secret: Ints,
        spent: Floats,
        draw: Callable[[Any, int], Floats],
        width: float,
        counts: Frequencies,
    ) -> tuple[Floats, Ints, Floats]:
        """Release the feature of n rows: its codes and count classes (n, columns), and what is
        spent (n,) afterwards.

        Args:
            asked: what the rows have released, and their own values.
            secret: (n,) their classes.
            spent: (n,) what was spent before.
            draw: numbers in (0, 1) for some rows and a place.
            width: how far `log P'_s/R` of a row may be from 0.
            counts: how often numbers occur in the file that is released.
        """
        every = np.arange(len(secret))
        told = np.where(
            self._unknown(asked.codes), np.inf, self.density.about(asked)[every, secret]
        )
        if width == 0:
            kept = draw(every, 0) < theory.keep_probability(told, 0.0)
            floor = np.zeros(len(secret))
            cap = np.zeros(len(secret))
            out = np.flatnonzero(~kept)
            proposals = self._propose(
                asked[out], secret[out], lambda place: draw(out, place), counts
            )
        else:
            proposals = self._propose(asked, secret, lambda place: draw(every, place), counts)
            shift = np.log((proposals.weights * np.exp(proposals.told)).sum(axis=1))  # Σ Q e^i = 1
            proposals = proposals._replace(told=proposals.told - shift[:, None])
            told = told - shift
            limits = np.minimum(-width - spent, 0.0), np.maximum(width - spent, 0.0)
            floor, cap = theory.levels(proposals.told, proposals.weights, *limits)
            kept = draw(every, 0) < theory.keep_probability(told, cap)
            out = np.flatnonzero(~kept)
            proposals = proposals.take(out)
        codes = asked.codes.copy()
        classes = asked.classes.copy()
        chosen = told.copy()
        if len(out):
            place = theory.pick(proposals.told, proposals.weights, floor[out], draw(out, 3))
            each = np.arange(len(out))
            codes[out] = proposals.codes[each, place]
            classes[out] = proposals.classes[each, place]
            chosen[out] = proposals.told[each, place]
        return codes, classes, spent + np.clip(chosen, floor, cap)

    def _propose(
        self,
        asked: Question,
        secret: Ints,
        draw: Callable[[int], Floats],
        counts: Frequencies,
    ) -> Proposals:
        """Values that may stand in for those of n rows, and what each tells about the row's
        class.
        """
        n = len(secret)
        if n == 0:
            nothing = np.zeros((0, 1, len(self.columns)))
            return Proposals(nothing, nothing.astype(np.intp), nothing[:, :, 0], nothing[:, :, 0])
        points, weights = self.donors.candidates(self.donors.leaves(asked.past), draw(1), PROPOSALS)
        number = points.shape[1]
        within = (draw(2)[:, None] + _GOLDEN * np.arange(number)) % 1.0
        codes, classes = self.donors.draw(self.density.own, points, within, (counts, self.columns))
        told = self.density.about(asked.instead(codes, classes))
        own = told[np.arange(n * number), np.repeat(secret, number)].reshape(n, number)
        return Proposals(codes, classes, own, weights)


class Proposals(NamedTuple):
    """Values that may stand in for others.

    Attributes:
        codes: (n, proposals, columns).
        classes: (n, proposals, columns) how often numbers occur, in classes.
        told: (n, proposals) what each tells about the class of the row.
        weights: (n, proposals) its share of the law that proposals come from.
    """

    codes: Floats
    classes: Ints
    told: Floats
    weights: Floats

    def take(self, rows: Ints) -> Proposals:
        """Those of some rows."""
        return Proposals(self.codes[rows], self.classes[rows], self.told[rows], self.weights[rows])


@dataclass(frozen=True, eq=False)
class RedrawColumns:
    """A fitted policy.

    Attributes:
        coded: how the columns are coded, in the order of the table.
        kept: columns that are released as they are, before all others.
        passes: the features in the order of their release, for each pass.
        width: how far `log P'_s/R` of a row may be from 0, the same for all classes.
        folds: how many there are.
        seed: of the folds.
    """

    name: ClassVar[str] = "redraw"
    coded: tuple[CodedColumn, ...]
    kept: tuple[int, ...]
    passes: tuple[tuple[FeatureStep, ...], ...]
    width: float
    folds: int
    seed: int

    def release(
        self, codes: Floats, counts: Frequencies, secret: Ints, ids: Ids, noise: KeyedNoise
    ) -> RedrawnRows:
        """Release n rows.

        Args:
            codes: (n, columns) as `coded` reads them.
            counts: how often numbers occur in the whole table.
            secret: (n,) the class of each row.
            ids: (n,) of the rows.
            noise: where draws come from.
        """
        fold = folds_of(codes, secret, self.folds, self.seed)
        rows = _Rows(self.coded, self.kept, codes, counts, secret, ids, fold, self.width)
        for number, steps in enumerate(self.passes):
            rows.begin()
            for step in steps:
                rows.follow(step, _stream(noise, number))
        return RedrawnRows(rows.codes, ~_same(rows.codes, codes), rows.spent)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All numbers of the steps, by name."""
        found: dict[str, NDArray[Any]] = {}
        for number, steps in enumerate(self.passes):
            for k, step in enumerate(steps):
                for part, arrays in (
                    ("density", step.density.arrays()),
                    ("donors", step.donors.arrays()),
                ):
                    found |= {
                        f"{number}.{k}.{part}.{name}": array for name, array in arrays.items()
                    }
                if step.density.screened:
                    found[f"{number}.{k}.past"] = np.array(step.past, dtype=np.int64)
        return found

    def to_config(self) -> dict[str, Any]:
        """What is not an array, as plain JSON."""
        return {
            "name": self.name,
            "coded": [own.to_config() for own in self.coded],
            "kept": list(self.kept),
            "passes": [[list(step.columns) for step in steps] for steps in self.passes],
            "width": None if np.isinf(self.width) else self.width,
            "folds": self.folds,
            "seed": self.seed,
        }

    @classmethod
    def read(cls, config: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> RedrawColumns:
        """Rebuild what `to_config` and `arrays` gave."""
        coded = tuple(CodedColumn.from_config(own) for own in config["coded"])
        kept = tuple(map(int, config["kept"]))
        held: dict[str, dict[str, NDArray[Any]]] = {}
        for name, array in arrays.items():
            number_of, _, rest = name.partition(".")
            step_of, _, part = rest.partition(".")
            held.setdefault(f"{number_of}.{step_of}", {})[part] = array
        passes = []
        for number, listed in enumerate(config["passes"]):
            past = list(kept)
            steps = []
            for k, columns in enumerate(listed):
                own = tuple(map(int, columns))
                there = held[f"{number}.{k}"]
                seen = tuple(there["past"].tolist()) if "past" in there else tuple(past)
                before = tuple(coded[j] for j in seen)
                mine = tuple(coded[j] for j in own)
                density = StepDensity.of_arrays(under(there, "density."), before, mine)
                steps.append(
                    FeatureStep(own, seen, density, Donors.of_arrays(under(there, "donors.")))
                )
                past += own
            passes.append(tuple(steps))
        width = np.inf if config["width"] is None else float(config["width"])
        return cls(coded, kept, tuple(passes), width, int(config["folds"]), int(config["seed"]))


class _Rows:
    """Rows on their way through the passes."""

    def __init__(
        self,
        coded: tuple[CodedColumn, ...],
        kept: tuple[int, ...],
        codes: Floats,
        counts: Frequencies,
        secret: Ints,
        ids: Ids,
        fold: Ints,
        width: float,
    ) -> None:
        self.coded = coded
        self.kept = kept
        self.secret = secret
        self.ids = ids
        self.fold = fold
        self.width = width
        self.counts = counts
        self.codes = codes.copy()
        self.classes = counts.classes(codes)
        self.spent = np.zeros(len(codes))
        self.past: list[int] = []

    def begin(self) -> None:
        """Begin a pass: nothing but what is kept has been released in it."""
        self.past, self.spent = list(self.kept), np.zeros(len(self.codes))

    def follow(self, step: FeatureStep, noise: KeyedNoise) -> None:
        """Release the next feature of all rows."""
        own = list(step.columns)
        name = " + ".join(self.coded[j].name for j in own)
        concerned = step.concerns(self.codes[:, own])
        with one_thread():
            for start in range(0, len(concerned), ROWS_AT_ONCE):
                rows = concerned[start : start + ROWS_AT_ONCE]
                asked = Question.of(
                    self.coded,
                    self.codes[rows],
                    self.classes[rows],
                    self.fold[rows],
                    step.past,
                    own,
                )
                draw = drawing(noise, name, self.ids[rows], asked.codes)
                codes, classes, self.spent[rows] = step.apply(
                    asked,
                    self.secret[rows],
                    self.spent[rows],
                    draw,
                    self.width,
                    self.counts,
                )
                self.codes[rows[:, None], own] = codes
                self.classes[rows[:, None], own] = classes
        self.past += own


def fit_redraw(
    coded: tuple[CodedColumn, ...],
    codes: Floats,
    counts: Frequencies,
    secret: Ints,
    ids: Ids,
    *,
    features: Sequence[tuple[int, ...]],
    kept: tuple[int, ...] = (),
    width: float = 0.0,
    passes: int | None = None,
    noise: KeyedNoise,
    seed: int = 0,
    tick: Callable[[float], None] = lambda _: None,
) -> tuple[RedrawColumns, RedrawnRows]:
    """Fit the policy on reference rows, releasing them on the way.

    Args:
        coded: how the columns are coded.
        codes: (n, columns).
        counts: how often numbers occur.
        secret: (n,) classes, coded 0 … |S|−1.
        ids: (n,) of the rows.
        features: groups of columns that are drawn together, in the order of release, without those
            that are kept.
        kept: columns that are released as they are.
        width: how far `log P'_s/R` of a row may be from 0; only with 0 there is more than one pass.
        passes: how many there are, every second one in the reverse order; by default one for many
            rows, else two.
        noise: of the rehearsal.
        seed: of folds and trees.
        tick: called with the share of the work that is done.

    Returns:
        The policy, and what it releases of these rows under the noise of the rehearsal.
    """
    rows = _Rows(coded, kept, codes, counts, secret, ids, folds_to_fit(codes, secret, seed), width)
    screen = Screen(coded, codes, secret, rows.fold, seed) if len(coded) > LOOKED_AT else None
    done: list[tuple[FeatureStep, ...]] = []
    number = 1
    if width == 0:
        number = passes or (1 if len(codes) > _MANY_ROWS else 2)
    for turn in range(number):
        rows.begin()
        steps: list[FeatureStep] = []
        for columns in features if turn % 2 == 0 else reversed(features):
            steps.append(_fit_next(rows, screen, columns, seed + 1000 * turn + len(steps)))
            rows.follow(steps[-1], _stream(noise, turn))
            if screen is not None:
                screen.read(rows.codes, columns)
            tick((turn + len(steps) / len(features)) / number)
        done.append(tuple(steps))
    policy = RedrawColumns(coded, kept, tuple(done), width, FOLDS, seed)
    return policy, RedrawnRows(rows.codes, ~_same(rows.codes, codes), rows.spent)


def _fit_next(
    rows: _Rows, screen: Screen | None, columns: tuple[int, ...], seed: int
) -> FeatureStep:
    """Fit the density and the donors of the next feature."""
    looks = None if screen is None else screen.choose(rows.past, columns)
    past = tuple(rows.past if looks is None else looks.columns)
    asked = Question.of(rows.coded, rows.codes, rows.classes, rows.fold, past, columns)
    before = tuple(rows.coded[j] for j in past)
    mine = tuple(rows.coded[j] for j in columns)
    points = points_of(mine, asked.codes, asked.classes)
    with one_thread():
        seen = None if looks is None else looks.folds
        density = fit_step(before, mine, asked, rows.secret, seed=seed, seen=seen)
        donors = Donors.learn(asked.past, points, seed, None if looks is None else looks.donors)
    return FeatureStep(columns, past, density, donors)


def _stream(noise: KeyedNoise, number: int) -> KeyedNoise:
    """The noise of a pass: the value that one pass has drawn may not decide what becomes of it in
    the next.
    """
    return noise if number == 0 else noise.derive(b"redraw, pass %d" % number)


def drawing(noise: KeyedNoise, name: str, ids: Ids, codes: Floats) -> Callable[[Any, int], Floats]:
    """Numbers in (0, 1) that belong to the cells of a feature: `draw(rows, place)`, other ones for
    every place.
    """
    values = value_bits(codes)
    cache: dict[tuple[int, int], Any] = {}

    def draw(rows: Any, place: int) -> Floats:
        mark = (len(rows), int(rows[0]) if len(rows) else 0)
        if mark not in cache:
            cache[mark] = noise.cells(f"redraw of {name}", ids[rows], values[rows])
        return cache[mark].uniform(place)

    return draw


def _same(a: Floats, b: Floats) -> Bools:
    return (a == b) | (np.isnan(a) & np.isnan(b))
