"""Data frames of any library as Arrow tables."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import pyarrow as pa


def is_frame(x: Any) -> bool:
    """Whether `x` is a data frame or an Arrow table."""
    return bool(nw.dependencies.is_into_dataframe(x))


def as_arrow(frame: Any) -> pa.Table:
    """A data frame of any library as an Arrow table, without its index."""
    return frame if isinstance(frame, pa.Table) else nw.from_native(frame, eager_only=True).to_arrow()
