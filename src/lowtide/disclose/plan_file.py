"""The plan file: what to change in data of one layout; made once, then used for any number of
releases.

It has one form for every kind of data: which kind, the name of the secret, the layout that files
must have, and the frozen policy and mechanism with their card. A plan without network weights is a
single JSON file, or a folder like any other; one with weights is a folder.

A release as the verbs write it: the result, what its card counts, and where the card goes.
"""

from __future__ import annotations

import html
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from lowtide import modalities
from lowtide.bundles import (
    check_bundle_place,
    check_seal,
    digest_of,
    read_bundle,
    read_config,
    seal,
    write_bundle,
)
from lowtide.disclose.card import ReleaseCard
from lowtide.disclose.noise import KeyedNoise, open_key, open_noise
from lowtide.disclose.saved import check_card
from lowtide.errors import LowtideError, note
from lowtide.files import PRIVATE, write_whole
from lowtide.formatting import html_of, html_of_markdown, text_of, visible
from lowtide.hashes import sha256_of
from lowtide.interface import Reported
from lowtide.places import as_place, is_place
from lowtide.protocols import Modality, Nouns, PlanView
from lowtide.remote import RemotePath

FORMAT = "lowtide-plan"
VERSION = 6
_EARLIER = (
    "lowtide-picture-plan",
    "lowtide-text-plan",
    "lowtide-picture-hider",
    "lowtide-text-hider",
)
_REMEDY = "make it again with `lowtide plan`"


