"""`lowtide audit`: attack a release."""

from __future__ import annotations

from typing import Any

import typer

from lowtide import verbs
from lowtide.auditing.report import HEADER, AuditReport
from lowtide.cli.arguments import AuditArguments
from lowtide.cli.console import (
    GATE_FAILED,
    check_outputs,
    emit_json,
    say,
    show_progress,
    write_report,
)
from lowtide.interface import TextTable
from lowtide.report.console import print_tables


def run(said: AuditArguments, given: dict[str, Any]) -> None:
    """Audit, print, write what was asked for, and exit with 1 when the gate is not passed."""
    reads = {"release": said.release, "reference": said.reference, "plan": said.plan, "card": said.card}
    check_outputs(reads, {"--json": said.json, "--report": said.report}, folders={"--figures": said.figures})
    found = verbs.audit(
        said.release,
        said.reference,
        said.secret,
        utility=said.utility,
        plan=said.plan,
        card=said.card,
        fail_above=said.fail_above,
        attackers=tuple(said.attacker) if said.attacker else None,
        epsilon=said.epsilon,
        seed=said.seed,
        progress=show_progress(said.quiet),
        **given,
    )
    print_audit(found)
    emit_json(said.json, found.to_json)
    write_report(found, said.report, said.figures)
    if said.fail_above is not None and found.verdict.passed is not True:
        raise typer.Exit(GATE_FAILED)


def print_audit(found: AuditReport) -> None:
    """The attacks as a table, the verdict in words."""
    print_tables([TextTable("Attacks on rows no attacker was trained on", HEADER, tuple(found.table()))])
    say(found.text().split("\n\n")[-1].strip())
    say("")
    say(str(found.verdict), bold=True)
