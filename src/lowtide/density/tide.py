"""TIDE, the trimmed information density estimator, as a scikit-learn citizen."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from lowtide.density.artefact import Attribution, Density, TermConditionals
from lowtide.density.fitting import fit_density
from lowtide.density.objectives import OBJECTIVES
from lowtide.density.options import Options
from lowtide.errors import Floats, LowtideError, count, one_of, within
from lowtide.features import Features
from lowtide.interface import Estimate
from lowtide.labels import SecretKind
from lowtide.tables.encoder import TableEncoder
from lowtide.texts.terms import TermOptions
from lowtide.vectors.artefact import PairDensity

CriticName = Literal["auto", "null", "masked", "bag", "structured"]
Recipe = Literal["lowtide", "paper"]


class TIDE(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Estimate how much each feature of each sample tells about a secret (paper, Eq. 20).

    `fit(X, s)` yields a frozen `Density` (for a finite secret) or `PairDensity` (for a vector of numbers) in
    `artefact`; the methods below pass questions on to it. All densities are in nats.

    Args:
        features: what one feature is: a `Features`, or one integer per column; by default every input column. Of images
            the side of their patches in pixels; of texts what counts as a term, by default `TermOptions()`.
        trim: M > 0; answers are clipped to ±M, which cuts off at most e^−M of the upper tail (paper, Eq. 18).
        objective: the variational bound that neural critics maximise: `dv`, `nwj`, `chi2`, `js`, `hellinger` or
            `cross-entropy`.
        critic: `auto` takes any-mask networks for dense rows, a bag-of-terms critic for sparse ones, and the structured
            critic for a vector-valued secret, each against the null model g = 0 on held-out rows; of images, causal and
            any-mask convolutional networks.
        recipe: `lowtide`, or `paper` for the original networks and training, to reproduce its tables.
        secret: `auto`, `classes` (labels) or `vector` (numbers).
        folds: how many folds the held-out choice uses; of images at most 3.
        max_steps: training steps of the neural critics; by default enough for a few thousand rows.
        checkpoint: a folder; a fit interrupted there by Ctrl-C goes on where it stopped when it is run again.
        progress: whether to draw progress bars; by default only on a terminal.
        random_state: the seed; the same seed gives the same result.

    Attributes:
        classes_: the values of a finite secret, in the order of the last axis of every answer.
        information_: held-out (cross-fitted) information of the training rows, an `Estimate`; `None` for the paper's
            recipe, which holds nothing out.
        converged_: whether training stopped by itself, and not at its last step.
        n_features_in_: columns of X; of images, numbers in each; of texts, terms of the vocabulary.
    """

    def __init__(
        self,
        features: Features | TermOptions | Sequence[int] | int | None = None,
        trim: float = 3.0,
        objective: str = "dv",
        critic: CriticName = "auto",
        *,
        recipe: Recipe = "lowtide",
        secret: SecretKind = "auto",
        folds: int = 5,
        max_steps: int | None = None,
        checkpoint: str | None = None,
        progress: bool | None = None,
        random_state: int = 0,
    ) -> None:
        self.features = features
        self.trim = trim
        self.objective = objective
        self.critic = critic
        self.recipe = recipe
        self.secret = secret
        self.folds = folds
        self.max_steps = max_steps
        self.checkpoint = checkpoint
        self.progress = progress
        self.random_state = random_state

    def fit(
        self,
        X: Any,  # noqa: N803 - scikit-learn's name
        y: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> TIDE:
        """Fit the density.

        Args:
            X: rows: an array, a data frame, a scipy sparse matrix, a tensor, a float32 memory map; or, without `y`, an
                iterable of batches `(X, y)` that can be walked through several times. Images: bytes (n, height, width)
                or (n, height, width, channels), or `Images`, which are read in batches. Texts: a list or a column.
            y: the secret of every row: labels (n,), or numbers (n, d).
            groups: (n,) what must stay on one side whenever rows are held out: who wrote a text, for example. Of texts
                and sparse rows only.
        """
        self.artefact_ = fit_density(X, y, self._options(), groups=groups)
        report = self.artefact_.report
        if report is None:
            raise LowtideError("the fit has left no report")  # cannot happen: every fitter writes one
        self.information_, self.converged_ = report.held_out, report.converged
        encoder = self.artefact_.encoder
        self.n_features_in_ = len(
            encoder.categories if isinstance(encoder, TableEncoder) else encoder.features().groups
        )
        if encoder.names:
            self.feature_names_in_ = np.array(encoder.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if isinstance(self.artefact_, Density):
            self.classes_ = np.array(self.artefact_.classes.labels)
        self._warn(report)
        return self

    @property
    def artefact(self) -> Density | PairDensity:
        """The frozen density: small, immutable, callable; `artefact.save(path)` keeps it."""
        check_is_fitted(self, "artefact_")
        return self.artefact_

    def _options(self) -> Options:
        within("trim", self.trim, 0.0, np.inf, low_open=True, high_open=True)
        one_of("objective", self.objective, tuple(OBJECTIVES))
        one_of("critic", self.critic, ("auto", "null", "masked", "bag", "structured"))
        one_of("recipe", self.recipe, ("lowtide", "paper"))
        one_of("secret", self.secret, ("auto", "classes", "vector"))
        return Options(
            features=self.features,
            trim=float(self.trim),
            objective=self.objective,
            critic=self.critic,
            recipe=self.recipe,
            secret=self.secret,
            folds=count("folds", self.folds, 2),
            steps=None if self.max_steps is None else count("max_steps", self.max_steps, 1),
            checkpoint=self.checkpoint,
            progress=self.progress,
            seed=_seed(self.random_state),
        )

    def _warn(self, report: Any) -> None:
        if report.held_out is not None and report.overfits:
            warnings.warn(
                f"the training estimate {report.training:.3f} nat lies above the held-out interval "
                f"[{report.held_out.low:.3f}, {report.held_out.high:.3f}]: trust the held-out one (information_)",
                stacklevel=3,
            )

    def density(self, X: Any, S: ArrayLike | None = None) -> Floats:  # noqa: N803
        """`i(s; x)`: (n, |S|) for a finite secret; of the pairs (X, S), (n,), for a vector-valued one."""
        artefact = self.artefact
        if isinstance(artefact, PairDensity):
            if S is None:
                raise LowtideError("the secret is a vector of numbers: ask about pairs, density(X, S)")
            return artefact.density(X, S)
        if S is not None:
            raise LowtideError("the secret is finite: density(X) answers for every class, without S")
        return artefact.density(X)

    def observed(self, X: Any, mask: ArrayLike) -> Floats:  # noqa: N803
        """`i(s; x_A)` for the features where `mask`, (m,) or (n, m), is true, (n, |S|)."""
        return self._finite("observed").observed(X, mask)

    def prefixes(self, X: Any) -> Floats:  # noqa: N803
        """`i(s; x^j)` for j = 0 … m, (n, m + 1, |S|), in one pass."""
        return self._finite("prefixes").prefixes(X)

    def conditionals(self, X: Any) -> Floats | TermConditionals:  # noqa: N803
        """`i(s; x_j | x^{j−1})`, (n, m, |S|); of the present terms only when X is texts or sparse."""
        return self._finite("conditionals").conditionals(X)

    def shapley(self, X: Any, *, orders: int = 32) -> Attribution:  # noqa: N803
        """Order-free attribution that adds up to the density, with its Monte-Carlo error."""
        return self._finite("shapley").shapley(X, orders=orders, seed=_seed(self.random_state))

    def information(self, X: Any, s: ArrayLike, *, level: float = 0.95) -> Estimate:  # noqa: N803
        """`I(S; X)` from held-out rows with its interval; `.bits` counts it in bits."""
        return self.artefact.information(X, s, level=level)

    def transform(self, X: Any) -> Floats:  # noqa: N803
        """The density as columns, one per class: for pipelines."""
        return self._finite("transform").density(X)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the columns of `transform`."""
        check_is_fitted(self, "artefact_")
        return np.array([f"density_{label}" for label in self.classes_], dtype=object)

    def _finite(self, question: str) -> Density:
        artefact = self.artefact
        if isinstance(artefact, PairDensity):
            raise LowtideError(f"{question} needs a finite secret; for a vector of numbers there is density(X, S)")
        return artefact

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that a secret is required and sparse rows are welcome."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        return tags


def _seed(random_state: Any) -> int:
    """An integer seed from what scikit-learn allows: an int, `None`, or a generator.

    The seed is hashed. A user who draws data with `default_rng(0)` and fits with `random_state=0` would otherwise have
    the very numbers that drew the classes decide which rows are held out.
    """
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return int(np.random.SeedSequence([count("random_state", random_state, 0), 0x71DE]).generate_state(1)[0])
