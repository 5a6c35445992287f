"""Critics of rows of numbers, one file each, behind one protocol."""

from lowtide.density.critics.bag import Bag
from lowtide.density.critics.base import Critic, Masked, Null
from lowtide.density.critics.mixture import Mixture
from lowtide.density.critics.paper import PaperCritic

CRITICS: dict[str, type[Critic]] = {critic.kind: critic for critic in (Null, Masked, Mixture, Bag, PaperCritic)}
"""Those that every kind of data may have, by the name they are saved under; a modality adds its own."""

__all__ = ["CRITICS", "Bag", "Critic", "Masked", "Mixture", "Null", "PaperCritic"]
