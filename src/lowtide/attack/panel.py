"""A panel of attackers against one release: freshly retrained on it, and beside them those who know clean data only."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from lowtide.attack import scores
from lowtide.attack.attackers import ATTACKERS, Attacker
from lowtide.errors import LowtideError, count, one_of, within
from lowtide.images.attackers import FROM_CLEAN, IMAGE_ATTACKERS, Together, from_clean
from lowtide.images.edges import Album
from lowtide.images.encoder import are_images, as_images
from lowtide.interface import Attack
from lowtide.labels import read_classes
from lowtide.progress import progress_bar
from lowtide.splits import Split, grouped, read_groups, stratified
from lowtide.tables.encoder import Rows, TableEncoder, read_table
from lowtide.texts.attackers import TEXT_ATTACKERS, Corpus
from lowtide.texts.encoder import are_texts
from lowtide.types import Floats, Labels

Source = Literal["release", "clean"]
_LEAST_ROWS = 20
_LEAST_PER_CLASS = 5  # two to learn from, one to validate and one to test on, with room for rounding
_ROOM = 0x9A7E1
_TOGETHER, _SMALL = "together", "small network"


def _makers(rows: Rows) -> Mapping[str, Callable[[int], Attacker]]:
    """The attackers there are for rows of this kind."""
    if isinstance(rows, Corpus):
        return TEXT_ATTACKERS
    return IMAGE_ATTACKERS if isinstance(rows, Album) else ATTACKERS


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


class _Answers(NamedTuple):
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
    attackers: Sequence[str] | None = None,
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
        groups: (n,) for texts: those of one group, such as an author and copies, stay on one side of every split.
        attackers: names out of `ATTACKERS`, or of `IMAGE_ATTACKERS` for images and `TEXT_ATTACKERS` for texts; all by
            default. On images there is one more with `clean`, `FROM_CLEAN`, which starts from it; on images and texts
            two or more are joined into one, "together".
        test_share: share of the rows that every attacker is tested on. Of the rest, a quarter is for validation.
        test: (n,) true for the rows to test on, in place of a random share.
        seed: the same seed gives the same report.
        level: of the confidence intervals.
        progress: whether to draw a progress bar; by default only on a terminal.
    """
    names = _read_names(attackers, _known(release, clean))
    within("test_share", test_share, 0.0, 1.0, low_open=True, high_open=True)
    within("level", level, 0.0, 1.0, low_open=True, high_open=True)
    _, codes = read_classes(s)
    parts = _groups(groups, codes, release)
    rows, encoder = _read(release, parts)
    _check(rows, codes, s, encoder, "release")
    root = np.random.SeedSequence([count("seed", seed, 0), _ROOM])
    split_seed, attack_seed = root.spawn(2)
    split = _split(codes, parts, test_share, split_seed) if test is None else _given(test, codes, parts)
    panel = _Panel(names, codes, split, int(attack_seed.generate_state(1)[0]), level)
    with progress_bar("attacking", len(names) + (0 if clean is None else len(panel.known)), progress) as show:
        steps = itertools.count(1)

        def tick() -> None:
            show(next(steps))

        if clean is None:
            return panel.report(panel.train(rows, names, tick))
        clean_rows, clean_encoder = _read(clean, parts)
        _check(clean_rows, codes, s, clean_encoder, "clean")
        control = panel.train(clean_rows, panel.known, tick)
        retrained = panel.train(rows, names, tick, clean=control.attackers)
    again, missing = _read_like(release, rows, clean_encoder, clean_rows)
    fixed = None if again is None else panel.test(control, again)
    return panel.report(retrained, control, fixed, missing)


