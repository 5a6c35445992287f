"""The program `lowtide`, also as `python -m lowtide`. Ctrl-C ends it with one line, also while modules are imported."""

import sys


def run() -> None:
    """Run the program."""
    try:
        from lowtide.cli.endings import watched  # noqa: PLC0415 - what takes time is imported under watch
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise SystemExit(130) from None
    watched(_app)


def _app() -> None:
    from lowtide.cli.plain import read_plainly  # noqa: PLC0415 - as above

    plain = read_plainly(sys.argv[1:])
    if plain is not None:
        from lowtide.cli.console import print_whatever, run_later  # noqa: PLC0415 - as above

        print_whatever()
        run_later("warnings", "warn")(plain, {})
        return
    from lowtide.cli.main import app  # noqa: PLC0415 - as above

    app(prog_name="lowtide")


if __name__ == "__main__":
    run()
