"""Routes about the project: whether the service runs, what there is, and warnings."""

import asyncio
import sys
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter

from lowtide.demo_data import DEMOS
from lowtide.studio.models import Demo, File, Health, Model, Project, WarnRequest
from lowtide.studio.problems import version
from lowtide.studio.state import Running

router = APIRouter()


@router.get("/health")
async def health() -> Health:
    """Whether the service runs; needs no token."""
    return Health(version=version())


@router.get("/api/project")
def project(studio: Running) -> Project:
    """Files, demos, models and limits of the project."""
    return Project(
        name=studio.store.project.name,
        version=version(),
        files=[File.of(file) for file in studio.store.files()],
        demos=[Demo(id=name, title=demo.title, kind=demo.kind) for name, demo in DEMOS.items()],
        models=[Model(id=ident, name=name) for ident, name in studio.models.names().items()],
        limits=asdict(studio.store.limits),
        torch="torch" in sys.modules,
    )


@router.post("/api/warn")
async def warn(asked: WarnRequest, studio: Running) -> dict[str, Any]:
    """Which words of one text give its writer away; answered at once, and the text is kept
    nowhere.
    """
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(
        studio.models.thread, studio.models.explain, asked.text, asked.model, asked.budget
    )
