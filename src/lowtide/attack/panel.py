"""A panel of attackers against one release: freshly retrained on it, and beside them those who know clean data only."""

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from lowtide import modalities
from lowtide.attack import scores
from lowtide.attack.attackers import (
    Attacker,
    AttackRows,
    Continued,
    Maker,
    Together,
    as_maker,
    is_classifier,
    plugged_attackers,
)
from lowtide.checks import LowtideError, booleans, one_of, within
from lowtide.interface import Attack
from lowtide.labels import read_classes
from lowtide.progress import progress_bar
from lowtide.protocols import Modality
from lowtide.splits import Split, read_groups, set_aside, stream
from lowtide.types import Floats, Labels

Source = Literal["release", "clean"]
_LEAST_ROWS = 20
_LEAST_PER_CLASS = 5  # two to learn from, one to validate and one to test on, with room for rounding
_TOGETHER = "together"


Makers = Mapping[str, Maker | Continued]
"""Makers of attackers by name."""


@dataclass(frozen=True, eq=False)
class AttackReport:
    """What a panel of attackers learns about the secret, on rows that none of them was trained on.

    Attributes:
        guess: the control that knows the prior only.
        retrained: attackers trained on the release: the ones that count.
        clean: attackers trained and tested on clean data; empty without it.
        fixed: the same attackers turned to the release, without having seen one; empty without clean data, or where
            `fixed_missing` says why.
        strongest: the retrained attacker that did best on the validation rows, so that choosing it does not flatter
            its figures on the test rows.
        strongest_clean: the same among those trained on clean data; `None` without it.
        fixed_missing: why there is no fixed attacker although clean data was given; `None` otherwise.
        probabilities: (n_test, |S|) `q(s|y)` of the strongest retrained attacker on the test rows.
        codes: (n_test,) their classes.
        prior: (|S|,) the shares of the classes among the training rows.
        rows: (n_test,) which rows of the table they are.
    """

    guess: Attack
    retrained: tuple[Attack, ...]
    clean: tuple[Attack, ...]
    fixed: tuple[Attack, ...]
    strongest: str
    strongest_clean: str | None
    fixed_missing: str | None
    probabilities: Floats = field(repr=False)
    codes: Labels = field(repr=False)
    prior: Floats = field(repr=False)
    rows: Labels = field(repr=False)

    @property
    def headline(self) -> Attack:
        """The strongest attacker that was retrained on the release."""
        return _named(self.retrained, self.strongest)

    @property
    def headline_clean(self) -> Attack | None:
        """The strongest attacker on clean data, when it was given."""
        return None if self.strongest_clean is None else _named(self.clean, self.strongest_clean)

    @property
    def headline_fixed(self) -> Attack | None:
        """The attacker strongest on clean data, turned to the release without retraining, when there is one."""
        return _named(self.fixed, self.strongest_clean) if self.strongest_clean is not None and self.fixed else None


class _PanelAnswers(NamedTuple):
    """What attackers said about test rows, and what the validation rows had promised, by name."""

    attackers: dict[str, Attacker]
    together: Together | None
    tested: dict[str, Floats]

    @property
    def best(self) -> str:
        gains = {name: attacker.validation for name, attacker in self.attackers.items()}
        if self.together is not None:
            gains[_TOGETHER] = self.together.validation
        return max(gains, key=lambda name: gains[name])