@dataclass(frozen=True, eq=False)
class Plan(Reported):
    """What to change in data of one layout.

    Attributes:
        kind: the name of its modality.
        secret: the name of the secret.
        layout: what the kind needs to open further files of this layout, as plain values.
        hider: the frozen policy and mechanism, with the card of their rehearsal.
        signed: whether it was read from a file that is signed.
        key: that it was found to be signed with, which signs the cards of its releases; it is not
            saved.
    """

    kind: str
    secret: str
    layout: Mapping[str, Any]
    hider: Any = field(repr=False)
    signed: bool = field(default=False, repr=False)
    key: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.secret, str) or not self.secret:
            raise LowtideError("a plan must name the secret")
        self.modality.check_layout(self)

    @property
    def modality(self) -> Modality:
        """The kind of data it is for."""
        return modalities.get(self.kind)

    @property
    def card(self) -> ReleaseCard:
        """The card of the rehearsed release."""
        card: ReleaseCard = self.hider.card
        return card

    @property
    def view(self) -> PlanView:
        """The plan as tables and lines for a person, and as plain values."""
        return self.modality.view_plan(self)

    @cached_property
    def noise(self) -> KeyedNoise:
        """Noise under a key that lives as long as this object: a second release by it draws the
        same.
        """
        return open_noise(None)

    def parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The plan as plain JSON and tensors."""
        config, tensors = self.hider.parts()
        return {
            **config,
            "kind": self.kind,
            "secret": self.secret,
            "layout": dict(self.layout),
        }, tensors

    @property
    def digest(self) -> str:
        """SHA-256 of all that it says; release cards carry it."""
        return digest_of(*self.parts())

    def save(self, path: str | Path, *, sign: str | Path | None = None) -> Path:
        """Write the plan: a single `.json` file where it needs no weights, else a folder. Keep it
        inside.

        Args:
            path: where to.
            sign: the file of a key to sign it with, made when it does not exist; `load` can then
                ask for the signature.
        """
        target = Path(path)
        key = None if sign is None else open_key(sign)
        config, tensors = self.parts()
        if target.suffix != ".json":
            write_bundle(
                target,
                config,
                tensors,
                form=FORMAT,
                version=VERSION,
                beside=self.card.files(),
                key=key,
            )
        elif tensors:
            raise LowtideError(
                "this plan needs weights, which a JSON file cannot hold; name a folder instead,"
                f" such as {target.with_suffix('.lowtide').name}"
            )
        else:
            head = {"format": FORMAT, "version": VERSION, **seal(config, {}, key)}
            text = json.dumps({**head, **config}, indent=2, allow_nan=False) + "\n"
            _check_replaceable(target)
            write_whole(target, text, rights=PRIVATE)
        return target

    @classmethod
    def load(cls, path: str | Path, *, signed_by: str | Path | None = None) -> Plan:
        """Read a plan back, from a file or a folder; one that was edited is refused.

        Args:
            path: where it was saved.
            signed_by: the file of the key that it must be signed with; without it, whoever can
                write the file and compute its digest can change the plan.
        """
        source = Path(path)
        key = None if signed_by is None else open_key(signed_by, make=False)
        _check_format(source, read_config(source))
        if source.is_dir():
            config, tensors = read_bundle(source, form=FORMAT, version=VERSION, key=key)
        else:
            config = read_config(source)
            tensors = {}
            check_seal(source, config, key=key)
        try:
            modality = modalities.get(config["kind"])
            hider = modality.read_hider(config, tensors, source)
            check_card(hider)
            return cls(
                modality.name, config["secret"], config["layout"], hider, "signature" in config, key
            )
        except (
            KeyError,
            TypeError,
            AttributeError,
            ValueError,
            IndexError,
            OverflowError,
            RecursionError,
        ) as error:
            if isinstance(error, LowtideError) and str(source) in str(error):
                raise
            detail = f": {error}" if isinstance(error, LowtideError) else ""
            raise LowtideError(
                f"{path} lacks or garbles a part of a plan{detail}; {_REMEDY}"
            ) from error

    def to_json(self) -> dict[str, Any]:
        """The plan as plain values, without what was learnt about the data: no range, no category,
        no weight.
        """
        policy = {"name": self.hider.policy.name}
        if self.card.past is not None:
            policy["past"] = self.card.past
        head = {"kind": self.kind, "secret": self.secret, "policy": policy}
        return {**head, **self.view.plain, "card": self.card.to_json()}

    def text(self) -> str:
        """The three numbers of the rehearsal, in words."""
        return self.card.text().split("## What was done")[0].strip()

    def __str__(self) -> str:
        view = self.view
        return "\n".join([text_of(view.tables), *map(visible, view.lines), self.text()])

    def _repr_html_(self) -> str:
        view = self.view
        lines = "".join(f"<p>{html.escape(visible(line))}</p>" for line in view.lines)
        return f"{html_of(view.tables)}{lines}{html_of_markdown(self.text())}"


def check_plan_place(path: Path, *, weights: str | None) -> None:
    """Refuse a place where a plan could not be written, before the long work.

    Args:
        path: where the plan is to go.
        weights: why the plan will hold network weights; `None` where it will not.
    """
    if path.suffix != ".json":
        check_bundle_place(path, FORMAT)
    elif weights is not None:
        raise LowtideError(
            f"{weights} needs more than a JSON file holds; name a folder instead, such as "
            f"{path.with_suffix('.lowtide')}"
        )
    else:
        _check_replaceable(path)


def _check_replaceable(path: Path) -> None:
    """Refuse a single file that stands there and is not a plan."""
    if not path.is_file() or not path.stat().st_size:
        return
    try:
        form = read_config(path).get("format")
    except LowtideError:
        form = None
    if form != FORMAT:
        raise LowtideError(
            f"{path} exists and is not a plan; nothing was changed: choose another name, or"
            " remove it"
        )


def _check_format(path: Path, config: Mapping[str, Any]) -> None:
    form = config.get("format")
    version = config.get("version")
    if not isinstance(form, str):
        raise LowtideError(
            f"{path} is not a plan: its format is not {FORMAT!r}; make one with `lowtide plan`"
        )
    if form in _EARLIER or (form == FORMAT and isinstance(version, int) and version < VERSION):
        raise LowtideError(f"{path} is a plan of an earlier version of Lowtide; {_REMEDY}")
    if form != FORMAT:
        raise LowtideError(
            f"{path} is not a plan: its format is not {FORMAT!r}; make one with `lowtide plan`"
        )
    if version != VERSION:
        raise LowtideError(
            f"{path} has plan version {version!r}, this Lowtide reads {VERSION}; upgrade Lowtide"
        )


@dataclass(frozen=True, eq=False)
class Release:
    """A release.

    Attributes:
        data: the released object, or the path it was written to.
        card: what was done, what may be promised, and what was measured.
        nouns: what the kind of data calls its things.
        written: every file that was written, by what it is.
        order: (n,) which sample of the source each released one is, where an object was shuffled;
            it stays inside.
    """

    data: Any = field(repr=False)
    card: ReleaseCard
    nouns: Nouns
    written: Mapping[str, Path] = field(default_factory=dict)
    order: Any = field(default=None, repr=False)

    def __str__(self) -> str:
        return (
            f"{self.card.rows:,} {self.nouns.rows}, {self.card.changed:.1%} of the"
            f" {self.nouns.unit}s changed"
        )

    def to_json(self) -> dict[str, Any]:
        """The card as plain values."""
        return self.card.to_json()

    def _repr_html_(self) -> str:
        return self.card._repr_html_()


def card_paths(out: Path) -> dict[str, Path]:
    """Where the card of a release goes: beside it, for machines and for people.

    Args:
        out: the release. Its whole name counts, so that `s.csv` and `s.parquet` have cards of their
            own.
    """
    if out.name in ("", ".."):  # `.` and its like have a name only when they are written out
        out = Path(os.path.realpath(out))
    if not out.name:
        raise LowtideError(
            f"{out} cannot be a release, since no card can stand beside it; name a file or a folder"
        )
    return {name: out.with_name(f"{out.name}.{name}") for name in ("card.json", "card.md")}


def find_card(release: Any, card: ReleaseCard | str | Path | None) -> ReleaseCard | None:
    """The card that was given, or the one beside a released file.

    Where it is of another release a note says so, and the bound that it states against every
    attacker is left out.
    """
    if isinstance(card, ReleaseCard):
        return card
    if not is_place(release):
        return None if card is None else ReleaseCard.load(card)
    place = as_place(release)
    beside = None if isinstance(place, RemotePath) else card_paths(place)["card.json"]
    if card is None and beside is not None and beside.is_file():
        card = beside
    if card is None:
        note("no card beside the release, so no estimate to hold the attacks against")
        return None
    found = ReleaseCard.load(card)
    if found.data_sha256 is not None and found.data_sha256 != sha256_of(place):
        note("the hash on the card is not that of this release: its estimate is of another one")
        return replace(found, bound=None)
    return found
