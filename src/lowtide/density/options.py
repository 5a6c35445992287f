"""How a fit is run: the options of TIDE, as the fitters read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowtide.features import Features
from lowtide.labels import SecretKind
from lowtide.texts.terms import TermOptions


@dataclass(frozen=True)
class Options:
    """The options of `TIDE`; see there what each means. `nets` networks of each kept kind are fitted and averaged."""

    features: Features | TermOptions | Sequence[int] | int | None = None
    trim: float = 3.0
    objective: str = "dv"
    critic: str = "auto"
    recipe: str = "lowtide"
    secret: SecretKind = "auto"
    folds: int = 5
    steps: int | None = None
    nets: int = 5
    checkpoint: str | None = None
    progress: bool | None = None
    seed: int = 0
