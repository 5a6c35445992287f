"""Fitting the density of a vector-valued secret: as little structure as the held-out rows ask for.

A permutation test on pairwise features decides between the null model and a Gaussian copula whose correlations are
thresholded or shrunk, by whichever rule gains most on held-out rows. A sparse pairwise correction and a neural
residual follow, each kept only if held-out rows clearly gain. The result is normalised over the product law.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lowtide.density.artefact import FitReport
from lowtide.density.estimates import mean_with_interval
from lowtide.density.options import Options
from lowtide.errors import Floats
from lowtide.progress import progress_bar
from lowtide.vectors.columns import Normaliser
from lowtide.vectors.copula import Recipe, choose_recipe
from lowtide.vectors.critic import Structured
from lowtide.vectors.hermite import Hermite
from lowtide.vectors.independence import p_value
from lowtide.vectors.networks import Residual
from lowtide.vectors.pairwise import Settings, correct
from lowtide.vectors.residual import Training, fit_residual
from lowtide.vectors.score import folds, normaliser, others
from lowtide.vectors.separable import Separable, Sum, Zero, orders

_LEVEL, _DRAWS = 0.05, 399
_MOST_ROWS = 10_000  # more do not change which structure is found, and pairs grow with the square
_PAIRS = 2_000  # rows whose pairs are all evaluated for the constant
_SHUFFLES = 64  # permutations instead, when networks make all pairs too dear
_HELD_OUT_FOLDS = 2
_LEAST_ROWS = 10  # two for each network; with fewer, nothing could be held out


def fit_structured(x: Floats, s: Floats, options: Options) -> tuple[Structured, FitReport]:
    """Estimate `i(s; x)` of pairs.

    Constant columns tell nothing and collinear ones count once; ties share their rank. Below 10 rows the answer is the
    null model, below 19 its held-out information is 0, since each half is held out from a fit on the other.

    Args:
        x: (n, columns) finite numbers, n ≥ 4.
        s: (n, d) finite numbers.
        options: trim, objective, folds, steps (epochs of the networks), progress and seed are used.

    Returns:
        The critic and its report. Its held-out information is that of two fits on a half each, judged on the other:
        on the cautious side, for the critic itself has seen twice the rows.
    """
    rng = np.random.default_rng(options.seed)
    chosen = np.sort(rng.permutation(len(x))[:_MOST_ROWS])
    x, s = x[chosen], s[chosen]
    held_out = np.empty(len(x))
    with progress_bar("fitting pairs", _HELD_OUT_FOLDS + 1, options.progress) as tick:
        for done, held in enumerate(folds(len(x), _HELD_OUT_FOLDS, rng), start=1):
            rest = others(len(x), held)
            held_out[held] = _fit(x[rest], s[rest], options).values(x[held], s[held])
            tick(done)
        critic = _fit(x, s, options)
    training = np.clip(critic.values(x, s), -options.trim, options.trim)
    estimate = mean_with_interval(np.clip(held_out, -options.trim, options.trim))
    converged = critic.residual is None or critic.residual.converged
    return critic, FitReport(_describe(critic), converged, estimate, float(training.mean()))


def _fit(x: Floats, s: Floats, options: Options) -> Structured:
    """One fit on all the rows it is given."""
    rng = np.random.default_rng(options.seed)
    s_map, x_map = Normaliser.fit(s), Normaliser.fit(x)
    if len(x) < _LEAST_ROWS:
        return Structured(s_map, x_map, Zero(), None, 0.0)
    a, b = s_map(s), x_map(x)
    dependent = _independence(a, b, rng) <= _LEVEL
    bases: list[Separable] = _bases(a, b, options, rng) if dependent else [Zero()]
    setup = Training(objective=options.objective)
    setup = setup if options.steps is None else replace(setup, epochs=max(2, options.steps))
    base, networks, _ = fit_residual(bases, a, b, setup, options.seed)
    return Structured(s_map, x_map, base, networks, _shift(base, networks, a, b, options.trim, rng))


def _describe(critic: Structured) -> str:
    """The parts that were kept, in words."""
    names = ["copula"] * (not isinstance(critic.base, Zero)) + ["pairwise"] * isinstance(critic.base, Sum)
    return " + ".join(names + ["networks"] * (critic.residual is not None)) or "null"


def _independence(s: Floats, x: Floats, rng: np.random.Generator) -> float:
    """The p-value of "no pair of features is correlated"."""
    degree = Settings().degree
    return p_value(Hermite.fit(s, degree)(s)[:, 1:], Hermite.fit(x, degree)(x)[:, 1:], _DRAWS, rng)


def _bases(s: Floats, x: Floats, options: Options, rng: np.random.Generator) -> list[Separable]:
    """The copula, and the copula with its correction if that is a clear gain."""
    parts = folds(len(s), min(options.folds, len(s) // 2), rng)
    recipe: Recipe | None = choose_recipe(s, x, parts)

    def copula(a: Floats, b: Floats) -> Separable:
        return Zero() if recipe is None else recipe.fit(a, b)

    bases: list[Separable] = [copula(s, x)]
    found, _ = correct(copula, s, x, parts, Settings(), rng)
    return bases if found is None else [*bases, Sum(bases[0], found)]


def _shift(
    base: Separable, networks: Residual | None, s: Floats, x: Floats, trim: float, rng: np.random.Generator
) -> float:
    """The constant that makes `E_product[e^g]` 1: over all pairs when g is separable, else over many shuffles."""
    if isinstance(base, Zero) and networks is None:
        return 0.0
    if networks is None:
        rows = rng.permutation(len(s))[:_PAIRS]
        return normaliser(base.parts(s[rows], x[rows]).all_pairs(), trim)
    order = orders(len(s), _SHUFFLES, rng)
    known = base.parts(s, x).permuted(order)
    return normaliser(known + np.stack([networks(s, x[o]) for o in order]), trim)
