"""A hub that is killed while it makes boards: what it has acknowledged is there and comes up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from support.conducted import ADMIN, Catalog, Conducted, log, running
from tbhub.api.models import State
from tbhub.database.engine import open_database

# Makes boards as quickly as it can and prints the id of each that was acknowledged.
HUB = """
import asyncio, sys
from pathlib import Path
from support.conducted import ADMIN, Conducted
from tbhub.api.models import NewBoard
from tbhub.database.engine import open_database

async def main():
    database = open_database(sys.argv[1])
    hub = Conducted(database, Path(sys.argv[2]), max_boards_per_user=0)
    await hub.start()

    async def make():
        while True:
            board = await hub.conductor.create(ADMIN, NewBoard(experiments=[1]))
            print(board.id, flush=True)

    await asyncio.gather(*(make() for _ in range(4)))

asyncio.run(main())
"""


@pytest.mark.parametrize("after", [1, 40])
@running
async def test_acknowledged_boards_are_there_after_kill_9(
    database_url: str, tmp_path: Path, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TBHUB_CACHE_DIR", str(tmp_path / "cache"))
    database = open_database(database_url)
    catalog = Catalog(database)
    catalog.run(log(tmp_path / "a", 1), name="a")
    tests = str(Path(__file__).parent.parent)
    with subprocess.Popen(
        [sys.executable, "-c", HUB, database_url, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": tests},
    ) as process:
        assert process.stdout is not None
        acknowledged = [process.stdout.readline().strip() for _ in range(after)]
        process.send_signal(signal.SIGKILL)
        acknowledged += [line.strip() for line in process.stdout if len(line.strip()) == 36]
    async with Conducted(database, tmp_path, max_boards_per_user=0) as hub:
        for board_id in acknowledged:
            await hub.until(board_id, State.RUNNING)
            assert await hub.names(board_id) == ["a"]
        found = (await hub.conductor.list(ADMIN, limit=10_000)).boards
        assert {board.id for board in found} >= set(acknowledged)
        for board in found:  # also those that were committed and not yet answered
            await hub.until(board.id, State.RUNNING)
        link = await hub.conductor._keeper.hosts.ready()
        assert (await link.health())["boards"] == len(found)
    database.close()
    # Nothing is left running, whichever hub has started it.
    for each in psutil.process_iter(["environ"]):
        environment = each.info["environ"] or {}
        assert (
            environment.get("TBHUB_CACHE_DIR") != str(tmp_path / "cache") or each.pid == os.getpid()
        )
