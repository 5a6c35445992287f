"""What each term tells about the secret: the table behind the paper's figure, with intervals and a
baseline.

The interval of a term joins two errors: how far its own log-odds are known, by empirical Bayes from
how often it was seen, and how much its conditional density varies over the texts it stands in.
The texts of a group count as one observation: what a single writer always says tells of the writer,
and little of others of the same class.
"""

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.special import log_expit, ndtri

from lowtide.auditing.surface import SurfaceFindings
from lowtide.checks import LowtideError, check_rows, count, within
from lowtide.estimate.density import Density, TermConditionals
from lowtide.estimate.learners.bag import log_odds_quantiles, witnesses
from lowtide.estimate.tide import TIDE
from lowtide.formatting import html_of, printable, sampled_words, text_of
from lowtide.interface import NATS_PER_BIT, Estimate, Reported, TextTable
from lowtide.labels import Label
from lowtide.splits import read_groups
from lowtide.types import Floats, Ints

Measure = Literal["conditional", "alone", "pmi"]
MEASURES: tuple[Measure, ...] = ("conditional", "alone", "pmi")
Sparse = Any  # scipy.sparse.csr_array, which carries no types
_SHOWN = 15  # terms of each class that are printed
_LISTED = 200  # terms of each class in JSON


@dataclass(frozen=True, eq=False)
class TermTable:
    """What each of m terms tells about each class, in nats.

    Attributes:
        terms: m names, in the order of the vocabulary.
        labels: the classes.
        texts: (m,) how many texts have the term.
        witnesses: (m,) how many independent ones they are worth; the same without groups.
        conditional: (m, |S|) the mean of the trimmed `i(s; x_j | x^{j−1})` over the texts that have
            the term, along the order of the vocabulary; 0 where none has it.
        conditional_low: (m, |S|) lower end of its interval.
        conditional_high: (m, |S|) upper end.
        alone: (m, |S|) `i(s; x_j)`, the trimmed density of the term on its own, free of any order.
        alone_low: (m, |S|) lower end of its interval.
        alone_high: (m, |S|) upper end.
        pmi: (m, |S|) the baseline: pointwise mutual information of class and term, shrunk by
            empirical Bayes.
        pmi_low: (m, |S|) lower end of its interval.
        pmi_high: (m, |S|) upper end.
        level: of the intervals.
    """

    terms: tuple[str, ...]
    labels: tuple[Label, ...]
    texts: Ints
    witnesses: Floats
    conditional: Floats
    conditional_low: Floats
    conditional_high: Floats
    alone: Floats
    alone_low: Floats
    alone_high: Floats
    pmi: Floats
    pmi_low: Floats
    pmi_high: Floats
    level: float

    def __len__(self) -> int:
        return len(self.terms)

    def estimate(self, term: int, place: int, what: Measure) -> Estimate:
        """What one term tells towards the class at a place, by one of the three measures."""
        value, low, high = (
            float(getattr(self, f"{what}{end}")[term, place]) for end in ("", "_low", "_high")
        )
        return Estimate(value, low, high, int(self.texts[term]))


