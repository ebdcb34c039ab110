"""The hub as its users find it: a real one, asked over HTTP.

What is quick is measured in wall time, several times, in turns with what it is compared with.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from benchmarks.boards import TIME_SERIES, children, stock
from benchmarks.corpus import TAGS, corpus
from benchmarks.measure import ROOT, SCRATCH, Row, resident, time_text

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table

_PATIENCE = 120.0
_STARTS = 20
_ASKED = 200
_LARGE = 40
_BOARDS = 1000
_IDLE_SECONDS = 30.0
_WHERE = "where lr<0.01 and status=finished and metrics.acc.max>0.9 order by metrics.loss.last"


@dataclass(frozen=True)
class Hub:
    """A hub that runs."""

    url: str
    token: str
    pid: int
    home: Path

    def connect(self) -> http.client.HTTPConnection:
        """A connection that stays."""
        return http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=_PATIENCE)

    def ask(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        connection: http.client.HTTPConnection | None = None,
    ) -> Any:
        """The JSON of an answer."""
        used = connection or self.connect()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        used.request(method, path, None if body is None else json.dumps(body), headers)
        response = used.getresponse()
        text = response.read()
        if connection is None:
            used.close()
        if response.status >= 400:
            raise RuntimeError(f"{method} {path}: {response.status} {text[:200]!r}")
        return json.loads(text) if text else None

    def until(self, is_so: Callable[[], bool], pause: float = 0.05) -> None:
        """Waits for something."""
        deadline = time.monotonic() + _PATIENCE
        while not is_so():
            if time.monotonic() > deadline:
                raise RuntimeError("it did not come to pass")
            time.sleep(pause)

    @property
    def processes(self) -> list[int]:
        """The hub, the process that looks for runs, and the hosts."""
        hosts = [int(path.read_text()) for path in (self.home / "hosts").glob("*.pid")]
        return [self.pid, *children(self.pid), *(pid for each in hosts for pid in _group(each))]

    def memory(self) -> int:
        """Bytes of all its processes."""
        return sum(map(resident, set(self.processes)))

    def cpu(self) -> float:
        """Seconds its processes have computed."""
        return sum(map(cpu, set(self.processes)))


def _group(leader: int) -> list[int]:
    return [leader, *children(leader)]


def cpu(pid: int) -> float:
    """Seconds a process has computed; 0 when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def hub(home: Path, **settings: object) -> AbstractContextManager[Hub]:
    """A hub on a home, with settings of its own."""
    return hub_of("tbhub.hub", home, settings)


