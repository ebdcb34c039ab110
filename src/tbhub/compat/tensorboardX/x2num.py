"""tensorboardX's way to numpy."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tbhub.writer.arrays import to_array

logger = logging.getLogger(__name__)


def make_np(x: Any) -> NDArray[Any]:
    """A numpy array from an array, a tensor, a number, or lists of these."""
    return check_nan(to_array(x, "make_np"))


def check_nan(array: NDArray[Any]) -> NDArray[Any]:
    """The array itself, after a word in the log if not all of it is finite."""
    if not np.isfinite(np.sum(array)):
        logger.warning("an array with NaN or infinite values is being logged")
    return array
