"""Tasks and estimators of the package `benchmark-mi`, run by the Python of an environment that has
it.

It needs an older jax and NumPy than Lowtide, so this file imports nothing of ours.
`public_benchmarks.py` calls it:

    python bmi_tasks.py list                                    every task and its family, as JSON
    python bmi_tasks.py run TASK FOLDER PAIRS SEED NAME...      estimates by these estimators, as
    JSON

`run` writes the pairs to `FOLDER/TASK.npz`: `x`, `y`; of the laws whose pointwise information is
known also fresh pairs `test_x`, `test_y` and their `truth`. The density that an estimator finds at
these goes to `FOLDER/TASK-NAME.npy`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bmi.estimators as peers
import jax
import jax.numpy as jnp
import numpy as np
from bmi.benchmark import task_list, tasks
from bmi.utils import ProductSpace
from jax.scipy.special import logsumexp

_TEST_SEED = 1_000_000  # keeps fresh pairs apart from those that are learnt from
_PARTNERS = 1_000  # values of y, against which a critic is normalised
FAMILIES: dict[str, list[Any]] = {
    "one-dimensional": task_list.ONE_DIM_TASKS,
    "embedding": task_list.EMBEDDINGS_TASKS,
    "multinormal": task_list.MULTINORMAL_TASKS,
    "Student": task_list.STUDENT_TASKS,
    "transformed": task_list.TRANSFORMED_TASKS,
}
LAWS: dict[str, Callable[[], Any]] = {
    "X": tasks.task_x,
    "AI": tasks.task_ai,
    "Galaxy": tasks.task_galaxy,
    "Waves": tasks.task_waves,
    "Concentric-3": lambda: tasks.task_concentric_multinormal(3),
    "Concentric-5": lambda: tasks.task_concentric_multinormal(5),
    "Inliers-3x3": lambda: tasks.task_multinormal_sparse_w_inliers(3, 3),
    "Inliers-5x5": lambda: tasks.task_multinormal_sparse_w_inliers(5, 5),
}
ESTIMATORS: dict[str, Callable[[int], Any]] = {
    "CCA": lambda _: peers.CCAMutualInformationEstimator(),
    "KSG": lambda _: peers.KSGEnsembleFirstEstimator(),
    "MINE": lambda seed: peers.MINEEstimator(verbose=False, seed=seed),
    "DV": lambda seed: peers.DonskerVaradhanEstimator(verbose=False, seed=seed),
    "NWJ": lambda seed: peers.NWJEstimator(verbose=False, seed=seed),
    "InfoNCE": lambda seed: peers.InfoNCEEstimator(verbose=False, seed=seed),
}


def listed() -> list[dict[str, str]]:
    """Every task: its identifier, family and name."""
    found = [
        {"task": one.id, "family": family, "name": one.name}
        for family, members in FAMILIES.items()
        for one in members
    ]
    return [*found, *({"task": name, "family": "Bend and Mix", "name": name} for name in LAWS)]


def draw(task: Any, pairs: int, seed: int, *, pointwise: bool) -> dict[str, Any]:
    """Pairs of a task, and if `pointwise` as many fresh ones with the true information of each, in
    nats.
    """
    x, y = task.sample(pairs, seed=seed)
    drawn = {"x": x, "y": y}
    if pointwise:
        test_x, test_y = task.sample(pairs, seed=seed + _TEST_SEED)
        base = task.sampler
        while hasattr(
            base, "_base_sampler"
        ):  # one-to-one maps of x and of y leave the information of a pair as it is
            base = base._base_sampler
        drawn |= {"test_x": test_x, "test_y": test_y}
        drawn["truth"] = base._dist.pmi(*base.sample(pairs, rng=seed + _TEST_SEED))
    return {name: np.asarray(value, dtype=np.float64) for name, value in drawn.items()}


def density(name: str, critic: Any, drawn: dict[str, Any]) -> Any:
    """The density that a trained critic means at the fresh pairs, (n,), in nats.

    NWJ's critic is the density plus 1. That of MINE and of DV has a free constant, and InfoNCE's a
    free function of x: they are set so that the exponential has mean 1 over values of y from the
    pairs that were learnt from.
    """
    # The estimators standardise the pairs they are given, and their critics expect fresh ones in
    # the same units.
    x, y = ((drawn[f"test_{v}"] - drawn[v].mean(axis=0)) / drawn[v].std(axis=0) for v in "xy")
    values = jax.vmap(critic)(jnp.asarray(x), jnp.asarray(y))
    if name == "NWJ":
        return np.asarray(values - 1.0)
    partners = jnp.asarray(ProductSpace(drawn["x"], drawn["y"]).y[:_PARTNERS])
    # For every fresh x the log of the mean over partners, (n,).
    log_means = jax.lax.map(
        lambda one: logsumexp(jax.vmap(lambda b: critic(one, b))(partners)), jnp.asarray(x)
    )
    log_means = log_means - jnp.log(len(partners))
    shift = log_means if name == "InfoNCE" else logsumexp(log_means) - jnp.log(len(log_means))
    return np.asarray(values - shift)


def run(name: str, folder: Path, pairs: int, seed: int, estimators: list[str]) -> dict[str, Any]:
    """Draw a task's pairs, and estimate its information by these estimators."""
    known = {one.id: one for members in FAMILIES.values() for one in members}
    task = LAWS[name]() if name in LAWS else known[name]
    drawn = draw(task, pairs, seed, pointwise=name in LAWS)
    np.savez(folder / f"{name}.npz", **drawn)
    estimates = {}
    for one in estimators:
        start = time.process_time()
        estimator = ESTIMATORS[one](seed)
        # They get single precision, as the tasks draw it.
        value = float(
            estimator.estimate(drawn["x"].astype(np.float32), drawn["y"].astype(np.float32))
        )
        # JSON has no NaN: an estimator that gives none has not answered.
        estimates[one] = {
            "information": value if np.isfinite(value) else None,
            "seconds": time.process_time() - start,
        }
        critic = getattr(estimator, "trained_critic", None)
        if critic is not None and "truth" in drawn:
            np.save(folder / f"{name}-{one}.npy", density(one, critic, drawn))
    return {"truth": float(task.mutual_information), "estimates": estimates}


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["list"]:
            answer: Any = listed()
        case ["run", name, folder, pairs, seed, *estimators]:
            answer = run(name, Path(folder), int(pairs), int(seed), estimators)
        case _:
            sys.exit(__doc__)
    print(json.dumps(answer))