@contextmanager
def hub_of(program: str, home: Path, settings: Mapping[str, object]) -> Iterator[Hub]:
    """The same by a module that runs a hub."""
    given = {f"TBHUB_{name.upper()}": str(value) for name, value in settings.items()}
    process = subprocess.Popen(
        [sys.executable, "-m", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={
            **os.environ,
            "TBHUB_HOME": str(home),
            "TBHUB_PORT": "0",
            "TBHUB_CACHE_DIR": str(home / "cache"),
            "TBHUB_MAX_BOARDS_PER_USER": "0",
            "TBHUB_LOG_LEVEL": "warning",
            **given,
        },
    )
    try:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        token = json.loads((home / "connection.json").read_text())["token"]
        yield Hub(url, token, process.pid, home)
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def temporary() -> Iterator[Path]:
    """A directory that is there for a while."""
    with tempfile.TemporaryDirectory(dir=SCRATCH) as directory:
        yield Path(directory)


# --- start → RUNNING


def start_board(running: Hub, runs: list[int], connection: http.client.HTTPConnection) -> float:
    """Seconds from the request until the board is RUNNING, as a client sees it."""
    begin = time.perf_counter()
    new = {"trials": runs, "idle_timeout": 0}
    board = running.ask("POST", "/api/v1/boards", new, connection)
    while board["state"] != "RUNNING":
        if board["state"] == "FAILED":
            raise RuntimeError(board["message"])
        time.sleep(0.001)
        board = running.ask("GET", f"/api/v1/boards/{board['id']}", connection=connection)
    return time.perf_counter() - begin


def stock_board(logdir: str) -> float:
    """Seconds from `tensorboard` until it lists the runs."""
    begin = time.perf_counter()
    with stock(logdir) as viewer:
        while not json.loads(viewer.get("/data/runs")):
            time.sleep(0.01)
        return time.perf_counter() - begin


def _starts(logdir: str, repeats: int, say: Callable[[str], None]) -> Row:
    with temporary() as home, hub(home / "home", logdirs=logdir) as running:
        running.until(lambda: running.ask("GET", "/api/v1/runs?limit=1")["total"] == 10)
        runs = [run["id"] for run in running.ask("GET", "/api/v1/runs")["runs"]]
        connection = running.connect()
        start_board(running, runs, connection)  # the host is warm then
        say("start → RUNNING")
        ours = [start_board(running, runs, connection) for _ in range(_STARTS)]
    theirs = [stock_board(logdir) for _ in range(repeats)]
    ratio = statistics.median(theirs) / statistics.median(ours)
    worst = max(ours)
    return Row(
        f"start → RUNNING, 10 runs, hub warm ({_STARTS} boards)",
        f"{time_text(statistics.median(ours))} (at most {time_text(worst)})",
        "a `tensorboard` process that lists them",
        time_text(statistics.median(theirs)),
        f"{ratio:.0f}×",
        "≤ 150 ms, ≥ 10×",
        statistics.median(ours) <= 0.15 and ratio >= 10,
    )


# --- the proxy


def _host_of(running: Hub) -> tuple[str, str]:
    """Address and secret of the host, as the hub knows them."""
    import sqlite3

    with sqlite3.connect(running.home / "hub.db") as database:
        found = database.execute("select address, secret from hosts where state = 'running'")
        address, secret = found.fetchone()
    return str(address), str(secret)


def _ask_times(
    netloc: str, path: str, headers: dict[str, str], body: str | None, count: int
) -> tuple[list[float], int]:
    connection = http.client.HTTPConnection(netloc, timeout=_PATIENCE)
    times, size = [], 0
    for _ in range(count):
        begin = time.perf_counter()
        connection.request("POST" if body else "GET", path, body, headers)
        response = connection.getresponse()
        size = len(response.read())
        times.append(time.perf_counter() - begin)
        assert response.status == 200, response.status
    connection.close()
    return times, size


def _proxy(logdir: str, say: Callable[[str], None]) -> Iterator[Row]:
    with temporary() as home, hub(home / "home", logdirs=logdir) as running:
        running.until(lambda: running.ask("GET", "/api/v1/runs?limit=1")["total"] == 100)
        new = {"runs": "all", "options": {"samples": 1000}, "idle_timeout": 0}
        board = running.ask("POST", "/api/v1/boards", new)["id"]
        running.until(lambda: running.ask("GET", f"/api/v1/boards/{board}")["state"] == "RUNNING")
        url = running.ask("GET", f"/api/v1/boards/{board}")["url"]
        address, secret = _host_of(running)
        ways = {
            "hub": (urlsplit(url).netloc, urlsplit(url).path, running.token),
            "host": (urlsplit(address).netloc, f"/b/{board}/", secret),
        }
        wanted = quote(json.dumps([{"plugin": "scalars", "tag": TAGS[0]}]))
        form = f"requests={wanted}"

        def measure(way: str, path: str, body: str | None, count: int) -> tuple[list[float], int]:
            netloc, root, shown = ways[way]
            headers = {"Authorization": f"Bearer {shown}"}
            if body:
                headers["Content-Type"] = "application/x-www-form-urlencoded"
            return _ask_times(netloc, root + path, headers, body, count)

        small: dict[str, list[float]] = {way: [] for way in ways}
        large: dict[str, list[float]] = {way: [] for way in ways}
        size = 0
        for turn in range(5):
            for way in ways:
                say(f"proxy: {way} {turn + 1}/5")
                small[way] += measure(way, "data/runs", None, _ASKED // 5)[0]
                times, size = measure(way, TIME_SERIES[1:], form, _LARGE // 5)
                large[way] += times
        more = statistics.median(small["hub"]) - statistics.median(small["host"])
        yield Row(
            f"a request through the hub (`data/runs`, {_ASKED} times)",
            f"{time_text(statistics.median(small['hub']))}, {time_text(max(more, 1e-9))} more",
            "the host directly",
            time_text(statistics.median(small["host"])),
            "–",
            "≤ 2 ms more",
            more <= 0.002,
        )
        share = statistics.median(large["host"]) / statistics.median(large["hub"])
        speed = size / statistics.median(large["hub"]) / 1e6
        yield Row(
            f"an answer of {size / 1e6:.1f} MB through the hub ({_LARGE} times)",
            f"{speed:,.0f} MB/s",
            "the host directly",
            f"{size / statistics.median(large['host']) / 1e6:,.0f} MB/s",
            f"{100 * share:.0f} %",
            "≥ 70 %",
            share >= 0.7,
        )


# --- many boards, many runs


def _insert(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Rows in the quickest way a database has."""
    if connection.dialect.name == "sqlite":
        from tbhub.database.rows import insert_new

        insert_new(connection, table, rows)
        return
    driver: Any = connection.connection.driver_connection
    columns = ", ".join(f'"{name}"' for name in rows[0])
    with (
        driver.cursor() as cursor,
        cursor.copy(f'COPY "{table.name}" ({columns}) FROM STDIN') as copy,
    ):
        for row in rows:
            copy.write_row(tuple(row.values()))


def seed(home: Path, runs: int, url: str = "") -> None:
    """A database of runs that have been found and read; none of them is on disk. It is the home's
    own unless another is given."""
    import numpy as np

    from tbhub.catalog.workspaces import ensure_defaults
    from tbhub.database import tables
    from tbhub.database.engine import open_database

    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    database = open_database(url or f"sqlite:///{home}/hub.db")
    database.upgrade()
    random = np.random.default_rng(0)
    now = time.time()
    with database.begin() as connection:
        if database.dialect == "postgresql":  # rows that belong together need not be checked
            connection.exec_driver_sql("SET LOCAL session_replication_role = replica")
        ensure_defaults(connection)
        each = {"workspace_id": 1, "note": "", "archived": False, "created": now}
        experiments = [{"id": n, "name": f"exp{n}", **each} for n in range(1, runs // 100 + 1)]
        connection.execute(tables.experiments.insert(), experiments)
        states = ["finished", "finished", "failed", "running"]
        connection.execute(
            tables.runs.insert(),
            [
                {
                    **each,
                    "id": n,
                    "experiment_id": (n - 1) // 100 + 1,
                    "name": f"run{n}",
                    "path": f"exp{(n - 1) // 100 + 1}/run{n}",
                    "location": f"/nowhere/exp{(n - 1) // 100 + 1}/run{n}",
                    "status": states[n % 4],
                    "started": now - n,
                    "updated": now - n / 2,
                    "seen": "",
                }
                for n in range(1, runs + 1)
            ],
        )
        names = ["lr", "batch", "depth", "width", "dropout", "seed", "warmup", "decay", "a", "b"]
        tags = ["loss", "acc", "val/loss", "val/acc", "grad", "a", "b", "c", "d", "e"]
        indexes = [*tables.hparams.indexes, *tables.metrics.indexes]
        for index in indexes:  # made at once they are made sooner
            index.drop(connection)
        for first in range(1, runs + 1, 1000):
            numbers = range(first, min(first + 1000, runs + 1))
            values = random.random((len(numbers), 20)).tolist()
            _insert(
                connection,
                tables.hparams,
                [
                    {"run_id": n, "name": name, "number": x / 10, "text": str(x), "kind": "float"}
                    for n, row in zip(numbers, values, strict=True)
                    for name, x in zip(names, row, strict=False)
                ],
            )
            _insert(
                connection,
                tables.metrics,
                [
                    {
                        "run_id": n,
                        "tag": tag,
                        "count": 1000,
                        "last": x,
                        "last_step": 999,
                        "last_time": now,
                        "min": x / 2,
                        "min_step": 10,
                        "max": min(1.0, x * 1.2),
                        "max_step": 20,
                    }
                    for n, row in zip(numbers, values, strict=True)
                    for tag, x in zip(tags, row[10:], strict=True)
                ],
            )
        for index in indexes:
            index.create(connection)
        if database.dialect == "postgresql":  # which does not see numbers that it is given
            for name in ("experiments", "runs"):
                following = f"SELECT setval('{name}_id_seq', (SELECT max(id) FROM {name}))"
                connection.exec_driver_sql(following)
    if database.dialect == "postgresql":  # as its housekeeping would, a minute later
        with database.begin() as connection:
            connection.exec_driver_sql("ANALYZE")
    database.close()


def _late(ask: Callable[[], Any], count: int = 40) -> float:
    """The 95th percentile."""
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        ask()
        times.append(time.perf_counter() - begin)
    return statistics.quantiles(times, n=20, method="inclusive")[-1]


def _filter(running: Hub) -> float:
    connection = running.connect()
    path = f"/api/v1/runs?limit=100&select={quote(_WHERE)}"
    assert running.ask("GET", path, connection=connection)["runs"]
    return _late(partial(running.ask, "GET", path, connection=connection))


def _table(running: Hub) -> float:
    """As the web page asks for its first window."""
    connection = running.connect()
    where = quote(_WHERE.partition(" order by ")[0])
    columns = "status,experiment,owner,tags,created,duration,hparams.lr,metrics.loss.last"
    asked = f"q={where}&sort=metrics.loss.last&columns={columns}&limit=200"
    path = f"/api/v1/runs/table?{asked}"
    assert len(running.ask("GET", path, connection=connection)["columns"]["id"]) > 1
    return _late(partial(running.ask, "GET", path, connection=connection))


def _many(logdir: str, say: Callable[[str], None]) -> Iterator[Row]:
    with temporary() as scratch:
        say("10,000 runs")
        seed(scratch / "home", 10_000)
        with hub(scratch / "home") as running:
            connection = running.connect()
            for number in range(_BOARDS):
                if number % 50 == 0:
                    say(f"boards: {number}/{_BOARDS}")
                new = {"uris": [f"{logdir}/run{number % 10:04d}"], "idle_timeout": 0}
                running.ask("POST", "/api/v1/boards", new, connection)
            running.until(
                lambda: running.ask("GET", "/api/v1/status")["boards"].get("RUNNING") == _BOARDS
            )
            listed = partial(
                running.ask,
                "GET",
                f"/api/v1/boards?all=true&limit={_BOARDS}",
                connection=connection,
            )
            assert len(listed()["boards"]) == _BOARDS
            late, memory = _late(listed), running.memory()
            yield Row(
                f"list {_BOARDS:,} live boards, p95",
                f"{time_text(late)} ({memory / 1e6:.0f} MB for hub, host and indexer)",
                *("–", "–", "–"),
                "≤ 100 ms",
                late <= 0.1,
            )
            small = _table(running)
            late = _filter(running)
            yield Row(
                "filter 10,000 runs by `where`, sorted, 100 of them, p95",
                time_text(late),
                *("–", "–", "–"),
                "≤ 100 ms",
                late <= 0.1,
            )
            say(f"idle: {_IDLE_SECONDS:.0f} s")
            time.sleep(5)
            before, begin = running.cpu(), time.monotonic()
            time.sleep(_IDLE_SECONDS)
            share = (running.cpu() - before) / (time.monotonic() - begin)
            yield Row(
                f"hub, host and indexer idle with {_BOARDS:,} boards, {_IDLE_SECONDS:.0f} s",
                f"{100 * share:.2f} % of a core",
                *("–", "–", "–"),
                "≤ 2 %",
                share <= 0.02,
            )
    with temporary() as scratch:
        say("100,000 runs")
        seed(scratch / "home", 100_000)
        with hub(scratch / "home") as running:
            grown = _filter(running)
            yield Row(
                "the same of 100,000 runs (growth), p95",
                time_text(grown),
                "10,000 runs",
                time_text(late),
                f"{grown / late:.1f}×",
                "shown",
                True,
            )
            large, memory = _table(running), running.memory()
            yield Row(
                "first window of a table of 100,000 runs, by `where`, sorted by a metric, p95",
                f"{time_text(large)} ({memory / 1e6:.0f} MB with the mapped database)",
                "10,000 runs",
                time_text(small),
                f"{large / small:.1f}×",
                "≤ 150 ms",
                large <= 0.15,
            )


# --- discovery


def make_tree(root: Path, experiments: int, runs: int) -> None:
    """Run directories with one small event file each."""
    from tbhub import SummaryWriter

    with tempfile.TemporaryDirectory() as scratch:
        with SummaryWriter(scratch) as writer:
            writer.add_scalar("loss", 0.5, 1)
        (source,) = Path(scratch).iterdir()
        content, name = source.read_bytes(), source.name
    for experiment in range(experiments):
        for run in range(runs):
            directory = root / f"exp{experiment:03d}" / f"run{run:04d}"
            directory.mkdir(parents=True)
            (directory / name).write_bytes(content)


def _discovered(root: Path, say: Callable[[str], None]) -> float:
    """Seconds from adding a logdir until a new hub knows all that is in it."""
    say("discovery of 100,000 directories")
    with temporary() as scratch, hub(scratch / "home") as running:
        begin = time.perf_counter()
        running.ask("POST", "/api/v1/logdirs", {"path": str(root)})
        running.until(lambda: running.ask("GET", "/api/v1/status")["runs"] >= 100_000, pause=0.1)
        return time.perf_counter() - begin


def _discovery(say: Callable[[str], None]) -> Iterator[Row]:
    from tbhub.catalog.discovery import Discovery

    root = ROOT / ".bench" / "tree-100x1000"
    if not root.exists():
        say("writing 100,000 run directories")
        shutil.rmtree(root.with_suffix(".unfinished"), ignore_errors=True)
        make_tree(root.with_suffix(".unfinished"), 100, 1000)
        root.with_suffix(".unfinished").rename(root)
    Discovery(str(root)).scan()  # into the system's caches
    times = sorted(_discovered(root, say) for _ in range(3))
    yield Row(
        "100,000 run directories: added → all listed by the hub (3 times)",
        f"{time_text(times[1])} (at most {time_text(times[2])})",
        *("–", "–", "–"),
        "≤ 5 s",
        times[1] <= 5,
    )
    discovery = Discovery(str(root))
    discovery.scan()
    time.sleep(4)  # what is young has to be looked at again
    discovery.scan()
    begin = time.perf_counter()
    scan = discovery.scan()
    again = time.perf_counter() - begin
    assert not scan.new
    yield Row(
        "the same again, nothing changed",
        time_text(again),
        *("–", "–", "–"),
        "≤ 1 s",
        again <= 1,
    )


def rows(repeats: int, say: Callable[[str], None]) -> Iterator[Row]:
    """Starting boards, the proxy, many boards and runs, discovery."""
    few = corpus("simple", 10, 5, 1000, say)
    yield _starts(str(few), repeats, say)
    yield from _proxy(str(corpus("simple", 100, 5, 1000, say)), say)
    yield from _many(str(few), say)
    yield from _discovery(say)
