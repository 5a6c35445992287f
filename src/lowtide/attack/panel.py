"""A panel of attackers against one release: freshly retrained on it, and beside them those who know
clean data only.
"""

import itertools
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lowtide import modalities
from lowtide.attack.attackers import (
    AttackRows,
    Continued,
    as_maker,
    is_classifier,
    other_attackers,
    trains_networks,
)
from lowtide.attack.cross_fitting import FoldedPanel
from lowtide.attack.learning_curve import LearningCurve
from lowtide.attack.lessons import Makers, Source, Table
from lowtide.checks import LowtideError, booleans, one_of, within
from lowtide.extras import has_torch, need_torch, note_without_torch
from lowtide.interface import Attack, strongest
from lowtide.labels import read_classes
from lowtide.progress import progress_bar
from lowtide.protocols import Modality
from lowtide.splits import Split, each_set_aside, read_groups, set_aside, stream
from lowtide.types import Floats, Labels

_LEAST_ROWS = 20
_LEAST_PER_CLASS = (
    5  # two to learn from, one to validate and one to test on, with room for rounding
)
_JUDGING = 0.25
_SLACK = 0.05  # a fold may be so much larger than asked for: classes do not divide evenly


@dataclass(frozen=True, eq=False)
class AttackReport:
    """What a panel of attackers learns about the secret, on rows that none of them was trained on.

    In each figure the lower ends of all attackers of one role hold together, so that the best may
    be picked: its interval has paid for the choice.

    Attributes:
        guess: the control that knows the prior only.
        retrained: attackers trained on the release: the ones that count.
        clean: attackers trained and tested on clean data; empty without it.
        fixed: the same attackers turned to the release, without having seen one; empty without
            clean data, or where `fixed_missing` says why.
        fixed_missing: why there is no fixed attacker although clean data was given; `None`
            otherwise.
        answers: `q(s|y)` of each retrained attacker on the test rows, (n_test, |S|), by name; on
            fewer of them where `places` has its name.
        codes: (n_test,) their classes.
        prior: (|S|,) the shares of the classes among the training rows.
        rows: (n_test,) which rows of the table they are.
        curve: what a retrained attacker reads having learnt from parts of the rows; `None` when
            nobody asked, and where there are too few rows to halve.
        places: of attackers that were trained once, and not for every fold: which of the test rows
            they were tested on, by name.
        halved: `q(s|y)` of the attacker of the curve, having learnt from half of the rows, on the
            rows of `tested(…)` of it; `None` without a curve.
        learnt: how many rows each attacker learnt from, the mean over folds; `None` where nobody
            says.
    """

    guess: Attack
    retrained: tuple[Attack, ...]
    clean: tuple[Attack, ...]
    fixed: tuple[Attack, ...]
    fixed_missing: str | None
    answers: Mapping[str, Floats] = field(repr=False)
    codes: Labels = field(repr=False)
    prior: Floats = field(repr=False)
    rows: Labels = field(repr=False)
    curve: LearningCurve | None = None
    places: Mapping[str, Labels] = field(default_factory=dict, repr=False)
    halved: Floats | None = field(default=None, repr=False)
    learnt: int | None = None

    @property
    def headline(self) -> Attack:
        """The strongest that retrained attackers achieve, in each figure; see
        `lowtide.interface.strongest`.
        """
        return strongest(self.retrained)

    @property
    def headline_clean(self) -> Attack | None:
        """The strongest that attackers achieve on clean data, in each figure, when it was given."""
        return strongest(self.clean) if self.clean else None

    @property
    def headline_fixed(self) -> Attack | None:
        """The attacker with the most information on clean data, turned to the release without
        retraining.
        """
        return next((one for one in self.fixed if one.attacker == self.strongest_clean), None)

    @property
    def strongest(self) -> str:
        """The name of the retrained attacker with the most information."""
        return _most_information(self.retrained)

    @property
    def strongest_clean(self) -> str | None:
        """The same among those trained on clean data; `None` without it."""
        return _most_information(self.clean) if self.clean else None

    @property
    def probabilities(self) -> Floats:
        """`q(s|y)` of the retrained attacker with the most information, on the rows of
        `tested(strongest)`.
        """
        return self.answers[self.strongest]

    def tested(self, name: str) -> Labels:
        """Which of the test rows a retrained attacker was tested on, as places in `codes`."""
        return self.places.get(name, np.arange(len(self.codes)))


