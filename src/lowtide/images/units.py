"""What is hidden or shown together: patches of the release, and the places of an image that features belong to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from lowtide.images.encoder import Grid
from lowtide.types import Ints


@dataclass(frozen=True, eq=False)
class Units:
    """The smallest things planning decides about; each owns patches and places.

    Attributes:
        of_patch: (m,) the unit of each patch.
        of_place: (places,) the unit of each place, row by row.
    """

    of_patch: Ints
    of_place: Ints

    def __len__(self) -> int:
        return int(max(self.of_patch.max(), self.of_place.max())) + 1

    @classmethod
    def make(cls, grid: Grid, cells: int, *, mirror: bool) -> Units:
        """Join patches and places that lie in each other, and with `mirror` those that mirror each other.

        Args:
            grid: the patches.
            cells: places down and across.
            mirror: whether both sides of an image are treated alike.
        """
        m = len(grid)
        place, patch = m + np.arange(cells**2), np.arange(m)
        over_patch, over_place = m + _places_at_patches(grid, cells), _patches_at_places(grid, cells)
        # Patches as large as places own them; smaller ones belong to one, and so do slivers at the edge.
        coarse = grid.patch * cells >= min(grid.height, grid.width)
        links = [(place, over_place)] if coarse else []
        alone = ~np.isin(patch, over_place) if coarse else np.ones(m, dtype=bool)
        links.append((patch[alone], over_patch[alone]))
        if mirror:
            links.append((place, m + _mirrored(cells, cells)))
            links.append((patch, _mirrored(grid.down, grid.across)))
        first, second = (np.concatenate([link[k] for link in links]) for k in (0, 1))
        graph = coo_array((np.ones(len(first)), (first, second)), shape=(m + cells**2, m + cells**2))
        number = np.asarray(connected_components(graph, directed=False)[1], dtype=np.intp)
        return cls(number[:m], number[m:])


def _patches_at_places(grid: Grid, cells: int) -> Ints:
    """(places,) the patch at the centre of each place."""
    row, column = np.divmod(np.arange(cells**2), cells)
    y, x = (row + 0.5) * grid.height / cells, (column + 0.5) * grid.width / cells
    return np.asarray(y // grid.patch * grid.across + x // grid.patch, dtype=np.intp)


def _places_at_patches(grid: Grid, cells: int) -> Ints:
    """(m,) the place at the centre of each patch."""
    row, column = np.divmod(np.arange(len(grid)), grid.across)
    y, x = (
        (start * grid.patch + np.minimum((start + 1) * grid.patch, side)) / 2
        for start, side in ((row, grid.height), (column, grid.width))
    )
    return np.asarray(y * cells // grid.height * cells + x * cells // grid.width, dtype=np.intp)


def _mirrored(down: int, across: int) -> Ints:
    """(down · across,) the number of what lies on the other side."""
    numbers = np.arange(down * across).reshape(down, across)
    return numbers[:, ::-1].ravel()
