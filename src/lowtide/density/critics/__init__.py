"""Critics, one file each, behind one protocol for classes and one for pairs."""

from lowtide.density.critics.bag import Bag
from lowtide.density.critics.base import Critic, Null, PairCritic
from lowtide.density.critics.masked import Masked
from lowtide.density.critics.paper import PaperCritic, PaperPairs
from lowtide.images.critic import ImageCritic, PaperImages
from lowtide.vectors.critic import Structured

CRITICS: dict[str, type[Critic]] = {
    critic.kind: critic for critic in (Null, Masked, Bag, PaperCritic, ImageCritic, PaperImages)
}
PAIR_CRITICS: dict[str, type[PairCritic]] = {critic.kind: critic for critic in (PaperPairs, Structured)}

__all__ = [
    "CRITICS",
    "PAIR_CRITICS",
    "Bag",
    "Critic",
    "Images",
    "Masked",
    "Null",
    "PairCritic",
    "Paper",
    "PaperImages",
    "PaperPairs",
    "Structured",
]
