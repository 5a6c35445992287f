"""What a kind of data is to the layers: the `Modality` protocol and what travels through it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from numpy.typing import ArrayLike, NDArray

from lowtide.interface import AuditContext, TextTable
from lowtide.types import Bools, Floats, Labels


@dataclass(frozen=True)
class Nouns:
    """What one kind of data calls its things, in messages and reports.

    Attributes:
        row: what one sample is; `rows` of many, `a_row` at the start of a sentence.
        feature: what may be hidden; `features` of many, `columns` where a table has columns.
        named: whether features have names that say something and may be published.
        worth: what a share that is kept is a share of.
        unit: what an audit compares one by one.
        counted: what features are called where they are counted beside what is kept.
        changed: what is said of units that are not as they were.
        change_note: what counts as a change of a unit, in a sentence, where that is not plain.
        reorder: what to do where the order of samples tells the secret.
    """

    row: str
    rows: str
    a_row: str
    feature: str
    features: str
    columns: str
    named: bool
    worth: str
    unit: str
    counted: str
    changed: str = "changed"
    change_note: str = ""
    reorder: str = "release with --shuffle"


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples with their secret, as a modality opened them.

    Attributes:
        kind: the name of the modality.
        name: what to call it in titles: the name of the file, or of the kind.
        samples: n samples in the kind's own form: a pyarrow table of the judged columns, `Images`,
            a list of texts.
        secret: what the secret is called.
        labels: (n,) its values.
        known: (all,) which samples of the source have a secret; the others were left out.
        groups: (n,) samples that stay on one side of every split have one number; `None` where each
            stands for itself.
        rows: how many samples the source has, where these are a random choice of them; `None` where
            they are all.
        source: what only the kind's own modules read: a description of the columns, an image
            folder, a set of texts.
        unjudged: columns beside the samples, which nobody judges and which are released only where
            the user names them.
        each: where the secret is the product of several, the same samples with each of these by
            itself.
    """

    kind: str
    name: str
    samples: Any = field(repr=False)
    secret: str
    labels: NDArray[Any] = field(repr=False)
    known: Bools = field(repr=False)
    groups: Labels | None = field(default=None, repr=False)
    rows: int | None = None
    source: Any = field(default=None, repr=False)
    unjudged: tuple[str, ...] = ()
    each: tuple["Dataset", ...] = field(default=(), repr=False)


class PlanView(NamedTuple):
    """A plan as a person reads it.

    Attributes:
        tables: what is hidden, and the trade-off curve.
        lines: the same in words.
        plain: as plain values, for JSON; nothing that was learnt about the data.
        private: why the plan file stays inside.
    """

    tables: tuple[TextTable, ...]
    lines: tuple[str, ...]
    plain: Mapping[str, Any]
    private: str


class Locks(NamedTuple):
    """What the user wants kept or hidden whatever the plan says.

    Attributes:
        keep: features that must be shown, as `Obfuscator` takes them.
        hide: features that must be hidden.
        columns: columns beside the features that are released as they are, on the user's word.
    """

    keep: Sequence[Any]
    hide: Sequence[Any]
    columns: tuple[str, ...] = ()


class Changed(NamedTuple):
    """One batch of a release.

    Attributes:
        samples: what is written, in the form the sink of the job takes.
        rows: how many samples it has.
        hidden: (m,) in how many of them each feature of the card is hidden; `None` where the card's
            own shares hold.
        units: how many units (cells, pixels, words) the batch had; 0 where the card's own share of
            changes holds.
        changed: how many of them were changed.
        blank: how many are blank because they did not occur in the reference data.
        beyond: how many are shown although they lie outside the range of the reference data.
    """

    samples: Any
    rows: int
    hidden: Floats | None
    units: float
    changed: float
    blank: int = 0
    beyond: int = 0


class ReleaseJob(Protocol):
    """A file or folder that is opened to be released under a plan.

    Attributes:
        total: how many samples there are; `None` where nobody knows before the end.
    """

    total: int | None

    def shuffle(self, noise: Any) -> None:
        """Write samples in a random order, by the key of the noise if there is one; for kinds with
        that option.
        """
        ...

    def sink(self, out: Path, staged: Callable[..., Path]) -> AbstractContextManager[Any]:
        """Where batches go, an object with `write(changed)`; `staged`, a `Staging`, gives the place
        of every file.
        """
        ...

    def batches(self) -> Iterator[Any]:
        """The source, batch by batch."""
        ...

    def change(self, batch: Any, noise: Any) -> Changed:
        """Hide in a batch what the plan says."""
        ...

    def finish(self) -> None:
        """Refuse, after the last batch and before anything appears, what only the whole can
        show.
        """
        ...


