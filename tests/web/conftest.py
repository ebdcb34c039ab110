"""A real hub with real runs, and Chromium to look at it as people do."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.browser import Page, browser, page
from support.hub import HubProcess, clean_environment, eventually
from support.pages import RUNS, visit
from support.seaweedfs import seaweedfs
from tbhub import SummaryWriter

__all__ = ["browser", "page", "seaweedfs", "visit"]

SCRIPT = """
import time
from tbhub import SummaryWriter
SLEEP = 600
writer = SummaryWriter()
for step in range(2000):
    writer.add_scalar("train/loss", 1 / (step + 1), step)
    if step % 100 == 0:
        writer.flush()
        print(f"\\x1b[32mepoch {step // 100}\\x1b[0m ready", flush=True)
print("waiting", flush=True)
time.sleep(SLEEP)
"""


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    """A hub that knows many runs, all with hyperparameters and metrics."""
    where = tmp_path_factory.mktemp("web")
    for number in range(RUNS):
        rate = (0.0001, 0.001, 0.01)[number % 3]
        hparams = {"lr": rate, "optimizer": ("adamw", "sgd")[number % 2], "seed": number % 5}
        name = f"{('resnet', 'gpt', 'ppo')[number % 3]}/trial{number:03}"
        with SummaryWriter(where / "runs" / name) as writer:
            writer.add_hparams(hparams, {"score": number / RUNS}, run_name=".")
            for step in range(0, 40, 2):
                writer.add_scalar("val/loss", math.exp(-step * rate * 30) + number / RUNS, step)
    with HubProcess(where / "home", logdirs=where / "runs", log_level="warning") as hub:
        hub.wait_for_runs(RUNS)
        every = "/api/v1/runs?select=where+metrics.score>=0&limit=1"
        eventually(lambda: hub.json("GET", every)["total"] == RUNS, "the runs were not read")
        yield hub


@pytest.fixture(scope="session")
def live_run(hub: HubProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The number of a run that a command has under ``tbhub run``, as long as the tests last."""
    where = tmp_path_factory.mktemp("live")
    _commit(where, SCRIPT.replace("SLEEP = 600", "SLEEP = 60"))
    (where / "train.py").write_text(SCRIPT)
    command = [str(Path(sys.executable).parent / "tbhub"), "run", "--name", "live", "--tag", "demo"]
    command.append("--system-metrics")
    more = ["--hparam", "depth=12", "--", sys.executable, "train.py"]
    known = {"TBHUB_URL": hub.url, "TBHUB_TOKEN": hub.token, "TBHUB_HOME": str(where / "home")}
    process = subprocess.Popen(
        [*command, *more],
        cwd=where,
        env=clean_environment(**known),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        number = eventually(lambda: _number_of(hub, "live"), "the run did not start")
        log = f"/api/v1/runs/{number}/log"
        eventually(lambda: "waiting" in hub.ask("GET", log).text, "it did not print")
        yield number
    finally:
        process.terminate()
        process.wait(60)


def _commit(where: Path, script: str) -> None:
    """A repository whose last commit has another script than the one that will run."""
    (where / "train.py").write_text(script)
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for words in (["init", "-q"], ["add", "train.py"], [*who, "commit", "-qm", "Train"]):
        subprocess.run(["git", *words], cwd=where, check=True)


def _number_of(hub: HubProcess, name: str) -> int | None:
    answer = hub.ask("GET", f"/api/v1/runs?select=where+name={name}").json()
    return answer["runs"][0]["id"] if answer.get("runs") else None


@pytest.fixture
def go(hub: HubProcess, page: Page) -> Callable[..., Any]:
    """Opens an address of the page of the hub with many runs, logged in."""

    def open_page(path: str = "/") -> Any:
        page.page.goto(f"{hub.url}{path}{'&' if '?' in path else '?'}token={hub.token}")
        return page.page

    return open_page
