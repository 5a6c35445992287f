"""Estimators of the package `diffusion-mi`, run by the Python of an environment that has it.

It brings its own PyTorch and Lightning, so this file imports nothing of ours.
`public_benchmarks.py` calls it:

    python dmi_tasks.py PAIRS SEED NAME...      estimates by these estimators, as JSON

`PAIRS` is an `.npz` file with `x` and `y`. As the estimators of `benchmark-mi` do, each learns from
the first half of the pairs and estimates on the second.
"""

from __future__ import annotations

import io
import json
import logging
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import numpy as np
import torch
from dmi import estimators as peers

# of gradient descent, and the pairs of one
_STEPS = 2_000
_BATCH = 256


def _epochs(pairs: int) -> int:
    return max(1, round(_STEPS * _BATCH / pairs))


# MINDE's own rate, 5e-5, is for its default of a thousand epochs.
ESTIMATORS: dict[str, Callable[[int], Any]] = {
    "MINDE": lambda n: peers.MINDEEstimator(
        learning_rate=1e-3, batch_size=_BATCH, max_epochs=_epochs(n)
    ),
    "SMILE": lambda _: peers.SMILEEstimator(batch_size=_BATCH, max_n_steps=_STEPS),
    "DIME": lambda n: peers.DIMEEstimator(
        batch_size=_BATCH, max_n_steps=_STEPS, max_epochs=_epochs(n)
    ),
}


def run(place: str, seed: int, names: list[str]) -> dict[str, Any]:
    """Estimate the information of drawn pairs by these estimators."""
    with np.load(place) as drawn:
        x, y = (drawn[name].astype(np.float32) for name in "xy")
    half = len(x) // 2
    found = {}
    for name in names:
        torch.manual_seed(seed)
        start = time.process_time()
        estimator = ESTIMATORS[name](half)
        estimator.fit(x[:half], y[:half])
        value = float(estimator.estimate(x[half:], y[half:]))
        # JSON has no NaN: an estimator that gives none has not answered.
        found[name] = {
            "information": value if np.isfinite(value) else None,
            "seconds": time.process_time() - start,
        }
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for library in ("lightning.pytorch", "pytorch_lightning"):
        logging.getLogger(library).setLevel(logging.ERROR)
    torch.set_num_threads(1)
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):  # they print as they go
        answer = run(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
    print(json.dumps(answer))
