"""The verbs as `df.lowtide`, for pandas and polars."""

import numpy as np
import polars as pl

import lowtide.frames  # noqa: F401 - gives data frames `.lowtide`

rng = np.random.default_rng(0)
sick = rng.integers(0, 2, 300)
visits = pl.DataFrame(
    {
        "days": rng.poisson(3 + 4 * sick),
        "ward": rng.choice(["a", "b"], 300),
        "sick": np.where(sick, "yes", "no"),
    }
)
found = visits.lowtide.scan(secret="sick", steps=60, progress=False)
print(found)
