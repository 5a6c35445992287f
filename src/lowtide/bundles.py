"""A fitted model on disk: `config.json` and `model.safetensors` in one folder, written whole or not
at all.

Nothing in a bundle is executable. The configuration carries a format version, the checksum of the
tensors and a digest over itself and them, so that a truncated, mixed-up or edited bundle is refused
instead of answering nonsense. Who edits a bundle can compute its digest anew; a signature, made
with a key that only the owner has, shows that too.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from lowtide.errors import LowtideError
from lowtide.files import check_replaceable, regular, write_folder
from lowtide.nesting import check_nesting

Arrays = Mapping[str, NDArray[Any]]

FORMAT = "lowtide-density"
VERSION = 6
_CONFIG = "config.json"
_MODEL = "model.safetensors"
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
) -> None:
    """Write a bundle, which only its owner may read; one of the same kind that stands there is
    replaced in one step.

    Args:
        path: the folder.
        config: plain JSON.
        tensors: the weights, arrays of NumPy or tensors of PyTorch.
        form: what kind of bundle it is.
        version: of that form.
        beside: further texts to put into the folder, by file name.
        key: signs it.
    """
    model = _model(tensors)
    head = {"format": form, "version": version, "sha256": hashlib.sha256(model).hexdigest()}
    text = (
        json.dumps({**head, **seal(config, tensors, key), **config}, indent=2, allow_nan=False)
        + "\n"
    )
    files: dict[str, str | bytes] = {_MODEL: model, _CONFIG: text, **(beside or {})}
    write_folder(path, files, ours=partial(is_bundle, form=form), names=_NAMES, private=True)


def digest_of(config: Mapping[str, Any], tensors: Mapping[str, Any]) -> str:
    """SHA-256 of all that a bundle says: its configuration as canonical JSON, without the head, and
    its tensors.
    """
    plain = json.loads(
        json.dumps(_content(config), allow_nan=False)
    )  # as it will be read: keys are text
    return _digest(plain, _model(tensors))


def _content(config: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name not in _HEAD}


def _digest(content: Mapping[str, Any], model: bytes) -> str:
    """The digest of a configuration without its head, as it was read, and of tensors as they are
    written.
    """
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(hashlib.sha256(model).digest() + text.encode("ascii")).hexdigest()


def seal(
    config: Mapping[str, Any], tensors: Mapping[str, Any], key: bytes | None = None
) -> dict[str, str]:
    """The digest of a bundle and, with a key, its signature."""
    digest = digest_of(config, tensors)
    return {"digest": digest} if key is None else {"digest": digest, "signature": sign(digest, key)}


def check_seal(
    path: Path, config: Mapping[str, Any], model: bytes | None = None, key: bytes | None = None
) -> None:
    """Refuse content that is not what was sealed; with a key, also content that nobody with the key
    has signed.

    Args:
        path: where it stands, for messages.
        config: as it was read.
        model: the tensors as they were read; none by default.
        key: that of its owner.
    """
    digest = config.get("digest")
    signature = config.get("signature")
    if digest != _digest(_content(config), _model({}) if model is None else model):
        raise LowtideError(
            f"{path} does not match its digest: it was edited or damaged after it was made; make it"
            " again"
        )
    if key is None:
        return
    if not is_signature(signature, digest, key):
        raise LowtideError(
            f"{path} is not signed with this key: it was made or changed by somebody else; make it"
            " again"
        )


def sign(digest: str, key: bytes) -> str:
    """HMAC-SHA-256 of a digest: only who has the key can make or check it."""
    return hmac.new(key, digest.encode("ascii"), "sha256").hexdigest()


def is_signature(signature: object, digest: str, key: bytes) -> bool:
    """Whether somebody who has the key made this signature of a digest."""
    return isinstance(signature, str) and hmac.compare_digest(
        signature.encode(), sign(digest, key).encode()
    )


def _model(tensors: Mapping[str, Any]) -> bytes:
    arrays = {
        name: value.detach().cpu().numpy() if hasattr(value, "detach") else value
        for name, value in tensors.items()
    }
    return save_tensors({name: np.ascontiguousarray(value) for name, value in arrays.items()})


def check_bundle_place(path: Path, form: str = FORMAT) -> None:
    """Refuse a place where no bundle of the kind `form` can be written, before the long work."""
    check_replaceable(path, ours=partial(is_bundle, form=form), names=_NAMES)


def is_bundle(path: Path, form: str) -> bool:
    """Whether a folder carries the mark of a bundle of the kind `form`; any other `config.json` is
    not to be lost.
    """
    try:
        text = regular(path / _CONFIG).read_bytes()
        check_nesting(text, path)
        config = json.loads(text.decode())
    except (OSError, ValueError):
        return False
    return (
        isinstance(config, dict)
        and config.get("format") == form
        and isinstance(config.get("version"), int)
    )


def read_bundle(
    path: Path, *, form: str = FORMAT, version: int = VERSION, key: bytes | None = None
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read a bundle of the kind `form` and of this version, signed with `key`, or say what is wrong
    with it.
    """
    config = read_config(path)
    if config.get("format") != form:
        raise LowtideError(
            f"{path} is not a Lowtide bundle: its format is not {form!r}; name a folder that was"
            " saved for this use"
        )
    saved = config.get("version")
    if isinstance(saved, int) and saved < version:
        raise LowtideError(
            f"{path} was saved by an earlier version of Lowtide, which this one does not read; make"
            " it again"
        )
    if saved != version:
        raise LowtideError(
            f"{path} has format version {saved!r}, this Lowtide reads {version}; upgrade Lowtide"
        )
    try:
        model = regular(path / _MODEL).read_bytes()
    except OSError as error:
        raise LowtideError(
            f"{path} has no readable {_MODEL}; copy the whole folder again"
        ) from error
    if hashlib.sha256(model).hexdigest() != config.get("sha256"):
        raise LowtideError(
            f"{path / _MODEL} does not match its checksum: truncated or altered; copy the folder"
            " again"
        )
    try:
        tensors = {
            name: value.copy() for name, value in load_tensors(model).items()
        }  # writable, and aligned
    except SafetensorError as error:
        raise LowtideError(
            f"{path / _MODEL} is not a safetensors file; copy the folder again"
        ) from error
    check_seal(path, config, model, key)
    for name, tensor in tensors.items():
        if np.issubdtype(tensor.dtype, np.floating) and not np.isfinite(tensor).all():
            raise LowtideError(
                f"{path / _MODEL}: {name} holds numbers that are NaN or infinite; make it again"
            )
    return config, tensors


def read_config(path: Path) -> dict[str, Any]:
    """The configuration of a bundle, or of a plan that is a single JSON file, as it stands
    there.
    """
    source = regular(path / _CONFIG if path.is_dir() else path)
    try:
        text = source.read_bytes()
    except OSError as error:
        raise LowtideError(
            f"{path} is not a Lowtide bundle: it has no readable {_CONFIG}; name a folder that"
            " Lowtide has saved"
            if path.is_dir()
            else f"cannot read {path}: {error.strerror}; check the path"
        ) from error
    check_nesting(text, source)
    try:
        config = json.loads(text.decode(), parse_constant=_refuse)
    except ValueError as error:
        what = "the folder" if path.is_dir() else "it"
        raise LowtideError(
            f"{source} is not JSON: truncated or altered; copy {what} again"
        ) from error
    if not isinstance(config, dict):
        raise LowtideError(f"{source} is not a configuration that Lowtide wrote; copy it again")
    return config


def _refuse(constant: str) -> NoReturn:
    """NaN and infinities are not JSON; a threshold of NaN would hide nothing."""
    raise ValueError(constant)
