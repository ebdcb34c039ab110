"""Boards beside an experiment: found again, ended in time, and never in its way."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from xmanager import xm_local  # support/xmanager_double: classes of the same shape

import tbhub
from support.hub import PATIENCE, HubProcess, clean_environment, eventually
from tbhub import SummaryWriter, TbhubWarning
from tbhub.launchers import Local, Slurm


@dataclass
class Experiment:
    """As XManager's."""

    experiment_id: int = 7


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
        ({"port": "6006"}, "port is '6006'"),
        ({"args": [1]}, "args is"),
        ({"args": "--reload"}, "args is"),
        ({"args": {"samples_per_plugin": "all"}}, "samples_per_plugin is 'all'"),
        ({"log_dir": ""}, "log_dir is empty"),
        ({"log_dir": []}, "log_dir is empty"),
        ({"log_dir": None}, "log_dir is empty"),
        ({"log_dir": 7}, "not iterable"),
        ({"termination_delay_secs": -1}, "termination_delay_secs is -1"),
        ({"port": 70000}, "port is 70000"),
        ({"executor": object()}, "executor is object; it is a launcher's name"),
        ({"experiment": object()}, "object is no experiment"),
    ],
)
def test_a_bad_call_warns_and_the_script_goes_on(
    wrong: dict[str, object], said: str, tmp_path: Path, nobody: None
) -> None:
    with pytest.warns(TbhubWarning, match=f"goes on without a TensorBoard: .*{said}"):
        made = tbhub.add_tensorboard(**{"experiment": "e", "log_dir": tmp_path, **wrong})  # type: ignore[arg-type]
    assert made is None


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
