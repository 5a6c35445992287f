"""TIDE beside everyday classifiers: logistic regression, with and without products, and boosted trees.

Nine laws whose density is known: a class of 2 %, five classes, thirty columns that each tell little, steps, columns
with heavy tails, a secret that is nearly determined, products, and rare values at the end and in the middle of a
column's range. The error is the mean of |estimate − truth| at the true class over fresh rows, both clipped to ±3. A
plain classifier has its penalty chosen and is calibrated by cross-validation, both by scikit-learn.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy.special import expit, log_softmax, ndtr
from sklearn.linear_model import LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from lowtide import TIDE, worlds
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.types import Floats, Ints
from peers.estimators import Classifier

TRIM, TEST = 3.0, 10_000
SIZES = (1000, 5000)
RATE = 0.02  # of label flips in the law that is nearly deterministic


@dataclass(frozen=True)
class Law:
    """A law of rows and secrets.

    Attributes:
        sample: n and a seed to rows (n, columns) and secrets (n,).
        density: rows to `i(s; x)`, (n, |S|).
    """

    sample: Callable[[int, int], tuple[Floats, Ints]]
    density: Callable[[Floats], Floats]


@dataclass(frozen=True)
class Row:
    """Errors on one law with so many training rows, averaged over seeds; seconds a fit of TIDE."""

    law: str
    rows: int
    linear: float
    products: float
    trees: float
    tide: float
    seconds: float

    @property
    def ratio(self) -> float:
        """The error of TIDE, in units of the best plain one."""
        return self.tide / min(self.linear, self.products, self.trees)


def laws() -> dict[str, Law]:
    """The nine laws."""
    return {
        "class of 2 %": _world(worlds.shifted_gaussian(2, dimension=8, shift=0.6, prior=[0.98, 0.02])),
        "five classes": _corners(),
        "thirty weak columns": _world(worlds.shifted_gaussian(2, dimension=30, shift=0.2)),
        "steps": _indicators(_normal, lambda x: x[:, :4] > STEPS, ndtr(-STEPS), np.array([2.0, -1.5, 1.0, -2.0])),
        "lognormal": _lognormal(),
        "near-deterministic": _logits(_normal, _diagonal, 0.5),
        "interactions": _logits(_normal, lambda x: 1.5 * x[:, 0] * x[:, 1] + x[:, 2] * x[:, 3], 0.5),
        "rare values": _rare(9),
        "rare values in the middle": _rare(4),
    }


STEPS = np.array([-0.8, 0.0, 0.5, 1.0])  # where the log-odds jump
RARE = 0.03  # how often each of four columns holds its telling value


def _world(world: Any) -> Law:
    return Law(world.sample, world.density)


def _corners() -> Law:
    """Five classes, each further out along a column of its own; three columns tell nothing."""
    means = 1.2 * np.eye(5, 8)

    def sample(n: int, seed: int) -> tuple[Floats, Ints]:
        rng = np.random.default_rng(seed)
        s = rng.integers(5, size=n)
        return means[s] + rng.standard_normal((n, 8)), s

    return Law(sample, lambda x: log_softmax(x @ means.T, axis=1) + np.log(5))


def _lognormal() -> Law:
    """Columns whose logarithms, halved, are a shifted Gaussian."""
    world = worlds.shifted_gaussian(2, dimension=6, moved=3)

    def sample(n: int, seed: int) -> tuple[Floats, Ints]:
        x, s = world.sample(n, seed)
        return np.exp(2 * x), s

    return Law(sample, lambda x: world.density(np.log(x) / 2))


def _normal(n: int, rng: np.random.Generator) -> Floats:
    return rng.standard_normal((n, 6))


def _rare(digit: int) -> Law:
    """Six columns of digits, of which one is rare; in four of them it tells."""
    shares = np.where(np.arange(10) == digit, RARE, (1 - RARE) / 9)

    def draw(n: int, rng: np.random.Generator) -> Floats:
        return rng.choice(10, (n, 6), p=shares).astype(np.float64)

    return _indicators(draw, lambda x: x[:, :4] == digit, np.full(4, RARE), np.array([3.0, -3.0, 3.0, -3.0]))


def _diagonal(x: Floats) -> Floats:
    """Log-odds of the sign of a sum of two columns, with label flips."""
    return np.where(x[:, 0] + x[:, 1] > 0, 1.0, -1.0) * np.log((1 - RATE) / RATE)


def _indicators(
    draw: Callable[[int, np.random.Generator], Floats], bits: Callable[[Floats], Any], shares: Floats, slopes: Floats
) -> Law:
    """Log-odds that are a sum over independent bits of the row, each true in its share."""
    atoms = np.array(list(product((0.0, 1.0), repeat=len(shares))))
    mass = np.where(atoms == 1, shares, 1 - shares).prod(axis=1)
    return _logits(draw, lambda x: np.asarray(bits(x) @ slopes), float(mass @ expit(atoms @ slopes)))


def _logits(draw: Callable[[int, np.random.Generator], Floats], logit: Callable[[Floats], Floats], prior: float) -> Law:
    """A secret of two classes from its log-odds; `prior` is the share of the second."""

    def sample(n: int, seed: int) -> tuple[Floats, Ints]:
        rng = np.random.default_rng(seed)
        x = draw(n, rng)
        return x, (rng.random(n) < expit(logit(x))).astype(np.intp)

    def density(x: Floats) -> Floats:
        p = expit(logit(x))
        return np.log(np.stack([(1 - p) / (1 - prior), p / prior], axis=1))

    return Law(sample, density)


def plain(seed: int) -> dict[str, Classifier]:
    """The everyday models."""

    def logistic(*before: Any) -> Any:
        model = LogisticRegressionCV(
            Cs=[1e-3, 1e-2, 0.1, 1.0], cv=3, scoring="neg_log_loss", solver="newton-cholesky", random_state=seed
        )
        return make_pipeline(*before, StandardScaler(), model)

    # Log-odds of a regression need a scale at most; those of trees are given an offset as well.
    options: dict[str, Any] = {"trim": TRIM, "secret": "classes", "random_state": seed}
    return {
        "linear": Classifier(estimator=logistic(), calibration="temperature", **options),
        "products": Classifier(
            estimator=logistic(PolynomialFeatures(2, include_bias=False)), calibration="temperature", **options
        ),
        "trees": Classifier(**options),
    }


def error(estimate: Floats, truth: Floats, s: Ints) -> float:
    """Mean |estimate − truth| at the true class, both trimmed."""
    at = np.arange(len(s)), s
    return float(np.abs(np.clip(estimate[at], -TRIM, TRIM) - np.clip(truth[at], -TRIM, TRIM)).mean())


def measure(name: str, law: Law, rows: int, seeds: range) -> Row:
    """Fit and compare, for each seed."""
    found = []
    for seed in seeds:
        x, s = law.sample(rows, seed)
        fresh, secret = law.sample(TEST, 10_000 + seed)
        truth = law.density(fresh)
        everyday = [error(model.fit(x, s).density(fresh), truth, secret) for model in plain(seed).values()]
        start = time.perf_counter()
        tide = TIDE(trim=TRIM, random_state=seed).fit(x, s)
        seconds = time.perf_counter() - start
        found.append([*everyday, error(tide.density(fresh), truth, secret), seconds])
    return Row(name, rows, *map(float, np.mean(found, axis=0)))


def main() -> None:
    """Print the table."""
    options = parse_arguments(__doc__ or "")
    warnings.simplefilter("ignore")
    seeds = range(options.seed, options.seed + (1 if options.quick else 3))
    found = []
    for rows in SIZES[:1] if options.quick else SIZES:
        for name, law in laws().items():
            found.append(measure(name, law, rows, seeds))
            print(f"  {name:26s} {rows:6,} rows: {found[-1].ratio:.2f} times the best plain one", flush=True)
    columns = ["law", "rows", "logistic", "with products", "boosted trees", "TIDE", "s a fit", "to the best plain one"]
    print_table("Error of the density", columns, [[*asdict(row).values(), row.ratio] for row in found])
    if options.json:
        write_json(options.json, {"laws": [{**asdict(row), "ratio": row.ratio} for row in found]})


if __name__ == "__main__":
    main()
