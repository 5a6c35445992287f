"""Chromium, and models of texts small enough to make in a moment."""

import shutil

import numpy as np
import pytest
import torch

from lowtide.estimate.density import Density
from lowtide.estimate.learners.bag import Bag, average
from lowtide.estimate.learners.terms import added
from lowtide.estimate.term_training import initial_networks
from lowtide.labels import Classes
from lowtide.texts.encoder import TextEncoder
from lowtide.texts.spelling import COLUMNS
from lowtide.texts.terms import TermOptions, Vocabulary

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
WORDS = (
    *(
        "climate",
        "border",
        "school",
        "#metoo",
        "@gop",
        "tax",
        "été",
        "straße",
        "ὀδός",
        "οδος",
        "not",
        "1,000",
        "u.s",
        "我",
    ),
    *(
        "한국어",
        "👩🏽\u200d🚀",
        "low",
        "income",
        "don't",
        "the",
        "of",
        "act",
        "on",
        "me",
        "too",
        "snake",
        "case",
        "women",
        "men",
    ),
    *("church", "union", "today", "we", "talk", "about", "weather"),
)


def drawn_density(ngrams=1, classes=2, weighting="log", seed=0, characters=False, **options):
    """A density with random weights, whose networks do not know every term; with `characters` it
    reads words that are no terms by theirs.
    """
    rng = np.random.default_rng([seed, 5])
    words = [*WORDS, *(f"word{i}" for i in range(60))]
    terms = list(
        dict.fromkeys(
            [*words, *(f"{a} {b}" for a, b in rng.choice(words, (300, 2)))] if ngrams > 1 else words
        )
    )
    generator = torch.Generator().manual_seed(seed)
    counts = rng.integers(1, 50, len(terms)).astype(float)
    networks = [
        initial_networks(counts, 300, classes, generator, known=len(terms) * 2 // 3)
        for _ in range(4)
    ]
    for one in networks:
        one["u"], one["E"] = (
            0.4 * torch.randn(len(terms), classes, generator=generator),
            20 * one["E"],
        )
    networks = [{name: value.numpy() for name, value in one.items()} for one in networks]
    encoder = TextEncoder(
        Vocabulary(tuple(terms), TermOptions(ngrams=ngrams, **options)),
        np.full((len(terms), 2), -1),
        characters,
    )
    labels = tuple(f"class {k}" for k in range(classes))
    critic = Bag(np.arange(len(terms)), weighting, average(networks))
    features = encoder.features()
    weights = added([critic], [1.0], len(features.groups))
    if characters:
        weights["u"][len(terms) :] = rng.normal(0.0, 0.1, (COLUMNS, classes))
    return Density(
        Classes(labels, rng.dirichlet(np.full(classes, 5.0))),
        features,
        Bag(features.groups, weighting, weights, len(terms)),
        6.0,
        encoder,
    )


@pytest.fixture(scope="session")
def draw():
    """The function that draws densities."""
    return drawn_density


@pytest.fixture(scope="session")
def launching():
    """How a browser is started: where it is, and its flags."""
    return CHROMIUM, FLAGS


@pytest.fixture(scope="session")
def chromium(playwright):
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
    yield browser
    browser.close()


@pytest.fixture
def tab(chromium):
    """A page of its own context, with the requests it makes."""
    context = chromium.new_context()
    page = context.new_page()
    page.requests = []
    page.errors = []
    page.refused = []
    page.on("requestfailed", lambda request: page.refused.append(request.url))
    page.on("request", lambda request: page.requests.append(request.url))
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    yield page
    context.close()
