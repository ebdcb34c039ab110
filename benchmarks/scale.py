"""One hub with 100,000 runs, 10,000 boards and 1,000 viewers: what grows, and what is full first.

A real hub on a real PostgreSQL. A thousand of the boards are RUNNING, as many as one machine holds;
the others have stopped. Viewers are a process of their own on the same machine, and take a part of
it. Where the hub's time goes is seen at the end, by looking at its event loop meanwhile.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import engines
from benchmarks.boards import children
from benchmarks.corpus import corpus
from benchmarks.hub import Hub, cpu, hub, hub_of, seed, temporary
from benchmarks.measure import ROOT, Row, resident, time_text
from benchmarks.viewers import ASKED, KINDS, request

_RUNS = 100_000
_UP = 1000
_ALL = (1000, 10_000)
_VIEWERS = (10, 100, 1000)
_HOSTS = 2
_SECONDS = 20.0
_REST = 5.0
_ASKED = 50
_DOCUMENT = ROOT / "docs" / "scale.md"
_TOP = 12


class Usage(NamedTuple):
    """Of the processes there are; of a core, in seconds, or in bytes."""

    hub: float
    database: float
    hosts: float
    clients: float


@dataclass(frozen=True)
class Step:
    """What was measured with so many boards and viewers.

    Attributes:
        times: By kind: how many there were, the median and the 95th percentile, in seconds.
        shares: Of a core, by process.
        memory: Bytes.
    """

    boards: int
    viewers: int
    times: dict[str, tuple[int, float, float]]
    failed: int
    shares: Usage
    memory: Usage


def rows(say: Callable[[str], None], *, docs: bool) -> Iterator[Row]:
    """All steps; then one row for each kind of request at the largest."""
    logdir = str(corpus("simple", 10, 5, 1000, say))
    steps: list[Step] = []
    costs: list[Cost] = []
    with engines.postgresql() as server, temporary() as directory:
        home, url = directory / "home", server.create()
        say(f"{_RUNS:,} runs")
        seed(home, _RUNS, url)
        settings = {"database": url, "min_hosts": _HOSTS, "keep_hosts": False}
        for total in _ALL:
            with hub(home, **settings) as running:
                boards = _boards(running, logdir, say)
                costs = _costs(running, server, boards[0])
                for viewers in _VIEWERS:
                    say(f"{total:,} boards, {viewers:,} viewers")
                    steps.append(_step(running, server, boards, total, viewers))
            if total < _ALL[-1]:
                say("more boards")
                _add_boards(url, _ALL[-1] - total)
        say("profile")
        with hub_of("benchmarks.profiled_hub", home, settings) as running:
            boards = _boards(running, logdir, say)
            before = _profile(home)
            _step(running, server, boards, _ALL[-1], _VIEWERS[-1])
            profile = _since(_profile(home), before)
    _tell(steps, costs, profile, docs=docs)
    last, first = steps[-1], steps[-3]
    for kind in ASKED:
        late = last.times[kind][2]
        yield Row(
            f"{_RUNS:,} runs, {last.boards:,} boards, {last.viewers:,} viewers: {kind}, p95",
            f"{time_text(late)} (hub {100 * last.shares.hub:.0f} % of a core)",
            f"{first.viewers} viewers",
            time_text(first.times[kind][2]),
            f"{late / max(first.times[kind][2], 1e-6):.1f}×",
            "shown, none fails",
            not last.failed,
        )


def _boards(running: Hub, logdir: str, say: Callable[[str], None]) -> list[str]:
    """Boards that are RUNNING: those of an earlier hub, else new ones."""

    def up() -> int:
        return int(running.ask("GET", "/api/v1/status")["boards"].get("RUNNING", 0))

    live = running.ask("GET", "/api/v1/boards?live=true&limit=1")["total"]
    connection = running.connect()
    for number in range(live, _UP):
        if number % 50 == 0:
            say(f"boards: {number}/{_UP}")
        new = {"uris": [f"{logdir}/run{number % 10:04d}"], "idle_timeout": 0}
        running.ask("POST", "/api/v1/boards", new, connection)
    running.until(lambda: up() == _UP, pause=0.5)
    found = running.ask("GET", f"/api/v1/boards?live=true&limit={_UP}")["boards"]
    return [each["id"] for each in found]


def _add_boards(url: str, number: int) -> None:
    """Boards that have stopped, each with ten runs of the catalog."""
    from sqlalchemy import func, select

    from tbhub.database.engine import open_database
    from tbhub.database.rows import insert_new
    from tbhub.database.tables import board_runs, boards

    database = open_database(url)
    with database.begin() as connection:
        like = dict(connection.execute(select(boards).limit(1)).mappings().one())
        newest = connection.scalar(select(func.max(boards.c.created))) or time.time()
        like |= {"state": "STOPPED", "reason": "USER_STOPPED", "host_id": None, "key": None}
        ids = [str(uuid.uuid4()) for _ in range(number)]
        connection.execute(
            boards.insert(),
            [
                {**like, "id": each, "short": each[:8], "name": f"b{n}", "created": newest + n}
                for n, each in enumerate(ids)
            ],
        )
        shown = [
            {"board_id": each, "run_id": (10 * n + run) % _RUNS + 1}
            for n, each in enumerate(ids)
            for run in range(10)
        ]
        insert_new(connection, board_runs, shown)
        connection.exec_driver_sql("ANALYZE")
    database.close()


# --- one request


@dataclass(frozen=True)
class Cost:
    """What a request of a kind takes: seconds until it is answered, and of CPU time."""

    kind: str
    wall: float
    hub: float
    database: float


def _costs(running: Hub, server: Any, board: str) -> list[Cost]:
    time.sleep(_REST)
    return [_cost(running, server, board, kind) for kind in ASKED]


def _cost(running: Hub, server: Any, board: str, kind: str) -> Cost:
    connection = running.connect()
    asked = request(kind, board)
    headers = {"Authorization": f"Bearer {running.token}", **asked.headers}

    def ask() -> None:
        connection.request(asked.method, asked.path, asked.body, headers)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200, answer.status

    def used() -> tuple[float, float, float]:
        return time.perf_counter(), cpu(running.pid), engines.database_cpu(server)

    ask()  # what is kept is there then
    before = used()
    for _ in range(_ASKED):
        ask()
    wall, hub_cpu, database = (
        (end - start) / _ASKED for start, end in zip(before, used(), strict=True)
    )
    connection.close()
    return Cost(kind, wall, hub_cpu, database)


# --- one step


def _step(running: Hub, server: Any, boards: list[str], total: int, viewers: int) -> Step:
    hosts = _hosts(running)
    given = json.dumps([running.url, running.token, viewers, boards, _SECONDS])
    code = "import json, sys; from benchmarks.viewers import look; "
    code += "print(json.dumps(look(*json.load(sys.stdin))))"
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(given)
        process.stdin.close()

        def used() -> Usage:
            database = engines.database_cpu(server)
            return Usage(cpu(running.pid), database, sum(map(cpu, hosts)), cpu(process.pid))

        _expect(process.stdout.readline(), "begin")
        before, begin = used(), time.monotonic()
        _expect(process.stdout.readline(), "end")
        after, seconds = used(), time.monotonic() - begin
        memory = Usage(
            resident(running.pid),
            sum(map(_own, engines.postgresql_processes(server))),
            sum(map(resident, hosts)),
            resident(process.pid),
        )
        result = json.loads(process.stdout.readline())
    shares = Usage(*((end - start) / seconds for start, end in zip(before, after, strict=True)))
    times = {kind: (int(n), p50, p95) for kind, (n, p50, p95) in result["times"].items()}
    return Step(total, viewers, times, result["failed"], shares, memory)


def _expect(line: str, word: str) -> None:
    if not line or json.loads(line) != word:
        raise RuntimeError(f"viewers: {word} was expected, not {line!r}")


def _hosts(running: Hub) -> list[int]:
    shells = [int(path.read_text()) for path in (running.home / "hosts").glob("*.pid")]
    return [pid for shell in shells for pid in children(shell)]


def _own(pid: int) -> int:
    """Memory of a process that it shares with none, in bytes."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return 1024 * sum(int(n) for n in re.findall(r"^Private_\w+:\s+(\d+)", text, re.M))


