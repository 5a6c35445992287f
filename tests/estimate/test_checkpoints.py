"""Ctrl-C loses nothing: a resumed fit gives the same bytes as one that was never interrupted."""

import numpy as np
import pytest

from lowtide import TIDE, worlds
from lowtide.errors import LowtideError
from lowtide.estimate.objectives import Checkpoints
from lowtide.estimate.training import MaskedTrainer

OPTIONS = {"critic": "masked", "max_steps": 120, "random_state": 3}
SAMPLE = worlds.shifted_gaussian(2, dimension=3, shift=1.5).sample(240, seed=0)


def interrupt_at(monkeypatch, step):
    """Press Ctrl-C after so many training steps in all."""
    original = MaskedTrainer.step
    calls = []

    def stepping(self, *arguments):
        if len(calls) == step:
            original(self, *arguments)
            self.done -= 1  # as in the middle of a step: weights moved, not yet counted
            raise KeyboardInterrupt
        calls.append(1)
        original(self, *arguments)

    monkeypatch.setattr(MaskedTrainer, "step", stepping)


def count_steps(monkeypatch):
    """A list that grows with every training step."""
    original = MaskedTrainer.step
    calls = []
    monkeypatch.setattr(
        MaskedTrainer, "step", lambda self, *a: (calls.append(1), original(self, *a))[1]
    )
    return calls


@pytest.mark.parametrize("step", [57, -20], ids=["while choosing", "while refitting"])
def test_resumes_where_it_stopped(step, monkeypatch, tmp_path):
    with monkeypatch.context() as patch:
        counted = count_steps(patch)
        whole = TIDE(**OPTIONS).fit(*SAMPLE)
        total = len(counted)
    stop = step % total
    with monkeypatch.context() as patch:
        interrupt_at(patch, stop)
        with pytest.raises(KeyboardInterrupt):
            TIDE(**OPTIONS, checkpoint=str(tmp_path)).fit(*SAMPLE)
    assert list(tmp_path.glob("*.safetensors"))
    steps = count_steps(monkeypatch)
    resumed = TIDE(**OPTIONS, checkpoint=str(tmp_path)).fit(*SAMPLE)
    np.testing.assert_array_equal(resumed.density(SAMPLE.x), whole.density(SAMPLE.x))
    redone = len(steps) - (total - stop)
    assert 0 <= redone < 40, "all but the steps since the last look is kept"
    assert not list(tmp_path.iterdir()), "a finished fit leaves nothing behind"


def test_another_fit_does_not_resume(monkeypatch, tmp_path):
    with monkeypatch.context() as patch:
        interrupt_at(patch, 50)
        with pytest.raises(KeyboardInterrupt):
            TIDE(**OPTIONS, checkpoint=str(tmp_path)).fit(*SAMPLE)
    different = {**OPTIONS, "random_state": 4}
    other = TIDE(**different, checkpoint=str(tmp_path)).fit(*SAMPLE)
    plain = TIDE(**different).fit(*SAMPLE)
    np.testing.assert_array_equal(other.density(SAMPLE.x), plain.density(SAMPLE.x))
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_is_refused_before_the_work(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    counted = count_steps(monkeypatch)
    with pytest.raises(LowtideError, match="cannot keep checkpoints"):
        TIDE(**OPTIONS, checkpoint=str(tmp_path / "file" / "below")).fit(*SAMPLE)
    assert not counted


def test_a_damaged_checkpoint_is_named(tmp_path):
    (tmp_path / "choose.safetensors").write_bytes(b"half a file")
    with pytest.raises(LowtideError, match=r"choose\.safetensors is damaged; delete it"):
        Checkpoints(tmp_path, "mark").load("choose")


def test_refuses_a_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LowtideError, match="cannot keep checkpoints"):
        Checkpoints(tmp_path / "file" / "below", "mark")
