"""`lowtide demo`: the whole job on a real survey."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lowtide import verbs
from lowtide.cli.arguments import DemoArguments
from lowtide.cli.audit import print_audit
from lowtide.cli.console import check_outputs, emit_json, note, out, say, show_progress
from lowtide.cli.plan import print_plan
from lowtide.errors import LowtideError
from lowtide.report.console import print_tables
from lowtide.table_files.writing import Writer

# The 1996 American National Election Study: who would vote for Clinton (0) or Dole (1).
_NAMES = {"TVnews": "tv_news", "selfLR": "own_place", "ClinLR": "clinton_place", "DoleLR": "dole_place", "PID": "party"}
_LEFT_OUT = ("logpopul",)  # a copy of another column
_STEPS = 400


def run(said: DemoArguments, _: dict[str, Any]) -> None:
    """Scan, plan, release and audit the survey; ends with the path of the report."""
    folder, progress = said.out, show_progress(said.quiet)
    check_outputs({}, {"--json": said.json}, folders={"--out": folder})
    folder.mkdir(parents=True, exist_ok=True)
    survey, plan, shared = folder / "survey.csv", folder / "plan.json", folder / "shared.csv"
    table = load_survey()
    with Writer(survey, table.schema) as writer:
        writer.write(table)
    out.rule("scan")
    found = verbs.scan(survey, "vote", steps=_STEPS, seed=said.seed, progress=progress)
    print_tables(found.tables())
    out.rule("plan")
    made = verbs.plan(
        survey, "vote", budget=said.budget, utility="income", steps=_STEPS, seed=said.seed, progress=progress
    )
    print_plan(made)
    made.save(plan)
    note(f"keep plan.json inside: {made.view.private}")
    out.rule("release")
    done = verbs.release(survey, made, shared, progress=progress)
    say(f"{done.card.rows} rows, {done.card.changed:.0%} of the values hidden")
    out.rule("audit")
    audited = verbs.audit(shared, survey, "vote", utility="income", plan=made, seed=said.seed, progress=progress)
    print_audit(audited)
    written = audited.write_report(folder / "report.html", figures=folder / "figures", scan=found)
    emit_json(
        said.json,
        lambda: {
            "scan": found.to_json(),
            "plan": made.to_json(),
            "card": done.to_json(),
            "audit": audited.to_json(),
        },
    )
    out.rule("files")
    for path in (survey, plan, *done.written.values(), *written):
        say(str(path))
    say(f"report: {(folder / 'report.html').resolve()}", bold=True)


def load_survey() -> pa.Table:
    """The survey that ships with statsmodels."""
    try:
        from statsmodels.datasets import anes96  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise LowtideError("the demo needs statsmodels, which is not there: pip install lowtide[demo]") from error
    frame = anes96.load_pandas().data.drop(columns=list(_LEFT_OUT)).rename(columns=_NAMES)
    whole = [name for name in frame.columns if (frame[name] == frame[name].round()).all()]
    return pa.Table.from_pandas(frame.astype(dict.fromkeys(whole, "int64")), preserve_index=False)
