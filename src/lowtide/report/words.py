"""A report in words: the verdict, the three numbers, and a sentence or two for every section.

The release card as facts and lists, for the page.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lowtide.attack.lower_bound import LowerBound
from lowtide.auditing.report import AuditReport
from lowtide.disclose.card import ReleaseCard
from lowtide.disclose.card_page import against_everybody, distrust, redrawn_in_words
from lowtide.disclose.certificate import TwoSided, rounded_up
from lowtide.formatting import (
    interval,
    listed,
    nats_up,
    number,
    percent,
    percent_up,
    percentages,
    percents,
    plain,
    unseen,
)
from lowtide.interface import NATS_PER_BIT, Estimate
from lowtide.protocols import Nouns
from lowtide.report.html import Findings

_MOST_OF = 0.9  # of the information: how much the features that are named together carry
_UNSEEN = (
    "No fitted model read anything clear out of it. That is not nothing: the figure says what they"
    " may have missed."
)
_CONSTANT = "The release is the same for everybody."
_ALWAYS = "An attack is a lower bound: a better attacker may learn more."


@dataclass(frozen=True)
class Figure:
    """One of the three numbers: what it is, its value, the small print, and what it means in a
    sentence.
    """

    label: str
    value: str
    details: tuple[str, ...]
    meaning: str


@dataclass(frozen=True)
class Headline:
    """The verdict: the main sentence, what to beware of, and what else to know."""

    sentence: str
    cautions: tuple[str, ...]
    notes: tuple[str, ...]


def headline(found: Findings) -> Headline:
    """The verdict in words, from the best there is: the audit, the card, the plan or the scan."""
    if found.audit is not None:
        verdict = found.audit.verdict
        gate = found.audit.gate
        failed = verdict.gate if verdict.passed is False else None
        limits = None if gate is None or gate.policy_file is None else gate.sentence
        passed = gate is None or gate.passed
        kept = limits if passed else None
        broken_limits = None if passed else limits
        noted = (
            _redrawn(found.card),
            verdict.gate if failed is None else None,
            kept,
            verdict.lower_bound_note,
        )
        cautions = (
            failed,
            broken_limits,
            verdict.distrust,
            verdict.surface,
            verdict.control,
            verdict.weak,
        )
        return Headline(verdict.sentence, _there(cautions), _there(noted))
    secret = plain(found.secret)
    card = found.card
    if card is not None and card.strongest is not None:
        blind = found.guess.value if found.guess else card.largest_class
        here, without = percentages(card.strongest.accuracy.value, blind)
        sentence = (
            f"An attacker guesses {secret} right {here} of the time; guessing blindly gives"
            f" {without}."
        )
        budget = None if card.standing is None else f"The budget is {card.standing}."
        broken = card.standing is not None and card.standing.state != "kept"
        beware = (
            budget if broken else None,
            None if (why := distrust(card)) is None else f"{why}.",
        )
        return Headline(
            sentence, _there(beware), _there((_redrawn(card), None if broken else budget, _ALWAYS))
        )
    nouns = found.nouns
    if found.leakage is not None:
        words = _tells("The release", found.leakage, None, secret, nouns)
        return Headline(words, (), ("No attacker has tried it yet.",))
    if found.scan is not None:
        words = _tells(nouns.a_row, found.scan.information, found.scan.entropy, secret, nouns)
        return Headline(words, (), ("This is the data as it is: nothing has been hidden.",))
    if found.plan.curve:
        raw = max(found.plan.curve, key=lambda point: point.kept).reading.leakage
        words = _tells(
            f"{'The table' if nouns.named else nouns.a_row} as it is", raw, None, secret, nouns
        )
        return Headline(words, (), ("This is a plan: nothing is released yet.",))
    return Headline(f"Nothing has been measured yet about what tells {secret}.", (), ())


def _redrawn(card: ReleaseCard | None) -> str | None:
    """What a reader of a redrawn release must know first."""
    return redrawn_in_words(card) if card is not None and card.policy == "redraw" else None


def three_numbers(found: Findings) -> tuple[Figure, Figure, Figure]:
    """The worst-case bound, the estimated leakage and the strongest retrained attack."""
    return _bound(found), _estimate(found), _attack(found)


def leaks_in_words(
    found: Findings, names: Sequence[str] = (), *, carried: bool = True
) -> list[str]:
    """How much whole samples tell, and how few features carry most of it.

    Args:
        found: with a scan, or nothing is said.
        names: (m,) of the features, where they may be said.
        carried: whether to count the features that carry most, where the scan has their shares.
    """
    scan = found.scan
    nouns = found.nouns
    if scan is None:
        return []
    said = [_tells(f"A whole {nouns.row}", scan.information, scan.entropy, found.secret, nouns)]
    shares = None if scan.shares is None or not carried else np.maximum(scan.shares, 0.0)
    if shares is not None and scan.information.low > 0 and shares.sum() > 0:
        order = np.argsort(-shares, kind="stable")
        need = int(np.searchsorted(np.cumsum(shares[order]), _MOST_OF * shares.sum())) + 1
        named = f": {listed([names[j] for j in order[:need]], 6)}" if names else ""
        what = f"{nouns.feature} carries" if need == 1 else f"{nouns.counted} carry"
        said.append(f"{need} of {len(shares)} {what} nine tenths of it{named}.")
    return said


def divergence_in_words(bound: LowerBound, nouns: Nouns) -> str:
    """What the attack proves about E_γ."""
    sure = f"except with probability {bound.failure:g}, from {bound.n:,} {nouns.rows}"
    most = max(bound.forward_max, bound.reverse_max)
    if most <= 0:
        return (
            f"At ε = {bound.epsilon:g} the attack proves no divergence: the lower bound on E_γ is 0"
            f" ({sure})."
        )
    return (
        f"At ε = {bound.epsilon:g} the attack proves a divergence E_γ of at least"
        f" {number(bound.forward_max)} forward and {number(bound.reverse_max)} in reverse ({sure}):"
        " no promise below that can be true of this release."
    )


def change_in_words(audit: AuditReport, nouns: Nouns) -> list[str]:
    """How much changed, and what the release still predicts."""
    said = []
    change = audit.change
    utility = audit.utility
    if change is not None and not nouns.named:
        psnr = (
            ""
            if change.psnr is None or not np.isfinite(change.psnr)
            else f", PSNR {number(change.psnr, 1)} dB"
        )
        share = f"{percent(change.share)} of the {nouns.unit}s {nouns.changed}{psnr}"
        said.append(
            " ".join(filter(None, [f"{share} ({change.rows:,} {nouns.rows}).", nouns.change_note]))
        )
    elif change is not None:
        count = len(change.columns)
        columns = "column" if count == 1 else f"{count:,} columns"
        aside = "" if utility is None else ", the utility aside"
        parts = [f"{percent(change.share)} of the values of the audited {columns} changed{aside}"]
        if change.rms is not None:
            parts.append(
                f"the root mean square of the change is {number(change.rms, 3)} standard deviations"
            )
        if change.psnr is not None:
            parts.append(
                f"the PSNR is {number(change.psnr, 1)} dB"
                if np.isfinite(change.psnr)
                else "no pixel changed"
            )
        said.append("; ".join(parts) + f" ({change.rows:,} audited rows).")
    elif audit.change_missing:
        said.append(f"The change was not measured: {plain(audit.change_missing)}.")
    if utility is not None:
        name = "AUC" if utility.kind == "classes" else "R²"
        clean = utility.best_clean
        before = (
            "" if clean is None else f" instead of {interval(clean.score, 3)} from the clean data"
        )
        what = "column" if nouns.named else "label"
        blind = number(utility.guess.score.value, 3) if utility.kind == "classes" else "0"
        said.append(
            f"Models trained on the release predict the utility {what} with {name}"
            f" {interval(utility.best.score, 3)}{before}; guessing gives {blind}."
        )
    return said


def _bound(found: Findings) -> Figure:
    label = "Worst-case bound"
    if found.card is None:
        return Figure(
            label,
            "none",
            ("no release card was given",),
            "Nothing is promised against every attacker.",
        )
    whole = found.card.certificate.whole
    counted = against_everybody(found.card)
    epsilon = f"at ε = {rounded_up(whole.forward.epsilon)}"
    if whole.vacuous and counted is not None and found.card.bound is not None:
        held = found.card.bound
        details = (
            f"and at most {nats_up(held.information)} nat",
            f"counted on {held.rows:,} {found.nouns.rows}",
        )
        meaning = f"{counted[0].upper()}{counted[1:]}."
        return Figure(
            "Against every attacker", f"≤ {percent_up(held.accuracy)} right", details, meaning
        )
    if whole.vacuous:
        meaning = (
            "Full disclosure satisfies it too: nothing is promised against every conceivable"
            " attacker. What is known are the other two numbers."
        )
        return Figure(label, "vacuous", (f"for the whole release, {epsilon}",), meaning)
    meaning = (
        "Holds against every attacker, known or not: whatever is looked for, its chance within a"
        " class and its chance overall differ by no more than a factor e^ε and δ."
    )
    return Figure(
        label,
        f"δ ≤ {_larger(whole)}",
        (f"for the whole release, {epsilon}", _sides(whole)),
        meaning,
    )


def _larger(whole: TwoSided) -> str:
    sides = ((whole.forward, whole.forward_vacuous), (whole.reverse, whole.reverse_vacuous))
    return rounded_up(max(side.delta for side, vacuous in sides if not vacuous))


def _sides(whole: TwoSided) -> str:
    forward = "vacuous" if whole.forward_vacuous else rounded_up(whole.forward.delta)
    reverse = "vacuous" if whole.reverse_vacuous else rounded_up(whole.reverse.delta)
    return f"forward {forward}, reverse {reverse}"


def _estimate(found: Findings) -> Figure:
    leakage = found.leakage
    of = "release"
    if leakage is None and found.scan is not None:
        leakage = found.scan.information
        of = "data as it is"
    label = f"Estimated leakage, {of}"
    if leakage is None:
        return Figure(
            "Estimated leakage",
            "none",
            ("nothing was estimated",),
            "No model was fitted to the release besides the attackers, whose success is a lower"
            " bound.",
        )
    bits = leakage.bits
    rest = f"{leakage.n:,} held-out {found.nouns.rows}"
    if not leakage.found:
        value = "none found" if leakage.high > 0 else "none"
        return Figure(
            label,
            value,
            (unseen(leakage, found.nouns.rows),),
            _UNSEEN if leakage.high > 0 else _CONSTANT,
        )
    details = (f"[{number(bits.low)}, {number(bits.high)}] bits", f"{interval(leakage)} nats", rest)
    meaning = (
        f"What a fitted model reads out of {found.nouns.rows} it was not trained on, on average per"
        f" {found.nouns.row}. An estimate: no promise, and more may be there."
    )
    return Figure(label, f"{number(bits.value)} bits", details, meaning)


def _attack(found: Findings) -> Figure:
    best = found.strongest
    label = "Strongest retrained attack"
    if best is None:
        return Figure(
            label, "none", ("no attacker was trained on a release",), "Nothing is known from below."
        )
    blind = [] if found.guess is None else [f"a blind guess: {percent(found.guess.value)}"]
    right = f"[{percent(best.accuracy.low)}, {percent(best.accuracy.high)}]"
    details = (right, *blind, f"{interval(best.information.bits)} bits")
    count = sum(attack.trained_on == "release" for attack in found.attacks)
    which = f"The best of {count} attackers" if count > 1 else "The attacker"
    meaning = (
        f"{which} trained on the release itself ({plain(best.attacker)}). A lower bound: a better"
        " one may learn more."
    )
    return Figure(label, f"{percent(best.accuracy.value)} right", details, meaning)


def _tells(what: str, leakage: Estimate, entropy: float | None, secret: str, nouns: Nouns) -> str:
    bits = leakage.bits
    known = (
        ""
        if entropy is None
        else f" of the {number(entropy / NATS_PER_BIT, 3)} bits there are to know"
    )
    if leakage.low <= 0:
        return (
            f"{what} tells nothing about {plain(secret)} that stands out from chance: at most about"
            f" {number(max(bits.high, 0.0), 3)}{known or ' bits'}."
        )
    rest = f"on {leakage.n:,} {nouns.rows} held out"
    return f"{what} tells {interval(bits, 3)}{known or ' bits'} about {plain(secret)}, {rest}."


def _there(parts: Sequence[str | None]) -> tuple[str, ...]:
    return tuple(part for part in parts if part)


_NAMED = 24  # features listed by name; the card's JSON has them all
_DONE = {
    "fixed": "The same {features} are hidden for everybody.",
    "redraw": "{Redrawn}",
    "sequential": (
        "{Each}, a value is hidden where it would tell too much beyond what was disclosed before."
    ),
}
_RAW_PAST = (
    "{Each}, a value is hidden where it would tell too much beyond the raw values before it."
)


_MERGED = (
    "The same {features} are hidden, or released coarser, for everybody; what is shown is true."
)


class HiddenCounts(NamedTuple):
    """How many of `total` features are hidden for everybody, hidden in some samples, and released
    as they are.
    """

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
    everybody = sum(share == 1 for share in shares)
    raw = sum(share == 0 for share in shares)
    return HiddenCounts(everybody, len(shares) - everybody - raw, raw, len(shares))


def view_card(
    card: ReleaseCard, nouns: Nouns, counts: HiddenCounts, *, with_change: bool = True
) -> CardView:
    """Put a card into words; names of features are cut after a few, and those that stay inside only
    counted.

    Args:
        card: the release card.
        nouns: what the kind of data calls its things.
        counts: of the features it hides.
        with_change: whether to say what share was changed; an audit that measured it says so
            itself.
    """
    everybody = [feature.name for feature in card.features if feature.hidden == 1]
    partly = sorted(
        (f for f in card.features if 0 < f.hidden < 1), key=lambda feature: -feature.hidden
    )
    each = f"{nouns.feature.capitalize()} by {nouns.feature}"
    done = _RAW_PAST if card.past == "raw" else _DONE[card.policy]
    done = _MERGED if card.merged else done
    done = done.format(features=nouns.features, Each=each, Redrawn=redrawn_in_words(card))
    facts = [
        ("Policy", f"{card.policy}. {done}"),
        ("Mechanism", plain(card.mechanism)),
        (nouns.rows.capitalize(), f"{card.rows:,}"),
        ("Values of the secret", str(card.classes)),
        *([(f"{nouns.unit.capitalize()}s changed", percent(card.changed))] if with_change else []),
    ]
    if card.policy != "redraw":
        facts.append(
            ("Hidden for everybody", _some(everybody, counts.everybody, counts.total, nouns))
        )
    facts += [
        (f"{plain(name, 60)} shows", plain(labels, 400)) for name, labels in card.merged.items()
    ]
    if card.leakage is not None:
        both = f"{interval(card.leakage)} nats, {interval(card.leakage.bits)} bits"
        facts.append(
            ("Estimated leakage", both if card.leakage.found else unseen(card.leakage, nouns.rows))
        )
    if card.bound is not None:
        facts.append(("Against every attacker", str(card.bound)))
    if card.standing is not None:
        facts.append(("Budget", str(card.standing)))
    if card.strongest is not None:
        attack = plain(card.strongest.attacker)
        right = percents(card.strongest.accuracy)
        facts.append(
            (
                "Strongest attack, at release",
                f"{attack}: {right} right, {interval(card.strongest.information)} nats",
            )
        )
    if counts.partly:
        names = [f"{plain(feature.name, 60)} ({percent(feature.hidden)})" for feature in partly]
        word = "Drawn anew" if card.policy == "redraw" else "Hidden"
        facts.append(
            (f"{word} in some {nouns.rows}", _some(names, counts.partly, counts.total, nouns))
        )
    given = {
        name: value
        for name, value in card.parameters.items()
        if value is not None and value not in ("", ())
    }
    given = {
        name: value for name, value in given.items() if name not in ("merged", "merged_labels")
    }
    if given:
        facts.append(
            (
                "Options",
                "; ".join(
                    f"{plain(name)} = {_shown(value, nouns)}" for name, value in given.items()
                ),
            )
        )
    software = ", ".join(
        f"{plain(name)} {plain(version)}" for name, version in card.versions.items()
    )
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
        (
            "The estimate and the attacks speak for the data they were computed on; a better"
            " attacker may exist."
        ),
    ]
    if card.policy != "fixed":
        return (
            (
                "Any worst case: what the release tells is known from the estimate and the attacks"
                " only."
            ),
            *said,
        )
    if count:
        names = f": {listed(raw, _NAMED)}" if nouns.named else ""
        how = "as it is, or coarser" if card.merged else "as it is"
        beyond = "" if against_everybody(card) is None else ", beyond the bound from counts"
        said.insert(
            0, f"Anything about what is released {how}{beyond} ({count:,} {nouns.counted}){names}."
        )
    return tuple(said)


def _shown(value: object, nouns: Nouns) -> str:
    if (
        not nouns.named
        and isinstance(value, tuple)
        and any(isinstance(entry, str) for entry in value)
    ):
        return f"{len(value):,} entries"  # which may be words
    return (
        listed([str(entry) for entry in value], _NAMED)
        if isinstance(value, tuple)
        else plain(str(value))
    )
