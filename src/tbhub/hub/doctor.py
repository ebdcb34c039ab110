"""Why a board is empty, stale or slow.

`diagnose` knows nothing but what it is given, and what a look at the places of the runs shows;
`examine` gathers that for a board.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote, urlsplit

from sqlalchemy import Connection, select

from tbhub.api.models import Board, Finding, Findings, Run, State
from tbhub.boards.life import READY
from tbhub.catalog.runs import load_runs
from tbhub.catalog.selection import is_uri
from tbhub.database.tables import board_runs
from tbhub.errors import TbhubError
from tbhub.events.names import is_event_file
from tbhub.hub.access import Caller
from tbhub.hub.conductor import Conductor
from tbhub.hub.connections import connections_used
from tbhub.hub.troubles import NOT_MOUNTED, is_about_rights, mount_hint, unreadable_hint
from tbhub.series.watch import is_remote

_MOST_RUNS = 1000  # that are looked at
_NAMED = 5  # of those with the same trouble
_HUNG_ADVICE = "Wait half a minute: the hub replaces it, and its boards restart by themselves."
_MANY_RUNS = 2000
_QUIET_SECONDS = 120.0
_FUTURE_SECONDS = 60.0
_HEADER_BYTES = 200  # a file with nothing but the record every file begins with is smaller


@dataclass(frozen=True)
class Place:
    """What is seen at the location of a run, without reading it.

    Attributes:
        problem: Why it cannot be read, if that is so.
        files: How many event files there are.
        written: When one of them was last written to.
        credentials: Which ones its host uses, by name; empty for a path.
        connection: The name of the storage connection these are of; empty if of none.
        launcher: Of a path that exists on the hub's machine but not on its host's: what it has to
            be mounted for; else empty.
    """

    exists: bool = True
    problem: str | None = None
    files: int = 0
    size: int = 0
    written: float | None = None
    is_remote: bool = False
    credentials: str = ""
    connection: str = ""
    launcher: str = ""


async def examine(conductor: Conductor, caller: Caller, board: str) -> Findings:
    """What there is to say about a board."""
    shown = await conductor.get_open(caller, board)
    stands, seen, trouble = None, None, None
    try:
        stands = await conductor.stands(shown.id)
        seen = await conductor.check(shown.id)
    except TbhubError as error:
        trouble = str(error)

    def look(connection: Connection) -> tuple[list[Run], dict[str, str]]:
        mine = select(board_runs.c.run_id).where(board_runs.c.board_id == shown.id)
        ids = list(
            connection.execute(mine.order_by(board_runs.c.run_id).limit(_MOST_RUNS)).scalars()
        )
        return load_runs(connection, ids), connections_used(connection, shown.id)

    runs, used = await conductor.read(look)
    by = conductor.launcher
    found = await asyncio.to_thread(diagnose, shown, runs, stands, trouble, seen, used, by)
    return Findings(findings=found)


async def examine_hosts(conductor: Conductor) -> Findings:
    """Ask each host whether its TensorBoard works."""
    found = []
    for host, seen in (await conductor.check_hosts()).items():
        if isinstance(seen, TbhubError):
            text, advice = str(seen), _HUNG_ADVICE
            found.append(Finding(level="error", subject="host", text=text, advice=advice))
        else:
            found.append(_tensorboard(seen, host))
    return Findings(findings=found)


def diagnose(
    board: Board,
    runs: Sequence[Run],
    stands: Mapping[str, Any] | None,
    trouble: str | None = None,
    seen: Mapping[str, Any] | None = None,
    connections: Mapping[str, str] | None = None,
    launcher: str = "local",
    *,
    now: float | None = None,
    look: Callable[[str], Place] | None = None,
) -> list[Finding]:
    """What is wrong with a board, the worst first; one good finding if nothing is.

    Args:
        stands: What its host says of it; none if no host has it.
        trouble: Why its host could not be asked.
        seen: What its host sees of its sources, which counts before what the hub sees.
        connections: The names of the storage connections that are used, by location.
        launcher: What the hub serves boards by.
        look: Looks at a location.
    """
    now = time.time() if now is None else now
    if seen is not None:
        seen = _with_connections(seen, connections or {})
    look = _as_seen(look or look_at, seen or {}, launcher)
    found = [*_board(board, stands, trouble), *_sources(board, runs)]
    if seen is not None:
        found += [_tensorboard(seen, str(seen["host"])), *_seen_sources(seen)]
    if stands is not None:
        found += [*_host(stands), *_traffic(board, stands)]
    places = {run.id: look(run.location) for run in runs}
    found += _places(runs, places)
    found += _runs(runs, places, now)
    looked = {uri: look(uri) for uri in board.uris}
    found += [_uri(uri, place) for uri, place in looked.items() if place.problem or not place.files]
    order = {"error": 0, "warning": 1, "info": 2, "ok": 3}
    found.sort(key=lambda each: order[each.level])
    if not any(each.level in ("error", "warning") for each in found):
        count = len(runs) if _has_more(board, runs) else board.runs
        text = f"Nothing wrong was found: {count:,} run{'s' * (count != 1)} looked at."
        found.insert(0, Finding(level="ok", subject="board", text=text))
    return found


def _with_connections(seen: Mapping[str, Any], connections: Mapping[str, str]) -> dict[str, Any]:
    """Return what a host sees, with where the credentials come from that the hub has sent it."""
    sources = []
    for each in seen["sources"]:
        name, by = connections.get(each["path"], ""), each.get("credentials", "")
        if by.startswith("sent by the hub"):
            by += f" from connection {name}" if name else " from the hub's environment"
        sources.append({**each, "credentials": by, "connection": name})
    return {**seen, "sources": sources}


def _as_seen(
    look: Callable[[str], Place], seen: Mapping[str, Any], launcher: str
) -> Callable[[str], Place]:
    """Return how to look at a location: as the host sees it, where the host has looked."""
    sources = {str(each["path"]): each for each in seen.get("sources", ())}

    def as_seen(location: str) -> Place:
        place, source = look(location), sources.get(location)
        if source is None or not source["listed"]:
            return place
        problem = source["problem"] or None
        exists = bool(problem or source.get("exists", True))
        if exists and not problem and not source.get("readable", True):
            problem = f"the user {source['user']} may not read it"
        return replace(
            place,
            exists=exists,
            problem=problem,
            files=source["files"],
            credentials=source["credentials"],
            connection=source["connection"],
            launcher=launcher if place.exists and not exists and launcher != "local" else "",
        )

    return as_seen


def _tensorboard(seen: Mapping[str, Any], host: str) -> Finding:
    told = seen["tensorboard"]
    if told["error"]:
        text = f"Host {host}: {told['error']}"
        return Finding(level="error", subject="tensorboard", text=text)
    text = f"Host {host} (process {seen['pid']}) serves TensorBoard {told['version']}."
    return Finding(level="ok", subject="tensorboard", text=text)


def _seen_sources(seen: Mapping[str, Any]) -> Iterable[Finding]:
    """Return what the host reads of the first few sources, and as whom.

    That a source cannot be read is an error elsewhere.
    """
    for each in seen["sources"][:_NAMED]:
        problem, runs, files = each["problem"], each["runs"], each["files"]
        if not each["listed"] or not (problem or each.get("exists", True)):
            continue
        read = f"{runs:,} run{'s' * (runs != 1)} in {files:,} event file{'s' * (files != 1)}"
        if not problem:
            text = f"Host {seen['host']} reads {each['path']}: {read}"
        else:
            kept = f"; it shows {read} that it has read before" if runs else ""
            text = f"Host {seen['host']} cannot read {each['path']}{kept}"
        by = f", credentials: {each['credentials']}" if each["credentials"] else ""
        user = f", as {each['user']}" if "user" in each else ""
        yield Finding(level="info", subject="source", text=f"{text}{by}{user}.")


def _board(
    board: Board, stands: Mapping[str, Any] | None, trouble: str | None
) -> Iterable[Finding]:
    if board.state == State.FAILED:
        yield Finding(
            level="error",
            subject="board",
            text=f"It has failed ({board.reason}): {board.message}",
            advice=f"Start it again: tbhub restart {board.id[:8]}. See tbhub logs {board.id[:8]}.",
        )
    elif board.state == State.TERMINATED:
        text = f"It has ended for good ({board.reason}): {board.message}"
        advice = "Make another one with the same runs: tbhub start."
        yield Finding(level="error", subject="board", text=text, advice=advice)
    elif board.state == State.STOPPED:
        text = f"It is stopped ({board.reason}): {board.message}"
        yield Finding(level="warning", subject="board", text=text, advice="Open its link.")
    elif board.state not in READY:
        text = f"It is {board.state}: it is not up yet."
        yield Finding(level="info", subject="board", text=text, advice="Wait a moment.")
    elif trouble is not None or stands is None:
        yield Finding(
            level="error",
            subject="host",
            text=f"Its host does not answer: {trouble or 'it is gone'}.",
            advice=_HUNG_ADVICE,
        )


def _sources(board: Board, runs: Sequence[Run]) -> Iterable[Finding]:
    if not board.runs and not board.uris and not board.follow:
        yield Finding(
            level="error",
            subject="runs",
            text="All runs that it showed were deleted or taken out.",
            advice=f"Add others: tbhub add {board.id[:8]} RUNS. See tbhub logs {board.id[:8]}.",
        )
    elif not board.runs and not board.uris:
        what = board.selector or "what it was asked for"
        yield Finding(
            level="error",
            subject="selector",
            text=f"Nothing matches {what}.",
            advice="Look with tbhub runs. Runs that match later are shown as they come.",
        )
    if _has_more(board, runs):
        text = f"It has {board.runs:,} runs, of which {len(runs):,} were looked at."
        yield Finding(level="info", subject="runs", text=text)
    if board.runs > _MANY_RUNS:
        text = f"{board.runs:,} runs are more than a page of TensorBoard shows quickly."
        advice = "Choose fewer, for example with where and limit."
        yield Finding(level="warning", subject="slow", text=text, advice=advice)


def _has_more(board: Board, runs: Sequence[Run]) -> bool:
    """Return whether a board has more runs of the catalog than were looked at.

    Runs below its paths and URIs are not among them: its host looks at these.
    """
    return board.runs > len(runs) >= _MOST_RUNS


def _host(stands: Mapping[str, Any]) -> Iterable[Finding]:
    loading = stands.get("loading")
    if loading:
        text = f"{loading['done']:,} of {loading['total']:,} runs have been read so far."
        advice = "Wait: what has been read is shown already."
        yield Finding(level="info", subject="loading", text=text, advice=advice)
    for notice in stands.get("notices", ()):
        is_damage = str(notice["id"]).startswith("damaged ")
        yield Finding(
            level="warning",
            subject="damaged records" if is_damage else "notice",
            text=notice["text"],
            advice="tbhub check tells where; tbhub repair writes the good ones anew."
            if is_damage
            else "",
        )


def _traffic(board: Board, stands: Mapping[str, Any]) -> Iterable[Finding]:
    """What it has cost to read runs in buckets, and what it may."""
    asked = stands.get("traffic") or {"requests": 0, "bytes_read": 0}
    allowed = board.options.requests_per_minute
    if not asked["requests"] and allowed is None:
        return
    text = f"Stores have been asked {asked['requests']:,} times for {asked['bytes_read']:,} bytes."
    if allowed is None:
        yield Finding(level="info", subject="requests", text=text)
        return
    text += f" It may ask {allowed:,} times a minute; where that is used up new points come later."
    advice = "Make one with more: tbhub start --requests-per-minute."
    yield Finding(level="info", subject="requests", text=text, advice=advice)


def _places(runs: Sequence[Run], places: Mapping[int, Place]) -> Iterable[Finding]:
    absent = [run for run in runs if not places[run.id].exists]
    unmounted = [run for run in absent if places[run.id].launcher]
    if unmounted:
        advice = _mount_advice(places[unmounted[0].id])
        yield _finding("error", "location missing", NOT_MOUNTED, unmounted, advice)
    missing = [run for run in absent if not places[run.id].launcher]
    if missing:
        advice = "Was the directory moved or deleted, or is its disk not mounted?"
        yield _finding("error", "location missing", "is not there", missing, advice)
    closed: dict[tuple[bool, str, str], list[Run]] = {}
    for run in runs:
        if places[run.id].problem:
            why, connection = _why(places[run.id]), places[run.id].connection
            closed.setdefault((is_uri(run.location), why, connection), []).append(run)
    for (in_bucket, why, connection), some in closed.items():
        advice = ""
        if is_about_rights(why):
            advice = "The hub runs as another user than who logs: give it the right to read."
        if in_bucket:
            advice = _storage_advice(some[0].location, why, connection)
        yield _finding("error", "permission", f"cannot be read: {why}", some, advice)
    readable = [run for run in runs if places[run.id].exists and not places[run.id].problem]
    empty = [run for run in readable if not places[run.id].files]
    if empty:
        advice = "Training has not begun, or logs to another directory."
        yield _finding("warning", "no files", "has no event files", empty, advice)
    remote = [run for run in readable if places[run.id].is_remote]
    if remote:
        text = "is on a network file system, where changes are found by looking every few seconds"
        yield _finding("info", "network file system", text, remote, "")


def _runs(runs: Sequence[Run], places: Mapping[int, Place], now: float) -> Iterable[Finding]:
    buffered = [run for run in runs if _is_buffered(run, places[run.id], now)]
    if buffered:
        yield _finding(
            "warning",
            "buffered",
            "is said to be running, and nothing has reached its files for minutes",
            buffered,
            "The writer keeps events in memory: call flush(), or lower flush_secs. "
            "Or the process is gone.",
        )
    unwritten = [run for run in runs if _is_unwritten(run, places[run.id])]
    if unwritten:
        advice = "The writer has not flushed yet: call flush(), or lower flush_secs."
        text = "has files in which nothing is logged yet"
        yield _finding("warning", "buffered", text, unwritten, advice)
    rewound = [run for run in runs if _goes_back(run)]
    if rewound:
        advice = "A restart logged earlier steps again: lines go back, or are drawn twice."
        yield _finding("warning", "step rewinds", "has steps that go back", rewound, advice)
    early = [run for run in runs if run.updated and run.updated.timestamp() > now + _FUTURE_SECONDS]
    if early:
        ahead = _moment(early[0].updated)
        advice = "The clock of the machine that logs is ahead, or the hub's is behind."
        yield _finding("warning", "clock", f"has events from the future, {ahead}", early, advice)
    troubled = [run for run in runs if run.problem]
    if troubled:
        yield _finding("warning", "runs", f"has a problem: {troubled[0].problem}", troubled, "")


def _is_buffered(run: Run, place: Place, now: float) -> bool:
    if run.status != "running" or not place.files or place.written is None:
        return False
    logged = run.updated.timestamp() if run.updated else 0.0
    return now - max(place.written, logged) > _QUIET_SECONDS


def _is_unwritten(run: Run, place: Place) -> bool:
    return bool(place.files) and not run.metrics and place.size < _HEADER_BYTES * place.files


def _goes_back(run: Run) -> bool:
    """Where a value of a later step was logged before the last one."""
    return any(
        max(metric.min_step or 0, metric.max_step or 0) > metric.last_step
        for metric in run.metrics.values()
    )


def _uri(uri: str, place: Place) -> Finding:
    if place.launcher:
        text, advice = f"{uri} {NOT_MOUNTED}.", _mount_advice(place)
        return Finding(level="error", subject="location missing", text=text, advice=advice)
    if not place.exists:
        text = f"{uri} is not there."
        advice = "It is shown as soon as it is. Is the path right?"
        return Finding(level="error", subject="location missing", text=text, advice=advice)
    if place.problem:
        text = f"{uri} cannot be read: {_why(place)}."
        advice = _storage_advice(uri, place.problem, place.connection)
        return Finding(level="error", subject="permission", text=text, advice=advice)
    text = f"{uri} has no event files itself; what lies below it is shown."
    return Finding(level="info", subject="no files", text=text)


def _why(place: Place) -> str:
    by = f". Credentials: {place.credentials}" if place.credentials else ""
    return f"{(place.problem or '').rstrip('.')}{by}"


def _mount_advice(place: Place) -> str:
    hint = mount_hint(place.launcher)
    return f"{hint[0].upper()}{hint[1:]}."


def _storage_advice(uri: str, problem: str, connection: str) -> str:
    hint = unreadable_hint(uri, problem, connection)
    return f"{hint[0].upper()}{hint[1:]}." if hint else ""


def _finding(level: Any, subject: str, what: str, runs: Sequence[Run], advice: str) -> Finding:
    names = ", ".join(f"{run.name} ({run.location})" for run in runs[:_NAMED])
    more = f" and {len(runs) - _NAMED:,} more" if len(runs) > _NAMED else ""
    text = f"{names}{more} {what}."
    return Finding(level=level, subject=subject, text=text, advice=advice)


def _moment(moment: datetime | None) -> str:
    return "" if moment is None else f"the last of {moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def look_at(location: str) -> Place:
    """What is at a location of this machine; others are taken to be well."""
    if "://" in location:
        parts = urlsplit(location)
        if parts.scheme != "file":
            return Place(files=1, size=_HEADER_BYTES)
        location = unquote(parts.path)
    files, size, written = 0, 0, None
    try:
        if os.path.isfile(location):
            status = os.stat(location)
            files, size, written = 1, status.st_size, status.st_mtime
            _try_to_read(location)
        else:
            with os.scandir(location) as entries:
                for entry in entries:
                    if is_event_file(entry.name) and entry.is_file():
                        status = entry.stat()
                        files, size = files + 1, size + status.st_size
                        written = max(written or 0.0, status.st_mtime)
                        _try_to_read(entry.path)
    except FileNotFoundError:
        return Place(exists=False)
    except OSError as error:
        return Place(problem=error.strerror or str(error), files=files)
    return Place(True, None, files, size, written, is_remote(location))


def _try_to_read(path: str) -> None:
    with open(path, "rb") as file:
        file.read(1)
