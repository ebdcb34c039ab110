"""What holds for all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# How long something takes says nothing where processes share few processors.
settings.register_profile("tbhub", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tbhub")
