"""TIDE, the trimmed information density estimator, as a scikit-learn citizen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from lowtide.checks import count, one_of, within
from lowtide.doc_links import Documented
from lowtide.estimate.density import Attribution, Density, TermConditionals
from lowtide.estimate.fitting import fit_density
from lowtide.estimate.objectives import OBJECTIVES, Options
from lowtide.features import Features
from lowtide.interface import Estimate
from lowtide.splits import derived_seed
from lowtide.training import computing_on
from lowtide.types import Floats

CriticName = Literal["auto", "null", "masked", "bag"]


class TIDE(Documented, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Estimate how much each feature of each sample tells about a secret (paper, Eq. 20).

    `fit(X, s)` yields a frozen `Density` in `artefact`, which the methods below ask. All densities
    are in nats.

    Args:
        features: what one feature is: a `Features`, or one integer per column; by default every
            input column. Of images the side of their patches in pixels; of texts what counts as a
            term, by default `TermOptions()`.
        trim: M > 0; answers are clipped to ±M, which cuts off at most e^−M of the upper tail
            (paper, Eq. 18).
        objective: the variational bound that neural critics maximise: `dv`, `nwj`, `chi2`, `js`,
            `hellinger` or `cross-entropy`.
        critic: `auto` mixes any-mask networks, logistic regression and boosted trees for dense
            rows, and takes a bag-of-terms critic for sparse ones, each against the null model g = 0
            on held-out rows; of images, any-mask convolutional networks. `masked` is the
            networks of dense rows alone.
        folds: how many folds the held-out choice uses; of images at most 3.
        max_steps: training steps of the neural critics; by default enough for a few thousand rows.
        device: where networks are trained: `cpu`, `cuda`, `mps`, or `auto` for the first of cuda,
            mps and cpu that is there. The fitted density is on the CPU, and answers there. On the
            CPU the same seed gives the same bits; elsewhere the same up to rounding.
        checkpoint: a folder; a fit interrupted there by Ctrl-C goes on where it stopped when it is
            run again.
        progress: whether to draw progress bars; by default only on a terminal.
        random_state: the seed; the same seed gives the same result.

    Attributes:
        classes_: the values of the secret, in the order of the last axis of every answer.
        information_: held-out (cross-fitted) information of the training rows, an `Estimate`.
        converged_: whether training stopped by itself, and not at its last step.
        n_features_in_: columns of X; of images, numbers in each; of texts, terms of the vocabulary.
    """

    def __init__(
        self,
        features: Features | Sequence[int] | int | Any = None,
        trim: float = 3.0,
        objective: str = "dv",
        critic: CriticName = "auto",
        *,
        folds: int = 5,
        max_steps: int | None = None,
        device: str = "cpu",
        checkpoint: str | None = None,
        progress: bool | None = None,
        random_state: int = 0,
    ) -> None:
        self.features = features
        self.trim = trim
        self.objective = objective
        self.critic = critic
        self.folds = folds
        self.max_steps = max_steps
        self.device = device
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
            X: rows: an array, a data frame, a scipy sparse matrix, a tensor, a float32 memory map.
                Images: bytes (n, height, width) or (n, height, width, channels), or `Images`, which
                are read in batches. Texts: a list or a column. Of more than 200,000 rows or texts a
                uniform sample is fitted, and a note says so.
            y: (n,) the secret of every row, labels.
            groups: (n,) what must stay on one side whenever rows are held out: who wrote a text,
                for example. Of texts and sparse rows only.
        """
        with computing_on(self.device):
            self.artefact_ = fit_density(X, y, self._options(), groups=groups)
        encoder = self.artefact_.encoder
        report = self.artefact_.report
        self.n_features_in_ = encoder.inputs
        if encoder.names:
            self.feature_names_in_ = np.array(encoder.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.classes_ = np.array(self.artefact_.classes.labels)
        if report is not None:
            self.information_ = report.held_out
            self.converged_ = report.converged
        return self

    @property
    def artefact(self) -> Density:
        """The frozen density: small, immutable, callable; `artefact.save(path)` keeps it."""
        check_is_fitted(self, "artefact_")
        return self.artefact_

    def _options(self) -> Options:
        within("trim", self.trim, 0.0, np.inf, low_open=True, high_open=True)
        one_of("objective", self.objective, tuple(OBJECTIVES))
        one_of("critic", self.critic, ("auto", "null", "masked", "bag"))
        return Options(
            features=self.features,
            trim=float(self.trim),
            objective=self.objective,
            critic=self.critic,
            folds=count("folds", self.folds, 2),
            steps=None if self.max_steps is None else count("max_steps", self.max_steps, 1),
            checkpoint=self.checkpoint,
            progress=self.progress,
            seed=read_seed(self.random_state),
        )

    def density(self, X: Any) -> Floats:  # noqa: N803
        """`i(s; x)` for every row and class, (n, |S|)."""
        return self.artefact.density(X)

    def observed(self, X: Any, mask: ArrayLike) -> Floats:  # noqa: N803
        """`i(s; x_A)` for the features where `mask`, (m,) or (n, m), is true, (n, |S|)."""
        return self.artefact.observed(X, mask)

    def prefixes(self, X: Any) -> Floats:  # noqa: N803
        """`i(s; x^j)` for j = 0 … m, (n, m + 1, |S|), in one pass."""
        return self.artefact.prefixes(X)

    def conditionals(self, X: Any) -> Floats | TermConditionals:  # noqa: N803
        """`i(s; x_j | x^{j−1})`, (n, m, |S|); of the present terms only when X is texts or
        sparse.
        """
        return self.artefact.conditionals(X)

    def shapley(self, X: Any, *, orders: int = 32) -> Attribution:  # noqa: N803
        """Order-free attribution that adds up to the density, with its Monte-Carlo error."""
        return self.artefact.shapley(X, orders=orders, seed=read_seed(self.random_state))

    def information(self, X: Any, s: ArrayLike, *, level: float = 0.95) -> Estimate:  # noqa: N803
        """`I(S; X)` from held-out rows with its interval; `.bits` counts it in bits."""
        return self.artefact.information(X, s, level=level)

    def transform(self, X: Any) -> Floats:  # noqa: N803
        """The density as columns, one per class: for pipelines."""
        return self.artefact.density(X)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the columns of `transform`."""
        check_is_fitted(self, "artefact_")
        return np.array([f"density_{label}" for label in self.classes_], dtype=object)

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that a secret is required and sparse rows are welcome."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        return tags


def read_seed(random_state: Any) -> int:
    """An integer seed from what scikit-learn allows: an int, `None`, or a generator; see
    `lowtide.splits`.
    """
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return derived_seed(count("random_state", random_state, 0), "density")
