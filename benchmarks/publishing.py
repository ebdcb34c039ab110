"""What publishing costs: bytes that go to a bucket, and time that training loses.

The bucket is a real one (SeaweedFS) on this machine. Bytes are those that come over the wire, as a
proxy in front of it counts them, of both sides.

Time is lost to whatever takes a training's processors. The store and the hub would be elsewhere, so
they are kept on the last processor here, and the training on the first. What belongs to a run,
`tbhub run` and its agent, is where the system puts it; or, to show the worst, on the processor of
the training: a machine that has nothing to spare.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.boards import BIN, children
from benchmarks.hub import hub
from benchmarks.measure import SCRATCH, Row, changed_environment, in_process
from benchmarks.s3_server import BUCKET, S3Server, s3_server

BYTES = 100_000_000
SECONDS = 20  # each with a flush
POINTS_PER_SECOND = 10_000
_SCALARS_PER_SECOND = 1000  # beside what fills the second up
_TEXT = "x" * 10_000
_PAIRS_PER_REPEAT = 3
_WARM, _MEASURED = 2.0, 5.0  # seconds of a training
_PATIENCE = 120.0
_PROCESSORS = sorted(os.sched_getaffinity(0))
_FIRST = str(_PROCESSORS[0])


def log(place: str, kind: str) -> dict[str, float]:
    """A run of so many bytes, evenly over the seconds, with a flush at the end of each."""
    writer: Any
    if kind == "tbhub":
        from tbhub import SummaryWriter

        writer = SummaryWriter(place)
    else:
        import tensorboardX

        writer = tensorboardX.SummaryWriter(place, flush_secs=1000)
    begun = time.monotonic()
    texts = (BYTES // SECONDS - 45 * _SCALARS_PER_SECOND) // len(_TEXT)
    for second in range(SECONDS):
        for step in range(second * _SCALARS_PER_SECOND, (second + 1) * _SCALARS_PER_SECOND):
            writer.add_scalar("train/loss", 0.5, step)
        for number in range(texts):
            writer.add_text("say", _TEXT, second * texts + number)
        writer.flush()
        time.sleep(max(0.0, begun + second + 1 - time.monotonic()))
    writer.close()
    return {"seconds": time.monotonic() - begun}


def sent(server: S3Server, kind: str) -> dict[str, float]:
    """Bytes over the wire, and bytes that are there in the end: those that were logged."""
    from tbhub.storage.open import open_store

    before = server.proxy.received
    uri = f"s3://{BUCKET}/{kind}{time.time_ns()}"
    found = in_process(log, uri, kind)
    after = server.proxy.received
    store, prefix = open_store(uri)
    logged = sum(entry.size for entry in store.list(prefix))
    store.close()
    return {"sent": after - before, "logged": logged, "seconds": found["seconds"]}


# ---------------------------------------------------------------------- time


def train(directory: str) -> dict[str, float]:
    """Work done beside 10,000 scalars a second: by the clock, and by its own processor time.

    Inside `tbhub run` also what that and its agent take of a processor.
    """
    from tbhub import SummaryWriter

    writer = SummaryWriter(directory)
    others = [os.getppid(), *_agents(os.getppid())] if "TBHUB_RUN_ID" in os.environ else []
    work = step = 0
    begun = time.perf_counter()
    used = taken = 0.0
    is_warm = False
    while (now := time.perf_counter() - begun) < _WARM + _MEASURED:
        if not is_warm and now >= _WARM:
            is_warm, work, used, taken = True, 0, time.process_time(), _cpu(others)
        sum(range(2000))
        work += 1
        while step < now * POINTS_PER_SECOND:
            writer.add_scalar("train/loss", 0.5, step)
            step += 1
    used, taken = time.process_time() - used, _cpu(others) - taken
    writer.close()
    return {"clock": work / _MEASURED, "own": work / used, "others": taken / _MEASURED}


def _agents(supervisor: int) -> list[int]:
    """The processes beside us that `tbhub run` has started."""
    return [each for each in children(supervisor) if each != os.getpid()]


def _cpu(processes: list[int]) -> float:
    ticks = 0
    for each in processes:
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


_TRAIN = """
import json, sys
from benchmarks.publishing import train
print(json.dumps(train(sys.argv[1])))
"""


def _trained(is_run: bool, place: str, others_on: str) -> dict[str, float]:
    """A training by itself in a directory, or as a run that is published."""
    command = ["taskset", "-c", _FIRST, sys.executable, "-W", "ignore", "-c", _TRAIN]
    with tempfile.TemporaryDirectory(dir=SCRATCH) as scratch:
        if is_run:
            tbhub = ["taskset", "-c", others_on, str(BIN / "tbhub"), "run", "--storage", place]
            command = [*tbhub, "--", *command, "{logdir}"]
        else:
            command = [*command, scratch]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=Path(__file__).parent.parent,
            env={**os.environ, "TBHUB_SPOOL_DIR": f"{scratch}/spool"},
            timeout=_PATIENCE,
        )
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


@contextmanager
def _elsewhere(server: S3Server) -> Iterator[None]:
    """A hub, and the store, on the last processor; runs find both."""
    with tempfile.TemporaryDirectory(dir=SCRATCH) as home, hub(Path(home)) as running:
        for process in [server.process.pid, *running.processes, os.getpid()]:  # the proxy is here
            _put(process, {_PROCESSORS[-1]})
        try:
            with changed_environment(TBHUB_URL=running.url, TBHUB_TOKEN=running.token):
                yield
        finally:
            _put(os.getpid(), set(_PROCESSORS))


def _put(process: int, on: set[int]) -> None:
    for thread in Path(f"/proc/{process}/task").iterdir():
        os.sched_setaffinity(int(thread.name), on)


def slowed(pairs: int, others_on: str, say: Callable[[str], None]) -> dict[str, float]:
    """The share of its work that a training loses: the best of each side, taken in turns.

    Whatever else happens on a machine only slows; the agent works every second of every training.
    """
    found: dict[bool, list[dict[str, float]]] = {True: [], False: []}
    for turn in range(pairs):
        say(f"publishing: training {turn + 1}/{pairs}")
        place = f"s3://{BUCKET}/trained{time.time_ns()}"
        for is_run in (turn % 2 == 0, turn % 2 == 1):  # neither always comes first
            found[is_run].append(_trained(is_run, place, others_on))
    best = {
        is_run: {key: max(each[key] for each in some) for key in ("clock", "own")}
        for is_run, some in found.items()
    }
    lost = {key: 1 - best[True][key] / best[False][key] for key in ("clock", "own")}
    each = zip(found[True], found[False], strict=True)
    ratios = [1 - ours["clock"] / alone["clock"] for ours, alone in each]
    others = statistics.median(one["others"] for one in found[True])
    return {**lost, "others": others, "median": statistics.median(ratios)}


def rows(repeats: int, say: Callable[[str], None]) -> Iterator[Row]:
    """The rows about publishing."""
    with (
        s3_server() as server,
        tempfile.TemporaryDirectory(dir=SCRATCH) as spool,
        changed_environment(
            S3_ENDPOINT=server.environment["AWS_ENDPOINT_URL"], TBHUB_SPOOL_DIR=spool
        ),
    ):
        say("publishing: tbhub")
        ours = sent(server, "tbhub")
        say("publishing: tensorboardX")
        theirs = sent(server, "tensorboardX")
        mine, its = (each["sent"] / each["logged"] for each in (ours, theirs))
        yield Row(
            f"bytes sent to S3 per byte logged, {ours['logged'] / 1e6:.0f} MB of texts and scalars "
            f"with a flush every second for {SECONDS} s",
            f"{mine:.2f}, done after {ours['seconds']:.0f} s",
            "tensorboardX",
            f"{its:.1f}, done after {theirs['seconds']:.0f} s",
            f"{its / mine:.1f}×",
            "≤ 1.3 per byte",
            mine <= 1.3,
        )
        with _elsewhere(server):
            yield from _slowed_rows(_PAIRS_PER_REPEAT * repeats, say)


def _slowed_rows(pairs: int, say: Callable[[str], None]) -> Iterator[Row]:
    everywhere = ",".join(map(str, _PROCESSORS))
    for others_on, text, goal in (
        (everywhere, "where there is a processor to spare", 0.01),
        (_FIRST, "where there is none", None),
    ):
        lost = slowed(pairs, others_on, say)
        yield Row(
            "training slowed by `tbhub run` and its agent, 10 k scalars/s to S3, by the clock, "
            f"best of {pairs}, {text}",
            f"{100 * lost['clock']:.1f} % (median of pairs {100 * lost['median']:.1f} %; by its "
            f"own processor time {100 * lost['own']:.1f} %; they take "
            f"{100 * lost['others']:.1f} % of a processor)",
            "the same training by itself",
            "0 %",
            f"{1 - lost['clock']:.3f}×",
            "≤ 1 %" if goal else "–",
            goal is None or lost["clock"] <= goal,
        )
