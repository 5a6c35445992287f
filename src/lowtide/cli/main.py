"""The program `lowtide`."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from typing import Annotated

import typer

import lowtide
from lowtide.cli import audit, demo, plan, release, scan
from lowtide.cli.common import out, reported
from lowtide.disclose import ReleaseCard
from lowtide.errors import LowtideError

app = typer.Typer(
    name="lowtide",
    help="Find which columns of your data give a secret away, hide just those, and attack what is left.",
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
app.command("demo")(demo.run)


def _version(asked: bool) -> None:
    if asked:
        out.print(f"lowtide {lowtide.__version__}")
        raise typer.Exit


@app.callback()
def main(
    debug: Annotated[bool, typer.Option("--debug", help="show tracebacks")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="print the version", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Find which columns of your data give a secret away, hide just those, and attack what is left."""
    if debug:
        os.environ["LOWTIDE_DEBUG"] = "1"


@app.command("show")
@reported
def show(card: Annotated[Path, typer.Argument(help="a release card", metavar="CARD")]) -> None:
    """Print a release card for people.

    Example: lowtide show shared.card.json
    """
    out.print(ReleaseCard.load(card).text(), markup=False, soft_wrap=True)


@app.command(
    "reproduce", context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
)
@reported
def reproduce(
    context: typer.Context, name: Annotated[str, typer.Argument(help="such as synthetic", metavar="EXPERIMENT")]
) -> None:
    """Run an experiment of the repository, such as `synthetic`; further options go to it.

    Example: lowtide reproduce synthetic --quick --json table.json
    """
    folder = Path(lowtide.__file__).parents[2] / "experiments"
    known = sorted(path.stem for path in folder.glob("*.py") if "def main" in path.read_text(encoding="utf-8"))
    if not known:
        raise LowtideError("experiments are not part of the installed package; run this in a clone of the repository")
    if name not in known:
        raise LowtideError(f"no experiment {name!r}; there are {', '.join(known)}")
    sys.argv = [f"lowtide reproduce {name}", *context.args]
    sys.path.insert(0, str(folder))
    runpy.run_path(str(folder / f"{name}.py"), run_name="__main__")
