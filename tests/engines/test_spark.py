"""The recipe of docs/scale.md for PySpark: the same values as from one process."""

import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lowtide.engines.working import BatchRelease
from lowtide.table_files.reading import read
from lowtide.tables.value_counts import ValueCounts

sql = pytest.importorskip("pyspark.sql")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("name", ["noise", "redraw"])
def test_spark_releases_the_same_values(name, plans, file, whole, tmp_path, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    expected = read(whole(name).data)  # makes the key
    counts = None
    if name == "redraw":
        counted = ValueCounts(plans[name])
        counted.add(pq.read_table(file))
        counts = counted.save(tmp_path / "counts.lowtide")
    change = BatchRelease(plans[name], plans[name].parent / "noise.key", "id", counts)

    def change_all(batches):
        for batch in batches:
            yield change(batch)

    head = change(pq.read_table(file).slice(0, 1).to_batches()[0])
    spark = (
        sql.SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    try:
        schema = spark.createDataFrame(pa.Table.from_batches([head])).schema
        visits = spark.read.parquet(str(file)).repartition(3)
        visits.mapInArrow(change_all, schema).write.parquet(str(tmp_path / "shared"))
    finally:
        spark.stop()
    keys = [(name, "ascending") for name in expected.column_names]
    found = pa.concat_tables(
        pq.read_table(path) for path in sorted((tmp_path / "shared").glob("*.parquet"))
    )
    assert (
        found.select(expected.column_names)
        .cast(expected.schema)
        .sort_by(keys)
        .equals(expected.sort_by(keys))
    )
