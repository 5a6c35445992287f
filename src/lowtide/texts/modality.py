"""What the layers need to know about texts: the one object that the registry lists.

Parts are imported when they are asked for: `warn` needs the encoder and the explanation, and starts without the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from lowtide.extras import optional
from lowtide.places import Place, is_place
from lowtide.protocols import Changed, Dataset, Locks, Matched, Modality, Nouns
from lowtide.texts import encoder
from lowtide.texts.options import TextOptions
from lowtide.texts.terms import TermOptions

if TYPE_CHECKING:
    import sklearn.base as estimators
    from numpy.typing import ArrayLike

    from lowtide.attack import attackers as models
    from lowtide.attack import surface as shown
    from lowtide.attack.attackers import AttackRows, Maker
    from lowtide.auditing import utility as usefulness
    from lowtide.auditing.utility import Change, UtilityReport
    from lowtide.density.artefact import Density
    from lowtide.density.objectives import Options
    from lowtide.density.tide import TIDE
    from lowtide.disclose.card import ReleaseCard
    from lowtide.disclose.plan_file import Plan
    from lowtide.labels import Label
    from lowtide.report.html import Findings, Outline, Section
    from lowtide.report.words import HiddenCounts
    from lowtide.table_files import formats, sampling, shuffling
    from lowtide.texts import (
        attackers,
        dataset,
        explaining,
        hider,
        learning,
        lists,
        parted,
        planner,
        releasing,
        scan,
        streaming,
        surface,
    )
    from lowtide.texts import view as text_view
else:
    estimators, usefulness = optional("sklearn.base"), optional("lowtide.auditing.utility")
    models, shown = (optional(f"lowtide.attack.{name}") for name in ("attackers", "surface"))
    formats, sampling, shuffling = (
        optional(f"lowtide.table_files.{name}") for name in ("formats", "sampling", "shuffling")
    )
    attackers, dataset, explaining, hider, learning, parted, planner, releasing, scan, streaming, surface, text_view = (
        optional(f"lowtide.texts.{name}")
        for name in (
            "attackers",
            "dataset",
            "explaining",
            "hider",
            "learning",
            "parted",
            "planner",
            "releasing",
            "scan",
            "streaming",
            "surface",
            "view",
        )
    )

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
        """Whether `x` is texts or batches of them, or features are terms."""
        return encoder.are_texts(x) or isinstance(features, TermOptions) or encoder.are_text_batches(x)

    def fit_density(self, x: Any, s: ArrayLike | None, options: Options, groups: ArrayLike | None) -> Density:
        """Fit to texts, or without `s` to an iterable of batches `(texts, s)` or `(texts, s, groups)`."""
        if s is None and not encoder.are_texts(x):
            return streaming.fit_text_stream(x, options, groups=groups)
        return learning.fit_texts(x, s, options, groups=groups)

    def read_encoder(self, config: Mapping[str, Any], tensors: Mapping[str, Any]) -> encoder.TextEncoder:
        """Rebuild the encoder of a saved density."""
        return encoder.TextEncoder.from_config(config, tensors["similar"])

    def explain(
        self, density: Density, sample: str, *, budget: float | None, secret_class: Label | None, seed: int
    ) -> explaining.Explanation:
        """Explain what one text tells, word by word."""
        return explaining.explain(density, sample, budget=budget, secret_class=secret_class, seed=seed)

    # ── attack ───────────────────────────────────────────────────────────────────────────────────────────────────────

    joins_attackers = True
    cross_fitted_rows = 10_000
    trained_once: ClassVar[frozenset[str]] = frozenset()

    @property
    def attackers(self) -> Mapping[str, Maker]:
        """The models of a bag of words, and a small network."""
        return attackers.TEXT_ATTACKERS

    def rows(self, x: Any) -> AttackRows:
        """Count the pieces of texts; their surface is read when an attacker asks for it."""
        return _with_surface(attackers.read_pieces(x), x)

    def rows_like(self, x: Any, rows: AttackRows, clean: AttackRows) -> tuple[AttackRows | None, str | None]:
        """Count the pieces that occur in the clean texts."""
        return _with_surface(attackers.read_pieces(x, clean.reader), x), None

    def surface(self, x: Any) -> shown.Surface:
        """Capitals, blanks, punctuation, lengths, addresses; see `lowtide.texts.surface`."""
        return surface.read_surface(attackers.all_shown(x))

    def numbers(self, rows: Any) -> Any:
        """Counts are numbers."""
        return models.held_by(rows)

    # ── disclose ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def settings(self) -> type[Any]:
        """What only texts take."""
        return planner.TextSettings

    def planner(
        self, x: Any, s: ArrayLike, task: Any, *, groups: ArrayLike | None = None, utility: Any = None
    ) -> planner.TextPlanner:
        """Reference texts laid out to be rehearsed."""
        return planner.TextPlanner.read(x, s, task, groups=groups, utility=utility)

    def read_hider(self, config: Mapping[str, Any], tensors: Mapping[str, Any], where: Any) -> hider.TextHider:
        """Rebuild a saved hider."""
        return hider.TextHider.from_parts(config, tensors, where)

    # ── auditing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def count(self, x: Any) -> int:
        """How many texts there are."""
        return len(x)

    def change(self, clean: Any, release: Any, *, peak: float | None = None) -> Change:
        """Compare n released texts with the clean ones, word by word; they have no `peak`."""
        return releasing.changed_texts(clean, release)

    def predicts(self, release: Any, utility: ArrayLike, *, clean: Any = None, **options: Any) -> UtilityReport:
        """Predict (n,) classes with the models of the attackers."""
        return usefulness.predicts_by_attackers(release, utility, clean=clean, **options)

    # ── report ───────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def publishable(self) -> str:
        """Figures and pictures of the whole; no words."""
        return text_view.PUBLISHABLE

    def sections(self, findings: Findings, view: lists.TermLists | None = None) -> list[Section]:
        """What whole texts tell, the words that tell it, and single texts."""
        return text_view.sections(findings, view)

    def view(self, samples: Any, **options: Any) -> lists.TermLists | None:
        """The words that tell most; options as of `lowtide.texts.view.view`."""
        return text_view.view(samples, **options)

    def outline(self, fitted: hider.TextHider) -> Outline:
        """The trade-off of a plan, and the words that it hides."""
        return text_view.outline(fitted)

    def count_hidden(self, card: ReleaseCard) -> HiddenCounts:
        """How many different words a card hides."""
        return text_view.count_hidden(card)

    # ── verbs ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def check_layout(self, plan: Plan) -> None:
        """Refuse one that does not name the column of texts."""
        dataset.check_layout(plan)

    def view_plan(self, plan: Plan) -> Any:
        """The trade-off curve, and the first of the hidden terms."""
        return dataset.view_plan(plan)

    def claims_source(self, source: Any, given: Mapping[str, Any]) -> bool:
        """Whatever has a named column of texts, folders of `.txt` files, and lists of texts."""
        if given.get("text") is not None:
            return True
        return dataset.are_text_files(source) if is_place(source) else self.claims(source)

    def open(self, source: Any, secret: Any, options: TextOptions, *, progress: bool | None) -> Dataset:
        """Texts with their secret and their authors."""
        return dataset.open_texts(source, secret, options, most=options.most_rows or sampling.MOST_ROWS)

    def features(self, options: TextOptions) -> TermOptions:
        """What counts as a term."""
        return dataset.term_options(options)

    def scan(self, data: Dataset, estimator: TIDE, options: TextOptions) -> scan.TextScan:
        """What each term tells; pairs of words are terms, unless the user says otherwise."""
        if options.ngrams is None:
            terms = replace(dataset.term_options(options), ngrams=_SCANNED)
            estimator = estimators.clone(estimator).set_params(features=terms)
        how: dict[str, Any] = {"groups": data.groups, "estimator": estimator, "secret": data.secret}
        return replace(scan.scan_texts(data.samples, data.labels, **how), source_rows=data.rows)

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
        formats.format_of(out)
        order = {"order": shuffling.order_beside(out)} if options.shuffle else {}
        return {"changes": releasing.changes_beside(out), **order}

    def release_job(
        self, source: Place, plan: Plan, options: TextOptions, *, ids: Any, progress: bool | None
    ) -> releasing.TextJob:
        """Texts of a file or a folder, released batch by batch."""
        return releasing.TextJob(source, plan, options)

    def parted_job(self, source: Place, plan: Plan, options: TextOptions, *, ids: Any) -> parted.TextPartedJob:
        """Texts of files, released in parts."""
        return parted.TextPartedJob(source, plan, options)

    def part_worker(self, plan: Plan, recipe: Mapping[str, Any]) -> parted.TextPartWorker:
        """One process of many that release texts."""
        return parted.TextPartWorker(plan, recipe)

    def match(
        self, release: Any, reference: Any, secret: Any, options: TextOptions, *, utility: Any, progress: bool | None
    ) -> Matched:
        """The same texts in the same order."""
        return dataset.match_texts(release, reference, secret, options, utility)


def _with_surface(counted: AttackRows, texts: Any) -> AttackRows:
    return replace(counted, data=shown.SurfacedRows(counted.data, lambda: TEXTS.surface(texts)))


TEXTS: Modality = TextModality()
