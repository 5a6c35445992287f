"""What the routes share."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request

from lowtide.studio.jobs import Jobs
from lowtide.studio.store import Store
from lowtide.studio.warning import Models


@dataclass(frozen=True)
class Studio:
    """A running studio.

    Attributes:
        store: its files and jobs, as they are kept.
        jobs: the queue.
        models: models of texts that are resident.
    """

    store: Store
    jobs: Jobs
    models: Models


async def _running(
    request: Request,
) -> Any:  # async, since FastAPI asks a plain function in another thread
    return request.app.state.studio


Running = Annotated[Studio, Depends(_running)]
