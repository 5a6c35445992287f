"""What the layers need to know about tables: the one object that the registry lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lowtide.density.tide import TIDE
from lowtide.disclose.plan_file import Plan
from lowtide.interface import Dataset, Locks, Matched, Modality, Nouns, PlanView
from lowtide.table_files.formats import find_column
from lowtide.tables.dataset import (
    TableJob,
    check_layout,
    layout_of,
    lock_columns,
    match_tables,
    open_table,
    release_frame,
    view_plan,
)
from lowtide.tables.options import TableOptions
from lowtide.tables.scan import TableScan, scan


class TableModality:
    """Tables; see `Modality` for what each part means."""

    name = "tables"
    nouns = Nouns(
        "row", "rows", "A row of this table", "feature", "features", "columns", True, "their worth", "value", "features"
    )
    options = TableOptions
    policies = ("fixed", "sequential", "paper")
    mechanisms = ("redact", "gaussian", "mixed")
    default_budget = 0.01

    # ── density ──────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── attack ───────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── disclose ─────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── auditing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── report ───────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── verbs ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def claims_source(self, source: Any, given: Mapping[str, Any]) -> bool:
        """Files of rows, frames, arrays: whatever no other kind claims."""
        return isinstance(source, (str, Path)) or self.claims(source)

    def open(self, source: Any, secret: Any, options: TableOptions, *, progress: bool | None) -> Dataset:
        """A table from a file, a frame or an array, with its secret."""
        return open_table(source, secret, options)

    def features(self, options: TableOptions) -> None:
        """Every column is a feature."""

    def scan(self, data: Dataset, estimator: TIDE, options: TableOptions) -> TableScan:
        """What each column tells."""
        return scan(data.samples, data.labels, estimator=estimator)

    def locks(self, data: Dataset, options: TableOptions, keep: Sequence[Any], hide: Sequence[Any]) -> Locks:
        """Columns by name."""
        return lock_columns(data, keep, hide)

    def utility(self, data: Dataset, name: str) -> Any:
        """The name of a judged column."""
        return name if data.source.table is None else find_column(name, data.samples.column_names)

    def layout(self, data: Dataset, options: TableOptions, locks: Locks, utility: str | None) -> dict[str, Any]:
        """Columns, their types, and what becomes of those that were not judged."""
        return layout_of(data, locks, None if utility is None else self.utility(data, utility))

    def check_layout(self, plan: Plan) -> None:
        """Every column is judged, blank, kept or the secret."""
        check_layout(plan)

    def plan_weights(self, policy: str) -> str | None:
        """Only the fixed policy needs no network."""
        return None if policy == "fixed" else f"the policy {policy!r}"

    def view_plan(self, plan: Plan) -> PlanView:
        """Which columns are hidden, and what each carries."""
        return view_plan(plan)

    def release_object(self, x: Any, plan: Plan, *, noise: Any, ids: Any) -> Any:
        """A frame or an array, without the secret."""
        return release_frame(x, plan, noise=noise, ids=ids)

    def release_job(
        self, source: Path, plan: Plan, options: TableOptions, *, ids: Any, progress: bool | None
    ) -> TableJob:
        """A table file, released batch by batch."""
        return TableJob(source, plan, options)

    def match(
        self, release: Any, reference: Any, secret: Any, options: TableOptions, *, utility: Any, progress: bool | None
    ) -> Matched:
        """The same rows in the same order."""
        return match_tables(release, reference, secret, options, utility)


TABLES: Modality = TableModality()  # type: ignore[assignment]
