"""`lowtide export`: a model of texts for another program, as a page, as an extension."""

from typing import Any

from lowtide.browser.page import write_extension, write_page
from lowtide.cli import console
from lowtide.cli.text_arguments import ExportArguments
from lowtide.cli.warnings import open_model
from lowtide.errors import LowtideError, one_of
from lowtide.texts.onnx_export import export_onnx


def export(said: ExportArguments, _: dict[str, Any]) -> None:
    """Export, and say what the export holds."""
    if said.page is said.extension is said.out is None:
        raise LowtideError("say what to export: --page FILE, --extension DIR, or --out DIR for ONNX")
    bits = one_of("bits", said.bits, (4, 8))
    console.check_outputs(
        {"model": said.model}, {"--page": said.page}, folders={"--out": said.out, "--extension": said.extension}
    )
    density = open_model(said.model)
    if said.page is not None:
        console.say(f"exported: {write_page(density, said.page, bits=bits)}")
    if said.extension is not None:
        console.say(f"exported: {write_extension(density, said.extension, bits=bits)}")
    if said.out is not None:
        console.say(f"exported: {export_onnx(density, said.out)}")
    for path in filter(None, (said.page, said.extension, said.out)):
        console.note(f"{path} holds labels of the secret, and words of the texts that the model was fitted on")
