"""What a report shows of images only: maps over the average of all, and single ones where somebody
asks for those.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from lowtide.checks import LowtideError, booleans, count
from lowtide.formatting import plain
from lowtide.images import heatmaps, sheets
from lowtide.images.encoder import Chosen, Grid, as_images, mean_image
from lowtide.images.hider import ImageHider
from lowtide.images.mechanism import FixedPatches
from lowtide.images.scan import ImageScan
from lowtide.interface import NATS_PER_BIT
from lowtide.report.html import FEWEST, Drawing, Findings, Mark, Outline, Section, fill
from lowtide.report.words import leaks_in_words
from lowtide.splits import generator, some_rows
from lowtide.types import Bools, Floats, Pixels

# Images that an average image must rest on before it may be published. A number says little about
# each of 20 rows, but an average image is thousands of numbers. Who has a face of GENKI-4K, 1,500
# others for comparison and the average of n tells whether it is among the n: the area under the
# curve is 0.98 for n = 20, 0.89 for 100 and 0.64 for 1,000.
FEWEST_IMAGES = 1000
PUBLISHABLE = (
    f"Averages over at least {FEWEST} images, or {FEWEST_IMAGES:,} where the average is an image"
    " itself; no label. A single image never is, whatever was done to it."
)
_TEMPLATE = "images/sections.html.jinja"
_MAP = 640  # pixels: how large a map is drawn at least
_STOPS = 33  # of the colour bar
# Of what is told: the fewest patches that have it are outlined, for who does not see the colours
_CORE = 0.5
Samples = tuple[tuple[str, tuple[Pixels, ...]], ...]
"""Labels and images of rows of single images."""


@dataclass(frozen=True, eq=False)
class ImageMaps:
    """Maps over the average image, and single images.

    Attributes:
        grid: the m patches.
        mean: (height, width, channels) the average image, in bytes.
        images: how many images the average image rests on.
        leakage: (m,) nats that each patch tells on average, which may be over fewer images; `None`
            for no such map.
        asked: how many images `leakage` is an average of; by default all.
        meaning: what `leakage` counts, such as "what it adds to the patches before it".
        hidden: (m,) bool, what a plan hides; `None` for no such map, unless the report has a chosen
            plan.
        samples: labels and images of rows of single images, which are never safe to publish; all of
            the grid's size or whole multiples of it, as `heat` enlarges them.
    """

    grid: Grid
    mean: Pixels
    images: int
    leakage: Floats | None = None
    asked: int | None = None
    meaning: str = ""
    hidden: Bools | None = None
    samples: Samples = ()

    def __post_init__(self) -> None:
        grid = self.grid
        shape = np.asarray(self.mean).shape
        if heatmaps.coloured(self.mean).shape[:2] != (grid.height, grid.width):
            raise LowtideError(
                f"the grid is of {grid.height}×{grid.width} pixels, the average image of shape"
                f" {shape}"
            )
        count("images", self.images, 1)
        if self.leakage is not None:
            heatmaps.per_patch(self.leakage, grid)
        if self.hidden is not None:
            booleans("hidden", self.hidden, (len(grid),))
        for _, row in self.samples:
            self._check_row(row)

    def _check_row(self, row: tuple[Pixels, ...]) -> None:
        if not row:
            raise LowtideError("a row of samples has no image; leave it out")
        for image in row:
            high, wide = heatmaps.coloured(image).shape[:2]
            if high % self.grid.height or high * self.grid.width != wide * self.grid.height:
                raise LowtideError(
                    f"samples must be of {self.grid.height}×{self.grid.width} pixels or a whole"
                    f" multiple, got {high}×{wide}"
                )


@dataclass(frozen=True)
class Shown:
    """An image of the page.

    Attributes:
        address: the image itself, as the address of a PNG.
        alt: the same in words.
        caption: what it is.
        bar: what its colours mean, where they mean something.
    """

    address: str
    alt: str
    caption: str = ""
    bar: Markup | str = ""


def view(
    images: Any,
    *,
    scan: ImageScan | None = None,
    hider: ImageHider | None = None,
    single: int = 0,
    seed: int = 0,
) -> ImageMaps | None:
    """What to draw of images: what each patch tells and what a plan hides, over the average image.

    Args:
        images: n images, in bytes.
        scan: of these images; for what patches tell.
        hider: made for such images; for what is hidden.
        single: how many single images to show, with what their patches tell in a scan.
        seed: of the choice of single images.
    """
    if hider is None:
        return None if scan is None else _maps_of(scan, sample_rows(scan, images, single, seed))
    plan = hider.policy if isinstance(hider.policy, FixedPatches) else None
    return ImageMaps(
        grid=hider.mechanism.grid,
        mean=np.rint(mean_image(images)).astype(np.uint8),
        leakage=None if plan is None else np.nan_to_num(plan.marginal),
        hidden=None if plan is None else plan.hidden,
        images=len(as_images(images)),
    )


def outline(hider: ImageHider) -> Outline:
    """What a report shows of a plan for images."""
    plan = hider.policy
    budget = str(hider.card.parameters.get("budget") or "")
    if not isinstance(plan, FixedPatches):
        return Outline(budget=budget)
    return Outline(plan.grid.features.names, plan.curve, plan.hidden, budget)


def sample_rows(scan: ImageScan, images: Any, single: int, seed: int) -> Samples:
    """Rows of single images and of what their patches tell, for a report that stays inside."""
    if single <= 0:
        return ()
    opened = as_images(images)
    some = some_rows(len(opened), single, generator(seed, "image report"))
    pixels = opened.read(some)
    leakage = leaks_of(scan, Chosen(opened, some))
    top = max(float(np.quantile(leakage, 0.995)), 1e-3)
    maps = tuple(
        heatmaps.heat(image, values, scan.grid, most=top)
        for image, values in zip(pixels, leakage, strict=True)
    )
    return ("original", tuple(pixels)), (f"what {scan.grid.patch} px patches tell", maps)


def leaks_of(scan: ImageScan, images: Any) -> Floats:
    """`max_s |i(s; x_j | x^{j−1})|` of every patch of some images, (n, m): what the paper
    colours.
    """
    steps = np.asarray(scan.density.conditionals(images))
    return np.asarray(np.abs(steps).max(axis=-1))


def sections(found: Findings, maps: ImageMaps | None = None) -> list[Section]:
    """The maps, and the single images where there are some; without maps, those of a scan are
    drawn.
    """
    if maps is None:
        if not isinstance(found.scan, ImageScan):
            return []
        maps = _maps_of(found.scan)
    hidden = _hidden(found, maps)
    drawn = [*_map_section(found, maps, hidden)]
    if maps.samples:
        rows = view_samples(maps)
        body = fill(_TEMPLATE, "samples", rows=rows, columns=max(len(images) for _, images in rows))
        mark = Mark(False, "Single images, recognisable whatever was done to them.")
        samples = maps.samples
        figures = {
            "samples.png": lambda title: sheets.draw_sheet(samples, title=title, bar=False).content
        }
        drawn.append(Section("samples", "Single images", body, mark, figures, single=True))
    return drawn


def view_samples(maps: ImageMaps) -> list[tuple[str, list[Shown]]]:
    """Rows of single images with their labels."""
    rows = []
    for label, images in maps.samples:
        name = plain(label, 60)
        alts = [f"{name}, image {place} of {len(images)}" for place in range(1, len(images) + 1)]
        rows.append(
            (
                name,
                [
                    Shown(heatmaps.data_uri(image), alt)
                    for image, alt in zip(images, alts, strict=True)
                ],
            )
        )
    return rows


def _maps_of(scan: ImageScan, samples: Samples = ()) -> ImageMaps:
    return ImageMaps(
        grid=scan.grid,
        mean=scan.mean,
        images=scan.rows,
        leakage=scan.order_free,
        asked=scan.asked[1],
        meaning="its order-free share",
        samples=samples,
    )


def _hidden(found: Findings, maps: ImageMaps) -> Bools | None:
    """(m,) the patches that a plan hides."""
    plan = found.plan
    chosen = found.plan.chosen
    if (chosen is not None or plan.curve) and len(plan.features) != len(maps.grid):
        raise LowtideError(
            f"features names {len(plan.features)} features; the images have {len(maps.grid)}"
            " patches"
        )
    if maps.hidden is None:
        return None if chosen is None else np.asarray(chosen)
    if chosen is not None and not np.array_equal(chosen, maps.hidden):
        raise LowtideError("the plan and the maps name different patches; leave one of them out")
    return np.asarray(maps.hidden)


def _map_section(found: Findings, maps: ImageMaps, hidden: Bools | None) -> list[Section]:
    leaks = maps.leakage is not None or found.scan is not None
    if not leaks and hidden is None:
        return []
    title = "What leaks"
    if hidden is not None:
        title = "What leaks, and what is hidden" if leaks else "What is hidden"
    words = leaks_in_words(found, carried=maps.leakage is None)
    body = fill(_TEMPLATE, "maps", words=words, shown=_shown(found.secret, maps, hidden))
    return [Section("maps", title, body, _mark(found, maps, hidden), _figures(maps, hidden))]


def _mark(found: Findings, maps: ImageMaps, hidden: Bools | None) -> Mark:
    drawn = maps.leakage is not None or hidden is not None
    if drawn and maps.images < FEWEST_IMAGES:
        return Mark(
            False,
            f"Rests on {maps.images} images, fewer than {FEWEST_IMAGES:,}: who has somebody's image"
            " could tell whether it is in an average of so few.",
        )
    average = Mark(
        True,
        f"An average of {maps.images:,} images, and of what patches tell: it shows nobody. Who has"
        " somebody's image may still guess better than blindly whether it is among them.",
    )
    if found.scan is None:
        return average
    resting = Mark.resting(
        found.scan.information.n, "Averages over {n} held-out images.", found.nouns
    )
    return average if drawn and resting.safe else resting


def _shown(secret: str, maps: ImageMaps, hidden: Bools | None) -> list[Shown]:
    """The population map and the map of what is hidden, where there is data for them."""
    shown = []
    scale = -(-_MAP // max(maps.grid.height, maps.grid.width))
    over = f"over the average of {maps.images:,} images"
    if maps.leakage is not None:
        core = heatmaps.strongest(maps.leakage, maps.grid, share=_CORE)
        heated = heatmaps.population_map(
            maps.mean, maps.leakage, maps.grid, outline=core, scale=scale
        )
        meaning = f" ({plain(maps.meaning)})" if maps.meaning else ""
        asked = "" if maps.asked is None else f" on {maps.asked:,} held-out images"
        caption = (
            f"What each patch tells about {plain(secret)}{meaning}{asked}, {over}: red tells more."
        )
        if core.any():
            caption += (
                f" Outlined: the fewest that have half of the sum, {core.sum():,} of {len(core):,}."
            )
        shown.append(
            Shown(
                heatmaps.data_uri(heated),
                heatmaps.describe(maps.leakage, maps.grid),
                caption,
                _bar(maps),
            )
        )
    if hidden is not None:
        words = heatmaps.describe_hidden(hidden, maps.grid)
        covered = heatmaps.data_uri(heatmaps.veil(maps.mean, hidden, maps.grid, scale=scale))
        shown.append(
            Shown(covered, f"Map of what is hidden. {words}", f"{_hides(hidden, maps)}, {over}.")
        )
    return shown


def _figures(maps: ImageMaps, hidden: Bools | None) -> dict[str, Drawing]:
    """`map.png` and `hidden.png` where there is data."""
    figures: dict[str, Drawing] = {}
    leakage = maps.leakage
    if leakage is not None:
        core = heatmaps.strongest(leakage, maps.grid, share=_CORE)
        figures["map.png"] = lambda title: (
            sheets.draw_map(
                maps.mean, leakage, maps.grid, title=title, outline=core, flagged="half of the sum"
            ).content
        )
    if hidden is not None:
        figures["hidden.png"] = lambda title: (
            sheets.draw_hidden(maps.mean, hidden, maps.grid, title=title).content
        )
    return figures


def _hides(hidden: Bools, maps: ImageMaps) -> str:
    if not hidden.any():
        return f"The plan hides none of {len(hidden):,} patches"
    kept = heatmaps.describe_hidden(hidden, maps.grid).rpartition("; ")[2].removesuffix(".")
    return f"The plan hides {hidden.sum():,} of {len(hidden):,} patches (grey stripes); {kept}"


def _bar(maps: ImageMaps) -> Markup:
    """The colour bar of the population map, with its numbers in bits; nothing where no patch tells
    anything.
    """
    most = 0.0 if maps.leakage is None else float(np.max(maps.leakage)) / NATS_PER_BIT
    if most <= 0:
        return Markup("")
    colours = [f"rgb({red} {green} {blue})" for red, green, blue in heatmaps.ramp(_STOPS).tolist()]
    numbers = [f"{share * most:.2g}" for share in (0.0, 0.5, 1.0)]
    return Markup(
        '<div class="ramp"><div class="colours" style="background: linear-gradient(to right,'
        ' {})"></div><div class="numbers-below"><span>{}</span><span>{}</span><span>{}'
        " bits</span></div></div>"
    ).format(", ".join(colours), *numbers)
