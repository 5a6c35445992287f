"""Ray as the engine: the same values as from one process, and what is wrong said plainly. One
cluster for all tests.
"""

import contextlib
import os
import signal
import threading
import warnings
from pathlib import Path

import pytest

from lowtide import LowtideError, release
from lowtide.engines.mapping import spread_over
from lowtide.engines.ray_engine import RayEngine, _import_ray
from lowtide.engines.unfinished import check_shards
from lowtide.spread import mapped
from lowtide.table_files.reading import read

pytest.importorskip("ray")
usage_lib = pytest.importorskip("ray._common.usage.usage_lib")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.xdist_group("ray")]


@pytest.fixture(scope="module")
def cluster():
    with RayEngine(2, None):
        yield _import_ray()


def test_nothing_is_reported_to_anybody(cluster):
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert not usage_lib.usage_stats_enabled()


@pytest.mark.parametrize("name", ["redact", "noise", "redraw"])
def test_ray_releases_the_same_values(name, cluster, plans, file, whole, tmp_path):
    out = tmp_path / "shared"
    done = release(
        file, plans[name], out, ids="id", workers=2, shards=500, engine="ray", progress=False
    )
    assert read(out).equals(read(whole(name).data))
    assert done.card.changed == whole(name).card.changed
    assert done.card.rows == 2_000
    check_shards(out)
    assert not (tmp_path / "shared.unfinished").exists()


@pytest.mark.parametrize("ranges", [True, False])
def test_ray_reads_urls(ranges, cluster, plans, file, whole, serve, tmp_path):
    out = tmp_path / "shared"
    with serve(file.parent, ranges=ranges) as (address, _):
        release(
            f"{address}/*.parquet",
            plans["noise"],
            out,
            ids="id",
            workers=2,
            shards=700,
            engine="ray",
            progress=False,
        )
    assert read(out).equals(read(whole("noise").data))


def test_a_folder_that_is_used_again_is_released_by_its_own_plan(
    cluster, plans, file, whole, tmp_path
):
    """The processes of the cluster live on, and have the plan of the first release loaded."""
    out = tmp_path / "shared.parquet"
    for name in ("noise", "redact"):
        release(file, plans[name], out, ids="id", workers=2, engine="ray", progress=False)
        assert read(out).equals(read(whole(name).data))


def working():
    """Processes of Ray that are releasing a part, by what they call themselves."""
    for status in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if status.read_bytes().startswith(b"ray::") and b"PartRelease" in status.read_bytes():
                yield int(status.parent.name)


@pytest.mark.skipif(
    not Path("/proc/self/cmdline").exists(), reason="needs /proc, to find the processes of Ray"
)
def test_ray_releases_the_same_values_though_a_process_is_killed(
    cluster, plans, file, whole, tmp_path
):
    out = tmp_path / "shared"
    killed = []
    ended = threading.Event()

    def kill_one():
        while not killed and not ended.is_set():
            for process in working():
                os.kill(process, signal.SIGKILL)
                killed.append(process)
                break

    killer = threading.Thread(target=kill_one)
    killer.start()
    try:
        release(
            file,
            plans["redraw"],
            out,
            ids="id",
            workers=2,
            shards=100,
            engine="ray",
            progress=False,
        )
    finally:
        ended.set()
        killer.join()
    assert killed
    assert read(out).equals(read(whole("redraw").data))
    check_shards(out)


def test_settings_of_ray_data_are_given_back(cluster, plans, file, tmp_path):
    context = pytest.importorskip("ray.data").DataContext.get_current()
    before = context.enable_progress_bars, context.op_resource_reservation_enabled
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        release(
            file,
            plans["redact"],
            tmp_path / "shared.parquet",
            ids="id",
            workers=2,
            engine="ray",
            progress=False,
        )
    assert not [
        str(one.message) for one in caught if "deprecated" in str(one.message)
    ]  # a user would read it
    assert (context.enable_progress_bars, context.op_resource_reservation_enabled) == before


def grown(item):
    return item + 1, os.getpid()


def refuses(item):
    raise LowtideError(f"item {item} cannot be read")


def test_work_of_scans_and_audits_is_spread_over_ray(cluster):
    with spread_over(2, "ray"):
        found = list(mapped(grown, range(4)))
        with pytest.raises(LowtideError, match="item 7 cannot be read"):
            list(mapped(refuses, [7]))
    assert [value for value, _ in found] == [1, 2, 3, 4]
    assert os.getpid() not in {process for _, process in found}


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1"])
def test_a_cluster_that_does_not_answer_is_refused_at_once(address):
    with pytest.raises(LowtideError, match=f"no Ray cluster answers at {address}"):
        RayEngine(2, address)._connect(None)
