"""A sheet of drawn faces, planned small and released at full size: what each fill makes of the part
that is hidden.
"""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from common import contact_sheet
from lowtide import TIDE, Obfuscator
from lowtide.disclose.noise import KEY_BYTES, KeyedNoise
from lowtide.files import write_whole
from lowtide.images.encoder import Stack
from lowtide.images.inpainting import FILLS
from lowtide.images.mechanism import GREY, REDRAW, Released
from lowtide.images.native import Frame, hide_native
from lowtide.images.planner import ImageSettings
from lowtide.report.console import parse_arguments, write_json
from lowtide.types import Pixels
from lowtide.worlds import drawn_faces

# faces in a row; pixels of the plan and of the release
SHOWN = 10
SMALL = 32
LARGE = 96
KEPT = 0.86


def main() -> None:
    """Plan on small faces, release large ones under each fill, and draw them."""
    options = parse_arguments(__doc__ or "")
    number = (
        120 if options.quick else 1600
    )  # fewer are too few to choose a shape by, and the order is only smoothed
    # The same seed draws the same people at every size.
    small, s = _faces(SMALL, number, options.seed)
    large, _ = _faces(LARGE, number, options.seed)
    settings = ImageSettings(attackers=("edges",))
    made = Obfuscator(TIDE(2), kept=KEPT, settings=settings, progress=False).fit(small, s)
    policy = made.policy_
    frame = Frame((LARGE, LARGE), (SMALL, SMALL))
    hidden = policy.grid.spread(policy.hidden)
    key = KeyedNoise(
        np.random.SeedSequence([options.seed, 0xF111]).generate_state(KEY_BYTES // 4).tobytes()
    )
    rows = [("as they were", list(large[:SHOWN]))]
    for fill in (GREY, *FILLS, REDRAW):
        mechanism = replace(made.mechanism_, fill=fill)
        released = Released(Stack(small), policy, mechanism, key).read(np.arange(SHOWN))
        drawn = released if fill == REDRAW else [None] * SHOWN
        faces = [
            hide_native(one, frame, hidden, own, mechanism)
            for one, own in zip(large, drawn, strict=False)
        ]
        rows.append(("grey" if fill == GREY else str(fill), faces))
    path = (options.json or Path("fill_sheet.json")).with_suffix(".png")
    title = f"Drawn faces: {policy.kept:.0%} of the pixels kept"
    print(contact_sheet(rows, path, title=title, bar=False))
    _shrink(path)
    print(f"figure: {path}", file=sys.stderr)
    if options.json is not None:
        write_json(
            options.json,
            {"kept": policy.kept, "shape": policy.shape, "rows": [name for name, _ in rows]},
        )


def _shrink(path: Path) -> None:
    """Make a sheet small enough for a page."""
    with Image.open(path) as sheet:
        small = sheet.convert("RGB").reduce(2).quantize(256, dither=Image.Dither.NONE)
    buffer = io.BytesIO()
    small.save(buffer, "PNG", optimize=True)
    write_whole(path, buffer.getvalue())


def _faces(side: int, number: int, seed: int) -> tuple[Pixels, np.ndarray]:
    world = drawn_faces(
        side, noise=0.004
    )  # noise that can be seen would make the file ten times as large
    x, s = world.sample(number, seed)
    return np.rint(255 * world.images(x)).astype(np.uint8), s


if __name__ == "__main__":
    main()
