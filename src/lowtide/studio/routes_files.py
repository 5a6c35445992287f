"""Routes about files: take one in, make a demo's data, say what a file holds."""

import asyncio
import shutil
from typing import Annotated

from fastapi import APIRouter, UploadFile
from fastapi import Path as PathPart
from fastapi.responses import FileResponse

from lowtide.demo_data import DEMOS
from lowtide.studio.looking import look, run_module
from lowtide.studio.models import Described, File
from lowtide.studio.preparing import option_list
from lowtide.studio.problems import RefusedError
from lowtide.studio.state import Running
from lowtide.studio.store import Store, StoredFile, plain_name

router = APIRouter(prefix="/api")
_CHUNK = 1 << 20
FileId = Annotated[str, PathPart(max_length=64)]


@router.post("/files", status_code=201)
def take_in(file: UploadFile, studio: Running) -> File:
    """Take a file in: a table, a zip of images or texts, or arrays of images."""
    name = plain_name(file.filename or "file")
    with studio.store.scratch() as folder:
        place = folder / "upload"
        with place.open("wb") as target:
            shutil.copyfileobj(file.file, target, _CHUNK)
        try:
            return File.of(studio.store.add_file(place, name, "upload"))
        except ValueError as error:
            raise RefusedError(422, str(error), "file") from error


@router.post("/demos/{demo}", status_code=201)
async def make_demo(demo: str, studio: Running) -> File:
    """Make the data of a demo."""
    if demo not in DEMOS:
        raise RefusedError(404, f"there is no such demo; there are {', '.join(DEMOS)}")
    with studio.store.scratch() as folder:
        await run_module("lowtide.demo_data", demo, str(folder), place=folder)
        made = folder / DEMOS[demo].file
        if made.is_dir():
            return File.of(
                await asyncio.to_thread(studio.store.add_folder, made, made.name, "demo")
            )
        return File.of(
            await asyncio.to_thread(
                studio.store.add_file, made, made.name, "demo", DEMOS[demo].kind
            )
        )


@router.get("/files/{file}")
async def describe(file: FileId, studio: Running) -> Described:
    """Rows, columns, ten rows, what is probably the secret, and the options of its kind."""
    stored = _stored(studio.store, file)
    seen = await look(studio.store, stored)
    kind = seen["suggested"].get("kind") or stored.kind
    return Described(file=File.of(stored), options=option_list(kind), **seen)


@router.get("/files/{file}/thumbnail/{number}", response_class=FileResponse)
async def thumbnail(file: FileId, number: int, studio: Running) -> FileResponse:
    """A small PNG of an image, for its owner."""
    stored = _stored(studio.store, file)
    await look(studio.store, stored)
    path = studio.store.folder / "looks" / stored.id / f"{number}.png"
    if number < 0 or not path.is_file():
        raise RefusedError(404, "there is no thumbnail of this number")
    return FileResponse(path, media_type="image/png")


def _stored(store: Store, identity: str) -> StoredFile:
    found = store.file(identity)
    if found is None:
        raise RefusedError(404, "there is no such file")
    return found
