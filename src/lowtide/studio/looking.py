"""What files hold, found out by a process of its own, and requests checked against it."""

import asyncio
import difflib
import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lowtide.files import whole_path
from lowtide.studio.problems import RefusedError, problem
from lowtide.studio.store import Store, StoredFile

_TIME = 120.0  # seconds to look at a file
_LOOKING: dict[str, asyncio.Lock] = {}


async def look(store: Store, file: StoredFile) -> dict[str, Any]:
    """What a file holds; looked up once, by a process of its own."""
    place = store.folder / "looks" / file.id
    path = await asyncio.to_thread(store.path_of, file)
    async with _LOOKING.setdefault(
        str(place), asyncio.Lock()
    ):  # who asks meanwhile waits for the same answer
        if not (place / "look.json").is_file():
            shutil.rmtree(place, ignore_errors=True)
            with whole_path(place) as made:
                made.mkdir()
                await run_module(
                    "lowtide.studio.describing", str(path), file.kind, str(made), place=made
                )
    seen: dict[str, Any] = json.loads((place / "look.json").read_text(encoding="utf-8"))
    return seen


async def run_module(module: str, *arguments: str, place: Path) -> None:
    """Run a module of ours as a process; an `error.json` in its place is what went wrong."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        code = await asyncio.wait_for(process.wait(), _TIME)
    except BaseException as error:
        process.kill()
        await process.wait()
        if isinstance(error, TimeoutError):
            raise RefusedError(
                422,
                f"to look at this file takes longer than {_TIME:.0f} seconds; give a part of it",
            ) from error
        raise
    if code == 0:
        return
    told = place / "error.json"
    said = (
        json.loads(told.read_text(encoding="utf-8"))
        if told.is_file()
        else problem(422, "this file cannot be read")
    )
    raise RefusedError(said["status"], said["detail"])


async def check_columns(store: Store, verb: str, request: Mapping[str, Any]) -> None:
    """Refuse names of columns that the data does not have, by the field that names them."""
    file = store.file(request["reference" if verb == "audit" else "data"])
    if file is None:
        return
    seen = await look(store, file)
    known = [column["name"] for column in seen["columns"]]
    if not known or (
        file.kind == "texts" and store.path_of(file).is_dir()
    ):  # their columns are made when it is read
        return
    named = {
        "secret": request.get("secret"),
        "utility": request.get("utility"),
        "ids": request.get("ids"),
    }
    options = request["options"]
    named |= {f"options.{name}": options.get(name) for name in ("text", "group", "groups_of")}
    for field, value in named.items():
        names = value if isinstance(value, list) else [value]
        for name in names if value is not None else []:
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {close[0]!r}?" if close else "see the columns of the file"
                raise RefusedError(422, f"there is no column {name!r}; {hint}", field)
