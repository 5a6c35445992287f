"""What the layers need to know about tables: the one object that the registry lists."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from lowtide.auditing.change import Change
from lowtide.auditing.utility import UtilityReport
from lowtide.interface import Modality, Nouns
from lowtide.tables.comparison import changed, row_count
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
        self,
        release: Any,
        utility: ArrayLike | str,
        *,
        clean: Any = None,
        seed: int = 0,
        level: float = 0.95,
        **_: Any,
    ) -> UtilityReport:
        """Predict a column, (n,) values or a name, with models of tables; they are not those of the attackers."""
        return predicts(release, utility, clean=clean, seed=seed, level=level)

    # ── report ───────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── verbs ────────────────────────────────────────────────────────────────────────────────────────────────────────


TABLES: Modality = TableModality()  # type: ignore[assignment]
