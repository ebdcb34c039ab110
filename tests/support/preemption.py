"""Trainings that are preempted at a random moment and resumed, against a real hub.

A training logs one point per step, and notes in a journal which steps it has flushed, and when it
has a checkpoint. It is killed in one of four ways, resumed by the same command, and runs to its
end. Then every step that any attempt has flushed has to be there, exactly once.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import tbhub
from support.hub import HubProcess, clean_environment, eventually
from tbhub.events.names import is_event_file

KINDS = {
    "training": "the training is killed",
    "supervisor": "`tbhub run` and the training are killed, the agent lives on",
    "all": "`tbhub run`, the training and the agent are killed",
    "machine": "all three are killed; resumed on another machine, then `tbhub sync` on the first",
}
COMMAND = [sys.executable, "-c", "from tbhub.cli.main import main; main()"]
MAX_SECONDS = 2.5  # from the first flush to the kill
FURTHER = 40  # steps that the last attempt goes beyond those that were flushed
TRAINING = """
import json, os, sys, time
from pathlib import Path
from tbhub import SummaryWriter

directory, last = Path(os.environ["TBHUB_LOGDIR"]), int(sys.argv[2])
journal = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(journal, b"pid %d\\n" % os.getpid())
found = [int(path.stem.partition("-")[2]) for path in directory.glob("checkpoint-*.json")]
step = max(found, default=0)
os.write(journal, b"from %d\\n" % step)
with SummaryWriter(flush_secs=3600) as writer:
    while step < last:
        writer.add_scalar("loss", float(step), step)
        step += 1
        if step % 7 == 0 or step % 50 == 0 or step == last:  # flushed before it is in a checkpoint
            writer.flush()
            os.write(journal, b"flushed %d\\n" % step)
        if step % 50 == 0:
            whole = directory / f"checkpoint-{step}.json"
            unfinished = directory / f"{whole.name}.tmp"
            unfinished.write_text(json.dumps({"step": step}))
            unfinished.replace(whole)
        time.sleep(0.004)
"""


@dataclass(frozen=True)
class Outcome:
    """What became of one preempted training.

    Attributes:
        flushed: Steps that were flushed before the kill.
        resumed_at: The step that the next attempt began at.
        lost: Steps that were flushed and are not there.
        twice: Steps that are there more than once.
        seconds: How long it took from the kill until the next attempt logged.
    """

    flushed: int
    resumed_at: int
    lost: int
    twice: int
    seconds: float


class Preempted:
    """One training in a directory of its own.

    Args:
        name: The name of its run.
        place: Where its homes and its journal are.
    """

    def __init__(self, hub: HubProcess, place: Path, name: str) -> None:
        place.mkdir(parents=True)
        self._hub = hub
        self._place = place
        self._name = name
        self._journal = place / "journal"

    def run(self, kind: str, choose: random.Random) -> Outcome:
        """Start, kill in some way at a random moment, resume, and look what there is."""
        process = self._start("first", 10**9)
        eventually(lambda: self._read("flushed"), self._said("first"))
        time.sleep(choose.uniform(0, MAX_SECONDS))
        self._kill(kind, process)
        killed_at = time.monotonic()
        flushed = max(self._read("flushed"))
        home = "second" if kind == "machine" else "first"
        process = self._start(home, flushed + FURTHER)
        eventually(lambda: len(self._read("from")) == 2, self._said(home))
        seconds = time.monotonic() - killed_at
        assert process.wait(120) == 0, self._said(home)
        if kind == "machine":
            eventually(lambda: self._command("first", "sync").wait(120) == 0, self._said("first"))
        for each in ("first", "second"):
            spool = self._place / each / "spool"
            eventually(lambda spool=spool: not list(spool.glob("*")), self._said(each))
        return self._outcome(flushed, seconds)

    def _outcome(self, flushed: int, seconds: float) -> Outcome:
        runs = self._hub.json("GET", "/api/v1/runs?limit=10000")["runs"]
        (run,) = (each for each in runs if each["name"] == self._name)
        directory = Path(self._hub.home / "files" / str(run["id"]))
        steps = tbhub.load(directory)["."].scalars["loss"].steps.tolist()
        first, *_ = sorted(path for path in directory.iterdir() if is_event_file(path.name))
        logged = tbhub.load(first)["."].scalars["loss"].steps.tolist()
        wanted = set(range(flushed + FURTHER))
        lost = (wanted - set(steps)) | (set(range(flushed)) - set(logged))
        twice = len(steps) - len(set(steps)) + len(logged) - len(set(logged))
        assert steps == sorted(steps) or twice, "out of order"
        assert run["attempt"] == 2
        return Outcome(flushed, self._read("from")[-1], len(lost), twice, seconds)

    def _start(self, home: str, last: int) -> subprocess.Popen[bytes]:
        code = [sys.executable, "-c", TRAINING, str(self._journal), str(last)]
        return self._command(home, "run", "--resume-or-start", "--name", self._name, "--", *code)

    def _command(self, home: str, *arguments: str) -> subprocess.Popen[bytes]:
        place = self._place / home
        place.mkdir(exist_ok=True)
        environment = clean_environment(
            HOME=str(place),
            TBHUB_HOME=str(place / "home"),
            TBHUB_SPOOL_DIR=str(place / "spool"),
            XDG_CONFIG_HOME=str(place / "config"),
            TBHUB_URL=self._hub.url,
            TBHUB_TOKEN=self._hub.token,
        )
        with (place / "said").open("ab") as said:
            return subprocess.Popen(
                [*COMMAND, *arguments], cwd=place, env=environment, stdout=said, stderr=said
            )

    def _said(self, home: str) -> str:
        path = self._place / home / "said"
        return path.read_text(errors="replace")[-3000:] if path.exists() else ""

    def _read(self, word: str) -> list[int]:
        lines = self._journal.read_text().splitlines() if self._journal.exists() else []
        return [int(line.split()[1]) for line in lines if line.startswith(f"{word} ")]

    def _kill(self, kind: str, process: subprocess.Popen[bytes]) -> None:
        training = self._read("pid")[-1]
        agents = [each for each in children(process.pid) if each != training]
        if kind == "training":
            os.kill(training, signal.SIGKILL)
        else:
            chosen = [process.pid, training, *(agents if kind != "supervisor" else ())]
            for each in chosen:
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)
        process.wait(120)


def children(process: int) -> Iterator[int]:
    """All processes that a process has started."""
    with suppress(OSError):
        for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
            yield int(child)
            yield from children(int(child))
