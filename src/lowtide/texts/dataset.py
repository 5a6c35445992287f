"""Texts as the verbs open, release and match them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowtide.attack.together import read_posts
from lowtide.checks import LowtideError, check_rows, one_of
from lowtide.disclose.plan_file import Plan
from lowtide.errors import note
from lowtide.files import regular
from lowtide.interface import AuditContext, TextTable
from lowtide.labels import check_secret_values, copy_note, near_copies, refuse_copies
from lowtide.places import Place, as_place, is_place
from lowtide.protocols import Dataset, Locks, Matched, PlanView
from lowtide.remote import RemotePath
from lowtide.splits import MOST_ROWS
from lowtide.table_files.formats import as_arrow, find_column, is_frame, is_moment
from lowtide.table_files.reading import batches
from lowtide.table_files.sampling import RowSample, note_sample, sample_places, sample_rows
from lowtide.table_files.shuffling import read_places
from lowtide.texts.attackers import TextsWithColumns
from lowtide.texts.cleaning import cleaner
from lowtide.texts.encoder import as_texts
from lowtide.texts.options import TextOptions
from lowtide.texts.policies import FixedTerms
from lowtide.texts.reading import TextSet, coded, duplicates, read_texts, split_groups
from lowtide.texts.redraw_policy import RedrawWords
from lowtide.texts.terms import TermOptions
from lowtide.types import Ints

_KINDS = ("hashtags", "handles", "urls", "emoji", "numbers", "accents")
_LOOKED_AT = 200  # entries of a folder, to tell texts from images
_POINTS = 12  # of the trade-off curve that are printed
_TERMS = 40  # hidden terms that are printed


@dataclass(frozen=True, eq=False)
class TextSource:
    """What the verbs know of texts beside their words.

    Attributes:
        found: the set they came from; `None` for a list.
        copies: columns that tell the secret in nearly every text.
    """

    found: TextSet | None = None
    copies: tuple[str, ...] = ()


def term_options(options: TextOptions) -> TermOptions:
    """What counts as a term."""
    for kind in options.without:
        one_of("without", kind, _KINDS)
    # Unlike the paper's words: an address that is not a term would be released unseen.
    kinds = {"urls": True, **dict.fromkeys(options.without, False)}
    return TermOptions(
        ngrams=options.ngrams or 1,
        min_count=options.min_count,
        most=options.terms,
        stop=_stop_words(options.stop),
        **kinds,  # type: ignore[arg-type]
    )


def _stop_words(stop: str | None) -> Any:
    if stop in (None, "english"):
        return stop
    try:
        return tuple(regular(str(stop)).read_text(encoding="utf-8").split())
    except (OSError, UnicodeError):
        raise LowtideError(
            f"stop must be `english` or a file of words in UTF-8, got {stop!r}; check the path"
        ) from None


def are_text_files(source: Any) -> bool:
    """Whether a path is a folder of `.txt` files: at least half of its files are; folders of images
    have a few.
    """
    if not is_place(source) or not as_place(source).is_dir():
        return False
    suffixes = [
        suffix.lower() for suffix in islice(_suffixes(as_place(source)), _LOOKED_AT) if suffix
    ]
    return 0 < len(suffixes) <= 2 * suffixes.count(".txt")


def _suffixes(folder: Place) -> Iterator[str]:
    """The endings of what lies below a folder."""
    if isinstance(folder, RemotePath):
        return (PurePosixPath(name).suffix for name in folder.walk())
    return (entry.suffix for entry in folder.rglob("*"))


def open_sample(source: Any, secret: Any, options: TextOptions) -> Dataset:
    """As `open_texts`; of many texts a uniform sample, see `lowtide.table_files.sampling`."""
    return open_texts(source, secret, options, most=options.most_rows or MOST_ROWS)


def open_texts(
    source: Any, secret: Any, options: TextOptions, *, most: int | None = None
) -> Dataset:
    """Read texts from a file, a folder, a frame or a list, and find the secret.

    Args:
        source: where they are.
        secret: the name of its column, or the values for a list.
        options: of the kind.
        most: at most so many, whole authors chosen at random, but of folders all; `None` for all.
    """
    if not is_place(source) and options.text is None:
        return _sample_of_list(_open_list(source, secret, options.group), most, options)
    sample = _sample(source, options, most)
    read = source if sample is None else sample.table
    found = read_texts(
        read, text=options.text, secret=secret, group=options.group, encoding=options.encoding
    )
    name = found.names[1]
    if found.secret is None or name is None:
        raise LowtideError(f"{source} does not say what the secret of a text is; name its column")
    known = np.asarray(
        pc.invert(pc.is_null(found.secret, nan_is_null=True)).to_numpy(zero_copy_only=False), bool
    )
    if known.any() and not known.all():
        note(f"{int((~known).sum())} texts without a value of the secret are left out")
    found = found.take(known)
    labels = _secret_values(found)
    check_secret_values(name, len(labels), len(np.unique(labels.astype(str))), "text")
    _note_texts(found)
    title = as_place(source).name if is_place(source) else "texts"
    # An author's name goes with their secret by nature, and is not a copy of it.
    others = found.others.select(
        [column for column in found.others.column_names if column != found.names[2]]
    )
    copies = near_copies(others, np.unique(labels.astype(str), return_inverse=True)[1])
    for column in copies:
        note(copy_note(column, name))
    groups = found.split_groups()
    unjudged = tuple(found.others.column_names)
    rows = sample.rows if sample is not None and sample.is_part else None
    beside: dict[str, Any] = {
        "rows": rows,
        "source": TextSource(found, copies),
        "unjudged": unjudged,
    }
    return Dataset("texts", title, list(found.texts), name, labels, known, groups, **beside)


def _sample(source: Any, options: TextOptions, most: int | None) -> RowSample | None:
    """Whole authors of a table file or a frame at random; `None` where all texts are read."""
    if most is None or are_text_files(source):
        return None
    if is_frame(source):
        sample = sample_rows([as_arrow(source)], most, group=options.group)
    else:
        sample = sample_rows(batches(source, encoding=options.encoding), most, group=options.group)
    name = as_place(source).name if is_place(source) else "the data frame"
    note_sample(len(sample.table), sample.rows, name, "texts", options.most_rows)
    return sample


def _open_list(texts: Any, secret: Any, authors: Any) -> Dataset:
    if isinstance(secret, str):
        raise LowtideError(
            f"a list of texts has no column {secret!r}; give the values of the secret, one per text"
        )
    listed = as_texts(texts)
    labels = np.asarray(secret)
    check_rows("the secret", labels.shape, len(listed), "texts", flat=True)
    groups = split_groups(listed, authors)
    return Dataset(
        "texts",
        "texts",
        listed,
        "secret",
        labels,
        np.ones(len(labels), bool),
        groups,
        source=TextSource(),
    )


def _sample_of_list(data: Dataset, most: int | None, options: TextOptions) -> Dataset:
    rows = len(data.labels)
    if most is not None:
        note_sample(min(rows, most), rows, "list", "texts", options.most_rows)
    if most is None or rows <= most:
        return data
    places = sample_places(rows, most, data.groups)
    return replace(
        data,
        samples=[data.samples[place] for place in places],
        labels=data.labels[places],
        known=data.known[places],
        groups=None if data.groups is None else data.groups[places],
        rows=rows,
    )


def _secret_values(found: TextSet) -> Any:
    """The secret of every text, (n,); dates as texts, since labels are kept as JSON."""
    if found.secret is None:
        return np.zeros(0)
    values = found.secret.to_pylist()
    return np.array(list(map(str, values)) if is_moment(found.secret.type) else values)


def _note_texts(found: TextSet) -> None:
    counts = found.counts
    if counts.empty:
        note(f"{counts.empty:,} texts have no word in them")
    if counts.one_word:
        note(f"{counts.one_word:,} texts have one word only")
    copies = duplicates(found.texts, found.groups)
    if copies.exact or copies.near:
        across = (
            f", and {copies.across:,} texts have a copy by another author" if copies.across else ""
        )
        note(
            f"{copies.exact + copies.near:,} texts are copies of earlier ones{across}; copies stay"
            " together whenever texts are held out"
        )
    if found.groups is None:
        note(
            "no --group: who writes several texts may be recognised by their style, which counts as"
            " leakage here"
        )


def lock_terms(
    data: Dataset, options: TermOptions, keep: Sequence[str], hide: Sequence[str]
) -> Locks:
    """Terms and columns to keep, terms to hide; a word that no text has is refused: it would change
    nothing, unseen.
    """
    found: TextSet | None = data.source.found
    names = [] if found is None else found.others.column_names
    columns = tuple(name for name in keep if name in names)
    refuse_copies(data.source.copies, columns, data.secret)
    terms = [name for name in keep if name not in columns]
    words = cleaner(options).words
    left = {name: f" {' '.join(words(name))} " for name in (*terms, *hide)}
    for text in data.samples if left else ():
        written = f" {' '.join(words(text))} "
        left = {
            name: word for name, word in left.items() if word not in written or not word.strip()
        }
    others = ", ".join(map(repr, names)) or "none"
    for name in (name for name in terms if name in left):
        raise LowtideError(
            f"keep names {name!r}, which is neither a word of the texts nor a column to release;"
            f" columns are: {others}"
        )
    for name in (name for name in hide if name in left):
        raise LowtideError(
            f"hide names {name!r}, which is not a word of the texts; columns are left out unless"
            " they are kept"
        )
    return Locks(terms, list(hide), columns)


def check_layout(plan: Plan) -> None:
    """Refuse a layout that does not name the column of texts, or that would release the secret."""
    text = plan.layout["text"]
    kept = plan.layout["kept"]
    names = [text, *(kept if isinstance(kept, list) else (None,))]
    if not all(isinstance(name, str) for name in names) or plan.secret in names:
        raise LowtideError(
            "the layout of a plan of texts must name the column of texts and those that are kept"
        )


def view_plan(plan: Plan) -> PlanView:
    """The trade-off curve, and the first of the hidden terms."""
    policy = plan.hider.policy
    private = "it holds words of your texts"
    if isinstance(policy, RedrawWords):
        line = (
            f"drawn anew in the rehearsal: {plan.card.changed:.1%} of the words; the file does not"
            " mark which"
        )
        return PlanView(
            (), (line,), {"curve": []}, "it holds words of your texts, and how each class uses them"
        )
    if not isinstance(policy, FixedTerms):
        return PlanView((), (), {"curve": []}, private)
    every = max(1, len(policy.curve) // _POINTS)
    table = TextTable(
        "The trade-off curve: words kept, and what logistic regression still reads",
        ("words kept", "terms hidden", "bits", "accuracy"),
        tuple(
            (
                f"{p.kept:.1%}",
                int(p.hidden.sum()),
                str(p.reading.leakage.bits),
                str(p.reading.accuracy),
            )
            for p in policy.curve[::every]
        ),
    )
    hidden = policy.terms
    more = f" and {len(hidden) - _TERMS:,} more" if len(hidden) > _TERMS else ""
    line = (
        f"hidden: {len(hidden):,} terms; {policy.kept:.1%} of the words stay. In the order of"
        f" hiding: {', '.join(hidden[:_TERMS])}{more}"
    )
    curve = [
        {
            "kept": p.kept,
            "terms": int(p.hidden.sum()),
            "nats": p.reading.leakage.value,
            "accuracy": p.reading.accuracy.value,
        }
        for p in policy.curve
    ]
    return PlanView((table,), (line,), {"curve": curve}, private)


def match_texts(
    release: Any, reference: Any, secret: Any, options: TextOptions, utility: Any
) -> Matched:
    """Released texts and those they were made from, the same texts in the same order."""
    if not is_place(release):
        data = _open_list(release if reference is None else reference, secret, options.group)
        texts = as_texts(release)
        clean = None if reference is None else data.samples
        told = _told(options, None if options.group is None else coded(options.group, len(texts)))
        if options.order is None:
            return Matched(data, texts, clean, utility, told=told)
        places = read_places(options.order, len(texts))
        return Matched(data, [texts[place] for place in places], clean, utility, places, told=told)
    is_folder = is_place(reference) and as_place(reference).is_dir()
    own = TextOptions(None if is_folder else options.text, options.group, encoding=options.encoding)
    data = open_texts(reference, secret, own)
    found: TextSet = data.source.found
    released = read_texts(release, text=options.text or found.names[0], encoding=options.encoding)
    if data.secret in (released.names[0], *released.others.column_names):
        raise LowtideError(
            f"the release still holds the secret {data.secret!r}: nothing is hidden; release it"
            " with `lowtide release`"
        )
    if len(released) != len(data.known):
        raise LowtideError(
            f"the release has {len(released)} texts and the reference {len(data.known)}; they must"
            " be the same texts in the same order"
        )
    values = None if utility is None else utility_values(found, utility)
    places = (
        np.arange(len(released))
        if options.order is None
        else read_places(options.order, len(released))
    )
    places = places[data.known]
    # A column that was kept is shown with its text, so that attackers read it, too; but it does not
    # predict itself.
    known = [
        name
        for name in found.others.column_names
        if name in released.others.column_names and name != utility
    ]
    shown = _with_columns(released, places, known)
    clean = _with_columns(found, np.arange(len(found)), known)
    told = _told(options, None if found.groups is None else coded(found.groups, len(found)))
    return Matched(data, shown, clean, values, places, told=told)


def _told(options: TextOptions, authors: Ints | None) -> AuditContext:
    """Whose texts are looked at together, where that was asked."""
    if options.posts is None:
        return AuditContext()
    if authors is None:
        raise LowtideError(
            "--posts adds up what texts of one author tell; say who wrote each with --group COLUMN"
        )
    return AuditContext(persons=authors, posts=read_posts(options.posts))


def _with_columns(found: TextSet, places: Ints, names: Sequence[str]) -> list[str]:
    """Texts at some places, with what stands in the columns of these names beside them."""
    texts = [found.texts[place] for place in places]
    if not names:
        return texts
    columns = [found.others[name].take(pa.array(places)).to_pylist() for name in names]
    cells = zip(*columns, strict=True)
    beside = [
        "\n".join(f"{name}: {cell}" for name, cell in zip(names, row, strict=True)) for row in cells
    ]
    return TextsWithColumns(texts, beside)


def utility_values(found: TextSet, name: str) -> list[Any]:
    """The values of a column beside the texts, none of them missing."""
    column = found.others[find_column(name, found.others.column_names)]
    if column.null_count:
        raise LowtideError(
            f"the utility {name!r} is missing for {column.null_count} texts; fill it in, or name"
            " another column"
        )
    values: list[Any] = column.to_pylist()
    return values