@dataclass(frozen=True, eq=False)
class TextScan(Reported):
    """What texts tell about a secret, in nats.

    Attributes:
        information: of whole texts, on texts that had no part in the fit.
        table: what each term tells.
        rows: how many texts there were.
        entropy: of the secret: what there is to tell.
        density: the fitted density; it holds the labels of the secret and the terms.
        secret: what the secret is called.
        surface: how texts are written, and their order; `None` where nobody looked.
        source_rows: how many texts the source has, where those of the scan are a random choice of
            them.
    """

    holds: ClassVar[str] = (
        "labels of the secret, and words of your texts"  # what the saved density has of the data
    )
    private: ClassVar[str] = (
        "these tables hold words of your texts and labels of the secret: do not publish them"
    )
    information: Estimate
    table: TermTable
    rows: int
    entropy: float
    density: Density = field(repr=False)
    secret: str = "the secret"
    surface: SurfaceFindings | None = field(default=None, repr=False)
    source_rows: int | None = None

    @property
    def shares(self) -> None:
        """Not measured: the order-free share of every term would take too long."""
        return None

    def tables(self) -> list[TextTable]:
        """The most telling terms of each class as tables to print. They hold words and labels,
        which stay inside.
        """
        table = self.table
        header = ("word", "texts", "after the words before it", "alone", "by counting")
        note = (
            f"A whole text tells {self.information.bits} of the {self.entropy / NATS_PER_BIT:.3f}"
            f" bits there are ({self._counted()}, {len(table):,} terms; held out, 95 %)."
        )
        found = []
        for place, label in enumerate(table.labels):
            rows = tuple(
                (
                    printable(table.terms[j]),
                    int(table.texts[j]),
                    *(str(table.estimate(j, place, what).bits) for what in MEASURES),
                )
                for j in map(int, top_terms(table, place, _SHOWN, least_count=2))
            )
            title = (
                f"Words that point to {printable(self.secret)} = {printable(str(label))}, in bits"
            )
            found.append(
                TextTable(title, header, rows, note if place == len(table.labels) - 1 else "")
            )
        return [*found, *([] if self.surface is None else self.surface.tables())]

    def _counted(self) -> str:
        if self.source_rows is None:
            return f"{self.rows:,} texts"
        return sampled_words(self.rows, self.source_rows, "texts")

    def to_json(self) -> dict[str, Any]:
        """The scan as plain values. It holds words and labels, which stay inside."""
        table = self.table
        return {
            "secret": self.secret,
            "texts": self.rows,
            "source_texts": self.source_rows or self.rows,
            "vocabulary": len(table),
            "classes": len(table.labels),
            "entropy_nats": self.entropy,
            "information_nats": asdict(self.information),
            "surface": self.surface and self.surface.to_json(),
            "terms": {
                str(label): [
                    {
                        "term": table.terms[j],
                        "texts": int(table.texts[j]),
                        **{
                            f"{what}_nats": asdict(table.estimate(j, place, what))
                            for what in MEASURES
                        },
                    }
                    for j in map(int, top_terms(table, place, _LISTED))
                ]
                for place, label in enumerate(table.labels)
            },
        }

    def __str__(self) -> str:
        return text_of(self.tables())

    def _repr_html_(self) -> str:
        """What `str` says, for a notebook."""
        return html_of(self.tables())


def scan_texts(
    texts: Any,
    s: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    estimator: TIDE,
    secret: str = "the secret",
) -> TextScan:
    """Fit a density to texts and ask it about every term.

    Args:
        texts: n texts.
        s: (n,) their secrets, finitely many values.
        groups: (n,) what must stay on one side whenever texts are held out, such as their authors.
        estimator: the `TIDE` to fit; its `features` is what counts as a term.
        secret: what to call the secret.
    """
    density = estimator.fit(texts, s, groups=groups).artefact
    if not isinstance(density, Density) or estimator.information_ is None:
        raise LowtideError(
            "a scan needs a secret of finitely many values, and a recipe that holds texts out"
        )
    prior = density.classes.prior
    table = scan_terms(density, texts, s, groups=groups)
    entropy = float(-(prior * np.log(prior)).sum())
    return TextScan(estimator.information_, table, len(texts), entropy, density, secret)


def scan_terms(
    density: Density, x: Any, s: ArrayLike, *, groups: ArrayLike | None = None, level: float = 0.95
) -> TermTable:
    """Ask a density about every term of a collection.

    Args:
        density: fitted on texts or sparse rows, one column per term.
        x: the n texts, or rows, of the fit.
        s: (n,) their secrets.
        groups: (n,) who wrote each text.
        level: of the intervals.
    """
    level = float(within("level", level, 0.0, 1.0, low_open=True, high_open=True))
    rows = density.encoder.encode(x)
    terms = density.encoder.inputs
    plain = np.array_equal(density.features.groups[:terms], np.arange(terms))
    if not sparse.issparse(rows) or not plain:
        raise LowtideError(
            "a scan of terms needs a density of texts, or of sparse rows with one column per"
            " feature"
        )
    codes = density.classes.encode(s)
    check_rows("s", codes.shape, rows.shape[0], "texts")
    sides = read_groups(groups, len(codes))
    rows = rows[:, :terms]  # other words come after all terms
    answer = density.conditionals(rows)
    if not isinstance(answer, TermConditionals):
        raise LowtideError(
            "a scan of terms needs conditionals of present terms; fit the density on texts"
        )
    conditional, variance = _means(answer, terms)
    inside = _by_class(rows, codes, len(density.classes.labels))
    texts = inside.sum(axis=1)
    worth = texts if sides is None else witnesses(rows, sides)
    below, above, pmi = _known(inside, worth, density.classes.prior, level)
    alone = density.density(sparse.eye_array(terms, dtype=np.float32, format="csr"))
    slope = np.clip(1.0 - density.classes.prior * np.exp(alone), 0.0, 1.0)
    # A critic may believe a term more than its witnesses bear out: then the interval reaches to
    # what they do.
    below = np.maximum(slope * below, alone - pmi[1])
    above = np.maximum(slope * above, pmi[2] - alone)
    half = ndtri(0.5 + level / 2) * np.sqrt(variance / np.maximum(worth, 1.0)[:, None])
    seen = texts[:, None] > 0
    most = density.trim

    def ends(value: Floats, spread: Floats | float, limit: float) -> tuple[Floats, Floats, Floats]:
        low = value - np.hypot(below, spread)
        high = value + np.hypot(above, spread)
        return (
            value,
            np.where(seen, np.maximum(low, -limit), -limit),
            np.where(seen, np.minimum(high, limit), limit),
        )

    return TermTable(
        density.features.names[:terms],
        density.classes.labels,
        texts.astype(np.intp),
        worth,
        *ends(conditional, half, 2 * most),  # no conditional of trimmed densities is larger
        *ends(alone, 0.0, most),
        *pmi,
        level,
    )


