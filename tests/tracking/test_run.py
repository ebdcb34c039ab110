"""Runs that a program starts, against a real hub."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tbhub
from storage.conftest import Place
from support.hub import HubProcess, eventually
from support.oracle import read_scalars
from tbhub.client import logins
from tbhub.client.hub import Hub
from tbhub.errors import TbhubWarning
from tbhub.publisher.spool import all_spools
from tbhub.tracking import lifeline


def known(hub: HubProcess, run: int | None) -> dict[str, Any]:
    found: dict[str, Any] = hub.json("GET", f"/api/v1/runs/{run}")
    return found


def test_a_run_from_its_beginning_to_its_end(hub: HubProcess) -> None:
    with tbhub.Run("resnet", "first", hparams={"lr": 0.1, "layers": 3}, tags=["a"]) as run:
        assert (run.id, run.name, run.experiment) == (1, "first", "resnet")
        assert run.url == f"{hub.url}/runs/1"
        for epoch in range(3):
            run.log_metrics({"epoch": epoch, "loss": 1 / (epoch + 1)}, step_name="epoch")
        run.log_hparams({"depth": 5})
        run.writer("test").add_text("say", "hello")
        eventually(lambda: "depth" in known(hub, run.id)["hparams"])
        assert known(hub, run.id)["status"] == "running"
        logdir = run.logdir
    found = known(hub, run.id)
    assert (found["status"], found["experiment"], found["tags"]) == ("finished", "resnet", ["a"])
    assert found["hparams"] == {"lr": 0.1, "layers": 3, "depth": 5}
    assert found["command"].startswith(sys.executable)
    details = hub.json("GET", f"/api/v1/runs/{run.id}/details")["details"]
    assert any(each.startswith("tbhub==") for each in details["packages"])
    eventually(lambda: "train/loss" in known(hub, run.id)["metrics"])
    assert known(hub, run.id)["metrics"]["train/loss"]["last_step"] == 2
    assert all_spools() == []
    assert not logdir.exists()
    assert set(tbhub.load(run.location)) >= {"train", "test"}


def test_the_directory_may_be_given_as_xt_has_it(hub: HubProcess, tmp_path: Path) -> None:
    with tbhub.Run(tensorboard_path=tmp_path / "logs") as run:
        run.log_metrics({"loss": 1.0})
    assert run.logdir == tmp_path / "logs"
    assert "loss" in tbhub.load(tmp_path / "logs")["train"].scalars
    with pytest.raises(ValueError, match="give one of them"):
        tbhub.Run(tensorboard_path=tmp_path / "a", logdir=tmp_path / "b")


def test_stages(hub: HubProcess, tmp_path: Path) -> None:
    with tbhub.Run(logdir=tmp_path / "logs") as run:
        for step in range(2):
            run.log_metrics({"a": step})
            run.log_metrics({"a": step, "at": 10 + step}, stage="train", step_name="at")
            run.log_metrics({"b": step}, stage="test")
            run.log_metrics({"b": step}, stage="eval")
            run.log_metrics({"c": step, "d": 1}, stage="dev")
            run.log_batch_metrics({"e": step}, batch=100 + step)
        with pytest.raises(ValueError, match="'epoch' is not among"):
            run.log_metrics({"a": 1}, step_name="epoch")
        with pytest.raises(ValueError, match="a stage is"):
            run.log_metrics({"a": 1}, stage="../x")
    steps = {
        f"{stage}/{tag}": [step for step, _ in points]
        for stage in ("train", "test", "dev", "training")
        for tag, points in read_scalars(str(tmp_path / "logs" / stage)).items()
    }
    assert steps == {
        "train/a": [0, 10, 11, 11],
        "test/b": [0, 1, 2, 3],
        "dev/c": [0, 1],
        "dev/d": [0, 1],
        "training/e": [100, 101],
    }


def test_how_a_run_ends(hub: HubProcess) -> None:
    with pytest.raises(ZeroDivisionError), tbhub.Run(hparams={"a": 1}) as failed:
        raise ZeroDivisionError
    assert known(hub, failed.id)["status"] == "failed"
    with pytest.raises(KeyboardInterrupt), tbhub.Run() as killed:
        raise KeyboardInterrupt
    assert known(hub, killed.id)["status"] == "killed"
    run = tbhub.Run()
    with pytest.raises(ValueError, match="finished, failed or killed"):
        run.finish("done")
    run.finish("failed", exit_code=3)
    run.finish()
    found = known(hub, run.id)
    assert (found["status"], found["exit_code"]) == ("failed", 3)


def test_without_a_hub(tmp_path: Path) -> None:
    with pytest.warns(tbhub.TbhubWarning, match="without a hub: no hub is known"):
        run = tbhub.Run("x", hparams={"lr": 1})
    run.log_metrics({"loss": 1.0})
    with pytest.warns(tbhub.TbhubWarning, match="`tbhub sync` does what is left"):
        run.finish()
    assert run.id is None
    assert set(tbhub.load(run.logdir)["train"].scalars) == {"loss"}
    (spool,) = all_spools()
    owed = json.loads(spool.owed.read_bytes())
    assert owed["new"]["hparams"] == {"lr": 1}
    assert owed["ended"]["status"] == "finished"


def test_offline_says_nothing_until_its_end(hub: HubProcess) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = tbhub.Run(offline=True)
        run.log_metrics({"loss": 1.0})
    with pytest.warns(tbhub.TbhubWarning, match="tbhub sync"):
        run.finish()
    assert hub.json("GET", "/api/v1/runs")["runs"] == []


def test_a_hub_that_comes_while_a_run_goes_on(
    hub: HubProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifeline, "_BEAT", 0.2)
    hub.stop()
    with pytest.warns(tbhub.TbhubWarning, match="without a hub: no hub answers"):
        run = tbhub.Run("x")
    run.log_metrics({"loss": 1.0})
    run.log_hparams({"lr": 1})
    hub.restart()
    eventually(lambda: run.id)
    run.log_metrics({"loss": 2.0})
    run.finish()
    found = known(hub, run.id)
    assert (found["experiment"], found["status"], found["hparams"]) == ("x", "finished", {"lr": 1})
    assert len(tbhub.load(run.location)["train"].scalars["loss"].steps) == 2
    assert all_spools() == []


def test_whoever_is_fenced_trains_on(hub: HubProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifeline, "_BEAT", 0.2)
    run = tbhub.Run(name="mine")
    assert run._lifeline is not None
    assert run._lifeline._thread is not None
    hub.json("POST", "/api/v1/runs", json={"resume": "mine", "force": True})
    with pytest.warns(tbhub.TbhubWarning, match="stays in"):
        run._lifeline._thread.join(60)
    run.log_metrics({"loss": 1.0})
    run.finish("failed")
    assert known(hub, run.id)["status"] == "running"
    assert "loss" in tbhub.load(run.logdir)["train"].scalars


def test_whoever_is_fenced_publishes_no_more(
    hub: HubProcess,
    s3: Callable[..., Place],
    environment: Callable[[Place], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lifeline, "_BEAT", 0.2)
    place = s3()
    run = tbhub.Run(name="mine", storage=environment(place))
    assert run._lifeline is not None
    assert run._lifeline._thread is not None
    hub.json("POST", "/api/v1/runs", json={"resume": "mine", "force": True})
    with pytest.warns(tbhub.TbhubWarning, match="another process has gone on with the run"):
        run._lifeline._thread.join(60)
    run.log_metrics({"loss": 1.0})
    run.finish()
    assert [spool.backlog().files > 0 for spool in all_spools()] == [True]
    store, prefix = place.open()
    assert not any("tfevents" in entry.path for entry in store.list(prefix))
    store.close()


def finished(run: tbhub.Run) -> dict[str, tbhub.RunData]:
    """Ends a run that no hub knows; what it has logged."""
    with pytest.warns(tbhub.TbhubWarning, match="tbhub sync"):
        run.finish()
    return tbhub.load(run.logdir)


def test_counting_continues_after_the_last_step_of_a_stage(nobody: None) -> None:
    run = tbhub.Run(offline=True)
    for epoch in (3, 7):
        run.log_metrics({"epoch": epoch, "loss": 1.0}, step_name="epoch")
    run.log_metrics({"loss": 0.5})
    run.log_metrics({"loss": 0.4})
    run.log_batch_metrics({"loss": 0.3}, 20, "train")
    run.log_metrics({"loss": 0.2})
    run.log_metrics({"epoch": 21.0, "loss": 9.0}, step_name="epoch")
    run.log_metrics({"loss": 0.1})
    run.log_metrics({"loss": 5.0}, stage="test")
    run.writer("dev").add_scalar("loss", 1.0, 4)
    run.log_metrics({"loss": 1.0}, stage="dev")
    runs = finished(run)
    assert runs["train"].scalars["loss"].steps.tolist() == [3, 7, 8, 9, 20, 21, 21, 22]
    assert runs["test"].scalars["loss"].steps.tolist() == [0]
    assert runs["dev"].scalars["loss"].steps.tolist() == [4, 5]


def test_counting_continues_after_the_steps_that_an_earlier_attempt_was_given(
    hub: HubProcess,
) -> None:
    with tbhub.Run() as run:
        run.log_metrics({"epoch": 41, "loss": 1.0}, step_name="epoch")
    with tbhub.Run(resume=1) as run:
        run.log_metrics({"loss": 0.5})
    assert tbhub.load(run.location)["train"].scalars["loss"].steps.tolist() == [41, 42]


def test_a_step_counts_only_if_something_is_logged(nobody: None) -> None:
    run = tbhub.Run(offline=True)
    for _ in range(2):
        run.log_metrics({})
        with pytest.raises(TypeError):
            run.log_metrics({"loss": object()})
    run.log_metrics({"loss": 1.0})
    run.log_metrics({"epoch": 50}, step_name="epoch")
    run.log_batch_metrics({}, 60, "train")
    with pytest.raises(TypeError):
        run.log_batch_metrics({"loss": object()}, 70, "train")
    run.log_metrics({"loss": 2.0})
    with pytest.raises(TypeError):
        run.log_metrics({"loss": 3.0, "bad": object()})
    run.log_metrics({"loss": 4.0})
    assert finished(run)["train"].scalars["loss"].steps.tolist() == [0, 1, 2, 3]


def test_every_run_that_diverges_is_warned_of_once(nobody: None) -> None:
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run = tbhub.Run(offline=True)
            for step in range(3):
                run.log_metrics({"step": step, "a": float("nan"), "b": float("nan")}, "step")
                run.log_metrics({"a": float("inf")}, stage="test")
        (text,) = (str(each.message) for each in caught)
        assert "add_scalar('a'): got nan at step 0" in text
        finished(run)


def test_counting_goes_on_where_it_was(hub: HubProcess) -> None:
    for attempt in (1, 2):  # at once: the hub has not read yet what the first has logged
        with tbhub.Run(resume=1 if attempt > 1 else None) as run:
            for _ in range(3):
                run.log_metrics({"loss": attempt})
    points = tbhub.load(run.location)["train"].scalars["loss"]
    assert points.steps.tolist() == list(range(6))


def test_several_runs_of_one_step_of_slurm(
    hub: HubProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("JOB_ID", "77"), ("STEP_ID", "0"), ("PROCID", "0")):
        monkeypatch.setenv(f"SLURM_{name}", value)
    for lr in (1, 2):
        with tbhub.Run("sweep", hparams={"lr": lr}) as run:
            assert run.id == lr
    assert [known(hub, number)["hparams"] for number in (1, 2)] == [{"lr": 1}, {"lr": 2}]


def test_a_run_that_has_ended_takes_nothing(hub: HubProcess) -> None:
    run = tbhub.Run(name="over")
    run.finish()
    for log in (
        lambda: run.log_metrics({"loss": 1.0}),
        lambda: run.log_hparams({"lr": 1}),
        lambda: run.writer("test"),
    ):
        with pytest.raises(RuntimeError, match="run over has ended"):
            log()


@pytest.mark.parametrize(
    ("code", "status", "exit_code"),
    [
        ("run = tbhub.Run()", "finished", None),
        ("run = tbhub.Run(); 1 / 0", "failed", 1),
        ("sys.last_value = ValueError(); run = tbhub.Run()", "finished", None),
        ("with tbhub.Run(): sys.exit(4)", "failed", 4),
    ],
)
def test_how_a_program_ends(hub: HubProcess, code: str, status: str, exit_code: int | None) -> None:
    subprocess.run([sys.executable, "-c", f"import sys, tbhub\n{code}"], timeout=60)
    assert (known(hub, 1)["status"], known(hub, 1)["exit_code"]) == (status, exit_code)


@pytest.mark.parametrize("options", [["-i"], ["-c", "import code; code.interact()"]], ids=str)
def test_an_error_at_the_prompt_is_not_the_end_of_the_program(
    hub: HubProcess, options: list[str]
) -> None:
    lines = "import tbhub\nrun = tbhub.Run()\ntypo\nrun.log_metrics({'x': 1})\nexit()\n"
    done = subprocess.run(
        [sys.executable, *options], input=lines, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0
    assert "NameError" in done.stderr
    assert (known(hub, 1)["status"], known(hub, 1)["exit_code"]) == ("finished", None)


def test_a_script_that_fails_after_a_prompt_has_failed(hub: HubProcess, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import code, tbhub\nrun = tbhub.Run()\ncode.interact()\n1 / 0\n")
    done = subprocess.run([sys.executable, script], input="typo\n", text=True, timeout=60)
    assert done.returncode == 1
    assert (known(hub, 1)["status"], known(hub, 1)["exit_code"]) == ("failed", 1)


def test_sigterm_as_an_interrupt_ends_a_run_killed(hub: HubProcess) -> None:
    code = """
