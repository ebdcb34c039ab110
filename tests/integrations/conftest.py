"""Programs that train, run as a user would; without anything of whoever runs the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.hub import clean_environment


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """No hub is known, and no model can be fetched."""
    return clean_environment(
        TBHUB_HOME=str(tmp_path / "home"),
        TBHUB_SPOOL_DIR=str(tmp_path / "spool"),
        XDG_CONFIG_HOME=str(tmp_path / "config"),
        HF_HUB_OFFLINE="1",
        KERAS_BACKEND="torch",
        TF_CPP_MIN_LOG_LEVEL="3",
        CUDA_VISIBLE_DEVICES="",
    )


@pytest.fixture
def joined(environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """As `tbhub run` has it for its command: a run that no hub knows yet."""
    return {**environment, "TBHUB_RUN_ID": "", "TBHUB_LOGDIR": str(tmp_path / "logs")}
