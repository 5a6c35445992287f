"""The release card as a page of Markdown, to be read in a minute."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lowtide.disclose.certificate import TwoSided, rounded_up
from lowtide.disclose.membership import SIDES
from lowtide.disclose.standing import judged_by_nobody
from lowtide.formatting import in_ascii, interval, percent, percent_up, percents, unseen, visible
from lowtide.interface import CERTAIN, Attack, DivergenceCurve, Estimate, strongest

if TYPE_CHECKING:  # a card makes its page, so the page cannot import the card
    from lowtide.disclose.card import ReleaseCard

_NAMED = 12  # features listed by name; the JSON has them all
_DONE = {
    "fixed": "The same features are hidden for everybody.",
    "redraw": "",  # which depends on how much of it: `redrawn_in_words`
    "sequential": (
        "Feature by feature, a value is hidden where it would tell too much beyond what was"
        " disclosed before."
    ),
}
_RAW_PAST = (
    "Feature by feature, a value is hidden where it would tell too much beyond the raw values"
    " before it."
)
_MERGED = "The same features are hidden, or released coarser, for everybody; what is shown is true."
_FILLED = (
    "What is hidden was filled in with values drawn from a law learnt from the reference rows,"
    " given what is shown: they are not the person's own, and depend on nothing of the row but what"
    " is shown."
)
_REHEARSED = (
    "The estimate and the attacks are of a rehearsal, which released reference rows by the same"
    " plan; an audit attacks the release itself, so its figures differ."
)
_ONE_ROW = "All of this is about one row: whoever stands in several is less protected."
_EACH = (
    "All else on this card is about the secrets together, their product. What was changed was"
    " planned for the product: what it tells in nats bounds what is told about each. Each was then"
    " attacked by itself, and its budget held against the upper end of what attackers learnt."
)
_UNKNOWN = "it has columns that nobody judged"
_NO_ESTIMATE = (
    "none: this kind of data has no estimate of its own, only attacks, which are lower bounds on"
    " what there is to learn"
)


def page(card: ReleaseCard) -> str:
    """Write a card as Markdown: the outcome in words, the three numbers, what was done, what holds
    and what not.
    """
    said = (
        _achieved(card),
        _budget(card),
        against_everybody(card),
        _released(card),
        _order(card),
        _worst_case(card),
        distrust(card),
    )
    first, *others = [line for line in said if line]
    sections = [
        [f"# Release card: {first}"],
        *([f"{line[0].upper()}{line[1:]}."] for line in others),
        ["## Three numbers", "", *_numbers(card)],
        *([["## Each secret by itself", "", *_secrets(card)]] if card.secrets else []),
        *(
            [["## The divergence", "", *_divergence(card, card.divergence)]]
            if card.divergence
            else []
        ),
        ["## What was done", "", *(f"- {line}" for line in _done(card))],
        [
            "## What holds, and what does not",
            "",
            *(f"- {visible(line)}" for line in card.certificate.statements),
        ],
        ["## What is not promised", "", *(f"- {line}" for line in _not_promised(card))],
        *([["## Attacks", "", *_attacks(card)]] if card.attacks else []),
        *([["## Decisions", "", *_decisions(card)]] if card.decisions else []),
        [_footer(card)],
    ]
    return "\n\n".join("\n".join(lines) for lines in sections) + "\n"


def _achieved(card: ReleaseCard) -> str | None:
    """How often the strongest attacker is right, beside a blind guess and the clean data; `None`
    without an attack.
    """
    attack = card.strongest
    if attack is None:
        return None
    clean = [a for a in card.attacks if (a.trained_on, a.target) == ("clean", "clean")]
    instead = f" instead of {_percent(strongest(clean).accuracy.value)}" if clean else ""
    return (
        f"an attacker guesses the {_quoted(card.secret or 'secret')} right"
        f" {_percent(attack.accuracy.value)} of the time{instead}; guessing blindly gives"
        f" {_percent(_blind(card))}"
    )


def _blind(card: ReleaseCard) -> float:
    """How often a guess of the commonest class is right: on the rows that were attacked, else on
    all.
    """
    guesses = [
        a.accuracy.value for a in card.attacks if (a.trained_on, a.target) == ("nothing", "release")
    ]
    return guesses[0] if guesses else card.largest_class


def _budget(card: ReleaseCard) -> str | None:
    """Whether the budget is kept."""
    if card.standing is None:
        return None
    rest = (
        "; this says nothing about the columns that nobody judged" if card.unjudged.released else ""
    )
    return f"the budget is {card.standing}{rest}"


def against_everybody(card: ReleaseCard) -> str | None:
    """What no attacker achieves, where a bound from counts says so."""
    if card.bound is None or card.unjudged.released:
        return None
    sure = float(card.parameters.get("certify") or 1 - card.bound.failure)
    right = percent_up(card.bound.accuracy)
    return (
        "no attacker who has nothing but the release, however clever, guesses the"
        f" {_quoted(card.secret or 'secret')} right more than {right} of the time from one"
        f" row (blind: {_percent(card.largest_class)}), with"
        f" {100 * sure:.3g} % confidence, if people are drawn like the reference rows"
    )


def _released(card: ReleaseCard) -> str | None:
    """The columns that are released on the user's word."""
    return (
        judged_by_nobody(tuple(map(_quoted, card.unjudged.released)))
        if card.unjudged.released
        else None
    )


