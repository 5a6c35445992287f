"""Tweets rewritten in several ways, each attacked by models trained on the rewritten tweets of
other authors.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression

from lowtide import TIDE, Obfuscator
from lowtide.attack.panel import attack
from lowtide.disclose.noise import KEY_BYTES, KeyedNoise
from lowtide.errors import LowtideError
from lowtide.interface import NATS_PER_BIT
from lowtide.texts.encoder import TextEncoder
from lowtide.texts.learning import learn_similar
from lowtide.texts.planner import TextSettings
from lowtide.texts.policies import FixedTerms
from lowtide.texts.rewriting import How, Rewriter, text_ids
from lowtide.texts.terms import TermOptions
from lowtide.types import Bools, Ints

KEPT = (0.95, 0.9, 0.8, 0.7, 0.6)
# tweets
LEARNT = 40_000
TESTED = 15_000
OTHERS: tuple[How, ...] = ("mask", "replace")  # ways to hide beside dropping, tried at one share
AT = 0.8


@dataclass(frozen=True)
class Released:
    """One way to rewrite, and what is left.

    Attributes:
        method: the way to choose words, and what becomes of them.
        kept: the share of words that stay.
        right: how often the strongest retrained attacker is right, in percent.
        low: lower end of the interval.
        high: upper end.
        bits: information it has about the party.
        attacker: its name.
    """

    method: str
    kept: float
    right: float
    low: float
    high: float
    bits: float
    attacker: str


@dataclass(frozen=True, eq=False)
class Corpus:
    """Tweets to learn from, and tweets of other authors to test on.

    Attributes:
        texts: n tweets.
        party: (n,) 0 or 1.
        authors: (n,) who wrote them.
        test: (n,) which are for testing.
        seed: of everything.
    """

    texts: list[str]
    party: Ints
    authors: NDArray[Any]
    test: Bools
    seed: int

    @property
    def learnt(self) -> list[str]:
        """The texts to learn from."""
        return [text for text, test in zip(self.texts, self.test, strict=True) if not test]


def releases(parts: Any, *, quick: bool, seed: int) -> list[Released]:
    """Judge our fixed policy and what people would do without it, at several shares of words
    kept.
    """
    corpus = corpus_of(parts, *((LEARNT // 10, TESTED // 10) if quick else (LEARNT, TESTED)), seed)
    tide = TIDE(TermOptions(min_count=2), progress=False)
    hider = Obfuscator(tide, kept=AT, settings=TextSettings(attackers=("words",)), progress=False)
    start = monotonic()
    hider.fit(corpus.learnt, corpus.party[~corpus.test], groups=corpus.authors[~corpus.test])
    print(f"fixed: {monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    plan = hider.policy_
    if not isinstance(plan, FixedTerms):
        raise LowtideError("a fixed policy was expected")
    encoder = TextEncoder(plan.vocabulary, learn_similar(corpus.learnt, plan.vocabulary))
    shares = KEPT[1:3] if quick else KEPT
    found = [_judge(corpus, encoder, "nothing hidden", plan.at(1.0))]
    for method, order in _orders(corpus, plan):
        found += [
            _judge(corpus, encoder, method, replace(plan, order=order).at(share))
            for share in shares
        ]
    for how in () if quick else OTHERS:
        found.append(_judge(corpus, encoder, f"fixed, {how}", plan.at(AT), how))
    return found


def corpus_of(parts: Any, learnt: int, tested: int, seed: int) -> Corpus:
    """So many tweets to learn from, and so many of other authors to test on."""
    rng = np.random.default_rng(np.random.SeedSequence([seed, 0x7EE7]))
    texts: list[str] = []
    party = []
    authors = []
    test = []
    for names, most in ((("train", "val"), learnt), (("test",), tested)):
        pool = [
            (text, side, author)
            for name in names
            for text, side, author in zip(
                parts[name][0].texts, parts[name][1], parts[name][0].groups.to_pylist(), strict=True
            )
        ]
        for row in np.sort(rng.permutation(len(pool))[:most]):
            texts.append(pool[row][0])
            party.append(pool[row][1])
            authors.append(pool[row][2])
            test.append(names == ("test",))
    return Corpus(texts, np.array(party), np.array(authors), np.array(test), seed)


def _orders(corpus: Corpus, plan: FixedTerms) -> Iterator[tuple[str, Ints]]:
    """Our order of hiding terms, and three others, from the same texts."""
    yield "fixed, drop", plan.order
    counts = plan.vocabulary.counts(corpus.learnt)
    party = corpus.party[~corpus.test]
    inside = np.stack([np.asarray(counts[party == k].sum(axis=0)).ravel() for k in (0, 1)], axis=1)
    share = inside.sum(axis=0) / inside.sum()
    # Half an occurrence stands for none, so that the logarithm exists.
    pmi = np.log(np.maximum(inside, 0.5) / np.maximum(inside.sum(axis=1), 1.0)[:, None] / share)
    yield "top PMI", np.argsort(-np.abs(pmi).max(axis=1), kind="stable")
    rows = TfidfTransformer(sublinear_tf=True).fit_transform(counts)
    weights = LogisticRegression(C=2.0, max_iter=400).fit(rows, party).coef_[0]
    yield "top TF-IDF weight", np.argsort(-np.abs(weights), kind="stable")
    yield (
        "random words",
        np.random.default_rng(np.random.SeedSequence([corpus.seed, 1])).permutation(
            len(plan.order)
        ),
    )


def _judge(
    corpus: Corpus, encoder: TextEncoder, method: str, plan: FixedTerms, how: How = "drop"
) -> Released:
    """Rewrite all tweets, retrain attackers on those to learn from, and test them on the others."""
    start = monotonic()
    rewriter = Rewriter(encoder, how, plan.hidden, plan.tokens)
    noise = KeyedNoise(
        np.random.SeedSequence([corpus.seed, 2]).generate_state(KEY_BYTES // 4).tobytes()
    )
    release = rewriter.write(corpus.texts, plan, noise=noise, ids=text_ids(corpus.texts))
    found = attack(
        list(release),
        corpus.party,
        groups=corpus.authors,
        test=corpus.test,
        seed=corpus.seed,
        progress=False,
    ).headline
    right = found.accuracy
    bits = found.information.value / NATS_PER_BIT
    print(
        f"{method}: {release.kept:.1%} kept, {100 * right.value:.1f} % right, {bits:.3f} bits"
        f" ({found.attacker}), {monotonic() - start:.0f} s",
        file=sys.stderr,
        flush=True,
    )
    low = 100 * right.low
    high = 100 * right.high
    return Released(method, release.kept, 100 * right.value, low, high, bits, found.attacker)
