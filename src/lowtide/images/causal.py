"""The causal convolutional network: one pass over an image answers for all of its prefixes, row by
row of patches.

Four parts, none of which sees a patch that comes later in the order:

- A *trunk* of convolutions that reach upwards and to both sides. What it knows of the rows above a
  patch is handed to every patch of the row.
- A *corner*: the same with convolutions that reach upwards and to the left. What it knows at the
  lower right corner of a patch is that patch's own: it sees across borders of patches where the
  trunk may not yet look.
- A *row* of convolutions that reach to the left, over the patches themselves and what they were
  given.
- A *running sum* over the patches, `h_j = Σ_{k≤j} B_k φ_k`, with a matrix B of its own for every
  place (interpolated from a coarse grid: faces are aligned, and a mouth is where mouths are), and a
  small network on each `h_j`.

Normalisation is by statistics of training, never of the image at hand: those would know of patches
to come.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from lowtide.images.encoder import Grid

_WIDTHS = (16, 32, 48, 64)  # channels of the levels of the trunk
_STRIDES = (
    (1, 1),
    (2, 2),
    (1, 2),
    (1, 2),
)  # down and across, after the stem: rows are kept fine, to be told early
_REACHES = (
    (3, 1),
    (3, 1),
    (2, 2),
    (2, 3),
)  # rows and dilation of the second convolution of each level
# channels of the row; fewer where there are many patches: there is most to compute
_ROW = 32
_NARROW = 16
_MANY = 4096  # patches: beyond, a step of training takes seconds (benchmarks/bench_images.py)
_EVIDENCE = 16  # channels of φ
_STATE = 32  # length of h
_PLACES = 8  # at most this many places down and across have a matrix of their own
# pixels up to which the stem halves, and quarters, the resolution
_FINE = 96
_MIDDLE = 256


class CausalNet(nn.Module):
    """Scores of every prefix of an image.

    Args:
        grid: size of the images and of their patches.
        classes: |S|.
        row: channels of the row; by default 32, and 16 where there are more than 4,096 patches.
    """

    def __init__(self, grid: Grid, classes: int, *, row: int | None = None) -> None:
        super().__init__()
        self.grid = grid
        side = max(grid.height, grid.width)
        self.stem = 8
        if side <= _FINE:
            self.stem = 2
        elif side <= _MIDDLE:
            self.stem = 4
        self.trunk, self.corner = (
            Trunk(grid.channels, self.stem),
            Trunk(grid.channels, self.stem, right=False),
        )
        row = row or (_NARROW if len(grid) > _MANY else _ROW)
        self.patch = PatchNet(grid.patch, grid.channels, row)
        self.handed = nn.ModuleList(nn.Conv2d(width, row, 1, bias=False) for width in _WIDTHS)
        self.own = nn.ModuleList(nn.Conv2d(width, row, 1, bias=False) for width in _WIDTHS)
        self.norm = nn.BatchNorm2d(row)
        self.row = nn.ModuleList(RowConvolution(row, dilation) for dilation in (1, 2, 4))
        self.places = places = min(_PLACES, grid.down), min(_PLACES, grid.across)
        self.place = nn.Parameter(torch.zeros(1, row, *places))
        self.evidence = nn.Conv2d(row, _EVIDENCE, 1)
        spread = 2.0 * (_EVIDENCE * len(grid)) ** -0.5
        self.matrices = nn.Parameter(spread * torch.randn(1, _EVIDENCE * _STATE, *places))
        self.bias = nn.Parameter(torch.zeros(1, _STATE, *places))
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Sequential(nn.Linear(_STATE, 64), nn.ReLU(), nn.Linear(64, classes))
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x: Tensor, at: Tensor | None = None) -> Tensor:
        """Scores (n, k, |S|) after the patches numbered `at` (k,), by default after each of the m.

        Args:
            x: (n, channels, height, width), centred on 0.
            at: places in the order of the patches, from 0.
        """
        phi = self._evidence(x)
        bias = self._spread(self.bias).flatten(2).transpose(1, 2)
        state = (
            self._states(phi) + bias
            if at is None
            else self._states_at(phi, at) + bias[:, at.to(x.device)]
        )
        # One draw per image: a dropped channel is dropped for all prefixes.
        kept = self.dropout(torch.ones(len(x), 1, _STATE)).to(
            x.device
        )  # drawn on the CPU, wherever the network is
        return self.head(state * kept)

    def _evidence(self, x: Tensor) -> Tensor:
        """`φ_k` of every patch, (n, evidence, down, across)."""
        grid = self.grid
        z = self.patch(_padded(x, right=grid.across * grid.patch, bottom=grid.down * grid.patch))
        top, side = self._padding()
        z = z + self._above(self.trunk(functional.pad(x, (0, side, top, 0))))
        z = z + self._at_corners(self.corner(functional.pad(x, (side, 0, top, 0))))
        z = self.norm(z + self._spread(self.place).to(z.dtype)).relu()
        for convolution in self.row:
            z = convolution(z)
        return self.evidence(z).relu()

    def _states(self, phi: Tensor) -> Tensor:
        """`Σ_{k≤j} B_k φ_k` for every j, (n, m, state)."""
        m = len(self.grid)
        matrices = self._spread(self.matrices)[0].flatten(1).T.reshape(m, _EVIDENCE, _STATE)
        phi = phi.permute(2, 3, 0, 1).reshape(m, -1, _EVIDENCE)
        return torch.bmm(phi, matrices.to(phi.dtype)).transpose(0, 1).float().cumsum(dim=1)

    def _states_at(self, phi: Tensor, at: Tensor) -> Tensor:
        """The same after the patches `at` (k,) only, (n, k, state): for training, where few
        prefixes are looked at.

        B is interpolated from few places, down and across, so that φ is summed up with the weights
        of these places first: over the rows above the row of a patch, and over that row as far as
        the patch.
        """
        grid = self.grid
        n = len(phi)
        phi, at = phi.permute(0, 2, 3, 1), at.to(phi.device)  # (n, down, across, evidence)
        down = _weights(grid.down, self.places[0]).to(phi)
        across = _weights(grid.across, self.places[1]).to(phi)
        row = at // grid.across
        column = at % grid.across
        rows = across @ phi  # (n, down, places across, evidence)
        above = down * (
            torch.arange(grid.down, device=phi.device) < row[:, None, None]
        )  # (k, places down, down)
        total = above.flatten(0, 1) @ rows.flatten(2)
        begun = across * (torch.arange(grid.across, device=phi.device) <= column[:, None, None])
        last = begun @ phi[:, row]  # (n, k, places across, evidence)
        last = down.T[row][:, :, None] * last.flatten(2)[:, :, None]
        total = total.view(n, len(at), -1) + last.flatten(2)
        matrices = (
            self.matrices.view(_EVIDENCE, _STATE, *self.places)
            .permute(2, 3, 0, 1)
            .reshape(-1, _STATE)
        )
        return (total @ matrices.to(total.dtype)).float()

    def _padding(self) -> tuple[int, int]:
        """Pixels above and at one side that make the image divide by the strides; its last row ends
        a block.
        """
        down, across = self.trunk.strides[-1]
        return -self.grid.height % down, -self.grid.width % across

    def _above(self, levels: list[Tensor]) -> Tensor:
        """What the rows above each patch are known to show, (n, row, down, across); 0 above the
        first row.
        """
        grid = self.grid
        (tall, wide) = self.trunk.strides[0]
        known = self._gathered(levels, self.handed, (0, 0, 1, 0))
        rows = torch.arange(grid.down) * grid.patch + self._padding()[0]
        known = _lines(known, 2, rows, tall, grid.patch)
        if wide % grid.patch == 0:
            return _lines(known, 3, torch.arange(grid.across) * grid.patch, wide, grid.patch)
        left = torch.arange(known.shape[3]) * wide
        start = torch.arange(grid.across)[:, None] * grid.patch
        common = (
            (torch.minimum(left + wide, start + grid.patch) - torch.maximum(left, start))
            .clamp(min=0)
            .float()
        )
        return known @ (common / common.sum(dim=1, keepdim=True)).T.to(known)

    def _at_corners(self, levels: list[Tensor]) -> Tensor:
        """What the corner knows when each patch has been seen, (n, row, down, across); 0 where no
        block has ended.
        """
        grid = self.grid
        (top, left) = self._padding()
        (tall, wide) = self.corner.strides[0]
        known = self._gathered(levels, self.own, (1, 0, 1, 0))
        rows = ((torch.arange(grid.down) + 1) * grid.patch).clamp(max=grid.height) + top
        columns = ((torch.arange(grid.across) + 1) * grid.patch).clamp(max=grid.width) + left
        return _lines(_lines(known, 2, rows, tall, grid.patch), 3, columns, wide, grid.patch)

    def _gathered(
        self, levels: list[Tensor], maps: nn.ModuleList, margin: tuple[int, int, int, int]
    ) -> Tensor:
        """All levels as one map at the resolution of the finest, (n, row, h, w), with zeros before
        it.

        Every level is brought to the channels of the row where it is small. Block k of a level lies
        in block k // r of the next coarser one, margin or not, so levels are added from the
        coarsest to the finest.
        """
        total: Tensor | None = None
        for level, convolution in zip(reversed(levels), reversed(list(maps)), strict=True):
            here = functional.pad(convolution(level), margin)
            if total is not None:
                tall, wide = (
                    -(-a // b) for a, b in zip(here.shape[2:], total.shape[2:], strict=True)
                )
                finer = functional.interpolate(
                    total, scale_factor=(float(tall), float(wide)), mode="nearest"
                )
                here = here + finer[:, :, : here.shape[2], : here.shape[3]]
            total = here
        if total is None:
            raise ValueError("there are no levels")
        return total

    def _spread(self, places: Tensor) -> Tensor:
        """A coarse map (1, channels, ≤ 8, ≤ 8) at every patch, (1, channels, down, across)."""
        size = self.grid.down, self.grid.across
        return functional.interpolate(places, size=size, mode="bilinear", align_corners=False)


class Trunk(nn.Module):
    """Convolutions that never look down: level l has a row for `strides[l][0]` rows of pixels, all
    of them seen.

    Args:
        channels: of the image.
        stem: by how much the first convolution lowers the resolution.
        right: whether they look to the right; else the same holds for columns.
    """

    def __init__(self, channels: int, stem: int, *, right: bool = True) -> None:
        super().__init__()
        self.down = nn.ModuleList()
        self.same = nn.ModuleList()
        self.strides = []
        down = stem
        across = stem
        before = channels
        for level, (after, stride, reach) in enumerate(
            zip(_WIDTHS, _STRIDES, _REACHES, strict=True)
        ):
            step = (stem, stem) if level == 0 else stride
            down, across = (down, across) if level == 0 else (down * step[0], across * step[1])
            self.strides.append((down, across))
            self.down.append(
                UpwardConvolution(before, after, rows=step[0] + 1, stride=step, right=right)
            )
            self.same.append(
                UpwardConvolution(after, after, rows=reach[0], dilation=reach[1], right=right)
            )
            before = after

    def forward(self, x: Tensor) -> list[Tensor]:
        """(n, channels, height, width) → every level, (n, width of the level, rows, columns)."""
        levels = []
        for down, same in zip(self.down, self.same, strict=True):
            x = down(x).relu()
            x = (x + same(x)).relu()
            levels.append(x)
        return levels


class UpwardConvolution(nn.Module):
    """A convolution whose output ends with the rows it covers: block i of `stride` rows and some
    above it.

    To both sides it reaches equally far, or, with `right=False`, its output ends with the columns
    it covers, too.
    """

    def __init__(
        self,
        before: int,
        after: int,
        *,
        rows: int,
        stride: tuple[int, int] = (1, 1),
        dilation: int = 1,
        right: bool = True,
    ) -> None:
        super().__init__()
        columns = max(3, stride[1] + 1)
        self.above = (rows - 1) * dilation - (stride[0] - 1)
        self.left = 0 if right else columns - stride[1]
        self.convolution = nn.Conv2d(
            before,
            after,
            (rows, columns),
            stride=stride,
            padding=(0, columns // 2 if right else 0),
            dilation=(dilation, 1),
            bias=False,
        )
        self.norm = nn.BatchNorm2d(after)

    def forward(self, x: Tensor) -> Tensor:
        """(n, before, h, w) → (n, after, h / stride, w / stride)."""
        # Padding first keeps the result contiguous; cutting rows off afterwards is several times
        # slower.
        return self.norm(self.convolution(functional.pad(x, (self.left, 0, self.above, 0))))


class RowConvolution(nn.Module):
    """A residual convolution along rows of patches that looks to the left only."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.left = 2 * dilation
        self.convolution = nn.Conv2d(width, width, (1, 3), dilation=(1, dilation))
        with torch.no_grad():
            self.convolution.weight.mul_(
                0.5
            )  # there is no normalisation: three residual steps must not grow

    def forward(self, x: Tensor) -> Tensor:
        """(n, channels, down, across) → the same shape."""
        return (x + self.convolution(functional.pad(x, (self.left, 0)))).relu()


