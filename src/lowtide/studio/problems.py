"""Errors as problem details (RFC 9457): what was given, what is allowed, what to do; never a value
of the data.
"""

import importlib.metadata
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lowtide.errors import LowtideError

_OURS = Path(__file__).parents[1]
_TITLES = {
    400: "the request cannot be read",
    401: "the token is missing or wrong",
    403: "not allowed from there",
    404: "not found",
    405: "not allowed",
    409: "not now",
    413: "too large",
    422: "cannot be used",
    429: "too much at a time",
    500: "a fault of Lowtide",
    503: "not available",
}


class RefusedError(LowtideError):
    """A request that is refused with a status, and with the field that is at fault, where one
    is.
    """

    def __init__(self, status: int, detail: str, field: str | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.field = field


def version() -> str:
    """Of Lowtide."""
    return importlib.metadata.version("lowtide")


def problem(status: int, detail: str, field: str | None = None) -> dict[str, Any]:
    """A problem as plain values."""
    made: dict[str, Any] = {
        "type": "about:blank",
        "title": _TITLES.get(status, "refused"),
        "status": status,
    }
    made["detail"] = detail
    return made if field is None else {**made, "field": field}


def problem_of(error: BaseException, names: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What an exception means to whoever asked.

    Args:
        error: one of ours says itself what is wrong. Any other is a fault of ours, whose words may
            quote data: its kind and its place are named, never what it says.
        names: what to call paths that a message of ours names, longest first.
    """
    if isinstance(error, LowtideError):
        said = str(error)
        for path, name in (names or {}).items():
            said = said.replace(path, name)
        status = error.status if isinstance(error, RefusedError) else 422
        return problem(status, said, error.field if isinstance(error, RefusedError) else None)
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        return problem(
            500,
            "there is not enough memory for this; give fewer rows or columns, or smaller images",
        )
    if isinstance(error, OSError) and error.errno is not None:
        return problem(
            500, f"the system refused a file: {error.strerror}; check the disk and its rights"
        )
    return problem(500, fault_of(error))


def fault_of(error: BaseException) -> str:
    """What to say of an exception that nobody expected: its kind and place, never its words."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(_OURS)]
    at = (
        f" in {Path(ours[-1].filename).relative_to(_OURS).as_posix()}, line {ours[-1].lineno}"
        if ours
        else ""
    )
    return (
        f"this is a fault of Lowtide {version()} ({type(error).__name__}{at}), not of your data;"
        " please report this line: it quotes no data"
    )
