from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from storage.conftest import Place, no_environment, proxy, s3
from support.azurite import azurite
from support.seaweedfs import seaweedfs

__all__ = ["azurite", "no_environment", "proxy", "s3", "seaweedfs"]


@pytest.fixture(autouse=True)
def spool_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No spool but the test's own."""
    root = tmp_path / "spool"
    monkeypatch.setenv("TBHUB_SPOOL_DIR", str(root))
    return root


@pytest.fixture
def environment(
    s3: Callable[..., Place], monkeypatch: pytest.MonkeyPatch
) -> Callable[[Place], str]:
    """Puts the credentials of a place where programs look for them; its URI."""

    def use(place: Place) -> str:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", place.credentials["access_key_id"])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", place.credentials["secret_access_key"])
        monkeypatch.setenv("AWS_ENDPOINT_URL", place.credentials["endpoint"])
        return place.uri

    return use