class PatchNet(nn.Module):
    """Each patch on its own as a vector of a length: convolutions down to 4 × 4 pixels or less,
    then two layers.
    """

    def __init__(self, patch: int, channels: int, length: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        self.side = patch
        side = patch
        before = channels
        while side > 4:
            layers += [
                nn.Conv2d(before, 32, 3, stride=2, padding=1, bias=False),
                nn.BatchNorm2d(32),
                nn.ReLU(),
            ]
            before = 32
            side = -(-side // 2)
        self.convolutions = nn.Sequential(*layers)
        wide = 2 * length
        self.layers = nn.Sequential(
            nn.Conv2d(before, wide, side, stride=side, bias=False),
            nn.BatchNorm2d(wide),
            nn.ReLU(),
            nn.Conv2d(wide, length, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        """(n, channels, down · patch, across · patch) → (n, length, down, across)."""
        if (
            not self.convolutions
        ):  # small patches need not be cut out: the layers do not look beyond them
            return self.layers(x)
        n, channels, height, width = x.shape
        p = self.side
        down = height // self.side
        across = width // self.side
        cut = (
            x.reshape(n, channels, down, p, across, p)
            .permute(0, 2, 4, 1, 3, 5)
            .reshape(-1, channels, p, p)
        )
        vectors = self.layers(self.convolutions(cut))
        return vectors.view(n, down, across, -1).permute(0, 3, 1, 2)


def _weights(size: int, places: int) -> Tensor:
    """(places, size) the weights of linear interpolation from so many places."""
    return functional.interpolate(
        torch.eye(places)[None], size=size, mode="linear", align_corners=False
    )[0]


def _lines(known: Tensor, axis: int, pixels: Tensor, stride: int, patch: int) -> Tensor:
    """Lines `pixels // stride` of a map along one axis; `pixels` (k,) grow by `patch` from one to
    the next.
    """
    start = int(pixels[0])
    times = stride // patch
    if stride % patch or start % patch or bool((pixels.diff() != patch).any()):
        return known.index_select(axis, (pixels // stride).to(known.device))
    # Whole lines are repeated: several times faster than picking them one by one, backwards above
    # all.
    scale = (float(times), 1.0) if axis == 2 else (1.0, float(times))
    repeated = (
        functional.interpolate(known, scale_factor=scale, mode="nearest") if times > 1 else known
    )
    return repeated.narrow(axis, start // patch, len(pixels))


def _padded(x: Tensor, *, right: int, bottom: int) -> Tensor:
    """Grow images (n, channels, height, width) to `bottom` × `right` pixels with zeros."""
    return functional.pad(x, (0, right - x.shape[3], 0, bottom - x.shape[2]))
