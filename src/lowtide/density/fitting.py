"""From data and options to a frozen density of a finite secret.

The modality of the data reads it; what it reads as rows of numbers (dense, sparse, memory maps, streams of batches) is
fitted here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from lowtide import modalities
from lowtide.checks import LowtideError, check_rows
from lowtide.density.artefact import Density, Encoder, FitReport
from lowtide.density.bag_fitting import fit_bag
from lowtide.density.critics.base import Critic, Null
from lowtide.density.critics.paper import PaperCritic
from lowtide.density.crossfit import fit_masked
from lowtide.density.objectives import Options, nothing_found
from lowtide.density.streaming import Blocks, ReadFirst, fit_stream
from lowtide.extras import has_torch, load_torch, need_torch, note_without_torch, optional, torch
from lowtide.features import Features
from lowtide.labels import Classes, is_vector, read_classes
from lowtide.splits import derived_seed, generator, read_groups, stratified_sample
from lowtide.training import one_thread
from lowtide.types import Labels

if TYPE_CHECKING:
    from lowtide.density import paper_training
else:
    paper_training = optional("lowtide.density.paper_training")

Rows = Any  # (n, columns) float32: a NumPy array, a memory map, or a scipy CSR array
# Beyond this many rows one held-out sample is as good as five folds, and much cheaper.
_MANY_ROWS = 20_000
# Nor would the copies of wider rows under several masks, or their scores for many classes, fit into a gigabyte.
_MANY_CELLS = 1 << 24
_LEAST_ROWS = 4
_PAPER_EPOCHS = 3000
_AT_ONCE = 4096  # sparse rows scored at once
NO_SECRET = "TIDE requires y to be passed, but the target y is None: give s, or an iterable of (X, s)"


def fit_density(x: Any, s: ArrayLike | None, options: Options, *, groups: ArrayLike | None = None) -> Density:
    """Fit what the data asks for; see `TIDE.fit`."""
    if s is None and isinstance(x, Iterator):
        raise LowtideError(
            f"a stream of batches is walked through several times, and a {type(x).__name__} is used up after one pass: "
            "give a list, or an object whose __iter__ starts anew"
        )
    density: Density = modalities.of(x, options.features).fit_density(x, s, options, groups)
    return density


def read_secret(
    s: ArrayLike | None, rows: int, *, least: int = _LEAST_ROWS, noun: str = "sample"
) -> tuple[Classes, Labels]:
    """The classes of a secret and the class of each row, (n,); refuses what no density can be fitted to.

    Args:
        s: (n,) labels.
        rows: n.
        least: how many rows there must be.
        noun: what a row is called in messages.
    """
    if s is None:
        raise LowtideError(NO_SECRET)
    check_rows("s", np.asarray(s).shape, rows, f"{noun}s")
    if rows < least:
        raise LowtideError(f"Found {rows} sample(s) while a minimum of {least} is required.")
    if is_vector(s):
        raise LowtideError(
            "s is a vector of numbers, and TIDE takes a secret of classes: use lowtide.vectors.VectorTIDE, "
            "or give s as labels (text, or whole numbers)"
        )
    return read_classes(s)


def fit_rows(
    rows: Rows, encoder: Encoder, s: ArrayLike | None, options: Options, groups: ArrayLike | None = None
) -> Density:
    """Fit to rows (n, columns) that `encoder` has read.

    Args:
        rows: dense, sparse or in a memory map.
        encoder: how later rows are read.
        s: (n,) labels.
        options: how to fit.
        groups: (n,) what must stay on one side whenever rows are held out; of sparse rows only.
    """
    if groups is not None and not sparse.issparse(rows):
        refuse_groups()
    classes, codes = read_secret(s, rows.shape[0], noun="row")
    features = read_features(options.features, encoder)
    sides = read_groups(groups, rows.shape[0])
    load_torch()
    with one_thread():
        critic, report = fit_critic(rows, codes, classes, features, options, groups=sides)
    return Density(classes, features, critic, options.trim, encoder, report)


def fit_batches(batches: Any, read_first: ReadFirst, options: Options) -> Density:
    """Fit to a stream of `(X, s)` batches, the first of which `read_first` reads."""
    whole = hasattr(batches, "shape") or hasattr(batches, "columns")
    if not isinstance(batches, Iterable) or whole:
        raise LowtideError(NO_SECRET)
    need_torch("a fit to a stream of batches")
    load_torch()
    with one_thread():
        critic, report, classes, survey = fit_stream(batches, read_first, options)
    if survey.encoder is None:
        raise LowtideError("a stream of batches needs rows that can be read again; give arrays or data frames")
    features = options.features if isinstance(options.features, Features) else survey.encoder.features()
    return Density(classes, features, critic, options.trim, survey.encoder, report)


def refuse_groups() -> None:
    """Say that groups are not kept apart for data of this kind."""
    raise LowtideError("groups are kept apart for texts and sparse rows only; leave groups out for other kinds of X")


def read_features(features: Any, encoder: Encoder) -> Features:
    """What one feature is: as a user says, or one per input column."""
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


def fit_critic(
    rows: Rows, s: Labels, classes: Classes, features: Features, options: Options, *, groups: Labels | None = None
) -> tuple[Critic, FitReport]:
    """Choose the fitter by the critic that the options name and the shape of the data.

    Args:
        rows: (n, columns).
        s: (n,) classes.
        classes: what the classes are.
        features: what one feature is.
        options: how to fit.
        groups: (n,) codes; sparse rows of one group are held out together.
    """
    if options.critic == "null":
        return null_critic(rows.shape[0], classes, features)
    for name in ("critic='masked'", "recipe='paper'"):
        if name in (f"critic={options.critic!r}", f"recipe={options.recipe!r}"):
            need_torch(name)
    note_without_torch("the density was fitted")
    if sparse.issparse(rows):
        if options.critic == "masked":
            raise LowtideError("critic='masked' needs dense rows; for sparse ones use 'auto' or 'bag'")
        if options.recipe == "paper":
            return _fit_paper_sparse(rows.tocsr(), s, classes, features, options)
        return fit_bag(rows, s, classes, features, options, groups=groups)
    if options.critic == "bag":
        raise LowtideError("critic='bag' needs sparse rows (scipy CSR); for dense ones use 'auto' or 'masked'")
    if options.recipe == "paper":
        return _fit_paper(rows, s, classes, features, options)
    return _fit_dense(rows, s, classes, features, options)


def _fit_dense(
    rows: Rows, s: Labels, classes: Classes, features: Features, options: Options
) -> tuple[Critic, FitReport]:
    """Networks and everyday models; of many rows networks on a stream of them, or everyday models on some of them."""
    if not has_torch() and rows.shape[0] > _MANY_ROWS:
        some = stratified_sample(s, _MANY_ROWS, generator(options.seed, "rows without networks"))
        rows, s = rows[some], s[some]
    if not has_torch():
        return fit_masked(np.ascontiguousarray(rows), s, classes, features, options, everyday=True)
    if rows.shape[0] > _MANY_ROWS or rows.shape[0] * max(rows.shape[1], 32 * len(classes.labels)) > _MANY_CELLS:
        stream, settings = Blocks(rows, s, options.seed), replace(options, features=features)
        critic, report, _, _ = fit_stream(stream, lambda block: (block, None), settings)
        return critic, report
    return fit_masked(np.ascontiguousarray(rows), s, classes, features, options, everyday=options.critic == "auto")


def null_critic(rows: int, classes: Classes, features: Features) -> tuple[Critic, FitReport]:
    """The null model g = 0 for n rows, and its report."""
    report = FitReport("null", True, nothing_found(np.zeros(rows)), 0.0, {"null": 0.0})
    return Null(len(classes.labels), len(features)), report


def train_paper(x: Any, s: Any, options: Options) -> torch.nn.Sequential:
    """The paper's network for pairs of dense rows x (n, columns) and s (n, d)."""
    tensors = (torch.from_numpy(np.array(part, dtype=np.float32)) for part in (x, s))
    return paper_training.train(
        *tensors,
        trim=options.trim,
        objective=options.objective,
        epochs=options.steps or _PAPER_EPOCHS,
        seed=options.seed,
        show=options.progress,
    )