def attack(
    release: Any,
    s: ArrayLike,
    *,
    clean: Any = None,
    groups: ArrayLike | None = None,
    attackers: Any = None,
    test_share: float = 0.2,
    test: ArrayLike | None = None,
    elsewhere: bool = False,
    seed: int = 0,
    level: float = 0.95,
    curve: bool = False,
    progress: bool | None = None,
) -> AttackReport:
    """Attack a release with freshly trained attackers.

    Args:
        release: the released table: an array, a data frame of any library, a sparse matrix or a
            tensor; or images, `Images` or bytes (n, height, width[, channels]); or texts, a list of
            them.
        s: the secret of every row, finitely many values.
        clean: the table before the release, rows in the same order, for the comparison with
            attackers that never saw a release.
        groups: (n,) rows of one group, such as the texts of an author, stay on one side of every
            split.
        attackers: one or several: names of attackers on this kind of data (`Modality.attackers`,
            and those that other packages add), and scikit-learn classifiers with `predict_proba`,
            which are cloned and read rows as numbers; all that have names by default. Some go on
            from an attacker trained on `clean`, and are there only with it. On images and texts two
            or more are joined into one, "together".
        test_share: share of the rows that is set aside at a time, at most; attackers learn from all
            others. Each row is set aside once, unless there are more rows than the kind cross-fits
            (`Modality.cross_fitted_rows`): then attackers are trained once and tested on this
            share, as are those that take long (`Modality.trained_once`).
        test: (n,) true for the rows to test on; all by default. Attackers learn from the other rows
            and, where these are too few, from those to test that are not set aside.
        elsewhere: whether the rows to test come from elsewhere than the others. These alone are
            then learnt from, and say how far attackers are believed; there is no `clean`.
        seed: the same seed gives the same report.
        level: of the confidence intervals.
        curve: whether to train the strongest attacker on parts of the rows, too.
        progress: whether to draw a progress bar; by default only on a terminal.
    """
    within("test_share", test_share, 0.0, 1.0, low_open=True, high_open=True)
    within("level", level, 0.0, 1.0, low_open=True, high_open=True)
    modality = _kind(release, clean)
    _, codes = read_classes(s)
    sides = read_groups(groups, len(codes))
    rows = _read(modality, release, codes, s, "release")
    clean_rows = None if clean is None else _read(modality, clean, codes, s, "clean")
    names, makers = _read_makers(attackers, _known(modality, rows, clean_rows), modality)
    split_seed, attack_seed = stream(seed, "attack panel").spawn(2)
    folded = modality.cross_fitted_rows
    if elsewhere or modality.trained_once.issuperset(names):
        folded = 0
    splits = _splits(codes, sides, test, test_share, folded, split_seed)
    if elsewhere:
        splits.append(_judge(codes, sides, splits[0], split_seed))
    panel = FoldedPanel(
        names,
        makers,
        modality.joins_attackers,
        modality.trained_once,
        codes,
        sides,
        splits,
        int(attack_seed.generate_state(1)[0]),
        level,
        elsewhere,
    )
    return _attacked(panel, modality, release, rows, clean_rows, curve, progress)


def _attacked(
    panel: FoldedPanel,
    modality: Modality,
    release: Any,
    rows: AttackRows,
    clean_rows: AttackRows | None,
    curve: bool,
    progress: bool | None,
) -> AttackReport:
    """Train on the release, and on clean rows where there are any; test, and score."""
    tables: dict[Table, Any] = {"release": rows.data}
    missing = None
    if clean_rows is not None:
        again, missing = modality.rows_like(release, rows, clean_rows)
        tables["clean"] = clean_rows.data
        if again is not None:
            tables["turned"] = again.data
    with progress_bar(
        "attacking", panel.trainings(clean=clean_rows is not None) + curve, progress
    ) as show:
        steps = itertools.count(1)
        found = panel.train(tables, panel.names, lambda: show(next(steps)))
        answers = found["release"]
        retrained = panel.scored(answers, "release", "release")
        learnt = panel.learning(rows.data, retrained, answers) if curve else None
    return AttackReport(
        guess=panel.guess(),
        retrained=retrained,
        clean=panel.scored(found.get("clean", {}), "clean", "clean"),
        fixed=panel.scored(found.get("turned", {}), "clean", "release"),
        fixed_missing=missing,
        answers=answers,
        codes=panel.codes[panel.rows],
        prior=panel.prior,
        rows=panel.rows,
        curve=None if learnt is None else learnt.curve,
        halved=None if learnt is None else learnt.halved,
        places={
            name: place
            for name, place in panel.places(answers).items()
            if len(place) < len(panel.rows)
        },
        learnt=panel.learnt,
    )


def _most_information(attacks: Iterable[Attack]) -> str:
    return max(attacks, key=lambda one: one.information.value).attacker


def _splits(
    codes: Labels,
    groups: Labels | None,
    test: ArrayLike | None,
    share: float,
    cross_fitted: int,
    seed: np.random.SeedSequence,
) -> list[Split]:
    """The rows to learn from and to test, fold by fold; one fold where there are more rows than are
    cross-fitted.
    """
    given = None if test is None else _given(test, codes, groups)
    if len(codes) <= cross_fitted:
        tested = (
            np.ones(len(codes), dtype=bool)
            if given is None
            else np.isin(np.arange(len(codes)), given.aside)
        )
        folds = each_set_aside(
            codes, groups, tested, max(1, math.ceil(tested.mean() / share - _SLACK)), seed=seed
        )
        if len(folds) > 1 or given is not None:
            return folds
    return [set_aside(codes, groups, share, seed=seed) if given is None else given]


