"""Other people's benchmark: the tasks of `benchmark-mi`, its estimators, those of `diffusion-mi`,
and `VectorTIDE`.

40 tasks, in five families, whose mutual information is known, and eight laws of its kind "Bend and
Mix", whose information is also known at every single pair. Every estimator gets the same pairs. Two
errors are printed: that of the information, by family, and, for the eight laws, the mean error of
the density at fresh pairs, estimate and truth clipped to ±5 nats.

The packages need other versions of jax, NumPy and PyTorch than Lowtide, and each lives in an
environment of its own. `--bmi-python` and `--dmi-python` name their Pythons; without them, they are
made in the folder `--work`, from the package index, with this Python (3.10 or 3.11). What was
estimated is kept in `--work`, too: a stopped run goes on, and a longer one adds to it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lowtide.errors import LowtideError
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.types import Floats
from vectors import VectorTIDE

# What the environment of each package holds; newer versions of jax fail at the import of the first.
_NEEDS = {
    "bmi": ("benchmark-mi==0.1.3", "jax==0.4.33", "jaxlib==0.4.33"),
    "dmi": ("diffusion-mi==0.1.0",),
}
_LAWS = "Bend and Mix"
_FAMILIES = ("one-dimensional", "embedding", "multinormal", "Student", "transformed", _LAWS)
_PEERS = {"bmi": ("CCA", "KSG", "MINE", "DV", "NWJ", "InfoNCE"), "dmi": ("MINDE", "SMILE", "DIME")}
_TRIM = 5.0  # nats
_PAIRS = 5_000
_QUICK_PAIRS = 1_000
_QUICK = ("1v1-normal-0.75", "X")
Found = dict[str, Any]


class Peers(NamedTuple):
    """The Pythons that have the packages, those that are missing made when they are asked for."""

    work: Path
    given: dict[str, Path | None]

    def python(self, package: str) -> Path:
        """The Python of an environment with `package`."""
        return self.given[package] or environment(self.work, package)

    def ask(self, package: str, *arguments: str) -> Any:
        """What `peers/bmi_tasks.py` or `peers/dmi_tasks.py` answers, run by another Python on one
        thread.
        """
        python = self.python(package)
        script = Path(__file__).parent / "peers" / f"{package}_tasks.py"
        one_thread = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        found = {
            **os.environ,
            "XLA_FLAGS": one_thread,
            "OMP_NUM_THREADS": "1",
            "JAX_PLATFORMS": "cpu",
        }
        # Isolated: a module beside the script, such as our `estimators`, must not hide one of the
        # package.
        command = [str(python), "-I", "-W", "ignore", str(script), *arguments]
        done = subprocess.run(command, env=found, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            raise LowtideError(
                f"{python} {script.name} {' '.join(arguments)} failed: {done.stderr.strip()[-500:]}"
            )
        return json.loads(done.stdout.splitlines()[-1])


def environment(work: Path, package: str) -> Path:
    """The Python of an environment with `package` in the folder `work`, made if it is not there."""
    place = work / f"{package}-env"
    needs = _NEEDS[package]
    python = place / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not python.exists():
        commands = [
            [sys.executable, "-m", "venv", str(place)],
            [str(python), "-m", "pip", "install", *needs],
        ]
        for command in commands:
            if subprocess.run(command, check=False).returncode:  # noqa: S603
                raise LowtideError(
                    f"{' '.join(command)} failed; make an environment with {', '.join(needs)}"
                    f" yourself and name its Python with --{package}-python"
                )
    return python


def density_error(estimate: Floats, truth: Floats) -> float:
    """Mean |estimate − truth| of densities (n,), both clipped to ±5 nats."""
    return float(np.abs(np.clip(estimate, -_TRIM, _TRIM) - np.clip(truth, -_TRIM, _TRIM)).mean())


def tide(pairs: Path, seed: int) -> Found:
    """`VectorTIDE` on drawn pairs: its cross-fitted information with the interval, and the density
    error if known.
    """
    drawn = np.load(pairs)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = VectorTIDE(trim=_TRIM, progress=False, random_state=seed).fit(
            drawn["x"], drawn["y"]
        )
    held_out = fitted.information_
    report = fitted.artefact.report
    if held_out is None or report is None:
        raise LowtideError(
            "VectorTIDE must be fitted with the recipe 'lowtide', which holds rows out"
        )
    found: Found = {
        "information": held_out.value,
        "low": held_out.low,
        "high": held_out.high,
        "critic": report.chosen,
        "seconds": time.process_time() - start,
    }
    if "truth" in drawn:
        found["density error"] = density_error(
            fitted.density(drawn["test_x"], drawn["test_y"]), drawn["truth"]
        )
    return found


def estimated(
    asked: Peers, task: str, folder: Path, pairs: int, seed: int, names: Sequence[str]
) -> Found:
    """All estimates of one task; those in `folder` are taken from there."""
    kept = folder / f"{task}.json"
    found: Found = (
        json.loads(kept.read_text()) if kept.exists() else {"task": task, "estimates": {}}
    )
    missing = [name for name in names if name in _PEERS["bmi"] and name not in found["estimates"]]
    if missing or "truth" not in found:
        answer = asked.ask("bmi", "run", task, str(folder), str(pairs), str(seed), *missing)
        found["truth"] = answer["truth"]
        found["estimates"] |= answer["estimates"]
        truth = np.load(folder / f"{task}.npz").get("truth")
        if truth is not None:
            found["nothing"] = density_error(np.zeros_like(truth), truth)
        for name in missing:
            at_pairs = folder / f"{task}-{name}.npy"
            if at_pairs.exists():
                found["estimates"][name]["density error"] = density_error(np.load(at_pairs), truth)
    missing = [name for name in names if name in _PEERS["dmi"] and name not in found["estimates"]]
    if missing:
        found["estimates"] |= asked.ask("dmi", str(folder / f"{task}.npz"), str(seed), *missing)
    if "TIDE" not in found["estimates"]:
        found["estimates"]["TIDE"] = tide(folder / f"{task}.npz", seed)
    write_json(kept, found)
    return found


def errors(found: Sequence[Found], name: str) -> Floats:
    """|estimate − truth| of one estimator over the tasks at which it gave a number."""
    given = [(one["estimates"][name]["information"], one["truth"]) for one in found]
    return np.array([abs(value - truth) for value, truth in given if value is not None])


def by_family(found: Sequence[Found], names: Sequence[str]) -> list[list[object]]:
    """Family, tasks, and of each estimator the mean and the largest error; tasks without an answer
    are counted.
    """
    rows: list[list[object]] = []
    for family in dict.fromkeys(one["family"] for one in found):
        members = [one for one in found if one["family"] == family]
        row: list[object] = [family, len(members)]
        for name in names:
            off = errors(members, name)
            failed = f", {len(members) - len(off)} failed" if len(off) < len(members) else ""
            row.append(f"{off.mean():.3f} / {off.max():.3f}{failed}" if len(off) else "failed")
        rows.append(row)
    return rows


def show(found: Sequence[Found], peers: Sequence[str], pairs: int) -> None:
    """Print the tables."""
    names = ["TIDE", *peers]
    each = [
        [
            one["name"],
            f"{one['truth']:.3f}",
            *(_figure(one["estimates"][name].get("information")) for name in names),
        ]
        for one in found
    ]
    print_table(f"Information in nats, from {pairs:,} pairs", ["task", "truth", *names], each)
    title = "Error of the information in nats: mean / largest of the family"
    print_table(title, ["family", "tasks", *names], by_family(found, names))
    laws = [one for one in found if "nothing" in one]
    critics = [
        name for name in names if any("density error" in one["estimates"][name] for one in laws)
    ]
    rows = [
        [
            one["name"],
            _figure(one["nothing"]),
            *(_figure(one["estimates"][name].get("density error")) for name in critics),
        ]
        for one in laws
    ]
    print_table("Mean error of the density at fresh pairs, nats", ["law", "g = 0", *critics], rows)
    held = sum(
        one["estimates"]["TIDE"]["low"] <= one["truth"] <= one["estimates"]["TIDE"]["high"]
        for one in found
    )
    print(f"The interval of TIDE's information_ holds the truth in {held} of {len(found)} tasks.")
    seconds = {
        name: np.mean([one["estimates"][name]["seconds"] for one in found]) for name in names
    }
    print(
        "Processor seconds a task: "
        + ", ".join(f"{name} {value:.1f}" for name, value in seconds.items())
    )


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def options_of(argv: Sequence[str] | None) -> argparse.Namespace:
    """The common options and those of this experiment."""
    own = argparse.ArgumentParser(add_help=False, usage=argparse.SUPPRESS)
    for package, (needs, *_) in _NEEDS.items():
        about = f"Python that has {needs.partition('==')[0]} (default: make one)"
        own.add_argument(f"--{package}-python", type=Path, metavar="FILE", help=about)
    own.add_argument(
        "--work",
        type=Path,
        default=Path("benchmark-work"),
        metavar="DIR",
        help="where results are kept",
    )
    own.add_argument(
        "--pairs", type=int, metavar="N", help=f"that estimators learn from (default: {_PAIRS:,})"
    )
    peers = [name for names in _PEERS.values() for name in names]
    own.add_argument(
        "--peers", nargs="+", choices=peers, default=peers, help="estimators beside TIDE"
    )
    own.add_argument(
        "--families", nargs="+", choices=_FAMILIES, default=list(_FAMILIES), help="of tasks"
    )
    mine, rest = own.parse_known_args(argv)
    common = parse_arguments(
        f"{__doc__}\n{own.format_help().replace('options:', 'more options:')}", rest
    )
    return argparse.Namespace(**vars(common), **vars(mine))


def main(argv: Sequence[str] | None = None) -> None:
    """Run every estimator on every task, print and write."""
    options = options_of(argv)
    pairs = options.pairs or (_QUICK_PAIRS if options.quick else _PAIRS)
    asked = Peers(options.work, {"bmi": options.bmi_python, "dmi": options.dmi_python})
    folder = options.work / f"{pairs}-pairs-seed-{options.seed}"
    folder.mkdir(parents=True, exist_ok=True)
    tasks = [one for one in asked.ask("bmi", "list") if one["family"] in options.families]
    found = []
    for one in tasks:
        if options.quick and one["task"] not in _QUICK:
            continue
        found.append(
            one | estimated(asked, one["task"], folder, pairs, options.seed, options.peers)
        )
        print(
            f"{one['name']}: TIDE {found[-1]['estimates']['TIDE']['information']:.3f}",
            file=sys.stderr,
            flush=True,
        )
    show(found, options.peers, pairs)
    if options.json:
        write_json(options.json, {"pairs": pairs, "seed": options.seed, "tasks": found})


if __name__ == "__main__":
    main()