def _fit_paper(
    rows: Rows, s: Labels, classes: Classes, features: Features, options: Options
) -> tuple[Critic, FitReport]:
    onehot = np.eye(len(classes.labels))[s]
    net = paper_training.network_tensors(train_paper(rows, onehot, options))
    critic = PaperCritic(net, features.groups, len(classes.labels))
    g = critic.scores(np.array(rows, dtype=np.float32)).clip(-options.trim, options.trim)
    values = g[np.arange(len(s)), s].astype(np.float64)
    report = FitReport("the paper's recipe (nothing held out)", False, None, float(values.mean()))
    return critic, report


def _fit_paper_sparse(
    rows: Rows, s: Labels, classes: Classes, features: Features, options: Options
) -> tuple[Critic, FitReport]:
    """The paper's network for tweets; `max_steps`, if given, counts its batches.

    It holds nothing out, so that groups have nothing to keep apart.
    """
    net = paper_training.train_sparse(
        rows,
        s,
        classes=len(classes.labels),
        trim=options.trim,
        objective=options.objective,
        steps=options.steps,
        seed=derived_seed(options.seed, "paper recipe on texts"),
        show=options.progress,
    )
    critic = PaperCritic(paper_training.network_tensors(net), features.groups, len(classes.labels))
    values = []
    for start in range(0, rows.shape[0], _AT_ONCE):
        place = slice(start, start + _AT_ONCE)
        g = critic.scores(rows[place]).clip(-options.trim, options.trim).astype(np.float64)
        values.append(g[np.arange(len(g)), s[place]])
    training = float(np.concatenate(values).mean())
    return critic, FitReport("the paper's recipe (nothing held out)", False, None, training)
