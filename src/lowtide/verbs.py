"""The verbs: scan, plan, release, audit and warn, for every kind of data, on a path or on an
object.

The command line calls these functions and adds nothing but printing. A verb opens, computes and,
where it is given a place, writes. What differs between kinds of data is asked of their `Modality`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from lowtide import modalities
from lowtide.auditing.matched import AuditTask
from lowtide.auditing.policy_file import PolicyFile, audit_rules, check_plan
from lowtide.auditing.report import AuditReport
from lowtide.auditing.several import (
    audit_each,
    judged_each,
    plan_budgets,
    planned_budget,
    read_gates,
    with_costs,
)
from lowtide.auditing.surface import examine_data, examine_order
from lowtide.auditing.utility import AttackOptions
from lowtide.auditing.verdict import Gate, Unseen
from lowtide.disclose.budget import Budget
from lowtide.disclose.card import ReleaseCard
from lowtide.disclose.certificate import PolicyName
from lowtide.disclose.noise import open_key
from lowtide.disclose.obfuscator import Obfuscator
from lowtide.disclose.plan_file import Plan, Release, card_paths, find_card
from lowtide.disclose.releasing import (
    Tally,
    check_apart,
    noise_of,
    release_object,
    released_order,
    write_release,
)
from lowtide.disclose.review import NOBODY_ASKED
from lowtide.disclose.standing import Unjudged, judged_by_nobody
from lowtide.engines.mapping import spread_over
from lowtide.engines.releasing import Scale, release_in_parts
from lowtide.errors import LowtideError, LowtideTypeError, note
from lowtide.estimate.tide import TIDE
from lowtide.files import Staging
from lowtide.formatting import sampled_words
from lowtide.options import read_options
from lowtide.places import is_place, place_of, private_copies
from lowtide.protocols import Dataset, Locks, Matched, Modality
from lowtide.report.results import ResultReport, reported_audit, reported_plan
from lowtide.table_files.formats import find_column, in_memory
from lowtide.table_files.verifying import why_refused
from lowtide.training import check_device, computing_on
from lowtide.warning import warn

__all__ = ["audit", "kind_of", "outputs_of", "plan", "release", "scan", "verify", "warn"]
_COMMON = (
    "kept",
    "past",
    "epsilon",
    "delta",
    "lam",
    "certify",
    "strict",
)  # options of a plan of any kind


@private_copies()
def scan(
    data: Any,
    secret: Any,
    *,
    kind: str | None = None,
    steps: int | None = None,
    device: str = "cpu",
    seed: int = 0,
    workers: int = 1,
    progress: bool | None = None,
    **options: Any,
) -> Any:
    """What leaks: how much the data tells about the secret, and which features tell it.

    Args:
        data: a path or URL (table files, a folder of images or texts), a data frame, an array,
            images or texts. A table may also be a lazy frame of polars, a dict of columns, a list
            of dicts, or an object with `__arrow_c_stream__`, such as a relation of DuckDB.
        secret: the name of its column, or its values, one per sample; of a table also the names of
            several columns, which are scanned together, as their product, and each by itself
            (`each` of the result).
        kind: the kind of data, where it is not obvious: `tables`, `images`, `texts`.
        steps: training steps of the networks; by default enough for a few thousand samples.
        device: where networks are trained: `cpu`, `cuda`, `mps`, or `auto` for the first of cuda,
            mps and cpu that is there.
        seed: of every random draw.
        workers: how many processes ask the density and attack; the result does not depend on it.
            One fits the density.
        progress: whether to draw progress bars; by default only on a terminal.
        **options: `engine` and `address` as for `release`; and of the kind, such as `patch=4` or
            `text="tweet"`; see `TableOptions`, `ImageOptions`, `TextOptions`.

    Returns:
        A `TableScan`, `ImageScan` or `TextScan`: it prints, shows itself in a notebook, has
        `to_json()`, and `density`, which can be saved.
    """
    check_device(device)
    spread = spread_over(workers, options.pop("engine", "local"), options.pop("address", None))
    modality, said = _kind(data := _given(data), "scan", kind, options)
    opened = modality.open(data, secret, said, progress=progress)
    estimator = TIDE(
        modality.features(said),
        max_steps=steps,
        device=device,
        random_state=seed,
        progress=progress,
    )
    with computing_on(device), spread:
        found, *each = (
            replace(modality.scan(one, estimator, said), surface=examine_data(modality, one, seed))
            for one in (opened, *opened.each)
        )
    found = replace(found, each=tuple(each)) if each else found
    title = f"{opened.name}: what it tells about {opened.secret}"
    single = getattr(said, "samples", 0)
    return replace(
        found, writer=ResultReport(modality, title, opened, found, single=single, seed=seed)
    )


@private_copies()
def plan(
    data: Any,
    secret: Any = None,
    *,
    budget: Budget | float | str | Mapping[str, Any] | Sequence[str] | None = None,
    keep: Sequence[str] = (),
    hide: Sequence[str] = (),
    utility: str | None = None,
    policy: PolicyName | None = None,
    mechanism: str | None = None,
    seed: int = 0,
    progress: bool | None = None,
    **options: Any,
) -> Plan:
    """What to hide or redraw for a budget, at little damage; and the whole trade-off curve.

    Args:
        data: as for `scan`.
        secret: as for `scan`. Of several, their product is hidden, and the card says what is told
            about each.
        budget: how much the release may tell: nats, `"0.03bits"`, or `"65%"`, the share an attacker
            may guess right; by default that of the kind. Of several secrets one for all, or
            `{"sex": 0.02, "race": 0.05}`.
        keep: features to release as they are: columns; patch numbers or boxes `"x,y,w,h"`; terms,
            or columns of texts.
        hide: features to hide.
        utility: a column that the release should still predict.
        policy: `fixed` (the same for everybody), `redraw` (values or regions are kept or drawn
            anew), or `sequential` (sample by sample); by default that of the kind.
        mechanism: what hiding does; by default the first of the kind's: `redact`, or `drop` for
            texts.
        seed: of every random draw but the noise of a release.
        progress: whether to draw progress bars; by default only on a terminal.
        **options: `kept` (a share to keep, in place of a budget), `past` (`raw` for `sequential` by
            the raw values), `epsilon`, `delta`, `lam`, `certify` (keep the budget against every
            attacker, so surely), `strict` (refuse anything but a kept budget), `policy_file`
            (secret and budget by default; what exceeds it is refused), `steps`, `device`, `kind` as
            for `scan`; and the kind's own.
    """
    common = {name: options.pop(name) for name in _COMMON if name in options}
    rules = options.pop("policy_file", None)
    steps = options.pop("steps", None)
    device = _device(options)
    secret, budgets = plan_budgets(rules, secret, budget, common.get("kept"))
    for_all = planned_budget(budgets, secret)
    modality, said = _kind(data := _given(data), "plan", options.pop("kind", None), options)
    opened = modality.open(data, secret, said, progress=progress)
    if for_all is not None:
        Budget.read(for_all).compare(opened.secret, opened.labels)
    locks = modality.locks(opened, said, _listed("keep", keep), _listed("hide", hide))
    asked = {
        **common,
        **options,
        "budget": for_all,
        "mechanism": mechanism,
        "hide": hide,
        "secret": secret,
    }
    hider = Obfuscator(
        TIDE(
            modality.features(said),
            max_steps=steps,
            device=device,
            random_state=seed,
            progress=False,
        ),
        policy or modality.policy_for(asked, opened),
        mechanism,
        budget=for_all,
        keep=tuple(locks.keep),
        hide=tuple(locks.hide),
        settings=_settings(modality, said),
        progress=progress,
        random_state=seed,
        **common,
    )
    _check_kept(locks, strict=hider.strict, certify=hider.certify)
    useful = None if utility is None else modality.utility(opened, utility)
    hider.fit(opened.samples, opened.labels, groups=opened.groups, utility=useful)
    card = _plan_card(hider.card_, opened, modality, locks.columns, seed)
    card = replace(card, secrets=judged_each(opened, hider.check_, budgets))
    layout = modality.layout(opened, said, locks, utility)
    hidden = replace(hider.hider_, card=check_plan(rules, card))
    return reported_plan(Plan(modality.name, opened.secret, layout, hidden), opened)


@private_copies()
def release(
    data: Any,
    plan: Plan | str | Path,
    out: str | Path | None = None,
    *,
    ids: Any = None,
    secret: Any = None,
    key_file: str | Path | None = None,
    fresh_noise: bool = False,
    signed_by: str | Path | None = None,
    workers: int = 1,
    shards: int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Release:
    """Write the hidden data and its card. The secret is left out, always.

    Args:
        data: a file, a folder or a pattern of files, by path or URL, as the plan was made for; or
            an object likewise. A lazy frame is released as a data frame; a dict, a list of dicts
            and an Arrow stream as an Arrow table.
        plan: a plan, or where one was saved.
        out: the path to write to, which every machine at work must see; needed for a file or a
            folder.
        ids: one value per sample that stays with it, which draws and noise are keyed by; of a table
            file the name of a column. By default a sample is recognised by its content, and copies
            of it are counted.
        secret: of images in memory under a plan with `redraw`, the values of the secret, one per
            image; they stay here.
        key_file: where the key of the noise is kept, made when it does not exist; never share it.
            By default `noise.key` beside the saved plan; of a plan that is an object, the key lives
            as long as the object.
        signed_by: the file of the key that a saved plan must be signed with; it signs the card,
            too.
        fresh_noise: draw noise that nobody can draw again: several such releases of the same data
            average it away.
        workers: how many processes work on it; the result does not depend on it.
        shards: how many samples a file of the release has; `out` is then a folder, with a manifest.
        progress: whether to draw a progress bar; by default only on a terminal.
        **options: `engine` (`local`; or `ray`, with an `address`); and of the kind, such as
            `shuffle=True`.
    """
    scale = Scale(workers, shards, options.pop("engine", "local"), options.pop("address", None))
    made = plan if isinstance(plan, Plan) else Plan.load(plan, signed_by=signed_by)
    if signed_by is not None and made.key is None:  # a plan in memory has no signature to check
        made = replace(made, key=open_key(signed_by, make=False))
    is_file = is_place(data := _given(data))
    if is_file and ids is not None and isinstance(ids, str):
        options = {**options, "ids": ids}
        ids = None
    said = _options(made.modality, "release", options)
    if not is_file:
        return release_object(
            data, made, ids, noise_of(made, plan, key_file, fresh=fresh_noise), said, secret
        )
    if secret is not None:
        raise LowtideError(
            "a file or folder that is released holds its secret as a label, if at all; leave"
            " secret out"
        )
    if out is None:
        raise LowtideError("a file or folder is released into another one; say where with out=")
    extra = {} if shards is not None else made.modality.beside(Path(out), said)
    check_apart(
        [data, plan, key_file], [Path(out), *card_paths(Path(out)).values(), *extra.values()]
    )
    if scale.parted:
        how: dict[str, Any] = {
            "ids": ids,
            "key": (made, plan, key_file),
            "fresh": fresh_noise,
            "progress": progress,
        }
        return release_in_parts(data, made, said, Path(out), scale, **how)
    job = made.modality.release_job(data, made, said, ids=ids, progress=progress)
    with Staging(out) as staging:
        noise = noise_of(made, plan, key_file, fresh=fresh_noise)
        shuffled = getattr(said, "shuffle", None)
        if shuffled:
            job.shuffle(noise)
        tally = Tally.of(made, released_order(made, shuffled))
        card, cards = write_release(job, tally, Path(out), staging, noise=noise, progress=progress)
        staging.commit()
    kept = {name: path for name, path in extra.items() if path.exists()}
    return Release(Path(out), card, made.modality.nouns, {"released": Path(out), **cards, **kept})


@private_copies()
def audit(
    release: Any,
    reference: Any = None,
    secret: Any = None,
    *,
    utility: Any = None,
    plan: Plan | str | Path | None = None,
    card: ReleaseCard | str | Path | None = None,
    fail_above: Gate | float | str | Mapping[str, Any] | Sequence[str] | None = None,
    attackers: Sequence[Any] | None = None,
    epsilon: float | None = 0.1,
    seed: int = 0,
    workers: int = 1,
    progress: bool | None = None,
    **options: Any,
) -> AuditReport:
    """Attack a release with freshly retrained attackers, and say plainly what is left.

    Args:
        release: the released file, folder or object; a path or URL, as `reference`.
        reference: what it was made from, the same samples (tables and texts: in the same order); of
            tables also in another order (`id="person"`), or rows of other people (`rows="other"`,
            `synthetic=True`).
        secret: the name of a column of the reference, or its values, one per sample. Several
            columns of a table are audited together, as their product, and each by itself (`each` of
            the result).
        utility: a column that the release should still predict, or its values.
        plan: the plan of the release, which the report then shows.
        card: the card of the release; by default the one beside the file, if there is one; not
            looked for at a URL.
        fail_above: the limit to keep: nats, `"0.03bits"`, or `"55%"`; of several secrets for all,
            or by name.
        attackers: who attacks: names, or scikit-learn classifiers; by default all of the kind.
        epsilon: ε of the divergence that attacks prove; `None` for none.
        seed: the same seed gives the same report.
        workers: how many processes train attackers; the result does not depend on it.
        progress: whether to draw a progress bar; by default only on a terminal.
        **options: `accept` (columns nobody judges), `policy_file`, `costs`, `device`, `engine` and
            `address` as for `release`, `kind`, the kind's own.
    """
    secret, rules = audit_rules(options, secret)
    release = _given(release)
    reference = _given(reference)
    gates = read_gates(fail_above, secret)
    known = find_card(release, card)
    device = _device(options)
    accepted = tuple(_listed("accept", options.pop("accept", ())))
    costs = options.pop("costs", None)
    spread = spread_over(workers, options.pop("engine", "local"), options.pop("address", None))
    modality, said = _kind(release, "audit", options.pop("kind", None), options)
    made = _plan_for(plan, modality)
    _refuse_other_claims(known, made)
    _refuse_unordered(known, said)
    matched = with_costs(
        modality.match(release, reference, secret, said, utility=utility, progress=progress), costs
    )
    _check_accepted(accepted, matched)
    data = matched.data
    unseen = Unseen(_unseen(matched, attackers), accepted)
    with computing_on(device), spread:
        how: AttackOptions = {"attackers": attackers, "seed": seed, "progress": progress}
        found = audit_each(
            matched, AuditTask(modality, known, epsilon, unseen, how), gates=gates, rules=rules
        )
    return reported_audit(found, modality, release, data, plan=made, card=known)


def _plan_card(
    card: ReleaseCard, data: Dataset, modality: Modality, released: tuple[str, ...], seed: int
) -> ReleaseCard:
    """The card of a plan with the secret's name, what nobody judged, the order of the samples, and
    if they are all.

    Args:
        card: as the planner wrote it.
        data: what the plan was made from.
        modality: its kind.
        released: columns that nobody judged and that are released as they are.
        seed: of the attack on the order.
    """
    if data.rows is not None:
        planned = sampled_words(len(data.labels), data.rows, modality.nouns.rows)
        card = replace(card, parameters={**card.parameters, "planned on": planned})
    unjudged = Unjudged.of(data.unjudged, released)
    order = examine_order(modality, data, seed)
    return replace(card, secret=data.secret, unjudged=unjudged, order=order)


def _device(options: dict[str, Any]) -> str:
    """Take the device out of the options; one that is not there is refused before the long work."""
    device: str = options.pop("device", "cpu")
    check_device(device)
    return device


def _refuse_other_claims(card: ReleaseCard | None, plan: Plan | None) -> None:
    """Refuse a card that names this plan and differs from its card."""
    if card is None or plan is None or card.plan_sha256 != plan.digest:
        return
    different = card.differences(plan.card)
    if different:
        raise LowtideError(
            f"the card differs from its plan in: {', '.join(different)}; it was edited after the"
            " release: take the card that was written with the release, or release again"
        )


def _refuse_unordered(card: ReleaseCard | None, options: Any) -> None:
    """Refuse a shuffled release whose order nobody gave."""
    shuffled = card is not None and card.order is not None and card.order.shuffled
    needless = any(getattr(options, name, None) for name in ("id", "rows", "synthetic"))
    if shuffled and getattr(options, "order", None) is None and not needless:
        raise LowtideError(
            "the release is in random order, as its card says, and does not say which sample is"
            " which: give the order that was written beside it (--order FILE), or that of the"
            " Release"
        )


def verify(
    card: ReleaseCard | str | Path,
    data: str | Path,
    plan: Plan | str | Path | None = None,
    *,
    signed_by: str | Path | None = None,
    policy_file: str | Path | None = None,
) -> bool:
    """Whether a released file or folder is the very one that a card was written for, and is what
    the card says.

    Without `plan` or `signed_by`, the card is only checked against its own digest: that shows
    accidental edits, and not those of somebody who computes the digest anew.

    Args:
        card: of the release. One that was edited, or whose approval expired, is refused.
        data: the released file or folder.
        plan: the plan that should have made it, and whose claims the card must repeat.
        signed_by: the file of the key that the card, and a plan that is given as a file, must be
            signed with.
        policy_file: those whom it names must have approved.
    """
    found = card if isinstance(card, ReleaseCard) else ReleaseCard.load(card)
    made = plan if plan is None or isinstance(plan, Plan) else Plan.load(plan, signed_by=signed_by)
    key = None if signed_by is None else open_key(signed_by, make=False)
    asked = None if policy_file is None else PolicyFile.load(policy_file)
    approval = NOBODY_ASKED if asked is None else asked.approval
    return why_refused(found, data, plan=made, key=key, approval=approval) is None


def kind_of(source: Any, verb: str, given: Mapping[str, Any]) -> Modality:
    """The kind of data that a verb would find in a source, in the light of the options that are
    given for it.
    """
    return _kind(_given(source), verb, None, given)[0]


def _given(source: Any) -> Any:
    """What a user gives to a verb: a text is a place, and a table in memory a data frame."""
    return in_memory(place_of(source) if isinstance(source, str) else source)


def _kind(
    source: Any, verb: str, kind: str | None, given: Mapping[str, Any]
) -> tuple[Modality, Any]:
    """The kind of data a source holds, and its options."""
    if kind is not None:
        modality = modalities.get(kind)
    else:
        found = next((one for one in modalities.kinds() if one.claims_source(source, given)), None)
        if found is None:
            raise LowtideTypeError(
                f"{type(source).__name__} is not data that Lowtide reads; give a path, a data"
                " frame, an array, images or texts"
            )
        modality = found
    return modality, _options(modality, verb, given)


def _options(modality: Modality, verb: str, given: Mapping[str, Any]) -> Any:
    return read_options(modality.name, modality.options, verb, given, modalities.options())


def outputs_of(
    plan: Plan, out: Path, options: Mapping[str, Any], *, sharded: bool = False
) -> dict[str, Path]:
    """Every file that a release writes besides itself, by what it is."""
    said = _options(plan.modality, "release", options)
    cards = card_paths(out)
    return cards if sharded else {**cards, **plan.modality.beside(out, said)}


def _settings(modality: Modality, options: Any) -> Any:
    """The settings of an Obfuscator that a user's options name."""
    named = {one.name: getattr(options, one.name, None) for one in fields(modality.settings)}
    return modality.settings(**{name: value for name, value in named.items() if value is not None})


