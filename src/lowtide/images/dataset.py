"""Images as the verbs open, release and match them.

Opening images by their headers: which can be used, what size they have, and what had to be skipped.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from lowtide.checks import LowtideError, check_rows, count
from lowtide.disclose.card import ReleaseCard
from lowtide.disclose.plan_file import Plan, card_paths
from lowtide.errors import note
from lowtide.images.alignment import Alignment, aligned
from lowtide.images.archive import NO_LABELS, open_npz
from lowtide.images.encoder import Chosen, Grid, Images, as_images
from lowtide.images.files import Header, Size, UnusableError, look, quiet, spread
from lowtide.images.folder import FileImages, ImageFolder, Skipped, cached
from lowtide.images.layouts import Listing, list_folder, take_rows
from lowtide.images.mechanism import FixedPatches
from lowtide.images.names import files_tell, names_tell, pair
from lowtide.images.options import ImageOptions, check_pixels
from lowtide.images.redrawing import RedrawRegion
from lowtide.interface import TextTable
from lowtide.labels import check_secret_values, copy_note, near_copies, read_classes, refuse_copies
from lowtide.places import AnyPlace, Place, as_place, is_place
from lowtide.progress import progress_bar
from lowtide.protocols import Dataset, Locks, Matched, PlanView
from lowtide.remote import RemotePath
from lowtide.table_files.formats import FORMATS, existing, find_column
from lowtide.table_files.several import holds_tables
from lowtide.types import Bools

_BATCH = 256
_MOST = 3  # sizes in a sentence


def open_images(
    path: AnyPlace,
    *,
    resize: tuple[int, int] | None = None,
    strict: bool = False,
    grey: bool = False,
    thorough: bool = False,
    listing: Listing | None = None,
    progress: bool | None = None,
) -> ImageFolder:
    """Open images by their headers; no more than one batch of them is ever decoded.

    Recognised are a folder per class (the column `label`), Hugging Face's ImageFolder
    (`metadata.csv`, `.jsonl` or `.parquet` with `file_name`), a folder of images without labels,
    and `.npz` files with an array `images` or `X`: bytes, or floats in [0, 1] of which 1 becomes
    255.

    A file that is not an image, is cut short, has no label or is not there is skipped. Damage in
    the middle of a file shows only when it is decoded: reading it is then an error, unless
    `thorough` has found it before.

    Args:
        path: the folder, or an `.npz` file.
        resize: width and height to bring all images to, with antialiasing; needed where they differ
            in size.
        strict: refuse what would be skipped.
        grey: make grey of colours. Images that are all grey have one channel anyway.
        thorough: decode every file once.
        listing: the images of the folder and their labels, where you know these and the folder does
            not say them.
        progress: whether to draw a progress bar; by default only on a terminal.
    """
    place = as_place(path)
    for name, value in zip(("width", "height"), resize or (), strict=False):
        count(f"the {name} to resize to", value, 1)
    if resize is not None:
        check_pixels(*resize)
    if place.suffix.lower() == ".npz" and not place.is_dir():
        return _open_archive(existing(place), resize=resize, strict=strict, grey=grey)
    if not place.is_dir():
        raise LowtideError(f"{place} is not a folder of images or an .npz file; check the path")
    listing = list_folder(place) if listing is None else listing
    look_at = partial(_look, place, thorough=thorough, resized=resize is not None)
    headers = _look_at(
        look_at,
        listing.names,
        spread_out=thorough or isinstance(place, RemotePath),
        progress=progress,
    )
    bad: dict[str, list[str]] = {}
    for name, header in zip(listing.names, headers, strict=True):
        if isinstance(header, str):
            bad.setdefault(header, []).append(name)
    reasons = dict(listing.left_out)
    for reason, some in bad.items():
        reasons[reason] = (*reasons.get(reason, ()), *some)
    skipped = _refuse_if(strict, Skipped(reasons), place)
    kept = np.array(
        [row for row, header in enumerate(headers) if isinstance(header, Header)], np.intp
    )
    if not len(kept):
        raise LowtideError(
            f"{place} has no image that can be used; {skipped or 'the labels name none'}"
        )
    good = [header for header in headers if isinstance(header, Header)]
    width, height = resize or _one_size(good, place)
    check_pixels(width, height, len(good))
    names = tuple(listing.names[row] for row in kept)
    shape = (height, width, 1 if grey or all(header.grey for header in good) else 3)
    labels = take_rows(listing.labels, kept)
    source = FileImages(place, names, shape, resize is not None, tuple(good))
    rows = np.arange(len(names))
    return ImageFolder(
        place, listing.layout, names, labels, skipped, source, rows, listing.label_file
    )


def _open_archive(place: Place, *, resize: Size | None, strict: bool, grey: bool) -> ImageFolder:
    archive = open_npz(place, resize=resize, grey=grey)
    skipped = Skipped({NO_LABELS: archive.left_out} if archive.left_out else {})
    rows = np.arange(len(archive.images))
    _refuse_if(strict, skipped, place)
    return ImageFolder(
        place,
        "npz",
        archive.names,
        archive.labels,
        skipped,
        archive.images,
        rows,
        label_file=archive.key,
    )


def _look_at(
    check: Callable[[str], Header | str],
    names: Sequence[str],
    *,
    spread_out: bool,
    progress: bool | None,
) -> list[Header | str]:
    """The header of every file, or the reason why it has none."""
    found: list[Header | str] = []
    with progress_bar("looking at images", len(names), progress) as tick, quiet():
        for start in range(0, len(names), _BATCH):
            some = names[start : start + _BATCH]
            # Reading headers of this disk is the interpreter's work, which threads do not speed up.
            found.extend(spread(check, some) if spread_out else map(check, some))
            tick(len(found))
    return found


def _look(root: Place, name: str, *, thorough: bool, resized: bool) -> Header | str:
    try:
        return look(root / name, thorough=thorough, resized=resized)
    except UnusableError as error:
        return str(error)


def _refuse_if(strict: bool, skipped: Skipped, place: Place) -> Skipped:
    if strict and skipped:
        raise LowtideError(
            f"{place}: {skipped}; mend or remove them, or leave out --strict to skip them"
        )
    return skipped


def _one_size(headers: Sequence[Header], place: Place) -> Size:
    sizes = Counter(header.size for header in headers).most_common()
    if len(sizes) == 1:
        return sizes[0][0]
    shown = ", ".join(f"{width}×{height} ({times:,})" for (width, height), times in sizes[:_MOST])
    more = f" and {len(sizes) - _MOST} more sizes" if len(sizes) > _MOST else ""
    width, height = sizes[0][0]
    raise LowtideError(
        f"the images of {place} have different sizes: {shown}{more}; look at them in one, with"
        f" --resize {width}x{height} (resize=({width}, {height})): a release keeps the size of each"
    )


_POINTS = 12  # of the trade-off curve that are printed
_WIDEST = 64  # patches in a row of a map of letters


@dataclass(frozen=True, eq=False)
class ImageSource:
    """What the verbs know of images beside their pixels.

    Attributes:
        folder: the folder they came from; `None` for an array.
        copies: labels that tell the secret of nearly every image.
        alignment: where the frame of a plan lies, where masks follow the face.
    """

    folder: ImageFolder | None = None
    copies: tuple[str, ...] = ()
    alignment: Alignment | None = None


def are_image_files(source: Any) -> bool:
    """Whether a path is for images: a folder or an `.npz` file, which is never a table."""
    if not is_place(source):
        return False
    path = as_place(source)
    if path.suffix.lower() == ".npz":
        return True
    return path.is_dir() and path.suffix.lower() not in FORMATS and not holds_tables(path)


def open_dataset(
    source: Any, secret: Any, options: ImageOptions, *, progress: bool | None
) -> Dataset:
    """Open images from a folder, an `.npz` file or an array, and find the secret."""
    if not is_place(source):
        return _open_array(source, secret)
    folder = open_images(
        source,
        resize=options.size,
        grey=options.grey,
        strict=options.complete,
        thorough=True,
        progress=progress,
    )
    for text in folder.describe():
        note(text)
    secret = find_column(secret, folder.columns) if folder.columns else secret
    known = folder.known(secret)
    if known.any() and not known.all():
        note(f"{int((~known).sum())} images without a value of the secret are left out")
    folder = folder.take(known)
    labels = folder.column(secret)
    check_secret_values(secret, len(labels), len(np.unique(labels)), "image")
    note_names(folder.names, labels)
    told = files_tell(folder, labels)
    if told is not None:
        note(told)
    beside = folder.beside.drop_columns([secret])
    copies = near_copies(beside, read_classes(labels)[1])
    for name in copies:
        note(copy_note(name, secret))
    alignment, frames = (
        (None, None) if options.align is None else Alignment.of(folder, options.align)
    )
    pixels = cached(aligned(folder, frames), progress=progress)
    found = ImageSource(folder, copies, alignment)
    unjudged = tuple(beside.column_names)
    return Dataset(
        "images",
        as_place(source).name,
        pixels,
        secret,
        labels,
        known,
        source=found,
        unjudged=unjudged,
    )


def _open_array(x: Any, secret: Any) -> Dataset:
    if isinstance(secret, str):
        raise LowtideError(
            f"an array of images has no column {secret!r}; give the values of the secret, one per"
            " image"
        )
    images = as_images(x)
    labels = np.asarray(secret)
    check_pixels(images.shape[1], images.shape[0], len(images))
    check_rows("the secret", labels.shape, len(images), "images", flat=True)
    return Dataset(
        "images",
        "images",
        images,
        "secret",
        labels,
        np.ones(len(labels), bool),
        source=ImageSource(),
    )


def note_names(names: Sequence[str], labels: Any) -> None:
    """Say so where the names of the images go with the secret."""
    check = names_tell(names, read_classes(labels)[1])
    if check.tells:
        note(str(check))


def view_plan(plan: Plan) -> PlanView:
    """The plan as a map of letters, and its trade-off curve."""
    policy = plan.hider.policy
    grid = plan.hider.mechanism.grid
    private = "it names the secret"
    if isinstance(policy, RedrawRegion):
        return _view_redraw(plan, policy, private)
    if not isinstance(policy, FixedPatches):
        return PlanView((), (), {"curve": [], "labels": plan.layout["kept"]}, private)
    every = max(1, len(policy.curve) // _POINTS)
    table = TextTable(
        "The trade-off curve: pixels kept, and what logistic regression on edges still reads",
        ("pixels kept", "bits", "accuracy"),
        tuple(
            (f"{p.kept:.0%}", str(p.reading.leakage.bits), str(p.reading.accuracy))
            for p in policy.curve[::every]
        ),
    )
    lines = _letters(policy.hidden, grid)
    lines.append(
        f"hidden (##): {int(policy.hidden.sum())} of {len(grid)} patches; {policy.kept:.1%} of the"
        " pixels stay"
    )
    curve = [
        {"kept": p.kept, "nats": p.reading.leakage.value, "accuracy": p.reading.accuracy.value}
        for p in policy.curve
    ]
    return PlanView(
        (table,), tuple(lines), {"curve": curve, "labels": plan.layout["kept"]}, private
    )


def _view_redraw(plan: Plan, policy: RedrawRegion, private: str) -> PlanView:
    """The region that is kept or replaced, and in how many images."""
    grid = policy.grid
    card = plan.card
    changed = max(feature.hidden for feature in card.features)
    lines = [
        *_letters(policy.region.patches(grid), grid),
        f"kept or drawn anew as one region (##): {policy.region.share:.1%} of the pixels",
        (
            f"{1 - changed:.1%} of the images are as they were, and {1 - card.changed:.1%} of all"
            " pixels"
        ),
    ]
    plain = {
        "curve": [],
        "labels": plan.layout["kept"],
        "region": policy.region.share,
        "images as they were": 1 - changed,
        "pixels as they were": 1 - card.changed,
    }
    return PlanView((), tuple(lines), plain, private)


def _letters(marked: Bools, grid: Grid) -> list[str]:
    """Patches (m,) as a map of letters; nothing where a row has too many."""
    if grid.across > _WIDEST:
        return []
    cells = marked.reshape(grid.down, grid.across)
    return ["".join("##" if cell else "··" for cell in row) for row in cells]


def check_layout(plan: Plan) -> None:
    """Refuse a layout that does not say how images are brought to their size, or that would release
    the secret.
    """
    resize, grey, kept = (plan.layout[name] for name in ("resize", "grey", "kept"))
    if (
        not isinstance(kept, list)
        or not all(isinstance(name, str) for name in kept)
        or plan.secret in kept
    ):
        raise LowtideError(
            "the layout of a plan of images must list the labels that are kept, without the secret"
        )
    if plan.layout.get("align") is not None:
        Alignment.from_config(plan.layout["align"])
    sizes = resize is None or (
        len(resize) == 2 and all(isinstance(side, int) and side > 0 for side in resize)
    )
    if not sizes or not isinstance(grey, bool):
        raise LowtideError(
            "the layout of a plan of images must say their size, and whether they are grey"
        )


def match_images(
    release: Any,
    reference: Any,
    secret: Any,
    options: ImageOptions,
    *,
    utility: Any,
    progress: bool | None,
) -> Matched:
    """Released images and those they were made from, matched by name, in the order of the
    reference.
    """
    if not is_place(release):
        data = _open_array(release if reference is None else reference, secret)
        return Matched(
            data, as_images(release), None if reference is None else data.samples, utility
        )
    options = _as_planned(as_place(release), options)
    data = open_dataset(reference, secret, options, progress=progress)
    found = open_images(release, resize=options.size, grey=options.grey, progress=progress)
    if data.secret in found.columns:
        raise LowtideError(
            f"the release still holds the secret {data.secret!r}: nothing is hidden; release it"
            " with `lowtide release`"
        )
    folder = data.source.folder
    rows, places = pair(found, folder, mapping=options.mapping)
    if len(rows) < len(found):
        note(
            f"{len(found) - len(rows)} released images have no counterpart with a secret, and are"
            " left out"
        )
    found = found.take(rows)
    if found.shape != folder.shape:
        raise LowtideError(
            f"released images are {_size(found)}, those of the reference {_size(folder)}; give"
            " --resize"
        )
    note_names(found.names, data.labels[places])
    order = np.argsort(places, kind="stable")
    kept = places[order]
    clean = Chosen(data.samples, kept)
    matched = Dataset(
        "images",
        data.name,
        clean,
        data.secret,
        data.labels[kept],
        data.known,
        source=ImageSource(folder.take(kept)),
    )
    values = None if utility is None else folder.take(kept).column(utility)
    found = found.take(order)
    _refuse_copies(found, matched)
    unjudged = tuple(found.beside.column_names)
    return Matched(matched, cached(found, progress=progress), clean, values, rows[order], unjudged)


def _as_planned(release: Place, options: ImageOptions) -> ImageOptions:
    """With the size in which the plan looked at the images, as the card beside a release says,
    unless one is given.
    """
    path = None if isinstance(release, RemotePath) else card_paths(release)["card.json"]
    if options.resize is not None or path is None or not path.is_file():
        return options
    size = ReleaseCard.load(path).parameters.get("size")
    return options if size is None else replace(options, resize="x".join(map(str, size)))


def _refuse_copies(release: ImageFolder, data: Dataset) -> None:
    """Refuse a release whose labels or folders tell the secret of nearly every image."""
    copies = near_copies(release.beside, read_classes(data.labels)[1])
    if copies:
        raise LowtideError(
            f"{', '.join(copies)} of the release tells {data.secret!r} of nearly every image:"
            " nothing is hidden; release it with `lowtide release`"
        )


def _size(images: Images) -> str:
    height, width, channels = images.shape
    return f"{width}×{height} in {'colour' if channels == 3 else 'grey'}"


def lock_patches(data: Dataset, keep: Sequence[Any], hide: Sequence[Any]) -> Locks:
    """Patches to keep and to hide: numbers, or boxes `x,y,w,h` in pixels; and labels to release."""
    labels = tuple(name for name in keep if isinstance(name, str) and name in data.unjudged)
    refuse_copies(data.source.copies, labels, data.secret)
    return Locks(
        [_patch(entry) for entry in keep if not (isinstance(entry, str) and entry in labels)],
        [_patch(entry) for entry in hide],
        labels,
    )


def _patch(entry: Any) -> Any:
    return int(entry) if isinstance(entry, str) and entry.strip().isdecimal() else entry
