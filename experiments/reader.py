"""The reader beside the classifiers of every day: logistic regression with an L1 or an L2 penalty,
with and without products, and the boosted trees of scikit-learn, LightGBM and XGBoost.

Seven laws whose density is known: Gaussians in 2 and in 50 dimensions, classes that differ in their
covariance, an exclusive or among ten columns, categories that turn the sign of a number, heavy
tails, and three telling columns among two hundred of noise; and four real tables, where `--data`
says where they lie. The error is the mean of |estimate − truth| over all classes of fresh rows,
both clipped to ±3; what is held out is the mean gain of `log p(s | x)` over the prior, in nats.
Every plain model has its penalty chosen by cross-validation or its rounds by early stopping. Time
is of the processor, on one thread. LightGBM and XGBoost take part where they are installed.
"""

from __future__ import annotations

import importlib.util
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.special import expit
from scipy.stats import t as student
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

from lowtide import TIDE, worlds
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.training import one_thread
from lowtide.types import Bools, Floats, Ints
from table_frontiers import codes, load

TRIM = 3.0
TEST = 10_000
SIZES = (300, 1000, 10_000)
MOST_PRODUCTS = 60  # columns, after one-hot encoding, of which all products are taken
FLIP = 0.1
CATEGORIES = (3, 5, 8)
LEVELS = "abcdefgh"


@dataclass(frozen=True)
class Sample:
    """Rows with their secrets.

    Attributes:
        table: the columns by name, categories as text.
        secret: (n,) classes.
        truth: (n, |S|) their density, where the law is known.
    """

    table: pa.Table
    secret: Ints
    truth: Floats | None = None


@dataclass(frozen=True)
class Task:
    """What a model is fitted to and what it is judged on."""

    name: str
    seed: int
    train: Sample
    test: Sample


@dataclass(frozen=True)
class Score:
    """How one model did on one task.

    Attributes:
        law: the law or table.
        rows: of the training sample.
        seed: of the sample.
        model: its name.
        error: mean |estimate − truth|; `None` where the truth is not known.
        nats: held-out gain over the prior.
        seconds: of the processor, for the fit.
    """

    law: str
    rows: int
    seed: int
    model: str
    error: float | None
    nats: float
    seconds: float


Law = Callable[[int, np.random.Generator], Sample]


def laws() -> dict[str, Law]:
    """The seven laws, and one whose secret is independent."""
    return {
        "Gaussian, d = 2": _of_world(worlds.shifted_gaussian(2, dimension=2, shift=1.0)),
        "Gaussian, d = 50": _of_world(worlds.shifted_gaussian(2, dimension=50, shift=0.3)),
        "two covariances, d = 10": _covariances,
        "exclusive or among 10": _exclusive_or,
        "categories and numbers": _categories,
        "t(2), d = 6": _heavy_tails,
        "3 of 203": _of_world(worlds.shifted_gaussian(2, dimension=203, shift=1.0, moved=3)),
        "independent": _of_world(worlds.shifted_gaussian(2, dimension=10, shift=0.0)),
    }


def _named(x: Floats) -> pa.Table:
    return pa.table({f"x{j}": x[:, j] for j in range(x.shape[1])})


def _of_world(world: Any) -> Law:
    def sample(n: int, rng: np.random.Generator) -> Sample:
        x, s = world.sample(n, int(rng.integers(2**31)))
        return Sample(_named(x), s, world.density(x))

    return sample


def _from_logit(table: pa.Table, logit: Floats, rng: np.random.Generator) -> Sample:
    """A secret whose log-odds are symmetric about 0: each class has probability one half."""
    p = expit(logit)
    s = (rng.random(len(logit)) < p).astype(np.intp)
    return Sample(table, s, np.log(2 * np.column_stack([1 - p, p])))


def _covariances(n: int, rng: np.random.Generator) -> Sample:
    """Two Gaussians: the second has other variances, and some of its columns are correlated."""
    spread = np.where(np.arange(10) < 4, 1.6, 1.0)
    correlation = np.eye(10)
    correlation[[4, 5, 6, 7], [5, 4, 7, 6]] = 0.6
    covariance = spread[:, None] * correlation * spread
    s = rng.integers(2, size=n)
    x = rng.standard_normal((n, 10))
    x[s == 1] = 0.3 + x[s == 1] @ np.linalg.cholesky(covariance).T
    squares = np.einsum("ni,ij,nj->n", x - 0.3, np.linalg.inv(covariance), x - 0.3)
    odds = 0.5 * ((x**2).sum(axis=1) - squares - np.linalg.slogdet(covariance)[1])
    p = expit(odds)
    return Sample(_named(x), s, np.log(2 * np.column_stack([1 - p, p])))


