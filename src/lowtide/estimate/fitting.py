"""From data and options to a frozen density of a finite secret.

The modality of the data reads it; what it reads as rows of numbers (dense, sparse, memory maps) is
fitted here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from lowtide import modalities
from lowtide.checks import LowtideError, check_rows, check_shape
from lowtide.errors import note
from lowtide.estimate import stack
from lowtide.estimate.density import Density, Encoder, FitReport
from lowtide.estimate.learners.additive import KINDS, AdditiveLearner
from lowtide.estimate.learners.bag import WEIGHTINGS, Bag, Weighting
from lowtide.estimate.learners.base import Critic, Learner, Mixture, Null, Shown, normalise
from lowtide.estimate.learners.network import Masked
from lowtide.estimate.learners.networks import MANY_ROWS, NetworkLearner
from lowtide.estimate.learners.terms import (
    Documents,
    TermLearner,
    TermNetworkLearner,
    TermRegressionLearner,
    added,
)
from lowtide.estimate.learners.trees import TREE_SIZES, TreesLearner
from lowtide.estimate.masking import MaskSampler, SubsetSampler
from lowtide.estimate.objectives import Checkpoints, Options, information_of, nothing_found
from lowtide.estimate.reader import NEVER, Member, Reading, ask, read, reporting
from lowtide.extras import load_torch, need_torch, note_without_torch
from lowtide.features import Features
from lowtide.formatting import sampled_words
from lowtide.labels import Classes, is_vector, read_classes
from lowtide.progress import progress_bar
from lowtide.splits import (
    MOST_ROWS,
    generator,
    grouped_folds,
    read_groups,
    sample_groups,
    sample_with_classes,
    some_rows,
    stratified_folds,
)
from lowtide.training import one_thread
from lowtide.types import Bools, Floats, Floats32, Ints, Labels

Rows = Any  # (n, columns) float32: a NumPy array, a memory map, or a scipy CSR array
_LEAST_OF_A_CLASS = 10  # rows of a sample, where there are so many: everyday models ask for them
_LEAST_ROWS = 4
_FEW_ROWS = 2000  # up to so many are dealt into as many folds as options say
_FOLDS_OF_MORE = 3
# Beyond `MANY_ROWS` one held-out sample is as good as folds of all rows, and much cheaper; nor
# would the answers of every stage for wider rows, or for many classes, fit into a gigabyte.
_MOST_CELLS = 1 << 24
_CELLS_OF_A_CLASS = 32
_MOST_HELD_OUT = 4096  # rows; never more than a fifth of them
_LEAST_HELD_OUT = 8
_MOST_SCORES = 1 << 17  # held-out rows times classes
_MOST_MASKED = 4000  # held-out rows that say how far subsets are believed
_MOST_MASKED_CELLS = 1 << 18  # of these rows: each asks for a system of as many equations
_LEAST_GROUPS = 4
_PARTS_OF_TERMS = 4  # of the groups, of which one is held out
_CHOOSING = 0.8  # of the work of a fit; the rest is the fit on all rows
_PROGRESS = 100
NO_SECRET = "TIDE requires y to be passed, but the target y is None: give s, one value per row of X"


def fit_density(
    x: Any, s: ArrayLike | None, options: Options, *, groups: ArrayLike | None = None
) -> Density:
    """Fit what the data asks for; see `TIDE.fit`."""
    if s is None:
        raise LowtideError(NO_SECRET)
    density: Density = modalities.of(x, options.features).fit_density(x, s, options, groups)
    return density


def read_secret(
    s: ArrayLike | None, rows: int, *, least: int = _LEAST_ROWS, noun: str = "sample"
) -> tuple[Classes, Labels]:
    """The classes of a secret and the class of each row, (n,); refuses what no density can be
    fitted to.

    Args:
        s: (n,) labels.
        rows: n.
        least: how many rows there must be.
        noun: what a row is called in messages.
    """
    if s is None:
        raise LowtideError(NO_SECRET)
    check_rows("s", np.asarray(s).shape, rows, f"{noun}s")
    if rows < least:
        raise LowtideError(f"Found {rows} sample(s) while a minimum of {least} is required.")
    if is_vector(s):
        raise LowtideError(
            "s is a vector of numbers, and TIDE takes a secret of classes: put the numbers into"
            " bins, or give s as labels (text, or whole numbers)"
        )
    return read_classes(s)


def fit_rows(
    rows: Rows,
    encoder: Encoder,
    s: ArrayLike | None,
    options: Options,
    groups: ArrayLike | None = None,
) -> Density:
    """Fit to rows (n, columns) that `encoder` has read.

    Args:
        rows: dense, sparse or in a memory map.
        encoder: how later rows are read.
        s: (n,) labels.
        options: how to fit.
        groups: (n,) what must stay on one side whenever rows are held out; of sparse rows only.
    """
    if groups is not None and not sparse.issparse(rows):
        refuse_groups()
    classes, codes = read_secret(s, rows.shape[0], noun="row")
    features = read_features(options.features, encoder)
    sides = read_groups(groups, rows.shape[0])
    some = rows_to_fit(codes, sides, options.seed, "rows")
    if some is not None:
        rows = rows[some]
        codes = codes[some]
        sides = None if sides is None else sides[some]
    load_torch()
    with one_thread(rows.shape[0]):
        critic, report = fit_critic(rows, codes, classes, features, options, groups=sides)
    return Density(classes, features, critic, options.trim, encoder, report)


def rows_to_fit(codes: Labels, groups: Labels | None, seed: int, noun: str) -> Ints | None:
    """The numbers of the rows to fit to, sorted: a uniform sample of many rows, `None` for all of
    fewer.

    Args:
        codes: (n,) classes; a few rows of each are in the sample, however rare it is.
        groups: (n,) codes; groups are in the sample as a whole or not at all.
        seed: of the choice.
        noun: what rows are called in messages.
    """
    if len(codes) <= MOST_ROWS:
        return None
    rng = generator(seed, "sampled rows")
    if groups is None:
        some = np.sort(sample_with_classes(codes, MOST_ROWS, _LEAST_OF_A_CLASS, rng))
    else:
        some = sample_groups(groups, MOST_ROWS, rng)
        missing = len(np.unique(codes)) - len(np.unique(codes[some]))
        if missing:
            raise LowtideError(
                f"{missing} of the classes of s do not occur in"
                f" {sampled_words(len(some), len(codes), noun)}; merge or drop them"
            )
    note(f"fitted on {sampled_words(len(some), len(codes), noun)}")
    return some


def refuse_groups() -> None:
    """Say that groups are not kept apart for data of this kind."""
    raise LowtideError(
        "groups are kept apart for texts and sparse rows only; leave groups out for other kinds"
        " of X"
    )


def read_features(features: Any, encoder: Encoder) -> Features:
    """What one feature is: as a user says, or one per input column."""
    own = encoder.features()
    if features is None:
        return own
    if isinstance(features, Features):
        if len(features.groups) == len(own.groups):
            return features
        groups = features.groups
        names = features.names
    else:
        groups = np.asarray(features)
        if groups.ndim != 1 or not np.issubdtype(groups.dtype, np.integer):
            raise LowtideError("features must be a Features, or one whole number per column")
        names = tuple(f"feature {k + 1}" for k in range(len(np.unique(groups))))
    if len(groups) != len(own):
        raise LowtideError(
            f"features has {len(groups)} entries, X has {len(own)} columns; give one group per"
            " column"
        )
    return Features(groups[own.groups], names)


def fit_critic(
    rows: Rows,
    s: Labels,
    classes: Classes,
    features: Features,
    options: Options,
    *,
    groups: Labels | None = None,
    spelling: Rows | None = None,
) -> tuple[Critic, FitReport]:
    """Choose the fitter by the critic that the options name and the shape of the data.

    Args:
        rows: (n, columns).
        s: (n,) classes.
        classes: what the classes are.
        features: what one feature is.
        options: how to fit.
        groups: (n,) codes; sparse rows of one group are held out together.
        spelling: (terms, runs) what the terms of sparse rows are made of; see `fit_sparse`.
    """
    if options.critic == "null":
        return null_critic(rows.shape[0], classes, features)
    if options.critic == "masked":
        need_torch("critic='masked'")
    note_without_torch("the density was fitted")
    if sparse.issparse(rows):
        if options.critic == "masked":
            raise LowtideError(
                "critic='masked' needs dense rows; for sparse ones use 'auto' or 'bag'"
            )
        how: dict[str, Any] = {"groups": groups, "spelling": spelling}
        return fit_sparse(rows, s, classes, features, options, **how)
    if options.critic == "bag":
        raise LowtideError(
            "critic='bag' needs sparse rows (scipy CSR); for dense ones use 'auto' or 'masked'"
        )
    rows = np.ascontiguousarray(rows)
    checkpoints = Checkpoints(options.checkpoint)
    with progress_bar("reading", _PROGRESS, options.progress) as bar:
        fitted = fit_dense(
            rows,
            s,
            classes,
            features,
            options,
            learners=dense_learners(rows, features, options),
            tick=lambda done: bar(round(_PROGRESS * done)),
        )
    checkpoints.clear()
    return fitted


def fit_dense(
    rows: Floats32,
    s: Ints,
    classes: Classes,
    features: Features,
    options: Options,
    *,
    learners: Sequence[Learner],
    sampler: MaskSampler | None = None,
    tick: Callable[[float], None] = lambda _: None,
) -> tuple[Critic, FitReport]:
    """Read dense rows with several learners; fit those that count to all rows.

    Args:
        rows: (n, columns).
        s: (n,) classes.
        classes: what the classes are.
        features: what one feature is.
        options: how to fit.
        learners: that are tried, cheap ones first.
        sampler: which partial observations count; by default whole rows count most.
        tick: called with the share of the work that is done.
    """
    n, m = len(s), len(features)
    rng = np.random.default_rng(options.seed)
    fold = _folds(rows, s, len(classes.labels), options.folds, rng)
    masks = (sampler or SubsetSampler(m)).held_out_masks(n, rng)
    # Whole rows are what a density is mostly asked about. A sampler's main mask may show next to
    # nothing while the others tell, so that all of its masks count.
    judged = masks[:1] if sampler is None else masks
    count = len(judged)
    number = np.arange(n)
    main = judged[0][0]
    shown = Shown(rows, None if main.all() else main, number)
    asked = shown
    if count > 1:
        seen = np.concatenate([mask for mask, _ in judged])
        asked = Shown(np.tile(rows, (count, 1)), seen, np.tile(number, count))
    log_prior = np.log(classes.prior)
    reading = read(
        asked,
        np.tile(s, count),
        learners,
        fold=np.tile(fold, count),
        log_prior=log_prior,
        share=None if count == 1 else np.repeat([weight for _, weight in judged], n),
        sample=None if count == 1 else np.tile(number, count),
        drop=sampler is None and options.critic == "auto",
        tick=lambda done: tick(_CHOOSING * done),
    )
    gains = reading.gains[reading.rows < n]  # under the main mask
    held_out = information_of(gains) if reading.found else nothing_found(gains)
    if not reading.found:
        return Null(len(classes.labels), m), FitReport(
            "null", True, held_out, 0.0, dict(reading.judged)
        )
    shrinkage = _subset_shrinkage(reading, shown, s, fold, masks, rng)
    parts = []
    share = (1 - _CHOOSING) / len(reading.members)
    for k, member in enumerate(reading.members):
        learner = reporting(member.learner, tick, _CHOOSING + k * share, share)
        parts.append(_fitted_to_all(replace(member, learner=learner), shown, s, fold, log_prior))
    tick(1.0)
    weights = np.array([one.weight for one in reading.members])
    critic: Critic = Mixture(tuple(parts), weights, shrinkage)
    if len(parts) == 1 and isinstance(parts[0], Masked):  # it has answers of its own for histories
        critic = parts[0].believed(float(weights[0]), shrinkage)
    gain = _training_gain(critic, shown, s, log_prior, rng)
    report = FitReport(reading.described(), reading.converged, held_out, gain, dict(reading.judged))
    return critic, report


def _folds(rows: Floats32, s: Ints, classes: int, folds: int, rng: np.random.Generator) -> Ints:
    """The fold (n,) of each row; of many rows some are held out at once, and the others never."""
    n = len(s)
    most = folds if n <= _FEW_ROWS else min(folds, _FOLDS_OF_MORE)
    cells = n * max(rows.shape[1], _CELLS_OF_A_CLASS * classes)
    if n <= MANY_ROWS and cells <= _MOST_CELLS:
        return stratified_folds(s, max(2, min(most, int(np.bincount(s).min()))), rng)
    fold = np.full(n, NEVER)
    held = min(_MOST_HELD_OUT, _MOST_SCORES // classes, n // 5)
    fold[some_rows(n, max(held, _LEAST_HELD_OUT), rng)] = 0
    return fold


def _fitted_to_all(one: Member, rows: Shown, s: Ints, fold: Ints, log_prior: Floats) -> Critic:
    """What a learner becomes on all rows; of many rows, what it became without those held out."""
    if fold.max() == 0:
        critic: Critic = one.fitted(0)
        return critic
    path = one.learner.fit(rows, s, log_prior, until=one.stage)
    return one.fitted(0) if path is None else path.at(one.stage)


def _subset_shrinkage(
    reading: Reading,
    rows: Shown,
    s: Ints,
    fold: Ints,
    masks: Sequence[tuple[Bools, float]],
    rng: np.random.Generator,
) -> Floats32:
    """How far subsets are believed, from some held-out rows under several masks, each with its
    weight.
    """
    m = masks[0][0].shape[1]
    if m == 1 or len(masks) == 1:
        return np.zeros(1 + m, dtype=np.float32)
    held = np.flatnonzero(fold != NEVER)
    # Drawn, since rows may be sorted by their classes.
    most = min(_MOST_MASKED, _MOST_MASKED_CELLS // m)
    some = held[some_rows(len(held), max(1, most // len(masks)), rng)]
    seen = np.concatenate([mask[some] for mask, _ in masks])
    repeated = np.tile(some, len(masks))
    scores = reading.about(Shown(rows.x[repeated], seen), fold[repeated])
    share = np.repeat([weight for _, weight in masks], len(some)) / len(some)
    return stack.fit_subset_shrinkage(scores, seen, s[repeated], reading.log_prior, share)


def _training_gain(
    critic: Critic, rows: Shown, s: Ints, log_prior: Floats, rng: np.random.Generator
) -> float:
    """The information that a critic shows on rows it was fitted to, or some of many."""
    some = some_rows(len(s), MANY_ROWS, rng)
    g = normalise(ask(critic, rows[some]), log_prior)
    return float(g[np.arange(len(some)), s[some]].mean())


def dense_learners(
    rows: Floats32,
    features: Features,
    options: Options,
    *,
    sampler: MaskSampler | None = None,
) -> list[Learner]:
    """The learners of dense rows, cheap ones first.

    Args:
        rows: (n, columns).
        features: what one feature is.
        options: how to fit; with the critic `masked` networks alone.
        sampler: which partial observations networks are trained on.
    """
    networks = NetworkLearner(
        features.groups,
        sampler or SubsetSampler(len(features)),
        options.seed,
        options.objective,
        options.steps,
        options.nets,
        checkpoint=options.checkpoint,
    )
    if options.patience is not None:
        networks = replace(networks, patience=options.patience)
    if options.critic == "masked":
        return [networks]
    return [*everyday_learners(rows, features.groups, options.seed), networks]


def everyday_learners(rows: Floats32, groups: Ints, seed: int) -> list[Learner]:
    """Regressions and boosted trees."""
    blocks = categories(rows, groups)
    trees = [TreesLearner(groups, leaves, blocks, seed) for leaves in TREE_SIZES]
    return [*(AdditiveLearner(groups, kind) for kind in KINDS), *trees]


def categories(rows: Floats32, groups: Ints) -> tuple[Ints, ...]:
    """The columns of each category: those of a feature that are 1 in turn and else 0."""
    blocks = []
    marks = ((rows == 0) | (rows == 1)).all(axis=0)
    for j in np.flatnonzero(np.bincount(groups) > 1):
        own = np.flatnonzero((groups == j) & marks)
        if len(own) > 1 and (rows[:, own].sum(axis=1) <= 1).all():
            blocks.append(own)
    return tuple(blocks)


def fit_sparse(
    rows: Rows,
    s: Ints,
    classes: Classes,
    features: Features,
    options: Options,
    *,
    groups: Ints | None = None,
    spelling: Rows | None = None,
) -> tuple[Critic, FitReport]:
    """Read sparse rows of terms with several learners; fit those that count to all rows.

    Args:
        rows: (n, columns) sparse; with a spelling, terms and then runs, those of other words.
        s: (n,) classes.
        classes: what the classes are.
        features: what one feature is.
        options: how to fit.
        groups: (n,) codes; rows of one group are held out together.
        spelling: (terms, runs) sparse, what the terms are made of; see `TermRegressionLearner`.
    """
    check_shape("rows", rows.shape, (len(s), len(features.groups)))
    sides = np.arange(len(s)) if groups is None else np.asarray(groups, dtype=np.intp)
    number = len(np.unique(sides))
    if number < min(_LEAST_GROUPS, len(s)):
        raise LowtideError(
            f"there are {number} groups; a held-out estimate needs at least {_LEAST_GROUPS}: give"
            " finer groups, or none"
        )
    rows = rows.tocsr()
    documents = Documents(rows, sides)
    if spelling is not None:
        terms = spelling.shape[0]
        documents = Documents(rows[:, :terms], sides, rows[:, terms:])
    fold = _folds_of_terms(s, sides, number, np.random.default_rng(options.seed))
    asked: dict[str, Any] = {"fold": fold, "log_prior": np.log(classes.prior), "groups": groups}
    starts = {TermLearner(weighting).name: weighting for weighting in WEIGHTINGS}
    first = read(documents, s, [TermLearner(one) for one in WEIGHTINGS], drop=False, **asked)
    weighting = starts[max(starts, key=lambda name: first.judged[name])]
    networks = TermNetworkLearner.for_rows(
        weighting,
        len(s),
        options.steps,
        objective=options.objective,
        seed=options.seed,
        checkpoint=options.checkpoint,
        progress=options.progress,
    )
    learners: list[Learner] = [TermLearner(weighting), TermRegressionLearner(weighting)]
    if spelling is not None:
        learners.append(TermRegressionLearner(weighting, spelling))
    learners.append(networks)
    reading = read(documents, s, learners, **asked)
    candidates = {**first.judged, **reading.judged}
    if not reading.found:
        report = FitReport("null", True, reading.information(), 0.0, candidates)
        critic: Critic = Null(len(classes.labels), len(features))
    else:
        bag = _bag_of_all(reading, documents, s, features, weighting)
        some = some_rows(len(s), MANY_ROWS, np.random.default_rng(options.seed))
        g = normalise(bag.scores(rows[some][:, : len(bag.groups)]), asked["log_prior"])
        critic = bag
        report = FitReport(
            f"bag: {reading.described()}",
            reading.converged,
            reading.information(),
            float(g[np.arange(len(some)), s[some]].mean()),
            candidates,
        )
    Checkpoints(options.checkpoint).clear()
    return critic, report


def _bag_of_all(
    reading: Reading, documents: Documents, s: Ints, features: Features, weighting: Weighting
) -> Bag:
    """The learners that count, fitted to all rows and added up."""
    bags: list[Bag] = []
    weights: list[float] = []
    for member in reading.members:
        path = member.learner.fit(documents, s, reading.log_prior, until=member.stage)
        if path is not None:
            bags.append(path.at(member.stage))
            weights.append(member.weight)
    columns = max(len(bag.groups) for bag in bags)  # where no bag reads runs, terms alone
    terms = documents.rows.shape[1]
    return Bag(features.groups[:columns], weighting, added(bags, weights, columns), terms)


def _folds_of_terms(s: Ints, groups: Ints, number: int, rng: np.random.Generator) -> Ints:
    """The fold (n,) of each row: of many rows a quarter of the groups is held out at once."""
    if len(s) < _FEW_ROWS:
        return grouped_folds(s, groups, min(_FOLDS_OF_MORE, number), rng)
    held = grouped_folds(s, groups, min(_PARTS_OF_TERMS, number), rng) == 0
    return np.where(held, 0, NEVER)


def null_critic(rows: int, classes: Classes, features: Features) -> tuple[Critic, FitReport]:
    """The null model g = 0 for n rows, and its report."""
    report = FitReport("null", True, nothing_found(np.zeros(rows)), 0.0, {"null": 0.0})
    return Null(len(classes.labels), len(features)), report
