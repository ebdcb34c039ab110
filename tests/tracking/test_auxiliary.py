"""Boards beside an experiment: found again, ended in time, and never in its way."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from xmanager import xm_local  # support/xmanager_double: classes of the same shape

import tbhub
from support.hub import PATIENCE, HubProcess, clean_environment, eventually
from tbhub import Hub, SummaryWriter, TbhubWarning
from tbhub.api.models import Board
from tbhub.client.calls import Call
from tbhub.client.replies import Reply
from tbhub.launchers import Local, Slurm


@dataclass
class Experiment:
    """As XManager's."""

    experiment_id: int = 7


class Unreadable:
    """An experiment whose number cannot be read."""

    @property
    def experiment_id(self) -> int:
        raise RuntimeError("not now")


class AnsweringHub(Hub):
    """A hub that answers every request with the same board, and counts requests by method."""

    def __init__(self, shows: Path, **board: object) -> None:
        super().__init__("http://127.0.0.1:9", "token")
        now = datetime.now(UTC)
        times: dict[str, Any] = {"created": now, "active": now}
        told = Board(
            id="0" * 36, owner="ada", selector="", sources=[str(shows)], url="u", **times, **board
        )  # type: ignore[arg-type]
        self._body = told.model_dump_json().encode()
        self.methods: list[str] = []

    def _send(self, call: Call[Any]) -> Reply:
        self.methods.append(call.method)
        return Reply(200, self._body, "test")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    with SummaryWriter(tmp_path / "logs" / "a") as writer:
        writer.add_scalar("loss", 1.0, 1)
    return tmp_path / "logs"


def test_boards_of_an_experiment_are_found_again(hub: HubProcess, logs: Path) -> None:
    first = tbhub.add_tensorboard(Experiment(), logs)
    second = tbhub.add_tensorboard(Experiment(), logs / "a", 6007, executor=Local())
    other = tbhub.add_tensorboard("7 and more", logs)
    again = tbhub.add_tensorboard(7, str(logs))
    assert first is not None
    assert second is not None
    assert other is not None
    assert again is not None
    assert again.id == first.id
    assert len({first.id, second.id, other.id}) == 3
    found = tbhub.tensorboards_of(7)
    assert {each.id for each in found} == {first.id, second.id}
    first.wait(PATIENCE, data=True)
    # By a later process.
    script = (
        "import tbhub\n"
        "for board in tbhub.tensorboards_of(7):\n"
        "    board.kill()\n"
        "    print(board.id, board.status, board.reason)\n"
    )
    environment = clean_environment(TBHUB_URL=hub.url, TBHUB_TOKEN=hub.token)
    done = subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=environment,
    )
    assert sorted(done.stdout.splitlines()) == sorted(
        f"{each.id} TERMINATED USER_KILLED" for each in (first, second)
    )
    assert [each.id for each in tbhub.tensorboards_of("7 and more")] == [other.id]


def test_a_board_ends_when_its_time_is_over(hub: HubProcess, logs: Path) -> None:
    unlimited = tbhub.add_tensorboard("e", logs, timeout_secs=0)
    assert unlimited is not None
    assert unlimited.details.max_runtime is None
    short = tbhub.add_tensorboard("e", logs / "a", timeout_secs=2)
    assert short is not None
    hub.wait_for(short.id, "TERMINATED")
    short.refresh()
    assert short.reason == "MAX_RUNTIME"


def test_the_time_of_a_board_is_what_was_said_last(hub: HubProcess, logs: Path) -> None:
    first = tbhub.add_tensorboard("e", logs, timeout_secs=3600)
    assert first is not None
    hub.wait_for(first.id, "RUNNING")
    again = tbhub.add_tensorboard("e", logs, timeout_secs=7200)
    assert again is not None
    assert (again.id, again.details.max_runtime) == (first.id, 7200)
    first.refresh()
    assert first.details.deadline is not None
    assert 7000 < first.details.deadline.timestamp() - time.time() <= 7200
    unlimited = tbhub.add_tensorboard("e", logs, timeout_secs=0, executor=Local)
    assert unlimited is not None
    assert (unlimited.id, unlimited.details.deadline) == (first.id, None)


