"""What the density of texts reads of tweets by authors it has not seen, beside everyday models.

These are logistic regression on words and pairs that are weighted as by naive Bayes, logistic
regression on runs of two to five characters (TF-IDF), across words and within them, and the mean of
the first two; their penalties are chosen on the validation authors. The density is the one that
`lowtide scan` fits and `warn` asks; beside it stands one that reads no characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from time import process_time
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from lowtide import TIDE
from lowtide.estimate.learners.terms import leans
from lowtide.interface import NATS_PER_BIT
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.texts.terms import TermOptions, Vocabulary
from lowtide.types import Floats, Ints
from tweets import Parts, labels, load

WORD_PENALTIES = (0.03, 0.1, 0.3)  # C
CHARACTER_PENALTIES = (1.0, 2.0, 4.0, 8.0)
TERMS = TermOptions(ngrams=2, min_count=2, urls=True)  # as `scan` reads texts
BINS = 15  # of beliefs, by which calibration is judged
STEPS = 200


@dataclass(frozen=True)
class Reader:
    """What a model reads of tweets by authors it has not seen.

    Attributes:
        model: its name.
        validation: bits, of the authors that penalties of everyday models were chosen on.
        test: bits, of others.
        calibration: expected calibration error on the latter.
        seconds: of the processor, for the fit and all answers.
    """

    model: str
    validation: float
    test: float
    calibration: float
    seconds: float


def main() -> None:
    """Fit all models, and compare."""
    options = parse_arguments(__doc__ or "")
    parts = load(options.data, options.quick)
    others = everyday(parts)
    first = ours(parts, options.seed)
    ratio = first.test / max(one.test for one in others)
    found = [first, without_characters(parts, options.seed), *others]
    print_table(
        "What tweets of unseen authors tell about the party",
        ["model", "bits, validation", "bits, test", "calibration error", "CPU seconds"],
        [
            (one.model, one.validation, one.test, one.calibration, f"{one.seconds:.0f}")
            for one in found
        ],
        note=f"{len(parts['train'][1]):,} tweets to learn from",
    )
    print(f"ours / the best of the others, test authors: {ratio:.3f}")
    if options.json is not None:
        rows = [asdict(one) for one in found]
        write_json(options.json, {"readers": rows, "ratio": ratio})


def ours(parts: Parts, seed: int) -> Reader:
    """The density of words, pairs and characters."""
    texts, party = parts["train"]
    start = process_time()
    tide = TIDE(features=TERMS, random_state=seed, progress=False)
    density = tide.fit(texts.texts, labels(party), groups=texts.groups).artefact
    answers = [density.density(parts[name][0].texts) for name in ("val", "test")]
    log_prior = np.log(density.classes.prior)
    return reader("ours", parts, answers, log_prior, process_time() - start)


def without_characters(parts: Parts, seed: int) -> Reader:
    """The density of counts of the same words and pairs."""
    texts, party = parts["train"]
    start = process_time()
    counts = Vocabulary.learn(texts.texts, TERMS).counts
    tide = TIDE(random_state=seed, progress=False)
    density = tide.fit(counts(texts.texts), labels(party), groups=texts.groups).artefact
    answers = [density.density(counts(parts[name][0].texts)) for name in ("val", "test")]
    log_prior = np.log(density.classes.prior)
    return reader("ours, no characters", parts, answers, log_prior, process_time() - start)


def everyday(parts: Parts) -> list[Reader]:
    """Words and pairs, characters, and the mean of what two of them believe."""
    party = parts["train"][1]
    log_prior = np.log(np.bincount(party) / len(party))
    found = []
    beliefs = []
    seconds = []
    for name, made, penalties in (
        ("words and pairs, naive Bayes", weighted_words, WORD_PENALTIES),
        ("characters, TF-IDF", partial(characters, "char"), CHARACTER_PENALTIES),
        ("within words, TF-IDF", partial(characters, "char_wb"), CHARACTER_PENALTIES),
    ):
        start = process_time()
        told = tuned(parts, made(parts), penalties)
        seconds.append(process_time() - start)
        beliefs.append(told)
        answers = [one - log_prior for one in told]
        found.append(reader(name, parts, answers, log_prior, seconds[-1]))
    both = zip(*beliefs[:2], strict=True)
    means = [np.logaddexp(*pair) - np.log(2) - log_prior for pair in both]
    return [*found, reader("the mean of the first two", parts, means, log_prior, sum(seconds[:2]))]


def weighted_words(parts: Parts) -> dict[str, Any]:
    """Which words and pairs occur, each scaled by how its frequency differs between the parties."""
    texts, party = parts["train"]
    vocabulary = Vocabulary.learn(texts.texts, TERMS)
    rows = {name: vocabulary.counts(some.texts) for name, (some, _) in parts.items()}
    for counts in rows.values():
        counts.data[:] = 1.0
    scale = sparse.diags_array(leans(rows["train"], party, 2, np.arange(len(party))))
    return {name: sparse.csr_array(counts @ scale) for name, counts in rows.items()}


def characters(analyzer: str, parts: Parts) -> dict[str, Any]:
    """Weighted runs of two to five characters."""
    vectors = TfidfVectorizer(
        analyzer=analyzer, ngram_range=(2, 5), min_df=2, sublinear_tf=True, dtype=np.float32
    )
    vectors.fit(parts["train"][0].texts)
    return {name: vectors.transform(some.texts) for name, (some, _) in parts.items()}


def tuned(parts: Parts, rows: dict[str, Any], penalties: Sequence[float]) -> list[Floats]:
    """What the regression that reads most of the validation authors believes of these and of the
    test authors, log-probabilities (n, 2).
    """
    models = [
        LogisticRegression(C=penalty, max_iter=STEPS).fit(rows["train"], parts["train"][1])
        for penalty in penalties
    ]
    told = [model.predict_log_proba(rows["val"]) for model in models]
    truth = parts["val"][1]
    best = int(np.argmax([one[np.arange(len(truth)), truth].mean() for one in told]))
    return [told[best], models[best].predict_log_proba(rows["test"])]


def reader(
    model: str, parts: Parts, answers: Sequence[Floats], log_prior: Floats, seconds: float
) -> Reader:
    """Judge the densities (n, 2) of validation and test authors."""
    bits = [
        float(told[np.arange(len(told)), parts[name][1]].mean() / NATS_PER_BIT)
        for told, name in zip(answers, ("val", "test"), strict=True)
    ]
    belief = np.exp(answers[1][:, 1] + log_prior[1])
    return Reader(model, bits[0], bits[1], calibration_error(belief, parts["test"][1]), seconds)


def calibration_error(belief: Floats, truth: Ints) -> float:
    """How far beliefs (n,) in class 1 are from its share, on average over their bins."""
    bins = np.minimum((belief * BINS).astype(np.intp), BINS - 1)
    return float(np.abs(np.bincount(bins, belief - truth, BINS)).sum() / len(truth))


if __name__ == "__main__":
    main()
