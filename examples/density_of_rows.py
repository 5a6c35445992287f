"""TIDE as an estimator: how much each row tells, feature by feature; saved, loaded, and asked
again.
"""

import tempfile
from pathlib import Path

import numpy as np

from lowtide import TIDE, Density

rng = np.random.default_rng(0)
secret = rng.integers(0, 2, 500)
rows = rng.normal(size=(500, 3))
rows[:, 0] += secret

tide = TIDE(max_steps=80, progress=False).fit(rows, secret)
print(f"rows tell {tide.information_.value:.3f} nat of the secret")
with tempfile.TemporaryDirectory() as folder:
    tide.artefact.save(Path(folder) / "density")
    again = Density.load(Path(folder) / "density")  # needs no PyTorch
    print(again.conditionals(rows[:3]).round(2))