def attack(
    release: Any,
    s: ArrayLike,
    *,
    clean: Any = None,
    groups: ArrayLike | None = None,
    attackers: Any = None,
    test_share: float = 0.4,
    test: ArrayLike | None = None,
    seed: int = 0,
    level: float = 0.95,
    progress: bool | None = None,
) -> AttackReport:
    """Attack a release with freshly trained attackers.

    Args:
        release: the released table: an array, a data frame of any library, a sparse matrix or a tensor; or images,
            `Images` or bytes (n, height, width[, channels]); or texts, a list of them.
        s: the secret of every row, finitely many values.
        clean: the table before the release, rows in the same order, for the comparison with attackers that never saw
            a release.
        groups: (n,) rows of one group, such as the texts of an author, stay on one side of every split.
        attackers: one or several: names of attackers on this kind of data (`Modality.attackers`, and those that other
            packages add), and scikit-learn classifiers with `predict_proba`, which are cloned and read rows as numbers;
            all that have names by default. Some go on from an attacker trained on `clean`, and are there only with it.
            On images and texts two or more are joined into one, "together".
        test_share: share of the rows that every attacker is tested on. Of the rest, a quarter is for validation.
        test: (n,) true for the rows to test on, in place of a random share.
        seed: the same seed gives the same report.
        level: of the confidence intervals.
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
    root = stream(seed, "attack panel")
    split_seed, attack_seed = root.spawn(2)
    split = set_aside(codes, sides, test_share, seed=split_seed) if test is None else _given(test, codes, sides)
    joins = modality.joins_attackers
    panel = _Panel(names, makers, joins, codes, sides, split, int(attack_seed.generate_state(1)[0]), level)
    with progress_bar("attacking", len(names) + (0 if clean is None else len(panel.known)), progress) as show:
        steps = itertools.count(1)

        def tick() -> None:
            show(next(steps))

        if clean_rows is None:
            return panel.report(panel.train(rows.data, names, tick))
        control = panel.train(clean_rows.data, panel.known, tick)
        retrained = panel.train(rows.data, names, tick, clean=control.attackers)
    again, missing = modality.rows_like(release, rows, clean_rows)
    fixed = None if again is None else panel.test(control, again.data)
    return panel.report(retrained, control, fixed, missing)


@dataclass(frozen=True)
class _Panel:
    """Attackers on one split of the rows."""

    names: tuple[str, ...]
    makers: Makers
    joins: bool
    codes: Labels
    groups: Labels | None
    split: Split
    seed: int
    level: float

    @property
    def known(self) -> tuple[str, ...]:
        """Those to train on clean rows: one that goes on from another needs the one that it starts from."""
        makers = ((name, self.makers[name]) for name in self.names)
        return tuple(dict.fromkeys(one.starts_from if isinstance(one, Continued) else name for name, one in makers))

    def train(
        self,
        rows: Any,
        names: tuple[str, ...],
        tick: Callable[[], None],
        *,
        clean: Mapping[str, Attacker] | None = None,
    ) -> _PanelAnswers:
        """Train attackers on the training rows, from `clean` ones where they need it, and ask about the test rows."""
        fitted: dict[str, Attacker] = {}
        kept = self.split.kept
        groups = None if self.groups is None else self.groups[kept]
        for name in names:
            # One seed for all: they set the same validation rows aside.
            attacker = _made(self.makers[name], self.seed, clean or {})
            fitted[name] = attacker.fit(rows[kept], self.codes[kept], groups)
            tick()
        together = Together.of(fitted, self.prior) if self.joins and len(fitted) > 1 else None
        return self.test(_PanelAnswers(fitted, together, {}), rows)

    def test(self, answers: _PanelAnswers, rows: Any) -> _PanelAnswers:
        """Ask trained attackers about the test rows of a table."""
        target = rows[self.split.aside]
        tested = {name: attacker.probabilities(target) for name, attacker in answers.attackers.items()}
        if answers.together is not None:
            tested[_TOGETHER] = answers.together(tested)
        return answers._replace(tested=tested)

    def report(
        self,
        retrained: _PanelAnswers,
        control: _PanelAnswers | None = None,
        fixed: _PanelAnswers | None = None,
        missing: str | None = None,
    ) -> AttackReport:
        """Score all answers."""
        return AttackReport(
            guess=self._guess(),
            retrained=self._scored(retrained, "release", "release"),
            clean=self._scored(control, "clean", "clean"),
            fixed=self._scored(fixed, "clean", "release"),
            strongest=retrained.best,
            strongest_clean=None if control is None else control.best,
            fixed_missing=missing,
            probabilities=retrained.tested[retrained.best],
            codes=self.codes[self.split.aside],
            prior=self.prior,
            rows=self.split.aside,
        )

    @property
    def prior(self) -> Floats:
        """Shares of the classes among the training rows, (|S|,)."""
        return np.bincount(self.codes[self.split.kept]) / len(self.split.kept)

    def _scored(self, answers: _PanelAnswers | None, trained_on: Source, target: Source) -> tuple[Attack, ...]:
        tested = {} if answers is None else answers.tested
        return tuple(self._score(name, trained_on, target, q) for name, q in tested.items())

    def _guess(self) -> Attack:
        return self._score("guess", "nothing", "release", np.tile(self.prior, (len(self.split.aside), 1)))

    def _score(
        self, name: str, trained_on: Literal["release", "clean", "nothing"], target: Source, q: Floats
    ) -> Attack:
        codes = self.codes[self.split.aside]
        return Attack(
            name,
            trained_on,
            target,
            accuracy=scores.accuracy(q, codes, level=self.level),
            auc=scores.auc(q, codes, level=self.level),
            information=scores.information(q, codes, prior=self.prior, level=self.level),
        )


def _made(maker: Maker | Continued, seed: int, clean: Mapping[str, Attacker]) -> Attacker:
    return maker.make(clean[maker.starts_from], seed) if isinstance(maker, Continued) else maker(seed)


def _given(test: ArrayLike, codes: Labels, groups: Labels | None) -> Split:
    """The split that a mask over the rows asks for."""
    aside = booleans("test", test, codes.shape)
    if any(len(np.unique(codes[part])) < len(np.unique(codes)) for part in (aside, ~aside)):
        raise LowtideError("test must leave rows of every class on both sides; choose the rows class by class")
    torn = 0 if groups is None else len(np.intersect1d(groups[aside], groups[~aside]))
    if torn:
        raise LowtideError(f"test tears {torn} groups apart; test on whole groups, or leave groups out")
    return Split(np.flatnonzero(~aside), np.flatnonzero(aside))


def _kind(release: Any, clean: Any) -> Modality:
    """The kind of data, which release and clean data must share."""
    modality = modalities.of(release)
    other = modality if clean is None else modalities.of(clean)
    if other.name != modality.name:
        raise LowtideError(f"release and clean must be of one kind, got {modality.name} and {other.name}")
    return modality


def _known(modality: Modality, rows: AttackRows, clean: AttackRows | None) -> Makers:
    """The attackers that have names; some of them go on from attackers on clean rows of the same shape."""
    makers = {**modality.attackers, **plugged_attackers(modality.name, modality.numbers)}
    alike = clean is not None and clean.data.shape[1:] == rows.data.shape[1:]
    return {name: maker for name, maker in makers.items() if alike or not isinstance(maker, Continued)}


def _read_makers(attackers: Any, known: Makers, modality: Modality) -> tuple[tuple[str, ...], Makers]:
    """The names of the attackers that a user asks for, where a classifier is called by its class; and all makers."""
    if attackers is None:
        return tuple(known), known
    alone = isinstance(attackers, str) or is_classifier(attackers) or not isinstance(attackers, Iterable)
    given = (attackers,) if alone else tuple(attackers)
    if not given:
        raise LowtideError(f"attackers is empty; give some of {', '.join(map(repr, known))}, or leave it out")
    names, makers = [], dict(known)
    for one in given:
        if isinstance(one, str):
            names.append(one_of("attackers", one, tuple(known)))
            continue
        maker, name = as_maker(one, modality.numbers), _new_name(one, makers)
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
        raise LowtideError(f"{table} has {n} rows and s {len(codes)}; they must be the same rows, in order")
    if len(codes) < _LEAST_ROWS:
        raise LowtideError(f"an attack needs at least {_LEAST_ROWS} rows to learn and to test on, got {len(codes)}")
    rare = int((np.bincount(codes) < _LEAST_PER_CLASS).sum())
    if rare:
        raise LowtideError(
            f"{rare} of the {int(codes.max()) + 1} classes of s have fewer than {_LEAST_PER_CLASS} rows; an attack "
            "needs that many to learn from and to test on: merge or drop them"
        )
    name = getattr(s, "name", None)
    if name is not None and str(name) in rows.names:
        raise LowtideError(f"{table} still holds the secret's own column {str(name)!r}; drop it before attacking")
    return rows


def _named(attacks: tuple[Attack, ...], name: str) -> Attack:
    return next(attack for attack in attacks if attack.attacker == name)
