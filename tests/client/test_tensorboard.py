"""Boards from Python, on a real hub; what somebody who knows PAI would try."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest

from support.hub import eventually
from support.up import Up
from tbhub import (
    AsyncHub,
    AsyncTensorBoard,
    BadRequest,
    Conflict,
    Hub,
    NotFound,
    SourceUnreadable,
    SummaryWriter,
    TbhubWarning,
    TensorBoard,
    TensorboardLimitExceeded,
    UnexpectedStatusException,
    WaitTimeout,
)
from tbhub.api.models import Board, LogLine, LogLines, State
from tbhub.client.board_status import PAI_WORDS, BoardStatus
from tbhub.client.calls import Call
from tbhub.client.replies import Lost, Reply
from tbhub.client.steps import Steps, do
from tbhub.client.tensorboard import check_readable, wait_until_looked, wait_until_up

UNREADABLE = "oss://no-such-bucket/logs"  # without region and credentials nobody is asked


def log(run: Path) -> None:
    with SummaryWriter(run) as writer:
        writer.add_scalar("loss", 1.0, 1)


def wait_for_nothing(board: TensorBoard) -> Steps[Board]:
    """The steps of waiting for data that are not there, with no time left."""
    waiting = board.details.model_copy(update={"state": State.WAITING})
    return wait_until_up(waiting, 0, data=True)


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
    board = TensorBoard.create(uri="runs/a", session=None)  # as scripts for PAI write it
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


def test_experiments_and_runs_by_what_people_have() -> None:
    with Hub() as hub:
        number = hub.experiments("a").experiments[0].id
        run = hub.runs("exp:b").runs[0]
    named = TensorBoard.create(experiments="a", wait=False)
    assert (named.details.experiments, named.details.runs) == ([number], 2)
    mixed = TensorBoard.create(experiments=[str(number)], trials=run.name, uri=[], wait=False)
    assert (mixed.details.experiments, mixed.details.trials) == ([number], [run.id])
    several = TensorBoard.create(runs=["exp:a", f"trial:{run.id}"], wait=False)
    assert several.details.runs == 3
    several.remove(["exp:a", "exp:b"])
    assert several.details.runs == 0
    several.add(["exp:a", "./runs/b"])
    assert several.details.runs == 3


def test_stop_start_delete() -> None:
    """Scenario 16."""
    board = TensorBoard.create(runs="all")
    id_ = board.id
    board.stop()
    board.start()
    assert (board.id, board.details.state) == (id_, "RUNNING")
    board.stop()
    board.start(False)
    assert board.details.state in ("QUEUED", "STARTING", "STOPPING")
    board.wait(timeout=60)
    board.stop()
    board.start(True)
    assert board.details.state == "RUNNING"
    board.delete()
    with pytest.raises(NotFound):
        board.refresh()
    with pytest.raises(NotFound):
        _ = board.status
    with pytest.raises(NotFound):
        TensorBoard.get(id_)


def test_restart() -> None:
    board = TensorBoard.create(runs="all")
    started = board.details.started
    board.restart()
    assert board.details.state == "RUNNING"
    assert board.details.started != started
    board.stop()
    board.restart(False)
    assert board.details.state != "RUNNING"
    board.wait()
    board.kill()
    with pytest.raises(Conflict):
        board.restart()


def test_how_long_it_stays() -> None:
    board = TensorBoard.create(runs="all", wait=False, idle_timeout=90, no_data_timeout=30.5)
    assert (board.details.idle_timeout, board.details.no_data_timeout) == (90, 30.5)
    never = TensorBoard.create(runs="all", wait=False, idle_timeout=0)
    assert never.details.idle_timeout is None


def test_a_link_for_somebody_without_a_login() -> None:
    board = TensorBoard.create(runs="all")
    link = board.share(expires_in=60)
    assert link.startswith(board.app_uri)
    shown = httpx2.get(link.replace("/?", "/data/runs?"), follow_redirects=True, trust_env=False)
    assert len(shown.json()) == 3
    with Hub() as hub:
        (share,) = hub.shares(board.id)
    assert share.expires - share.created <= timedelta(seconds=60)
    with pytest.raises(BadRequest, match="expires_in"):
        board.share(expires_in=0)


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


def test_the_reason_of_an_unreadable_source_ends_with_one_full_stop() -> None:
    board = Board.model_construct(
        id="1" * 36, name="b", state="WAITING", problem="s3://b cannot be read: no certificates."
    )
    with pytest.raises(SourceUnreadable, match=r"no certificates\. The board stays"):
        check_readable(board, strict=True)


def test_a_place_that_cannot_be_read_raises_or_warns() -> None:
    with pytest.raises(SourceUnreadable) as raised:
        TensorBoard.create(uri=UNREADABLE)
    assert f"{UNREADABLE} cannot be read: " in raised.value.message
    assert f"tbhub storage add NAME {UNREADABLE}" in raised.value.message
    board = TensorBoard.get(raised.value.board_id)
    assert board.status == "WAITING"
    assert UNREADABLE in board.message
    for wait in (board.wait, board.restart, lambda: board.start(True)):
        with pytest.raises(UnexpectedStatusException, match="cannot be read") as caught:
            wait()
        assert isinstance(caught.value, SourceUnreadable)
        assert caught.value.status == "WAITING"
    with pytest.warns(UserWarning, match="cannot be read"):
        board.wait(strict=False)

    async def main() -> None:
        with pytest.warns(UserWarning, match="cannot be read"):
            await AsyncTensorBoard.create(uri=UNREADABLE, strict=False)

    asyncio.run(main())


@pytest.mark.parametrize("problem", ["", "s3://b/x cannot be read: no."])
def test_a_board_with_data_is_waited_for_until_each_source_has_answered(problem: str) -> None:
    board = TensorBoard.create(runs="all").details
    pending = board.model_copy(update={"message": "Waiting for the first answer of s3://b/x."})
    answered = board.model_copy(update={"problem": problem})
    replies = [pending, answered]

    def send(_call: Call[Any]) -> Reply:
        return Reply(200, replies.pop(0).model_dump_json().encode())

    assert do(wait_until_looked(pending, None), send) == answered
    assert replies == []


def test_a_source_that_never_answers_is_waited_for_until_the_timeout() -> None:
    board = TensorBoard.create(runs="all").details
    pending = board.model_copy(update={"message": "Waiting for the first answer of s3://b/x."})
    assert do(wait_until_looked(pending, 0), lambda _call: Lost("gone", sent=False)) == pending


def test_waiting_in_vain_tells_why() -> None:
    """Scenario 18."""
    board = TensorBoard.create(uri=UNREADABLE, wait=False)
    while not any(line.level == "warning" for line in board.logs()):
        time.sleep(0.05)
    with pytest.raises(WaitTimeout, match=f"WAITING.*{UNREADABLE} cannot be read: "):
        board.wait(timeout=0.1, data=True)

    async def main() -> None:
        same = await AsyncTensorBoard.get(board.id)
        with pytest.raises(WaitTimeout, match="cannot be read"):
            await same.wait(timeout=0.1, data=True)

    asyncio.run(main())


def test_only_the_last_warnings_are_told() -> None:
    board = TensorBoard.create(runs="all")
    levels: list[Literal["info", "warning", "error"]] = [
        "warning",
        "error",
        "info",
        "warning",
        "error",
    ]
    lines = [
        LogLine(id=number, time=board.details.created, level=level, text=f"{level}{number} " * 999)
        for number, level in enumerate(levels)
    ]
    with pytest.raises(WaitTimeout) as raised:
        do(
            wait_for_nothing(board),
            lambda _call: Reply(200, LogLines(lines=lines).model_dump_json().encode()),
        )
    told = str(raised.value)
    assert "error1" in told
    assert "warning3" in told
    assert "error4" in told
    assert "warning0" not in told
    assert "info2" not in told
    assert len(told) < 2000


@pytest.mark.parametrize(
    "answer", [Lost("gone", sent=False), Reply(503, b"busy"), Reply(200, b"<html>")]
)
def test_a_log_that_cannot_be_had_is_asked_for_once(answer: Reply | Lost) -> None:
    board = TensorBoard.create(runs="all")
    asked = []

    def send(call: Call[Any]) -> Reply | Lost:
        asked.append(call.path)
        return answer

    with pytest.raises(WaitTimeout, match=r"tells what happens$"):
        do(wait_for_nothing(board), send)
    assert asked == [f"boards/{board.id}/logs"]


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


def test_a_key_keeps_its_first_sources() -> None:
    one = TensorBoard.create(runs="exp:a", key="mine", idle_timeout=90)
    with pytest.warns(TbhubWarning, match="the key mine was there already: it shows exp:a, with"):
        same = TensorBoard.create(runs="exp:b", key="mine", idle_timeout=30)
    assert same.id == one.id
    assert (same.summary_uri, same.details.runs) == ("exp:a", 2)
    assert same.details.idle_timeout == 90


@pytest.mark.parametrize(
    "asked",
    [
        {"uri": ["runs/a/", "runs/b/1"]},
        {"experiments": 1, "trials": 1},
        {"runs": "exp:a, ./runs/b"},
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_key_with_the_same_sources_is_silent(
    asked: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    one = TensorBoard.create(**asked, key="mine", wait=False)
    one.add("exp:b")
    same = TensorBoard.create(**asked, key="mine", wait=False)
    assert (same.id, capsys.readouterr().err) == (one.id, "")


def test_a_key_whose_board_shows_another_path_or_has_other_options_warns(runs: Path) -> None:
    one = TensorBoard.create(uri="runs/a", key="mine", wait=False)
    for other in ({"uri": "runs/b"}, {"uri": "runs/a", "samples": 9}):
        with pytest.warns(TbhubWarning, match=f"it shows {runs / 'a'}, with its own options"):
            assert TensorBoard.create(**other, key="mine", wait=False).id == one.id  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["a b", "..", "a/logs", "é\u202e"])
def test_any_name(name: str) -> None:
    """Scenario 20."""
    board = TensorBoard.create(runs="all", display_name=name)
    assert TensorBoard.get(name).id == board.id


def test_what_cannot_be() -> None:
    with pytest.raises(BadRequest, match="max_runtime"):
        TensorBoard.create(runs="all", max_runtime_in_minutes=-5)
    with pytest.raises(TypeError, match="max_runtime_in_minutes takes a number, not '5'"):
        TensorBoard.create(runs="all", max_runtime_in_minutes="5")  # type: ignore[arg-type]
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
        board = await AsyncTensorBoard.create(runs=["all"], idle_timeout=90)
        assert board.details.idle_timeout == 90
        assert board.status == "RUNNING"
        async with AsyncHub() as hub:
            same = await AsyncTensorBoard.get(board.id, hub=hub)
            await same.stop()
            assert [each.id for each in await AsyncTensorBoard.list(hub=hub)] == [board.id]
            await same.start()
            await same.restart(True)
            assert (await same.share()).startswith(same.app_uri)
            await same.kill()
            lines = [line.text async for line in hub.follow_logs(board.id)]
            assert "killed" in lines[-1]
        with pytest.raises(UnexpectedStatusException):
            await board.wait()
        assert board.reason == "USER_KILLED"
        await board.delete()

    asyncio.run(main())


def test_positional_arguments_are_those_of_pai() -> None:
    board = TensorBoard.create("runs/a", False, "from pai", 30, "dlc123", "job")
    assert board.details.state in ("QUEUED", "STARTING")
    assert board.tensorboard_id == board.id
    assert (board.display_name, board.details.max_runtime) == ("from pai", 1800)
    assert TensorBoard.create("runs/a", True, None, None, "dlc123", "job").id == board.id
    assert TensorBoard.create("runs/a", True).details.state == "RUNNING"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("runs/a", "exp:a"), "wait takes True or False, not 'exp:a'. hint: name what to show"),
        (("runs/a", True, 7), "display_name takes text, not 7"),
        (("runs/a", True, ["exp:a"]), "display_name takes text"),
        (("runs/a", True, "x", "dlc123"), "max_runtime_in_minutes takes a number, not 'dlc123'"),
        (("runs/a", True, "x", 5, 7), "source_id takes text, not 7"),
        (("runs/a", True, "x", 5, "a", "b", "all"), "positional arguments"),
    ],
)
def test_positional_argument_of_the_wrong_kind_raises(
    arguments: tuple[Any, ...], error: str
) -> None:
    with pytest.raises(TypeError, match=error):
        TensorBoard.create(*arguments)
    with pytest.raises(TypeError, match="runs takes a selector"):
        TensorBoard.create(runs=True)  # type: ignore[arg-type]


def test_a_board_is_attached_to_by_its_id() -> None:
    board = TensorBoard.create(uri="runs/a", display_name="mine")
    for called in (board.id, board.id[:8], "mine"):
        assert TensorBoard(called).id == board.id
    with Hub() as hub:
        again = TensorBoard(tensorboard_id=board.id, hub=hub)
        assert (again.app_uri, again.status) == (board.app_uri, "RUNNING")
    board.delete()
    with pytest.raises(NotFound):
        TensorBoard(board.id)


def test_a_status_is_equal_to_pais_word() -> None:
    board = TensorBoard.create(uri="runs/a")
    status = board.status
    assert status == "RUNNING"
    assert "Running" == status == State.RUNNING
    assert status != "Stopped"
    assert status != "running"
    assert status in ["Stopped", "Running"]
    assert {status: 1}["RUNNING"] == {"RUNNING": 1}[status] == 1
    assert status in {State.RUNNING}
    assert json.dumps({"status": status}) == '{"status": "RUNNING"}'
    assert f"{status}" == "RUNNING"
    board.stop()
    eventually(lambda: board.status in ("Stopped", "Creating_Failed"))
    assert board.status == "Stopped"
    board.kill()
    assert board.status == "Deleted"


def test_every_state_has_a_word_of_pais() -> None:
    known = {"Pending", "Creating", "Running", "Creating_Failed", "Stopping", "Stopped", "Deleted"}
    assert set(PAI_WORDS) == set(State)
    assert set(PAI_WORDS.values()) == known
    for state, word in PAI_WORDS.items():
        assert BoardStatus(state) == word
