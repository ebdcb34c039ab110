"""What hosts are told of a run."""

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbhub.catalog.selection import Metric
from tbhub.hub.run_facts import shown


@pytest.mark.parametrize(
    ("logged", "expected"), [(0.1, 0.1), (1 / 3, 0.33333334), (1e-5, 1e-5), (2.0, 2.0)]
)
def test_a_metric_has_the_digits_of_a_float32(logged: float, expected: float) -> None:
    assert shown(Metric("loss"), as_float32(logged)) == expected


@given(st.floats())
def test_a_metric_is_shown_as_a_number_that_is_the_same_float32(value: float) -> None:
    found = shown(Metric("loss"), value)
    if math.isfinite(value) and abs(value) < 3e38 and as_float32(value) == value:
        assert as_float32(found) == value
    else:
        assert found == value or math.isnan(value)


def as_float32(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])
