"""What the layers need to know about texts: the one object that the registry lists."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from numpy.typing import ArrayLike
from sklearn.base import clone

from lowtide.attack.attackers import AttackRows, Maker, held_by
from lowtide.attack.surface import Surface, SurfacedRows
from lowtide.auditing.utility import Change, UtilityReport, predicts_by_attackers
from lowtide.density.artefact import Density
from lowtide.density.objectives import Options
from lowtide.density.tide import TIDE
from lowtide.disclose.card import ReleaseCard
from lowtide.disclose.plan_file import Plan
from lowtide.labels import Label
from lowtide.protocols import Changed, Dataset, Locks, Matched, Modality, Nouns
from lowtide.report.html import Findings, Outline, Section
from lowtide.report.words import HiddenCounts
from lowtide.table_files.formats import format_of
from lowtide.table_files.shuffling import order_beside
from lowtide.texts import cleaning, dataset, encoder, explaining, lists, releasing
from lowtide.texts import view as text_view
from lowtide.texts.attackers import TEXT_ATTACKERS, all_shown, read_pieces
from lowtide.texts.hider import TextHider
from lowtide.texts.options import TextOptions
from lowtide.texts.planner import TextPlanner, TextSettings
from lowtide.texts.scan import TextScan, scan_texts
from lowtide.texts.surface import read_surface
from lowtide.texts.terms import TermOptions

_SCANNED = 2  # words of a term: pairs tell more than their words, and a density that leaves them out tells too little


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
        change_note="A word counts as changed where the release no longer has it, whatever stands there instead.",
    )
    options: type[Any] = TextOptions
    policies: tuple[str, ...] = ("fixed", "redraw", "paper")
    mechanisms: tuple[str, ...] = ("drop", "mask", "replace")
    default_budget = TextOptions.default_budget

    # ── density ──────────────────────────────────────────────────────────────────────────────────────────────────────

    critics: ClassVar[Mapping[str, Any]] = {}

    def claims(self, x: Any, features: Any = None) -> bool:
        """Whether `x` is texts, or features are terms."""
        return encoder.are_texts(x) or isinstance(features, TermOptions)

    def fit_density(self, x: Any, s: ArrayLike | None, options: Options, groups: ArrayLike | None) -> Density:
        """Fit to texts."""
        return encoder.fit_texts(x, s, options, groups=groups)

    def read_encoder(self, config: Mapping[str, Any], tensors: Mapping[str, Any]) -> encoder.TextEncoder:
        """Rebuild the encoder of a saved density."""
        return encoder.TextEncoder.from_config(config, tensors["similar"].numpy())

    def explain(
        self, density: Density, sample: str, *, budget: float | None, secret_class: Label | None, seed: int
    ) -> explaining.Explanation:
        """Explain what one text tells, word by word."""
        return explaining.explain(density, sample, budget=budget, secret_class=secret_class, seed=seed)

    # ── attack ───────────────────────────────────────────────────────────────────────────────────────────────────────

    attackers: ClassVar[Mapping[str, Maker]] = TEXT_ATTACKERS
    joins_attackers = True
    cross_fitted_rows = 10_000
    trained_once: ClassVar[frozenset[str]] = frozenset()

    def rows(self, x: Any) -> AttackRows:
        """Count the pieces of texts; their surface is read when an attacker asks for it."""
        return _with_surface(read_pieces(x), x)

    def rows_like(self, x: Any, rows: AttackRows, clean: AttackRows) -> tuple[AttackRows | None, str | None]:
        """Count the pieces that occur in the clean texts."""
        return _with_surface(read_pieces(x, clean.reader), x), None

    def surface(self, x: Any) -> Surface:
        """Capitals, blanks, punctuation, lengths, addresses; see `lowtide.texts.surface`."""
        return read_surface(all_shown(x))

    def numbers(self, rows: Any) -> Any:
        """Counts are numbers."""
        return held_by(rows)

    # ── disclose ─────────────────────────────────────────────────────────────────────────────────────────────────────

    settings: type[Any] = TextSettings
    planner = staticmethod(TextPlanner.read)
    read_hider = staticmethod(TextHider.from_parts)

    # ── auditing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def count(self, x: Any) -> int:
        """How many texts there are."""
        return len(x)

    def change(self, clean: Any, release: Any, *, peak: float | None = None) -> Change:
        """Compare n released texts with the clean ones, word by word; they have no `peak`."""
        return cleaning.changed_texts(clean, release)

    def predicts(self, release: Any, utility: ArrayLike, *, clean: Any = None, **options: Any) -> UtilityReport:
        """Predict (n,) classes with the models of the attackers."""
        return predicts_by_attackers(release, utility, clean=clean, **options)

    # ── report ───────────────────────────────────────────────────────────────────────────────────────────────────────

    publishable = text_view.PUBLISHABLE

    def sections(self, findings: Findings, view: lists.TermLists | None = None) -> list[Section]:
        """What whole texts tell, the words that tell it, and single texts."""
        return text_view.sections(findings, view)

    def view(self, samples: Any, **options: Any) -> lists.TermLists | None:
        """The words that tell most; options as of `lowtide.texts.view.view`."""
        return text_view.view(samples, **options)

    def outline(self, hider: TextHider) -> Outline:
        """The trade-off of a plan, and the words that it hides."""
        return text_view.outline(hider)

    def count_hidden(self, card: ReleaseCard) -> HiddenCounts:
        """How many different words a card hides."""
        return text_view.count_hidden(card)

    # ── verbs ────────────────────────────────────────────────────────────────────────────────────────────────────────

    check_layout = staticmethod(dataset.check_layout)
    view_plan = staticmethod(dataset.view_plan)

    def claims_source(self, source: Any, given: Mapping[str, Any]) -> bool:
        """Whatever has a named column of texts, folders of `.txt` files, and lists of texts."""
        if given.get("text") is not None:
            return True
        return dataset.are_text_files(source) if isinstance(source, (str, Path)) else self.claims(source)

    def open(self, source: Any, secret: Any, options: TextOptions, *, progress: bool | None) -> Dataset:
        """Texts with their secret and their authors."""
        return dataset.open_texts(source, secret, options)

    def features(self, options: TextOptions) -> TermOptions:
        """What counts as a term."""
        return dataset.term_options(options)

    def scan(self, data: Dataset, estimator: TIDE, options: TextOptions) -> TextScan:
        """What each term tells; pairs of words are terms, unless the user says otherwise."""
        if options.ngrams is None:
            estimator = clone(estimator).set_params(features=replace(dataset.term_options(options), ngrams=_SCANNED))
        return scan_texts(data.samples, data.labels, groups=data.groups, estimator=estimator, secret=data.secret)

    def shown(self, data: Dataset) -> Any:
        """The texts."""
        return data.samples

    def locks(self, data: Dataset, options: TextOptions, keep: Sequence[Any], hide: Sequence[Any]) -> Locks:
        """Terms, and columns beside the texts."""
        return dataset.lock_terms(data, dataset.term_options(options), keep, hide)

    def utility(self, data: Dataset, name: str) -> Any:
        """The values of another column."""
        return name if data.source.found is None else dataset.utility_values(data.source.found, name)

    def layout(self, data: Dataset, options: TextOptions, locks: Locks, utility: str | None) -> dict[str, Any]:
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

    def release_object(self, x: Any, plan: Plan, *, noise: Any, ids: Any, secret: Any = None) -> Changed:
        """Texts without what the plan hides."""
        released = releasing.release_texts(x, plan, noise=noise, ids=ids, secret=secret)
        return Changed(released, len(released), None, float(released.words), float(released.hidden))

    def beside(self, out: Path, options: TextOptions) -> dict[str, Path]:
        """The list of changes, which has the length of every hidden word; and which text is which, if shuffled."""
        format_of(out)
        order = {"order": order_beside(out)} if options.shuffle else {}
        return {"changes": releasing.changes_beside(out), **order}

    def release_job(
        self, source: Path, plan: Plan, options: TextOptions, *, ids: Any, progress: bool | None
    ) -> releasing.TextJob:
        """Texts of a file or a folder, released batch by batch."""
        return releasing.TextJob(source, plan, options)

    def match(
        self, release: Any, reference: Any, secret: Any, options: TextOptions, *, utility: Any, progress: bool | None
    ) -> Matched:
        """The same texts in the same order."""
        return dataset.match_texts(release, reference, secret, options, utility)


def _with_surface(counted: AttackRows, texts: Any) -> AttackRows:
    return replace(counted, data=SurfacedRows(counted.data, lambda: read_surface(all_shown(texts))))


TEXTS: Modality = TextModality()
