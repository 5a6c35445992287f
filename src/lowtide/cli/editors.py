"""`lowtide lsp`: warnings in editors."""

from typing import Any

from lowtide.cli.text_arguments import LspArguments
from lowtide.cli.warnings import open_model
from lowtide.language_server import make_server


def lsp(said: LspArguments, _: dict[str, Any]) -> None:
    """Serve an editor over standard input and output until it ends."""
    make_server(open_model(said.model), said.budget).start_io()