@dataclass(frozen=True)
class _Panel:
    """Attackers on one split of the rows."""

    names: tuple[str, ...]
    codes: Labels
    split: Split
    seed: int
    level: float

    @property
    def known(self) -> tuple[str, ...]:
        """Those to train on clean rows: one that starts from clean images needs the one that it starts from."""
        return tuple(dict.fromkeys(_SMALL if name == FROM_CLEAN else name for name in self.names))

    def train(
        self,
        rows: Rows,
        names: tuple[str, ...],
        tick: Callable[[], None],
        *,
        clean: Mapping[str, Attacker] | None = None,
    ) -> _Answers:
        """Train attackers on the training rows, from `clean` ones where they need it, and ask about the test rows."""
        fitted: dict[str, Attacker] = {}
        for name in names:
            # One seed for all: they set the same validation rows aside.
            start = None if clean is None or name != FROM_CLEAN else clean[_SMALL]
            attacker = _makers(rows)[name](self.seed) if start is None else from_clean(start, self.seed)
            fitted[name] = attacker.fit(rows[self.split.kept], self.codes[self.split.kept])
            tick()
        together = Together.of(fitted, self.prior) if isinstance(rows, (Album, Corpus)) and len(fitted) > 1 else None
        return self.test(_Answers(fitted, together, {}), rows)

    def test(self, answers: _Answers, rows: Rows) -> _Answers:
        """Ask trained attackers about the test rows of a table."""
        target = rows[self.split.aside]
        tested = {name: attacker.probabilities(target) for name, attacker in answers.attackers.items()}
        if answers.together is not None:
            tested[_TOGETHER] = answers.together(tested)
        return answers._replace(tested=tested)

    def report(
        self,
        retrained: _Answers,
        control: _Answers | None = None,
        fixed: _Answers | None = None,
        missing: str | None = None,
    ) -> AttackReport:
        """Score all answers."""
        return AttackReport(
            guess=self._guess(),
            retrained=self._judge(retrained, "release", "release"),
            clean=self._judge(control, "clean", "clean"),
            fixed=self._judge(fixed, "clean", "release"),
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

    def _judge(self, answers: _Answers | None, trained_on: Source, target: Source) -> tuple[Attack, ...]:
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


def _groups(groups: ArrayLike | None, codes: Labels, release: Any) -> Labels | None:
    """Numbers of groups, (n,)."""
    if groups is None:
        return None
    if not are_texts(release):
        raise LowtideError("groups are for texts; leave them out for tables and images, or give test=")
    return read_groups(groups, len(codes))


def _split(codes: Labels, groups: Labels | None, share: float, seed: np.random.SeedSequence) -> Split:
    return stratified(codes, share, seed=seed) if groups is None else grouped(codes, groups, share, seed=seed)


def _given(test: ArrayLike, codes: Labels, groups: Labels | None) -> Split:
    """The split that a mask over the rows asks for."""
    aside = np.asarray(test)
    if aside.shape != codes.shape or aside.dtype != np.bool_:
        raise LowtideError(f"test must be true or false for each of {len(codes)} rows, got {aside.dtype} {aside.shape}")
    if any(len(np.unique(codes[part])) < len(np.unique(codes)) for part in (aside, ~aside)):
        raise LowtideError("test must leave rows of every class on both sides; choose the rows class by class")
    torn = 0 if groups is None else len(np.intersect1d(groups[aside], groups[~aside]))
    if torn:
        raise LowtideError(f"test tears {torn} groups apart; test on whole groups, or leave groups out")
    return Split(np.flatnonzero(~aside), np.flatnonzero(aside))


def _known(release: Any, clean: Any) -> tuple[str, ...]:
    """Names of the attackers there are for data of this kind."""
    texts = are_texts(release)
    if clean is not None and are_texts(clean) != texts:
        raise LowtideError("release and clean must be of one kind: both texts, or neither")
    if texts:
        return tuple(TEXT_ATTACKERS)
    images = are_images(release)
    if clean is not None and are_images(clean) != images:
        raise LowtideError("release and clean must be of one kind: both tables, or both images (Images, or uint8)")
    if not images:
        return tuple(ATTACKERS)
    alike = clean is not None and as_images(clean).shape == as_images(release).shape
    return (*IMAGE_ATTACKERS, FROM_CLEAN) if alike else tuple(IMAGE_ATTACKERS)


def _read_names(attackers: Sequence[str] | None, known: Collection[str]) -> tuple[str, ...]:
    if attackers is None:
        return tuple(known)
    names = (attackers,) if isinstance(attackers, str) else tuple(attackers)
    if not names:
        raise LowtideError(f"attackers is empty; give some of {', '.join(map(repr, known))}, or leave it out")
    return tuple(dict.fromkeys(one_of("attackers", name, tuple(known)) for name in names))


def _read(table: Any, groups: Labels | None) -> tuple[Rows, TableEncoder | None]:
    """Rows, and how they were read from a table; images and texts need no encoder."""
    if are_texts(table):
        return Corpus.of(table, groups), None
    return (Album.of(table), None) if are_images(table) else read_table(table)


def _check(rows: Rows, codes: Labels, s: Any, encoder: TableEncoder | None, table: Source) -> None:
    """Refuse a table that does not fit the secret, or that holds it."""
    if rows.shape[0] != len(codes):
        raise LowtideError(f"{table} has {rows.shape[0]} rows and s {len(codes)}; they must be the same rows, in order")
    if len(codes) < _LEAST_ROWS:
        raise LowtideError(f"an attack needs at least {_LEAST_ROWS} rows to learn and to test on, got {len(codes)}")
    rare = int((np.bincount(codes) < _LEAST_PER_CLASS).sum())
    if rare:
        raise LowtideError(
            f"{rare} of the {int(codes.max()) + 1} classes of s have fewer than {_LEAST_PER_CLASS} rows; an attack "
            "needs that many to learn from and to test on: merge or drop them"
        )
    name = getattr(s, "name", None)
    if name is not None and encoder is not None and str(name) in encoder.names:
        raise LowtideError(f"{table} still holds the secret's own column {str(name)!r}; drop it before attacking")


def _read_like(release: Any, own: Rows, encoder: TableEncoder | None, rows: Rows) -> tuple[Rows | None, str | None]:
    """Read the release as the clean `rows` were read, where its `own` reading was another; or say why that cannot be.

    Who never saw a release takes a number that is blank there, or a word where a number was, for the usual value: the
    median of the clean rows.
    """
    if isinstance(rows, Corpus):
        return Corpus.of(release, rows.groups, reader=rows.reader), None
    if encoder is None:
        same = own.shape[1:] == rows.shape[1:]
        return (own, None) if same else (None, f"its images are {own.shape[1:]}, the clean ones {rows.shape[1:]}")
    usual = np.median(rows, axis=0) if encoder.names else None
    try:
        return encoder.encode(release, stand_in=usual), None
    except LowtideError as error:
        return None, f"the release does not have the columns of the clean table ({error})"


def _named(attacks: tuple[Attack, ...], name: str) -> Attack:
    return next(attack for attack in attacks if attack.attacker == name)
