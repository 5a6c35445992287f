"""Ray as the engine: the same values as from one process, and what is wrong said plainly. One cluster for all tests."""

import os

import pytest

from lowtide import LowtideError, release
from lowtide.engines.mapping import spread_over
from lowtide.engines.ray_engine import RayEngine, _import_ray
from lowtide.engines.releasing import check_shards
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


@pytest.mark.parametrize("name", ["redraw"])
def test_ray_releases_the_same_values(name, cluster, plans, file, whole, tmp_path):
    out = tmp_path / "shared"
    done = release(file, plans[name], out, ids="id", workers=2, shards=500, engine="ray", progress=False)
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
            f"{address}/*.parquet", plans["noise"], out, ids="id", workers=2, shards=700, engine="ray", progress=False
        )
    assert read(out).equals(read(whole("noise").data))


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