def _order(card: ReleaseCard) -> str | None:
    """That the order of the rows tells the secret, where it does."""
    order = card.order
    if order is None or order.told is None or not order.tells or order.shuffled:
        return None
    told = f"the order of the reference rows tells the secret ({_interval(order.told)} nats)"
    return (
        f"{told}, and the release keeps it"
        if order.shuffled is False
        else f"{told}: release them in random order"
    )


def _worst_case(card: ReleaseCard) -> str:
    whole = card.certificate.whole
    if card.unjudged.released:
        return f"no worst-case promise for the whole release ({_UNKNOWN})"
    if whole.vacuous:
        return "no worst-case promise for the whole release (the bound is vacuous)"
    if whole.forward.delta == whole.reverse.delta == 0:
        if card.order is not None and card.order.shuffled:
            return "no value of the data is left in the release, and its order is random"
        return (
            "no value of the data is left in the release; how many rows it has and their order are"
            " not covered"
        )
    return "a worst-case promise for the whole release, whatever the class of the secret"


def distrust(card: ReleaseCard) -> str | None:
    """Why the estimate is not to be trusted, in the words of an audit's verdict; `None` where it
    is.
    """
    if card.trusted or card.leakage is None:
        return None
    if not card.contradicted:
        return (
            f"Do not trust the estimate: it rests on {card.leakage.n:,} rows, in which as much as "
            f"{card.leakage.high:.4f} nats could have gone unseen"
        )
    attack = max(
        (a.information for a in card.attacks if a.target == "release"), key=lambda found: found.low
    )
    return (
        f"Do not trust the estimate: it puts the leakage at {_interval(card.leakage)} nats, "
        f"but an attacker already gets {attack.value:z.4f} (at least {attack.low:z.4f}). "
        "The estimator is too weak for this release; rely on the attack"
    )


def _numbers(card: ReleaseCard) -> list[str]:
    estimate = _NO_ESTIMATE
    if card.leakage is not None:
        estimate = in_ascii(unseen(card.leakage))
        if card.leakage.found:
            both = f"{_interval(card.leakage)} nats = {_interval(card.leakage.bits)} bits"
            estimate = f"{both}, from {card.leakage.n} rows"
    attack = card.strongest
    found = "no attacker was trained on the release: nothing is known from below"
    if attack is not None:
        found = (
            f"{_quoted(attack.attacker)}: accuracy {_percents(attack.accuracy)} (a blind guess:"
            f" {_percent(_blind(card))}), AUC {_interval(attack.auc)},"
            f" {_interval(attack.information)} nats"
        )
    return [
        "| | |",
        "|---|---|",
        f"| Worst-case bound for the whole release | {_whole_bound(card)} |",
        f"| Estimated leakage, held out | {estimate} |",
        f"| Strongest retrained attack, a lower bound | {found} |",
        *(
            [f"| Against every attacker, from counts | {card.bound} |"]
            if card.bound is not None
            else []
        ),
        *([f"| Budget | {card.standing} |"] if card.standing is not None else []),
        *(["", _REHEARSED] if attack is not None else []),
    ]


