"""What every release goes through, whatever its kind: the key of its noise, its batches, its order
and its card.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from lowtide.disclose.card import Feature, ReleaseCard
from lowtide.disclose.noise import KEY_NAME, KeyedNoise, keyed_order, open_noise
from lowtide.disclose.plan_file import Plan, Release, card_paths
from lowtide.errors import LowtideError, note
from lowtide.files import Staging, write_whole
from lowtide.hashes import sha256_of
from lowtide.interface import RowOrder
from lowtide.places import refuse_url
from lowtide.progress import progress_bar
from lowtide.protocols import Changed, ReleaseJob


def release_object(
    data: Any, made: Plan, ids: Any, noise: KeyedNoise | None, options: Any, secret: Any = None
) -> Release:
    """Release an object in memory, in random order where that was asked for.

    Args:
        data: n samples.
        made: the plan.
        ids: (n,) what draws and noise are keyed by; `None` for the content of samples.
        noise: where noise is drawn from, if any is.
        options: of the kind.
        secret: (n,) of the samples, where a plan with `redraw` needs it and the data does not hold
            it.
    """
    kind = made.modality
    shuffled = getattr(options, "shuffle", None)
    order = None
    if shuffled:
        order = keyed_order(kind.count(data), noise)
        data = kind.reorder(data, order)
        if ids is not None:
            listed = list(ids)
            ids = [listed[place] for place in order]
        if secret is not None:
            known = list(secret)
            secret = [known[place] for place in order]
    changed = kind.release_object(data, made, noise=noise, ids=ids, secret=secret)
    tally = Tally.of(made, released_order(made, shuffled))
    tally.add(changed)
    return Release(changed.samples, tally.card(None), kind.nouns, order=order)


def released_order(made: Plan, shuffled: bool | None) -> RowOrder | None:
    """What the card of a release says of its order; a note where an order that tells the secret is
    kept.
    """
    planned = made.card.order
    if planned is None:
        return None if shuffled is None else RowOrder(None, False, shuffled)
    if planned.tells and shuffled is False:
        nouns = made.modality.nouns
        note(
            f"the order of the {nouns.rows} told the {made.secret} in the reference data, and it is"
            f" kept; to hide it, {nouns.reorder}"
        )
    return replace(planned, shuffled=shuffled)


class StartAgainError(Exception):
    """What a job raises when its source turns out to hold less than it seemed to.

    Args:
        reopen: opens the job again, without what cannot be used.
    """

    def __init__(self, reopen: Callable[[], ReleaseJob]) -> None:
        super().__init__("the release starts again")
        self.reopen = reopen


class Tally:
    """What the card says of the samples that are released, counted batch by batch.

    Args:
        card: of the plan.
        plan_digest: of the plan.
        key: signs the card; `None` leaves it unsigned.
    """

    def __init__(self, card: ReleaseCard, plan_digest: str, key: bytes | None = None) -> None:
        self._card = card
        self._plan_digest = plan_digest
        self._key = key
        self.clear()

    @classmethod
    def of(cls, plan: Plan, order: RowOrder | None) -> Self:
        """The tally of a release by a plan, whose card is signed where the plan was opened with its
        key.

        Args:
            plan: what is released by.
            order: whether the release is in random order.
        """
        if plan.signed and plan.key is None:
            note(
                "the plan is signed, and the card of this release is not; name the key (signed_by)"
                " to sign it, too"
            )
        return cls(replace(plan.card, order=order), plan.digest, plan.key)

    def clear(self) -> None:
        """Forget what was counted."""
        self.rows = 0
        self._hidden: Any = None
        self._units = self._changed = 0.0
        self._blank = self._beyond = 0

    def add(self, changed: Changed) -> None:
        """Count a batch."""
        self.rows += changed.rows
        self._units += changed.units
        self._changed += changed.changed
        self._blank += changed.blank
        self._beyond += changed.beyond
        if changed.hidden is not None:
            self._hidden = changed.hidden if self._hidden is None else self._hidden + changed.hidden

    def counts(self) -> dict[str, Any]:
        """What was counted, as plain values; `add_counts` adds it to another tally."""
        hidden = None if self._hidden is None else np.asarray(self._hidden).tolist()
        named = {
            "rows": self.rows,
            "hidden": hidden,
            "units": self._units,
            "changed": self._changed,
        }
        return {**named, "blank": self._blank, "beyond": self._beyond}

    def add_counts(self, counts: Mapping[str, Any]) -> None:
        """Count what another tally has counted."""
        hidden = None if counts["hidden"] is None else np.array(counts["hidden"])
        self.add(Changed(None, **{**counts, "hidden": hidden}))

    def card(self, sha256: str | None) -> ReleaseCard:
        """The card of the plan, with the figures of these samples and the hash of what was written,
        if anything.
        """
        features = self._card.features
        if self._hidden is not None:
            shares = (self._hidden / self.rows).tolist()
            features = tuple(
                Feature(old.name, share) for old, share in zip(features, shares, strict=True)
            )
        changed = self._changed / self._units if self._units else self._card.changed
        unjudged = replace(self._card.unjudged, blank=self._blank, beyond=self._beyond)
        card = replace(
            self._card,
            features=features,
            rows=self.rows,
            changed=changed,
            unjudged=unjudged,
            data_sha256=sha256,
            plan_sha256=self._plan_digest,
            sealed=True,
        )
        return card.signed(self._key)


def write_release(
    job: ReleaseJob,
    tally: Tally,
    target: Path,
    staging: Staging,
    *,
    noise: Any,
    progress: bool | None,
) -> tuple[ReleaseCard, dict[str, Path]]:
    """Write a release and its card, to be put in place together; the card, and where its files
    go.
    """
    try:
        _write_batches(job, tally, target, staging, noise=noise, progress=progress)
    except StartAgainError as found:
        tally.clear()
        _write_batches(found.reopen(), tally, target, staging, noise=noise, progress=progress)
    return write_card(tally, target, staging)


def _write_batches(
    job: ReleaseJob,
    tally: Tally,
    target: Path,
    staging: Staging,
    *,
    noise: Any,
    progress: bool | None,
) -> None:
    with job.sink(target, staging) as sink, progress_bar("releasing", job.total, progress) as tick:
        for batch in job.batches():
            changed = job.change(batch, noise)
            sink.write(changed)
            tally.add(changed)
            tick(tally.rows)
            del (
                batch,
                changed,
            )  # so that one batch is in memory, and not two, while the next is read
        job.finish()


def write_card(tally: Tally, target: Path, staging: Staging) -> tuple[ReleaseCard, dict[str, Path]]:
    """Write the card of a release that is staged; the card, and where its files go."""
    card = tally.card(sha256_of(staging(target)))
    cards = card_paths(target)
    contents = card.files()
    for name, path in cards.items():
        write_whole(staging(path), contents[name])
    return card, cards


def noise_of(
    made: Plan, plan: Plan | str | Path, key_file: str | Path | None, *, fresh: bool
) -> Any:
    """Where noise is drawn from: one key for all releases by the plans of a folder, unless fresh
    noise is asked for.
    """
    if fresh and key_file is not None:
        raise LowtideError(
            "fresh noise needs a key that nobody keeps; leave out the key file, or fresh_noise"
        )
    if not made.hider.draws:
        return None
    if fresh:
        note("fresh noise: several releases of the same data under fresh noise average it away")
        return open_noise(None)
    if key_file is None and isinstance(plan, Plan):
        return plan.noise
    if key_file is not None:
        file = Path(key_file)
    else:
        file = Path(os.path.realpath(plan)).parent / KEY_NAME  # type: ignore[arg-type]
    if not file.exists():
        note(f"the key of the noise is kept in {file}: never share it")
    return open_noise(file)


def check_apart(reads: Sequence[Any], writes: Sequence[Path]) -> None:
    """Refuse to write onto a file or folder that a release is made from."""
    read = {os.path.realpath(path) for path in reads if isinstance(path, (str, Path))}
    for path in writes:
        refuse_url("out", path)
        if os.path.realpath(path) in read:
            raise LowtideError(
                f"the release would overwrite {path}, which it is made from; name another file or"
                " folder"
            )