def _plan_for(plan: Plan | str | Path | None, modality: Modality) -> Plan | None:
    """The plan of a release that is audited; refuses that of another kind."""
    made = plan if plan is None or isinstance(plan, Plan) else Plan.load(plan)
    if made is not None and made.kind != modality.name:
        raise LowtideError(
            f"the plan is for {made.kind}, and the release holds {modality.name}; name its own plan"
        )
    return made


def _unseen(matched: Matched, attackers: Sequence[Any] | None) -> tuple[str, ...]:
    """Columns that the release shows and none of these attackers looks at."""
    looks = attackers is None or "surface" in [one for one in attackers if isinstance(one, str)]
    return matched.unjudged if looks else (*matched.unjudged, *matched.by_surface)


def _check_accepted(accepted: Sequence[str], matched: Matched) -> None:
    """Refuse names to accept that neither the release nor its reference has."""
    shown = (matched.release, matched.whole, matched.clean)
    known = [name for part in shown for name in getattr(part, "column_names", ())]
    known += [*matched.data.unjudged, *matched.unjudged, *matched.by_surface]
    for name in accepted:
        find_column(name, dict.fromkeys(known))


def _check_kept(locks: Locks, *, strict: bool, certify: float | None) -> None:
    """Say which columns are released on the user's word; `strict` refuses them, and no bound counts
    them.
    """
    named = ", ".join(locks.columns)
    if locks.columns and strict:
        raise LowtideError(f"strict refuses what nobody judged: {named}; leave out keep or strict")
    if locks.columns and certify is not None:
        raise LowtideError(
            f"certify cannot bound what columns tell that nobody judged: {named}; do not keep these"
        )
    if locks.columns:
        note(judged_by_nobody(locks.columns))


def _listed(name: str, values: Sequence[str]) -> Sequence[str]:
    if isinstance(values, str):
        raise LowtideError(
            f"{name} must be a list of features, got a single text; put it into a list"
        )
    return values if isinstance(values, np.ndarray) else tuple(values)
