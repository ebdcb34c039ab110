"""Four kinds of preemption at random moments: nothing that was flushed is lost or there twice.

`make preemption` runs each kind 50 times and prints a table; see docs/runs.md.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.hub import HubProcess
from support.preemption import KINDS, Preempted


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    with HubProcess(tmp_path_factory.mktemp("hub") / "home", log_level="warning") as hub:
        yield hub


@pytest.mark.parametrize("time", range(2))
@pytest.mark.parametrize("kind", KINDS)
def test_a_preempted_run_loses_nothing_that_was_flushed(
    hub: HubProcess, tmp_path: Path, kind: str, time: int
) -> None:
    trained = Preempted(hub, tmp_path / "trained", f"{kind}-{time}")
    outcome = trained.run(kind, random.Random(f"{kind} {time}"))
    assert (outcome.lost, outcome.twice) == (0, 0)
