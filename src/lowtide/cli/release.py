"""`lowtide release`: write the hidden data and its card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lowtide import verbs
from lowtide.cli.arguments import ReleaseArguments
from lowtide.cli.console import check_outputs, emit_json, note, say, show_progress
from lowtide.disclose.plan_file import Plan, Release


def run(said: ReleaseArguments, given: dict[str, Any]) -> None:
    """Release, and print what was written."""
    made = Plan.load(said.plan)
    files: dict[str, Path | None] = {"--json": said.json, **verbs.outputs_of(made, said.out, given)}
    folders: dict[str, Path | None] = {}
    (files if said.out.suffix and not said.out.is_dir() else folders)["--out"] = said.out
    check_outputs({"data": said.data, "plan": said.plan, "key": said.key_file}, files, folders=folders)
    done = verbs.release(said.data, made, said.out, key_file=said.key_file, progress=show_progress(said.quiet), **given)
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
