"""A fitted model on disk: `config.json` and `model.safetensors` in one folder, written whole or not at all.

Nothing in a bundle is executable. The configuration carries a format version and the checksum of the tensors, so that a
truncated, mixed-up or tampered bundle is refused instead of answering nonsense.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from lowtide.errors import LowtideError
from lowtide.files import check_replaceable, write_folder

FORMAT = "lowtide-density"
VERSION = 3  # 1 had no missing numbers, dates or merged categories in its encoder, 2 no kind; both are still read
_CONFIG, _MODEL = "config.json", "model.safetensors"
_MARK = "lowtide-"  # how the format of every bundle begins
_NAMES = frozenset({_CONFIG, _MODEL, "card.json", "card.md"})  # what a bundle may hold


def write_bundle(
    path: Path,
    config: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    *,
    form: str = FORMAT,
    version: int = VERSION,
    beside: Mapping[str, str] | None = None,
) -> None:
    """Write a bundle; a bundle that stands there already is replaced in one step.

    Args:
        path: the folder.
        config: plain JSON.
        tensors: the weights.
        form: what kind of bundle it is.
        version: of that form.
        beside: further texts to put into the folder, by file name.
    """
    model = save_tensors({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    head = {"format": form, "version": version, "sha256": hashlib.sha256(model).hexdigest()}
    text = json.dumps({**head, **config}, indent=2, allow_nan=False) + "\n"
    write_folder(path, {_MODEL: model, _CONFIG: text, **(beside or {})}, ours=is_bundle, names=_NAMES)


def check_bundle_place(path: Path) -> None:
    """Refuse a place where no bundle can be written, before the long work."""
    check_replaceable(path, ours=is_bundle, names=_NAMES)


def is_bundle(path: Path) -> bool:
    """Whether a folder carries the mark of a bundle, of whatever kind; any other `config.json` is somebody else's."""
    try:
        config = json.loads((path / _CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    form = config.get("format") if isinstance(config, dict) else None
    return isinstance(form, str) and form.startswith(_MARK) and isinstance(config.get("version"), int)


def read_bundle(path: Path, *, form: str = FORMAT, newest: int = VERSION) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read a bundle of the kind `form`, of versions up to `newest`, or say what is wrong with it."""
    config = read_config(path)
    if config.get("format") != form:
        raise LowtideError(
            f"{path} is not a Lowtide bundle: its format is not {form!r}; name a folder that was saved for this use"
        )
    if not isinstance(config.get("version"), int) or config["version"] > newest:
        raise LowtideError(
            f"{path} has format version {config.get('version')!r}, this Lowtide reads up to {newest}; upgrade Lowtide"
        )
    try:
        model = (path / _MODEL).read_bytes()
    except OSError as error:
        raise LowtideError(f"{path} has no readable {_MODEL}; copy the whole folder again") from error
    if hashlib.sha256(model).hexdigest() != config.get("sha256"):
        raise LowtideError(f"{path / _MODEL} does not match its checksum: truncated or altered; copy the folder again")
    try:
        return config, load_tensors(model)
    except SafetensorError as error:
        raise LowtideError(f"{path / _MODEL} is not a safetensors file; copy the folder again") from error


def read_config(path: Path) -> dict[str, Any]:
    """The configuration of a bundle, or of a plan that is a single JSON file, as it stands there."""
    source = path / _CONFIG if path.is_dir() else path
    try:
        config = json.loads(source.read_text(encoding="utf-8"))
    except OSError as error:
        raise LowtideError(
            f"{path} is not a Lowtide bundle: it has no readable {_CONFIG}; name a folder that Lowtide has saved"
            if path.is_dir()
            else f"cannot read {path}: {error.strerror}; check the path"
        ) from error
    except (ValueError, RecursionError) as error:
        what = "the folder" if path.is_dir() else "it"
        raise LowtideError(f"{source} is not JSON: truncated or altered; copy {what} again") from error
    if not isinstance(config, dict):
        raise LowtideError(f"{source} is not a configuration that Lowtide wrote; copy it again")
    return config
