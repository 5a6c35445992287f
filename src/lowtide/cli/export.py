"""`lowtide export`: a model of texts for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lowtide.cli.common import note, out, reported
from lowtide.cli.outputs import check_outputs
from lowtide.cli.warn import open_model
from lowtide.texts.onnx_export import export_onnx


@reported
def run(
    model: Annotated[Path, typer.Argument(help="made by `lowtide scan --save`", metavar="MODEL")],
    output: Annotated[Path, typer.Option("--out", help="a folder for the weights and the vocabulary", metavar="DIR")],
) -> None:
    """Export a model of texts to ONNX, so that a page or a phone can warn without sending text anywhere.

    Example: lowtide export party.lowtide --out party-onnx
    """
    check_outputs({"model": model}, {}, folders={"--out": output})
    density = open_model(model)
    out.print(f"exported: {export_onnx(density, output)}", soft_wrap=True)
    note(f"{output} holds labels of the secret, and words of the texts that the model was fitted on")
