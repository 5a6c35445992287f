"""Fitting densities of a finite secret from texts, and the paper's recipe for sparse rows.

Texts are read as counts of terms, and a bag of terms is fitted to the counts. Writers are kept apart: rows of one
group are held out together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from lowtide.density.artefact import Density, FitReport
from lowtide.density.bag_fitting import fit_bag
from lowtide.density.critics.base import Critic, Null
from lowtide.density.critics.paper import PaperCritic, train_sparse
from lowtide.density.estimates import mean_with_interval
from lowtide.density.options import Options
from lowtide.errors import LowtideError
from lowtide.features import Features
from lowtide.labels import Classes, is_vector, read_classes
from lowtide.texts.encoder import TextEncoder, as_texts
from lowtide.texts.terms import TermOptions

Ints = NDArray[np.intp]
Sparse = Any  # scipy.sparse.csr_array, which carries no types
_LEAST = 4  # texts
_AT_ONCE = 4096  # rows scored at once
_ROOM = 0x7E87


def fit_texts(x: Any, s: ArrayLike, options: Options, *, groups: ArrayLike | None = None) -> Density:
    """Fit a bag of terms to texts; see `TIDE.fit`."""
    if options.features is not None and not isinstance(options.features, TermOptions):
        raise LowtideError("X holds texts: say what a term is by features=TermOptions(...), or leave features out")
    texts = as_texts(x)
    if np.asarray(s).shape[:1] != (len(texts),):
        raise LowtideError(f"there are {len(texts)} texts and s has shape {np.asarray(s).shape}; they must match")
    if len(texts) < _LEAST:
        raise LowtideError(f"Found {len(texts)} text(s) while a minimum of {_LEAST} is required.")
    if is_vector(s, options.secret):
        raise LowtideError("a secret of numbers needs rows of numbers; for texts give classes, secret='classes'")
    if options.critic not in ("auto", "bag", "null"):
        raise LowtideError(f"critic={options.critic!r} is for tables; for texts use 'auto', 'bag' or 'null'")
    classes, codes = read_classes(s)
    sides = read_groups(groups, len(texts))  # before the vocabulary is learnt, which may take a while
    encoder = TextEncoder.learn(texts, options.features)
    rows, features = encoder.encode(texts), encoder.features()
    critic, report = fit_terms(rows, codes, classes, features, options, groups=sides)
    return Density(classes, features, critic, options.trim, encoder, report)


def fit_terms(
    rows: Sparse, s: Ints, classes: Classes, features: Features, options: Options, *, groups: Ints | None = None
) -> tuple[Critic, FitReport]:
    """Fit what the options ask for to sparse rows (n, columns), classes s (n,) and groups (n,)."""
    if options.critic == "masked":
        raise LowtideError("critic='masked' needs dense rows; for sparse ones use 'auto' or 'bag'")
    if options.critic == "null":
        report = FitReport("null", True, mean_with_interval(np.zeros(rows.shape[0])), 0.0, {"null": 0.0})
        return Null(len(classes.labels), len(features)), report
    if options.recipe == "paper":
        return _fit_paper(rows.tocsr(), s, classes, features, options)
    return fit_bag(rows, s, classes, features, options, groups=groups)


def read_groups(groups: ArrayLike | None, rows: int) -> Ints | None:
    """Groups as codes (n,), in the order of first appearance; a row whose group is missing is a group of its own.

    Args:
        groups: n values of any kind that can be compared, or a column of a table; `None` stays `None`.
        rows: n.
    """
    if groups is None:
        return None
    listed: Any = groups.to_pylist() if hasattr(groups, "to_pylist") else groups
    if isinstance(listed, (str, bytes)) or not hasattr(listed, "__len__"):
        raise LowtideError(f"groups must hold one value per row, got {type(groups).__name__}")
    if len(listed) != rows:
        raise LowtideError(f"there are {rows} rows and groups has {len(listed)} entries; they must match")
    numbers: dict[object, int] = {}
    try:
        return np.array([numbers.setdefault(_key(one, row), len(numbers)) for row, one in enumerate(listed)], np.intp)
    except TypeError:
        raise LowtideError("groups must hold one plain value per row: a name or a number") from None


def _key(value: Any, row: int) -> tuple[bool, object]:
    missing = value is None or (isinstance(value, (float, np.floating)) and bool(np.isnan(value)))
    return (True, row) if missing else (False, value)


def _fit_paper(
    rows: Sparse, s: Ints, classes: Classes, features: Features, options: Options
) -> tuple[Critic, FitReport]:
    """The paper's network for tweets; `max_steps`, if given, counts its batches.

    It holds nothing out, so that groups have nothing to keep apart.
    """
    net = train_sparse(
        rows,
        s,
        classes=len(classes.labels),
        trim=options.trim,
        objective=options.objective,
        steps=options.steps,
        seed=int(np.random.SeedSequence([options.seed, _ROOM]).generate_state(1)[0]),
        show=options.progress,
    )
    critic = PaperCritic(net, torch.tensor(features.groups), len(classes.labels))
    values = []
    for start in range(0, rows.shape[0], _AT_ONCE):
        place = slice(start, start + _AT_ONCE)
        with torch.no_grad():
            g = critic.scores(rows[place]).clamp(-options.trim, options.trim).double().numpy()
        values.append(g[np.arange(len(g)), s[place]])
    training = float(np.concatenate(values).mean())
    return critic, FitReport("the paper's recipe (nothing held out)", False, None, training)
