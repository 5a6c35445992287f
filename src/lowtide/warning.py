"""The verb `warn`, which asks a fitted model about one text.

People run it before every post, so it is in a module of its own, which imports neither PyTorch,
SciPy nor scikit-learn.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.disclose.history import History, in_nats, told_before
from lowtide.estimate.density import Density

if TYPE_CHECKING:
    from lowtide.estimate.tide import TIDE
    from lowtide.texts.explaining import Explanation
    from lowtide.texts.proposals import Rewriter

_BUDGET = 0.5  # nats about any class, for one text


def warn(
    text: str,
    model: "Density | TIDE | str | Path",
    *,
    budget: float | str | None = _BUDGET,
    history: History | None = None,
    rewriter: "Rewriter | None" = None,
    seed: int = 0,
) -> "Explanation":
    """Which words of one text give its writer away, before it is posted. Nothing leaves the
    machine, unless `rewriter` sends it.

    Args:
        text: any text, however long.
        model: a density of texts, a `TIDE` fitted to texts, or where a density was saved.
        budget: what the text may tell about any class: nats, or `"0.7bits"`; `None` looks for no
            remedy.
        history: earlier texts, a file with one on each line, or the nats they told: the budget is
            then about all.
        rewriter: is given the text and the words to avoid where it is over the budget, and returns
            rewordings, such as those of a local language model; each is judged, and `proposals`
            says which may be used.
        seed: of the random orders of the order-free shares.

    Returns:
        An `Explanation`: words with what they tell, the belief before and after, and what to leave
        out.
    """
    if isinstance(model, (str, Path)):
        density = Density.load(model)
    else:
        density = model if isinstance(model, Density) else model.artefact
    told = told_before(density, history)
    limit = None if budget is None else max(0.0, in_nats(budget, "the budget of one text") - told)
    found = replace(density.explain(text, budget=limit, seed=seed), earlier=told)
    if rewriter is None or found.remedy is None or not found.remedy.needed:
        return found
    from lowtide.texts.proposals import propose  # only who has a rewriter needs it

    return replace(found, proposals=propose(density, text, found.remedy, rewriter))
