"""Training by several processes: the same losses as by one, up to rounding, and the same weights in each of them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lowtide import TIDE, worlds
from lowtide.density.parallel import own_share, processes

PROGRAM = """
import json, sys
import torch.distributed
from test_parallel import fitted

rank, meeting = int(sys.argv[1]), sys.argv[2]
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
print(json.dumps(fitted()))
torch.distributed.destroy_process_group()
"""
WORLD = worlds.shifted_gaussian(2, dimension=4, moved=2)


class Stream:
    """4,000 rows of a world, in batches."""

    def __iter__(self):
        for start in range(0, 4000, 500):
            x, s = WORLD.sample(500, seed=start)
            yield x.astype(np.float32), s


def fitted():
    """What a fit finds: its held-out losses, and what it answers."""
    tide = TIDE(max_steps=200, progress=False, random_state=3).fit(Stream())
    x, _ = WORLD.sample(50, seed=99)
    return {"losses": tide.artefact.report.candidates, "answers": tide.density(x).ravel().tolist()}


def test_one_process_works_on_whole_batches():
    assert processes() == 1
    assert own_share(64) == (slice(None), 1.0)


@pytest.mark.filterwarnings("ignore:the training estimate")
def test_two_processes_end_where_one_does(tmp_path):
    paths = [*sys.path, str(Path(__file__).parent)]
    variables = {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
    both = [
        subprocess.Popen(  # noqa: S603 - the program above
            [*command, str(rank), str(tmp_path / "meeting")], stdout=subprocess.PIPE, env={**os.environ, **variables}
        )
        for rank in range(2)
    ]
    one, two = fitted(), [json.loads(process.communicate(timeout=300)[0]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert two[0] == two[1]
    assert two[0]["losses"] == pytest.approx(one["losses"], abs=5e-4)
    assert two[0]["answers"] == pytest.approx(one["answers"], abs=0.03)
    assert one["losses"]["masked, sparsity 0"] > 0.1, "there is something to learn"
