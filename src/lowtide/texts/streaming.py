"""Fitting texts from a stream of batches: memory does not grow with the number of texts.

The first pass counts classes and terms and keeps a uniform sample of the texts. Where the sample is all there is, it is
fitted as texts in memory are. Otherwise it decides, and further passes train; see `lowtide.density.bag_streaming`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from lowtide.checks import LowtideError, check_rows
from lowtide.density.artefact import Density
from lowtide.density.bag_fitting import bag_settings, fit_bag_data
from lowtide.density.bag_streaming import Keys, Rows, StreamedBag
from lowtide.density.fitting import NO_SECRET, null_critic
from lowtide.density.objectives import Options
from lowtide.extras import load_torch, note_without_torch
from lowtide.labels import Classes, Label, plain_labels
from lowtide.splits import generator, group_key, read_groups
from lowtide.texts.encoder import TextEncoder, as_texts
from lowtide.texts.learning import check_text_options, fit_texts, learn_similar
from lowtide.texts.terms import TermCounts, TermOptions
from lowtide.training import one_thread
from lowtide.types import Floats

KEPT = 1 << 16  # texts of the sample: an eighth of them stops the training, another validates
_CHARACTERS = 1 << 27  # of the sample at most, where texts are long
_TERMS = 1 << 17  # of a vocabulary, unless its options say how many
_TRACKED = 8  # times as many terms are counted, at most


class TextBatch(NamedTuple):
    """Some texts of a stream, their labels, and the keys (n,) of their groups; `grouped` where it has groups."""

    texts: list[str]
    labels: list[Label]
    keys: Keys
    grouped: bool


def read_batches(batches: Iterable[Any], seed: int) -> Iterator[TextBatch]:
    """Read a stream of batches `(texts, s)` or `(texts, s, groups)`; keys are the same in every pass."""
    rng = generator(seed, "groups of a text stream")
    for batch in batches:
        if not isinstance(batch, (tuple, list)) or len(batch) not in (2, 3):
            raise LowtideError("a batch of a stream of texts must be (texts, s) or (texts, s, groups)")
        texts, labels = as_texts(batch[0]), plain_labels(batch[1])
        check_rows("s of a batch", (len(labels),), len(texts), "texts")
        groups = batch[2] if len(batch) == 3 else None
        alone = rng.integers(0, 1 << 64, len(texts), dtype=np.uint64)
        yield TextBatch(texts, labels, _group_keys(groups, alone, seed), groups is not None)


def _group_keys(groups: Any, alone: Keys, seed: int) -> Keys:
    """The key of each row: that of its group, or its own where it has none."""
    codes = read_groups(groups, len(alone))
    if codes is None:
        return alone
    listed: Any = groups.to_pylist() if hasattr(groups, "to_pylist") else groups
    places = np.unique(codes, return_index=True)[1]
    keys = alone[places]
    for number, value in enumerate(np.asarray(listed, dtype=object)[places].tolist()):
        missing, plain = group_key(value, 0)
        if not missing:
            named = f"{seed}:{plain.item() if isinstance(plain, np.generic) else plain!r}"
            digest = hashlib.blake2b(named.encode("utf-8", "surrogatepass"), digest_size=8).digest()
            keys[number] = int.from_bytes(digest)
    return keys[codes]


class TextSample:
    """A uniform sample: every text draws a number, and those with the smallest stay, in the order of the stream.

    Attributes:
        texts: those kept.
        labels: of each.
        keys: (n,) of their groups.
        is_whole: whether they are all that were added.
    """

    def __init__(self, seed: int) -> None:
        self.texts: list[str] = []
        self.labels: list[Label] = []
        self.keys: Keys = np.zeros(0, dtype=np.uint64)
        self._rng, self._drawn, self._limit = generator(seed, "sample of a text stream"), np.zeros(0), np.inf

    @property
    def is_whole(self) -> bool:
        """Whether no text was left out."""
        return self._limit == np.inf

    def add(self, batch: TextBatch) -> None:
        """Add the texts of a batch."""
        drawn = self._rng.random(len(batch.texts))
        stays = np.flatnonzero(drawn < self._limit)
        self.texts += [batch.texts[place] for place in stays]
        self.labels += [batch.labels[place] for place in stays]
        self.keys, self._drawn = np.concatenate([self.keys, batch.keys[stays]]), np.append(self._drawn, drawn[stays])
        self._shrink(2)

    def finish(self) -> None:
        """Leave out what is one too many."""
        self._shrink(1)

    def _shrink(self, times: int) -> None:
        lengths: Floats = np.fromiter(map(len, self.texts), np.float64, len(self.texts))
        if len(lengths) <= times * KEPT and lengths.sum() <= times * _CHARACTERS:
            return
        order = np.argsort(self._drawn, kind="stable")
        fit = max(1, min(KEPT, int(np.searchsorted(np.cumsum(lengths[order]), _CHARACTERS))))
        self._limit = float(self._drawn[order[fit]])
        stays = np.sort(order[:fit])
        self.texts, self.labels = [self.texts[k] for k in stays], [self.labels[k] for k in stays]
        self.keys, self._drawn = self.keys[stays], self._drawn[stays]


@dataclass(frozen=True)
class TextSurvey:
    """What the first pass finds.

    Attributes:
        rows: how many texts there are.
        grouped: whether batches have groups.
        classes: the values of the secret.
        sample: some of the texts, or all.
        terms: counts of the terms.
    """

    rows: int
    grouped: bool
    classes: Classes
    sample: TextSample
    terms: TermCounts

    @classmethod
    def of(cls, batches: Iterable[Any], options: Options) -> TextSurvey:
        """Walk through a stream once."""
        asked = options.features or TermOptions()
        kept = replace(asked, most=_TERMS) if asked.most is None else asked
        terms = TermCounts(kept, most=_TRACKED * max(_TERMS, kept.most or 0))
        sample, labels, with_groups = TextSample(options.seed), Counter[Label](), set[bool]()
        for batch in read_batches(batches, options.seed):
            sample.add(batch)
            labels.update(batch.labels)
            terms.add(batch.texts)
            with_groups.add(batch.grouped)
        if not labels:
            raise LowtideError("the stream of batches is empty; give one or more batches (texts, s)")
        if len(with_groups) > 1:
            raise LowtideError("some batches have groups and others have none; give (texts, s, groups) in all of them")
        sample.finish()
        return cls(sum(labels.values()), with_groups.pop(), Classes.from_counts(labels), sample, terms)


@dataclass(frozen=True)
class CountedTexts:
    """A stream of texts as one of counted terms; see `RowStream`."""

    batches: Iterable[Any]
    encoder: TextEncoder
    classes: Classes
    seed: int
    rows: int
    grouped: bool

    def __iter__(self) -> Iterator[Rows]:
        """One pass, batch by batch."""
        seen = 0
        for batch in read_batches(self.batches, self.seed):
            seen += len(batch.texts)
            yield Rows(self.encoder.encode(batch.texts), self.classes.encode(batch.labels), batch.keys)
        if seen != self.rows:
            raise LowtideError(
                f"the stream had {self.rows} texts in its first pass and {seen} in a later one; give batches that can "
                "be walked through several times, always in one order"
            )


def fit_text_stream(batches: Any, options: Options, *, groups: ArrayLike | None = None) -> Density:
    """Fit to an iterable of batches `(texts, s)` or `(texts, s, groups)`; see `TIDE.fit`."""
    if groups is not None:
        raise LowtideError("in a stream every batch brings its own groups: give batches (texts, s, groups)")
    if not isinstance(batches, Iterable) or hasattr(batches, "shape"):
        raise LowtideError(NO_SECRET)
    check_text_options(options)
    load_torch()
    with one_thread():
        survey = TextSurvey.of(batches, options)
        if not survey.sample.is_whole:
            return fit_counted(batches, survey, options)
    whole = survey.sample
    return fit_texts(whole.texts, whole.labels, options, groups=whole.keys if survey.grouped else None)


def fit_counted(batches: Iterable[Any], survey: TextSurvey, options: Options) -> Density:
    """Fit to a stream of which a first pass has kept a sample."""
    if options.recipe == "paper":
        raise LowtideError("recipe='paper' needs texts in memory; give a list of texts, or use recipe='lowtide'")
    sample, classes = survey.sample, survey.classes
    vocabulary = survey.terms.vocabulary()
    encoder = TextEncoder(vocabulary, learn_similar(sample.texts, vocabulary))
    features = encoder.features()
    if options.critic == "null":
        critic, report = null_critic(survey.rows, classes, features)
        return Density(classes, features, critic, options.trim, encoder, report)
    note_without_torch("the density was fitted")
    codes = classes.encode(np.array(sample.labels, dtype=object))
    missing = len(classes.labels) - len(np.unique(codes))
    if missing:
        raise LowtideError(
            f"{missing} of the {len(classes.labels)} classes of s do not occur in a sample of {len(codes):,} texts; "
            "merge or drop them"
        )
    keys, groups = np.unique(sample.keys, return_inverse=True)
    stream = CountedTexts(batches, encoder, classes, options.seed, survey.rows, survey.grouped)
    settings = bag_settings(survey.rows, classes, options)
    nothing = np.zeros(0, dtype=np.uint64)
    data = StreamedBag(encoder.encode(sample.texts), codes, groups, *settings, stream, keys, nothing)
    critic, report = fit_bag_data(data, classes, features, options)
    return Density(classes, features, critic, options.trim, encoder, report)
