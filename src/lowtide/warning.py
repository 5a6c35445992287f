"""The verb `warn`, which asks a fitted model about one text.

People run it before every post, so it is in a module of its own, which imports neither PyTorch, SciPy nor scikit-learn.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowtide.density.artefact import Density
from lowtide.disclose.history import History, in_nats, told_before

if TYPE_CHECKING:
    from lowtide.density.tide import TIDE

_BUDGET = 0.5  # nats about any class, for one text


def warn(
    text: str,
    model: "Density | TIDE | str | Path",
    *,
    budget: float | str | None = _BUDGET,
    history: History | None = None,
    seed: int = 0,
) -> Any:
    """Which words of one text give its writer away, before it is posted. Nothing leaves the machine.

    Args:
        text: any text, however long.
        model: a density of texts, a `TIDE` fitted to texts, or where a density was saved.
        budget: what the text may tell about any class: nats, or `"0.7bits"`; `None` looks for no remedy.
        history: earlier texts, a file with one on each line, or the nats they told: the budget is then about all.
        seed: of the random orders of the order-free shares.

    Returns:
        An `Explanation`: words with what they tell, the belief before and after, and what to leave out.
    """
    if isinstance(model, (str, Path)):
        density = Density.load(model)
    else:
        density = model if isinstance(model, Density) else model.artefact
    told = told_before(density, history)
    limit = None if budget is None else max(0.0, in_nats(budget, "the budget of one text") - told)
    return replace(density.explain(text, budget=limit, seed=seed), earlier=told)
