"""Estimating the density of a vector-valued secret: as little structure as the held-out rows ask
for.

A permutation test on pairwise features decides between the null model and a Gaussian copula whose
correlations are thresholded or shrunk, by whichever rule gains most on held-out rows. A sparse
pairwise correction and a neural residual follow, each kept only if held-out rows clearly gain. The
result is normalised over the product law.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from lowtide.checks import LowtideError, check_rows, count, one_of, within
from lowtide.estimate.density import FitReport
from lowtide.estimate.objectives import OBJECTIVES, Options, mean_with_interval
from lowtide.estimate.tide import read_seed
from lowtide.extras import need_torch
from lowtide.interface import Estimate
from lowtide.progress import progress_bar
from lowtide.splits import others, random_folds, some_rows
from lowtide.tables.encoder import read_table
from lowtide.training import computing_on, one_thread
from lowtide.types import Floats
from vectors.artefact import PairDensity, Structured
from vectors.columns import (
    Hermite,
    Normaliser,
    Separable,
    Sum,
    Zero,
    normaliser,
    orders,
    read_vector,
)
from vectors.copula import CopulaRecipe, choose_recipe
from vectors.pairwise import PairwiseSettings, correct, p_value
from vectors.residual import Residual, ResidualSettings, fit_residual

_LEVEL = 0.05
_DRAWS = 399
_MOST_ROWS = 10_000  # more do not change which structure is found, and pairs grow with the square
_PAIRS = 2_000  # rows whose pairs are all evaluated for the constant
_SHUFFLES = 64  # permutations instead, when networks make all pairs too dear
_HELD_OUT_FOLDS = 2
_LEAST_ROWS = 10  # two for each network; with fewer, nothing could be held out


_LEAST_FITTED = 4  # rows


class VectorTIDE(BaseEstimator):  # type: ignore[misc]
    """Estimate how much each row tells about a secret that is a vector of numbers.

    `fit(X, S)` yields a frozen `PairDensity` in `artefact`. All densities are in nats, and of pairs
    of whole rows.

    Args:
        trim: M > 0; answers are clipped to ±M.
        objective: the variational bound that the networks maximise: `dv`, `nwj`, `chi2`, `js`,
            `hellinger` or `cross-entropy`.
        folds: how many folds the held-out choice uses.
        max_steps: epochs of the networks.
        device: where networks are trained, as in `TIDE`.
        progress: whether to draw progress bars; by default only on a terminal.
        random_state: the seed; the same seed gives the same result.

    Attributes:
        information_: held-out (cross-fitted) information of the training rows, an `Estimate`.
        converged_: whether training stopped by itself, and not at its last step.
        n_features_in_: columns of X.
    """

    def __init__(
        self,
        trim: float = 3.0,
        objective: str = "dv",
        *,
        folds: int = 5,
        max_steps: int | None = None,
        device: str = "cpu",
        progress: bool | None = None,
        random_state: int = 0,
    ) -> None:
        self.trim = trim
        self.objective = objective
        self.folds = folds
        self.max_steps = max_steps
        self.device = device
        self.progress = progress
        self.random_state = random_state

    def fit(self, X: Any, S: ArrayLike) -> VectorTIDE:  # noqa: N803
        """Fit the density.

        Args:
            X: n dense rows: an array, a data frame or a tensor.
            S: (n, d) numbers, or (n,).
        """
        options = self._options()
        rows, encoder = read_table(X)
        check_rows("S", np.asarray(S).shape, rows.shape[0])
        if rows.shape[0] < _LEAST_FITTED:
            raise LowtideError(
                f"Found array with {rows.shape[0]} sample(s) while a minimum of {_LEAST_FITTED} is"
                " required."
            )
        if sparse.issparse(rows):
            raise LowtideError(
                "a secret of numbers needs dense rows; give X.toarray(), or a secret of classes to"
                " TIDE"
            )
        secret = read_vector(S)
        dense = np.asarray(rows, dtype=np.float64)
        need_torch("VectorTIDE")
        with computing_on(self.device), one_thread():
            critic, report = fit_structured(dense, secret, options)
        self.artefact_ = PairDensity(critic, secret.shape[1], options.trim, encoder, report)
        self.information_ = report.held_out
        self.converged_ = report.converged
        self.n_features_in_ = encoder.inputs
        return self

    @property
    def artefact(self) -> PairDensity:
        """The frozen density: small, immutable, callable; `artefact.save(path)` keeps it."""
        check_is_fitted(self, "artefact_")
        return self.artefact_

    def density(self, X: Any, S: ArrayLike) -> Floats:  # noqa: N803
        """`i(s; x)` of the pairs (X, S), (n,)."""
        return self.artefact.density(X, S)

    def information(self, X: Any, S: ArrayLike, *, level: float = 0.95) -> Estimate:  # noqa: N803
        """`I(S; X)` from held-out pairs with its interval; `.bits` counts it in bits."""
        return self.artefact.information(X, S, level=level)

    def _options(self) -> Options:
        within("trim", self.trim, 0.0, np.inf, low_open=True, high_open=True)
        return Options(
            trim=float(self.trim),
            objective=one_of("objective", self.objective, tuple(OBJECTIVES)),
            folds=count("folds", self.folds, 2),
            steps=None if self.max_steps is None else count("max_steps", self.max_steps, 1),
            progress=self.progress,
            seed=read_seed(self.random_state),
        )


def fit_structured(x: Floats, s: Floats, options: Options) -> tuple[Structured, FitReport]:
    """Estimate `i(s; x)` of pairs.

    Constant columns tell nothing and collinear ones count once; ties share their rank. Below 10
    rows the answer is the null model, below 19 its held-out information is 0, since each half is
    held out from a fit on the other.

    Args:
        x: (n, columns) finite numbers, n ≥ 4.
        s: (n, d) finite numbers.
        options: trim, objective, folds, steps (epochs of the networks), progress and seed are used.

    Returns:
        The critic and its report. Its held-out information is that of two fits on a half each,
        judged on the other: on the cautious side, for the critic itself has seen twice the rows.
    """
    rng = np.random.default_rng(options.seed)
    chosen = some_rows(len(x), _MOST_ROWS, rng)
    x = x[chosen]
    s = s[chosen]
    held_out = np.empty(len(x))
    with progress_bar("fitting pairs", _HELD_OUT_FOLDS + 1, options.progress) as tick:
        for done, held in enumerate(random_folds(len(x), _HELD_OUT_FOLDS, rng), start=1):
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
    s_map = Normaliser.fit(s)
    x_map = Normaliser.fit(x)
    if len(x) < _LEAST_ROWS:
        return Structured(s_map, x_map, Zero(), None, 0.0)
    a = s_map(s)
    b = x_map(x)
    dependent = _independence(a, b, rng) <= _LEVEL
    bases: list[Separable] = _bases(a, b, options, rng) if dependent else [Zero()]
    setup = ResidualSettings(objective=options.objective)
    setup = setup if options.steps is None else replace(setup, epochs=max(2, options.steps))
    base, networks, _ = fit_residual(bases, a, b, setup, options.seed)
    return Structured(s_map, x_map, base, networks, _shift(base, networks, a, b, options.trim, rng))


def _describe(critic: Structured) -> str:
    """The parts that were kept, in words."""
    names = ["copula"] * (not isinstance(critic.base, Zero)) + ["pairwise"] * isinstance(
        critic.base, Sum
    )
    return " + ".join(names + ["networks"] * (critic.residual is not None)) or "null"


def _independence(s: Floats, x: Floats, rng: np.random.Generator) -> float:
    """The p-value of "no pair of features is correlated"."""
    degree = PairwiseSettings().degree
    return p_value(Hermite.fit(s, degree)(s)[:, 1:], Hermite.fit(x, degree)(x)[:, 1:], _DRAWS, rng)


def _bases(s: Floats, x: Floats, options: Options, rng: np.random.Generator) -> list[Separable]:
    """The copula, and the copula with its correction if that is a clear gain."""
    parts = random_folds(len(s), min(options.folds, len(s) // 2), rng)
    recipe: CopulaRecipe | None = choose_recipe(s, x, parts)

    def copula(a: Floats, b: Floats) -> Separable:
        return Zero() if recipe is None else recipe.fit(a, b)

    bases: list[Separable] = [copula(s, x)]
    found, _ = correct(copula, s, x, parts, PairwiseSettings(), rng)
    return bases if found is None else [*bases, Sum(bases[0], found)]


def _shift(
    base: Separable,
    networks: Residual | None,
    s: Floats,
    x: Floats,
    trim: float,
    rng: np.random.Generator,
) -> float:
    """The constant that makes `E_product[e^g]` 1: over all pairs when g is separable, else over
    many shuffles.
    """
    if isinstance(base, Zero) and networks is None:
        return 0.0
    if networks is None:
        rows = rng.permutation(len(s))[:_PAIRS]
        return normaliser(base.parts(s[rows], x[rows]).all_pairs(), trim)
    order = orders(len(s), _SHUFFLES, rng)
    known = base.parts(s, x).permuted(order)
    return normaliser(known + np.stack([networks(s, x[o]) for o in order]), trim)
