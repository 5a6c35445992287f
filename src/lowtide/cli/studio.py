"""`lowtide studio`: serve the page and the REST service."""

import os
from typing import Any

from lowtide.cli.console import say
from lowtide.cli.studio_arguments import StudioArguments
from lowtide.studio.serving import Serving, serve


def studio(said: StudioArguments, _: dict[str, Any]) -> None:
    """Serve until Ctrl-C."""
    how = Serving(
        said.project,
        said.host,
        said.port,
        said.token or os.environ.get("LOWTIDE_TOKEN") or None,
        said.expose,
        tuple(name.lower() for name in said.name or ()),
        said.jobs,
        said.largest << 20,
    )
    serve(how, say=say, browser=not said.no_browser)
