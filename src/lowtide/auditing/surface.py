"""What the surface of a release tells, and the order of its samples: channels by name, and an
attacker of places.

The attacker "row order" sees nothing but where a sample stands in the file: a file sorted by the
secret tells it all.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.neighbors import KNeighborsClassifier

from lowtide.attack.attackers import AttackLearner
from lowtide.attack.panel import AttackReport, attack
from lowtide.attack.surface import ChannelLeak, telling_channels
from lowtide.checks import LowtideError, check_rows
from lowtide.errors import note
from lowtide.estimate.learners.base import Array, Held, Stage
from lowtide.estimate.learners.classifier import Models, Staged
from lowtide.formatting import in_ascii, interval, percentages
from lowtide.interface import Attack, RowOrder, TextTable
from lowtide.labels import read_classes
from lowtide.protocols import Dataset, Modality, Nouns
from lowtide.splits import generator, read_groups, sample_with_classes
from lowtide.types import Floats, Ints, Labels

_NAMED = 5  # channels in a sentence
_LOOK_LEVEL = 0.99  # of the intervals: every scan and plan looks
_ROW_ORDER = "row order"
_NEIGHBOURS = (300, 100, 30, 10, 3)
_PERIODS = tuple(range(2, 13))  # of classes that take turns
_MOST_ROWS = 50_000
_RUNS = 25  # of neighbours that are looked at in a longer file
# that an attack needs
_LEAST_PER_CLASS = 5
_LEAST_ROWS = 20


class PositionLearner(AttackLearner):
    """The classes of the nearest samples, or trees on the position and its remainders; its stages
    are numbers of neighbours, falling, and the trees.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def fit(
        self, rows: Floats, codes: Labels, log_prior: Floats, held: Held = None, until: Stage = None
    ) -> PositionPath:
        """Fit every model to rows (n, 1 + remainders), the position first."""
        counts = [min(k, max(1, len(codes) // 2)) for k in _NEIGHBOURS]
        near = [KNeighborsClassifier(k).fit(rows[:, :1], codes) for k in counts]
        trees = HistGradientBoostingClassifier(
            max_iter=60,
            max_leaf_nodes=16,
            l2_regularization=5.0,
            early_stopping=False,
            random_state=self._seed,
        )
        return PositionPath(
            tuple(Models([model], _position, log_prior, model.n_neighbors) for model in near),
            Models([trees.fit(rows, codes)], np.asarray, log_prior, len(codes)),
        )


@dataclass(frozen=True, eq=False)
class PositionPath(Staged):
    """The models of places; see `Path`.

    Attributes:
        near: of neighbours, which one more, of the prior, is added to.
        trees: on remainders.
    """

    near: tuple[Models, ...]
    trees: Models

    def scores(self, rows: Floats) -> Array:
        """(stages, n, |S|)."""
        return np.concatenate([model.scores(rows) for model in (*self.near, self.trees)])


def _position(rows: Floats) -> Floats:
    return rows[:, :1]


def attack_order(
    position: ArrayLike,
    s: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    seed: int = 0,
    level: float = 0.95,
) -> AttackReport:
    """Attack samples by their places in the file alone. Samples in between others are what it is
    tested on.

    Args:
        position: (n,) where each sample stands, from 0.
        s: (n,) their secret, finitely many values.
        groups: (n,) samples of one group stay on one side of every split.
        seed: the same seed gives the same report.
        level: of the confidence intervals.
    """
    places = np.asarray(position)
    _, codes = read_classes(s)
    check_rows("position", places.shape, len(codes), flat=True)
    if places.dtype.kind not in "iu":
        raise LowtideError(
            f"position must hold whole numbers, got {places.dtype}; count the rows from 0"
        )
    sides = read_groups(groups, len(codes))
    some = _some(places, codes, seed)
    rows = np.column_stack([places[some], *(places[some] % period for period in _PERIODS)])
    report = attack(
        rows,
        codes[some],
        groups=None if sides is None else sides[some],
        attackers=[PositionLearner],
        seed=seed,
        level=level,
        progress=False,
    )
    named = replace(report.retrained[0], attacker=_ROW_ORDER)
    return replace(report, retrained=(named,), answers={_ROW_ORDER: report.probabilities})


def can_attack(s: ArrayLike) -> bool:
    """Whether so many samples of every class can be learnt from and tested on."""
    counts = np.bincount(read_classes(s)[1])
    return bool(counts.sum() >= _LEAST_ROWS and counts.min() >= _LEAST_PER_CLASS)


def order_tells(report: AttackReport) -> bool:
    """Whether the attacker who sees places only demonstrably learns something."""
    return report.headline.information.found and report.headline.information.low > 0


def _some(places: Ints, codes: Ints, seed: int) -> Ints:
    """All samples; of many, some runs of neighbours: sorted classes show in them, and classes that
    take turns.
    """
    if len(places) <= _MOST_ROWS:
        return np.arange(len(places))
    starts = np.linspace(0, len(places) - _MOST_ROWS // _RUNS, _RUNS).astype(np.intp)
    runs = (starts[:, None] + np.arange(_MOST_ROWS // _RUNS)).ravel()
    chosen = np.unique(np.argsort(places, kind="stable")[runs])
    if np.bincount(codes[chosen], minlength=int(codes.max()) + 1).min() >= _LEAST_PER_CLASS:
        return chosen
    return np.sort(
        sample_with_classes(codes, _MOST_ROWS, _LEAST_PER_CLASS, generator(seed, "row order"))
    )


@dataclass(frozen=True, eq=False)
class SurfaceFindings:
    """What stands beside the values of a release, attacked on its own.

    Attributes:
        order: the attacker who sees only the order of the samples; `None` where they are too few to
            learn from.
        channels: the channels of the surface that clearly tell something beyond the values behind
            them.
        nouns: what the kind of data calls its things.
        alike: (n,) samples that show the very same have one number; `None` for kinds that are not
            counted.
    """

    order: AttackReport | None = field(repr=False)
    channels: tuple[ChannelLeak, ...]
    nouns: Nouns = field(repr=False)
    alike: Ints | None = field(default=None, repr=False)

    @property
    def attack(self) -> Attack | None:
        """What the attacker of places achieves."""
        return None if self.order is None else self.order.headline

    @property
    def order_tells(self) -> bool:
        """Whether the attacker of places demonstrably learns something."""
        return self.order is not None and order_tells(self.order)

    @property
    def row_order(self) -> RowOrder:
        """What a card says of it."""
        return RowOrder(
            None if self.order is None else self.order.headline.information, self.order_tells
        )

    def sentence(self, secret: str) -> str | None:
        """What a person must know of it; `None` where nothing clear was found."""
        said = [] if (told := self.order_sentence(secret)) is None else [told]
        if self.channels:
            names = ", ".join(leak.name for leak in self.channels[:_NAMED])
            more = len(self.channels) - _NAMED
            rest = f" and {more} more channels" if more > 0 else ""
            said.append(
                f"The surface of the release tells the {secret}, where values do not:"
                f" {names}{rest}."
            )
        return " ".join(said) or None

    def order_sentence(self, secret: str) -> str | None:
        """That the order of samples tells the secret, how much, and what to do; `None` where it
        does not.
        """
        if self.order is None or not self.order_tells:
            return None
        found = self.order.headline
        nouns = self.nouns
        here, blind = percentages(found.accuracy.value, self.order.guess.accuracy.value)
        return (
            f"The order of the {nouns.rows} tells the {secret}: an attacker who sees only this"
            f" order is right {here} of the time (guessing blindly gives {blind}),"
            f" {in_ascii(interval(found.information))} nats; {nouns.reorder}."
        )

    def tables(self) -> list[TextTable]:
        """What clearly tells as a table to print; none where nothing does."""
        rows = [(leak.name, str(leak.told.bits)) for leak in self.channels]
        note = "Hiding values does not hide it."
        if self.attack is not None and self.order_tells:
            rows.insert(
                0, (f"the order of the {self.nouns.rows}", str(self.attack.information.bits))
            )
            note += f" For the order: {self.nouns.reorder}."
        return (
            [
                TextTable(
                    "What the surface tells, in bits", ("channel", "held out"), tuple(rows), note
                )
            ]
            if rows
            else []
        )

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "order": self.attack and asdict(self.attack),
            "order_tells": self.order_tells,
            "channels": [asdict(leak) for leak in self.channels],
        }


def examine(
    kind: Modality,
    release: Any,
    labels: ArrayLike,
    *,
    position: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    seed: int = 0,
    level: float = 0.95,
) -> SurfaceFindings:
    """Look at the surface and the order of released samples.

    Args:
        kind: of the data.
        release: n released samples.
        labels: (n,) the secret of every sample.
        position: (n,) where each stands in the release; by default they stand as they are given.
        groups: (n,) samples of one group stay on one side of every split.
        seed: the same seed gives the same findings.
        level: of the intervals.
    """
    places = np.arange(kind.count(release)) if position is None else position
    surface = kind.surface(release)
    channels = telling_channels(surface, labels, groups=groups, seed=seed, level=level)
    return SurfaceFindings(
        _order(places, labels, groups, seed, level), channels, kind.nouns, surface.alike
    )


def examine_data(kind: Modality, data: Dataset, seed: int) -> SurfaceFindings:
    """Look at all that data shows but its secret, as it was opened."""
    places = np.flatnonzero(data.known)
    groups = data.groups
    return examine(
        kind,
        kind.shown(data),
        data.labels,
        position=places,
        groups=groups,
        seed=seed,
        level=_LOOK_LEVEL,
    )


def examine_order(kind: Modality, data: Dataset, seed: int) -> RowOrder:
    """Look at the order of reference data alone, for a card; a note where it tells."""
    found = SurfaceFindings(
        _order(np.flatnonzero(data.known), data.labels, data.groups, seed, _LOOK_LEVEL),
        (),
        kind.nouns,
    )
    if (told := found.order_sentence(data.secret)) is not None:
        note(told)
    return found.row_order


def _order(
    position: ArrayLike, labels: ArrayLike, groups: ArrayLike | None, seed: int, level: float
) -> AttackReport | None:
    """The attack on the order; `None` where samples are too few."""
    return (
        attack_order(position, labels, groups=groups, seed=seed, level=level)
        if can_attack(labels)
        else None
    )
