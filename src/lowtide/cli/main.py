"""The program `lowtide`."""

from __future__ import annotations

import io
import runpy
import sys
from pathlib import Path
from typing import Annotated

import typer

import lowtide
from lowtide.cli import audit, demo, export, plan, release, scan, warn
from lowtide.cli.common import DEBUG, Json, out, reported
from lowtide.cli.outputs import check_outputs
from lowtide.disclose.card import ReleaseCard
from lowtide.errors import LowtideError
from lowtide.report.console import write_json

app = typer.Typer(
    name="lowtide",
    epilog="Exit codes: 0 done, 1 a gate failed, 2 bad input, 130 stopped by Ctrl-C.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("scan")(scan.run)
app.command("plan")(plan.run)
app.command("release")(release.run)
app.command("audit")(audit.run)
app.command("warn")(warn.run)
app.command("export")(export.run)
app.command("demo")(demo.run)


def _version(asked: bool) -> None:
    if asked:
        out.print(f"lowtide {lowtide.__version__}")
        raise typer.Exit


@app.callback()
def main(
    debug: Annotated[bool, typer.Option("--debug", help="show tracebacks", envvar="LOWTIDE_DEBUG")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="print the version", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Find which columns of your data give a secret away, hide just those, and attack what is left.

    Example: lowtide scan survey.csv --secret vote
    """
    DEBUG.set(debug)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Greek letters is no reason to stop


@app.command("show")
@reported
def show(card: Annotated[Path, typer.Argument(help="a release card", metavar="CARD")], json: Json = None) -> None:
    """Print a release card for people.

    Example: lowtide show shared.card.json
    """
    check_outputs({"card": card}, {"--json": json})
    found = ReleaseCard.load(card)
    out.print(found.text(), soft_wrap=True)
    if json is not None:
        write_json(json, found.to_json())


@app.command(
    "reproduce", context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
)
@reported
def reproduce(
    context: typer.Context, name: Annotated[str, typer.Argument(help="such as synthetic", metavar="EXPERIMENT")]
) -> None:
    """Run an experiment of the repository, such as `synthetic`; further options, --help too, go to it.

    Example: lowtide reproduce synthetic --quick --json table.json
    """
    if name in ("-h", "--help"):
        typer.echo(context.get_help())
        raise typer.Exit
    folder = Path(lowtide.__file__).parents[2] / "experiments"
    known = sorted(path.stem for path in folder.glob("*.py") if "def main" in path.read_text(encoding="utf-8"))
    if not known:
        raise LowtideError("experiments are not part of the installed package; run this in a clone of the repository")
    if name not in known:
        raise LowtideError(f"no experiment {name!r}; there are {', '.join(known)}")
    before, path = sys.argv, sys.path
    try:
        sys.argv, sys.path = [f"lowtide reproduce {name}", *context.args], [str(folder), *path]
        runpy.run_path(str(folder / f"{name}.py"), run_name="__main__")
    finally:
        sys.argv, sys.path = before, path
