"""Which columns give the vote away, a release without it, and what attackers still read. Runs
without PyTorch.
"""

import numpy as np
import pandas as pd

from lowtide import audit, plan, release, scan

rng = np.random.default_rng(0)
vote = rng.integers(0, 2, 400)
people = pd.DataFrame(
    {
        "town": np.where(rng.random(400) < 0.2 + 0.6 * vote, "harbour", "hill"),
        "age": rng.normal(42, 12, 400).round(),
        "club": rng.choice(["chess", "choir", "none"], 400),
        "vote": np.where(vote, "red", "blue"),
    }
)

print(scan(people, "vote", steps=60, progress=False))  # the town tells
made = plan(people, "vote", policy="fixed", kept=0.6, steps=60, progress=False)
shared = release(people, made, progress=False)
print(shared.card)
print(audit(shared.data, people, "vote", attackers=["boosted trees"], progress=False))