def test_a_board_ends_some_time_after_its_experiment(hub: HubProcess, logs: Path) -> None:
    script = (
        "import sys, tbhub\n"
        "print(tbhub.add_tensorboard('e', sys.argv[1], termination_delay_secs=0.5).id)\n"
    )
    environment = clean_environment(TBHUB_URL=hub.url, TBHUB_TOKEN=hub.token)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, str(logs)],
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=environment,
    )
    over = hub.wait_for(done.stdout.strip(), "TERMINATED")
    assert over["reason"] == "MAX_RUNTIME"


def test_training_goes_on_without_a_hub(
    logs: Path, nobody: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TBHUB_URL", "http://127.0.0.1:9")
    with pytest.warns(TbhubWarning, match="experiment e goes on without a TensorBoard"):
        assert tbhub.add_tensorboard("e", logs) is None


def test_a_hub_with_another_launcher_does_not_take_it(hub: HubProcess, logs: Path) -> None:
    with pytest.warns(TbhubWarning, match="by the launcher local, not by slurm"):
        assert tbhub.add_tensorboard("e", logs, executor=Slurm()) is None
    with pytest.warns(TbhubWarning) as told:
        assert tbhub.add_tensorboard("e", logs, executor=Slurm(partition="cpu")) is None
    assert "not used for this board: partition of Slurm" in str(told[0].message)
    assert eventually(lambda: tbhub.tensorboards_of("e") == [])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"timeout_secs": -5}, "timeout_secs is -5"),
        ({"timeout_secs": float("nan")}, "timeout_secs is nan"),
        ({"timeout_secs": "60"}, "timeout_secs is '60'"),
        ({"timeout_secs": None}, "timeout_secs is None"),
        ({"timeout_secs": True}, "timeout_secs is True"),
        ({"timeout_secs": 10**400}, "timeout_secs is 10+; it is between 0 and 315360000 seconds"),
        ({"port": "6006"}, "port is '6006'"),
        ({"port": True}, "port is True"),
        ({"args": [1]}, "args is"),
        ({"args": 5}, "args is 5; it names flags"),
        ({"args": b"--reload"}, "args is b'--reload'; it names flags"),
        ({"args": "--reload"}, "args is"),
        ({"args": {"samples_per_plugin": "all"}}, "samples_per_plugin is 'all'"),
        ({"args": {"samples_per_plugin": {"scalars": None}}}, "is 'scalars=None'"),
        ({"log_dir": None, "args": {"logdir": 5}}, "log_dir is 5; it is a path"),
        ({"log_dir": ""}, "log_dir is empty"),
        ({"log_dir": []}, "log_dir is empty"),
        ({"log_dir": None}, "log_dir is empty"),
        ({"log_dir": 7}, "log_dir is 7; it is a path or URI of logs, or several"),
        ({"log_dir": b"/logs"}, "log_dir is b'/logs'; it is a path"),
        ({"log_dir": ["/logs", 7]}, "log_dir is 7; it is a path"),
        ({"log_dir": {"a": "/logs"}}, "log_dir is {'a': '/logs'}; it is a path"),
        ({"log_dir": "/logs\0a"}, r"log_dir cannot be read: '/logs.x00a': not a path"),
        ({"log_dir": "foo://bar/x"}, "log_dir cannot be read: foo://…: unknown scheme; known are"),
        ({"log_dir": "http://127.0.0.1/logs"}, "log_dir cannot be read: http://…: unknown scheme"),
        ({"log_dir": "gcs://bucket/logs"}, "log_dir cannot be read: gcs://…: unknown scheme"),
        ({"log_dir": "gs://"}, "log_dir cannot be read: gs://…: what follows must be bucket/path"),
        ({"log_dir": "s3://b/../x"}, "log_dir cannot be read: .*cannot have '..' between"),
        ({"log_dir": "s3://tests//sweep"}, "log_dir cannot be read: .*cannot have '' between"),
        ({"hub": "http://127.0.0.1:9"}, "hub is 'http://127.0.0.1:9'; it is a tbhub.Hub"),
        ({"termination_delay_secs": -1}, "termination_delay_secs is -1"),
        ({"termination_delay_secs": False}, "termination_delay_secs is False"),
        ({"port": 70000}, "port is 70000"),
        ({"executor": object()}, "executor is object; it is a launcher's name"),
        ({"experiment": object()}, "object is no experiment"),
        ({"experiment": None}, "None is no experiment"),
        ({"experiment": True}, "True is no experiment"),
        ({"experiment": ""}, "'' is no experiment"),
        ({"experiment": Unreadable()}, "experiment_id cannot be read: RuntimeError: not now"),
    ],
)
def test_a_bad_call_warns_and_the_script_goes_on(
    wrong: dict[str, object], said: str, tmp_path: Path, nobody: None
) -> None:
    with pytest.warns(TbhubWarning, match=f"goes on without a TensorBoard: .*{said}"):
        made = tbhub.add_tensorboard(**{"experiment": "e", "log_dir": tmp_path, **wrong})  # type: ignore[arg-type]
    assert made is None


