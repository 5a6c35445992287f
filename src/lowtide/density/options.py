"""How a fit is run: its options, and the state of a trainer that Ctrl-C does not lose."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from lowtide.errors import LowtideError
from lowtide.files import whole_path


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


def fingerprint(*parts: Any) -> str:
    """A digest of data and settings: a checkpoint is resumed only by the very same fit."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(str((part.shape, part.dtype)).encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        else:
            digest.update(repr(part).encode())
    return digest.hexdigest()


class Checkpoints:
    """A folder that holds the latest state of each stage of one fit."""

    def __init__(self, folder: str | Path | None, mark: str = "") -> None:
        self.folder, self.mark = None if folder is None else Path(folder), mark
        if self.folder is not None:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise LowtideError(f"cannot keep checkpoints in {folder}: {error.strerror}; choose another") from error

    def save(self, stage: str, tensors: dict[str, Tensor]) -> None:
        """Write the state of a stage."""
        if self.folder is None or not tensors:
            return
        with whole_path(self.folder / f"{stage}.safetensors", replace=True) as partial:
            save_file({name: v.detach().contiguous() for name, v in tensors.items()}, partial, {"mark": self.mark})

    def load(self, stage: str) -> dict[str, Tensor] | None:
        """Return the state of a stage, or `None` when there is none of this very fit."""
        path = None if self.folder is None else self.folder / f"{stage}.safetensors"
        if path is None or not path.exists():
            return None
        try:
            with safe_open(path, framework="pt") as file:
                if (file.metadata() or {}).get("mark") != self.mark:
                    return None
                return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        except SafetensorError as error:
            raise LowtideError(f"{path} is damaged; delete it to start that stage afresh") from error

    def clear(self) -> None:
        """Remove the states of a fit that has ended."""
        if self.folder is not None:
            for path in self.folder.glob("*.safetensors"):
                path.unlink()
