"""The estimated leakage of a whole release: several kinds of models, stacked on rows that none of them has seen.

No single family reads everything: networks miss what is a step, trees what is a slope. The stack is judged with weights
that the judged rows had no part in; its gain counts only if it is clear.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lowtide.density.critics.masked import RankScaling
from lowtide.density.crossfit import (
    STRENGTHS,
    MaskedData,
    Run,
    held_out_curves,
    honest_mixture,
    is_clear,
    settings_for,
    stop_without_looking,
)
from lowtide.density.objectives import mean_with_interval, nothing_found
from lowtide.density.options import Checkpoints, Options
from lowtide.density.training import MaskedRows, losses, mask_rows
from lowtide.interface import Estimate
from lowtide.labels import Classes
from lowtide.splits import some_rows, stratified_folds
from lowtide.streams import generator
from lowtide.tables.attackers import ATTACKERS
from lowtide.tables.histories import Whole
from lowtide.training import one_thread
from lowtide.types import Bools, Floats32, Ints

_ROWS = 10_000
_BESIDE = ("logistic regression", "boosted trees")
_NEVER = -1  # the fold of rows that are learnt from and never judged
_LEAST_PER_FOLD = 5  # rows of a class that must be left to learn from


def estimate(rows: Floats32, codes: Ints, classes: Classes, options: Options, *, judged: Bools) -> Estimate:
    """The information of whole rows about the secret, cross-fitted.

    Args:
        rows: (n, columns) as released.
        codes: (n,) the class of each row.
        classes: the values of the secret and their prior.
        options: how networks are fitted.
        judged: (n,) the rows that count: those that had no part in deciding what to hide. All are learnt from.
    """
    rng = generator(options.seed, "table estimate")
    some = some_rows(len(codes), _ROWS, rng)
    rows, codes, judged = rows[some], codes[some], judged[some]
    varied = np.ascontiguousarray(rows[:, rows.std(axis=0) > 0])  # a column that is the same for all tells nothing
    if varied.shape[1] == 0:
        return nothing_found(np.zeros(int(judged.sum())))
    folds = max(2, min(options.folds, int(np.bincount(codes[judged]).min())))
    fold = np.full(len(codes), _NEVER)
    fold[judged] = stratified_folds(codes[judged], folds, rng)
    log_prior = np.log(classes.prior).astype(np.float32)
    with one_thread():
        networks = _networks(varied, codes, log_prior, fold, options)
        beside = [_out_of_fold(name, varied, codes, fold, log_prior, options.seed) for name in _BESIDE]
    masked_rows = _about(varied, codes, log_prior, judged)
    scores = np.concatenate([networks, np.stack(beside)[:, judged]])
    mixed = honest_mixture(scores, masked_rows, fold[judged])
    gain = -losses(mixed, masked_rows).astype(np.float64)
    return mean_with_interval(gain) if is_clear(gain) else nothing_found(gain)


def _networks(rows: Floats32, codes: Ints, log_prior: Floats32, fold: Ints, options: Options) -> Floats32:
    """Out-of-fold scores (candidates, judged, |S|) of networks of every sparsity; a fold stops where the others say."""
    one = np.zeros(rows.shape[1], dtype=np.intp)  # all columns are one feature: they are only seen together
    settings = settings_for(len(rows), options)
    z = RankScaling.of(rows)(rows)
    data = MaskedData(z, codes, one, log_prior, settings, Whole(1), options.seed)
    masked_rows = _about(z, codes, log_prior, fold != _NEVER)
    nowhere = Checkpoints(None, "")
    curves = held_out_curves(
        masked_rows, data, fold, STRENGTHS, lambda stage, trainer: Run(trainer, stage, nowhere, lambda _: None)
    )
    return stop_without_looking(curves, fold[masked_rows.row])[0]


def _about(z: Floats32, codes: Ints, log_prior: Floats32, judged: Bools) -> MaskedRows:
    """Whole rows, those that count only."""
    one = np.zeros(z.shape[1], dtype=np.intp)
    unused = np.random.default_rng(0)  # whole rows leave nothing to chance
    asked = mask_rows(z[judged], codes[judged], one, log_prior, sampler=Whole(1), rng=unused)
    return replace(asked, row=np.flatnonzero(judged))


def _out_of_fold(name: str, rows: Floats32, codes: Ints, fold: Ints, log_prior: Floats32, seed: int) -> Floats32:
    """Scores (n, |S|) of an attacker, each fold answered by one that was trained on the others."""
    scores = np.zeros((len(codes), len(log_prior)), dtype=np.float32)
    for k in range(int(fold.max()) + 1):
        rest = fold != k
        if np.bincount(codes[rest], minlength=len(log_prior)).min() >= _LEAST_PER_FOLD:
            attacker = ATTACKERS[name](seed + k).fit(rows[rest], codes[rest])
            scores[~rest] = np.log(attacker.probabilities(rows[~rest])) - log_prior
    return scores
