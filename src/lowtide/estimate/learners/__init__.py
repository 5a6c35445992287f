"""Learners and the critics that they become, one file each, behind two protocols."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lowtide.estimate.learners.base import Critic

_CLASSES = {
    "null": ("base", "Null"),
    "mixture": ("base", "Mixture"),
    "masked": ("network", "Masked"),
    "additive": ("additive", "Additive"),
    "trees": ("trees", "Trees"),
    "bag": ("bag", "Bag"),
}
CRITICS = tuple(_CLASSES)
"""Those that every kind of data may have, by the name they are saved under; a modality adds its
own.
"""


def critic_class(kind: str) -> type[Critic]:
    """The critic that is saved under a name; imported here, as a bag needs none of the others."""
    module, name = _CLASSES[kind]
    critic: type[Critic] = getattr(import_module(f"lowtide.estimate.learners.{module}"), name)
    return critic
