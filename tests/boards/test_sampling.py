"""Of many pictures a few are shown: the first, the last, and evenly what is in between."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.endpoints import PLUGIN
from support.ours import Ours
from tbhub import SummaryWriter
from tbhub.boards.sampling import evenly


@pytest.mark.parametrize(
    ("size", "count", "kept"),
    [
        (5, None, [0, 1, 2, 3, 4]),
        (5, 5, [0, 1, 2, 3, 4]),
        (5, 9, [0, 1, 2, 3, 4]),
        (5, 3, [0, 2, 4]),
        (5, 2, [0, 4]),
        (5, 1, [4]),
        (5, 0, []),
        (5, -1, []),
        (0, 3, []),
    ],
)
def test_which_are_kept(size: int, count: int | None, kept: list[int]) -> None:
    assert list(evenly(range(size), count)) == kept


@settings(deadline=None)
@given(st.integers(0, 300), st.integers(2, 300))
def test_ends_and_distances(size: int, count: int) -> None:
    kept = list(evenly(range(size), count))
    assert len(kept) == min(size, count)
    if size > count:
        assert (kept[0], kept[-1]) == (0, size - 1)
        gaps = np.diff(kept)
        assert gaps.min() >= 1
        assert gaps.max() - gaps.min() <= 1


def test_pictures_of_a_long_run(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        for step in range(40):
            writer.add_image("image", np.full((3, 2, 2), step / 40), step)
            writer.add_histogram("weights", np.full(3, step), step)
    with Ours(tmp_path) as ours:
        images = ours.json(f"{PLUGIN}/images/images", run=".", tag="image", sample="0")
        steps = [image["step"] for image in images]
        assert len(steps) == 10  # TensorBoard's own number
        assert (steps[0], steps[-1]) == (0, 39)
        # Every one that is listed can be had.
        for image in images:
            key = dict(part.split("=") for part in image["query"].split("&"))["blob_key"]
            assert ours.get(f"{PLUGIN}/images/individualImage", blob_key=key)[0] == 200
