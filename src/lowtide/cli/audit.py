"""`lowtide audit`: attack a release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from lowtide import modalities
from lowtide.auditing.report import HEADER, AuditReport, audit_samples
from lowtide.auditing.verdict import Gate
from lowtide.cli import image_audit, text_audit
from lowtide.cli.common import (
    GATE_FAILED,
    Encoding,
    Figures,
    Given,
    Json,
    Quiet,
    ReportFile,
    Secret,
    Seed,
    Types,
    note,
    out,
    read_given,
    read_types,
    reported,
    show_progress,
    words_of,
)
from lowtide.cli.image_audit import audit_folder
from lowtide.cli.images import Grey, Opening, Resize, are_images
from lowtide.cli.outputs import check_outputs
from lowtide.cli.text_audit import audit_corpus
from lowtide.cli.texts import Group, Text, are_texts
from lowtide.disclose.budget import Budget
from lowtide.disclose.card import ReleaseCard
from lowtide.errors import LowtideError
from lowtide.files import sha256_of
from lowtide.images.plan_file import FolderPlan
from lowtide.report.console import print_table, write_json
from lowtide.report.contents import Report
from lowtide.report.html import write_report
from lowtide.report.sections import make_report
from lowtide.table_files.formats import find_column
from lowtide.table_files.reading import batches, schema_like
from lowtide.tables.plan_file import TablePlan
from lowtide.texts.plan_file import TextPlan
from lowtide.texts.rewriting import HOW

_TEXT_MECHANISMS = tuple(f"{how} words" for how in HOW)


@reported
def run(
    file: Annotated[Path, typer.Argument(help="the released table", metavar="RELEASE")],
    reference: Annotated[Path, typer.Option("--reference", help="the table before, rows in the same order")],
    secret: Secret,
    fail_above: Annotated[
        str | None, typer.Option("--fail-above", help="exit 1 if the strongest attack tells more: 0.05, 0.03bits, 55%")
    ] = None,
    utility: Annotated[str | None, typer.Option("--utility", help="column that should still be told")] = None,
    plan: Annotated[Path | None, typer.Option("--plan", help="the plan, for the report")] = None,
    card: Annotated[
        Path | None, typer.Option("--card", help="its card; by default the one beside the release", metavar="FILE")
    ] = None,
    epsilon: Annotated[float, typer.Option("--epsilon", help="of the divergence that attacks prove")] = 0.1,
    attacker: Annotated[
        list[str] | None, typer.Option("--attacker", help="who attacks (repeat)", show_default="all", metavar="NAME")
    ] = None,
    json: Json = None,
    report: ReportFile = None,
    figures: Figures = None,
    types: Types = None,
    encoding: Encoding = "utf-8",
    resize: Resize = None,
    grey: Grey = False,
    mapping: Annotated[
        Path | None, typer.Option("--mapping", help="images: the private list of names", metavar="FILE")
    ] = None,
    text: Text = None,
    group: Group = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Attack a release with freshly retrained attackers, and say plainly what is left.

    Exit code 1 when the gate --fail-above is not passed.

    Example: lowtide audit shared.parquet --reference survey.csv --secret vote --fail-above 0.05

    Example: lowtide audit shared/ --reference faces/ --secret smile --utility male

    Example: lowtide audit shared.csv --reference tweets.csv --text text --secret party --group author
    """
    reads = {"release": file, "reference": reference, "plan": plan, "card": card}
    check_outputs(reads, {"--json": json, "--report": report}, folders={"--figures": figures})
    gate = None if fail_above is None else _gate(fail_above)
    known = _find_card(file, card)
    options: dict[str, Any] = {
        "utility": utility,
        "gate": gate,
        "epsilon": epsilon,
        "seed": seed,
        "progress": show_progress(quiet),
    }
    options["attackers"] = tuple(attacker) if attacker else None
    if text is None and known is not None and known.mechanism in _TEXT_MECHANISMS:
        raise LowtideError("the card is that of texts: name their column with --text COLUMN")
    if are_texts(file, text, group):
        given_texts, found = audit_corpus(
            file, reference, secret, text=text, group=group, encoding=encoding, card=known, **options
        )
        page = text_audit.audit_report(
            file.name, given_texts, found, known, None if plan is None else TextPlan.load(plan)
        )
    elif are_images(file):
        drawn = None if plan is None else FolderPlan.load(plan)
        opening = Opening(resize, grey)
        found, faces = audit_folder(file, reference, secret, card=known, mapping=mapping, opening=opening, **options)
        page = image_audit.audit_report(file.name, faces, found, known, drawn)
    else:
        made = None if plan is None else TablePlan.load(plan)
        given = read_given(reference, secret, types, encoding)
        found = audit_file(file, given, known, types=types, encoding=encoding, **options)
        page = audit_report(file.name, given, found, known, made)
    print_audit(found)
    if json is not None:
        write_json(json, found.to_json())
    if report is not None:
        for path in write_report(page, report, figures=figures):
            out.print(f"written: {path}", soft_wrap=True)
    if fail_above is not None and found.verdict.passed is not True:
        raise typer.Exit(GATE_FAILED)


