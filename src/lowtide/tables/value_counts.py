"""How often the values of a whole table occur, counted by anybody and frozen, for a plan that draws
values anew.

An engine that changes batches one by one gives these counts to every one of its workers, so that
all of them draw from the same donors and the release is the one that a single process makes.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from lowtide.bundles import read_bundle, write_bundle
from lowtide.disclose.plan_file import Plan
from lowtide.disclose.secret_codes import refuse_unknown
from lowtide.errors import LowtideError
from lowtide.tables.frequencies import Frequencies
from lowtide.tables.redraw_policy import RedrawPolicy
from lowtide.tables.releasing import check_columns, count_values

_FORMAT = "lowtide-counts"
_VERSION = 1


class ValueCounts:
    """Counts the values of a table batch by batch; the result depends neither on the batches nor on
    their order.

    Args:
        plan: that draws values anew, or where it was saved.

    Attributes:
        rows: how many were counted.
    """

    def __init__(self, plan: Plan | str | Path) -> None:
        self._plan = plan if isinstance(plan, Plan) else Plan.load(plan)
        if not isinstance(self._plan.hider.policy, RedrawPolicy):
            raise LowtideError(
                "only a plan with the policy redraw needs counts; release with this one without"
                " them"
            )
        self._counts = self._plan.hider.policy.counted()
        self._unknown = 0
        self.rows = 0

    def add(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Count the rows of a batch, with the columns of the plan and the secret."""
        table = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
        check_columns(self._plan, table.column_names)
        counts, unknown = count_values([table], self._plan)
        self._counts.merge(counts.arrays())
        self._unknown += unknown
        self.rows += table.num_rows

    def merge(self, other: ValueCounts) -> None:
        """Add what was counted elsewhere for the same plan."""
        self._counts.merge(other._counts.arrays())
        self._unknown += other._unknown
        self.rows += other.rows

    def save(self, path: str | Path) -> Path:
        """Freeze the counts in a folder that its owner alone may read: it holds values of the data.
        Keep it inside.
        """
        refuse_unknown(self._unknown)
        config = {
            "plan": self._plan.digest,
            "rows": self.rows,
            "private": "holds values of the data; do not publish it",
        }
        write_bundle(Path(path), config, self._counts.arrays(), form=_FORMAT, version=_VERSION)
        return Path(path)


def read_counts(path: Path, plan: Plan) -> Frequencies:
    """The counts that `ValueCounts.save` froze; refuses those of another plan."""
    config, arrays = read_bundle(path, form=_FORMAT, version=_VERSION)
    if config.get("plan") != plan.digest:
        raise LowtideError(
            f"{path} was counted for another plan; count the data again for this one"
        )
    counts: Frequencies = plan.hider.policy.counted()
    counts.merge(arrays)
    return counts
