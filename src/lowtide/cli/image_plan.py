"""`lowtide plan` and `lowtide release` of images."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from lowtide.cli.common import note, out, show_progress
from lowtide.cli.images import GivenImages, Opening, open_given
from lowtide.density.tide import TIDE
from lowtide.disclose.budget import Budget
from lowtide.disclose.card import Feature, ReleaseCard
from lowtide.disclose.keys import open_noise
from lowtide.disclose.noise import row_ids
from lowtide.disclose.obfuscator import Obfuscator
from lowtide.errors import LowtideError
from lowtide.files import write_whole
from lowtide.images.encoder import Images, Ints, Pixels, mean_image
from lowtide.images.folder import ImageFolder
from lowtide.images.maps import ImageMaps
from lowtide.images.names import names_tell
from lowtide.images.plan_file import FolderPlan
from lowtide.images.policies import FixedPatches
from lowtide.images.released import BATCH
from lowtide.images.writing import ImageWriter
from lowtide.progress import progress_bar
from lowtide.report.console import print_table, write_json
from lowtide.report.contents import Report
from lowtide.report.html import write_report

_ROWS = 12  # points of the curve that are printed


def plan_folder(
    path: Path,
    secret: str,
    *,
    patch: int,
    opening: Opening,
    policy: Literal["fixed", "sequential", "paper"],
    mechanism: Literal["redact", "gaussian", "mixed"],
    budget: Budget | None,
    kept: float | None,
    epsilon: float | None,
    lam: float | None,
    output: Path,
    json: Path | None,
    report: Path | None,
    figures: Path | None,
    seed: int,
    steps: int | None,
    quiet: bool,
) -> None:
    """`lowtide plan` of images."""
    if mechanism == "mixed":
        raise LowtideError("--mechanism mixed is for tables; patches are hidden by redact or gaussian")
    progress = show_progress(quiet)
    given = open_given(path, secret, opening, progress=progress)
    hider = Obfuscator(
        TIDE(patch, max_steps=steps, progress=progress, random_state=seed),
        policy,
        mechanism,
        budget=budget,
        kept=kept,
        epsilon=epsilon,
        lam=lam,
        progress=progress,
        random_state=seed,
    )
    hider.fit(given.pixels, given.s)
    made = FolderPlan(hider.hider_, given.secret, opening.size, opening.grey)  # type: ignore[arg-type]
    print_plan(made)
    made.save(output)
    out.print(f"plan: {output}", soft_wrap=True)
    if json is not None:
        write_json(json, {"secret": made.secret, "curve": curve_json(made), "card": made.hider.card.to_json()})
    if report is not None:
        page = plan_report(path.name, made, given)
        for written in write_report(page, report, figures=figures):
            out.print(f"written: {written}", soft_wrap=True)


def print_plan(made: FolderPlan) -> None:
    """The plan as a map of letters, its curve, and its three numbers."""
    policy, card, grid = made.hider.policy, made.hider.card, made.hider.mechanism.grid
    if isinstance(policy, FixedPatches):
        every = max(1, len(policy.curve) // _ROWS)
        print_table(
            "The trade-off: pixels kept, and what logistic regression on edges still reads",
            ["pixels kept", "bits", "accuracy"],
            [(f"{p.kept:.0%}", str(p.reading.leakage.bits), str(p.reading.accuracy)) for p in policy.curve[::every]],
        )
        if grid.across <= 64:
            cells = policy.hidden.reshape(grid.down, grid.across)
            out.print("\n".join("".join("##" if cell else "··" for cell in row) for row in cells))
        out.print(
            f"hidden (##): {int(policy.hidden.sum())} of {len(grid)} patches; {policy.kept:.1%} of the pixels stay"
        )
    out.print(card.text().split("## What was done")[0].strip(), markup=False, soft_wrap=True)


def curve_json(made: FolderPlan) -> list[dict[str, object]]:
    """The points of a plan as plain values."""
    policy = made.hider.policy
    if not isinstance(policy, FixedPatches):
        return []
    return [
        {"kept": p.kept, "nats": p.reading.leakage.value, "accuracy": p.reading.accuracy.value} for p in policy.curve
    ]


def plan_report(name: str, made: FolderPlan, given: GivenImages) -> Report:
    """The report of a plan."""
    policy, grid = made.hider.policy, made.hider.mechanism.grid
    is_plan = isinstance(policy, FixedPatches)
    return Report(
        title=f"{name}: a plan to hide {made.secret}",
        secret=made.secret,
        features=grid.features.names if is_plan else (),
        curve=policy.curve if isinstance(policy, FixedPatches) else (),
        chosen=policy.hidden if isinstance(policy, FixedPatches) else None,
        budget=str(made.hider.card.parameters.get("budget") or ""),
        card=made.hider.card,
        images=maps_of(made, given),
    )


def maps_of(made: FolderPlan, given: GivenImages) -> ImageMaps:
    """The average image with what a plan hides."""
    policy = made.hider.policy
    plan = policy if isinstance(policy, FixedPatches) else None
    return ImageMaps(
        grid=made.hider.mechanism.grid,
        mean=np.rint(mean_image(given.pixels)).astype(np.uint8),
        told=None if plan is None else np.nan_to_num(plan.marginal),
        hidden=None if plan is None else plan.hidden,
        images=len(given.s),
    )


def release_folder(
    path: Path,
    plan: Path,
    output: Path,
    *,
    key_file: Path | None,
    png: bool,
    quality: int,
    rename: bool,
    mapping: Path | None,
    strict: bool,
    json: Path | None,
    quiet: bool,
) -> None:
    """`lowtide release` of images: the same paths and sizes; what tells the secret is hidden."""
    made, progress = FolderPlan.load(plan), show_progress(quiet)
    folder = made.open(path, strict=strict, progress=progress)
    for said in folder.describe():
        note(said)
    if not rename:
        _check_names(folder, made.secret)
    card = write_release(
        folder,
        made,
        output,
        key_file=key_file,
        png=png,
        quality=quality,
        rename=rename,
        mapping=mapping,
        progress=progress,
    )
    for name, text in card.files().items():
        target = output.with_name(f"{output.name.removesuffix('.npz')}.{name}")
        out.print(f"card: {write_whole(target, text)}", soft_wrap=True)
    out.print(f"released: {output} ({card.rows:,} images, {card.changed:.1%} of the pixels hidden)", soft_wrap=True)
    if mapping is not None:
        note(f"{mapping} tells which image is which: never share it")
    if json is not None:
        write_json(json, card.to_json())


def _ahead(images: Images) -> Iterator[tuple[Ints, Pixels]]:
    """All images batch by batch; while one batch is worked on, the next is read."""
    parts = [np.arange(start, min(start + BATCH, len(images))) for start in range(0, len(images), BATCH)]
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(images.read, parts[0])
        for part, after in zip(parts, [*parts[1:], None], strict=True):
            pixels = coming.result()
            if after is not None:
                coming = reader.submit(images.read, after)
            yield part, pixels


def _check_names(folder: ImageFolder, secret: str) -> None:
    """Say so where the names that are about to be released tell the secret, as far as it is known here."""
    known = folder.known(secret) if secret in folder.columns else np.zeros(0, dtype=bool)
    codes = np.unique(folder.take(known).column(secret), return_inverse=True)[1] if known.any() else known
    if known.any() and codes.max() > 0:
        told = names_tell(folder.take(known).names, codes)
        if told.tells:
            note(str(told))


def write_release(
    folder: ImageFolder,
    made: FolderPlan,
    output: Path,
    *,
    key_file: Path | None = None,
    png: bool = False,
    quality: int = 95,
    rename: bool = False,
    mapping: Path | None = None,
    progress: bool | None = None,
) -> ReleaseCard:
    """Write images batch by batch; the card says what was hidden in these very images."""
    hider, grid = made.hider, made.hider.mechanism.grid
    noise = open_noise(key_file) if hider.mechanism.draws else None
    if noise is not None and key_file is None:
        note("without --key-file the key of the noise is forgotten: releasing again would draw other noise")
    ids = row_ids(folder.names, len(folder))
    hidden, digest = np.zeros(len(grid)), hashlib.sha256()
    plan = hider.policy if isinstance(hider.policy, FixedPatches) else None
    drop = made.secret if made.secret in folder.columns else ()
    with (
        ImageWriter(
            output, folder, drop=drop, quality=quality, png=png, rename=rename or None, mapping=mapping
        ) as writer,
        progress_bar("releasing", len(folder), progress) as tick,
    ):
        for index, pixels in _ahead(hider.read(folder)):
            # A plan hides the same in every image: one mask for all is quicker.
            flags = plan.hidden if plan is not None else hider.policy.flags(pixels)
            shown = hider.mechanism.hide(pixels, flags, noise=noise, ids=None if noise is None else ids[index])
            digest.update(shown.data)
            writer.write(index, shown)
            hidden += flags.sum(axis=0) if plan is None else len(index) * flags
            tick(int(index[-1]) + 1)
    shares = hidden / len(folder)
    return replace(
        hider.card,
        features=tuple(Feature(*pair) for pair in zip(grid.features.names, shares.tolist(), strict=True)),
        rows=len(folder),
        changed=float(shares @ grid.sizes / grid.sizes.sum()),
        data_sha256=digest.hexdigest(),
    )
