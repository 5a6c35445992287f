"""Serve a project's studio until Ctrl-C: bind, say where, open the browser, end cleanly."""

import ipaddress
import os
import secrets
import signal
import socket
import threading
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from lowtide.errors import LowtideError
from lowtide.studio.limits import Limits

PORT = 8642  # by default, if it is free: a browser keeps what a page stores by host and port
_SHORTEST = 16  # characters of a token that somebody chooses
_GRACE = 3  # seconds for answers under way


@dataclass(frozen=True)
class Serving:
    """How to serve.

    Attributes:
        project: the folder.
        host: the address to listen at.
        port: 0 for any that is free; `None` for the usual one, or any where that is taken.
        token: by default a random one.
        expose: whether an address that others can reach is meant.
        names: under which others call this machine.
        workers: how many jobs run at one time.
        largest: bytes of a file that is taken in.
    """

    project: Path
    host: str = "127.0.0.1"
    port: int | None = None
    token: str | None = None
    expose: bool = False
    names: tuple[str, ...] = ()
    workers: int = 1
    largest: int = Limits.upload


def serve(how: Serving, *, say: Callable[[str], None], browser: bool) -> None:
    """Serve until Ctrl-C.

    Args:
        how: what was asked for.
        say: prints a line.
        browser: whether to open one.
    """
    try:
        import uvicorn  # an extra

        from lowtide.studio.app import create_app  # as above
        from lowtide.studio.security import Access
    except ImportError as error:
        raise LowtideError(
            "the studio needs FastAPI and uvicorn, which are not there: pip install"
            ' "lowtide[studio]"'
        ) from error
    if not how.project.is_dir():
        raise LowtideError(f"{how.project} is not a folder; give one that exists")
    check_exposure(how)
    token = how.token or secrets.token_urlsafe(24)
    listening = bind(how.host, how.port)
    port = listening.getsockname()[1]
    access = Access(token, f"lowtide-{port}", how.names, addresses=not _is_loopback(how.host))
    app = create_app(how.project, access, limits=Limits(upload=how.largest), workers=how.workers)

    class Server(uvicorn.Server):
        """Ends open streams first, so that Ctrl-C does not wait for pages that listen."""

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            app.state.studio.jobs.end_streams()
            self.force_exit = self.should_exit and sig == signal.SIGINT  # a second Ctrl-C
            self.should_exit = True

    server = Server(
        uvicorn.Config(
            app, log_level="warning", timeout_graceful_shutdown=_GRACE, server_header=False
        )
    )
    address = f"http://{_shown(how.host)}:{port}/?token={token}"
    say(f"studio: {address}")
    say("Ctrl-C ends it.")
    if browser:
        threading.Timer(0.5, webbrowser.open, [address]).start()
    try:
        server.run(sockets=[listening])
    finally:
        listening.close()
    say("the studio has ended; jobs that ran can be resumed")


def check_exposure(how: Serving) -> None:
    """Refuse an address that others can reach, unless that is meant and the token is one that they
    were given.
    """
    if how.token is not None and (
        len(how.token) < _SHORTEST or not how.token.isascii() or not _plain(how.token)
    ):
        raise LowtideError(
            f"--token must have at least {_SHORTEST} letters, digits, - or _; make one with openssl"
            " rand"
        )
    if _is_loopback(how.host):
        return
    if not how.expose or how.token is None:
        raise LowtideError(
            f"--host {how.host} can be reached by other machines, which may then read your data; if"
            " that is meant, give --expose and --token (or LOWTIDE_TOKEN) as well, and put TLS"
            " before it"
        )


def _plain(token: str) -> bool:
    return all(letter.isalnum() or letter in "-_" for letter in token)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _shown(host: str) -> str:
    """A host as an address has it; a server that listens everywhere is called on this machine by
    its own name.
    """
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def bind(host: str, port: int | None) -> socket.socket:
    """A socket that listens; refuses a port that is taken, unless none was asked for."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for tried in (PORT, 0) if port is None else (port,):
        made = socket.socket(family, socket.SOCK_STREAM)
        if os.name == "posix":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((host, tried))
            made.listen(128)
        except (OSError, OverflowError) as error:
            made.close()
            if port is None and tried == PORT:
                continue
            reason = getattr(error, "strerror", None) or "not a port"
            raise LowtideError(
                f"cannot listen at {host}, port {tried}: {reason}; give another --port, or none for"
                " a free one"
            ) from error
        return made
    raise LowtideError(f"no port of {host} is free; end another program, or give --port")
