"""Models of texts that stay in memory, to warn at once."""

import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from lowtide.errors import LowtideError
from lowtide.studio.problems import RefusedError
from lowtide.studio.store import Store, StoredJob

_RESIDENT = 2


class Models:
    """Fitted models of texts: those of scans, and those that stand in the project's folder.

    Questions are answered one after the other, in the order in which they came: nobody waits much
    longer than others.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loaded: OrderedDict[tuple[str, int], Any] = OrderedDict()
        self._lock = threading.Lock()
        self.thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="warn")

    def close(self) -> None:
        """Answer nothing more."""
        self.thread.shutdown(wait=False, cancel_futures=True)

    def names(self) -> dict[str, str]:
        """What there is, by id."""
        scans = filter(_is_scan, self._store.jobs("done"))
        found = {job.id: f"scan of {', '.join(job.request['secret'])}" for job in scans}
        here = sorted(filter(_is_model, self._store.project.glob("*.lowtide")))
        return found | {path.name: path.name for path in here}

    def path(self, identity: str) -> Path:
        """Where a model is; only one that `names` lists. Asked for every warning, so that nothing
        is listed here.
        """
        job = self._store.job(identity)
        if job is not None and _is_scan(job):
            return self._store.job_folder(identity) / "out" / "model.lowtide"
        place = self._store.project / identity
        if Path(identity).name != identity or not _is_model(place):
            raise RefusedError(422, "there is no such model of texts; scan some first", "model")
        return place

    def explain(self, text: str, identity: str, budget: Any) -> dict[str, Any]:
        """What a text tells, as plain values; runs in `thread`."""
        from lowtide.warning import warn  # only who warns needs it

        density = self._open(identity)
        try:
            made: dict[str, Any] = warn(text, density, budget=budget).to_json()
        except LowtideError as error:
            raise RefusedError(
                422, str(error), "budget" if "budget" in str(error) else "text"
            ) from error
        return made

    def _open(self, identity: str) -> Any:
        from lowtide.estimate.density import Density  # as above

        path = self.path(identity)
        if not (path / "config.json").is_file():
            raise RefusedError(422, "the model is not there any more; scan again", "model")
        key = (identity, (path / "config.json").stat().st_mtime_ns)
        with self._lock:
            if key not in self._loaded:
                density = Density.load(path)
                if density.encoder.kind != "texts":
                    raise RefusedError(
                        422,
                        "this is not a model of texts; scan some with a column of texts",
                        "model",
                    )
                self._loaded[key] = density
            self._loaded.move_to_end(key)
            while len(self._loaded) > _RESIDENT:
                self._loaded.popitem(last=False)
            return self._loaded[key]


def _is_scan(job: StoredJob) -> bool:
    return job.state == "done" and job.verb == "scan" and job.kind == "texts"


def _is_model(path: Path) -> bool:
    return path.suffix == ".lowtide" and path.is_dir() and not path.is_symlink()
