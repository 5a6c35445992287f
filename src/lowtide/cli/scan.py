"""`lowtide scan`: what leaks."""

from __future__ import annotations

from typing import Any

from lowtide import verbs
from lowtide.bundles import check_bundle_place
from lowtide.cli.arguments import ScanArguments
from lowtide.cli.console import check_outputs, emit_json, naming, note, say, show_progress, write_report
from lowtide.report.console import print_tables


def run(said: ScanArguments, given: dict[str, Any]) -> None:
    """Scan, print, and write what was asked for."""
    files, folders = {"--json": said.json, "--report": said.report}, {"--figures": said.figures, "--save": said.save}
    check_outputs({"data": said.data}, files, folders=folders)
    if said.save is not None:
        with naming("--save"):
            check_bundle_place(said.save)
    found = verbs.scan(
        said.data, said.secret, steps=said.steps, seed=said.seed, progress=show_progress(said.quiet), **given
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
