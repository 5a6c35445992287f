"""Settings shared by all tests, and a browser for those that ask how wide a page is."""

import html
import os
import re
import shutil
import subprocess

import pytest
from hypothesis import settings

# The machine decides how long an example takes; a slow one is not a wrong one.
settings.register_profile("lowtide", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("lowtide")

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