def audit_file(
    file: Path,
    given: Given,
    card: ReleaseCard | None,
    *,
    utility: str | None,
    gate: Gate | None,
    epsilon: float,
    types: list[str] | None,
    encoding: str,
    seed: int,
    progress: bool | None,
    attackers: tuple[str, ...] | None = None,
) -> AuditReport:
    """Attack a released file."""
    utility = None if utility is None else find_column(utility, given.judged)
    released = _read_release(file, given, types, encoding)
    useful = None if utility is None else given.table[utility].to_pylist()
    shown = released.select([name for name in released.column_names if name not in given.identifiers])
    clean = given.x
    if utility is not None:
        shown, clean = (part.select([n for n in part.column_names if n != utility]) for part in (shown, clean))
    return audit_samples(
        shown,
        given.s,
        clean=clean,
        estimate=None if card is None else card.leakage,
        utility=useful,
        fail_above=gate,
        epsilon=epsilon,
        secret=given.secret,
        attackers=attackers,
        seed=seed,
        progress=progress,
    )


def print_audit(found: AuditReport) -> None:
    """The attacks as a table, the verdict in words."""
    print_table("Attacks on rows no attacker was trained on", list(HEADER), found.table())
    out.print(found.text().split("\n\n")[-1].strip(), markup=False, soft_wrap=True)
    out.print()
    out.print(str(found.verdict), style="bold", markup=False, soft_wrap=True)


def audit_report(
    name: str, given: Given, found: AuditReport, card: ReleaseCard | None, made: TablePlan | None
) -> Report:
    """The report of a release."""
    kind = modalities.get("tables")
    title = f"{name}: what it still tells about {given.secret}"
    plan = None if made is None else kind.outline(made.hider)
    return make_report(title, given.secret, kind, plan=plan, audit=found, card=card)


def _find_card(file: Path, card: Path | None) -> ReleaseCard | None:
    images = are_images(file)
    beside = file.with_name(f"{file.name.removesuffix('.npz')}.card.json") if images else file.with_suffix(".card.json")
    if card is not None or beside.is_file():
        found = ReleaseCard.load(card or beside)
        if not images and found.data_sha256 is not None and found.data_sha256 != sha256_of(file):
            note("the hash on the card is not that of this file: its estimate is of another release")
        return found
    note("no card beside the release, so no estimate to hold the attacks against")
    return None


def _read_release(file: Path, given: Given, types: list[str] | None, encoding: str) -> pa.Table:
    """The rows of the release whose secret is known; without the secret, which must not be there."""
    plain = [entry for entry in types or () if entry.rpartition("=")[0] != given.secret]
    # Only texts are held to: a release may show as a fraction what was a whole number.
    words = {name: word for name, word in words_of(given.table).items() if word == "text"}
    schema = schema_like(file, words, types=read_types(plain), encoding=encoding)
    if given.secret in schema.names:
        raise LowtideError(
            f"the release still holds the secret {given.secret!r}: nothing is hidden; release it with `lowtide release`"
        )
    released = pa.concat_tables(batches(file, like=schema, encoding=encoding)).unify_dictionaries()
    if len(released) != len(given.known):
        raise LowtideError(
            f"the release has {len(released)} rows and the reference {len(given.known)}; they must be the same rows in "
            "the same order"
        )
    if given.dropped:
        note(f"{given.dropped} rows without a value of the secret are left out")
    return released.filter(given.known)


def _gate(text: str) -> Gate:
    limit = Budget.read(text)
    return Gate.nats(limit.limit) if limit.unit == "nats" else Gate.accuracy(limit.limit)
