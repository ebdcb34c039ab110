"""Boards from Python, on a real hub; what somebody who knows PAI would try."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.up import Up
from tbhub import (
    AsyncHub,
    AsyncTensorBoard,
    BadRequest,
    Conflict,
    Hub,
    NotFound,
    SummaryWriter,
    TensorBoard,
    TensorboardLimitExceeded,
    UnexpectedStatusException,
    WaitTimeout,
)


def log(run: Path) -> None:
    with SummaryWriter(run) as writer:
        writer.add_scalar("loss", 1.0, 1)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    directory = tmp_path_factory.mktemp("up")
    for name in ("a/1", "a/2", "b/1"):
        log(directory / "runs" / name)
    with Up(directory, "--logdir", directory / "runs", TBHUB_MAX_BOARDS_PER_USER="5") as up:
        up.wait_for_runs(3)
        yield up


@pytest.fixture
def runs(up: Up) -> Path:
    return up.directory / "runs"


@pytest.fixture(autouse=True)
def at_home(up: Up, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The hub is found as a script finds it; each test leaves no board behind."""
    monkeypatch.setenv("TBHUB_HOME", up.environment["TBHUB_HOME"])
    monkeypatch.chdir(up.directory)
    yield
    for board in TensorBoard.list():
        board.delete()


def test_a_board_over_a_path(runs: Path) -> None:
    board = TensorBoard.create(uri="runs/a")
    assert board.status == "RUNNING"
    assert board.app_uri.endswith(f"/boards/{board.id[:8]}/")
    assert board.details.runs == 2
    assert board.summary_uri == str(runs / "a")
    assert board.display_name in repr(board)
    elsewhere = TensorBoard.create(uri=[runs / "b", "runs/a/1"], display_name="two places")
    assert elsewhere.details.runs == 2
    assert elsewhere.display_name == "two places"


def test_a_board_over_a_path_the_hub_does_not_know(tmp_path: Path) -> None:
    log(tmp_path / "x")
    board = TensorBoard.create(uri=tmp_path / "x")
    assert board.summary_uri == str(tmp_path / "x")


def test_a_board_over_a_selector() -> None:
    board = TensorBoard.create(runs="exp:a")
    assert board.details.runs == 2
    assert "a" in board.summary_uri
    with Hub() as hub:
        number = hub.experiments("a").experiments[0].id
        run = hub.runs("exp:b").runs[0].id
    both = TensorBoard.create(experiments=number, trials=[run])
    assert (both.details.experiments, both.details.trials) == ([number], [run])
    assert both.details.runs == 3


def test_stop_start_delete() -> None:
    """Scenario 16."""
    board = TensorBoard.create(runs="all")
    id_ = board.id
    board.stop()
    board.start()
    board.wait(timeout=60)
    assert (board.id, board.status) == (id_, "RUNNING")
    board.stop()
    board.start(wait=True)
    assert board.status == "RUNNING"
    board.delete()
    with pytest.raises(NotFound):
        board.refresh()
    with pytest.raises(NotFound):
        _ = board.status
    with pytest.raises(NotFound):
        TensorBoard.get(id_)


def test_killed_is_final() -> None:
    """Scenario 1."""
    board = TensorBoard.create(runs="all")
    board.kill()
    board.kill()
    assert (board.status, board.reason) == ("TERMINATED", "USER_KILLED")
    with pytest.raises(Conflict):
        board.start()
    with pytest.raises(UnexpectedStatusException, match="USER_KILLED") as raised:
        board.wait()
    assert raised.value.status == "TERMINATED"


def test_no_more_than_the_quota() -> None:
    """Scenario 17."""
    boards = [TensorBoard.create(runs="all", wait=False) for _ in range(5)]
    with pytest.raises(TensorboardLimitExceeded) as raised:
        TensorBoard.create(runs="all")
    assert {each["id"] for each in raised.value.details["boards"]} == {b.id for b in boards}
    boards[0].wait()
    boards[0].kill()
    TensorBoard.create(runs="all")


def test_waiting_ends_on_time(tmp_path: Path) -> None:
    """Scenarios 4 and 18."""
    (tmp_path / "empty").mkdir()
    board = TensorBoard.create(uri=tmp_path / "empty")
    assert board.status == "WAITING"
    with pytest.raises(WaitTimeout, match="WAITING"):
        board.wait(timeout=0.1, data=True)
    log(tmp_path / "empty" / "run")
    board.wait(timeout=60, data=True)
    assert board.status == "RUNNING"


def test_found_by_another_process(up: Up) -> None:
    """Scenario 19."""
    script = "import tbhub; print(tbhub.TensorBoard.create(runs='all').id)"
    made = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=60
    )
    assert made.returncode == 0, made.stderr
    id_ = made.stdout.strip()
    board = TensorBoard.get(id_[:8])
    assert board.id == id_
    assert [each.id for each in TensorBoard.list(live=True)] == [id_]
    board.stop()
    assert up.run("open", id_, "--no-browser").stdout.strip() == board.app_uri


def test_get_or_create_from_many_threads() -> None:
    """Scenario 15."""
    found: list[str] = []

    def create() -> None:
        found.append(TensorBoard.create(runs="all", key="mine").id)

    threads = [threading.Thread(target=create) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 10
    assert len(set(found)) == 1


def test_the_board_of_a_source() -> None:
    one = TensorBoard.create(runs="all", source_id="dlc123", source_type="job")
    one.stop()
    same = TensorBoard.create(runs="all", source_id="dlc123", source_type="job")
    assert same.id == one.id
    assert same.status == "RUNNING"


@pytest.mark.parametrize("name", ["a b", "..", "a/logs", "é\u202e"])
def test_any_name(name: str) -> None:
    """Scenario 20."""
    board = TensorBoard.create(runs="all", display_name=name)
    assert TensorBoard.get(name).id == board.id


def test_what_cannot_be() -> None:
    with pytest.raises(BadRequest, match="max_runtime"):
        TensorBoard.create(runs="all", max_runtime_in_minutes=-5)
    with pytest.raises(BadRequest) as raised:
        TensorBoard.create(runs="where lr <")
    assert raised.value.details["position"] >= 8
    with pytest.raises(NotFound, match="no-such-run"):
        TensorBoard.create(runs="no-such-run")


def test_logs_and_runs() -> None:
    board = TensorBoard.create(runs="exp:a")
    assert any("was placed" in line.text for line in board.logs())
    assert len(board.logs(tail=1)) == 1
    board.add("exp:b")
    assert board.details.runs == 3
    board.remove(uri="runs/a")
    assert board.details.runs == 1
    with Hub() as hub:
        board.kill()
        assert "killed" in [line.text for line in hub.follow_logs(board.id)][-1]


def test_coroutines() -> None:
    async def main() -> None:
        board = await AsyncTensorBoard.create(runs="all")
        assert board.status == "RUNNING"
        async with AsyncHub() as hub:
            same = await AsyncTensorBoard.get(board.id, hub=hub)
            await same.stop()
            assert [each.id for each in await AsyncTensorBoard.list(hub=hub)] == [board.id]
            await same.start(wait=True)
            await same.kill()
            lines = [line.text async for line in hub.follow_logs(board.id)]
            assert "killed" in lines[-1]
        with pytest.raises(UnexpectedStatusException):
            await board.wait()
        assert board.reason == "USER_KILLED"
        await board.delete()

    asyncio.run(main())