def test_a_call_without_arguments_warns(nobody: None) -> None:
    with pytest.warns(TbhubWarning, match="the experiment goes on .*: None is no experiment"):
        assert tbhub.add_tensorboard() is None


def test_too_many_positional_arguments_are_a_warning(hub: HubProcess, logs: Path) -> None:
    said = "not used for this board: positional argument 6, positional argument 7, colour;"
    with pytest.warns(TbhubWarning, match=said):
        board = tbhub.add_tensorboard("e", logs, 6006, 3600, None, "gpu", object(), colour="red")
    assert board is not None
    assert board.details.max_runtime == 3600


def test_relative_paths_of_two_projects_are_two_boards(
    hub: HubProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add(project: str, log_dir: str) -> tbhub.TensorBoard:
        (tmp_path / project).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / project)
        board = tbhub.add_tensorboard("mnist", log_dir)
        assert board is not None
        return board

    first, second = add("a", "logs"), add("b", "logs")
    assert first.summary_uri == str(tmp_path / "a" / "logs")
    assert second.summary_uri == str(tmp_path / "b" / "logs")
    again = add("b", str(tmp_path / "a" / "logs/"))
    assert again.id == first.id


def test_boards_of_an_experiment_are_named_by_their_places(hub: HubProcess, logs: Path) -> None:
    def name(*places: object, **more: object) -> str:
        board = tbhub.add_tensorboard(7, list(places), **more)  # type: ignore[arg-type]
        assert board is not None
        return board.display_name

    assert name(logs) == "7 logs"
    assert name(logs / "a", "gs://bucket/") == "7 a, bucket"
    assert name(logs / "two\nlines") == "7 two?lines"
    assert name(logs / ("x" * 200)) == "7 " + "x" * 148
    long = tbhub.add_tensorboard("y" * 300, logs)
    assert long is not None
    assert long.display_name == "y" * 100 + " logs"
    assert name(logs / "b", args={"window_title": "mine"}) == "mine"
    assert name(logs / "c", args={"window_title": None}) == "7 c"


def test_the_limit_of_a_new_board_is_part_of_its_request(tmp_path: Path) -> None:
    new = AnsweringHub(tmp_path, name="e", state="QUEUED", max_runtime=100.1)
    assert tbhub.add_tensorboard("e", tmp_path, timeout_secs=100.1, hub=new) is not None
    assert new.methods == ["POST"]
    running = AnsweringHub(
        tmp_path, name="e", state="RUNNING", max_runtime=60, deadline=datetime.now(UTC)
    )
    assert tbhub.add_tensorboard("e", tmp_path, timeout_secs=60, hub=running) is not None
    assert running.methods == ["POST", "PATCH"]


def test_a_board_that_has_failed_is_named_with_its_reason(tmp_path: Path) -> None:
    failed = AnsweringHub(tmp_path, name="e logs", state="FAILED", message="no TensorBoard here")
    with pytest.warns(TbhubWarning, match=r"\(e logs\) is FAILED: no TensorBoard here"):
        assert tbhub.add_tensorboard("e", tmp_path, timeout_secs=0, hub=failed) is not None


def test_a_place_that_is_given_twice_is_named(hub: HubProcess, logs: Path) -> None:
    with pytest.warns(TbhubWarning, match="log_dir and logdir are given; log_dir is used"):
        board = tbhub.add_tensorboard("e", logs, logdir=logs / "a")
    assert board is not None
    assert board.summary_uri == str(logs)
    flags = {"logdir": str(logs / "a")}
    with pytest.warns(TbhubWarning, match="args logdir and log_dir are given; args logdir is used"):
        other = tbhub.add_tensorboard("e", logs, args=flags)
    assert other is not None
    assert other.summary_uri == str(logs / "a")


