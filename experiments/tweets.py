"""Tweets of the US Congress: how much they tell about the party, which words tell it, and what
rewriting leaves.

Authors of test tweets have written none of the others. The density that `lowtide warn` uses stands
beside TF-IDF with logistic regression on the same terms, and the paper's network, which prints
information on its own training texts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression

from lowtide import TIDE
from lowtide.errors import LowtideError
from lowtide.estimate.density import Density
from lowtide.files import write_whole
from lowtide.interface import NATS_PER_BIT, Estimate
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.texts.lists import TermLeak, TermLists
from lowtide.texts.reading import TextSet, read_texts
from lowtide.texts.scan import TermTable, scan_terms, top_terms
from lowtide.texts.terms import TermOptions
from lowtide.texts.view import draw_lists
from lowtide.types import Floats, Ints
from paper.recipe import Recipe, fit_texts
from plots import Series, plot_frontiers
from tweet_releases import Released, releases

FILE = "congress_tweets.csv.gz"
TERMS = 24_657
PAPER_BITS = 0.645  # as printed in the paper, for other tweets
PAPER_EPOCHS = 10  # of the 50 in the paper: it knows its training texts by heart long before
STRENGTHS = (1.0, 2.0, 3.0, 5.0)  # C of the regression, chosen on the validation authors
TOP = 20


@dataclass(frozen=True)
class Told:
    """What a model reads of some texts.

    Attributes:
        model: its name.
        texts: whose texts they are.
        bits: information about the party.
        right: how often its guess is right, in percent.
    """

    model: str
    texts: str
    bits: float
    right: float


Parts = dict[str, tuple[TextSet, Ints]]
"""Texts and parties, 0 or 1, by split."""


def main() -> None:
    """Compare models, draw the telling words, and judge rewritten texts."""
    options = parse_arguments(__doc__ or "")
    parts = load(options.data, options.quick)
    start = monotonic()
    density, leakage = ours(parts, options.seed)
    say(f"our density: {monotonic() - start:.0f} s")
    leakage += regression(parts, density)
    leakage += papers(parts, options.quick, options.seed)
    show_information(leakage)
    table = scan_terms(
        density, parts["train"][0].texts, labels(parts["train"][1]), groups=parts["train"][0].groups
    )
    show_terms(table)
    released = releases(parts, quick=options.quick, seed=options.seed)
    show_releases(released)
    stem = (options.json or Path("tweets.json")).with_suffix("")
    if options.json is not None:
        rows = {
            "information": [asdict(one) for one in leakage],
            "releases": [asdict(one) for one in released],
        }
        write_json(options.json, {**rows, "ratio": ratio(leakage), "terms": plain_terms(table)})
    figures = stem.with_suffix(".terms.svg"), stem.with_suffix(".frontier.png")
    words = lists(table, len(parts["train"][1]))
    write_whole(figures[0], draw_lists(words, "Words that tell the party", most=TOP))
    draw(released, figures[1])
    print("figures:", *figures)


def say(text: str) -> None:
    """Tell how far it is."""
    print(text, file=sys.stderr, flush=True)


def load(folder: Path | None, quick: bool) -> Parts:
    """Read the tweets; authors of different splits are different people."""
    if folder is None or not (folder / FILE).is_file():
        raise LowtideError(f"{FILE} is not there; name its folder with --data")
    found = read_texts(folder / FILE, text="text", secret="party", group="author")
    if found.secret is None:
        raise LowtideError("the tweets have no column party")  # cannot happen: it was asked for
    split = found.others["split"].to_numpy()
    party = np.array(found.secret.to_pylist()) == "R"
    parts = {}
    for name, some in (("train", 12_000), ("val", 3_000), ("test", 3_000)):
        rows = np.flatnonzero(split == name)
        if quick:
            rows = np.sort(np.random.default_rng(0x7E).permutation(rows)[:some])
        parts[name] = found.take(rows), party[rows].astype(np.intp)
    return parts


def labels(party: Ints) -> NDArray[np.str_]:
    """The parties by their letters."""
    return np.array(["D", "R"])[party]


def ours(parts: Parts, seed: int) -> tuple[Density, list[Told]]:
    """The density, fitted to the training authors."""
    texts, party = parts["train"]
    tide = TIDE(features=TermOptions(most=TERMS), random_state=seed, progress=False)
    density = tide.fit(texts.texts, labels(party), groups=texts.groups).artefact
    if not isinstance(density, Density):
        raise LowtideError("a finite secret was expected")
    return density, judged(
        "ours", parts, lambda texts: density.density(texts.texts), np.log(density.classes.prior)
    )


def regression(parts: Parts, density: Density) -> list[Told]:
    """TF-IDF and logistic regression on the terms of our density; strength and weighting chosen on
    `val`.
    """
    counts = {name: density.encoder.encode(texts.texts) for name, (texts, _) in parts.items()}
    best: tuple[float, Any, Any] | None = None
    for sublinear in (False, True):
        weights = TfidfTransformer(sublinear_tf=sublinear).fit(counts["train"])
        for strength in STRENGTHS:
            model = LogisticRegression(C=strength, max_iter=400).fit(
                weights.transform(counts["train"]), parts["train"][1]
            )
            scores = model.predict_log_proba(weights.transform(counts["val"]))
            value = float(scores[np.arange(len(scores)), parts["val"][1]].mean())
            if best is None or value > best[0]:
                best = value, weights, model
    if best is None:
        raise LowtideError("no strength was tried")  # cannot happen
    _, weights, model = best
    prior = np.log(np.bincount(parts["train"][1]) / len(parts["train"][1]))
    rows = {id(texts): counts[name] for name, (texts, _) in parts.items()}
    return judged(
        "TF-IDF and regression",
        parts,
        lambda texts: model.predict_log_proba(weights.transform(rows[id(texts)])) - prior,
        prior,
    )


def papers(parts: Parts, quick: bool, seed: int) -> list[Told]:
    """The paper's network. Its constant is free, so the bound it maximises is what it has to
    show.
    """
    texts, party = parts["train"]
    steps = 100 if quick else PAPER_EPOCHS * len(party) // 128
    start = monotonic()
    recipe = Recipe(steps=steps, seed=seed, progress=False)
    density = fit_texts(texts.texts, labels(party), recipe, terms=TermOptions(most=TERMS))
    say(f"the paper's network: {monotonic() - start:.0f} s")
    prior = np.log(density.classes.prior)

    def gains(texts: TextSet) -> Floats:
        g = density.density(texts.texts)
        # Donsker–Varadhan: less the logarithm of the mean of e^g over the product of the laws.
        return np.asarray(g - np.log((np.exp(g) @ np.exp(prior)).mean()))

    return judged("the paper's network", parts, gains, prior)


def judged(
    model: str, parts: Parts, gains: Callable[[TextSet], Floats], log_prior: Floats
) -> list[Told]:
    """What a model reads of all splits, from densities (n, 2)."""
    found = []
    for name, (texts, party) in parts.items():
        g = gains(texts)
        own = g[np.arange(len(party)), party].mean() / NATS_PER_BIT
        right = 100 * ((g + log_prior).argmax(axis=1) == party).mean()
        found.append(Told(model, name, float(own), float(right)))
    return found


def ratio(leakage: list[Told]) -> float:
    """Our information on the test authors over that of the regression."""
    test = {one.model: one.bits for one in leakage if one.texts == "test"}
    return test["ours"] / test["TF-IDF and regression"]


def show_information(leakage: list[Told]) -> None:
    """Bits and accuracy, on training texts and on those of other authors."""
    by = {(one.model, one.texts): one for one in leakage}
    models = list(dict.fromkeys(one.model for one in leakage))
    columns = [
        "model",
        "bits, training texts",
        "bits, unseen authors",
        "right %, training",
        "right %, unseen",
    ]
    rows = [
        (m, by[m, "train"].bits, by[m, "test"].bits, by[m, "train"].right, by[m, "test"].right)
        for m in models
    ]
    print_table(
        "What tweets tell about the party",
        columns,
        rows,
        note=f"the paper prints {PAPER_BITS} bits",
    )
    print(f"ours / TF-IDF and regression, unseen authors: {ratio(leakage):.3f}")


def show_terms(table: TermTable) -> None:
    """The most telling terms of each party."""
    for place, label in enumerate(table.labels):
        rows = [
            (
                table.terms[j],
                int(table.texts[j]),
                str(estimate(table, j, place).bits),
                table.pmi[j, place] / NATS_PER_BIT,
            )
            for j in top_terms(table, place, TOP, least_count=20)
        ]
        print_table(
            f"Words of {label}, in bits", ["word", "tweets", "conditional density", "PMI"], rows
        )


def estimate(table: TermTable, term: int, place: int, what: str = "conditional") -> Estimate:
    """One cell of the table with its interval."""
    value, low, high = (
        float(getattr(table, f"{what}{end}")[term, place]) for end in ("", "_low", "_high")
    )
    return Estimate(value, low, high, int(table.texts[term]))


def lists(table: TermTable, texts: int) -> TermLists:
    """The same terms for the figure (paper, Fig. 3)."""
    every = tuple(
        tuple(
            TermLeak(
                table.terms[j],
                int(table.texts[j]),
                *(estimate(table, j, place, what) for what in ("conditional", "alone", "pmi")),
            )
            for j in top_terms(table, place, TOP, least_count=20)
        )
        for place in range(len(table.labels))
    )
    return TermLists(tuple(map(str, table.labels)), every, texts, len(table))


def plain_terms(table: TermTable) -> dict[str, list[dict[str, Any]]]:
    """The same for JSON."""
    return {
        str(label): [
            {
                "term": table.terms[j],
                "tweets": int(table.texts[j]),
                "conditional": asdict(estimate(table, j, place)),
                "pmi": asdict(estimate(table, j, place, "pmi")),
            }
            for j in top_terms(table, place, TOP, least_count=20)
        ]
        for place, label in enumerate(table.labels)
    }


def show_releases(found: list[Released]) -> None:
    """Every rewriting by what it keeps."""
    print_table(
        "What the strongest retrained attacker reads of rewritten tweets by unseen authors",
        ["way to hide", "words kept", "right %", "interval", "bits", "attacker"],
        [
            (
                one.method,
                f"{one.kept:.1%}",
                one.right,
                f"[{one.low:.1f}, {one.high:.1f}]",
                one.bits,
                one.attacker,
            )
            for one in sorted(found, key=lambda one: (one.method, -one.kept))
        ],
        note="intervals take tweets for independent; those of one author are not",
    )


def draw(found: list[Released], path: Path) -> None:
    """Accuracy against words kept."""
    curves = {
        method: Series(
            [one.kept for one in found if one.method == method],
            [one.right for one in found if one.method == method],
            ours=method.startswith("fixed"),
        )
        for method in dict.fromkeys(one.method for one in found if one.method != "nothing hidden")
    }
    plot_frontiers(
        {"tweets of the US Congress": curves},
        path,
        horizontal="share of words kept",
        vertical="strongest retrained attacker, % right",
        title="What is left of the party",
    )


if __name__ == "__main__":
    main()
