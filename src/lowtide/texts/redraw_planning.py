"""From reference texts to the policy `redraw`: folds of writers, what redraws words, and an attack
on the release.
"""

from typing import NamedTuple

import numpy as np

from lowtide.disclose.check import Check
from lowtide.disclose.noise import row_ids
from lowtide.disclose.rehearsal import Tick
from lowtide.disclose.secret_codes import SecretCodes
from lowtide.errors import LowtideError
from lowtide.splits import generator, grouped_folds
from lowtide.texts.contexts import PlacedWords, WordKinds
from lowtide.texts.planning import TextProblem
from lowtide.texts.redraw_policy import KnownTexts, RedrawWords
from lowtide.texts.redrawing import OwnedTexts, fit_words
from lowtide.texts.rewriting import rewritten
from lowtide.texts.spelling import spelled
from lowtide.training import one_thread
from lowtide.types import Bools, Ints

_FOLDS = 5
# of a class
_LEAST_TEXTS = 10
_LEAST_WRITERS = _FOLDS


class WordRehearsal(NamedTuple):
    """A redrawn release of the reference texts.

    Attributes:
        policy: what was fitted.
        check: what fresh attackers made of it.
        changed: the share of the words that are changed.
    """

    policy: RedrawWords
    check: Check
    changed: float


def rehearse_words(
    problem: TextProblem, *, kept: float | None, with_names: bool, tick: Tick
) -> WordRehearsal:
    """Fit the policy, releasing the reference texts on the way, and attack them.

    Args:
        problem: the reference texts.
        kept: the share of the words that stays as it is, at least; `None` where all that is clear
            may be changed.
        with_names: whether names may give way to words.
        tick: called with the share of the work that is done.
    """
    texts = problem.texts
    vocabulary = problem.encoder.vocabulary
    groups = problem.writers
    _check(problem, groups)
    fold = grouped_folds(
        problem.codes, groups, _FOLDS, generator(problem.seed, "text redraw folds")
    )
    placed = PlacedWords.read(texts, vocabulary)
    kinds = _without(WordKinds.of(placed, vocabulary, groups), problem.keep)
    owned = OwnedTexts(placed, problem.codes, fold, row_ids(np.arange(len(texts)), len(texts)))
    prior = problem.classes.prior
    with one_thread():
        redrawer, codes = fit_words(
            owned,
            kinds,
            spelled(vocabulary.terms),
            groups,
            prior,
            problem.rehearsal,
            most=1.0 if kept is None else 1.0 - kept,
            with_names=with_names,
            tick=lambda done: tick(0.8 * done),
        )
    policy = RedrawWords(
        vocabulary, redrawer, KnownTexts.of(texts, fold), SecretCodes.of(problem.classes.labels)
    )
    release = rewritten(texts, placed, codes, vocabulary)
    return WordRehearsal(policy, problem.attacked(list(release)), 1.0 - release.kept)


def _check(problem: TextProblem, groups: Ints) -> None:
    if problem.hide.any():
        raise LowtideError(
            "redraw hides no term from everybody; leave hide out, or use policy='fixed'"
        )
    if problem.encoder.vocabulary.options.ngrams > 1:
        raise LowtideError(
            "redraw changes single words, and reads pairs by itself; leave ngrams out"
        )
    classes = len(problem.classes.labels)
    texts = np.bincount(problem.codes, minlength=classes)
    writers = [len(np.unique(groups[problem.codes == k])) for k in range(classes)]
    few = int(((texts < _LEAST_TEXTS) | (np.array(writers) < _LEAST_WRITERS)).sum())
    if few:
        raise LowtideError(
            f"{few} of the {classes} classes of the secret have fewer than {_LEAST_TEXTS} texts or"
            f" {_LEAST_WRITERS} writers, too few to learn how their words differ; merge them with"
            " others, or drop them"
        )


def _without(kinds: WordKinds, keep: Bools) -> WordKinds:
    return WordKinds(kinds.changeable & ~keep, kinds.names, kinds.drawn, kinds.hashtags)
