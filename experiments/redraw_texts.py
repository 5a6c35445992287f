"""Redraw on tweets: what attackers read against the share of words changed; and what the density of
texts reads.

Tweets are planned and released with the policy `redraw`, whose regressions are cross-fitted over
the authors of the tweets that are released, beside words that are dropped, masked, replaced or
filled in. Attackers are retrained on the release and tested on other authors. One row shows what is
told by all that redraw never changes, alone: no share of changed words goes below it. The density
that `lowtide warn` uses stands beside logistic regression on naive-Bayes-weighted words and pairs,
tuned on the validation authors; both are tested on authors they have not seen.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Any

import numpy as np
from scipy import sparse

from lowtide import TIDE, Obfuscator
from lowtide.attack.panel import attack
from lowtide.disclose.noise import KEY_BYTES, KeyedNoise
from lowtide.errors import LowtideError
from lowtide.estimate.density import Density
from lowtide.estimate.learners.terms import leans
from lowtide.interface import NATS_PER_BIT
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.texts.attackers import fit_logistic
from lowtide.texts.contexts import PlacedWords
from lowtide.texts.hider import TextHider
from lowtide.texts.planner import TextSettings
from lowtide.texts.terms import TermOptions, Vocabulary
from lowtide.types import Floats, Ints
from tweet_releases import Corpus, Released, corpus_of
from tweets import Parts, judged, labels, load

_READERS = ("words", "weighted words", "naive bayes", "surface")
# tweets
_LEARNT = 10_000
_TESTED = 5_000
_PENALTIES = (0.03, 0.1, 0.3)  # C of the regression, chosen on the validation authors
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
    """Release in every way, attack, and compare the densities."""
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
    told = [*ours(parts, options.seed), *weighted_regression(parts)]
    bits = {(one.model, one.texts): one.bits for one in told}
    models = list(dict.fromkeys(one.model for one in told))
    rows = [
        (model, *(bits[model, texts] for texts in ("train", "val", "test"))) for model in models
    ]
    print_table(
        "Information about the party, bits",
        ["model", "training", "validation", "test authors"],
        rows,
    )
    ratio = bits[models[0], "test"] / bits[models[1], "test"]
    print(f"ours / regression, unseen authors: {ratio:.3f}")
    if options.json is not None:
        plain = {
            "releases": [asdict(one) for one in found],
            "information": [asdict(one) for one in told],
        }
        write_json(options.json, {**plain, "ratio": ratio})


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


def ours(parts: Parts, seed: int) -> list[Any]:
    """The density of words and pairs, fitted to the training authors."""
    texts, party = parts["train"]
    tide = TIDE(features=TermOptions(ngrams=2, min_count=2), random_state=seed, progress=False)
    density = tide.fit(texts.texts, labels(party), groups=texts.groups).artefact
    if not isinstance(density, Density):
        raise LowtideError("a finite secret was expected")
    return judged(
        "ours", parts, lambda texts: density.density(texts.texts), np.log(density.classes.prior)
    )


def weighted_regression(parts: Parts) -> list[Any]:
    """Logistic regression on naive-Bayes-weighted words and pairs; its penalty is chosen on
    `val`.
    """
    vocabulary = Vocabulary.learn(parts["train"][0].texts, TermOptions(ngrams=2, min_count=2))
    rows = {name: vocabulary.counts(texts.texts) for name, (texts, _) in parts.items()}
    party = parts["train"][1]
    for counts in rows.values():
        counts.data[:] = 1.0
    scale = sparse.diags_array(leans(rows["train"], party, 2, np.arange(len(party))))
    inputs = {name: sparse.csr_array(counts @ scale) for name, counts in rows.items()}
    models = [fit_logistic(inputs["train"], party, penalty) for penalty in _PENALTIES]
    prior = np.log(np.bincount(party) / len(party))
    best = max(
        models, key=lambda model: _mean(model.predict_log_proba(inputs["val"]), parts["val"][1])
    )
    places = {id(texts): inputs[name] for name, (texts, _) in parts.items()}
    name = "naive-Bayes-weighted regression, words and pairs"
    return judged(
        name, parts, lambda texts: best.predict_log_proba(places[id(texts)]) - prior, prior
    )


def _mean(scores: Floats, party: Ints) -> float:
    return float(np.maximum(scores[np.arange(len(scores)), party], -30.0).mean())


if __name__ == "__main__":
    main()
