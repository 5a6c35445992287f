"""Settings shared by all tests, a web server, and a browser for those that ask how wide a page
is.
"""

import functools
import html
import http.server
import os
import re
import shutil
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import settings

from lowtide.disclose.card import Feature, ReleaseCard
from lowtide.disclose.certificate import certify_fixed
from lowtide.disclose.review import card_digest

# The machine decides how long an example takes; a slow one is not a wrong one.
settings.register_profile("lowtide", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("lowtide")

# Files that were measured to take longest: workers that start with these do not wait for one of
# them at the end.
SLOWEST = (
    "test_wheel.py",
    "cli/test_images.py",
    "images/test_density.py",
    "test_roads.py",
    "images/test_sequential.py",
    "images/test_attackers.py",
    "cli/test_texts.py",
    "cli/test_program.py",
    "test_verbs.py",
    "test_fourth_kind.py",
    "disclose/test_exact_releases.py",
    "estimate/test_accuracy.py",
)


def pytest_collection_modifyitems(items):
    """Start with the slowest files; the others keep their order."""
    rank = {name: place for place, name in enumerate(SLOWEST)}
    here = Path(__file__).parent
    items.sort(key=lambda item: rank.get(item.path.relative_to(here).as_posix(), len(rank)))


@pytest.fixture(scope="session")
def sealed():
    """Edit the JSON of a card and compute its digest anew, as somebody does who knows how."""
    return lambda card, **changes: card | changes | {"digest": card_digest(card | changes)}


@pytest.fixture(scope="session")
def make_card():
    """Make the card of a release that shows ages and hides towns."""

    def made(**changes):
        values = {
            "mechanism": "redact",
            "certificate": certify_fixed(0.2, [0.5, 0.5], ratios=[0.0, 0.0], hidden=[False, True]),
            "features": (Feature("age", 0.0), Feature("town", 1.0)),
            "rows": 100,
            "classes": 2,
            "largest_class": 0.5,
            "changed": 0.5,
            "data_sha256": "0f" * 32,
        }
        return ReleaseCard(**values | changes)

    return made


CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


@pytest.fixture
def widths(tmp_path):
    """How wide pages are, each in a window of a given width and with every table unfolded."""
    if CHROMIUM is None and os.environ.get("LOWTIDE_BROWSER") != "required":
        pytest.skip("no Chromium on this machine to lay the page out")

    def laid_out(pages):
        measure = (
            "document.querySelector('output').textContent ="
            " [...document.querySelectorAll('iframe')].map(frame =>"
            " {frame.contentDocument.querySelectorAll('details').forEach(part => part.open ="
            " true);return frame.contentDocument.documentElement.scrollWidth}).join(' ')"
        )
        frames = "".join(
            f'<iframe style="width:{width}px;height:900px;border:0"'
            f' srcdoc="{html.escape(page)}"></iframe>'
            for page, width in pages
        )
        wrapper = tmp_path / "wrapper.html"
        wrapper.write_text(
            f"<!DOCTYPE html><meta charset=utf-8><output></output>{frames}<script>onload = () =>"
            f" {{{measure}}}</script>"
        )
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--virtual-time-budget=4000",
        ]
        done = subprocess.run(  # noqa: S603 - a browser on our own page
            [
                CHROMIUM,
                *options,
                f"--user-data-dir={tmp_path / 'profile'}",
                "--dump-dom",
                wrapper.as_uri(),
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return [
            int(width) for width in re.search(r"<output>([\d ]+)</output>", done.stdout)[1].split()
        ]

    return laid_out


@pytest.fixture(scope="session")
def playwright():
    """The driver of browsers, started once for all tests of a process: a second one would be
    refused.
    """
    if shutil.which("chromium") is None and os.environ.get("LOWTIDE_BROWSER") != "required":
        pytest.skip("no Chromium on this machine")
    from playwright.sync_api import sync_playwright  # only where there is a browser

    with sync_playwright() as started:
        yield started


class WholeFiles(http.server.SimpleHTTPRequestHandler):
    """Gives whole files, as Python's own server does, and keeps what it was asked."""

    def __init__(self, *about, asked, **where):
        self._asked = asked
        super().__init__(*about, **where)

    def log_message(self, *_):
        self._asked.append((self.command, self.path, self.headers.get("Range")))


class Ranges(WholeFiles):
    """Gives ranges of files, too."""

    def do_GET(self):
        said = self.headers.get("Range")
        if said is None:
            return super().do_GET()
        content = Path(self.translate_path(self.path)).read_bytes()
        first, last = map(int, said.removeprefix("bytes=").split("-"))
        some = content[first : last + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{first + len(some) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(some)))
        self.end_headers()
        return self.wfile.write(some)


@pytest.fixture(scope="session")
def serve():
    """Serve a folder on this machine: the address of the server, and the list of what it was
    asked.
    """
    pytest.importorskip("aiohttp")

    @contextmanager
    def served(folder, *, ranges=True):
        asked = []
        handler = functools.partial(
            Ranges if ranges else WholeFiles, asked=asked, directory=str(folder)
        )
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_port}", asked
            finally:
                server.shutdown()
                thread.join()

    return served
