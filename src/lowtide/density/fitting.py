"""From data and options to a frozen density: which fitter, and what it is given."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy import sparse

from lowtide.density.artefact import Density, FitReport
from lowtide.density.critics.base import Critic, Null
from lowtide.density.critics.paper import PaperCritic, PaperPairs, train
from lowtide.density.estimates import mean_with_interval
from lowtide.density.masked_fitting import fit_masked
from lowtide.density.options import Options
from lowtide.density.streaming import Blocks, fit_stream
from lowtide.errors import LowtideError
from lowtide.features import Features
from lowtide.images.encoder import are_images
from lowtide.images.fitting import fit_images, is_side
from lowtide.labels import Classes, is_vector, read_classes, read_vector
from lowtide.tables.encoder import Rows, TableEncoder, read_table
from lowtide.texts.encoder import are_texts
from lowtide.texts.fitting import fit_terms, fit_texts, read_groups
from lowtide.texts.terms import TermOptions
from lowtide.threads import one_thread
from lowtide.vectors.artefact import PairDensity
from lowtide.vectors.fitting import fit_structured

# Beyond this many rows one held-out sample is as good as five folds, and much cheaper.
_MANY_ROWS = 20_000
_PAPER_EPOCHS = 3000


def fit_density(
    x: Any, s: ArrayLike | None, options: Options, *, groups: ArrayLike | None = None
) -> Density | PairDensity:
    """Fit what the data asks for; see `TIDE.fit`."""
    texts = are_texts(x) or isinstance(options.features, TermOptions)
    if groups is not None and not (texts or sparse.issparse(x)):
        raise LowtideError(
            "groups are kept apart for texts and sparse rows only; leave groups out for other kinds of X"
        )
    if s is not None and not texts and (are_images(x) or is_side(options.features)):
        return fit_images(x, s, options)
    with one_thread():
        if s is None:
            return _fit_batches(x, options)
        return fit_texts(x, s, options, groups=groups) if texts else _fit_rows(x, s, options, groups)


def _fit_rows(x: Any, s: ArrayLike, options: Options, groups: ArrayLike | None) -> Density | PairDensity:
    rows, encoder = read_table(x)
    if np.asarray(s).shape[:1] != (rows.shape[0],):
        raise LowtideError(f"X has {rows.shape[0]} rows and s has shape {np.asarray(s).shape}; they must match")
    if rows.shape[0] < 4:
        raise LowtideError(f"Found array with {rows.shape[0]} sample(s) while a minimum of 4 is required.")
    if is_vector(s, options.secret):
        return _fit_pairs(rows, s, encoder, options)
    classes, codes = read_classes(s)
    features = read_features(options.features, encoder)
    sides = read_groups(groups, rows.shape[0])
    critic, report = _fit_classes(rows, codes, classes, features, options, sides)
    return Density(classes, features, critic, options.trim, encoder, report)


def read_features(features: Any, encoder: TableEncoder) -> Features:
    """What one feature is: as told, or one per input column."""
    own = encoder.features()
    if features is None:
        return own
    if isinstance(features, Features):
        if len(features.groups) == len(own.groups):
            return features
        groups, names = features.groups, features.names
    else:
        groups = np.asarray(features)
        if groups.ndim != 1 or not np.issubdtype(groups.dtype, np.integer):
            raise LowtideError("features must be a Features, or one whole number per column")
        names = tuple(f"feature {k + 1}" for k in range(len(np.unique(groups))))
    if len(groups) != len(own):
        raise LowtideError(f"features has {len(groups)} entries, X has {len(own)} columns; give one group per column")
    return Features(groups[own.groups], names)


def _fit_classes(
    rows: Rows, s: Any, classes: Classes, features: Features, options: Options, groups: Any
) -> tuple[Critic, FitReport]:
    """A finite secret: choose the fitter by the critic asked for and the shape of the data."""
    if options.critic == "structured":
        raise LowtideError("critic='structured' is for a secret that is a vector of numbers; use 'auto' or 'masked'")
    if options.critic == "null":
        report = FitReport("null", True, mean_with_interval(np.zeros(rows.shape[0])), 0.0, {"null": 0.0})
        return Null(len(classes.labels), len(features)), report
    if sparse.issparse(rows):
        return fit_terms(rows, s, classes, features, options, groups=groups)
    if options.critic == "bag":
        raise LowtideError("critic='bag' needs sparse rows (scipy CSR); for dense ones use 'auto' or 'masked'")
    if options.recipe == "paper":
        return _fit_paper(rows, s, classes, features, options)
    if rows.shape[0] > _MANY_ROWS:
        critic, report, _, _ = fit_stream(Blocks(rows, s, options.seed), replace(options, features=features))
        return critic, report
    return fit_masked(np.ascontiguousarray(rows), s, classes, features, options)


def _fit_batches(batches: Any, options: Options) -> Density:
    """A stream of `(X, s)` batches."""
    whole = hasattr(batches, "shape") or hasattr(batches, "columns") or are_texts(batches)
    if not isinstance(batches, Iterable) or whole:
        raise LowtideError("TIDE requires y to be passed, but the target y is None: give s, or an iterable of (X, s)")
    critic, report, classes, survey = fit_stream(batches, options)
    encoder = survey.encoder or TableEncoder((), ())
    features = options.features if isinstance(options.features, Features) else encoder.features()
    return Density(classes, features, critic, options.trim, encoder, report)


def _fit_pairs(rows: Rows, s: ArrayLike, encoder: TableEncoder, options: Options) -> PairDensity:
    """A secret that is a vector of numbers."""
    if sparse.issparse(rows):
        raise LowtideError("a secret of numbers needs dense rows; give X.toarray(), or a secret of classes")
    if options.critic not in ("auto", "structured"):
        raise LowtideError(
            f"critic={options.critic!r} is for a finite secret; for a vector of numbers use 'structured'"
        )
    secret = read_vector(s)
    dense = np.asarray(rows, dtype=np.float64)
    if options.recipe == "paper":
        return _fit_paper_pairs(dense, secret, encoder, options)
    critic, report = fit_structured(dense, secret, options)
    return PairDensity(critic, secret.shape[1], options.trim, encoder, report)


def _fit_paper_pairs(x: Any, s: Any, encoder: TableEncoder, options: Options) -> PairDensity:
    """The paper's recipe on pairs."""
    net = _train_paper(x, s, options)
    critic = PaperPairs(net)
    values = np.clip(critic.values(x, s), -options.trim, options.trim)
    report = FitReport("the paper's recipe (nothing held out)", False, None, float(values.mean()))
    return PairDensity(critic, s.shape[1], options.trim, encoder, report)


def _fit_paper(rows: Rows, s: Any, classes: Classes, features: Features, options: Options) -> tuple[Critic, FitReport]:
    onehot = np.eye(len(classes.labels))[s]
    critic = PaperCritic(_train_paper(rows, onehot, options), torch.tensor(features.groups), len(classes.labels))
    with torch.no_grad():
        g = critic.scores(torch.from_numpy(np.array(rows, dtype=np.float32))).clamp(-options.trim, options.trim).numpy()
    values = g[np.arange(len(s)), s].astype(np.float64)
    report = FitReport("the paper's recipe (nothing held out)", False, None, float(values.mean()))
    return critic, report


def _train_paper(x: Any, s: Any, options: Options) -> torch.nn.Sequential:
    tensors = (torch.from_numpy(np.array(part, dtype=np.float32)) for part in (x, s))
    epochs = options.steps or _PAPER_EPOCHS
    return train(
        *tensors,
        trim=options.trim,
        objective=options.objective,
        epochs=epochs,
        seed=options.seed,
        show=options.progress,
    )
