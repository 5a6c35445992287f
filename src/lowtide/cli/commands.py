"""The commands that compute: each checks what it would write, calls a verb, prints the result and writes it."""

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import typer
from rich.text import Text

from lowtide import verbs
from lowtide.auditing.gate import junit, summary
from lowtide.auditing.policy_file import plan_rules
from lowtide.auditing.report import HEADER, AuditReport
from lowtide.bundles import check_bundle_place
from lowtide.cli import arguments, console
from lowtide.cli.console import check_outputs, emit_json, naming, note, out, say, show_progress, write_report
from lowtide.cli.endings import GATE_FAILED
from lowtide.density.artefact import Density
from lowtide.disclose.budget import Budget
from lowtide.disclose.noise import KEY_NAME
from lowtide.disclose.plan_file import Plan, Release, card_paths, check_plan_place
from lowtide.errors import LowtideError
from lowtide.files import write_whole
from lowtide.formatting import printable
from lowtide.interface import NATS_PER_BIT, TextTable
from lowtide.report.console import print_tables
from lowtide.table_files.writing import Writer
from lowtide.texts.onnx_export import export_onnx

_SHARED = ("kept", "epsilon", "delta", "lam", "certify", "strict", "steps", "device")
_STRONG, _WEAK = 0.15, 0.03  # shares of the evidence in a text, from which on a word is shown as telling
_MOST = 12  # words in the table
# The 1996 American National Election Study: who would vote for Clinton (0) or Dole (1).
_NAMES = {"TVnews": "tv_news", "selfLR": "own_place", "ClinLR": "clinton_place", "DoleLR": "dole_place", "PID": "party"}
_LEFT_OUT = ("logpopul",)  # a copy of another column
_STEPS = 400


def scan(said: arguments.ScanArguments, given: dict[str, Any]) -> None:
    """Scan, print, and write what was asked for."""
    files, folders = {"--json": said.json, "--report": said.report}, {"--figures": said.figures, "--save": said.save}
    check_outputs({"data": said.data, **console.files_among(given)}, files, folders=folders)
    if said.save is not None:
        with naming("--save"):
            check_bundle_place(said.save)
    found = verbs.scan(
        said.data,
        said.secret,
        steps=said.steps,
        device=said.device,
        seed=said.seed,
        progress=show_progress(said.quiet),
        **given,
    )
    print_tables(found.tables())
    if found.private:
        note(found.private)
    if said.save is not None:
        found.density.save(said.save)
        say(f"density: {said.save}")
        note(f"keep {said.save} inside: it holds {found.holds}")
    emit_json(said.json, found.to_json)
    write_report(found, said.report, said.figures)


