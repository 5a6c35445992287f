"""The command `demo`: the verbs on a survey, on drawn faces or on generated posts, ending with a
report.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lowtide import verbs
from lowtide.auditing.report import AuditReport
from lowtide.cli import arguments
from lowtide.cli.console import check_outputs, emit_json, note, out, say, say_page, show_progress
from lowtide.demo_data import DEMOS, make_demo
from lowtide.disclose.plan_file import Plan, Release
from lowtide.errors import LowtideError
from lowtide.estimate.density import Density
from lowtide.formatting import percent
from lowtide.report.console import print_table, print_tables
from lowtide.warning import warn

_REDACTED = 0.06  # nats that a release with hidden columns may tell: what 944 rows can show
_POST = "Long day, then mussels by the harbour"  # what the demo of texts warns of


@dataclass(frozen=True)
class _DemoRun:
    """What a demo asks of the verbs.

    Attributes:
        data: its name in `DEMOS`.
        secret: the column to protect.
        shared: what the release is called.
        every: options of scan, plan and audit.
        more: further options, by verb.
    """

    data: str
    secret: str
    shared: str
    every: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def options(self, verb: str) -> dict[str, Any]:
        """The options of a verb."""
        return {**(self.every if verb != "release" else {}), **self.more.get(verb, {})}


_WALKS = {
    "table": _DemoRun(
        "election",
        "vote",
        "shared.csv",
        more={
            "scan": {"steps": 400},
            "plan": {"steps": 400, "utility": "income"},
            "release": {"ids": "person"},
            "audit": {"utility": "income"},
        },
    ),
    "faces": _DemoRun(
        "faces",
        "smile",
        "shared",
        more={
            "scan": {"patch": 8, "steps": 150},
            "plan": {"patch": 8, "kept": 0.75, "fill": "inpaint", "steps": 150},
            "release": {"png": True},
            "audit": {"attackers": ["edges", "oriented gradients", "local patterns"]},
        },
    ),
    "texts": _DemoRun(
        "posts",
        "home",
        "shared.csv",
        every={"text": "post", "group": "author"},
        more={"scan": {"steps": 200}, "plan": {"kept": 0.78, "steps": 200}},
    ),
}


def demo(said: arguments.DemoArguments, _: dict[str, Any]) -> None:
    """Scan, plan, release and audit the data of a demo; ends with the path of the report."""
    walk = _WALKS[said.kind]
    folder = said.out or Path("out/demo" if said.kind == "table" else f"out/demo-{said.kind}")
    check_outputs({}, {"--json": said.json}, folders={"--out": folder})
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / DEMOS[walk.data].file
    place = folder / "plan.lowtide"
    shared = folder / walk.shared
    if shared.is_dir():
        raise LowtideError(
            f"{shared} holds the release of an earlier run; remove it, or choose another --out"
        )
    if not data.is_dir():
        make_demo(walk.data, folder)
    run: dict[str, Any] = {"seed": said.seed, "progress": show_progress(said.quiet)}
    out.rule("scan")
    found = verbs.scan(data, walk.secret, **run, **walk.options("scan"))
    print_tables(found.tables())
    results: dict[str, Any] = {"scan": found}
    if said.kind == "texts":
        results |= _before_posting(found.density, folder / f"{walk.secret}.lowtide")
    out.rule("plan")
    made = verbs.plan(data, walk.secret, **run, **_budgeted(said, walk))
    print_tables(made.view.tables)
    for line in made.view.lines:
        say(line)
    made.save(place)
    note(f"do not publish {place.name}: {made.view.private}")
    out.rule("release")
    done = verbs.release(data, place, shared, progress=run["progress"], **walk.options("release"))
    say(str(done))
    out.rule("audit")
    audited = verbs.audit(shared, data, walk.secret, plan=made, **run, **walk.options("audit"))
    print_tables([audited.attack_table("Attacks on rows no attacker was trained on")])
    say(str(audited.verdict), bold=True)
    results |= {"plan": made, "card": done, "audit": audited}
    if said.kind == "table":
        results |= _beside_redaction(data, folder, walk, run, audited, done)
    written = audited.write_report(folder / "report.html", figures=folder / "figures", scan=found)
    emit_json(said.json, lambda: {name: result.to_json() for name, result in results.items()})
    out.rule("files")
    for path in (data, place, *done.written.values(), *written):
        say(str(path))
    say(
        "The card and the report hold more: intervals, who is exposed, what more data might read,"
        " the limits."
    )
    say(f"report: {(folder / 'report.html').resolve()}", bold=True)


def _budgeted(said: arguments.DemoArguments, walk: _DemoRun) -> dict[str, Any]:
    """The options of the plan: a budget that was given takes the place of the share that is
    kept.
    """
    options = walk.options("plan")
    if said.budget is not None:
        options.pop("kept", None)
        options["budget"] = said.budget
    elif said.kind == "table":
        options["budget"] = "0"
    return options


def _before_posting(density: Density, place: Path) -> dict[str, Any]:
    """Save the model of the scan, and warn of one post."""
    out.rule("warn")
    density.save(place)
    warned = warn(_POST, density)
    say_page(str(warned))
    say(f'Try another: lowtide warn --model {place} "{_POST}"')
    return {"warn": warned}


def _beside_redaction(
    data: Path,
    folder: Path,
    walk: _DemoRun,
    run: dict[str, Any],
    redrawn: AuditReport,
    release: Release,
) -> dict[str, Any]:
    """Hide columns of the same table, attack that release as well, and print both ways side by
    side.
    """
    out.rule("redraw beside redaction")
    options = {
        **walk.options("plan"),
        "policy": "fixed",
        "mechanism": "redact",
        "budget": _REDACTED,
    }
    made: Plan = verbs.plan(data, walk.secret, **run, **options)
    place = made.save(folder / "redaction.lowtide")
    done = verbs.release(data, place, folder / "redacted.csv", progress=run["progress"])
    audited = verbs.audit(
        folder / "redacted.csv", data, walk.secret, plan=made, **run, **walk.options("audit")
    )
    rows = [
        [
            way,
            percent(1 - card.changed),
            percent(report.attacks.headline.accuracy.value),
            f"{report.attacks.headline.auc.value:.3f}",
        ]
        for way, card, report in (
            ("drawn anew (redraw)", release.card, redrawn),
            (f"columns hidden (fixed, {_REDACTED} nat)", done.card, audited),
        )
    ]
    clean = redrawn.attacks.headline_clean
    if clean is not None:
        rows.insert(
            0, ["nothing", percent(1), percent(clean.accuracy.value), f"{clean.auc.value:.3f}"]
        )
    blind = percent(redrawn.attacks.guess.accuracy.value)
    print_table(
        "What was done to the values, and what a fresh attacker then reads",
        ["way", "values as they were", "attacker right", "AUC"],
        rows,
        note=f"guessing blindly is right {blind} of the time; an attack is a lower bound",
    )
    return {"redaction": made, "redaction_card": done, "redaction_audit": audited}
