"""The commands that compute: each checks what it would write, calls a verb, prints the result and
writes it.
"""

import os
from pathlib import Path
from typing import Any

from lowtide import verbs
from lowtide.auditing.gate import junit, summary
from lowtide.auditing.report import AuditReport, heading
from lowtide.auditing.several import plan_budgets, planned_budget
from lowtide.bundles import check_bundle_place
from lowtide.cli import arguments, console
from lowtide.cli.console import (
    check_outputs,
    emit_json,
    naming,
    note,
    out,
    say,
    show_progress,
    write_report,
)
from lowtide.cli.endings import GATE_FAILED
from lowtide.disclose.budget import Budget
from lowtide.disclose.noise import KEY_NAME
from lowtide.disclose.plan_file import Plan, Release, card_paths, check_plan_place
from lowtide.errors import LowtideError
from lowtide.files import write_whole
from lowtide.report.console import print_tables

_SHARED = ("kept", "past", "epsilon", "delta", "lam", "certify", "strict", "steps", "device")


def scan(said: arguments.ScanArguments, given: dict[str, Any]) -> None:
    """Scan, print, and write what was asked for."""
    files = {"--json": said.json, "--report": said.report}
    folders = {"--figures": said.figures, "--save": said.save}
    check_outputs({"data": said.data, **console.files_among(given)}, files, folders=folders)
    if said.save is not None:
        with naming("--save"):
            check_bundle_place(said.save)
    found = verbs.scan(
        said.data,
        _secret(said.secret),
        steps=said.steps,
        device=said.device,
        seed=said.seed,
        workers=said.workers,
        engine=said.engine,
        address=said.address,
        progress=show_progress(said.quiet),
        **given,
    )
    print_tables(found.tables())
    if found.private:
        note(found.private)
    if said.save is not None:
        found.density.save(said.save)
        say(f"density: {said.save}")
        note(f"do not publish {said.save}: it holds {found.holds}")
    emit_json(said.json, found.to_json, private=bool(found.private))
    write_report(found, said.report, said.figures)


def plan(said: arguments.PlanArguments, given: dict[str, Any]) -> None:
    """Plan, print, and write what was asked for."""
    modality = verbs.kind_of(said.data, "plan", given)
    shared = {name: getattr(said, name) for name in _SHARED if getattr(said, name) is not None}
    secret, budgets = plan_budgets(said.policy_file, _secret(said.secret), _budget(said), said.kept)
    asked = {
        **shared,
        **given,
        "budget": planned_budget(budgets, secret),
        "mechanism": said.mechanism,
        "hide": said.hide,
    }
    weights = modality.plan_weights(said.policy or modality.policy_for(asked, None))
    if weights is None and given.get("fill"):
        weights = "--fill"
    output = said.out or Path("plan.json" if weights is None else "plan.lowtide")
    files = {"--json": said.json, "--report": said.report}
    folders = {"--figures": said.figures}
    (files if output.suffix == ".json" else folders)["--out"] = output
    reads = {
        "data": said.data,
        "key": said.sign,
        "policy file": said.policy_file,
        **console.files_among(given),
    }
    check_outputs(reads, files, folders=folders)
    with naming("--out"):
        check_plan_place(output, weights=weights)
    made = verbs.plan(
        said.data,
        secret,
        budget=budgets or None,
        policy_file=said.policy_file,
        keep=tuple(said.keep or ()),
        hide=tuple(said.hide or ()),
        utility=said.utility,
        policy=said.policy,
        mechanism=said.mechanism,
        seed=said.seed,
        progress=show_progress(said.quiet),
        **shared,
        **given,
    )
    print_plan(made)
    made.save(output, sign=said.sign)
    say(f"plan: {output}")
    note(f"do not publish {output}: {made.view.private}")
    emit_json(said.json, made.to_json)
    write_report(made, said.report, said.figures)


def print_plan(made: Plan) -> None:
    """The plan as tables and lines, and its three numbers."""
    view = made.view
    print_tables(view.tables)
    for line in view.lines:
        say(line)
    console.say_page(made.text())


def _secret(names: list[str] | None) -> str | tuple[str, ...] | None:
    if not names:
        return None
    return names[0] if len(names) == 1 else tuple(names)


def _budget(said: arguments.PlanArguments) -> Budget | list[str] | None:
    if said.budget and said.attacker_accuracy is not None:
        raise LowtideError("give --budget or --attacker-accuracy, not both")
    if said.attacker_accuracy is not None:
        return Budget.accuracy(said.attacker_accuracy)
    return said.budget


