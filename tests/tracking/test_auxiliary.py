"""Boards beside an experiment: found again, ended in time, and never in its way."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

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
    assert "the options of Slurm are set at the hub" in str(told[0].message)
    assert eventually(lambda: tbhub.tensorboards_of("e") == [])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"timeout_secs": -5}, "timeout_secs is -5"),
        ({"timeout_secs": float("nan")}, "timeout_secs is nan"),
        ({"timeout_secs": "60"}, "timeout_secs is '60'"),
        ({"timeout_secs": None}, "timeout_secs is None"),
        ({"port": "6006"}, "port is '6006'"),
        ({"args": ["--reload"]}, "args is"),
        ({"log_dir": ""}, "log_dir is empty"),
        ({"log_dir": []}, "log_dir is empty"),
        ({"termination_delay_secs": -1}, "termination_delay_secs is -1"),
        ({"port": 70000}, "port is 70000"),
        ({"args": {"reload": 1}}, "args has reload; a board has follow"),
        ({"experiment": object()}, "object is no experiment"),
    ],
)
def test_what_cannot_be_is_refused_at_once(
    wrong: dict[str, object], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=said):
        tbhub.add_tensorboard(**{"experiment": "e", "log_dir": tmp_path, **wrong})  # type: ignore[arg-type]
