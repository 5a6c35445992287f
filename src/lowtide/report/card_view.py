"""The release card as facts and lists, for the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from lowtide.formatting import interval, listed, percent, percents, plain
from lowtide.protocols import Nouns

if TYPE_CHECKING:
    from lowtide.disclose.card import ReleaseCard

_NAMED = 24  # features listed by name; the card's JSON has them all
_DONE = {
    "fixed": "The same {features} are hidden for everybody.",
    "sequential": "{Each}, a value is hidden where it would tell too much beyond what was disclosed before.",
    "paper": "{Each}, a value is hidden where it would tell too much beyond the raw values before it.",
}


class HiddenCounts(NamedTuple):
    """How many of `total` features are hidden for everybody, hidden in some samples, and released as they are."""

    everybody: int
    partly: int
    raw: int
    total: int


@dataclass(frozen=True)
class CardView:
    """A card to be shown.

    Attributes:
        facts: (what, its words) of what was done.
        holds: what holds and what does not.
        open: what is not promised.
        footer: when it was written, with which software, and the hash of the data.
    """

    facts: tuple[tuple[str, str], ...]
    holds: tuple[str, ...]
    open: tuple[str, ...]
    footer: str


def count_features(card: ReleaseCard) -> HiddenCounts:
    """Count the features that a card lists."""
    shares = [feature.hidden for feature in card.features]
    everybody, raw = sum(share == 1 for share in shares), sum(share == 0 for share in shares)
    return HiddenCounts(everybody, len(shares) - everybody - raw, raw, len(shares))


def view_card(card: ReleaseCard, nouns: Nouns, counts: HiddenCounts, *, with_change: bool = True) -> CardView:
    """Put a card into words; names of features are cut after a few, and those that stay inside only counted.

    Args:
        card: the release card.
        nouns: what the kind of data calls its things.
        counts: of the features it hides.
        with_change: whether to say what share was changed; an audit that measured it says so itself.
    """
    everybody = [feature.name for feature in card.features if feature.hidden == 1]
    partly = sorted((f for f in card.features if 0 < f.hidden < 1), key=lambda feature: -feature.hidden)
    done = _DONE[card.policy].format(features=nouns.features, Each=f"{nouns.feature.capitalize()} by {nouns.feature}")
    facts = [
        ("Policy", f"{card.policy}. {done}"),
        ("Mechanism", plain(card.mechanism)),
        (nouns.rows.capitalize(), f"{card.rows:,}"),
        ("Values of the secret", str(card.classes)),
        *([(f"{nouns.unit.capitalize()}s changed", percent(card.changed))] if with_change else []),
        ("Hidden for everybody", _some(everybody, counts.everybody, counts.total, nouns)),
    ]
    if card.leakage is not None:
        facts.append(("Estimated leakage", f"{interval(card.leakage)} nats, {interval(card.leakage.bits)} bits"))
    if card.strongest is not None:
        attack, right = plain(card.strongest.attacker), percents(card.strongest.accuracy)
        facts.append(
            ("Strongest attack, at release", f"{attack}: {right} right, {interval(card.strongest.information)} nats")
        )
    if counts.partly:
        names = [f"{plain(feature.name, 60)} ({percent(feature.hidden)})" for feature in partly]
        facts.append((f"Hidden in some {nouns.rows}", _some(names, counts.partly, counts.total, nouns)))
    given = {name: value for name, value in card.parameters.items() if value is not None and value not in ("", ())}
    if given:
        facts.append(("Options", "; ".join(f"{plain(name)} = {_shown(value, nouns)}" for name, value in given.items())))
    software = ", ".join(f"{plain(name)} {plain(version)}" for name, version in card.versions.items())
    digest = f" SHA-256 of the released data: {card.data_sha256}." if card.data_sha256 else ""
    return CardView(
        tuple(facts),
        card.certificate.statements,
        _open(card, nouns, counts.raw),
        f"Written {card.created} with {software}.{digest}",
    )


def _some(names: Sequence[str], count: int, total: int, nouns: Nouns) -> str:
    """How many of all features, and which, where their names say something."""
    if not nouns.named:
        return f"{count:,} of {total:,} {nouns.counted}"
    return f"{count} of {total}: {listed(names, _NAMED)}"


def _open(card: ReleaseCard, nouns: Nouns, count: int) -> tuple[str, ...]:
    raw = [feature.name for feature in card.features if feature.hidden == 0]
    said = [
        f"All of this is about one {nouns.row}: whoever stands in several is less protected.",
        "The estimate and the attacks speak for the data they were computed on; a better attacker may exist.",
    ]
    if card.policy != "fixed":
        return ("Any worst case: what the release tells is known from the estimate and the attacks only.", *said)
    if count:
        names = f": {listed(raw, _NAMED)}" if nouns.named else ""
        said.insert(0, f"Anything about what is released as it is ({count:,} {nouns.counted}){names}.")
    return tuple(said)


def _shown(value: Any, nouns: Nouns) -> str:
    if not nouns.named and isinstance(value, tuple) and any(isinstance(entry, str) for entry in value):
        return f"{len(value):,} entries"  # which may be words
    return listed([str(entry) for entry in value], _NAMED) if isinstance(value, tuple) else plain(str(value))
