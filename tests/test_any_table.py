"""Random Arrow tables of every type through all verbs: each answers, or refuses with an error of
ours.
"""

import warnings

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lowtide import audit, plan, release, scan
from lowtide.errors import LowtideError, LowtideNote

NAMES = st.sampled_from(
    ["a", "", "b\nc", "\x1b[31mred", "s ", "…other", "hidden", "0", "x=1:2", "ä" * 300, "None"]
)
NUMBERS = [
    pa.int8(),
    pa.int64(),
    pa.uint8(),
    pa.uint64(),
    pa.float16(),
    pa.float32(),
    pa.float64(),
    pa.bool_(),
]
MOMENTS = [pa.date32(), pa.date64(), pa.time32("s"), pa.time64("ns"), pa.duration("ms")]
MOMENTS += [
    pa.timestamp(unit, zone) for unit in ("s", "us", "ns") for zone in (None, "UTC", "Asia/Tokyo")
]
WORDS = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.binary(),
    pa.binary_view(),
    pa.binary(2),
    pa.null(),
]
DECIMALS = [pa.decimal32(6, 2), pa.decimal64(12, 3), pa.decimal128(20, 5), pa.decimal256(60, 5)]
NESTED = [pa.list_(pa.int8()), pa.struct([("a", pa.string())]), pa.map_(pa.string(), pa.int8())]
PLAIN = [*NUMBERS, *MOMENTS, *WORDS, *DECIMALS]
CATEGORIES = [
    pa.dictionary(pa.int8(), kind, ordered)
    for kind in (pa.string(), pa.int64())
    for ordered in (False, True)
]
FLOAT = st.floats(width=16, allow_nan=True, allow_infinity=True)


def values(kind):  # noqa: PLR0911 - one for each type
    """Few different values of a type, missing ones among them, as Python writes them into a
    column.
    """
    if pa.types.is_dictionary(kind):
        return values(kind.value_type)
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_floating(kind):
        return FLOAT
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return st.sampled_from(["", "a", "b", "None", "nan", "é\n", "…other", "\x00"])
    if pa.types.is_fixed_size_binary(kind):
        return st.sampled_from([b"ab", b"\xff\x00"])
    if pa.types.is_binary(kind) or pa.types.is_binary_view(kind):
        return st.sampled_from([b"", b"\xff"])
    if pa.types.is_null(kind):
        return st.none()
    if pa.types.is_list(kind):
        return st.lists(st.integers(0, 3), max_size=2)
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({"a": st.sampled_from(["x", "y"])})
    if pa.types.is_map(kind):
        return st.just([("k", 1)])
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return st.sampled_from([0, 1, 86_400_000, -86_400_000, 10_000_000 * 86_400_000])
    return st.integers(0, 120)


@st.composite
def columns(draw, rows, kinds):
    kind = draw(st.sampled_from(kinds))
    some = draw(st.lists(st.none() | values(kind), min_size=1, max_size=5))
    picked = [
        some[draw(st.integers(0, len(some) - 1))] if k % 7 == 0 else some[k % len(some)]
        for k in range(rows)
    ]
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        small = pa.types.is_date32(kind)
        whole = [None if v is None else v % (2**31) if small else v for v in picked]
        return pa.array(whole, pa.int32() if small else pa.int64()).cast(kind)
    if pa.types.is_decimal(kind):
        return pa.array(picked, pa.int64()).cast(pa.decimal128(21, 0)).cast(kind, safe=False)
    if pa.types.is_dictionary(kind):
        return pa.array(picked, kind.value_type).dictionary_encode()
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return pa.array(picked, pa.string() if pa.types.is_string_view(kind) else pa.binary()).cast(
            kind
        )
    return pa.array(picked, kind)


@st.composite
def tables(draw):
    rows = draw(st.sampled_from([0, 1, 2, *[24] * 6]))
    names = draw(
        st.lists(
            NAMES, min_size=0, max_size=4, unique=draw(st.sampled_from([True, True, True, False]))
        )
    )
    made = [draw(columns(rows, [*PLAIN, *CATEGORIES] * 3 + NESTED)) for _ in names]
    if draw(st.integers(0, 3)):
        secret = pa.array(["Y", "N"] * 12, pa.string())[:rows]
    else:
        secret = draw(columns(rows, [*PLAIN, *CATEGORIES]))
    return pa.Table.from_arrays([*made, secret], names=[*names, "s"])


def through(table):
    """A table through all verbs; says how far it came."""
    came = []
    try:
        scan(table, "s", steps=40, progress=False)
        came.append("scan")
        made = plan(table, "s", policy="fixed", steps=40, kept=0.5, progress=False)
        came.append("plan")
        shown = release(table, made).data
        came.append("release")
        audit(shown, table, "s", attackers=["logistic regression"], progress=False)
        came.append("audit")
    except LowtideError:
        pass
    return came


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(tables())
def test_any_table_is_taken_or_refused_with_an_error_of_ours(table):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LowtideNote)
        through(table)


def test_an_ordinary_table_of_this_kind_goes_all_the_way():
    table = pa.table({"a": [0, 1, 2] * 8, "b": ["x", "y"] * 12, "s": ["Y", "N", "N"] * 8})
    assert through(table) == ["scan", "plan", "release", "audit"]
