"""What it costs a hub to watch a thousand boards on several hosts while nobody looks at them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from benchmarks import engines
from benchmarks.corpus import corpus
from benchmarks.hub import cpu, hub, temporary
from benchmarks.measure import Row

_BOARDS = 1000
_REST = 5.0
_SECONDS = 40.0
_GOAL = 0.03


def rows(say: Callable[[str], None]) -> Iterator[Row]:
    """On processes of this machine, and on jobs of Slurm if it is here."""
    logdir = str(corpus("simple", 10, 5, 1000, say))
    yield _row("8 local hosts", watched(logdir, say, min_hosts=8))
    if engines.has("slurmctld", "slurmd", "munged"):
        with engines.slurm():
            jobs = {"launcher": "slurm", "boards_per_host": 0, "min_hosts": 4}
            yield _row("4 jobs of Slurm", watched(logdir, say, **jobs))


def _row(where: str, share: float) -> Row:
    return Row(
        f"the hub's process watching {_BOARDS:,} boards on {where}, {_SECONDS:.0f} s",
        f"{100 * share:.2f} % of a core",
        *("–", "–", "–"),
        f"≤ {100 * _GOAL:g} %",
        share <= _GOAL,
    )


def watched(logdir: str, say: Callable[[str], None], **settings: object) -> float:
    """The share of a core that the hub alone takes; not its hosts, nor what looks for runs."""
    with temporary() as directory, hub(directory / "home", **settings) as running:

        def status() -> dict[str, list[dict[str, str]]]:
            found: dict[str, list[dict[str, str]]] = running.ask("GET", "/api/v1/status")
            return found

        running.until(
            lambda: (
                sum(each["state"] == "running" for each in status()["hosts"])
                == settings["min_hosts"]
            )
        )
        connection = running.connect()
        for number in range(_BOARDS):
            if number % 50 == 0:
                say(f"boards: {number}/{_BOARDS}")
            new = {"uris": [f"{logdir}/run{number % 10:04d}"], "idle_timeout": 0}
            running.ask("POST", "/api/v1/boards", new, connection)
        boards = f"/api/v1/boards?limit={_BOARDS}"
        running.until(
            lambda: all(
                each["state"] == "RUNNING" for each in running.ask("GET", boards)["boards"]
            ),
            pause=0.5,
        )
        used = {each["host"] for each in running.ask("GET", boards)["boards"]}
        assert len(used) == settings["min_hosts"], used
        say(f"watching: {_SECONDS:.0f} s")
        time.sleep(_REST)
        before, begin = cpu(running.pid), time.monotonic()
        time.sleep(_SECONDS)
        return (cpu(running.pid) - before) / (time.monotonic() - begin)