def _secrets(card: ReleaseCard) -> list[str]:
    """What is told about each of several secrets; all else on the card is about their product."""
    rows = []
    for one in card.secrets:
        right = f"{_percents(one.accuracy)} (blind: {_percent(one.blind)})"
        budget = "none of its own" if one.standing is None else str(one.standing)
        rows.append(
            f"| {_quoted(one.name)} | {right} | {_interval(one.information)} | {_quoted(budget)} |"
        )
    return ["| secret | right guesses | nats | budget |", "|---|---|---|---|", *rows, "", _EACH]


def _divergence(card: ReleaseCard, curve: DivergenceCurve) -> list[str]:
    """The paper's own measure: estimated, proven from below, and bounded from above where there is
    a bound.
    """
    rows = []
    for k, epsilon in enumerate(curve.epsilons):
        sides = []
        for side in SIDES:
            bound = (
                None
                if card.unjudged.released
                else upper_bound(card.certificate.whole, side, epsilon)
            )
            proven = getattr(curve, f"{side}_proven")[k]
            limits = f"at least {proven:.4f}" + (
                "" if bound is None else f", at most {rounded_up(bound)}"
            )
            sides += [_interval(getattr(curve, side)[k]), limits]
        rows.append(f"| {epsilon:g} | {' | '.join(sides)} | {_percents(curve.tail[k])} |")
    return [
        (
            "| epsilon | forward, estimated | proven | reverse, estimated | proven | rows with"
            " abs(i) > epsilon |"
        ),
        "|---|---|---|---|---|---|",
        *rows,
        "",
        (
            "Forward is the most by which the chance of an event within a class exceeds e^epsilon"
            " times its chance overall; reverse is the other way round. Estimates are counted on"
            " held-out rows, in the event that the strongest attacker names by its density; what"
            " is proven holds for the rehearsed release, except with probability"
            f" {curve.failure:g}."
        ),
        "",
        (
            "Rows whose secret this attacker names with more than 90 % certainty:"
            f" {_percents(curve.certain)}{beside_prior(card.largest_class)}."
        ),
    ]


def beside_prior(largest_class: float) -> str:
    """What to compare a share of rows with that are read with more than 90 % certainty: what the
    prior gives alone.
    """
    blind = "all" if largest_class > CERTAIN else "none"
    return (
        f" (without the release {blind}: the commonest value has"
        f" {in_ascii(percent(largest_class))})"
    )


def upper_bound(whole: TwoSided, side: str, epsilon: float) -> float | None:
    """What a certificate promises at ε, in a direction: it was made for one ε and holds for all
    above it.
    """
    bound = whole.forward if side == "forward" else whole.reverse
    vacuous = whole.forward_vacuous if side == "forward" else whole.reverse_vacuous
    return None if vacuous or epsilon < bound.epsilon else bound.delta


def _whole_bound(card: ReleaseCard) -> str:
    return f"none: {_UNKNOWN}" if card.unjudged.released else _bound(card.certificate.whole)


def _bound(whole: TwoSided) -> str:
    if whole.vacuous:
        return "vacuous: full disclosure satisfies it too"
    note = " (vacuous)"
    return (
        f"delta {rounded_up(whole.forward.delta)}{note * whole.forward_vacuous} forward, "
        f"{rounded_up(whole.reverse.delta)}{note * whole.reverse_vacuous} reverse, "
        f"at epsilon {rounded_up(whole.forward.epsilon)}"
    )


