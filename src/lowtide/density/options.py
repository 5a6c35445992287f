"""How a fit is run: the options of TIDE, as the fitters read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Options:
    """The options of `TIDE`; see there what each means. `nets` networks of each kept kind are fitted and averaged."""

    features: Any = None
    trim: float = 3.0
    objective: str = "dv"
    critic: str = "auto"
    recipe: str = "lowtide"
    folds: int = 5
    steps: int | None = None
    nets: int = 5
    checkpoint: str | None = None
    progress: bool | None = None
    seed: int = 0
