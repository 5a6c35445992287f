"""Fitting densities of a finite secret from texts, read as counts of terms."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from lowtide.density.artefact import Density
from lowtide.density.fitting import fit_critic, read_secret
from lowtide.density.options import Options
from lowtide.errors import LowtideError
from lowtide.splits import read_groups
from lowtide.texts.encoder import TextEncoder, as_texts
from lowtide.texts.terms import TermOptions
from lowtide.training import one_thread


def fit_texts(x: Any, s: ArrayLike | None, options: Options, *, groups: ArrayLike | None = None) -> Density:
    """Fit a bag of terms to texts; see `TIDE.fit`. Texts of one group, such as a writer, are held out together."""
    if options.features is not None and not isinstance(options.features, TermOptions):
        raise LowtideError("X holds texts: say what a term is by features=TermOptions(...), or leave features out")
    texts = as_texts(x)
    if options.critic not in ("auto", "bag", "null"):
        raise LowtideError(f"critic={options.critic!r} is for tables; for texts use 'auto', 'bag' or 'null'")
    classes, codes = read_secret(s, len(texts), noun="text")
    sides = read_groups(groups, len(texts))  # before the vocabulary is learnt, which may take a while
    with one_thread():
        encoder = TextEncoder.learn(texts, options.features)
        features = encoder.features()
        critic, report = fit_critic(encoder.encode(texts), codes, classes, features, options, groups=sides)
    return Density(classes, features, critic, options.trim, encoder, report)
