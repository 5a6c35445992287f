"""Which words of one text give its writer away, and which to leave out."""

import numpy as np

from lowtide import TIDE, warn

rng = np.random.default_rng(0)
everyday = ["we", "walked", "to", "the", "market", "again", "this", "morning"]
homes = rng.integers(0, 2, 300)
texts = [
    " ".join(
        [*rng.choice(everyday, 6), rng.choice(["tide", "boats"] if home else ["meadow", "cows"])]
    )
    for home in homes
]
model = TIDE(max_steps=32, progress=False).fit(texts, np.where(homes, "coast", "hills")).artefact
print(warn("this morning we walked to the boats", model, budget=0.2))
