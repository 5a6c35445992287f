"""Training by several processes: the same losses as by one, up to rounding, and the same weights in each of them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from lowtide import TIDE, worlds
from lowtide.density import bag_fitting, bag_training
from lowtide.density.bag_fitting import BagData, TermStart
from lowtide.density.parallel import own_share, processes
from lowtide.texts import streaming

PROGRAM = """
import json, sys
import torch.distributed
import test_parallel

rank, meeting = int(sys.argv[1]), sys.argv[2]
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
print(json.dumps(getattr(test_parallel, sys.argv[3])()))
torch.distributed.destroy_process_group()
"""
WORLD = worlds.shifted_gaussian(2, dimension=4, moved=2)


class Stream:
    """4,000 rows of a world, in batches."""

    def __iter__(self):
        for start in range(0, 4000, 500):
            x, s = WORLD.sample(500, seed=start)
            yield x.astype(np.float32), s


def of_a_table():
    """What a fit finds: its held-out losses, and what it answers."""
    tide = TIDE(max_steps=200, progress=False, random_state=3).fit(Stream())
    x, _ = WORLD.sample(50, seed=99)
    return {"losses": tide.artefact.report.candidates, "answers": tide.density(x).ravel().tolist()}


def text_batches():
    """3,000 texts of a world, in batches; two further words of each tell a bit together, and nothing alone."""
    world = worlds.naive_bayes_text(40, 2, length=3.0)
    for start in range(0, 3000, 500):
        sequences, s = world.sample_sequences(500, start)
        first = np.random.default_rng(start).integers(0, 2, 500)
        pairs = zip(first, first ^ s, strict=True)
        yield [f"first{a} second{b} {world.text(words)}" for (a, b), words in zip(pairs, sequences, strict=True)], s


def of_texts():
    """The same for a stream of texts, by two networks."""
    streaming.KEPT, bag_fitting._MEMBERS = 1500, 2
    batches = list(text_batches())
    tide = TIDE(max_steps=250, progress=False, random_state=3).fit(batches)
    return {"losses": tide.artefact.report.candidates, "answers": tide.density(batches[0][0][:50]).ravel().tolist()}


def test_one_process_works_on_whole_batches():
    assert processes() == 1
    assert own_share(64) == (slice(None), 1.0)


@pytest.mark.parametrize("member", range(3))
def test_gradients_of_parts_add_up_to_those_of_the_batch(member, monkeypatch):
    x, s = worlds.naive_bayes_text(50, 3).sample(640, seed=0)
    data = BagData(x.tocsr(), s, np.arange(640), np.log(np.full(3, 1 / 3)), 10, "dv", 0, 3)

    def gradients(first, last):
        monkeypatch.setattr(bag_training, "own_share", lambda _: (slice(first, last), (last - first) / 41))
        trainer = bag_training.BagTrainer(data, TermStart("log", 1.0), data.odds("log"), member)
        trainer.learn(data.rows[:41], data.s[:41])
        return torch.cat([trainer.weights[name].grad.reshape(-1) for name in trainer.learned])

    whole, parts = gradients(0, 41), [gradients(0, 13), gradients(13, 26), gradients(26, 41)]
    assert torch.allclose(sum(parts), whole, atol=1e-7)
    assert whole.abs().max() > 1e-2
    assert not torch.allclose(3 * parts[0], whole, atol=1e-3), "the parts are not alike"


@pytest.mark.filterwarnings("ignore:the training estimate")
@pytest.mark.parametrize(
    ("fitted", "something", "rounding"),
    [(of_a_table, "masked, sparsity 0", 5e-4), (of_texts, "terms and networks", 1e-3)],
)
def test_two_processes_end_where_one_does(fitted, something, rounding, tmp_path, monkeypatch):
    for module, name in ((streaming, "KEPT"), (bag_fitting, "_MEMBERS")):
        monkeypatch.setattr(module, name, getattr(module, name))  # put back afterwards
    paths = [*sys.path, str(Path(__file__).parent)]
    variables = {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
    both = [
        subprocess.Popen(  # noqa: S603 - the program above
            [*command, str(rank), str(tmp_path / "meeting"), fitted.__name__],
            stdout=subprocess.PIPE,
            env={**os.environ, **variables},
        )
        for rank in range(2)
    ]
    one, two = fitted(), [json.loads(process.communicate(timeout=300)[0]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert two[0] == two[1]
    assert two[0]["losses"] == pytest.approx(one["losses"], abs=rounding)
    # Where a gradient is 0 but for rounding, Adam makes a step of it, so that answers differ by more than rounding.
    assert two[0]["answers"] == pytest.approx(one["answers"], abs=0.03)
    assert one["losses"][something] > 0.1, "there is something to learn"
