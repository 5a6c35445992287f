"""The page that warns while one types, complete in itself: made once for each model, by a process
of its own.
"""

import hashlib
import html
import re
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse

from lowtide.studio.looking import run_module
from lowtide.studio.problems import RefusedError
from lowtide.studio.state import Running
from lowtide.studio.store import Store

router = APIRouter()
_BACK = '<p><a href="/#step=write">Back to the studio</a></p>'
_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')


@router.get("/write", include_in_schema=False)
async def write(studio: Running, model: Annotated[str, Query(max_length=500)] = "") -> HTMLResponse:
    """A text box with a model of texts. What is typed stays in it: its own policy lets it ask for
    nothing.
    """
    page = await _page_of(studio.store, studio.models.path(model))
    policy = _POLICY.search(page)
    if policy is None:
        raise RefusedError(
            409, "the page of this model has no policy, so that it is not shown; scan again"
        )
    said = f"{html.unescape(policy[1])}; frame-ancestors 'none'"
    page = page.replace("<header>", f"<header>{_BACK}", 1)
    return HTMLResponse(page, headers={"content-security-policy": said})


async def _page_of(store: Store, model: Path) -> str:
    """The page of a model; of one that was written anew, a new one."""
    config = model / "config.json"
    if not config.is_file():
        raise RefusedError(422, "the model is not there any more; scan again", "model")
    name = hashlib.sha256(f"{model}\0{config.stat().st_mtime_ns}".encode()).hexdigest()[:16]
    place = store.folder / "pages" / f"{name}.html"
    if not place.is_file():
        place.parent.mkdir(exist_ok=True)
        with store.scratch() as folder:
            made = folder / "warn.html"
            await run_module("lowtide", "export", str(model), "--page", str(made), place=folder)
            made.replace(place)
    return place.read_text(encoding="utf-8")