def top_terms(table: TermTable, class_index: int, k: int = 20, *, least_count: int = 1) -> Ints:
    """The columns of the terms that speak most for a class, by the lower end of their interval.

    A term seen a few times has a wide interval, so that it does not win by chance.

    Args:
        table: from `scan_terms`.
        class_index: the place of the class in `table.labels`.
        k: how many at most.
        least_count: in how many texts a term must be.
    """
    place = count("class_index", class_index, 0, len(table.labels) - 1)
    count("k", k, 1)
    known = np.flatnonzero(table.texts >= max(1, count("least_count", least_count, 0)))
    order = np.argsort(-table.conditional_low[known, place], kind="stable")
    return known[order[:k]]


def _means(answer: TermConditionals, terms: int) -> tuple[Floats, Floats]:
    """Mean and variance (m, |S|) of the conditionals over the texts of each term."""
    times = np.maximum(np.bincount(answer.terms, minlength=terms), 1)[:, None]

    def mean(values: Floats) -> Floats:
        return (
            np.stack([np.bincount(answer.terms, column, terms) for column in values.T], axis=1)
            / times
        )

    value = mean(answer.values)
    spread = np.maximum(mean(np.square(answer.values)) - np.square(value), 0.0)
    return value, spread * times / np.maximum(times - 1, 1)


def _by_class(rows: Sparse, s: Ints, classes: int) -> Floats:
    """(m, |S|) in how many texts of each class each term is."""
    cells = rows.indices.astype(np.int64) * classes + np.repeat(s, np.diff(rows.indptr))
    present = (rows.data != 0).astype(np.float64)
    return np.asarray(
        np.bincount(cells, present, rows.shape[1] * classes).reshape(-1, classes), dtype=np.float64
    )


def _known(
    inside: Floats, worth: Floats, prior: Floats, level: float
) -> tuple[Floats, Floats, tuple[Floats, Floats, Floats]]:
    """How far the log-odds of each term reach below and above their mean, (m, |S|) each; PMI with
    its interval.
    """
    texts = np.maximum(inside.sum(axis=1), 1.0)
    ends = np.array([0.5 - level / 2, 0.5 + level / 2])
    below = np.empty_like(inside)
    above = np.empty_like(inside)
    pmi = np.empty((3, *inside.shape))
    for k, share in enumerate(prior):
        # In whole numbers, so that few counts differ and each is answered once.
        mine = np.rint(inside[:, k] * worth / texts)
        whole = np.rint(worth)
        mean, quantiles = log_odds_quantiles(mine, whole, float(share), ends)
        below[:, k] = mean - quantiles[:, 0]
        above[:, k] = quantiles[:, 1] - mean
        # log p(s | term) / p(s), a rising function of the log-odds.
        odds = np.log(share / (1 - share)) + np.stack([mean, *quantiles.T])
        pmi[..., k] = log_expit(odds) - np.log(share)
    return np.maximum(below, 0.0), np.maximum(above, 0.0), (pmi[0], pmi[1], pmi[2])
