"""What the layers need to know about tables: the one object that the registry lists.

Parts are imported when they are asked for: a release needs what hides and what reads and writes
files, and starts without what plans, attacks and draws reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import narwhals.stable.v2 as nw
import numpy as np

from lowtide.errors import LowtideError
from lowtide.places import Place, is_place
from lowtide.protocols import Changed, Dataset, Locks, Matched, Modality, Nouns, PlanView
from lowtide.table_files.formats import find_column, format_of
from lowtide.table_files.shuffling import order_beside
from lowtide.tables import parted, releasing
from lowtide.tables.encoder import (
    TableEncoder,
    is_frame,
    read_encoder,
    read_shown,
    read_table,
    take_rows,
)
from lowtide.tables.hider import TableHider, names_of
from lowtide.tables.options import TableOptions
from lowtide.tables.redraw_policy import RedrawPolicy

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from lowtide.attack.attackers import AttackRows, Maker
    from lowtide.attack.surface import Surface
    from lowtide.auditing.utility import Change, UtilityReport
    from lowtide.disclose.card import ReleaseCard
    from lowtide.disclose.plan_file import Plan
    from lowtide.estimate.density import Density
    from lowtide.estimate.objectives import Options
    from lowtide.estimate.tide import TIDE
    from lowtide.report.html import Findings, Outline, Section
    from lowtide.report.words import HiddenCounts
    from lowtide.tables.planner import TablePlanner
    from lowtide.tables.scan import TableScan
    from lowtide.tables.surface import ShownReader


class TableModality:
    """Tables; see `Modality` for what each part means."""

    name = "tables"
    nouns = Nouns(
        row="row",
        rows="rows",
        a_row="A row of this table",
        feature="feature",
        features="features",
        columns="columns",
        named=True,
        worth="their worth",
        unit="value",
        counted="features",
    )
    options: type[Any] = TableOptions
    policies: tuple[str, ...] = ("fixed", "redraw", "sequential")
    mechanisms: tuple[str, ...] = ("redact", "gaussian", "merge")
    default_budget = TableOptions.default_budget

    # ── density ───────────────────────────────────────────────────────────────────────────────────

    critics: ClassVar[Mapping[str, Any]] = {}

    def claims(self, x: Any, features: Any = None) -> bool:
        """Whether `x` may be read as a table: a data frame, an array, a sparse matrix, a tensor, a
        list of rows.
        """
        return (
            is_frame(x) or isinstance(x, Iterable) or hasattr(x, "shape") or hasattr(x, "__array__")
        )

    def fit_density(
        self, x: Any, s: ArrayLike | None, options: Options, groups: ArrayLike | None
    ) -> Density:
        """Fit to a table."""
        from lowtide.estimate.fitting import fit_rows

        rows, encoder = read_table(x)
        return fit_rows(rows, encoder, s, options, groups)

    def read_encoder(self, config: Mapping[str, Any], tensors: Mapping[str, Any]) -> TableEncoder:
        """Rebuild the encoder of a saved density."""
        return read_encoder(config)

    def explain(
        self, density: Any, sample: Any, *, budget: float | None, secret_class: Any, seed: int
    ) -> Any:
        """There is none."""
        raise LowtideError(
            "explain() is for densities of texts; of a table ask shapley(X) or conditionals(X)"
        )

    # ── attack ────────────────────────────────────────────────────────────────────────────────────

    joins_attackers = False
    cross_fitted_rows = 20_000
    trained_once: ClassVar[frozenset[str]] = frozenset()

    @property
    def attackers(self) -> Mapping[str, Maker]:
        """Boosted trees, a regression and others."""
        from lowtide.tables.attackers import ATTACKERS

        return ATTACKERS

    def rows(self, x: Any) -> AttackRows:
        """Read a table as numbers, and its surface when an attacker asks for it; columns that name
        rows have only that.

        Rows that were read before are taken as they are.
        """
        from lowtide.attack.attackers import AttackRows
        from lowtide.attack.surface import SurfacedRows
        from lowtide.tables.surface import ShownReader

        if isinstance(x, SurfacedRows):
            return AttackRows(x)
        values, encoder = read_shown(x)
        reader = ShownReader(encoder, x)
        return AttackRows(SurfacedRows(values, reader.surface), reader, tuple(names_of(x)))

    def rows_like(
        self, x: Any, rows: AttackRows, clean: AttackRows
    ) -> tuple[AttackRows | None, str | None]:
        """Read a release with the encoder of the clean table.

        An attacker trained on clean data reads a number that is blank in the release, or a word in
        its place, as the median of the clean rows.
        """
        from lowtide.attack.attackers import AttackRows
        from lowtide.attack.surface import SurfacedRows

        reader: ShownReader = clean.reader
        usual = np.median(clean.data.held, axis=0) if reader.encoder.names else None
        try:
            values = reader.values(x, usual)
        except LowtideError as error:
            return None, f"the release does not have the columns of the clean table ({error})"
        read = AttackRows(
            SurfacedRows(values, lambda: reader.channels.read(x)),
            reader,
            reader.encoder.names,
        )
        return read, None

    def surface(self, x: Any) -> Surface:
        """Frequencies, digits, times, spelling; see `lowtide.tables.surface`."""
        from lowtide.tables.surface import read_columns

        return read_columns(x)

    def numbers(self, rows: Any) -> Any:
        """The values of rows, without their surface."""
        from lowtide.attack.attackers import held_by

        return held_by(rows)

    # ── disclose ──────────────────────────────────────────────────────────────────────────────────

    @property
    def settings(self) -> type[Any]:
        """What only tables take."""
        from lowtide.tables.settings import TableSettings

        return TableSettings

    def planner(
        self,
        x: Any,
        s: ArrayLike,
        task: Any,
        *,
        groups: ArrayLike | None = None,
        utility: Any = None,
    ) -> TablePlanner:
        """Reference rows laid out to be rehearsed."""
        from lowtide.tables.planner import TablePlanner

        return TablePlanner.read(x, s, task, groups=groups, utility=utility)

    read_hider = staticmethod(TableHider.from_parts)

    # ── auditing ──────────────────────────────────────────────────────────────────────────────────

    def count(self, x: Any) -> int:
        """How many rows a table has."""
        from lowtide.tables.utility import row_count

        return row_count(x)

    def change(self, clean: Any, release: Any, *, peak: float | None = None) -> Change:
        """Compare n released rows with the clean ones; `peak` gives the PSNR where columns are
        pixels.
        """
        from lowtide.tables.utility import changed

        return changed(clean, release, peak=peak)

    def predicts(
        self, release: Any, utility: ArrayLike | str, *, clean: Any = None, **options: Any
    ) -> UtilityReport:
        """Predict a column, (n,) values or a name, with models of tables; they are not those of the
        attackers.
        """
        from lowtide.tables.utility import predicts

        seed = options.get("seed", 0)
        level = options.get("level", 0.95)
        return predicts(release, utility, clean=clean, seed=seed, level=level)

    # ── report ────────────────────────────────────────────────────────────────────────────────────

    @property
    def publishable(self) -> str:
        """Averages and names of columns; no value."""
        from lowtide.tables.view import PUBLISHABLE

        return PUBLISHABLE

    def sections(self, findings: Findings, view: Any = None) -> list[Section]:
        """The leaking columns, and what was drawn anew."""
        from lowtide.tables import redraw_view
        from lowtide.tables import view as table_view

        return [*table_view.sections(findings), *redraw_view.sections(findings, view)]

    def view(self, samples: Any, *, hider: Any = None, **_: Any) -> Any:
        """The trade-off of redraw; averages by column are in the scan, and single rows are never
        shown.
        """
        from lowtide.tables.redraw_view import RedrawView

        policy = getattr(hider, "policy", None)
        return RedrawView.of(policy, hider.card) if isinstance(policy, RedrawPolicy) else None

    def outline(self, hider: TableHider) -> Outline:
        """The trade-off of a plan, and the columns that it hides."""
        from lowtide.tables.view import outline

        return outline(hider)

    def count_hidden(self, card: ReleaseCard) -> HiddenCounts:
        """How many columns a card hides."""
        from lowtide.report.words import count_features

        return count_features(card)

    # ── verbs ─────────────────────────────────────────────────────────────────────────────────────

    check_layout = staticmethod(releasing.check_layout)

    def view_plan(self, plan: Plan) -> PlanView:
        """Which columns are hidden, and what each carries."""
        from lowtide.tables.dataset import view_plan

        return view_plan(plan)

    def claims_source(self, source: Any, given: Mapping[str, Any]) -> bool:
        """Files of rows, frames, arrays: whatever no other kind claims."""
        return is_place(source) or self.claims(source)

    def open(
        self, source: Any, secret: Any, options: TableOptions, *, progress: bool | None
    ) -> Dataset:
        """A table from a file, a frame or an array, with its secret."""
        from lowtide.tables.dataset import open_sample

        return open_sample(source, secret, options)

    def features(self, options: TableOptions) -> None:
        """Every column is a feature."""

    def scan(self, data: Dataset, estimator: TIDE, options: TableOptions) -> TableScan:
        """What each column tells."""
        from lowtide.tables.scan import scan

        described = data.source.description
        columns = () if described is None else described.columns
        found = scan(
            data.samples, data.labels, estimator=estimator, secret=data.secret, columns=columns
        )
        return replace(found, source_rows=data.rows)

    def shown(self, data: Dataset) -> Any:
        """All columns but the secret."""
        table = data.source.table
        return data.samples if table is None else table.drop_columns([data.secret])

    def locks(
        self, data: Dataset, options: TableOptions, keep: Sequence[Any], hide: Sequence[Any]
    ) -> Locks:
        """Columns by name; bounds are looked at here, too."""
        from lowtide.tables.dataset import check_bounds, lock_columns
        from lowtide.tables.settings import TableSettings

        if isinstance(options, TableOptions):  # a kind that is built on tables may have no bounds
            check_bounds(data, TableSettings(bounds=options.bounds))
        return lock_columns(data, keep, hide)

    def utility(self, data: Dataset, name: str) -> Any:
        """The name of a judged column."""
        return name if data.source.table is None else find_column(name, data.samples.column_names)

    def layout(
        self, data: Dataset, options: TableOptions, locks: Locks, utility: str | None
    ) -> dict[str, Any]:
        """Columns, their types, and what becomes of those that were not judged."""
        from lowtide.tables.dataset import layout_of

        return layout_of(data, locks, None if utility is None else self.utility(data, utility))

    def policy_for(self, asked: Mapping[str, Any], data: Dataset | None) -> str:
        """Redraw, unless something is asked for that only `fixed` does, or redraw cannot learn this
        table.
        """
        from lowtide.tables.dataset import default_policy

        return default_policy(asked, data)

    def plan_weights(self, policy: str) -> str | None:
        """Only the fixed policy needs no network."""
        return None if policy == "fixed" else f"the policy {policy!r}"

    def reorder(self, x: Any, order: Any) -> Any:
        """Rows in another order, numbered anew where a library numbers them."""
        taken = take_rows(x, order)
        return (
            nw.to_native(nw.maybe_reset_index(nw.from_native(taken, eager_only=True)))
            if is_frame(x)
            else taken
        )

    def release_object(
        self, x: Any, plan: Plan, *, noise: Any, ids: Any, secret: Any = None
    ) -> Changed:
        """A frame or an array, without the secret."""
        if secret is not None:
            raise LowtideError(
                "a table that is released holds its secret as a column, if at all; leave secret out"
            )
        return releasing.release_frame(x, plan, noise=noise, ids=ids)

    def beside(self, out: Path, options: TableOptions) -> dict[str, Path]:
        """Which row is which, where rows are shuffled."""
        format_of(out)
        return {"order": order_beside(out)} if options.shuffle else {}

    def release_job(
        self, source: Place, plan: Plan, options: TableOptions, *, ids: Any, progress: bool | None
    ) -> releasing.TableJob:
        """A table file, released batch by batch."""
        return releasing.TableJob(source, plan, options)

    def parted_job(
        self, source: Place, plan: Plan, options: TableOptions, *, ids: Any
    ) -> parted.TablePartedJob:
        """Table files, released in parts."""
        return parted.TablePartedJob(source, plan, options)

    part_worker = parted.TablePartWorker

    def match(
        self,
        release: Any,
        reference: Any,
        secret: Any,
        options: TableOptions,
        *,
        utility: Any,
        progress: bool | None,
    ) -> Matched:
        """The same rows, in the same order or joined by an id; or other rows that hold the
        secret.
        """
        from lowtide.tables.matching import match

        return match(release, reference, secret, options, utility)


TABLES: Modality = TableModality()