def _judge(
    codes: Labels, groups: Labels | None, split: Split, seed: np.random.SeedSequence
) -> Split:
    """Of the rows to learn from, a quarter that says how far attackers are believed."""
    sides = None if groups is None else groups[split.kept]
    part = set_aside(codes[split.kept], sides, _JUDGING, seed=seed)
    return Split(split.kept[part.kept], split.kept[part.aside])


def _given(test: ArrayLike, codes: Labels, groups: Labels | None) -> Split:
    """The split that a mask over the rows asks for."""
    aside = booleans("test", test, codes.shape)
    if any(len(np.unique(codes[part])) < len(np.unique(codes)) for part in (aside, ~aside)):
        raise LowtideError(
            "test must leave rows of every class on both sides; choose the rows class by class"
        )
    torn = 0 if groups is None else len(np.intersect1d(groups[aside], groups[~aside]))
    if torn:
        raise LowtideError(
            f"test tears {torn} groups apart; test on whole groups, or leave groups out"
        )
    return Split(np.flatnonzero(~aside), np.flatnonzero(aside))


def _kind(release: Any, clean: Any) -> Modality:
    """The kind of data, which release and clean data must share."""
    modality = modalities.of(release)
    other = modality if clean is None else modalities.of(clean)
    if other.name != modality.name:
        raise LowtideError(
            f"release and clean must be of one kind, got {modality.name} and {other.name}"
        )
    return modality


def _known(modality: Modality, rows: AttackRows, clean: AttackRows | None) -> Makers:
    """The attackers that have names; some of them go on from attackers on clean rows of the same
    shape.
    """
    makers = {**modality.attackers, **other_attackers(modality.name, modality.numbers)}
    alike = clean is not None and clean.data.shape[1:] == rows.data.shape[1:]
    return {
        name: maker for name, maker in makers.items() if alike or not isinstance(maker, Continued)
    }


def _read_makers(
    attackers: Any, known: Makers, modality: Modality
) -> tuple[tuple[str, ...], Makers]:
    """The names of the attackers that a user asks for, where a classifier is called by its class;
    and all makers.
    """
    if attackers is None:
        note_without_torch("attacked")
        return (
            tuple(
                name for name, maker in known.items() if has_torch() or not trains_networks(maker)
            ),
            known,
        )
    alone = (
        isinstance(attackers, str)
        or is_classifier(attackers)
        or not isinstance(attackers, Iterable)
    )
    given = (attackers,) if alone else tuple(attackers)
    if not given:
        raise LowtideError(
            f"attackers is empty; give some of {', '.join(map(repr, known))}, or leave it out"
        )
    names = []
    makers = dict(known)
    for one in given:
        if isinstance(one, str):
            names.append(one_of("attackers", one, tuple(known)))
            if trains_networks(known[one]):
                need_torch(f"the attacker {one!r}")
            continue
        maker = as_maker(one, modality.numbers)
        name = _new_name(one, makers)
        makers[name] = maker
        names.append(name)
    return tuple(dict.fromkeys(names)), makers


def _new_name(given: Any, taken: Collection[str]) -> str:
    """The name of a classifier's class, numbered from 2 on where there are several."""
    name = given.__name__ if hasattr(given, "__name__") else type(given).__name__
    numbered = (name if k == 1 else f"{name} {k}" for k in itertools.count(1))
    return next(one for one in numbered if one not in taken)


def _read(modality: Modality, data: Any, codes: Labels, s: Any, table: Source) -> AttackRows:
    """Read data; refuse what does not fit the secret, or holds it."""
    rows: AttackRows = modality.rows(data)
    n = rows.data.shape[0]
    if n != len(codes):
        raise LowtideError(
            f"{table} has {n} rows and s {len(codes)}; they must be the same rows, in order"
        )
    if len(codes) < _LEAST_ROWS:
        raise LowtideError(
            f"an attack needs at least {_LEAST_ROWS} rows to learn and to test on, got {len(codes)}"
        )
    rare = int((np.bincount(codes) < _LEAST_PER_CLASS).sum())
    if rare:
        raise LowtideError(
            f"{rare} of the {int(codes.max()) + 1} classes of s have fewer than {_LEAST_PER_CLASS}"
            " rows; an attack needs that many to learn from and to test on: merge or drop them"
        )
    name = getattr(s, "name", None)
    if name is not None and str(name) in rows.names:
        raise LowtideError(
            f"{table} still holds the secret's own column {str(name)!r}; drop it before attacking"
        )
    return rows
