"""A mechanism as plain JSON, with what was learnt from the data kept apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lowtide.errors import LowtideError
from lowtide.features import Features
from lowtide.tables.encoder import TableEncoder, read_encoder

_ENDS = ("low", "high")
_LEARNT = ("fills", "dates", "others")
_PLAIN = ("lam", "fill", "clip")


def to_plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a `Mechanism` as JSON; what was learnt from the data stands under `private`."""
    encoder, features = fields["encoder"], fields["features"]
    private = {name: [None if np.isnan(end) else float(end) for end in fields[name]] for name in _ENDS}
    # Only where there are any: what a mechanism draws depends on all that is written here.
    plain = TableEncoder(encoder.names, encoder.categories)
    learnt = {name: list(getattr(encoder, name)) for name in _LEARNT if getattr(encoder, name) != getattr(plain, name)}
    return {
        "kinds": list(fields["kinds"]),
        "keeps": fields["keeps"].tolist(),
        **{name: fields[name] for name in _PLAIN},
        "columns": list(encoder.names),
        "features": {"groups": features.groups.tolist(), "names": list(features.names)},
        "private": {**private, "categories": [None if c is None else list(c) for c in encoder.categories], **learnt},
    }


def from_plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the `Mechanism` that `to_plain` wrote."""
    try:
        private = config["private"]
        if not all(values is None or _are_texts(values) for values in private["categories"]):
            raise TypeError("categories")
        if isinstance(config["fill"], bool) or not isinstance(config["fill"], (int, float)):
            raise TypeError("fill")
        return {
            "encoder": read_encoder({**private, "names": config["columns"]}),
            "features": Features(np.array(config["features"]["groups"]), tuple(config["features"]["names"])),
            "kinds": tuple(config["kinds"]),
            **{
                name: np.array([np.nan if end is None else end for end in private[name]], dtype=float) for name in _ENDS
            },
            "keeps": np.array(config["keeps"], dtype=float),
            **{name: config[name] for name in _PLAIN},
        }
    except LowtideError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise LowtideError("the configuration lacks or garbles a part of a mechanism; save it again") from error


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)
