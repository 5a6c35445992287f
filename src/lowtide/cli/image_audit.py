"""`lowtide audit` of images."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lowtide import modalities
from lowtide.auditing.report import AuditReport, audit_samples
from lowtide.auditing.verdict import Gate
from lowtide.cli.common import note
from lowtide.cli.images import GivenImages, Opening, open_given
from lowtide.disclose.card import ReleaseCard
from lowtide.errors import LowtideError
from lowtide.images.arrays import cached
from lowtide.images.encoder import Chosen, Images
from lowtide.images.names import names_tell, pair
from lowtide.images.opening import open_images
from lowtide.images.plan_file import FolderPlan
from lowtide.labels import read_classes
from lowtide.report.contents import Report
from lowtide.report.sections import make_report


def audit_folder(
    path: Path,
    reference: Path,
    secret: str,
    *,
    card: ReleaseCard | None,
    utility: str | None,
    gate: Gate | None,
    epsilon: float,
    mapping: Path | None,
    opening: Opening,
    seed: int,
    progress: bool | None,
    attackers: tuple[str, ...] | None = None,
) -> tuple[AuditReport, GivenImages]:
    """Attack released images; also what they were made from."""
    given = open_given(reference, secret, opening, progress=progress)
    release = open_images(path, resize=opening.size, grey=opening.grey, progress=progress)
    if given.secret in release.columns:
        raise LowtideError(
            f"the release still holds the secret {given.secret!r}: nothing is hidden; release it with `lowtide release`"
        )
    rows, places = pair(release, given.folder, mapping=mapping)
    if len(rows) < len(release):
        note(f"{len(release) - len(rows)} released images have no counterpart with a secret, and are left out")
    release, codes = release.take(rows), read_classes(given.s[places])[1]
    if release.shape != given.folder.shape:
        raise LowtideError(
            f"released images are {_size(release)}, those of the reference {_size(given.folder)}; give --resize"
        )
    told = names_tell(release.names, codes)
    if told.tells:
        note(str(told))
    order = np.argsort(places, kind="stable")
    given = GivenImages(
        given.folder.take(places[order]), Chosen(given.pixels, places[order]), given.secret, given.s[places[order]]
    )
    found = audit_samples(
        cached(release.take(order), progress=progress),
        given.s,
        clean=given.pixels,
        estimate=None if card is None else card.leakage,
        utility=None if utility is None else given.folder.column(utility),
        fail_above=gate,
        epsilon=epsilon,
        secret=given.secret,
        attackers=attackers,
        seed=seed,
        progress=progress,
    )
    return found, given


def audit_report(
    name: str, given: GivenImages, found: AuditReport, card: ReleaseCard | None, made: FolderPlan | None
) -> Report:
    """The report of a release."""
    kind = modalities.get("images")
    title = f"{name}: what it still tells about {given.secret}"
    plan = None if made is None else kind.outline(made.hider)
    view = None if made is None else kind.view(given.pixels, hider=made.hider)
    return make_report(title, given.secret, kind, plan=plan, audit=found, card=card, view=view)


def _size(images: Images) -> str:
    height, width, channels = images.shape
    return f"{width}×{height} in {'colour' if channels == 3 else 'grey'}"
