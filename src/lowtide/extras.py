"""The extra 'torch': whether it is there, and the one error and the one note that name it.

PyTorch trains networks, and nothing else: what was fitted answers in NumPy. A module whose classes
are networks imports PyTorch at its top, and is imported inside the functions that need it; others
import PyTorch inside the functions that train. Light, as the command line imports this.
"""

from __future__ import annotations

import importlib
import importlib.util

from lowtide.errors import LowtideError, note

TORCH = (
    "PyTorch trains TIDE's networks and all models of images and texts, and is not installed; what"
    ' was fitted already answers without it. Run pip install "lowtide[torch]"; for the CPU build,'
    " which is small, install torch first, as PyTorch's own page says for CPUs"
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
            f"{what} without PyTorch, and so without networks, which read what columns or words"
            ' tell together; pip install "lowtide[torch]" adds them'
        )
