"""The registry of kinds of data; the only place that lists them.

Kinds are named by text and imported when one is asked for: every room may ask, no room above the
kinds imports one, and `import lowtide` stays light. Another package adds a kind by the entry point
group `lowtide.modalities`, whose value is a `Modality`; its module must be light, too, since the
command line reads its options.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from lowtide.errors import LowtideError, one_of

if (
    TYPE_CHECKING
):  # the command line reads the registry before anything else, and protocols import NumPy
    from lowtide.protocols import Modality

GROUP = "lowtide.modalities"
_OURS = {
    "texts": "lowtide.texts.modality:TEXTS",
    "images": "lowtide.images.modality:IMAGES",
    "tables": "lowtide.tables.modality:TABLES",
}
"""Kinds in the order in which they are asked whether data is theirs: a table takes nearly
everything.
"""

_OPTIONS = {
    "texts": "lowtide.texts.options:TextOptions",
    "images": "lowtide.images.options:ImageOptions",
    "tables": "lowtide.tables.options:TableOptions",
}
"""Their options, which are light, so that `lowtide --help` need not import the kinds themselves."""

_added: dict[str, Modality] = {}


def register(modality: Modality) -> None:
    """Add a kind in this process; it is asked before ours."""
    _added[modality.name] = modality


def unregister(name: str) -> None:
    """Take away a kind that `register` added."""
    _added.pop(name, None)


@cache
def _plugged() -> dict[str, Modality]:
    """Kinds of other packages."""
    metadata = importlib.import_module(
        "importlib.metadata"
    )  # takes a while, and `warn` can do without
    return {entry.name: entry.load() for entry in metadata.entry_points(group=GROUP)}


@cache
def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def names() -> tuple[str, ...]:
    """The names of all kinds, in the order in which they are asked."""
    return (*_added, *_plugged(), *_OURS)


def get(name: str) -> Modality:
    """The kind of this name."""
    if name in _added:
        return _added[name]
    if name in _OURS:  # before other packages, for which every installed distribution is looked at
        return cast("Modality", _load(_OURS[name]))
    return _plugged()[one_of("kind", name, names())]


def options() -> dict[str, type[Any]]:
    """The options of every kind, by its name."""
    plugged = {name: modality.options for name, modality in {**_added, **_plugged()}.items()}
    return {**plugged, **{name: _load(path) for name, path in _OPTIONS.items()}}


def kinds() -> Iterable[Modality]:
    """All kinds, in the order in which they are asked."""
    return (get(name) for name in names())


def of(x: Any, features: Any = None) -> Modality:
    """The kind of an object in memory: a table, an array, images, texts.

    Args:
        x: the data.
        features: what one feature is, as a user says it (see `TIDE`), which may tell the kind, too.
    """
    for modality in kinds():
        if modality.claims(x, features):
            return modality
    raise LowtideError(
        f"{type(x).__name__} is not data that Lowtide reads; give a data frame, an array, images or"
        " texts"
    )
