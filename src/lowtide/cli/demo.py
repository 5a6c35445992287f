"""`lowtide demo`: the whole job on a real survey."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from lowtide import modalities
from lowtide.cli.audit import audit_file, print_audit
from lowtide.cli.common import Json, Quiet, Seed, note, out, read_given, reported, show_progress
from lowtide.cli.outputs import check_outputs
from lowtide.cli.plan import make_plan, plan_json, print_plan
from lowtide.cli.release import release_file, write_card
from lowtide.cli.scan import scan_given
from lowtide.density.tide import TIDE
from lowtide.disclose.obfuscator import Obfuscator
from lowtide.errors import LowtideError
from lowtide.report.console import print_tables, write_json
from lowtide.report.html import write_report
from lowtide.report.sections import make_report
from lowtide.table_files.writing import Writer

# The 1996 American National Election Study: who would vote for Clinton (0) or Dole (1).
_NAMES = {"TVnews": "tv_news", "selfLR": "own_place", "ClinLR": "clinton_place", "DoleLR": "dole_place", "PID": "party"}
_LEFT_OUT = ("logpopul",)  # a copy of another column
_STEPS = 400


@reported
def run(
    folder: Annotated[Path, typer.Option("--out", help="where to write", metavar="DIR")] = Path("out/demo"),
    budget: Annotated[str, typer.Option("--budget", help="what the release may tell")] = "0.02",
    json: Json = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """The whole job on a real survey: scan, plan, release, audit, report. Needs the extra `demo`.

    The 1996 American National Election Study (944 people, public domain): the secret is the vote, and the release
    should still tell incomes.

    Example: lowtide demo --out out/demo
    """
    check_outputs({}, {"--json": json}, folders={"--out": folder})
    folder.mkdir(parents=True, exist_ok=True)
    survey, shared = folder / "survey.csv", folder / "shared.csv"
    table = load_survey()
    with Writer(survey, table.schema) as writer:
        writer.write(table)
    given = read_given(survey, "vote", None, "utf-8")
    out.rule("scan")
    found = scan_given(given, seed, _STEPS, quiet)
    print_tables(found.tables())
    out.rule("plan")
    tide = TIDE(max_steps=_STEPS, random_state=seed, progress=False)
    hider = Obfuscator(tide, budget=budget, progress=show_progress(quiet), random_state=seed)
    made = make_plan(given, hider, keep=(), utility="income")
    print_plan(made)
    made.save(folder / "plan.json")
    note("keep plan.json inside: it holds ranges and categories of your data")
    out.rule("release")
    card = release_file(survey, made, shared)
    cards = write_card(card, shared)
    out.print(f"{card.rows} rows, {card.changed:.0%} of the values hidden")
    out.rule("audit")
    audited = audit_file(
        shared,
        given,
        card,
        utility="income",
        gate=None,
        epsilon=0.1,
        types=None,
        encoding="utf-8",
        seed=seed,
        progress=show_progress(quiet),
    )
    print_audit(audited)
    kind, title = modalities.get("tables"), f"{shared.name}: what it still tells about {given.secret}"
    plan = kind.outline(made.hider)
    page = make_report(title, given.secret, kind, scan=found, plan=plan, audit=audited, card=card)
    written = write_report(page, folder / "report.html", figures=folder / "figures")
    if json is not None:
        parts = {"scan": found.to_json(), "plan": plan_json(made), "card": card.to_json()}
        write_json(json, {**parts, "audit": audited.to_json()})
    out.rule("files")
    for path in (survey, folder / "plan.json", shared, *cards, *written):
        out.print(str(path), soft_wrap=True)
    out.print(f"report: {(folder / 'report.html').resolve()}", style="bold", soft_wrap=True)


def load_survey() -> pa.Table:
    """The survey that ships with statsmodels."""
    try:
        from statsmodels.datasets import anes96  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise LowtideError("the demo needs statsmodels, which is not there: pip install lowtide[demo]") from error
    frame = anes96.load_pandas().data.drop(columns=list(_LEFT_OUT)).rename(columns=_NAMES)
    whole = [name for name in frame.columns if (frame[name] == frame[name].round()).all()]
    return pa.Table.from_pandas(frame.astype(dict.fromkeys(whole, "int64")), preserve_index=False)
