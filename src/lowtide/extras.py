"""What is loaded when it is first used: what `pip install lowtide` does not bring along, and what takes long.

PyTorch trains networks, and nothing else: what was fitted answers in NumPy. A module whose functions train takes
`torch` from here, and can be imported where PyTorch is not installed. One whose classes are networks imports PyTorch
itself, and is imported by `optional` in turn. Parts of SciPy that `warn` can do without are taken from here, too: it
starts in half the time. Light, as the command line imports it.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from lowtide.errors import LowtideError, note

TORCH = (
    "PyTorch trains TIDE's networks and all models of images and texts, and is not installed; what was fitted already "
    'answers without it. Run pip install "lowtide[torch]"; for the CPU build, which is small, install torch first, as '
    "PyTorch's own page says for CPUs"
)


def has_torch() -> bool:
    """Whether networks can be trained here."""
    try:
        return importlib.util.find_spec("torch") is not None
    except (ImportError, ValueError):  # a finder that refuses it, or a half-loaded module
        return False


def load_torch() -> bool:
    """Import PyTorch if it is installed, before `one_thread` limits its threads; whether it is."""
    if has_torch():
        importlib.import_module("torch")
        return True
    return False


def need_torch(what: str) -> None:
    """Refuse what needs PyTorch where it is not installed.

    Args:
        what: what was asked for, such as `critic='masked'`.
    """
    if not has_torch():
        raise LowtideError(f"{what} needs the extra 'torch'. {TORCH}")


def note_without_torch(what: str) -> None:
    """Say, where PyTorch is not installed, what was done without it and what it would add."""
    if not has_torch():
        note(
            f"{what} without PyTorch, and so without networks, which read what columns or words tell together; "
            'pip install "lowtide[torch]" adds them'
        )


class _Optional:
    """A module that is imported when one of its names is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        try:
            module = importlib.import_module(self._name)
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise LowtideError(f"this needs the extra 'torch'. {TORCH}") from error
        return getattr(module, attribute)

    def __reduce__(self) -> tuple[Any, ...]:
        return optional, (self._name,)  # a function that holds it travels to another process


def optional(name: str) -> Any:
    """A module that is imported when it is first used: one that may be missing until then, or that takes long."""
    return _Optional(name)


if TYPE_CHECKING:
    import safetensors.torch as safetensors_torch
    import torch
    from torch import Tensor, nn
    from torch.nn import functional
    from torch.optim.lr_scheduler import LRScheduler
else:
    torch, nn, functional = optional("torch"), optional("torch.nn"), optional("torch.nn.functional")
    safetensors_torch = optional("safetensors.torch")
    Tensor = LRScheduler = Any  # in annotations alone
linalg, optimize = optional("scipy.linalg"), optional("scipy.optimize")
sparse, special, stats = optional("scipy.sparse"), optional("scipy.special"), optional("scipy.stats")

__all__ = [
    "TORCH",
    "LRScheduler",
    "Tensor",
    "functional",
    "has_torch",
    "linalg",
    "load_torch",
    "need_torch",
    "nn",
    "note_without_torch",
    "optimize",
    "optional",
    "safetensors_torch",
    "sparse",
    "special",
    "stats",
    "torch",
]
