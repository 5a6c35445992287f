"""`lowtide scan`: what leaks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lowtide import modalities
from lowtide.bundles import check_bundle_place
from lowtide.cli.common import (
    Encoding,
    Figures,
    Given,
    Json,
    Quiet,
    ReportFile,
    Secret,
    Seed,
    Steps,
    Table,
    Types,
    note,
    note_columns,
    out,
    read_given,
    reported,
    show_progress,
)
from lowtide.cli.images import Grey, Opening, Patch, Resize, Samples, Strict, are_images, scan_folder
from lowtide.cli.outputs import check_outputs
from lowtide.cli.texts import Group, MinCount, MostTerms, Ngrams, Stop, Terms, Text, Without, are_texts, scan_corpus
from lowtide.density.tide import TIDE
from lowtide.report.console import print_tables, write_json
from lowtide.report.html import write_report
from lowtide.report.sections import make_report
from lowtide.tables.scan import TableScan, scan


@reported
def run(
    file: Table,
    secret: Secret,
    json: Json = None,
    report: ReportFile = None,
    figures: Figures = None,
    save: Annotated[Path | None, typer.Option("--save", help="keep the fitted density here", metavar="DIR")] = None,
    types: Types = None,
    encoding: Encoding = "utf-8",
    patch: Patch = 8,
    resize: Resize = None,
    grey: Grey = False,
    strict: Strict = False,
    samples: Samples = 0,
    text: Text = None,
    group: Group = None,
    ngrams: Ngrams = 1,
    min_count: MinCount = 2,
    terms: MostTerms = None,
    stop: Stop = None,
    without: Without = None,
    seed: Seed = 0,
    steps: Steps = None,
    quiet: Quiet = False,
) -> None:
    """What leaks: how much the data tells about the secret, and which columns, patches or words tell it.

    Example: lowtide scan survey.csv --secret vote

    Example: lowtide scan faces/ --secret smile --patch 8 --report faces.html

    Example: lowtide scan tweets.csv --text text --secret party --group author --save party.lowtide
    """
    check_outputs({"data": file}, {"--json": json, "--report": report}, folders={"--figures": figures, "--save": save})
    if save is not None:
        check_bundle_place(save)
    if are_texts(file, text, group):
        scan_corpus(
            file,
            secret,
            text=text,
            group=group,
            terms=Terms(ngrams, min_count, terms, stop, tuple(without or ())),
            encoding=encoding,
            samples=samples,
            json=json,
            report=report,
            figures=figures,
            save=save,
            seed=seed,
            steps=steps,
            quiet=quiet,
        )
        return
    if are_images(file):
        scan_folder(
            file,
            secret,
            patch=patch,
            opening=Opening(resize, grey, strict),
            samples=samples,
            json=json,
            report=report,
            figures=figures,
            save=save,
            seed=seed,
            steps=steps,
            quiet=quiet,
        )
        return
    given = read_given(file, secret, types, encoding)
    note_columns(given)
    found = scan_given(given, seed, steps, quiet)
    print_tables(found.tables())
    if save is not None:
        found.density.save(save)
        out.print(f"density: {save}", soft_wrap=True)
        note(f"keep {save} inside: it holds labels of the secret, and ranges and categories of your data")
    if json is not None:
        write_json(json, found.to_json())
    if report is not None:
        title = f"{file.name}: what it tells about {given.secret}"
        page = make_report(title, given.secret, modalities.get("tables"), scan=found)
        for path in write_report(page, report, figures=figures):
            out.print(f"written: {path}", soft_wrap=True)


def scan_given(given: Given, seed: int, steps: int | None, quiet: bool) -> TableScan:
    """Scan a table that was read."""
    tide = TIDE(max_steps=steps, random_state=seed, progress=show_progress(quiet))
    return scan(given.x, given.s, estimator=tide, secret=given.secret, columns=given.description.columns)
