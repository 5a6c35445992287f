"""Array types that everybody uses."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Bools = NDArray[np.bool_]
Ints = NDArray[np.intp]
Labels = NDArray[np.intp]
"""Classes of the secret, coded 0 … |S|−1."""
Pixels = NDArray[np.uint8]
"""Images (n, height, width, channels) or one image, in bytes."""
