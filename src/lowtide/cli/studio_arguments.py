"""The arguments of `lowtide studio`. Light: imports no server."""

from dataclasses import dataclass
from pathlib import Path

from lowtide.cli.flags import argument, flag


@dataclass(frozen=True, kw_only=True)
class StudioArguments:
    """Open the studio: a page in the browser that does the whole job, and the REST service behind
    it.

    Everything stays on this machine: jobs and files are kept in PROJECT_DIR/.lowtide-studio. The
    address that is printed carries the token that lets a browser in. Needs the extra `studio`.

    Example: lowtide studio

    Example: lowtide studio survey/ --port 8700 --no-browser

    Example: lowtide studio /data --host 0.0.0.0 --expose --token "$TOKEN" --name studio.example.org
    --no-browser
    """

    project: Path = argument("the folder to work in", "PROJECT_DIR", Path())
    port: int | None = flag(
        None, "to listen at; 0 for any that is free", shown="8642, or a free one", least=0
    )
    no_browser: bool = flag(False, "print the address, and open no browser")
    host: str = flag(
        "127.0.0.1",
        "the address to listen at; others than this machine's need --expose and --token",
    )
    expose: bool = flag(
        False, "other machines may reach it: whoever has the token can read the project's data"
    )
    token: str | None = flag(
        None, "what requests must carry", shown="that of LOWTIDE_TOKEN, or a random one"
    )
    name: list[str] | None = flag(
        None, "under which others call this machine (repeat)", metavar="HOST"
    )
    jobs: int = flag(1, "how many run at one time", least=1)
    largest: int = flag(512, "megabytes of a file that is taken in", metavar="MB", least=1)
