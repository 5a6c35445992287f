"""Work that is spread over processes: the same results as from one, what workers say, and what ends
them.
"""

import json
import os
import signal

import numpy as np
import pyarrow as pa
import pytest

from lowtide import LowtideError, audit, scan
from lowtide.engines.mapping import spread_over
from lowtide.errors import LowtideNote, note
from lowtide.spread import mapped
from lowtide.training import computing_on, device_in_use

pytestmark = pytest.mark.xdist_group("processes")


@pytest.fixture
def survey():
    rng = np.random.default_rng([3, 20])
    vote = rng.integers(0, 2, 240)
    place = np.array(["north", "south", "west"])[np.minimum(rng.integers(0, 3, 240), 1 + vote)]
    return pa.table(
        {"age": rng.integers(18, 90, 240), "place": place, "vote": np.array(["a", "b"])[vote]}
    )


def plain(found):
    return json.dumps(found.to_json(), sort_keys=True)


@pytest.mark.filterwarnings("ignore::lowtide.errors.LowtideNote")
def test_an_audit_by_two_processes_is_the_same(survey):
    asked = {"attackers": ["logistic regression", "network", "surface"], "progress": False}
    release = survey.drop_columns(["vote"])
    one = audit(release, survey, "vote", **asked)
    two = audit(release, survey, "vote", workers=2, **asked)
    assert plain(two) == plain(one)
    assert one.attacks.headline.information.low > 0


@pytest.mark.filterwarnings("ignore")
def test_a_scan_by_two_processes_is_the_same(survey):
    one = scan(survey, "vote", steps=40, progress=False)
    two = scan(survey, "vote", steps=40, workers=2, progress=False)
    assert plain(two) == plain(one)


def processes(_):
    return os.getpid()


def refuses(item):
    raise LowtideError(f"item {item} cannot be read; leave it out")


def notes(item):
    note(f"item {item} is odd")
    return item, device_in_use().type


def is_killed(item):
    if item == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def test_results_come_in_order_from_other_processes():
    held = 3
    with spread_over(2):
        found = list(
            mapped(lambda item: (item + held, os.getpid()), range(5))
        )  # with what it holds
    assert [value for value, _ in found] == [3, 4, 5, 6, 7]
    assert os.getpid() not in {process for _, process in found}
    assert set(mapped(processes, range(3))) == {os.getpid()}, (
        "afterwards and by default it is this process"
    )


def test_what_workers_say_and_refuse_is_heard_here():
    with spread_over(2), computing_on("cpu"):
        with pytest.warns(LowtideNote, match="item 1 is odd"):
            assert list(mapped(notes, [0, 1])) == [(0, "cpu"), (1, "cpu")]
        with pytest.raises(LowtideError, match=r"^item 4 cannot be read; leave it out$"):
            list(mapped(refuses, [4]))


def test_a_worker_that_is_killed_is_named_as_the_cause():
    with (
        spread_over(2),
        pytest.raises(LowtideError, match="a worker was killed, probably for want of memory"),
    ):
        list(mapped(is_killed, range(4)))


@pytest.mark.filterwarnings("ignore::lowtide.errors.LowtideNote")
@pytest.mark.parametrize(
    ("how", "message"), [({"workers": 0}, "workers"), ({"address": "auto"}, "address is for")]
)
def test_what_cannot_be_spread_is_refused_before_the_data_is_read(how, message):
    for verb in (scan, audit):
        with pytest.raises(LowtideError, match=message):
            verb(*(("nowhere.csv",) * (2 if verb is audit else 1)), "vote", **how)
