"""The service: routes, the queue of jobs, and the page, behind a guard."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from lowtide.errors import LowtideError
from lowtide.studio import routes_files, routes_jobs, routes_project, routes_write
from lowtide.studio.jobs import Jobs
from lowtide.studio.limits import Limits
from lowtide.studio.models import Problem
from lowtide.studio.problems import RefusedError, problem, problem_of, version
from lowtide.studio.security import Access, Guard
from lowtide.studio.state import Studio
from lowtide.studio.store import Store
from lowtide.studio.warning import Models

STATIC = Path(__file__).with_name("static")
CHART_STYLE = (
    Path(__file__).parents[1] / "report" / "chart.css"
)  # the page draws the report's own charts
_SAID: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem, "content": {"application/problem+json": {}}, "description": what}
    for code, what in {
        401: "no token",
        404: "not there",
        409: "not now",
        413: "too large",
        422: "bad input",
    }.items()
}


def create_app(
    project: Path, access: Access, *, limits: Limits | None = None, workers: int = 1
) -> FastAPI:
    """The studio of a project, as an ASGI application.

    Args:
        project: the folder it works in.
        access: who may ask.
        limits: what is taken in.
        workers: how many jobs run at one time.
    """
    limits = limits or Limits()
    store = Store(project, limits)
    studio = Studio(store, Jobs(store, workers), Models(store))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await studio.jobs.start()
        yield
        await studio.jobs.stop()
        studio.models.close()
        store.close()

    app = FastAPI(
        title="Lowtide studio",
        version=version(),
        description="Scan, plan, release and audit, as jobs; warn, at once.",
        lifespan=lifespan,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        responses=_SAID,
    )
    app.state.studio = studio
    for routes in (routes_project, routes_files, routes_jobs, routes_write):
        app.include_router(routes.router)
    app.add_exception_handler(LowtideError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_middleware(Guard, access=access, limits=limits)
    _serve_pages(app)
    return app


def _serve_pages(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def index() -> FileResponse:
        return _page("index.html")

    @app.get("/static/report/chart.css", include_in_schema=False)
    async def chart_style() -> FileResponse:
        return FileResponse(CHART_STYLE, media_type="text/css")

    app.mount("/static", StaticFiles(directory=STATIC, check_dir=False), name="static")


def _page(name: str) -> FileResponse:
    if not (STATIC / name).is_file():
        raise RefusedError(404, "there is nothing of this name")
    return FileResponse(STATIC / name, media_type="text/html")


def _answer(made: dict[str, Any]) -> JSONResponse:
    return JSONResponse(made, status_code=made["status"], media_type="application/problem+json")


async def _refused(_: Request, error: Exception) -> JSONResponse:
    return _answer(problem_of(error))


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    """The first field that is wrong, by its name; what was given is not repeated."""
    found = (
        error.errors()[0]
        if isinstance(error, RequestValidationError)
        else {"loc": (), "msg": "cannot be read"}
    )
    field = ".".join(str(part) for part in found["loc"] if part not in ("body", "path", "query"))
    return _answer(problem(422, f"{field or 'the request'}: {found['msg']}", field or None))


async def _http_error(_: Request, error: Exception) -> JSONResponse:
    status = error.status_code if isinstance(error, HTTPException) else 500
    status = 422 if status == 400 else status  # a body that is not JSON, or not a form
    said = {
        404: "there is nothing of this name",
        405: "this cannot be done there; see /api/openapi.json",
    }
    said |= {413: "the body is larger than what is taken in"}
    return _answer(problem(status, said.get(status, "the request cannot be read")))
