"""Hide what tells a secret in images: which patches, and how."""

from lowtide.disclose.images.hider import PictureHider
from lowtide.disclose.images.mechanism import PictureMechanism
from lowtide.disclose.images.obfuscator import ImageObfuscator
from lowtide.disclose.images.policies import PicturePaper, PicturePlan
from lowtide.disclose.images.sequential import PictureSequential

__all__ = ["ImageObfuscator", "PictureHider", "PictureMechanism", "PicturePaper", "PicturePlan", "PictureSequential"]
