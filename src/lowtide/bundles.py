"""A fitted model on disk: `config.json` and `model.safetensors` in one folder, written whole or not at all.

Nothing in a bundle is executable. The configuration carries a format version, the checksum of the tensors and a digest
over itself and them, so that a truncated, mixed-up or edited bundle is refused instead of answering nonsense. Who edits
a bundle can compute its digest anew; a signature, made with a key that only the owner has, shows that too.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from lowtide.errors import LowtideError
from lowtide.files import check_replaceable, regular, write_folder

Arrays = Mapping[str, NDArray[Any]]

FORMAT = "lowtide-density"
# 1 had no missing numbers, dates or merged categories in its encoder, 2 no kind, 3 no digest, 4 no mixture;
# all are read
VERSION = 5
_UNSEALED = 3  # the last version of a density without a digest
_CONFIG, _MODEL = "config.json", "model.safetensors"
_MARK = "lowtide-"  # how the format of every bundle begins
_HEAD = ("format", "version", "sha256", "digest", "signature")  # what stands beside the content
_NAMES = frozenset({_CONFIG, _MODEL, "card.json", "card.md"})  # what a bundle may hold


def write_bundle(
    path: Path,
    config: Mapping[str, Any],
    tensors: Mapping[str, Any],
    *,
    form: str = FORMAT,
    version: int = VERSION,
    beside: Mapping[str, str] | None = None,
    key: bytes | None = None,
    private: bool = False,
) -> None:
    """Write a bundle; a bundle that stands there already is replaced in one step.

    Args:
        path: the folder.
        config: plain JSON.
        tensors: the weights, arrays of NumPy or tensors of PyTorch.
        form: what kind of bundle it is.
        version: of that form.
        beside: further texts to put into the folder, by file name.
        key: signs it.
        private: whether only its owner may read it.
    """
    model = _model(tensors)
    head = {"format": form, "version": version, "sha256": hashlib.sha256(model).hexdigest()}
    text = json.dumps({**head, **seal(config, tensors, key), **config}, indent=2, allow_nan=False) + "\n"
    files: dict[str, str | bytes] = {_MODEL: model, _CONFIG: text, **(beside or {})}
    write_folder(path, files, ours=is_bundle, names=_NAMES, private=private)


def digest_of(config: Mapping[str, Any], tensors: Mapping[str, Any]) -> str:
    """SHA-256 of all that a bundle says: its configuration as canonical JSON, without the head, and its tensors."""
    plain = json.loads(json.dumps(_content(config), allow_nan=False))  # as it will be read: keys are text
    return _digest(plain, _model(tensors))


def _content(config: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name not in _HEAD}


def _digest(content: Mapping[str, Any], model: bytes) -> str:
    """The digest of a configuration without its head, as it was read, and of tensors as they are written."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(hashlib.sha256(model).digest() + text.encode("ascii")).hexdigest()


def seal(config: Mapping[str, Any], tensors: Mapping[str, Any], key: bytes | None = None) -> dict[str, str]:
    """The digest of a bundle and, with a key, its signature."""
    digest = digest_of(config, tensors)
    return {"digest": digest} if key is None else {"digest": digest, "signature": _signature(digest, key)}


def check_seal(path: Path, config: Mapping[str, Any], model: bytes | None = None, key: bytes | None = None) -> None:
    """Refuse content that is not what was sealed; with a key, also content that nobody with the key has signed.

    Args:
        path: where it stands, for messages.
        config: as it was read.
        model: the tensors as they were read; none by default.
        key: that of its owner.
    """
    digest, signature = config.get("digest"), config.get("signature")
    if digest != _digest(_content(config), _model({}) if model is None else model):
        raise LowtideError(
            f"{path} does not match its digest: it was edited or damaged after it was made; make it again"
        )
    if key is None:
        return
    if not isinstance(signature, str) or not hmac.compare_digest(signature.encode(), _signature(digest, key).encode()):
        raise LowtideError(
            f"{path} is not signed with this key: it was made or changed by somebody else; make it again"
        )


def _signature(digest: str, key: bytes) -> str:
    return hmac.new(key, digest.encode("ascii"), "sha256").hexdigest()


def _model(tensors: Mapping[str, Any]) -> bytes:
    arrays = {
        name: value.detach().cpu().numpy() if hasattr(value, "detach") else value for name, value in tensors.items()
    }
    return save_tensors({name: np.ascontiguousarray(value) for name, value in arrays.items()})


def check_bundle_place(path: Path) -> None:
    """Refuse a place where no bundle can be written, before the long work."""
    check_replaceable(path, ours=is_bundle, names=_NAMES)


def is_bundle(path: Path) -> bool:
    """Whether a folder carries the mark of a bundle, of whatever kind; any other `config.json` is somebody else's."""
    try:
        config = json.loads(regular(path / _CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    form = config.get("format") if isinstance(config, dict) else None
    return isinstance(form, str) and form.startswith(_MARK) and isinstance(config.get("version"), int)


def read_bundle(
    path: Path, *, form: str = FORMAT, newest: int = VERSION, key: bytes | None = None
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read a bundle of the kind `form`, versions up to `newest`, signed with `key`, or say what is wrong with it."""
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
        model = regular(path / _MODEL).read_bytes()
    except OSError as error:
        raise LowtideError(f"{path} has no readable {_MODEL}; copy the whole folder again") from error
    if hashlib.sha256(model).hexdigest() != config.get("sha256"):
        raise LowtideError(f"{path / _MODEL} does not match its checksum: truncated or altered; copy the folder again")
    try:
        tensors = {name: value.copy() for name, value in load_tensors(model).items()}  # writable, and aligned
    except SafetensorError as error:
        raise LowtideError(f"{path / _MODEL} is not a safetensors file; copy the folder again") from error
    if form != FORMAT or config["version"] > _UNSEALED:
        check_seal(path, config, model, key)
    for name, tensor in tensors.items():
        if np.issubdtype(tensor.dtype, np.floating) and not np.isfinite(tensor).all():
            raise LowtideError(f"{path / _MODEL}: {name} holds numbers that are NaN or infinite; make it again")
    return config, tensors


def read_config(path: Path) -> dict[str, Any]:
    """The configuration of a bundle, or of a plan that is a single JSON file, as it stands there."""
    source = regular(path / _CONFIG if path.is_dir() else path)
    try:
        config = json.loads(source.read_text(encoding="utf-8"), parse_constant=_refuse)
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


def _refuse(constant: str) -> Any:
    """NaN and infinities are not JSON; a threshold of NaN would hide nothing."""
    raise ValueError(constant)
