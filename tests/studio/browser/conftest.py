"""The studio in a real Chromium: tabs that fail on errors of the page, and on requests to anybody
but the studio.
"""

import csv
import io
import re
import shutil
import zipfile
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image

from lowtide.worlds import drawn_faces

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
PATIENCE = 240_000  # milliseconds for a job, on a machine that is busy with other things


@pytest.fixture(scope="session")
def chromium(playwright):
    """The browser."""
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def open_tab(chromium):
    """Open the page of a studio; on leaving, nothing may have gone wrong in it, and nobody else
    been asked.
    """

    @contextmanager
    def opened(studio, *, address="", expected=(), **options):
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        faults = []
        asked = []
        page.on(
            "console",
            lambda said: faults.append(said.text) if said.type in ("error", "warning") else None,
        )
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("dialog", lambda dialog: faults.append(f"dialog {dialog.message}"))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{studio.address}/?token={studio.token}{address}")
        yield page
        context.close()
        assert not [text for text in faults if not any(part in text for part in expected)]
        assert not [
            url
            for url in asked
            if not url.startswith((f"{studio.address}/", "data:image/png", "blob:"))
        ]

    return opened


@pytest.fixture(scope="session")
def check_steps(open_tab):
    """Look at steps of a walk for what keeps people out, and for what does not fit; at each width
    in each scheme.
    """

    def check(studio, address, *looks):
        with open_tab(
            studio, reduced_motion="reduce"
        ) as page:  # colours have come to rest when they are looked at
            for step in ("open", "scan", "choose", "release", "audit", "write"):
                page.goto(f"{studio.address}/#{re.sub('step=[a-z]+', f'step={step}', address)}")
                page.reload()
                page.wait_for_load_state("networkidle")
                page.locator(".actions, .empty, .choice").first.wait_for()
                page.evaluate(
                    "document.querySelectorAll('details').forEach(part => { part.open = true; })"
                )
                for width, scheme in looks:
                    page.set_viewport_size({"width": width, "height": 800})
                    page.emulate_media(color_scheme=scheme)
                    assert page.evaluate("document.documentElement.scrollWidth") <= width, (
                        step,
                        width,
                    )
                    assert no_serious_finding(page), (step, width, scheme)

    return check


def no_serious_finding(page):
    """Whether axe finds nothing serious; what it finds is printed."""
    found = Axe().run(page)
    serious = [
        one["id"]
        for one in found.response["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    if serious:
        print(found.generate_report())
    return not serious


HOSTILE = "<script>alert('x')</script>"


def make_table(rows=240):
    """A table whose vote is told by a column with a hostile name, weakly by the age, and by nothing
    else.
    """
    rng = np.random.default_rng(0)
    vote = rng.integers(0, 2, rows)
    party = np.clip(3 * vote + rng.integers(0, 4, rows), 0, 6)
    age = 30 + 8 * vote + rng.integers(0, 40, rows)
    income = rng.integers(1, 9, rows)
    text = io.StringIO()
    out = csv.writer(text)
    out.writerow(["person", HOSTILE, "age", "income", "vote"])
    out.writerows(
        zip(range(1, rows + 1), party, age, income, np.where(vote, "red", "blue"), strict=True)
    )
    return text.getvalue().encode()


def make_faces(images=80, size=16):
    """Drawn faces in a zip, one folder for those who smile and one for those who do not."""
    world = drawn_faces(size)
    x, smiles = world.sample(images, 1)
    pixels = (np.clip(world.images(x), 0, 1) * 255).astype(np.uint8)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        for number, (face, smile) in enumerate(zip(pixels, smiles, strict=True)):
            content = io.BytesIO()
            Image.fromarray(face).save(content, format="PNG")
            packed.writestr(
                f"{'smile' if smile else 'earnest'}/{number:03}.png", content.getvalue()
            )
    return archive.getvalue()


_PLAIN = (
    "the",
    "a",
    "we",
    "you",
    "have",
    "more",
    "today",
    "people",
    "new",
    "good",
    "time",
    "work",
    "think",
    "walk",
    "late",
)
_TELLING = {
    "coast": ("harbour", "gulls", "ferry", "surf"),
    "hills": ("ridge", "pines", "summit", "snow"),
}


def make_posts(people=40, each=4):
    """Posts of people from the coast and the hills; one word in most of them tells which."""
    rng = np.random.default_rng(0)
    text = io.StringIO()
    out = csv.writer(text)
    out.writerow(["post", "author", "home"])
    for person in range(people):
        home = ("coast", "hills")[person % 2]
        for _ in range(each):
            words = list(rng.choice(_PLAIN, 9))
            if rng.random() < 0.8:
                words.insert(int(rng.integers(9)), str(rng.choice(_TELLING[home])))
            out.writerow([" ".join(words), f"writer{person:02}", home])
    return text.getvalue().encode()


@pytest.fixture(scope="session")
def data():
    """Small data to walk with."""
    return SimpleNamespace(hostile=HOSTILE, table=make_table, faces=make_faces, posts=make_posts)
