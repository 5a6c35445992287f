"""The program `lowtide`. Commands are imported when they run, so that `lowtide --help` answers at
once.
"""

import runpy
import sys
from pathlib import Path
from typing import Annotated

import typer

import lowtide
from lowtide.cli import arguments
from lowtide.cli.arguments import command
from lowtide.cli.console import DEBUG, out, print_whatever, reported, run_later
from lowtide.cli.studio_arguments import StudioArguments
from lowtide.cli.text_arguments import ExportArguments, WarnArguments
from lowtide.errors import LowtideError

app = typer.Typer(
    name="lowtide",
    epilog=(
        "Exit codes: 0 done, 1 a gate failed, 2 bad input, 3 a fault of Lowtide, 130 stopped by"
        " Ctrl-C, 143 ended by SIGTERM."
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("scan")(command(arguments.ScanArguments, run_later("commands", "scan"), kinds="scan"))
app.command("plan")(command(arguments.PlanArguments, run_later("commands", "plan"), kinds="plan"))
app.command("release")(
    command(arguments.ReleaseArguments, run_later("commands", "release"), kinds="release")
)
app.command("audit")(
    command(arguments.AuditArguments, run_later("commands", "audit"), kinds="audit")
)
app.command("warn")(command(WarnArguments, run_later("warnings", "warn")))
app.command("export")(command(ExportArguments, run_later("exports", "export")))
app.command("show")(command(arguments.ShowArguments, run_later("cards", "show")))
app.command("verify")(command(arguments.VerifyArguments, run_later("cards", "verify")))
app.command("review")(command(arguments.ReviewArguments, run_later("cards", "review")))
app.command("studio")(command(StudioArguments, run_later("studio", "studio")))
app.command("demo")(command(arguments.DemoArguments, run_later("demos", "demo")))


def _version(asked: bool) -> None:
    if asked:
        out.print(f"lowtide {lowtide.__version__}")
        raise typer.Exit


@app.callback()
def main(
    debug: Annotated[
        bool, typer.Option("--debug", help="show tracebacks", envvar="LOWTIDE_DEBUG")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", help="print the version", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Find which columns of your data give a secret away, hide just those, and attack what is left.

    Example: lowtide scan survey.csv --secret vote
    """
    DEBUG.set(debug)
    print_whatever()


@app.command(
    "reproduce",
    context_settings={
        "allow_extra_args": True,
        "ignore_unknown_options": True,
        "help_option_names": [],
    },
)
@reported
def reproduce(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="such as synthetic", metavar="EXPERIMENT")],
) -> None:
    """Run an experiment of the repository, such as `synthetic`; further options, --help too, go to
    it.

    Example: lowtide reproduce synthetic --quick --json table.json
    """
    folder = Path(lowtide.__file__).parents[2] / "experiments"
    known = sorted(
        path.stem for path in folder.glob("*.py") if "def main" in path.read_text(encoding="utf-8")
    )
    if name in ("-h", "--help"):
        typer.echo(context.get_help())
        if known:
            typer.echo(f"Experiments: {', '.join(known)}")
        return
    if not known:
        raise LowtideError(
            "experiments are not part of the installed package; run this in a clone of the"
            " repository"
        )
    if name not in known:
        raise LowtideError(f"there is no experiment {name!r}; there are {', '.join(known)}")
    before = sys.argv
    path = sys.path
    try:
        sys.argv = [f"lowtide reproduce {name}", *context.args]
        sys.path = [str(folder), *path]
        runpy.run_path(str(folder / f"{name}.py"), run_name="__main__")
    finally:
        sys.argv = before
        sys.path = path
