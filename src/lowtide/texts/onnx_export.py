"""A density of texts as an ONNX model, so that a page or a phone can score a text where it is written."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.density.artefact import Density
from lowtide.density.critics.bag import SPREAD, Bag, Weights
from lowtide.density.critics.base import Null
from lowtide.errors import LowtideError
from lowtide.files import write_folder
from lowtide.texts.partial import text_vocabulary
from lowtide.types import Floats32

FORMAT = "lowtide-onnx"
_VERSION = 1
_OPSET, _IR = 17, 8  # read by every runtime of the last years, in browsers too
_MODEL, _VOCABULARY, _README = "model.onnx", "vocabulary.json", "README.txt"
_TEXT = """\
model.onnx scores texts. Run it with any ONNX runtime, for example onnxruntime in Python or onnxruntime-web on a page.
Inputs: `terms`, int64 (n, k), and `counts`, float32 (n, k), for n texts of up to k different terms: the place of each
term in the list `terms` of vocabulary.json (from 0), once per text, in the order in which you read them, and how often
it occurs. Fill shorter texts up with term 0 and count 0; k is at least 1. Outputs: `density`, float32 (n, classes),
log p(class | text) / p(class) in nats, and `prefixes`, float32 (n, k + 1, classes), the same after none, one, two, ...
of the terms. The difference of two neighbours is what a term tells after those before it.

