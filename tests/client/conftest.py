"""No test of a client finds the hub or the logins of whoever runs the tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TBHUB_URL", "TBHUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TBHUB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
