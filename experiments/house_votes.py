"""House votes of 1984 (435 members, 16 votes): hide the party, keep as many votes as possible."""

from __future__ import annotations

import numpy as np

from lowtide.report.console import parse_arguments
from table_frontiers import load, run, task


def main() -> None:
    """Judge the fixed policy and its rivals."""
    options = parse_arguments(__doc__ or "")
    table = load(options.data, "house_votes_84.csv")
    train = np.random.default_rng([options.seed, 84]).random(len(table)) < 0.6
    job = task("house votes", table, "party", None, train, options.seed)
    run(job, (0.1,) if options.quick else (0.2, 0.1, 0.03), options.quick, options.json, limit=0.75)


if __name__ == "__main__":
    main()