def plan(said: arguments.PlanArguments, given: dict[str, Any]) -> None:
    """Plan, print, and write what was asked for."""
    modality = verbs.kind_of(said.data, "plan", given)
    shared = {name: getattr(said, name) for name in _SHARED if getattr(said, name) is not None}
    secret, budget = plan_rules(said.policy_file, _secret(said.secret), _budget(said), said.kept)
    asked = {**shared, **given, "budget": budget, "mechanism": said.mechanism, "hide": said.hide}
    weights = modality.plan_weights(said.policy or modality.policy_for(asked, None))
    if weights is None and given.get("fill"):
        weights = "--fill"
    output = said.out or Path("plan.json" if weights is None else "plan.lowtide")
    files, folders = {"--json": said.json, "--report": said.report}, {"--figures": said.figures}
    (files if output.suffix == ".json" else folders)["--out"] = output
    reads = {"data": said.data, "key": said.sign, "policy file": said.policy_file, **console.files_among(given)}
    check_outputs(reads, files, folders=folders)
    with naming("--out"):
        check_plan_place(output, weights=weights)
    made = verbs.plan(
        said.data,
        secret,
        budget=budget,
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
    note(f"{output} is not for publication; keep it inside: {made.view.private}")
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
    return None if not names else names[0] if len(names) == 1 else tuple(names)


def _budget(said: arguments.PlanArguments) -> Budget | None:
    if said.budget is not None and said.attacker_accuracy is not None:
        raise LowtideError("give --budget or --attacker-accuracy, not both")
    if said.attacker_accuracy is not None:
        return Budget.accuracy(said.attacker_accuracy)
    return None if said.budget is None else Budget.read(said.budget)


def release(said: arguments.ReleaseArguments, given: dict[str, Any]) -> None:
    """Release, and print what was written."""
    made = Plan.load(said.plan, signed_by=said.signed_by)
    files: dict[str, Path | None] = {"--json": said.json, **verbs.outputs_of(made, said.out, given)}
    folders: dict[str, Path | None] = {}
    (files if said.out.suffix and not said.out.is_dir() else folders)["--out"] = said.out
    key = said.key_file if said.key_file or said.fresh_noise else said.plan.resolve().parent / KEY_NAME
    reads = {"data": said.data, "plan": said.plan, "key": key, "signing key": said.signed_by}
    check_outputs(reads, files, folders=folders)
    done = verbs.release(
        said.data,
        made,
        said.out,
        key_file=key,
        fresh_noise=said.fresh_noise,
        progress=show_progress(said.quiet),
        **given,
    )
    print_release(done)
    emit_json(said.json, done.to_json)


def print_release(done: Release) -> None:
    """What was written, and what of it stays inside."""
    for name, path in done.written.items():
        if name.startswith("card"):
            say(f"card: {path}")
        elif name != "released":
            say(f"{name}: {path}")
            note(f"keep {path} inside: it says what was hidden where, or which sample is which")
    say(f"released: {done.data} ({done})")


def audit(said: arguments.AuditArguments, given: dict[str, Any]) -> None:
    """Audit, print, write what was asked for, and exit with 1 when the gate is not passed."""
    beside = {f"{name} of the release": path for name, path in card_paths(said.release).items()}
    reads = {"release": said.release, "reference": said.reference, "plan": said.plan, "card": said.card}
    check_outputs(
        {**reads, **beside, "policy file": said.policy_file, **console.files_among(given)},
        {"--json": said.json, "--report": said.report, "--junit": said.junit, "--summary": said.summary},
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
        device=said.device,
        epsilon=said.epsilon,
        seed=said.seed,
        progress=show_progress(said.quiet),
        **given,
    )
    print_audit(found)
    emit_json(said.json, found.to_json)
    write_report(found, said.report, said.figures)
    _write_evidence(found, said)
    if found.gate is not None and not found.gate.passed:
        raise typer.Exit(GATE_FAILED)


def _check_evidence(said: arguments.AuditArguments) -> None:
    """Refuse, before the long work, evidence that could not be written."""
    if said.junit is not None and said.fail_above is None and said.policy_file is None:
        raise LowtideError(
            "--junit has a test case for each limit, and there is none; give --policy-file or --fail-above"
        )
    if str(said.junit) == "-":
        raise LowtideError("--junit - is not a file; give it a name, such as limits.xml")
    if str(said.summary) == "-" and str(said.json) == "-":
        raise LowtideError("--summary - and --json - would be printed into each other; give one of them a file")


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
    """The attacks as a table, the verdict in words."""
    print_tables([TextTable("Attacks on rows no attacker was trained on", HEADER, tuple(found.table()))])
    print_tables(found.further_tables())
    console.say_page("\n".join(found.lines()))
    say("")
    say(str(found.verdict), bold=True)


def warn(said: arguments.WarnArguments, _: dict[str, Any]) -> None:
    """Explain the text, and say what to leave out."""
    check_outputs({"model": said.model}, {"--json": said.json})
    text = sys.stdin.read().strip() if said.text == "-" else said.text
    found = verbs.warn(text, open_model(said.model), budget=said.budget)
    print_warning(found)
    emit_json(said.json, found.to_json)


def open_model(path: Path) -> Density:
    """A density of texts."""
    density = Density.load(path)
    if density.encoder.kind != "texts":
        raise LowtideError(
            f"{path} does not hold a model of texts; make one with `lowtide scan … --text COLUMN --save DIR`"
        )
    return density


def print_warning(found: Any) -> None:
    """The text with its telling words marked, what they tell, and the remedy."""
    out.print(marked(found), soft_wrap=True)
    out.print()
    if not found.words:
        say("The model knows none of these words; to other readers they may tell something.")
        return
    labels = [printable(str(label)) for label in found.labels]
    ranked = sorted(found.words, key=lambda word: -abs(word.shapley[found.about]))[:_MOST]
    table = TextTable(
        f"What words tell about {labels[found.about]}, in bits (above 0: towards it)",
        ("word", "in any order", "in reading order"),
        tuple(
            (printable(word.term), _signed(word.shapley[found.about]), _signed(word.conditional[found.about]))
            for word in sorted(ranked, key=lambda word: word.places)
        ),
    )
    print_tables([table])
    pairs = zip(labels, found.prior, found.posterior, strict=True)
    beliefs = ", ".join(f"{label} {before:.0%} → {after:.0%}" for label, before, after in pairs)
    say(f"What a reader with this model believes, before and after: {beliefs}.")
    if found.unknown:
        some = "1 word is" if len(found.unknown) == 1 else f"{len(found.unknown):,} words are"
        say(f"{some} unknown to the model, counted as telling nothing.")
    _print_remedy(found)


def marked(found: Any) -> Text:
    """The text for a terminal: words towards the class bold and red, away from it blue, strong ones underlined."""
    result = Text()
    for span in found.spans():
        share = span.share or 0.0
        style = "" if abs(share) < _WEAK else "bold red" if share > 0 else "blue"
        result.append(printable(span.text), style=f"{style} underline" if abs(share) >= _STRONG else style)
    return result


def _print_remedy(found: Any) -> None:
    remedy = found.remedy
    if remedy is None:
        return
    bits, limit = remedy.before / NATS_PER_BIT, remedy.budget / NATS_PER_BIT
    if not remedy.needed:
        say(f"It moves the belief in no class by more than {bits:.2f} bits, within the budget of {limit:.2f}.")
        return
    which = "the fewest words that do" if remedy.smallest else "maybe not the fewest words that do"
    say(f"It moves the belief in a class by {bits:.2f} bits; the budget is {limit:.2f}. To keep it ({which}):")
    for word, offers in zip(remedy.words, remedy.suggestions, strict=True):
        instead = f", or write {' or '.join(printable(one) for one in offers)}" if offers else ""
        say(f"  leave out {printable(word)}{instead}")
    left = remedy.removed.leak / NATS_PER_BIT
    say(f"without ({left:.2f} bits): {printable(remedy.removed.text)}")
    if remedy.replaced is not None:
        left = remedy.replaced.leak / NATS_PER_BIT
        say(f"instead ({left:.2f} bits): {printable(remedy.replaced.text)}")
    else:
        say("No neutral words for them were found in the texts that the model was fitted on.")


def _signed(nats: float) -> str:
    return f"{nats / NATS_PER_BIT:+.3f}"


def export(said: arguments.ExportArguments, _: dict[str, Any]) -> None:
    """Export, and say what the export holds."""
    check_outputs({"model": said.model}, {}, folders={"--out": said.out})
    say(f"exported: {export_onnx(open_model(said.model), said.out)}")
    note(f"{said.out} holds labels of the secret, and words of the texts that the model was fitted on")


def demo(said: arguments.DemoArguments, _: dict[str, Any]) -> None:
    """Scan, plan, release and audit the survey; ends with the path of the report."""
    folder, progress = said.out, show_progress(said.quiet)
    check_outputs({}, {"--json": said.json}, folders={"--out": folder})
    folder.mkdir(parents=True, exist_ok=True)
    survey, plan, shared = folder / "survey.csv", folder / "plan.lowtide", folder / "shared.csv"
    table = load_survey()
    table = table.append_column("person", pa.array(range(1, len(table) + 1)))  # what tells rows apart
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
    note(f"keep {plan.name} inside: {made.view.private}")
    out.rule("release")
    done = verbs.release(survey, plan, shared, ids="person", progress=progress)
    say(str(done))
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
