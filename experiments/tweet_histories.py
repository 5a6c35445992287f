"""What do several tweets of one person tell together, and what does a budget over them cost?

With --data, the folder of `congress_tweets.csv.gz` (secret: party). A plan is made from tweets of
some authors and releases tweets of others. Attackers learn from released tweets and are tested on
those of authors they have not seen; their answers to 1, 5, 10 and 20 tweets of one author are added
up. Three releases: nothing hidden, 80 % of the words kept, and a budget of 65 % right guesses about
an author after ten tweets.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lowtide.errors import LowtideError
from lowtide.formatting import in_ascii, percents
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.table_files.reading import read
from lowtide.verbs import audit, plan, release

# tweets; so many are cross-fitted, and all authors tested
_PLANNED = 16_000
_RELEASED = 10_000
_QUICK = 8  # times fewer
_POSTS = (1, 5, 10, 20)
_ATTACKERS = ("words", "weighted words", "naive bayes")
_HISTORY = 10
_BUDGET = "65%"


def tweets(data: Path, parts: Sequence[str], most: int, seed: int) -> dict[str, list[Any]]:
    """So many tweets of the authors of some parts, as texts, parties and authors."""
    table = read(data / "congress_tweets.csv.gz")
    rows = np.flatnonzero(np.isin(table["split"].to_pylist(), parts))
    some = np.sort(np.random.default_rng(seed).permutation(rows)[:most])
    chosen = table.take(pa.array(some))
    return {name: chosen[name].to_pylist() for name in ("text", "party", "author")}


def told(
    name: str, shared: list[str], clean: dict[str, list[Any]], kept: float, seed: int
) -> list[list[Any]]:
    """What an audit finds, by how many tweets of an author are read."""
    found = audit(
        shared,
        clean["text"],
        clean["party"],
        group=clean["author"],
        posts=_POSTS,
        attackers=_ATTACKERS,
        epsilon=None,
        seed=seed,
        progress=False,
        kind="texts",
    )
    if found.together is None:
        raise AssertionError("an audit that was asked about several tweets says what they tell")
    return [
        [
            name,
            f"{kept:.1%}",
            one.samples,
            one.persons,
            in_ascii(percents(one.accuracy)),
            f"{one.blind:.1%}",
        ]
        for one in found.together.told
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Run, print and write."""
    options = parse_arguments(__doc__ or "", argv)
    if options.data is None:
        raise LowtideError("the tweets are not part of Lowtide; say where they are with --data DIR")
    fewer = _QUICK if options.quick else 1
    known = tweets(options.data, ("train", "val"), _PLANNED // fewer, options.seed)
    others = tweets(options.data, ("test",), _RELEASED // fewer, options.seed + 1)
    rows = told("nothing hidden", others["text"], others, 1.0, options.seed)
    plans: dict[str, dict[str, Any]] = {"80 % of the words": {"kept": 0.8}}
    plans[f"{_BUDGET} after {_HISTORY} tweets"] = {"budget": _BUDGET, "history": _HISTORY}
    for name, asked in plans.items():
        made = plan(
            known["text"],
            known["party"],
            group=known["author"],
            kind="texts",
            policy="fixed",
            progress=False,
            **asked,
        )
        shared = release(others["text"], made)
        rows += told(name, list(shared.data), others, 1.0 - shared.card.changed, options.seed)
        if made.card.standing is not None:
            print(f"{name}: {made.card.standing}", flush=True)
    columns = ("release", "words kept", "tweets", "authors", "right about the party", "blind")
    print_table(
        f"Tweets of {_RELEASED // fewer:,}: what several of one author tell together", columns, rows
    )
    if options.json is not None:
        write_json(options.json, {"rows": rows})


if __name__ == "__main__":
    main()
