"""Redraw on tweets: what attackers read against the share of words changed.

Tweets are planned and released with the policy `redraw`, whose regressions are cross-fitted over
the authors of the tweets that are released, beside words that are dropped, masked, replaced or
filled in. Attackers are retrained on the release and tested on other authors. One row shows what is
told by all that redraw never changes, alone: no share of changed words goes below it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Any

import numpy as np

from lowtide import TIDE, Obfuscator
from lowtide.attack.panel import attack
from lowtide.disclose.noise import KEY_BYTES, KeyedNoise
from lowtide.errors import LowtideError
from lowtide.interface import NATS_PER_BIT
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.texts.contexts import PlacedWords
from lowtide.texts.hider import TextHider
from lowtide.texts.planner import TextSettings
from lowtide.texts.terms import TermOptions
from tweet_releases import Corpus, Released, corpus_of
from tweets import load

_READERS = ("words", "weighted words", "naive bayes", "surface")
# tweets
_LEARNT = 10_000
_TESTED = 5_000
_OPTIONS = TermOptions(min_count=2, urls=True)


@dataclass(frozen=True)
class Way:
    """A way to release: a policy and a mechanism, the share of words to keep, and settings of
    texts.
    """

    name: str
    policy: Any
    mechanism: str | None = None
    kept: float | None = None
    fill: str | None = None
    redraw_names: bool = False


WAYS = (
    Way("redraw, names may give way", "redraw", redraw_names=True),
    Way("drop", "fixed", "drop", 0.95),
    Way("redraw, names stay", "redraw"),
    Way("redraw, names may give way", "redraw", kept=0.98, redraw_names=True),
    Way("fill", "fixed", "mask", 0.95, fill="redraw"),
    Way("mask", "fixed", "mask", 0.95),
    Way("replace", "fixed", "replace", 0.95),
    Way("drop", "fixed", "drop", 0.9),
)


def main() -> None:
    """Release in every way, and attack."""
    options = parse_arguments(__doc__ or "")
    warnings.simplefilter("ignore")  # a training figure above the held-out one is to be expected
    parts = load(options.data, options.quick)
    sizes = (2_000, 1_000) if options.quick else (_LEARNT, _TESTED)
    corpus = corpus_of(parts, *sizes, options.seed)
    found = [read("nothing changed", corpus, corpus.texts, 0.0)]
    found.append(read("what redraw never changes, alone", corpus, unchangeable(corpus), 1.0))
    for way in WAYS[:2] if options.quick else WAYS:
        found.append(released(way, corpus))
    print_table(
        "What the strongest retrained attacker reads of tweets by other authors",
        ["way", "words kept", "right %", "interval", "bits", "attacker"],
        [
            (r.method, f"{r.kept:.1%}", r.right, f"[{r.low:.1f}, {r.high:.1f}]", r.bits, r.attacker)
            for r in found
        ],
        note="intervals take tweets for independent; those of one author are not",
    )
    if options.json is not None:
        write_json(options.json, {"releases": [asdict(one) for one in found]})


def released(way: Way, corpus: Corpus) -> Released:
    """Plan with all tweets, release all, and attack."""
    settings = TextSettings(attackers=("words",), fill=way.fill, redraw_names=way.redraw_names)
    tide = TIDE(_OPTIONS, progress=False)
    made = Obfuscator(
        tide,
        way.policy,
        way.mechanism,
        kept=way.kept,
        settings=settings,
        progress=False,
        random_state=corpus.seed,
    )
    # A list is planned without the tweets that test. Redraw sees all that it releases, but no
    # author it decides about.
    mine = np.ones(len(corpus.texts), dtype=bool) if way.policy == "redraw" else ~corpus.test
    texts = [text for text, used in zip(corpus.texts, mine, strict=True) if used]
    made.fit(texts, corpus.party[mine], groups=corpus.authors[mine])
    noise = KeyedNoise(
        np.random.SeedSequence([corpus.seed, 3]).generate_state(KEY_BYTES // 4).tobytes()
    )
    ids = np.arange(len(corpus.texts))
    if way.policy == "redraw":
        if not isinstance(made.hider_, TextHider):
            raise LowtideError("texts were expected")
        release = made.hider_.redraw(corpus.texts, corpus.party, noise=noise, ids=ids)
    else:
        release = made.hider_.transform(corpus.texts, noise=noise, ids=ids)
    return read(way.name, corpus, list(release), 1.0 - release.kept)


def unchangeable(corpus: Corpus) -> list[str]:
    """The tweets with a letter in place of every word that redraw may change."""
    made = Obfuscator(
        TIDE(_OPTIONS, progress=False),
        "redraw",
        kept=1.0,
        settings=TextSettings(attackers=("words",), redraw_names=True),
        progress=False,
    )
    made.fit(corpus.texts, corpus.party, groups=corpus.authors)
    placed = PlacedWords.read(corpus.texts, made.policy_.vocabulary)
    kinds = made.policy_.redrawer.kinds
    free = np.flatnonzero((placed.codes >= 0) & kinds.changeable[np.maximum(placed.codes, 0)])
    texts = list(corpus.texts)
    for word in free[::-1]:  # from the end, so that places before it stay where they are
        row, start, end = (int(part[word]) for part in (placed.text, placed.start, placed.end))
        texts[row] = f"{texts[row][:start]}x{texts[row][end:]}"
    return texts


def read(name: str, corpus: Corpus, texts: Sequence[str], changed: float) -> Released:
    """What fresh attackers read of tweets of other authors."""
    start = monotonic()
    found = attack(
        list(texts),
        corpus.party,
        groups=corpus.authors,
        attackers=_READERS,
        test=corpus.test,
        seed=corpus.seed,
        progress=False,
    ).headline
    right = found.accuracy
    bits = found.information.value / NATS_PER_BIT
    said = (
        f"{name}: {changed:.1%} changed, {100 * right.value:.1f} % right, {bits:.3f} bits"
        f" ({found.attacker})"
    )
    print(f"{said}, {monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    ends = 100 * right.low, 100 * right.high
    return Released(name, 1.0 - changed, 100 * right.value, *ends, bits, found.attacker)


if __name__ == "__main__":
    main()
