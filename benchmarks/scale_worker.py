"""One task of `scale.py` in a process of its own, which loads nothing that the task does not need.

`alone` starts it; it prints the seconds, those of the processor, and the peak of the memory, as
JSON.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any


def peak_megabytes() -> float:
    """The most memory this process has held."""
    status = Path("/proc/self/status")
    if status.exists():  # where `getrusage` may speak of the parent
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1e6 if sys.platform == "darwin" else 1e3
    )


def again(source: Path, target: Path) -> None:
    """Decode and encode every file, on as many threads as a release takes, and nothing else."""
    from lowtide.images.files import decode, encode, look, spread  # see above

    target.mkdir()

    def one(path: Path) -> None:
        pixels = decode(path, channels=3)
        (target / path.name).write_bytes(encode(pixels, ".jpg", coding=coding))

    files = sorted(source.iterdir())
    coding = look(files[0]).coding
    spread(one, files)


def work(source: Path, made: Path | None, target: Path, how: dict[str, Any]) -> dict[str, float]:
    """Release a file or folder, or without a plan decode and encode it."""
    from lowtide import Plan, release  # see above

    warnings.simplefilter("ignore")
    if made is not None:
        Plan.load(made)  # imports are not counted
    before = peak_megabytes()
    start = time.perf_counter()
    spent = os.times()
    if made is None:
        again(source, target)
    else:
        release(source, made, target, progress=False, **how)
    used = os.times()
    return {
        "seconds": time.perf_counter() - start,
        "processor": sum(used[:4]) - sum(spent[:4]),
        "own processor": sum(used[:2]) - sum(spent[:2]),
        "before": before,
        "peak": peak_megabytes(),
    }


def alone(source: Path, made: Path | None, target: Path, **how: Any) -> dict[str, float]:
    """Do a task in a process of its own; an older target goes."""
    if target.is_dir():
        shutil.rmtree(target)
    asked = json.dumps([str(source), None if made is None else str(made), str(target), how])
    done = subprocess.run(  # noqa: S603 - this file
        [sys.executable, "-W", "ignore", __file__, asked],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    source, made, target, how = json.loads(sys.argv[1])
    print(json.dumps(work(Path(source), None if made is None else Path(made), Path(target), how)))
