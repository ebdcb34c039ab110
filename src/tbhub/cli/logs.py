"""``tbhub logs``: what has happened to a board."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tbhub.cli.asking import connect, find
from tbhub.cli.completion import BoardArgument
from tbhub.cli.text import moment, plain

if TYPE_CHECKING:
    from tbhub.api.models import LogLine

_LEVELS = ("info", "warning", "error")
# Levels of Determined that no line has.
_SAME_LEVEL = {"trace": "info", "debug": "info", "critical": "error"}


def logs(
    board: BoardArgument,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on with new lines until the board has ended.")
    ] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", min=0, metavar="N", help="Only the last N lines.")
    ] = None,
    head: Annotated[
        int | None, typer.Option("--head", min=0, metavar="N", help="Only the first N lines.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            "--timestamp-after",
            metavar="TIME",
            help="Since `2026-11-16T10:00`, `10:00`, `2h` ago.",
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", "--timestamp-before", metavar="TIME", help="Until then."),
    ] = None,
    level: Annotated[
        Literal["trace", "debug", "info", "warning", "error", "critical"],
        typer.Option(
            "--level",
            case_sensitive=False,
            help="Only lines of this level or above; none is below info or above error.",
        ),
    ] = "info",
    as_json: Annotated[bool, typer.Option("--json", help="Print an object to a line.")] = False,
) -> None:
    """Print what has happened to a board: placed, started, idle, why it ended.

    - `tbhub logs rarely-cute-otter`
    - `tbhub logs aab4 -f --tail 10`
    - `tbhub logs aab4 --since 2h --json`
    - `tbhub logs aab4 --level warning`
    """
    if head is not None and (tail is not None or follow):
        raise ValueError("--head goes neither with --tail nor with -f")
    if until is not None and follow:
        raise ValueError("--until does not go with -f")
    first = moment(since) if since else None
    last = moment(until) if until else None
    wanted = _LEVELS[_LEVELS.index(_SAME_LEVEL.get(level, level)) :]
    with connect() as hub:
        found = find(hub, board).id
        if follow:
            for line in hub.follow_logs(found, tail=tail, since=first):
                if line.level in wanted:
                    _print(line, as_json)
            return
        if wanted == _LEVELS and last is None:
            lines = hub.logs(found, tail=tail, head=head, since=first).lines
        else:  # only lines that are printed count
            lines = [
                line
                for line in hub.logs(found, since=first).lines
                if line.level in wanted and (last is None or line.time <= last)
            ]
            lines = lines[:head] if tail is None else lines[max(0, len(lines) - tail) :]
        for line in lines:
            _print(line, as_json)


def _print(line: LogLine, as_json: bool) -> None:
    if as_json:
        print(json.dumps(line.model_dump(mode="json"), ensure_ascii=False), flush=True)
        return
    level = "" if line.level == "info" else f"{line.level}: "
    print(f"{line.time.astimezone():%Y-%m-%d %H:%M:%S}  {level}{plain(line.text)}", flush=True)
