"""The paper's recipe from data to a density: rows, texts, and vectors of numbers.

Nothing is held out, so that a report has no held-out information.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from lowtide.estimate.density import Density, FitReport
from lowtide.estimate.fitting import read_secret
from lowtide.estimate.tide import read_seed
from lowtide.tables.encoder import read_table
from lowtide.texts.encoder import as_texts
from lowtide.texts.learning import learn_encoder
from lowtide.texts.terms import TermOptions
from lowtide.training import one_thread
from lowtide.types import Floats, Ints
from paper.critics import PaperCritic, PaperPairs
from paper.training import network_tensors, train, train_sparse
from vectors.artefact import PairDensity
from vectors.columns import read_vector

_STREAM = 0x7E87  # keeps the random numbers of texts apart from those of the library
_AT_ONCE = 4096  # sparse rows scored at once


@dataclass(frozen=True)
class Recipe:
    """What the paper's networks are trained with.

    Attributes:
        trim: M, the hard clip inside the objective.
        objective: the variational bound, by the name that `TIDE` has for it.
        steps: epochs of rows, batches of texts; by default those of the paper.
        seed: of everything.
        progress: whether to draw a progress bar; by default only on a terminal.
    """

    trim: float = 3.0
    objective: str = "dv"
    steps: int | None = None
    seed: int = 0
    progress: bool | None = None


_EPOCHS = 3000


def fit_rows(x: Any, s: ArrayLike, recipe: Recipe) -> Density:
    """The paper's network for rows with a finite secret.

    Args:
        x: n dense rows: an array or a data frame.
        s: (n,) labels.
        recipe: how to train.
    """
    rows, encoder = read_table(x)
    classes, codes = read_secret(s, rows.shape[0], noun="row")
    features = encoder.features()
    with one_thread():
        net = _train_pairs(rows, np.eye(len(classes.labels))[codes], recipe)
    critic = PaperCritic(net, features.groups, len(classes.labels))
    g = critic.scores(np.array(rows, dtype=np.float32)).clip(-recipe.trim, recipe.trim)
    return Density(classes, features, critic, recipe.trim, encoder, _report(g, codes))


def fit_texts(
    texts: Any, s: ArrayLike, recipe: Recipe, *, terms: TermOptions | None = None
) -> Density:
    """The paper's network for texts.

    Args:
        texts: n texts, as a list or a column.
        s: (n,) labels.
        recipe: how to train.
        terms: what counts as a term.
    """
    listed = as_texts(texts)
    classes, codes = read_secret(s, len(listed), noun="text")
    encoder = learn_encoder(listed, terms)
    features = encoder.features()
    rows = encoder.encode(listed).tocsr()
    state = np.random.SeedSequence([read_seed(recipe.seed), _STREAM]).generate_state(1)
    with one_thread():
        net = train_sparse(
            rows,
            codes,
            classes=len(classes.labels),
            trim=recipe.trim,
            objective=recipe.objective,
            steps=recipe.steps,
            seed=int(state[0]),
            show=recipe.progress,
        )
    critic = PaperCritic(network_tensors(net), features.groups, len(classes.labels))
    starts = range(0, rows.shape[0], _AT_ONCE)
    parts = [critic.scores(rows[start : start + _AT_ONCE]) for start in starts]
    g = np.concatenate(parts).clip(-recipe.trim, recipe.trim)
    return Density(classes, features, critic, recipe.trim, encoder, _report(g, codes))


def fit_pairs(x: ArrayLike, s: ArrayLike, recipe: Recipe) -> PairDensity:
    """The paper's network for a secret that is a vector of numbers.

    Args:
        x: (n, columns) numbers.
        s: (n, d) numbers, or (n,).
        recipe: how to train.
    """
    rows, encoder = read_table(x)
    dense = np.asarray(rows, dtype=np.float64)
    secret = read_vector(s)
    with one_thread():
        critic = PaperPairs(_train_pairs(dense, secret, recipe))
    values = np.clip(critic.values(dense, secret), -recipe.trim, recipe.trim)
    report = FitReport("the paper's recipe (nothing held out)", False, None, float(values.mean()))
    return PairDensity(critic, secret.shape[1], recipe.trim, encoder, report)


def _train_pairs(x: Any, s: Floats, recipe: Recipe) -> dict[str, Any]:
    """The weights of the network for pairs of dense rows x (n, columns) and s (n, d)."""
    net = train(
        torch.from_numpy(np.array(x, dtype=np.float32)),
        torch.from_numpy(np.array(s, dtype=np.float32)),
        trim=recipe.trim,
        objective=recipe.objective,
        epochs=recipe.steps or _EPOCHS,
        seed=read_seed(recipe.seed),
        show=recipe.progress,
    )
    return network_tensors(net)


def _report(g: Any, codes: Ints) -> FitReport:
    """The report of clipped scores (n, |S|) on the rows of the training."""
    values = g[np.arange(len(codes)), codes].astype(np.float64)
    return FitReport("the paper's recipe (nothing held out)", False, None, float(values.mean()))