def _done(card: ReleaseCard) -> list[str]:
    everybody = [feature.name for feature in card.features if feature.hidden == 1]
    sometimes = [feature for feature in card.features if 0 < feature.hidden < 1]
    sometimes.sort(key=lambda feature: -feature.hidden)
    partly = [f"{_quoted(feature.name)} ({_percent(feature.hidden)})" for feature in sometimes]
    done = in_ascii(redrawn_in_words(card)) if card.policy == "redraw" else _DONE[card.policy]
    if card.past == "raw":
        done = _RAW_PAST
    done = _MERGED if card.merged else done
    lines = [
        f"{done} Mechanism: {_quoted(card.mechanism)}.",
        f"{card.rows} rows, a secret of {card.classes} classes{_changed(card)}.",
    ]
    if card.policy == "redraw":
        lines += [_quoted(line) for line in [redraw_order(card)] if line]
        hidden = [_quoted(name) for name in card.parameters.get("hide") or ()]
        lines += [_quoted(line) for line in surface_remedies(card)]
        if hidden:
            lines.append(
                f"Hidden, and filled in given what the others show ({len(hidden)}):"
                f" {_some(hidden)}."
            )
    else:
        names = list(map(_quoted, everybody))
        lines.append(
            f"Hidden for everybody ({len(names)} of {len(card.features)}): {_some(names)}."
        )
    lines += [
        f"Released coarser, as text: {_quoted(name)}, which shows {_quoted(labels)}."
        for name, labels in card.merged.items()
    ]
    lines += [_FILLED] if card.parameters.get("fill") == "redraw" else []
    if card.order is not None and card.order.shuffled is not None:
        lines.append(
            "The rows are in"
            f" {'random order' if card.order.shuffled else 'the order of the source'}."
        )
    learnt = [_quoted(name) for name in card.parameters.get("ranges_learnt") or ()]
    if learnt:
        lines.append(
            f"Noised values are clipped to ranges. Those of {len(learnt)} columns were learnt from"
            f" the reference data, rounded outwards, and show in the release: {_some(learnt)}."
        )
    if partly:
        word = "Drawn anew" if card.policy == "redraw" else "Hidden"
        word += " or rounded" if card.parameters.get("rounded") else ""
        lines.append(
            f"{word} in some rows ({len(partly)} of {len(card.features)}): {_some(partly)}."
        )
    lines += _withheld(card)
    given = {
        name: value
        for name, value in card.parameters.items()
        if name not in ("ranges_learnt", "order", "merged", "merged_labels", "surface", "rounded")
        and not name.startswith("attackers ")
        and value is not None
        and value not in ("", ())
    }
    options = [f"{_quoted(name)} = {_quoted(_shown(value))}" for name, value in given.items()]
    return [*lines, f"Options: {'; '.join(options)}."] if options else lines


def _changed(card: ReleaseCard) -> str:
    """The share of values that were changed, where the words about redrawn values do not give
    it.
    """
    return (
        "" if card.policy == "redraw" else f"; {_percent(card.changed)} of the values were changed"
    )


def redrawn_in_words(card: ReleaseCard) -> str:
    """What a reader must know of a redrawn release, or of the rehearsal where the card is that of a
    plan.
    """
    how = "drawn anew or rounded" if card.parameters.get("rounded") else "drawn anew"
    share = percent(1 - card.changed)
    shown = f"{share} of the values are as they were"
    if card.plan_sha256 is None:
        shown = (
            f"In the rehearsal, on {card.rows:,} reference rows, {share} of the values stayed as"
            " they were"
        )
    return (
        f"{shown}; the others were {how}. The file does not mark which, but an attacker can often"
        " guess: do not use a single record as a fact about a person."
    )


def redraw_order(card: ReleaseCard) -> str:
    """In which order features were redrawn, and why; empty where the card does not say."""
    order = card.parameters.get("order") or ()
    if not order:
        return ""
    return (
        f"Released in this order: {_some([visible(name) for name in order])}. What comes first is"
        " changed least: what is kept, then the utility and what tells most about it; without one,"
        " what tells least about the secret."
    )


def surface_remedies(card: ReleaseCard) -> tuple[str, ...]:
    """What redraw did about columns that told the secret beside their values, a sentence each."""
    return tuple(
        f"{visible(line[0].upper() + line[1:])}." for line in card.parameters.get("surface") or ()
    )


def _withheld(card: ReleaseCard) -> list[str]:
    """What became of the things that nobody judged."""
    found = card.unjudged
    lines = []
    if found.withheld:
        names = _some(list(map(_quoted, found.withheld)))
        lines.append(
            f"Not judged, and therefore blank or left out ({len(found.withheld)}): {names}."
        )
    if found.blank:
        lines.append(f"{found.blank} values that did not occur in the reference data are blank.")
    if found.beyond:
        lines.append(
            f"{found.beyond} numbers or dates that are shown lie outside the range of the reference"
            " data, in which they were judged."
        )
    return lines