import os, signal, tbhub
signal.signal(signal.SIGTERM, signal.default_int_handler)
with tbhub.Run() as run:
    os.kill(os.getpid(), signal.SIGTERM)
    signal.pause()
"""
    subprocess.run([sys.executable, "-c", code], timeout=60)
    assert known(hub, 1)["status"] == "killed"


def test_no_signal_handler_is_installed(nobody: None) -> None:
    before = [signal.getsignal(number) for number in signal.valid_signals()]
    run = tbhub.Run(offline=True)
    assert [signal.getsignal(number) for number in signal.valid_signals()] == before
    finished(run)


@pytest.mark.parametrize(
    ("tags", "expected"), [("baseline", ["baseline"]), (None, []), (("b", "a"), ["a", "b"])]
)
def test_tags_may_be_a_text_or_none(
    hub: HubProcess, tags: str | tuple[str, ...] | None, expected: list[str]
) -> None:
    with tbhub.Run(tags=tags) as run:
        pass
    assert sorted(known(hub, run.id)["tags"]) == expected


def test_a_spool_that_cannot_be_written_to(
    hub: HubProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TBHUB_SPOOL_DIR", str(tmp_path / "file" / "spool"))
    with pytest.raises(OSError, match="set TBHUB_SPOOL_DIR"):
        tbhub.Run()
    assert hub.json("GET", "/api/v1/runs")["runs"] == []


def test_what_a_resumed_run_does_not_take_is_told(hub: HubProcess) -> None:
    tbhub.Run("e", "mine").finish()
    with pytest.warns(tbhub.TbhubWarning, match="the name other and the storage /x are not used"):
        run = tbhub.Run("e", "other", storage="/x", resume="mine")
    run.finish()
    assert run.name == "mine"


def test_an_agent_that_is_killed_is_replaced(
    hub: HubProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifeline, "_BEAT", 0.2)
    run = tbhub.Run()
    assert run._lifeline is not None
    assert run._lifeline._publishing is not None
    agent = run._lifeline._publishing._agent._process
    agent.kill()
    agent.wait()
    run.log_metrics({"loss": 1.0})
    run.writer().flush()
    eventually(lambda: "train/loss" in known(hub, run.id)["metrics"])
    run.finish()


def test_the_board_of_a_run_and_of_an_experiment(hub: HubProcess) -> None:
    with tbhub.Run("some thing") as run:
        run.log_metrics({"loss": 1.0})
    with tbhub.Hub() as asked:
        board = tbhub.tensorboard(run, hub=asked)
        assert tbhub.tensorboard(run, hub=asked).id == board.id
        whole = tbhub.tensorboard("some thing", hub=asked)
        assert tbhub.tensorboard("some thing", hub=asked).id == whole.id != board.id


def test_older_files_of_a_given_directory_are_not_absorbed(hub: HubProcess, tmp_path: Path) -> None:
    place = tmp_path / "mine"
    for name in ("train", "other"):
        with tbhub.SummaryWriter(place / name) as writer:
            writer.add_scalar("old", 1.0, 41)
    with tbhub.Run(logdir=place, name="a") as run:
        run.log_metrics({"loss": 1.0})
    stored = hub.home / "files" / "1"
    assert {str(file.parent.relative_to(stored)) for file in stored.rglob("*tfevents*")} == {
        "train"
    }
    eventually(lambda: set(known(hub, 1)["metrics"]) == {"train/loss"})
    assert known(hub, 1)["metrics"]["train/loss"]["last_step"] == 0
    with tbhub.Run(logdir=place, resume="a") as run:
        run.log_metrics({"loss": 2.0})
    eventually(lambda: known(hub, 1)["metrics"]["train/loss"]["last_step"] == 1)
    assert set(known(hub, 1)["metrics"]) == {"train/loss"}
    assert len(list(place.rglob("*tfevents*"))) == 4  # nothing of the user's was removed


def test_a_run_goes_on_after_the_user_has_logged_in_again(
    hub: HubProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifeline, "_BEAT", 0.1)
    for name in ("TBHUB_URL", "TBHUB_TOKEN"):
        monkeypatch.delenv(name)
    revoked = hub.create_user("ada")
    logins.remember(logins.StoredLogin(hub.url, revoked, "ada"))
    run = tbhub.Run(name="mine")
    mine = {"user": "ada", "name": "again", "scope": "write"}
    fresh = hub.json("POST", "/api/v1/tokens", json=mine)["token"]
    (old,) = (each for each in hub.json("GET", "/api/v1/tokens", fresh) if each["name"] == "test")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        hub.json("DELETE", f"/api/v1/tokens/{old['id']}", fresh)
        eventually(lambda: run._lifeline is not None and run._lifeline.trouble)
    assert [each.category for each in warned] == [TbhubWarning]
    assert f"log in again with `tbhub login {hub.url}`" in str(warned[0].message)
    run.log_metrics({"loss": 1.0})
    looked: list[bool] = []
    logins.forget(hub.url)  # as `tbhub logout` does: the run looks for a login in vain
    monkeypatch.setattr(lifeline, "Hub", lambda **more: looked.append(True) or Hub(**more))
    eventually(lambda: len(looked) > 1)
    logins.remember(logins.StoredLogin(hub.url, fresh, "ada"))
    eventually(lambda: run._lifeline is not None and not run._lifeline.trouble)
    run.finish()
    found = hub.json("GET", "/api/v1/runs/1")
    assert (found["status"], found["owner"]) == ("finished", "ada")
    assert tbhub.load(hub.home / "files/1")["train"].scalars["loss"].steps.tolist() == [0]
