"""`lowtide plan`: what to hide for a budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lowtide import verbs
from lowtide.cli.arguments import PlanArguments
from lowtide.cli.console import check_outputs, emit_json, naming, note, say, show_progress, write_report
from lowtide.disclose.budget import Budget
from lowtide.disclose.plan_file import Plan, check_plan_place
from lowtide.errors import LowtideError
from lowtide.report.console import print_tables

_SHARED = ("kept", "epsilon", "delta", "lam", "steps")


def run(said: PlanArguments, given: dict[str, Any]) -> None:
    """Plan, print, and write what was asked for."""
    modality = verbs.kind_of(said.data, "plan", given)
    weights = modality.plan_weights(said.policy)
    output = said.out or Path("plan.json" if weights is None else "plan.lowtide")
    files, folders = {"--json": said.json, "--report": said.report}, {"--figures": said.figures}
    (files if output.suffix == ".json" else folders)["--out"] = output
    check_outputs({"data": said.data}, files, folders=folders)
    with naming("--out"):
        check_plan_place(output, weights=weights)
    shared = {name: getattr(said, name) for name in _SHARED if getattr(said, name) is not None}
    made = verbs.plan(
        said.data,
        said.secret,
        budget=_budget(said),
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
    made.save(output)
    say(f"plan: {output}")
    note(f"{output} is not for publication; keep it inside: {made.view.private}")
    emit_json(said.json, made.to_json)
    write_report(made, said.report, said.figures)


def print_plan(made: Plan) -> None:
    """The plan as tables and lines, and its three numbers."""
    view = made.view
    print_tables(view.tables)
    for line in (*view.lines, made.text()):
        say(line)


def _budget(said: PlanArguments) -> Budget | None:
    if said.budget is not None and said.attacker_accuracy is not None:
        raise LowtideError("give --budget or --attacker-accuracy, not both")
    if said.attacker_accuracy is not None:
        return Budget.accuracy(said.attacker_accuracy)
    return None if said.budget is None else Budget.read(said.budget)