def _not_promised(card: ReleaseCard) -> list[str]:
    measured = "the attacks" if card.leakage is None else "the estimate and the attacks"
    names = [_quoted(feature.name) for feature in card.features if feature.hidden == 0]
    lines = []
    if card.policy != "fixed":
        lines.append(f"Any worst case: what the release tells is known from {measured} only.")
    elif names:
        how = "as it is, or coarser" if card.merged else "as it is"
        beyond = "" if against_everybody(card) is None else ", beyond the bound from counts"
        lines.append(
            f"Anything about what is released {how}{beyond} ({len(names)} features):"
            f" {_some(names)}."
        )
    if card.unjudged.released:
        names = list(map(_quoted, card.unjudged.released))
        lines.append(f"Anything about columns that nobody judged ({len(names)}): {_some(names)}.")
    speak = f"{measured[0].upper()}{measured[1:]} speak for the data they were computed on"
    return [*lines, _ONE_ROW, f"{speak}; a better attacker may exist."]


def _attacks(card: ReleaseCard) -> list[str]:
    """The attacks, who learnt from how many rows, and which attackers of an audit were not among
    them.
    """
    lines = _attack_table(card.attacks)
    learnt = card.parameters.get("attackers learnt from")
    if learnt is not None:
        tested = card.parameters.get("attackers tested on")
        lines += [
            "",
            f"Each attacker learnt from {learnt:,} rows and was tested on up to {tested:,} others.",
        ]
    missing = [_quoted(name) for name in card.parameters.get("attackers not met") or ()]
    if missing:
        lines += ["", f"Not met: {', '.join(missing)}. An audit may run these attackers as well."]
    return lines


def _attack_table(attacks: Sequence[Attack]) -> list[str]:
    head = [
        "| attacker | learnt from | attacks | accuracy | AUC | information, nats |",
        "|---|---|---|---|---|---|",
    ]
    order = sorted(
        attacks, key=lambda a: (a.trained_on != "release", -a.information.value)
    )  # the retrained first
    cells = [
        (
            _quoted(a.attacker),
            a.trained_on,
            a.target,
            _percents(a.accuracy),
            _interval(a.auc),
            _learnt(a),
        )
        for a in order
    ]
    return head + [f"| {' | '.join(row)} |" for row in cells]


def _learnt(attack: Attack) -> str:
    return "0, by definition" if attack.trained_on == "nothing" else _interval(attack.information)


def _decisions(card: ReleaseCard) -> list[str]:
    """What reviewers decided; from the one on that the card was edited after, they are about
    another card.
    """
    edited = card.edited_since
    lines = []
    for one in card.decisions:
        lines.append(f"- {_quoted(str(one))}.")
        if one is edited:
            lines.append("- The card was edited after this decision, which was about another one.")
    return lines


def _footer(card: ReleaseCard) -> str:
    software = ", ".join(
        f"{_quoted(name)} {_quoted(version)}" for name, version in card.versions.items()
    )
    digest = f" SHA-256 of the released data: {card.data_sha256}." if card.data_sha256 else ""
    plan = f" Digest of its plan: {card.plan_sha256}." if card.plan_sha256 else ""
    seal = f" Digest of this card: {card.digest}." if card.sealed else " This card has no digest."
    return f"Written {card.created} with {software}.{digest}{plan}{seal}"


def _interval(estimate: Estimate) -> str:
    return in_ascii(interval(estimate))


def _percents(share: Estimate) -> str:
    return in_ascii(percents(share))


def _percent(share: float) -> str:
    return in_ascii(percent(share))


def _shown(value: Any) -> str:
    return f"({_some([str(entry) for entry in value])})" if isinstance(value, tuple) else str(value)


def _some(names: Sequence[str]) -> str:
    rest = len(names) - _NAMED
    return (", ".join(names[:_NAMED]) or "none") + (f" and {rest} more" if rest > 0 else "")


def _quoted(text: str) -> str:
    """Text of others, such as a column's name, made harmless to the page."""
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", visible(text).strip())
