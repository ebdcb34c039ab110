"""What holds for all tests."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from tbhub.writer.non_finite import forget_non_finite

# How long something takes says nothing where processes share few processors.
settings.register_profile("tbhub", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tbhub")


@pytest.fixture(autouse=True)
def _each_test_is_warned_of_non_finite_values() -> None:
    """A process is warned once; the tests of a worker share one."""
    forget_non_finite()
