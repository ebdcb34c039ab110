"""People who look at a hub, by the hundred: what their browsers hold open, and what they ask.

Each has the stream of events open. One in ten has the page of boards open, which asks for a board
that has changed; two in ten the table of runs as it is first shown, one in ten sorted by time, the
others a board. Each asks for what its page shows every fifteen seconds or so, as people turn to
another page.
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import quote

import aiohttp

from benchmarks.boards import TIME_SERIES
from benchmarks.corpus import TAGS

BOARDS, TABLE, SORTED = "list of boards", "table of runs", "the same, sorted by `created`"
ONE, BOARD, NEWS = "a board that changed", "chart of a board", "news"
ASKED = (BOARDS, ONE, TABLE, SORTED, BOARD)
KINDS = (*ASKED, NEWS)
_EVERY = 15.0
_SETTLE = 0.1  # as the page waits for more news
_NEWS_EVERY = 4.0
_OPEN_AT_ONCE = 50
_COLUMNS = "status,experiment,owner,tags,created,duration,hparams.lr,metrics.loss.last"
_PAGE = f"/api/v1/runs/table?columns={_COLUMNS}&limit=200"
_FORM = "requests=" + quote(json.dumps([{"plugin": "scalars", "tag": TAGS[0]}]))
_FORM_HEADERS = {"Content-Type": "application/x-www-form-urlencoded"}


class Request(NamedTuple):
    """What a page asks."""

    method: str
    path: str
    body: str | None = None
    headers: Mapping[str, str] = {}


def request(kind: str, board: str) -> Request:
    """What is asked for a kind of thing, by the id of a board where it is of one."""
    return {
        BOARDS: Request("GET", "/api/v1/boards?all=true&limit=1000"),
        ONE: Request("GET", f"/api/v1/boards/{board}"),
        TABLE: Request("GET", _PAGE),
        SORTED: Request("GET", f"{_PAGE}&sort=-created"),
        BOARD: Request("POST", f"/boards/{board[:8]}{TIME_SERIES}", _FORM, _FORM_HEADERS),
    }[kind]


@dataclass
class _Seen:
    """What was measured: seconds of each kind, failures, and when a board was changed."""

    times: dict[str, list[float]] = field(default_factory=lambda: {each: [] for each in KINDS})
    failed: int = 0
    changed: dict[str, float] = field(default_factory=dict)
    counts: bool = False


def look(
    url: str, token: str, viewers: int, boards: Sequence[str], seconds: float
) -> dict[str, object]:
    """Viewers for a while; latencies by kind, in seconds."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    return asyncio.run(_look(url, token, viewers, boards, seconds))


async def _look(
    url: str, token: str, viewers: int, boards: Sequence[str], seconds: float
) -> dict[str, object]:
    seen = _Seen()
    limit = asyncio.Semaphore(_OPEN_AT_ONCE)
    async with aiohttp.ClientSession(
        url,
        headers={"Authorization": f"Bearer {token}"},
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60),  # as browsers do
        timeout=aiohttp.ClientTimeout(total=None, sock_read=60),
    ) as session:
        people = [_Viewer(session, seen, number, boards) for number in range(viewers)]
        await asyncio.gather(*(each.open(limit) for each in people))
        tasks = [asyncio.create_task(each.live()) for each in people]
        tasks += [asyncio.create_task(each.listen()) for each in people]
        tasks.append(asyncio.create_task(_change(session, seen, boards)))
        await asyncio.sleep(_EVERY / 2)
        seen.counts = True
        print(json.dumps("begin"), flush=True)
        await asyncio.sleep(seconds)
        seen.counts = False
        print(json.dumps("end"), flush=True)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for each in people:
            each.close()
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "times": {kind: _late(times) for kind, times in seen.times.items()},
        "failed": seen.failed,
        "cpu": used.ru_utime + used.ru_stime,
    }


def _late(times: list[float]) -> tuple[int, float, float]:
    """How many, the median and the 95th percentile."""
    if len(times) < 2:
        only = sum(times)
        return len(times), only, only
    return (
        len(times),
        statistics.median(times),
        statistics.quantiles(times, n=20, method="inclusive")[-1],
    )


class _Viewer:
    """One of them."""

    def __init__(
        self, session: aiohttp.ClientSession, seen: _Seen, number: int, boards: Sequence[str]
    ) -> None:
        self._session = session
        self._seen = seen
        self._random = random.Random(number)
        self._board = boards[number % len(boards)]
        self._kind = [BOARDS, TABLE, TABLE, SORTED, *[BOARD] * 6][number % 10]
        self._stream: aiohttp.ClientResponse | None = None
        self._asking: set[asyncio.Task[None]] = set()

    async def open(self, limit: asyncio.Semaphore) -> None:
        """Its stream of events."""
        async with limit:
            self._stream = await self._session.get("/api/v1/events")
            assert self._stream.status == 200, self._stream.status

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    async def live(self) -> None:
        """Asks now and then."""
        await asyncio.sleep(self._random.uniform(0, _EVERY))
        while True:
            await self._ask(self._kind, self._board)
            await asyncio.sleep(self._random.uniform(0.5, 1.5) * _EVERY)

    async def listen(self) -> None:
        """Hears of boards that have changed, and asks for them if it shows them all."""
        assert self._stream is not None
        with suppress(aiohttp.ClientError):
            async for line in self._stream.content:
                if not line.startswith(b"data:") or b'"board"' not in line:
                    continue
                board = json.loads(line[5:])["id"]
                when = self._seen.changed.get(board)
                if when is not None and self._seen.counts:
                    self._seen.times[NEWS].append(time.perf_counter() - when)
                if self._kind == BOARDS:
                    task = asyncio.create_task(self._ask_soon(board))
                    self._asking.add(task)
                    task.add_done_callback(self._asking.discard)

    async def _ask_soon(self, board: str) -> None:
        await asyncio.sleep(_SETTLE)
        await self._ask(ONE, board)

    async def _ask(self, kind: str, board: str) -> None:
        begin = time.perf_counter()
        method, path, body, headers = request(kind, board)
        try:
            async with self._session.request(method, path, data=body, headers=headers) as answer:
                await answer.read()
                is_good = answer.status == 200
        except (aiohttp.ClientError, TimeoutError):
            is_good = False
        if not self._seen.counts:
            return
        if is_good:
            self._seen.times[kind].append(time.perf_counter() - begin)
        else:
            self._seen.failed += 1


async def _change(session: aiohttp.ClientSession, seen: _Seen, boards: Sequence[str]) -> None:
    """Renames a board every few seconds."""
    for number in range(10**6):
        await asyncio.sleep(_NEWS_EVERY)
        board = boards[number % len(boards)]
        seen.changed = {board: time.perf_counter()}
        change = {"name": f"renamed-{number}"}
        async with session.patch(f"/api/v1/boards/{board}", json=change) as answer:
            await answer.read()
