"""What the layers need to know about tables: the one object that the registry lists."""

from __future__ import annotations

from typing import Any, Unpack

from numpy.typing import ArrayLike

from lowtide.auditing.change import Change
from lowtide.auditing.utility import AttackOptions, UtilityReport
from lowtide.disclose.card import ReleaseCard
from lowtide.interface import Modality, Nouns
from lowtide.report.card_view import HiddenCounts, count_features
from lowtide.report.contents import Findings, Outline, Section
from lowtide.tables import view as table_view
from lowtide.tables.comparison import changed, row_count
from lowtide.tables.hider import TableHider
from lowtide.tables.utility import predicts


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
    options: type[Any]
    policies: tuple[str, ...]
    mechanisms: tuple[str, ...]
    default_budget: float

    # ── density ──────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── attack ───────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── disclose ─────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── auditing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def claims(self, x: Any) -> bool:
        """Whether it has rows and columns; texts and images are asked before."""
        return hasattr(x, "shape") or hasattr(x, "columns") or isinstance(x, (list, tuple))

    def count(self, x: Any) -> int:
        """How many rows a table has."""
        return row_count(x)

    def change(self, clean: Any, release: Any, *, peak: float | None = None) -> Change:
        """Compare n released rows with the clean ones; `peak` gives the PSNR where columns are pixels."""
        return changed(clean, release, peak=peak)

    def predicts(
        self, release: Any, utility: ArrayLike | str, *, clean: Any = None, **options: Unpack[AttackOptions]
    ) -> UtilityReport:
        """Predict a column, (n,) values or a name, with models of tables; they are not those of the attackers."""
        seed, level = options.get("seed", 0), options.get("level", 0.95)
        return predicts(release, utility, clean=clean, seed=seed, level=level)

    # ── report ───────────────────────────────────────────────────────────────────────────────────────────────────────

    publishable = table_view.PUBLISHABLE

    def sections(self, findings: Findings, view: Any = None) -> list[Section]:
        """The leaking columns."""
        return table_view.sections(findings)

    def view(self, samples: Any, **_: Any) -> None:
        """Nothing: averages by column are in the scan, and single rows are never shown."""

    def outline(self, hider: TableHider) -> Outline:
        """The trade-off of a plan, and the columns that it hides."""
        return table_view.outline(hider)

    def count_hidden(self, card: ReleaseCard) -> HiddenCounts:
        """How many columns a card hides."""
        return count_features(card)

    # ── verbs ────────────────────────────────────────────────────────────────────────────────────────────────────────


TABLES: Modality = TableModality()  # type: ignore[assignment]
