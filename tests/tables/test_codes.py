"""Columns as redraw reads, draws and writes them: every type comes back as it was, on its own
grid.
"""

import datetime as dt

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lowtide.tables.codes import FEWEST, UNKNOWN, CodedColumn, count_classes, points_of

RNG = np.random.default_rng(7)
N = 400
COLUMNS = {
    "whole": RNG.integers(17, 90, N).tolist(),
    "decimals": np.round(RNG.normal(50, 20, N), 2).tolist(),
    "any": RNG.normal(size=N).tolist(),
    "hundreds": (100 * RNG.integers(10, 90, N)).tolist(),
    "gaps": [None if k % 7 == 0 else int(v) for k, v in enumerate(RNG.integers(0, 5, N))],
    "word": RNG.choice(["yes", "no", "maybe"], N).tolist(),
    "gappy word": [None if k % 9 == 0 else str(v) for k, v in enumerate(RNG.choice(["a", "b"], N))],
    "flag": RNG.choice([True, False], N).tolist(),
    "day": [dt.date(1990, 1, 1) + dt.timedelta(days=int(v)) for v in RNG.integers(0, 9000, N)],
    "time": [
        dt.datetime(2020, 1, 1) + dt.timedelta(seconds=int(v)) for v in RNG.integers(0, 10**7, N)
    ],
}
FRAMES = {"arrow": pa.table, "pandas": pd.DataFrame, "polars": pl.DataFrame}


@pytest.mark.parametrize("library", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("name", COLUMNS)
def test_codes_lead_back_to_the_values(name, library):
    column = nw.from_native(library({name: COLUMNS[name]}), eager_only=True)[name]
    coded = CodedColumn.learn(column)
    codes = coded.read(column)
    written = coded.write(codes, column)
    assert len(written) == N
    for value, again in zip(column.to_list(), list(written), strict=True):
        same = value == again or (pd.isna(value) and pd.isna(again))
        assert same, (value, again)


@pytest.mark.parametrize("name", COLUMNS)
def test_every_value_has_a_cell_and_draws_stay_in_it(name):
    column = nw.from_native(pa.table({name: COLUMNS[name]}), eager_only=True)[name]
    coded = CodedColumn.from_config(CodedColumn.learn(column).to_config())
    cells = coded.cell(coded.read(column))
    assert cells.min() >= 0
    assert cells.max() < coded.cells
    for uniform in (0.01, 0.5, 0.99):
        drawn = coded.draw(cells, np.full(N, uniform))
        assert (np.isnan(drawn) == (cells == coded.cells - 1)).all()
        np.testing.assert_array_equal(
            coded.cell(drawn)[~coded.is_range(cells)], cells[~coded.is_range(cells)]
        )


@pytest.mark.parametrize(
    ("name", "step"), [("whole", 1.0), ("decimals", 0.01), ("hundreds", 100.0), ("any", 0.0)]
)
def test_drawn_numbers_lie_on_the_grid_of_the_column(name, step):
    column = nw.from_native(pa.table({name: COLUMNS[name]}), eager_only=True)[name]
    coded = CodedColumn.learn(column)
    assert coded.step == pytest.approx(step)
    if step:
        drawn = coded.draw(coded.cell(coded.read(column)), RNG.random(N))
        np.testing.assert_allclose(drawn / step, np.rint(drawn / step), atol=1e-6)


def test_a_plan_holds_no_number_of_few_rows():
    values = np.concatenate([np.arange(1000.0), [123456.0, -5.0]])
    coded = CodedColumn.learn(nw.from_native(pa.table({"x": values}), eager_only=True)["x"])
    assert coded.edges.max() < 1000
    assert coded.edges.min() > 0
    repeated = np.repeat([1.5, 2.5], [FEWEST, FEWEST - 1])
    coded = CodedColumn.learn(nw.from_native(pa.table({"x": repeated}), eager_only=True)["x"])
    assert coded.atoms.tolist() == [1.5]


def test_a_category_that_was_not_there_has_no_cell():
    seen = nw.from_native(pa.table({"x": ["a", "b", "a"]}), eager_only=True)["x"]
    later = nw.from_native(pa.table({"x": ["a", "HIV", None]}), eager_only=True)["x"]
    coded = CodedColumn.learn(seen)
    codes = coded.read(later)
    assert codes[1] == UNKNOWN
    assert coded.cell(codes).tolist() == [0, -1, coded.cells - 1]


def test_counts_are_told_in_classes():
    assert count_classes(np.array([1, 2, 3, 4, 7, 8, 500])).tolist() == [0, 1, 1, 2, 2, 3, 3]


def test_points_tell_how_often_a_rare_number_occurs():
    values = np.concatenate([np.arange(200.0), np.arange(200.0), np.arange(200, 400.0)])
    coded = CodedColumn.learn(nw.from_native(pa.table({"x": values}), eager_only=True)["x"])
    occurrences = np.repeat([2, 1], [400, 200])
    points = points_of((coded,), values[:, None], count_classes(occurrences)[:, None])
    assert points.shape == (600, 2)
    assert set(points[:400, 1]) == {1}
    assert set(points[400:, 1]) == {0}
