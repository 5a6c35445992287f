"""What the layers need to know about texts: the one object that the registry lists.

Parts are imported when they are asked for: `warn` needs the encoder and the explanation, and starts
without the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from lowtide.places import Place, is_place
from lowtide.protocols import Changed, Dataset, Locks, Matched, Modality, Nouns
from lowtide.texts import encoder
from lowtide.texts.options import TextOptions
from lowtide.texts.terms import TermOptions

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
    from lowtide.labels import Label
    from lowtide.report.html import Findings, Outline, Section
    from lowtide.report.words import HiddenCounts
    from lowtide.texts.explaining import Explanation
    from lowtide.texts.hider import TextHider
    from lowtide.texts.lists import TermLists
    from lowtide.texts.parted import TextPartedJob, TextPartWorker
    from lowtide.texts.planner import TextPlanner
    from lowtide.texts.releasing import TextJob
    from lowtide.texts.scan import TextScan

# Words of a term: pairs tell more than their words, and a density that leaves them out tells too
# little
_SCANNED = 2


class TextModality:
    """Texts; see `Modality` for what each part means."""

    name = "texts"
    nouns = Nouns(
        row="text",
        rows="texts",
        a_row="A text",
        feature="word",
        features="words",
        columns="words",
        named=False,
        worth="the words",
        unit="word",
        counted="different words",
        changed="were changed",
        change_note=(
            "A word counts as changed where the release no longer has it, whatever stands there"
            " instead."
        ),
    )
    options: type[Any] = TextOptions
    policies: tuple[str, ...] = ("fixed", "redraw", "sequential")
    mechanisms: tuple[str, ...] = ("drop", "mask", "replace")
    default_budget = TextOptions.default_budget

    # ── density ───────────────────────────────────────────────────────────────────────────────────

    critics: ClassVar[Mapping[str, Any]] = {}

    def claims(self, x: Any, features: Any = None) -> bool:
        """Whether `x` is texts, or features are terms."""
        return encoder.are_texts(x) or isinstance(features, TermOptions)

    def fit_density(
        self, x: Any, s: ArrayLike | None, options: Options, groups: ArrayLike | None
    ) -> Density:
        """Fit to texts."""
        from lowtide.texts.learning import fit_texts

        return fit_texts(x, s, options, groups=groups)

    def read_encoder(
        self, config: Mapping[str, Any], tensors: Mapping[str, Any]
    ) -> encoder.TextEncoder:
        """Rebuild the encoder of a saved density."""
        return encoder.TextEncoder.from_config(config, tensors["similar"])

    def explain(
        self,
        density: Density,
        sample: str,
        *,
        budget: float | None,
        secret_class: Label | None,
        seed: int,
    ) -> Explanation:
        """Explain what one text tells, word by word."""
        from lowtide.texts.explaining import explain

        return explain(density, sample, budget=budget, secret_class=secret_class, seed=seed)

    # ── attack ────────────────────────────────────────────────────────────────────────────────────

    joins_attackers = True
    cross_fitted_rows = 10_000
    trained_once: ClassVar[frozenset[str]] = frozenset()

    @property
    def attackers(self) -> Mapping[str, Maker]:
        """The models of a bag of words, and a small network."""
        from lowtide.texts.attackers import TEXT_ATTACKERS

        return TEXT_ATTACKERS

    def rows(self, x: Any) -> AttackRows:
        """Count the pieces of texts; their surface is read when an attacker asks for it."""
        from lowtide.texts.attackers import read_pieces

        return _with_surface(read_pieces(x), x)

    def rows_like(
        self, x: Any, rows: AttackRows, clean: AttackRows
    ) -> tuple[AttackRows | None, str | None]:
        """Count the pieces that occur in the clean texts."""
        from lowtide.texts.attackers import read_pieces

        return _with_surface(read_pieces(x, clean.reader), x), None

    def surface(self, x: Any) -> Surface:
        """Capitals, blanks, punctuation, lengths, addresses; see `lowtide.texts.surface`."""
        from lowtide.texts.attackers import all_shown
        from lowtide.texts.surface import read_surface

        return read_surface(all_shown(x))

    def numbers(self, rows: Any) -> Any:
        """Counts are numbers."""
        from lowtide.attack.attackers import held_by

        return held_by(rows).counts

    # ── disclose ──────────────────────────────────────────────────────────────────────────────────

    @property
    def settings(self) -> type[Any]:
        """What only texts take."""
        from lowtide.texts.planner import TextSettings

        return TextSettings

    def planner(
        self,
        x: Any,
        s: ArrayLike,
        task: Any,
        *,
        groups: ArrayLike | None = None,
        utility: Any = None,
    ) -> TextPlanner:
        """Reference texts laid out to be rehearsed."""
        from lowtide.texts.planner import TextPlanner

        return TextPlanner.read(x, s, task, groups=groups, utility=utility)

    def read_hider(
        self, config: Mapping[str, Any], tensors: Mapping[str, Any], where: Any
    ) -> TextHider:
        """Rebuild a saved hider."""
        from lowtide.texts.hider import TextHider

        return TextHider.from_parts(config, tensors, where)

    # ── auditing ──────────────────────────────────────────────────────────────────────────────────

    def count(self, x: Any) -> int:
        """How many texts there are."""
        return len(x)

    def change(self, clean: Any, release: Any, *, peak: float | None = None) -> Change:
        """Compare n released texts with the clean ones, word by word; they have no `peak`."""
        from lowtide.texts.releasing import changed_texts

        return changed_texts(clean, release)

    def predicts(
        self, release: Any, utility: ArrayLike, *, clean: Any = None, **options: Any
    ) -> UtilityReport:
        """Predict (n,) classes with the models of the attackers."""
        from lowtide.auditing.utility import predicts_by_attackers

        return predicts_by_attackers(release, utility, clean=clean, **options)

    # ── report ────────────────────────────────────────────────────────────────────────────────────

    @property
    def publishable(self) -> str:
        """Figures and pictures of the whole; no words."""
        from lowtide.texts.view import PUBLISHABLE

        return PUBLISHABLE

    def sections(self, findings: Findings, view: TermLists | None = None) -> list[Section]:
        """What whole texts tell, the words that tell it, and single texts."""
        from lowtide.texts.view import sections

        return sections(findings, view)

    def view(self, samples: Any, **options: Any) -> TermLists | None:
        """The words that tell most; options as of `lowtide.texts.view.view`."""
        from lowtide.texts.view import view

        return view(samples, **options)

    def outline(self, fitted: TextHider) -> Outline:
        """The trade-off of a plan, and the words that it hides."""
        from lowtide.texts.view import outline

        return outline(fitted)

    def count_hidden(self, card: ReleaseCard) -> HiddenCounts:
        """How many different words a card hides."""
        from lowtide.texts.view import count_hidden

        return count_hidden(card)

    # ── verbs ─────────────────────────────────────────────────────────────────────────────────────

    def check_layout(self, plan: Plan) -> None:
        """Refuse one that does not name the column of texts."""
        from lowtide.texts.dataset import check_layout

        check_layout(plan)

    def view_plan(self, plan: Plan) -> Any:
        """The trade-off curve, and the first of the hidden terms."""
        from lowtide.texts.dataset import view_plan

        return view_plan(plan)

    def claims_source(self, source: Any, given: Mapping[str, Any]) -> bool:
        """Whatever has a named column of texts, folders of `.txt` files, and lists of texts."""
        if given.get("text") is not None:
            return True
        if not is_place(source):
            return self.claims(source)

        from lowtide.texts.dataset import are_text_files

        return are_text_files(source)

    def open(
        self, source: Any, secret: Any, options: TextOptions, *, progress: bool | None
    ) -> Dataset:
        """Texts with their secret and their authors."""
        from lowtide.texts.dataset import open_sample

        return open_sample(source, secret, options)

    def features(self, options: TextOptions) -> TermOptions:
        """What counts as a term."""
        from lowtide.texts.dataset import term_options

        return term_options(options)

    def scan(self, data: Dataset, estimator: TIDE, options: TextOptions) -> TextScan:
        """What each term tells; pairs of words are terms, unless the user says otherwise."""
        from sklearn.base import clone

        from lowtide.texts.dataset import term_options
        from lowtide.texts.scan import scan_texts

        if options.ngrams is None:
            terms = replace(term_options(options), ngrams=_SCANNED)
            estimator = clone(estimator).set_params(features=terms)
        how: dict[str, Any] = {"groups": data.groups, "estimator": estimator, "secret": data.secret}
        return replace(scan_texts(data.samples, data.labels, **how), source_rows=data.rows)

    def shown(self, data: Dataset) -> Any:
        """The texts."""
        return data.samples

    def locks(
        self, data: Dataset, options: TextOptions, keep: Sequence[Any], hide: Sequence[Any]
    ) -> Locks:
        """Terms, and columns beside the texts."""
        from lowtide.texts.dataset import lock_terms, term_options

        return lock_terms(data, term_options(options), keep, hide)

    def utility(self, data: Dataset, name: str) -> Any:
        """The values of another column."""
        from lowtide.texts.dataset import utility_values

        return name if data.source.found is None else utility_values(data.source.found, name)

    def layout(
        self, data: Dataset, options: TextOptions, locks: Locks, utility: str | None
    ) -> dict[str, Any]:
        """The column of texts, and those that are kept."""
        found = data.source.found
        return {"text": "text" if found is None else found.names[0], "kept": list(locks.columns)}

    def policy_for(self, asked: Mapping[str, Any], data: Dataset | None) -> str:
        """The first, whatever is asked for."""
        return self.policies[0]

    def plan_weights(self, policy: str) -> str | None:
        """Masks and orders of many terms are tensors."""
        return "a plan for texts"

    def reorder(self, x: Any, order: Any) -> list[str]:
        """Texts in another order."""
        texts = encoder.as_texts(x)
        return [texts[place] for place in order]

    def release_object(
        self, x: Any, plan: Plan, *, noise: Any, ids: Any, secret: Any = None
    ) -> Changed:
        """Texts without what the plan hides."""
        from lowtide.texts.releasing import release_texts

        released = release_texts(x, plan, noise=noise, ids=ids, secret=secret)
        return Changed(released, len(released), None, float(released.words), float(released.hidden))

    def beside(self, out: Path, options: TextOptions) -> dict[str, Path]:
        """The list of changes, which has the length of every hidden word; and which text is which,
        if shuffled.
        """
        from lowtide.table_files.formats import format_of
        from lowtide.table_files.shuffling import order_beside
        from lowtide.texts.releasing import changes_beside

        format_of(out)
        order = {"order": order_beside(out)} if options.shuffle else {}
        return {"changes": changes_beside(out), **order}

    def release_job(
        self, source: Place, plan: Plan, options: TextOptions, *, ids: Any, progress: bool | None
    ) -> TextJob:
        """Texts of a file or a folder, released batch by batch."""
        from lowtide.texts.releasing import TextJob

        return TextJob(source, plan, options)

    def parted_job(
        self, source: Place, plan: Plan, options: TextOptions, *, ids: Any
    ) -> TextPartedJob:
        """Texts of files, released in parts."""
        from lowtide.texts.parted import TextPartedJob

        return TextPartedJob(source, plan, options)

    def part_worker(self, plan: Plan, recipe: Mapping[str, Any]) -> TextPartWorker:
        """One process of many that release texts."""
        from lowtide.texts.parted import TextPartWorker

        return TextPartWorker(plan, recipe)

    def match(
        self,
        release: Any,
        reference: Any,
        secret: Any,
        options: TextOptions,
        *,
        utility: Any,
        progress: bool | None,
    ) -> Matched:
        """The same texts in the same order."""
        from lowtide.texts.dataset import match_texts

        return match_texts(release, reference, secret, options, utility)


def _with_surface(counted: AttackRows, texts: Any) -> AttackRows:
    from lowtide.attack.surface import SurfacedRows

    return replace(counted, data=SurfacedRows(counted.data, lambda: TEXTS.surface(texts)))


TEXTS: Modality = TextModality()
