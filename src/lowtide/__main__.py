"""The program `lowtide`, also as `python -m lowtide`. Ctrl-C ends it with one line, also while
modules are imported.
"""

import sys


def run() -> None:
    """Run the program."""
    try:
        from lowtide.cli.endings import watched  # what takes time is imported under watch
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise SystemExit(130) from None
    watched(_app)


def _app() -> None:
    from lowtide.cli.main import app  # as above

    app(prog_name="lowtide")


if __name__ == "__main__":
    run()
