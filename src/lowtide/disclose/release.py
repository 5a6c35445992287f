"""A release as the verbs write it: the result, what its card counts, and where the card goes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lowtide.disclose.card import Feature, ReleaseCard
from lowtide.files import sha256_of
from lowtide.notes import note
from lowtide.protocols import Changed, Nouns


@dataclass(frozen=True, eq=False)
class Release:
    """A release.

    Attributes:
        data: the released object, or the path it was written to.
        card: what was done, what may be promised, and what was measured.
        nouns: what the kind of data calls its things.
        written: every file that was written, by what it is.
    """

    data: Any = field(repr=False)
    card: ReleaseCard
    nouns: Nouns
    written: Mapping[str, Path] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.card.rows:,} {self.nouns.rows}, {self.card.changed:.1%} of the {self.nouns.unit}s changed"

    def to_json(self) -> dict[str, Any]:
        """The card as plain values."""
        return self.card.to_json()

    def _repr_html_(self) -> str:
        return self.card._repr_html_()


class Tally:
    """What the card says of the samples that are released, counted batch by batch."""

    def __init__(self, card: ReleaseCard) -> None:
        self._card, self.rows = card, 0
        self._hidden: Any = None
        self._units = self._changed = 0.0

    def add(self, changed: Changed) -> None:
        """Count a batch."""
        self.rows += changed.rows
        self._units += changed.units
        self._changed += changed.changed
        if changed.hidden is not None:
            self._hidden = changed.hidden if self._hidden is None else self._hidden + changed.hidden

    def card(self, sha256: str) -> ReleaseCard:
        """The card of the plan, with the figures of these samples and the hash of what was written."""
        features = self._card.features
        if self._hidden is not None:
            shares = (self._hidden / self.rows).tolist()
            features = tuple(Feature(old.name, share) for old, share in zip(features, shares, strict=True))
        changed = self._changed / self._units if self._units else 0.0
        return replace(self._card, features=features, rows=self.rows, changed=changed, data_sha256=sha256)


def card_paths(out: Path) -> dict[str, Path]:
    """Where the card of a release goes: beside it, for machines and for people."""
    stem = out.name.removesuffix(".npz") if out.suffix == ".npz" else out.name if out.is_dir() else out.stem
    return {name: out.with_name(f"{stem}.{name}") for name in ("card.json", "card.md")}


def find_card(release: Any, card: ReleaseCard | str | Path | None) -> ReleaseCard | None:
    """The card that was given, or the one beside a released file; a note says where it is of another release."""
    if isinstance(card, ReleaseCard):
        return card
    if not isinstance(release, (str, os.PathLike)):
        return None if card is None else ReleaseCard.load(card)
    beside = card_paths(Path(release))["card.json"]
    if card is None and not beside.is_file():
        note("no card beside the release, so no estimate to hold the attacks against")
        return None
    found = ReleaseCard.load(card or beside)
    if found.data_sha256 is not None and found.data_sha256 != sha256_of(Path(release)):
        note("the hash on the card is not that of this release: its estimate is of another one")
    return found
