"""torch.utils.tensorboard's way to numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tbhub.writer.arrays import to_array


def make_np(x: Any) -> NDArray[Any]:
    """A numpy array from an array or a tensor; a number becomes an array of one element."""
    return to_array([x] if np.isscalar(x) else x, "make_np")
