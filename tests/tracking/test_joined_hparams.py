"""Hyperparameters that a program inside of `tbhub run` logs, while the hub is away or not."""

from __future__ import annotations

import subprocess

from support.hub import HubProcess, eventually
from tracking.test_command import known, python, run, start

CODE = """
import tbhub
with tbhub.Run(hparams={"lr": 0.1}) as run:
    run.log_hparams({"layers": 3})
    run.log_hparams({"opt": "adam", "lr": 0.2})
    run.log_metrics({"loss": 1.0})
"""
ALL = {"lr": 0.2, "layers": 3, "opt": "adam"}


def test_an_offline_run_keeps_all_of_them(hub: HubProcess) -> None:
    assert run("run", "--offline", *python(CODE)).returncode == 0
    synced = run("sync")
    assert synced.returncode == 0, synced.stdout
    assert known(hub)["hparams"] == ALL


def test_a_hub_that_comes_back_is_told_of_them(hub: HubProcess) -> None:
    process = start(
        "run", *python("input()\n" + CODE + "\nprint('logged'); input()"), stdin=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    eventually(lambda: hub.json("GET", "/api/v1/runs")["total"] == 1)
    hub.kill()
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "logged\n"
    hub.restart()
    _, said = process.communicate("\n", timeout=90)
    assert (process.returncode, "not been told" in said) == (0, False), said
    assert known(hub)["hparams"] == ALL
