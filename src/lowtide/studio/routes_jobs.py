"""Routes about jobs: ask for one, follow it, stop it, and fetch what it made."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi import Path as PathPart
from fastapi.responses import FileResponse, StreamingResponse
from pydantic import BaseModel

from lowtide.files import whole_path
from lowtide.studio.looking import check_columns
from lowtide.studio.models import (
    AuditRequest,
    Job,
    Output,
    PlanRequest,
    ReleaseRequest,
    ReviewRequest,
    ScanRequest,
    Script,
)
from lowtide.studio.preparing import check
from lowtide.studio.problems import RefusedError
from lowtide.studio.reviewing import review_release
from lowtide.studio.scripts import script_of
from lowtide.studio.security import SANDBOX
from lowtide.studio.state import Running, Studio
from lowtide.studio.store import StoredJob

router = APIRouter(prefix="/api")
JobId = Annotated[str, PathPart(max_length=64)]
_INTERNAL = ("view.json",)
_WHAT = {
    "plan.json": "plan",
    "plan.lowtide": "plan",
    "model.lowtide": "model",
    "report.html": "report",
}
_WHAT |= {"result.json": "result", "names.csv": "private"}


@router.post("/scan", status_code=202)
async def scan(asked: ScanRequest, studio: Running) -> Job:
    """What leaks."""
    return await _submit("scan", asked, studio)


@router.post("/plan", status_code=202)
async def plan(asked: PlanRequest, studio: Running) -> Job:
    """What to hide for a budget."""
    return await _submit("plan", asked, studio)


@router.post("/release", status_code=202)
async def release(asked: ReleaseRequest, studio: Running) -> Job:
    """Write the hidden data and its card."""
    return await _submit("release", asked, studio)


@router.post("/audit", status_code=202)
async def audit(asked: AuditRequest, studio: Running) -> Job:
    """Attack a release, and say plainly what is left."""
    return await _submit("audit", asked, studio)


async def _submit(verb: str, asked: BaseModel, studio: Studio) -> Job:
    request = asked.model_dump(mode="json")
    kind = await asyncio.to_thread(check, studio.store, verb, request)
    await check_columns(studio.store, verb, request)
    return Job.of(studio.jobs.submit(verb, kind, request))


@router.get("/jobs")
async def jobs(studio: Running) -> list[Job]:
    """All jobs, newest first."""
    return [Job.of(job) for job in studio.jobs.all()]


@router.get("/events", response_class=StreamingResponse)
async def all_events(studio: Running) -> StreamingResponse:
    """Every change of every job, as server-sent events."""
    return StreamingResponse(studio.jobs.events(), media_type="text/event-stream")


@router.get("/jobs/{job}")
async def one_job(job: JobId, studio: Running) -> Job:
    """A job as it stands."""
    return Job.of(studio.jobs.get(job))


@router.delete("/jobs/{job}")
async def cancel(job: JobId, studio: Running) -> Job:
    """Stop a job that waits or runs."""
    return Job.of(await studio.jobs.cancel(job))


@router.post("/jobs/{job}/resume", status_code=202)
async def resume(job: JobId, studio: Running) -> Job:
    """Queue a job again that did not come to its end."""
    return Job.of(studio.jobs.resume(job))


@router.get("/jobs/{job}/events", response_class=StreamingResponse)
async def events(job: JobId, studio: Running) -> StreamingResponse:
    """A job's changes until it ends, as server-sent events."""
    studio.jobs.get(job)
    return StreamingResponse(studio.jobs.events(job), media_type="text/event-stream")


@router.get("/jobs/{job}/result")
def result(job: JobId, studio: Running) -> dict[str, Any]:
    """What the verb found, as its own `to_json`."""
    return _read(_out(studio, job) / "result.json")


@router.get("/jobs/{job}/view")
def view(job: JobId, studio: Running) -> dict[str, Any]:
    """What the page shows of it."""
    return _read(_out(studio, job) / "view.json")


@router.get("/jobs/{job}/files")
def outputs(job: JobId, studio: Running) -> list[Output]:
    """What the job wrote; a folder is downloaded as a zip file."""
    out = _out(studio, job)
    found = sorted(
        path
        for path in out.iterdir()
        if path.name not in _INTERNAL and not path.name.startswith(".")
    )
    made = [
        Output(name=_download_name(path), bytes=_size(path), what=_what(path)) for path in found
    ]
    return [one for one in made if one.what != "zip"]


@router.get("/jobs/{job}/files/{name}", response_class=FileResponse)
def download(job: JobId, name: str, studio: Running, view: bool = False) -> FileResponse:
    """One file of it. A report is shown with `?view=true`: without scripts, and as nobody's
    page.
    """
    path = _named(_out(studio, job), name)
    if view and path.suffix == ".html":
        headers = {"content-security-policy": SANDBOX}
        return FileResponse(path, media_type="text/html", headers=headers)
    headers = {"content-security-policy": "sandbox; default-src 'none'"}
    return FileResponse(path, media_type="application/octet-stream", filename=name, headers=headers)


@router.get("/jobs/{job}/script")
def script(job: JobId, studio: Running) -> Script:
    """The command lines and the Python that do the same."""
    shell, python = script_of(studio.store, studio.jobs.get(job))
    return Script(shell=shell, python=python)


@router.post("/jobs/{job}/review")
def review(job: JobId, asked: ReviewRequest, studio: Running) -> dict[str, Any]:
    """Store a reviewer's decision in the card of a release."""
    return review_release(studio.store, studio.jobs.get(job), asked)


def _done(studio: Studio, identity: str) -> StoredJob:
    job = studio.jobs.get(identity)
    if job.state != "done":
        raise RefusedError(409, f"the job is {job.state}; there is nothing to fetch yet")
    return job


def _out(studio: Studio, identity: str) -> Path:
    return studio.store.job_folder(_done(studio, identity).id) / "out"


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise RefusedError(404, "the job wrote no such file")
    read: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return read


def _named(out: Path, name: str) -> Path:
    """A file that the job wrote, by the name that `outputs` lists; nothing else, wherever a name
    may lead.
    """
    for path in out.iterdir():
        if path.name in _INTERNAL or path.name.startswith(".") or _download_name(path) != name:
            continue
        return path if path.is_file() else _zipped(path)
    raise RefusedError(404, "the job wrote no such file")


def _zipped(folder: Path) -> Path:
    """A folder as a zip file, made once."""
    place = folder.with_name(f".{folder.name}.zip")
    if not place.is_file():
        with whole_path(place) as made:
            shutil.make_archive(str(made.with_suffix("")), "zip", folder.parent, folder.name)
    return place


def _download_name(path: Path) -> str:
    return f"{path.name}.zip" if path.is_dir() else path.name


def _what(path: Path) -> str:
    if path.name in _WHAT:
        return _WHAT[path.name]
    if path.name.endswith((".card.json", ".card.md")):
        return "card"
    if ".order." in path.name or ".changes." in path.name:
        return "private"
    return "data" if "-shared" in path.name else "other"


def _size(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(inner.stat().st_size for inner in path.rglob("*") if inner.is_file())