@dataclass(frozen=True, eq=False)
class Matched:
    """A release beside what it was made from, sample by sample.

    Attributes:
        data: the reference samples that are in the release, with their secret.
        release: the released samples in the same order.
        clean: the reference samples as attackers are to see them.
        utility: (n,) values that the release should still predict; `None` when nothing was asked
            for.
        position: (n,) where each of them stands in the release; `None` where they stand in this
            order.
        unjudged: columns that the release shows and no attacker looks at.
        by_surface: columns that only the attacker "surface" looks at.
        whole: the released samples with all their columns, in the order of `release`; `None` where
            that has them all.
        told: what the audit was told besides.
    """

    data: Dataset
    release: Any = field(repr=False)
    clean: Any = field(repr=False)
    utility: Any = field(default=None, repr=False)
    position: Any = field(default=None, repr=False)
    unjudged: tuple[str, ...] = ()
    by_surface: tuple[str, ...] = ()
    whole: Any = field(default=None, repr=False)
    told: AuditContext = field(default_factory=AuditContext)


class Modality(Protocol):
    """One kind of data. Every layer asks a modality what differs between kinds, and nobody asks
    which kind it is.

    Attributes:
        name: such as `tables`; also what the plan file and a saved density say.
        nouns: what it calls its things.
        options: a frozen dataclass of what a user may tell; the command line makes flags from it,
            and shows its class attribute `default_budget`.
        policies: names of its policies; `policy_for` says which is the default.
        mechanisms: names of its mechanisms; the first is the default.
        default_budget: what a release may tell when nothing is said, in nats.
        critics: classes of critics it adds to those of `lowtide.estimate.learners`, by the name
            they are saved under.
        attackers: makers of attackers (`Maker`, or `Continued`), by name.
        cross_fitted_rows: up to how many samples attackers are cross-fitted; with more they are
            tested on a fifth.
        trained_once: names of attackers that are not cross-fitted, however few samples there are.
    """

    name: str
    nouns: Nouns
    options: type[Any]
    policies: tuple[str, ...]
    mechanisms: tuple[str, ...]
    default_budget: float
    trained_once: ClassVar[frozenset[str]]

    @property
    def settings(self) -> type[Any]:
        """What only the Obfuscator of this kind takes, as a frozen dataclass."""
        ...

    @property
    def critics(self) -> Mapping[str, Any]:
        """Classes of critics by the name they are saved under."""
        ...

    @property
    def attackers(self) -> Mapping[str, Any]:
        """Makers of attackers, from a seed, by name."""
        ...

    @property
    def joins_attackers(self) -> bool:
        """Whether several attackers are also joined into one, "together"."""
        ...

    @property
    def cross_fitted_rows(self) -> int:
        """Up to how many samples attackers are cross-fitted."""
        ...

    def claims(self, x: Any, features: Any = None) -> bool:
        """Whether an object in memory is of this kind, or `features` describes features of this
        kind.
        """
        ...

    # Density

    def fit_density(
        self, x: Any, s: ArrayLike | None, options: Any, groups: ArrayLike | None
    ) -> Any:
        """Fit a `Density`; see `TIDE.fit`. `options` are those of `lowtide.estimate.objectives`."""
        ...

    def read_encoder(self, config: Mapping[str, Any], tensors: Mapping[str, Any]) -> Any:
        """Rebuild the `Encoder` of a saved density from what its `to_config` and `tensors` gave."""
        ...

    def explain(
        self, density: Any, sample: Any, *, budget: float | None, secret_class: Any, seed: int
    ) -> Any:
        """Explain what one sample tells; see `Density.explain`. A kind without explanations raises
        a `LowtideError`.
        """
        ...

    # Attack

    def rows(self, x: Any) -> Any:
        """Read data as attackers learn from it, an `AttackRows`."""
        ...

    def rows_like(self, x: Any, rows: Any, clean: Any) -> tuple[Any, str | None]:
        """Read a release `x` as clean data was read, for attackers that have seen clean data only.

        `rows` and `clean` are the readings of both. An `AttackRows` and `None`; or `None`, and why
        it cannot be read.
        """
        ...

    def surface(self, x: Any) -> Any:
        """What samples show beside the values that attackers read: a `Surface`, maybe one without
        channels.
        """
        ...

    def numbers(self, rows: Any) -> Any:
        """What attackers learn from (`AttackRows.data`) as numbers, (n, columns), dense or CSR."""
        ...

    # Disclose

    def planner(
        self, x: Any, s: ArrayLike, task: Any, *, groups: ArrayLike | None, utility: Any
    ) -> Any:
        """Reference data laid out to be rehearsed, a `disclose.rehearsal.Planner`.

        Args:
            x: n samples.
            s: (n,) their secret.
            task: what an Obfuscator was asked for, a `disclose.rehearsal.Task`.
            groups: (n,) samples that stay on one side of every split; `None` where each stands for
                itself.
            utility: (n,) what the release should still tell, or the name of a column; `None` when
                nothing is named.
        """
        ...

    def read_hider(self, config: Mapping[str, Any], tensors: Mapping[str, Any], where: Any) -> Any:
        """Rebuild a `disclose.saved.Hider` from what its `parts` gave; `where` it came from is for
        error messages.
        """
        ...

    # Auditing

    def count(self, x: Any) -> int:
        """How many samples there are."""
        ...

    def change(self, clean: Any, release: Any, *, peak: float | None = None) -> Any:
        """The `Change` from n clean samples to the same n in a release; raises where they cannot be
        compared.
        """
        ...

    def predicts(self, release: Any, utility: Any, *, clean: Any = None, **options: Any) -> Any:
        """The `UtilityReport` of models trained on a release to predict (n,) values; options as of
        `attack`.
        """
        ...

    # Report

    @property
    def publishable(self) -> str:
        """What of a report of this kind may be published, in words."""
        ...

    def sections(self, findings: Any, view: Any = None) -> Sequence[Any]:
        """The `Section`s that only this kind has; `view` is from the method of that name."""
        ...

    def view(
        self, samples: Any, *, scan: Any = None, hider: Any = None, single: int = 0, seed: int = 0
    ) -> Any:
        """What `sections` shows beyond the findings: averages over samples, and so many single
        ones; may be `None`.
        """
        ...

    def outline(self, hider: Any) -> Any:
        """The `Outline` of a fitted plan."""
        ...

    def count_hidden(self, card: Any) -> Any:
        """How many features a card hides: `HiddenCounts`."""
        ...

    # Verbs

    def claims_source(self, source: Any, given: Mapping[str, Any]) -> bool:
        """Whether a path or an object is of this kind, in the light of the options that were given
        for it.
        """
        ...

    def open(self, source: Any, secret: Any, options: Any, *, progress: bool | None) -> Dataset:
        """Open a path or an object and find the secret, a name or its values; `errors.note` says
        what to know.
        """
        ...

    def features(self, options: Any) -> Any:
        """What `TIDE` is told that one feature is."""
        ...

    def scan(self, data: Dataset, estimator: Any, options: Any) -> Any:
        """What the data tells, and which features tell it, fitted by a `TIDE`."""
        ...

    def shown(self, data: Dataset) -> Any:
        """All that a file shows of its samples but the secret, also what is not judged: what
        `surface` looks at.
        """
        ...

    def locks(self, data: Dataset, options: Any, keep: Sequence[str], hide: Sequence[str]) -> Locks:
        """Read what the user wants kept or hidden, and refuse names that the data does not have."""
        ...

    def utility(self, data: Dataset, name: str) -> Any:
        """What `Obfuscator.fit` takes as utility for a column of this name."""
        ...

    def layout(
        self, data: Dataset, options: Any, locks: Locks, utility: str | None
    ) -> Mapping[str, Any]:
        """What a plan must know to open further files of this layout, as plain values."""
        ...

    def check_layout(self, plan: Any) -> None:
        """Refuse a plan whose layout does not fit its policy, or would release the secret."""
        ...

    def policy_for(self, asked: Mapping[str, Any], data: Dataset | None) -> Any:
        """The policy when the user names none: by what else `plan` is asked for, and by the data
        once it is open.
        """
        ...

    def plan_weights(self, policy: str) -> str | None:
        """Why a plan with this policy needs a folder, for its weights; `None` where a JSON file
        holds it.
        """
        ...

    def view_plan(self, plan: Any) -> PlanView:
        """A plan as a person reads it."""
        ...

    def reorder(self, x: Any, order: Any) -> Any:
        """The samples of an object at (n,) places, in that order, and nothing that tells the old
        one.
        """
        ...

    def release_object(
        self, x: Any, plan: Any, *, noise: Any, ids: Any, secret: Any = None
    ) -> Changed:
        """Release data in memory, by `redraw` with its secret (n,); the samples are the same kind
        of object.
        """
        ...

    def beside(self, out: Path, options: Any) -> Mapping[str, Path]:
        """Files beside a release and its card, which stay inside, by what they are; refuses unknown
        formats.
        """
        ...

    def release_job(
        self, source: Path, plan: Any, options: Any, *, ids: Any, progress: bool | None
    ) -> ReleaseJob:
        """Open a file or folder to be released under a plan."""
        ...

    def match(
        self,
        release: Any,
        reference: Any,
        secret: Any,
        options: Any,
        *,
        utility: str | None,
        progress: bool | None,
    ) -> Matched:
        """Open a release and what it was made from, and bring both into one order."""
        ...
