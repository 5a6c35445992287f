"""Settings shared by all tests, and a browser for those that ask how wide a page is."""

import html
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import settings

# The machine decides how long an example takes; a slow one is not a wrong one.
settings.register_profile("lowtide", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("lowtide")

# The longest files, longest first: two workers that start with these end together, whatever is left.
SLOWEST = (
    "cli/test_images.py",
    "images/test_density.py",
    "test_golden.py",
    "images/test_sequential.py",
    "images/test_attackers.py",
    "disclose/test_exact_releases.py",
    "density/test_accuracy.py",
    "images/test_obfuscator.py",
    "images/test_world.py",
    "peers/test_adversarial.py",
    "cli/test_texts.py",
    "test_verbs.py",
)


def pytest_collection_modifyitems(items):
    """Start with the slowest files; the others keep their order."""
    rank = {name: place for place, name in enumerate(SLOWEST)}
    here = Path(__file__).parent
    items.sort(key=lambda item: rank.get(item.path.relative_to(here).as_posix(), len(rank)))


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture
def widths(tmp_path):
    """How wide pages are, each in a window of a given width and with every table unfolded."""
    if CHROMIUM is None and os.environ.get("LOWTIDE_BROWSER") != "required":
        pytest.skip("no Chromium on this machine to lay the page out")

    def laid_out(pages):
        measure = (
            "document.querySelector('output').textContent = [...document.querySelectorAll('iframe')].map(frame => {"
            "frame.contentDocument.querySelectorAll('details').forEach(part => part.open = true);"
            "return frame.contentDocument.documentElement.scrollWidth}).join(' ')"
        )
        frames = "".join(
            f'<iframe style="width:{width}px;height:900px;border:0" srcdoc="{html.escape(page)}"></iframe>'
            for page, width in pages
        )
        wrapper = tmp_path / "wrapper.html"
        wrapper.write_text(
            f"<!DOCTYPE html><meta charset=utf-8><output></output>{frames}<script>onload = () => {{{measure}}}</script>"
        )
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=4000"]
        done = subprocess.run(  # noqa: S603 - a browser on our own page
            [CHROMIUM, *options, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", wrapper.as_uri()],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return [int(width) for width in re.search(r"<output>([\d ]+)</output>", done.stdout)[1].split()]

    return laid_out