vocabulary.json holds the terms, the options by which Lowtide finds them in a text (see lowtide.features.TermOptions),
the labels of the classes in the order of the answers, their prior, and the trim beyond which answers are clipped. What
a reader believes after reading is prior * exp(density), divided by its sum. Words that are not in the list tell nothing
to this model, which says something about the model and nothing about the words. Keep the folder together: a vocabulary
with another model gives answers that look right and are not.
"""


def export_onnx(density: Density, folder: str | Path) -> Path:
    """Write a density of texts as `model.onnx`, `vocabulary.json` and `README.txt`; needs `lowtide[onnx]`.

    Args:
        density: fitted on texts, with a bag-of-terms critic or none.
        folder: where to write; it appears whole or not at all, and replaces an older export.

    Returns:
        The folder.
    """
    vocabulary, critic = text_vocabulary(density), density.critic
    if not isinstance(critic, Bag | Null):
        raise LowtideError(
            f"only bag-of-terms critics are exported to ONNX, got {critic.kind!r}; fit with critic='bag'"
        )
    classes = density.classes
    about = {
        "format": FORMAT,
        "version": _VERSION,
        **vocabulary.to_config(),
        "classes": list(classes.labels),
        "prior": classes.prior.tolist(),
        "trim": density.trim,
        "weighting": critic.weighting if isinstance(critic, Bag) else "counts",
    }
    return _write(
        Path(folder),
        {
            _MODEL: _model(density, _onnx()).SerializeToString(),
            _VOCABULARY: json.dumps(about, ensure_ascii=False, allow_nan=False).encode(),
            _README: _TEXT.encode(),
        },
    )


def _onnx() -> ModuleType:
    try:
        import onnx  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise LowtideError('the export needs onnx, which is not there: pip install "lowtide[onnx]"') from error
    return onnx


def _write(path: Path, files: dict[str, bytes]) -> Path:
    """Write the export; an older export that stands there is replaced."""
    names = frozenset(files)
    return write_folder(path, files, ours=lambda there: names <= {e.name for e in there.iterdir()}, names=names)


class _Graph:
    """Nodes and constants of a graph, one line of arithmetic each."""

    def __init__(self, onnx: ModuleType) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def __call__(self, kind: str, *inputs: str | NDArray[Any], name: str = "", **attributes: Any) -> str:
        """Add a node; arrays among its inputs become constants. Returns the name of its output."""
        names = [one if isinstance(one, str) else self._constant(one) for one in inputs]
        output = name or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, names, [output], **attributes))
        return output

    def _constant(self, value: NDArray[Any]) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.array(value, order="C"), name))
        return name


def _model(density: Density, onnx: ModuleType) -> Any:
    """The whole model, from `terms` and `counts` to `density` and `prefixes`."""
    graph, classes = _Graph(onnx), len(density.classes.labels)
    if isinstance(density.critic, Bag):
        scores = _scores(graph, density.critic)
        # log-softmax(g + log p) − log p: the densities g − log Σ p e^g.
        log_prior = np.log(density.classes.prior).astype(np.float32)
        scores = graph("Sub", graph("LogSoftmax", graph("Add", scores, log_prior), axis=-1), log_prior)
    else:
        nothing = graph("Mul", graph("Unsqueeze", "counts", _whole(-1)), np.zeros(classes, dtype=np.float32))
        # The terms are read as well: a graph that ignores an input confuses who calls it.
        unused = graph("Unsqueeze", graph("Cast", "terms", to=onnx.TensorProto.FLOAT), _whole(-1))
        scores = _running(graph, graph("Add", nothing, graph("Mul", unused, np.zeros(1, dtype=np.float32))))
    trim = np.array(density.trim, dtype=np.float32)
    graph("Clip", scores, -trim, trim, name="prefixes")
    graph("Gather", "prefixes", np.array(-1, dtype=np.int64), axis=1, name="density")
    real, whole, describe = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.helper.make_tensor_value_info
    made = onnx.helper.make_graph(
        graph.nodes,
        "density_of_texts",
        [describe("terms", whole, ["n", "k"]), describe("counts", real, ["n", "k"])],
        [describe("density", real, ["n", classes]), describe("prefixes", real, ["n", "k_and_1", classes])],
        graph.constants,
    )
    opset = [onnx.helper.make_opsetid("", _OPSET)]
    model = onnx.helper.make_model(made, opset_imports=opset, ir_version=_IR, producer_name="lowtide")
    onnx.checker.check_model(model, full_check=True)
    return model


def _scores(graph: _Graph, critic: Bag) -> str:
    """Scores (n, k + 1, |S|) of the critic after each term, as in `Bag`."""
    weights, weight = critic.weights, _weight(graph, critic.weighting)
    column = graph("Unsqueeze", weight, _whole(-1))
    alone = _running(graph, graph("Mul", graph("Gather", _array(weights, "u"), "terms"), column))
    if "E" not in weights:
        return alone
    nets, _, width = weights["b"].shape
    scaled = graph("Mul", column, graph("Gather", _array(weights, "c")[:, None], "terms"))
    rows = graph("Gather", weights["e"], "terms") if "e" in weights else "terms"
    h = _running(graph, graph("Mul", graph("Gather", _array(weights, "E"), rows), scaled))
    q = _running(graph, graph("Mul", scaled, scaled))
    root = graph("Sqrt", graph("Add", q, np.ones(1, dtype=np.float32)))
    h = graph("Div", h, graph("Mul", root, np.array([SPREAD], dtype=np.float32)))
    h = graph("Transpose", graph("Reshape", h, _whole(-1, nets, width)), perm=[1, 0, 2])
    zero = np.zeros((nets, 1, width), dtype=np.float32)
    together = graph("Sub", _trunk(graph, h, weights), _trunk(graph, graph("Identity", zero), weights))
    mean = graph("ReduceMean", together, axes=[0], keepdims=0)
    mean = graph("Reshape", mean, graph("Shape", alone))
    there = graph("Cast", graph("Greater", q, np.zeros(1, dtype=np.float32)), to=graph.onnx.TensorProto.FLOAT)
    return graph("Add", alone, graph("Mul", mean, there))


def _trunk(graph: _Graph, h: str, weights: Weights) -> str:
    first = graph("Relu", graph("Add", h, _array(weights, "b")))
    second = graph("Relu", graph("Add", graph("MatMul", first, _array(weights, "V")), _array(weights, "a")))
    return graph("MatMul", second, _array(weights, "U"))


def _weight(graph: _Graph, weighting: str) -> str:
    """Weights (n, k) of the terms from their counts, as in `term_weights`."""
    if weighting == "counts":
        return graph("Identity", "counts")
    if weighting == "binary":
        return graph("Sign", "counts")
    size = graph("Log", graph("Add", graph("Abs", "counts"), np.ones(1, dtype=np.float32)))
    return graph("Div", graph("Mul", graph("Sign", "counts"), size), np.log(np.array([2.0], dtype=np.float32)))


def _running(graph: _Graph, steps: str) -> str:
    """Sums (n, k + 1, d) of none, one, two, … of the steps (n, k, d)."""
    return graph("Pad", graph("CumSum", steps, np.array(1, dtype=np.int64)), _whole(0, 1, 0, 0, 0, 0))


def _array(weights: Weights, name: str) -> Floats32:
    return np.asarray(weights[name], dtype=np.float32)


def _whole(*numbers: int) -> NDArray[np.int64]:
    return np.array(numbers, dtype=np.int64)