# --- where the time goes


def _profile(home: Path) -> dict[str, Any]:
    path = home / "profile.json"
    while not path.exists():
        time.sleep(0.1)
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def _since(after: dict[str, Any], before: dict[str, Any]) -> list[tuple[str, float]]:
    """Lines of the event loop's thread with their share of the time, the most first."""
    looks = max(after["looks"] - before["looks"], 1)
    seen = {at: n - before["seen"].get(at, 0) for at, n in after["seen"].items()}
    found = [(at, n / looks) for at, n in seen.items() if n]
    return sorted(found, key=lambda each: -each[1])


# --- told


def _tell(
    steps: list[Step], costs: list[Cost], profile: list[tuple[str, float]], *, docs: bool
) -> None:
    parts = (_table(steps), _usage(steps), _prices(costs), _lines(profile))
    text = "\n\n".join("\n".join(each) for each in parts)
    print(text)
    if docs and _DOCUMENT.exists():
        kept = re.split(r"(<!-- measured -->\n|<!-- end -->)", _DOCUMENT.read_text())
        kept[2] = text + "\n"
        _DOCUMENT.write_text("".join(kept))


def _table(steps: list[Step]) -> list[str]:
    kinds = " | ".join(KINDS)
    lines = [f"| boards | viewers | {kinds} | failed |", "|" + " --- |" * (len(KINDS) + 3)]
    for step in steps:
        times = (_times(*step.times[kind]) for kind in KINDS)
        cells = [f"{step.boards:,}", f"{step.viewers:,}", *times, str(step.failed)]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _times(number: int, middle: float, late: float) -> str:
    return f"{time_text(middle)}, {time_text(late)}" if number else "–"


def _usage(steps: list[Step]) -> list[str]:
    lines = [
        "| boards | viewers | requests/s | hub | PostgreSQL | hosts | viewers' process"
        " | memory: hub | PostgreSQL | hosts | viewers' process |",
        "|" + " --- |" * 11,
    ]
    for step in steps:
        asked = sum(step.times[kind][0] for kind in ASKED) / _SECONDS
        cells = [f"{step.boards:,}", f"{step.viewers:,}", f"{asked:.1f}"]
        cells += [f"{100 * each:.0f} %" for each in step.shares]
        cells += [f"{each / 1e6:.0f} MB" for each in step.memory]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _prices(costs: list[Cost]) -> list[str]:
    lines = ["| one request, nobody else there | wall | hub | PostgreSQL |", "|" + " --- |" * 4]
    for cost in costs:
        times = (cost.wall, cost.hub, cost.database)
        cells = [cost.kind, *(f"{1000 * each:.1f} ms" for each in times)]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _lines(profile: list[tuple[str, float]]) -> list[str]:
    busy = sum(share for _, share in profile)
    lines = ["| the event loop's thread, at the last step | share |", "| --- | --- |"]
    lines.append(f"| at work | {100 * busy:.0f} % |")
    lines += [f"| `{at}` | {100 * share:.1f} % |" for at, share in profile[:_TOP]]
    return lines
