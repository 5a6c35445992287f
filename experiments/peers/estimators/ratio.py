"""Least-squares fits of the ratio of joint to product law: RuLSIF (Yamada et al. 2011), and uLSIF
at alpha = 0.

The relative ratio r_α = p / (αp + (1 − α)q) stays below 1/α, so it is easier to fit than r = p/q; a
sum of Gaussian kernels fits it in closed form, and r is recovered before the logarithm. Held-out
squared loss chooses the width of the kernels and the ridge. The product law enters through all n²
pairs at once: a Gaussian kernel factors into x and s.
"""

from __future__ import annotations

import numpy as np

from lowtide.checks import count, within
from lowtide.splits import fold_numbers
from lowtide.types import Bools, Floats, Labels
from peers.estimators.base import Baseline, Scaler, SecretKind
from peers.estimators.least_squares import Fit, Moments, fit_by_folds, kernels


class Ratio(Baseline):
    """Density ratios fitted by least squares.

    Args:
        alpha: share of the joint law in the denominator, in [0, 1); 0 fits the ratio itself
            (uLSIF).
        centres: how many training rows carry a kernel.
        folds: folds of the cross-validation.
        trim: the largest absolute density, in nats.
        secret: "classes", "vector", or "auto" to tell by its values.
        random_state: seed of the choice of centres and folds.

    Attributes:
        fits_: the fitted ratios: one per class, or a single one for a vector-valued secret.
    """

    def __init__(
        self,
        *,
        alpha: float = 0.1,
        centres: int = 100,
        folds: int = 5,
        trim: float = 5.0,
        secret: SecretKind = "auto",
        random_state: int = 0,
    ) -> None:
        self.alpha = alpha
        self.centres = centres
        self.folds = folds
        self.trim = trim
        self.secret = secret
        self.random_state = random_state

    def _check_parameters(self) -> None:
        within("alpha", self.alpha, 0.0, 1.0, high_open=True)
        count("centres", self.centres, 1)
        count("folds", self.folds, 2)
        count("random_state", self.random_state, 0)

    def _fit_classes(self, rows: Floats, codes: Labels, prior: Floats) -> None:
        rng = np.random.default_rng(self.random_state)
        self.scale_ = Scaler.of(rows)
        self.prior_ = prior
        scaled = self.scale_(rows)
        folds = min(self.folds, int(np.bincount(codes).min()))
        fold_of = np.empty(len(rows), dtype=np.intp)
        for k in range(len(prior)):  # every fold holds rows of every class
            fold_of[codes == k] = fold_numbers(int(np.count_nonzero(codes == k)), folds, rng)
        self.fits_ = [self._fit_class(scaled, codes == k, fold_of, rng) for k in range(len(prior))]

    def _fit_class(
        self, scaled: Floats, own: Bools, fold_of: Labels, rng: np.random.Generator
    ) -> Fit:
        """The ratio p(x | s) / p(x): rows of the class against all rows."""
        centres = self._centres(scaled[own], rng)

        def moments(width: float, fold: int) -> Moments:
            phi = kernels(scaled[fold_of == fold], centres, width)
            return self._mixture(phi[own[fold_of == fold]], phi.T @ phi / len(phi))

        return fit_by_folds(centres, int(fold_of.max()) + 1, moments)

    def _density_of_classes(self, rows: Floats) -> Floats:
        scaled = self.scale_(rows)
        density = np.stack([self._log_ratio(fit(scaled)) for fit in self.fits_], axis=1)
        # The ratios are fitted class by class; dividing by their mean makes Σ_s p(s) e^{i(s;x)} =
        # 1.
        return density - np.log(np.exp(density) @ self.prior_)[:, None]

    def _fit_pairs(self, rows: Floats, secrets: Floats) -> None:
        rng = np.random.default_rng(self.random_state)
        self.scale_ = Scaler.of(rows)
        self.scale_secret_ = Scaler.of(secrets)
        x = self.scale_(rows)
        s = self.scale_secret_(secrets)
        folds = min(self.folds, len(x))
        fold_of = fold_numbers(len(x), folds, rng)
        centres = self._centres(np.hstack([x, s]), rng)
        centres_x, centres_s = np.split(centres, [x.shape[1]], axis=1)

        def moments(width: float, fold: int) -> Moments:
            held = fold_of == fold
            of_x = kernels(x[held], centres_x, width)
            of_s = kernels(s[held], centres_s, width)
            return self._mixture(of_x * of_s, (of_x.T @ of_x) * (of_s.T @ of_s) / len(of_x) ** 2)

        self.fits_ = [fit_by_folds(centres, folds, moments)]

    def _density_of_pairs(self, rows: Floats, secrets: Floats) -> Floats:
        return self._log_ratio(
            self.fits_[0](np.hstack([self.scale_(rows), self.scale_secret_(secrets)]))
        )

    def _centres(self, rows: Floats, rng: np.random.Generator) -> Floats:
        return rows[rng.permutation(len(rows))[: self.centres]]

    def _mixture(self, joint: Floats, product: Floats) -> Moments:
        """Moments from the (m, k) kernels of joint rows and the (k, k) mean of φφᵀ under the
        product law.
        """
        second = self.alpha * joint.T @ joint / len(joint) + (1 - self.alpha) * product
        return Moments(second, joint.mean(axis=0))

    def _log_ratio(self, relative: Floats) -> Floats:
        """log r from r_α; a least-squares fit may leave the range r_α can have, so it is clipped to
        that of ±trim.
        """
        ends = np.exp([-self.trim, self.trim])
        low, high = ends / (self.alpha * ends + 1 - self.alpha)
        relative = np.clip(relative, low, high)
        return np.log((1 - self.alpha) * relative) - np.log1p(-self.alpha * relative)
