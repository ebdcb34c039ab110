"""What the requests of a chart cost the server, and what of the data is in their answers."""

from __future__ import annotations

import http.client
import json
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import urlencode, urlsplit

from benchmarks.boards import STOCK, TIME_SERIES, Viewer, stock, tbhub_view, wait_until_served
from benchmarks.corpus import SPIKE, TAGS, corpus
from benchmarks.measure import Row, in_process, in_turns, time_text

_CLIENTS = 8
_SECONDS = 4.0
_WARM = 3  # requests before those that count


class _Client:
    """Asks for one tag of all runs over a connection that stays; answers are read, not parsed."""

    def __init__(self, url: str, compressed: bool) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc)
        self._headers = {"Content-Type": "application/x-www-form-urlencoded"}
        if compressed:
            self._headers["Accept-Encoding"] = "gzip, deflate, br, zstd"
        wanted = [{"plugin": "scalars", "tag": TAGS[0]}]
        self._form = urlencode({"requests": json.dumps(wanted)})
        self._buffer = bytearray(1 << 20)

    def ask(self) -> int:
        """Bytes of the answer."""
        connection = self._connection
        # What http.client would add by itself says that nothing may be compressed.
        connection.putrequest("POST", TIME_SERIES, skip_accept_encoding=True)
        for name, value in self._headers.items():
            connection.putheader(name, value)
        connection.putheader("Content-Length", str(len(self._form)))
        connection.endheaders(self._form.encode())
        response = connection.getresponse()
        assert response.status == 200
        size = 0
        while read := response.readinto(self._buffer):
            size += read
        return size


def latency(url: str, compressed: bool, count: int) -> dict[str, float]:
    """The median of warm requests, one after another."""
    client = _Client(url, compressed)
    times = []
    for _ in range(_WARM + count):
        start = time.perf_counter()
        size = client.ask()
        times.append(time.perf_counter() - start)
    return {"seconds": statistics.median(times[_WARM:]), "size": size}


def throughput(url: str, compressed: bool) -> dict[str, float]:
    """Requests per second of several clients; those under way at the end are waited for."""
    clients = [_Client(url, compressed) for _ in range(_CLIENTS)]
    clients[0].ask()
    done: list[float] = []
    start = time.perf_counter()

    def work(client: _Client) -> None:
        while time.perf_counter() < start + _SECONDS:
            client.ask()
            done.append(time.perf_counter())

    threads = [threading.Thread(target=work, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"rate": len(done) / (max(done) - start)}


def spikes(viewer: Viewer) -> int:
    """In how many runs the one point that stands out is served."""
    answer = json.loads(viewer.time_series(TAGS[0]))
    series: dict[str, list[dict[str, Any]]] = answer[0]["runToSeries"]
    return sum(any(point["value"] == SPIKE for point in points) for points in series.values())


def rows(repeats: int, say: Callable[[str], None]) -> Iterator[Row]:
    """Latency, requests per second, spikes."""
    logdir = str(corpus("simple", 100, 5, 1000, say))
    with tbhub_view(logdir, "--samples=1000") as ours, stock(logdir) as theirs:
        for viewer in (ours, theirs):
            wait_until_served(viewer, 100, 5, 1000, TAGS[0])
        for compressed, how in ((False, ""), (True, ", gzip accepted")):
            yield from _request_rows(ours, theirs, compressed, how, repeats, say)

    logdir = str(corpus("spikes", 100, 1, 50_000, say))
    counts = {}
    for name, start in {"tbhub": tbhub_view, "tensorboard": stock}.items():
        say(f"spikes: {name}")
        with start(logdir) as viewer:
            wait_until_served(viewer, 100, 1, 50_000, TAGS[0])
            counts[name] = spikes(viewer)
    yield Row(
        "spikes of one point still visible in 100 runs × 50 k points",
        f"{counts['tbhub']} of 100",
        STOCK,
        f"{counts['tensorboard']} of 100",
        "–",
        "100 of 100",
        counts["tbhub"] == 100,
    )


def _request_rows(
    ours: Viewer,
    theirs: Viewer,
    compressed: bool,
    how: str,
    repeats: int,
    say: Callable[[str], None],
) -> Iterator[Row]:
    found = in_turns(
        {
            "tbhub": partial(in_process, latency, ours.url, compressed, 30),
            "tensorboard": partial(in_process, latency, theirs.url, compressed, 5),
        },
        repeats,
        lambda said: say(f"latency{how}: {said}"),
    )
    mine, peer = found["tbhub"], found["tensorboard"]
    ratio = peer["seconds"] / mine["seconds"]
    yield Row(
        f"`timeSeries` of 100 runs × 1,000 points, warm{how}",
        f"{time_text(mine['seconds'])}, {mine['size'] / 1e6:.1f} MB",
        STOCK,
        f"{time_text(peer['seconds'])}, {peer['size'] / 1e6:.1f} MB",
        f"{ratio:.0f}×",
        "≥ 10× less",
        ratio >= 10,
    )
    found = in_turns(
        {
            "tbhub": partial(in_process, throughput, ours.url, compressed),
            "tensorboard": partial(in_process, throughput, theirs.url, compressed),
        },
        min(repeats, 2),
        lambda said: say(f"requests/s{how}: {said}"),
    )
    ratio = found["tbhub"]["rate"] / found["tensorboard"]["rate"]
    yield Row(
        f"the same, {_CLIENTS} clients{how}",
        f"{found['tbhub']['rate']:.1f} requests/s",
        STOCK,
        f"{found['tensorboard']['rate']:.2g} requests/s",
        f"{ratio:.0f}×",
        "≥ 10×",
        ratio >= 10,
    )