def _exclusive_or(n: int, rng: np.random.Generator) -> Sample:
    x = rng.standard_normal((n, 10))
    odds = np.log((1 - FLIP) / FLIP)
    return _from_logit(_named(x), np.where(x[:, 0] * x[:, 1] < 0, odds, -odds), rng)


def _categories(n: int, rng: np.random.Generator) -> Sample:
    """A category of three turns the sign of a number; others, and another number, add their own."""
    x = rng.standard_normal((n, 4))
    held = [rng.integers(levels, size=n) for levels in CATEGORIES]
    columns = {f"c{j}": np.array(list(LEVELS))[own] for j, own in enumerate(held)}
    logit = (
        np.array([1.5, -1.5, 0.0])[held[0]] * x[:, 0]
        + np.linspace(-1.0, 1.0, CATEGORIES[1])[held[1]]
        + np.resize([0.8, -0.8], CATEGORIES[2])[held[2]]
        + 0.8 * x[:, 1]
    )
    return _from_logit(pa.table({**columns, **{f"x{j}": x[:, j] for j in range(4)}}), logit, rng)


def _heavy_tails(n: int, rng: np.random.Generator) -> Sample:
    """Columns of a t law with two degrees of freedom, shifted by one in the second class."""
    s = rng.integers(2, size=n)
    x = student.rvs(2, size=(n, 6), random_state=rng) + s[:, None]
    odds = (student.logpdf(x, 2, loc=1) - student.logpdf(x, 2)).sum(axis=1)
    p = expit(odds)
    return Sample(_named(x), s, np.log(2 * np.column_stack([1 - p, p])))


@dataclass(frozen=True)
class Encoded:
    """A table as everyday models take it: numbers, of which some are the codes of categories.

    Attributes:
        categorical: (columns,) which columns are codes.
        vocabularies: of every category the levels seen in training.
    """

    categorical: Bools
    vocabularies: tuple[dict[Any, int] | None, ...]

    @classmethod
    def of(cls, table: pa.Table) -> Encoded:
        """From the training rows; a level that occurs only later is missing."""
        found = [None if _is_number(column) else _levels(column) for column in table.columns]
        return cls(np.array([own is not None for own in found]), tuple(found))

    def __call__(self, table: pa.Table) -> Floats:
        """(n, columns) with NaN for what is missing."""
        return np.column_stack(
            [
                _numbers(column) if own is None else _codes(column, own)
                for column, own in zip(table.columns, self.vocabularies, strict=True)
            ]
        )


def _is_number(column: pa.ChunkedArray) -> bool:
    return pa.types.is_floating(column.type) or pa.types.is_integer(column.type)


def _levels(column: pa.ChunkedArray) -> dict[Any, int]:
    values = sorted({str(value) for value in column.to_pylist() if value is not None})
    return {value: k for k, value in enumerate(values)}


def _numbers(column: pa.ChunkedArray) -> Floats:
    return np.array(
        [np.nan if value is None else value for value in column.to_pylist()], dtype=np.float64
    )


def _codes(column: pa.ChunkedArray, levels: dict[Any, int]) -> Floats:
    return np.array([levels.get(str(value), np.nan) for value in column.to_pylist()])


Model = Callable[[Floats, Ints], Any]
"""Fit to rows and classes; what comes back has `predict_proba`."""


def everyday(categorical: Bools, seed: int) -> dict[str, Model]:
    """The plain models, by name."""
    models = {
        "logistic, L2": _logistic(categorical, 0.0),
        "logistic, L1": _logistic(categorical, 1.0),
        "products": _logistic(categorical, 0.0, products=True),
        "products, L1": _logistic(categorical, 1.0, products=True),
        "HistGradientBoosting": lambda x, s: HistGradientBoostingClassifier(
            categorical_features=categorical, early_stopping=True, max_iter=500, random_state=seed
        ).fit(x, s),
    }
    if importlib.util.find_spec("lightgbm") is not None:
        models["LightGBM"] = lambda x, s: _lightgbm(x, s, categorical, seed)
    if importlib.util.find_spec("xgboost") is not None:
        models["XGBoost"] = lambda x, s: _xgboost(x, s, categorical, seed)
    return models