def test_flags_may_come_from_a_generator(hub: HubProcess, logs: Path) -> None:
    board = tbhub.add_tensorboard("e", logs, args=(each for each in ["--window_title=mine"]))
    assert board is not None
    assert board.display_name == "mine"


def test_a_group_by_that_cannot_be_understood_is_named(hub: HubProcess, logs: Path) -> None:
    with pytest.warns(TbhubWarning, match="without a TensorBoard: .*'all exept seed'"):
        assert tbhub.add_tensorboard("e", logs, args={"group_by": "all exept seed"}) is None


def test_a_warning_that_is_an_error_does_not_end_the_script(
    nobody: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tbhub.add_tensorboard("e", "logs", timeout_secs=-1) is None
    assert "goes on without a TensorBoard: timeout_secs is -1" in capsys.readouterr().err


def test_what_is_said_of_a_board_by_xmanagers_local(hub: HubProcess, logs: Path) -> None:
    options = xm_local.DockerOptions(
        ports={6006: 6006}, volumes={"/home/ada/.config/gcloud": "/root/.config/gcloud"}
    )
    executor = xm_local.Local(
        docker_options=options, requirements=xm_local.xm.JobRequirements(t4=1)
    )
    with pytest.warns(TbhubWarning) as told:
        board = tbhub.add_tensorboard("e", logs, 6006, timeout_secs=3600, executor=executor)
    (text,) = (str(each.message) for each in told)
    assert "docker_options.ports, docker_options.volumes, requirements of Local." in text
    assert board is not None
    board.wait(PATIENCE, data=True)


def test_executors_without_options_are_silent_also_in_the_third_place(
    hub: HubProcess, logs: Path
) -> None:
    by_place = tbhub.add_tensorboard("e", logs, xm_local.Local(), 3600)
    by_name = tbhub.add_tensorboard("e", logdir=logs, executor=xm_local.Vertex())
    assert by_place is not None
    assert by_name is not None
    assert by_name.id == by_place.id


def test_a_board_meant_for_kubernetes_is_served_where_the_hub_serves_boards(
    hub: HubProcess, logs: Path
) -> None:
    with pytest.warns(TbhubWarning, match="by its launcher local, not by kubernetes"):
        board = tbhub.add_tensorboard("e", logs, executor=xm_local.Kubernetes())
    assert board is not None
    board.wait(PATIENCE, data=True)


def test_a_board_is_over_what_a_capability_names(hub: HubProcess, logs: Path) -> None:
    capability = xm_local.TensorboardCapability("vision", str(logs))
    board = tbhub.add_tensorboard("e", executor=xm_local.Vertex(tensorboard=capability))
    assert board is not None
    assert (board.display_name, board.summary_uri) == ("vision", str(logs))


def test_flags_of_tensorboard(hub: HubProcess, logs: Path) -> None:
    flags = {"window_title": "mine", "samples_per_plugin": "scalars=500", "reload_interval": 5}
    with pytest.warns(TbhubWarning, match="not used for this board: reload_interval of args"):
        board = tbhub.add_tensorboard("e", logs, args=flags)
    assert board is not None
    assert (board.display_name, board.details.options.samples) == ("mine", 500)
    flags = {"window_title": "other", "samples_per_plugin": "scalars=500"}
    with pytest.warns(TbhubWarning, match="was there already: it is called mine, not other"):
        assert tbhub.add_tensorboard("e", logs, args=flags) is not None
    words = ["--samples_per_plugin=scalars=0,images=3", "--load_fast=false", "--bind_all"]
    with pytest.warns(TbhubWarning, match="samples_per_plugin images, load_fast, bind_all of args"):
        other = tbhub.add_tensorboard("e", logs, args=words)
    assert other is not None
    assert other.details.options.samples == 1_000_000


def test_an_unknown_argument_is_named(hub: HubProcess, logs: Path) -> None:
    with pytest.warns(TbhubWarning, match="colour; add_tensorboard has no such argument"):
        assert tbhub.add_tensorboard("e", logs, colour="red") is not None


def test_a_board_is_added_inside_a_loop(hub: HubProcess, logs: Path) -> None:
    async def launch() -> tbhub.TensorBoard | None:
        async with xm_local.create_experiment(experiment_title="cifar10") as experiment:
            return tbhub.add_tensorboard(experiment, logs, executor=xm_local.Local())

    board = asyncio.run(launch())
    assert board is not None
    assert [each.id for each in tbhub.tensorboards_of(7)] == [board.id]
