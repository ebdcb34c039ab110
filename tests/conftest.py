"""What holds for all tests."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import nullcontext

import pytest
from hypothesis import HealthCheck, settings

from support.network import browse, change_network
from tbhub.writer.non_finite import forget_non_finite

# Shells start commands in the background with these ignored, and children inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGQUIT) == signal.SIG_IGN:
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)

# How long something takes says nothing where processes share few processors.
settings.register_profile("tbhub", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tbhub")


@pytest.fixture(autouse=True)
def _each_test_is_warned_of_non_finite_values() -> None:
    """A process is warned once; the tests of a worker share one."""
    forget_non_finite()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Tests that open pages and tests that change the network wait for each other."""
    if item.get_closest_marker("network"):
        alone = change_network()
    elif "browser" in getattr(item, "fixturenames", ()):
        alone = browse()
    else:
        alone = nullcontext()
    with alone:
        return (yield)
