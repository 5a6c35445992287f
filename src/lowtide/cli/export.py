"""`lowtide export`: a model of texts for other programs."""

from __future__ import annotations

from typing import Any

from lowtide.cli.arguments import ExportArguments
from lowtide.cli.console import check_outputs, note, say
from lowtide.cli.warn import open_model
from lowtide.texts.onnx_export import export_onnx


def run(said: ExportArguments, _: dict[str, Any]) -> None:
    """Export, and say what the export holds."""
    check_outputs({"model": said.model}, {}, folders={"--out": said.out})
    say(f"exported: {export_onnx(open_model(said.model), said.out)}")
    note(f"{said.out} holds labels of the secret, and words of the texts that the model was fitted on")