def _logistic(categorical: Bools, l1: float, *, products: bool = False) -> Model:
    """A regression on standardised numbers and one-hot categories, with a penalty of its choice."""
    numbers = make_pipeline(
        SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True),
        StandardScaler(),
    )
    levels = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    first = ColumnTransformer(
        [
            ("numbers", numbers, np.flatnonzero(~categorical)),
            ("levels", levels, np.flatnonzero(categorical)),
        ]
    )
    model = LogisticRegressionCV(
        Cs=np.logspace(-3, 1, 5),
        cv=3,
        scoring="neg_log_loss",
        l1_ratios=(l1,),
        solver="saga" if l1 else "lbfgs",
        max_iter=100 if l1 else 300,
        tol=1e-3,
        use_legacy_attributes=False,
    )
    between = (
        [PolynomialFeatures(2, interaction_only=False, include_bias=False)] if products else []
    )

    def fit(x: Floats, s: Ints) -> Any:
        if products and first.fit_transform(x[:50]).shape[1] > MOST_PRODUCTS:
            return None
        return make_pipeline(first, *between, StandardScaler(), model).fit(x, s)

    return fit


def _lightgbm(x: Floats, s: Ints, categorical: Bools, seed: int) -> Any:
    import lightgbm

    model = lightgbm.LGBMClassifier(
        n_estimators=1000, learning_rate=0.05, n_jobs=1, random_state=seed, verbosity=-1
    )
    fitted, judged, own, theirs = _halves(x, s, seed)
    return model.fit(
        fitted,
        own,
        eval_set=[(judged, theirs)],
        categorical_feature=np.flatnonzero(categorical).tolist(),
        callbacks=[lightgbm.early_stopping(20, verbose=False)],
    )


def _xgboost(x: Floats, s: Ints, categorical: Bools, seed: int) -> Any:
    import xgboost

    model = xgboost.XGBClassifier(
        n_estimators=1000,
        learning_rate=0.1,
        early_stopping_rounds=20,
        enable_categorical=True,
        feature_types=np.where(categorical, "c", "q").tolist(),
        n_jobs=1,
        random_state=seed,
    )
    fitted, judged, own, theirs = _halves(x, s, seed)
    return model.fit(fitted, own, eval_set=[(judged, theirs)], verbose=False)


def _halves(x: Floats, s: Ints, seed: int) -> list[Any]:
    return list(train_test_split(x, s, test_size=0.15, stratify=s, random_state=seed))


def scored(task: Task, model: str, density: Floats, seconds: float) -> Score:
    """Compare (n, |S|) estimates with the truth, where it is known, and with the secrets."""
    truth = task.test.truth
    error = None
    if truth is not None:
        error = float(np.abs(np.clip(density, -TRIM, TRIM) - np.clip(truth, -TRIM, TRIM)).mean())
    return Score(
        task.name,
        len(task.train.secret),
        task.seed,
        model,
        error,
        nats(density, task.test.secret, np.bincount(task.train.secret)),
        seconds,
    )


def nats(density: Floats, s: Ints, counts: Ints) -> float:
    """Mean held-out gain of a density, made a posterior again after it was trimmed."""
    prior = counts / counts.sum()
    posterior = prior * np.exp(density)
    posterior /= posterior.sum(axis=1, keepdims=True)
    return float(np.log(posterior[np.arange(len(s)), s] / prior[s]).mean())


def measure(task: Task) -> Iterator[Score]:
    """Every model on one task."""
    encoded = Encoded.of(task.train.table)
    x = encoded(task.train.table)
    fresh = encoded(task.test.table)
    s = task.train.secret
    log_prior = np.log(np.bincount(s) / len(s))
    for name, fit in everyday(encoded.categorical, task.seed).items():
        start = time.process_time()
        model = fit(x, s)
        seconds = time.process_time() - start
        if model is not None:
            found = np.log(np.clip(model.predict_proba(fresh), 1e-12, None)) - log_prior
            yield scored(task, name, np.clip(found, -12, 12), seconds)
    start = time.process_time()
    tide = TIDE(trim=12.0, random_state=task.seed).fit(task.train.table, s)
    seconds = time.process_time() - start
    yield scored(task, "TIDE", tide.density(task.test.table), seconds)


