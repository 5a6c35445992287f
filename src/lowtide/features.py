"""Which columns form one feature: an integer group for every column of the data."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lowtide.checks import LowtideError, booleans, count
from lowtide.types import Bools, Ints


@dataclass(frozen=True, eq=False)
class Features:
    """A partition of the columns into m features, in the order in which they are released.

    One integer per column describes columns of tables (with their one-hot columns), patches of
    images, and terms.

    Attributes:
        groups: (columns,) the feature each column belongs to, 0 … m−1, none left out.
        names: m names, for people.
    """

    groups: Ints
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        groups = np.array(self.groups)
        if groups.ndim != 1 or not np.issubdtype(groups.dtype, np.integer):
            raise LowtideError(
                f"groups must be one whole number per column, got {groups.dtype} {groups.shape}"
            )
        used = np.zeros(len(self.names), dtype=bool)
        inside = groups.size > 0 and groups.min() >= 0 and groups.max() < len(used)
        used[groups if inside else ()] = True
        if not inside or not used.all():
            raise LowtideError(
                f"groups must use every number from 0 to {len(self.names) - 1} (one per name) and"
                " no other"
            )
        groups = groups.astype(np.intp)
        groups.flags.writeable = False
        object.__setattr__(self, "groups", groups)

    def __len__(self) -> int:
        return len(self.names)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Features)
            and self.names == other.names
            and np.array_equal(self.groups, other.groups)
        )

    def __hash__(self) -> int:
        return hash((self.names, self.groups.tobytes()))

    def mask(self, mask: ArrayLike) -> Bools:
        """Check a mask over features, of shape (m,) or (n, m), and return it as booleans."""
        return booleans("mask", mask, (len(self),), ("n", len(self)))

    def columns(self, mask: ArrayLike) -> Bools:
        """Spread a mask over features, (m,) or (n, m), to the columns they own."""
        return self.mask(mask)[..., self.groups]


def one_per_column(names: int | Sequence[str]) -> Features:
    """Make every column a feature of its own; give names, or how many columns there are."""
    if isinstance(names, int):
        names = [f"x{j + 1}" for j in range(count("columns", names, 1))]
    return Features(np.arange(len(names)), tuple(names))


def patches(height: int, width: int, size: int, *, channels: int = 3) -> Features:
    """Cut an image into patches of size × size pixels, numbered row by row from the upper left.

    Columns are the pixels row by row, the channels of a pixel side by side. Patches at the right
    and lower edge are smaller where `size` does not divide the image.
    """
    count("height", height, 1)
    count("width", width, 1)
    count("channels", channels, 1)
    count("size", size, 1, max(height, width))
    across = -(-width // size)
    rows = np.arange(height) // size
    columns = np.arange(width) // size
    groups = np.repeat((rows[:, None] * across + columns[None, :]).ravel(), channels)
    names = tuple(
        f"patch {row},{column}" for row in range(-(-height // size)) for column in range(across)
    )
    return Features(groups, names)