def release(said: arguments.ReleaseArguments, given: dict[str, Any]) -> None:
    """Release, and print what was written."""
    made = Plan.load(said.plan, signed_by=said.signed_by)
    sharded = said.shards is not None
    files: dict[str, Path | None] = {
        "--json": said.json,
        **verbs.outputs_of(made, said.out, given, sharded=sharded),
    }
    folders: dict[str, Path | None] = {}
    (files if said.out.suffix and not said.out.is_dir() and not sharded else folders)["--out"] = (
        said.out
    )
    key = (
        said.key_file
        if said.key_file or said.fresh_noise
        else Path(os.path.realpath(said.plan)).parent / KEY_NAME
    )
    reads = {"data": said.data, "plan": said.plan, "key": key, "signing key": said.signed_by}
    check_outputs(reads, files, folders=folders)
    done = verbs.release(
        said.data,
        made,
        said.out,
        key_file=key,
        fresh_noise=said.fresh_noise,
        workers=said.workers,
        shards=said.shards,
        engine=said.engine,
        address=said.address,
        progress=show_progress(said.quiet),
        **given,
    )
    print_release(done)
    emit_json(said.json, done.to_json)


def print_release(done: Release) -> None:
    """What was written, and what of it must not be published."""
    for name, path in done.written.items():
        if name.startswith("card"):
            say(f"card: {path}")
        elif name != "released":
            say(f"{name}: {path}")
            note(f"do not publish {path}: it says what was hidden where, or which sample is which")
    say(f"released: {done.data} ({done})")


def audit(said: arguments.AuditArguments, given: dict[str, Any]) -> None:
    """Audit, print, write what was asked for, and exit with 1 when the gate is not passed."""
    cards = card_paths(said.release) if isinstance(said.release, Path) else {}
    beside = {f"{name} of the release": path for name, path in cards.items()}
    reads = {
        "release": said.release,
        "reference": said.reference,
        "plan": said.plan,
        "card": said.card,
    }
    check_outputs(
        {
            **reads,
            **beside,
            "policy file": said.policy_file,
            "costs": said.costs,
            **console.files_among(given),
        },
        {
            "--json": said.json,
            "--report": said.report,
            "--junit": said.junit,
            "--summary": said.summary,
        },
        folders={"--figures": said.figures},
    )
    _check_evidence(said)
    found = verbs.audit(
        said.release,
        said.reference,
        _secret(said.secret),
        utility=said.utility,
        plan=said.plan,
        card=said.card,
        fail_above=said.fail_above,
        attackers=tuple(said.attacker) if said.attacker else None,
        accept=tuple(said.accept or ()),
        policy_file=said.policy_file,
        costs=said.costs,
        device=said.device,
        epsilon=said.epsilon,
        seed=said.seed,
        workers=said.workers,
        engine=said.engine,
        address=said.address,
        progress=show_progress(said.quiet),
        **given,
    )
    print_audit(found)
    emit_json(said.json, found.to_json)
    write_report(found, said.report, said.figures)
    _write_evidence(found, said)
    if found.gate is not None and not found.gate.passed:
        raise SystemExit(GATE_FAILED)


def _check_evidence(said: arguments.AuditArguments) -> None:
    """Refuse, before the long work, evidence that could not be written."""
    if said.junit is not None and not said.fail_above and said.policy_file is None:
        raise LowtideError(
            "--junit has a test case for each limit, and there is none; give --policy-file or"
            " --fail-above"
        )
    if str(said.junit) == "-":
        raise LowtideError("--junit - is not a file; give it a name, such as limits.xml")
    if str(said.summary) == "-" and str(said.json) == "-":
        raise LowtideError(
            "--summary - and --json - would be printed into each other; give one of them a file"
        )


def _write_evidence(found: AuditReport, said: arguments.AuditArguments) -> None:
    """The limits as JUnit XML, and the audit as a page of Markdown, where asked for."""
    name = said.release.name
    if said.junit is not None and found.gate is not None:
        write_whole(said.junit, junit(found.gate, name))
        say(f"written: {said.junit}")
    if str(said.summary) == "-":
        console.say_page(summary(found, name).rstrip())
    elif said.summary is not None:
        write_whole(said.summary, summary(found, name))
        say(f"written: {said.summary}")


def print_audit(found: AuditReport) -> None:
    """The attacks as a table, the verdict in words; of several secrets first their product, then
    each by itself.
    """
    print_tables(
        [found.attack_table("Attacks on rows no attacker was trained on"), *found.further_tables()]
    )
    console.say_page("\n".join(found.lines()))
    say("")
    say(str(found.verdict), bold=True)
    for one in found.each:
        out.rule(heading(one))
        print_audit(one)
