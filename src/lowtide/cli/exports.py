"""`lowtide export`: a model of texts as a page or as a browser extension."""

from typing import Any

from lowtide.browser.page import write_extension, write_page
from lowtide.cli import console
from lowtide.cli.text_arguments import ExportArguments
from lowtide.cli.warnings import open_model
from lowtide.errors import LowtideError, one_of


def export(said: ExportArguments, _: dict[str, Any]) -> None:
    """Export, and say what the export holds."""
    if said.page is None and said.extension is None:
        raise LowtideError("say what to export: --page FILE or --extension DIR")
    bits = one_of("bits", said.bits, (4, 8))
    console.check_outputs(
        {"model": said.model}, {"--page": said.page}, folders={"--extension": said.extension}
    )
    density = open_model(said.model)
    if said.page is not None:
        console.say(f"exported: {write_page(density, said.page, bits=bits)}")
    if said.extension is not None:
        console.say(f"exported: {write_extension(density, said.extension, bits=bits)}")
    for path in filter(None, (said.page, said.extension)):
        console.note(
            f"{path} holds labels of the secret, and words of the texts that the model was"
            " fitted on"
        )