def tasks(sizes: Iterable[int], seeds: Iterable[int]) -> Iterator[Task]:
    """The laws, at every size."""
    for rows in sizes:
        for name, law in laws().items():
            for seed in seeds:
                rng = np.random.default_rng([seed, rows])
                yield Task(name, seed, law(rows, rng), law(TEST, rng))


TABLES = {
    "adult": ("adult.csv", "sex", ()),
    "compas": ("compas.csv", "race", ()),
    "german_credit": ("german_credit.csv", "sex", ("personal_status_sex",)),
    "house_votes": ("house_votes_84.csv", "party", ()),
}


def table_tasks(folder: Path, seeds: Iterable[int]) -> Iterator[Task]:
    """The real tables: their own split where they have one, else seven rows of ten."""
    for name, (file, secret, dropped) in TABLES.items():
        table = load(folder, file, drop=dropped)
        s = codes(table[secret])
        split = None
        if "split" in table.column_names:
            split = np.array(table["split"].to_pylist()) == "train"
        rest = table.drop_columns([c for c in (secret, "split") if c in table.column_names])
        for seed in seeds:
            train = split
            if train is None:
                own, _ = train_test_split(
                    np.arange(len(s)), train_size=0.7, stratify=s, random_state=seed
                )
                train = np.isin(np.arange(len(s)), own)
            yield Task(
                name,
                seed,
                Sample(rest.filter(pa.array(train)), s[train]),
                Sample(rest.filter(pa.array(~train)), s[~train]),
            )


@dataclass(frozen=True)
class Cell:
    """One law at one size, averaged over the seeds: TIDE beside the best of the others."""

    law: str
    rows: int
    error: float | None
    best_error: float | None
    best_by_error: str | None
    nats: float
    best_nats: float
    best_by_nats: str
    seconds: float
    best_seconds: float


def cells(found: list[Score]) -> list[Cell]:
    """Average, and find the best plain model of every cell."""
    return [
        _cell(law, rows, [one for one in found if (one.law, one.rows) == (law, rows)])
        for law, rows in dict.fromkeys((one.law, one.rows) for one in found)
    ]


def _cell(law: str, rows: int, own: list[Score]) -> Cell:
    def mean(model: str, figure: Callable[[Score], float]) -> float:
        return float(np.mean([figure(one) for one in own if one.model == model]))

    others = list(dict.fromkeys(one.model for one in own if one.model != "TIDE"))
    by_nats = max(others, key=lambda model: mean(model, lambda one: one.nats))
    error = None
    best_error = None
    best = None
    if own[0].error is not None:
        best = min(others, key=lambda model: mean(model, _error))
        error = mean("TIDE", _error)
        best_error = mean(best, _error)
    return Cell(
        law,
        rows,
        error,
        best_error,
        best,
        mean("TIDE", lambda one: one.nats),
        mean(by_nats, lambda one: one.nats),
        by_nats,
        mean("TIDE", lambda one: one.seconds),
        mean(best or by_nats, lambda one: one.seconds),
    )


def _error(one: Score) -> float:
    if one.error is None:
        raise ValueError("the truth of this law is not known")
    return one.error


def main() -> None:
    """Print the table."""
    options = parse_arguments(__doc__ or "")
    warnings.simplefilter("ignore")
    seeds = range(options.seed, options.seed + (1 if options.quick else 3))
    found: list[Score] = []
    jobs = tasks(SIZES[:1] if options.quick else SIZES, seeds)
    with one_thread():
        for task in jobs:
            found += measure(task)
            print(f"  {task.name}, {found[-1].rows:,} rows, seed {task.seed}", flush=True)
        for task in table_tasks(options.data, seeds) if options.data else ():
            found += measure(task)
            print(f"  {task.name}, {found[-1].rows:,} rows, seed {task.seed}", flush=True)
    rows = cells(found)
    print_table(
        "TIDE beside the best plain model of each cell",
        ["law", "rows", "error", "best", "by", "nats", "best", "by", "s", "its s"],
        [list(asdict(row).values()) for row in rows],
    )
    if options.json:
        write_json(
            options.json,
            {"cells": [asdict(row) for row in rows], "scores": [asdict(one) for one in found]},
        )


if __name__ == "__main__":
    main()
