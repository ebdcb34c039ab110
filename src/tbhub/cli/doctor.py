"""``tbhub doctor``: why a board is empty, stale or slow, or the hub not there."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tbhub.cli.asking import find
from tbhub.cli.completion import complete_boards
from tbhub.cli.tables import Json, print_json
from tbhub.cli.text import plain, span

if TYPE_CHECKING:
    from tbhub.api.models import Finding
    from tbhub.client.hub import Hub

_MARKS = {"ok": "✓", "info": "·", "warning": "!", "error": "✗"}
_LOST_DATA = "damaged records"  # a warning of the hub's: the rest of the board is well
_SLOW = 0.5
_SKEW = 60.0


def doctor(
    boards: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="BOARD",
            help="Boards: their ids, the beginnings of these, or their names.",
            autocompletion=complete_boards,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Look for what is wrong: with the connection to the hub, with the hub, with boards.

    - `tbhub doctor` looks at the connection and the hub, and asks the processes that serve boards
      whether TensorBoard works there
    - `tbhub doctor rarely-cute-otter` says why that board is empty, stale or slow: files that are
      missing or may not be read, logs that are not flushed, steps that go back, damaged records,
      clocks that differ; its backend is asked what it sees of each path and which credentials it
      uses

    Exits with 1 when something is wrong: after an error (✗), and where records are damaged. Other
    warnings (!) may pass by themselves.
    """
    from tbhub.client.hub import Hub

    found: list[Finding] = []
    with Hub() as hub:
        for each in _examine(hub, boards or ()):
            if each in found:  # of a host: said above
                continue
            found.append(each)
            if not as_json:
                _print(each)
    if as_json:
        print_json([each.model_dump(mode="json") for each in found])
    if any(each.level == "error" or each.subject == _LOST_DATA for each in found):
        raise typer.Exit(1)


def _examine(hub: Hub, boards: Iterable[str]) -> Iterator[Finding]:
    """Yield what is found, as soon as it is."""
    last = None
    for last in _connection(hub):
        yield last
    if last is not None and last.level == "error":
        return
    yield from _hosts(hub)
    for board in boards:
        yield from hub.doctor(find(hub, board).id).findings


def _print(finding: Finding) -> None:
    print(f"{_MARKS[finding.level]} {plain(finding.subject)}: {plain(finding.text)}")
    if finding.advice:
        print(f"    {plain(finding.advice)}")
    sys.stdout.flush()


def _hosts(hub: Hub) -> list[Finding]:
    """What the hosts say of themselves; nothing for users who are not admins."""
    from tbhub.api.problems import Forbidden

    try:
        return list(hub.hosts_doctor().findings)
    except Forbidden:
        return []


def _connection(hub: Hub) -> Iterator[Finding]:
    """What can be seen from here; an error that ends it comes last."""
    from tbhub.api.models import Finding, State
    from tbhub.client import logins
    from tbhub.errors import TbhubError

    where = hub.connection
    yield Finding(level="info", subject="address", text=f"{where.url}, from {where.origin}")
    for path in (logins.path(), (where.home or Path()) / "connection.json"):
        if where.origin.endswith(str(path)) and _others_may_read(path):
            yield Finding(
                level="warning",
                subject="permissions",
                text=f"others may read {path}, which holds a token",
                advice=f"chmod 600 {path}",
            )
    begin = time.monotonic()
    try:
        status = hub.status()
        took = time.monotonic() - begin
        me = hub.me()
    except TbhubError as error:
        yield Finding(level="error", subject="hub", text=str(error))
        return
    yield Finding(
        level="warning" if took > _SLOW else "ok",
        subject="hub",
        text=f"version {status.version} answers in {took * 1000:.0f} ms",
        advice="the hub or the way to it is slow" if took > _SLOW else "",
    )
    yield from _versions(status.version)
    ahead = (status.started - datetime.now(UTC)).total_seconds()
    if ahead > _SKEW:
        yield Finding(
            level="warning",
            subject="clock",
            text=f"the hub's clock is {span(ahead)} or more ahead of this machine's",
            advice="set both by NTP: times of runs and boards will look wrong",
        )
    yield Finding(level="ok", subject="login", text=f"{me.user.name}, {me.user.role}")
    if me.boards_allowed is not None and me.boards_used >= me.boards_allowed:
        yield Finding(
            level="warning",
            subject="quota",
            text=f"{me.boards_used} of {me.boards_allowed} boards are up",
            advice="`tbhub stop` one before you start another",
        )
    if status.home is not None:  # which only admins are told, as they are of hosts
        running = [host for host in status.hosts if host.state == "running"]
        # Where each board has a host of its own there is none before the first board.
        wanted = status.hosts or status.boards.get(State.QUEUED)
        is_well = bool(running or not wanted)
        yield Finding(
            level="ok" if is_well else "warning",
            subject="hosts",
            text=f"{len(running)} of {len(status.hosts)} run" if wanted else "no board needs one",
            advice="" if is_well else "boards cannot start; the hub's log tells why",
        )
    if not status.runs:
        yield Finding(
            level="warning",
            subject="runs",
            text="the hub knows no run",
            advice="`tbhub logdirs` shows where it looks; `tbhub logdirs add PATH` adds a place",
        )
    else:
        yield Finding(level="ok", subject="runs", text=f"{status.runs:,} are known")


def _versions(hub: str) -> Iterator[Finding]:
    import tbhub
    from tbhub.api.models import Finding

    if hub != tbhub.__version__:
        yield Finding(
            level="info",
            subject="version",
            text=f"this is tbhub {tbhub.__version__}, the hub is {hub}",
            advice="if something does not work, bring both to the same version",
        )


def _others_may_read(path: Path) -> bool:
    try:
        return bool(os.stat(path).st_mode & 0o077)
    except OSError:
        return False
