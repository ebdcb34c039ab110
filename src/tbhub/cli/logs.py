"""``tbhub logs``: what has happened to a board."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from tbhub.cli.asking import connect, find
from tbhub.cli.completion import BoardArgument
from tbhub.cli.text import moment, plain

if TYPE_CHECKING:
    from tbhub.api.models import LogLine


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
    as_json: Annotated[bool, typer.Option("--json", help="Print an object to a line.")] = False,
) -> None:
    """Print what has happened to a board: placed, started, idle, why it ended.

    - `tbhub logs rarely-cute-otter`
    - `tbhub logs aab4 -f --tail 10`
    - `tbhub logs aab4 --since 2h --json`
    """
    if head is not None and (tail is not None or follow):
        raise ValueError("--head goes neither with --tail nor with -f")
    time = moment(since) if since else None
    with connect() as hub:
        found = find(hub, board).id
        if follow:
            for line in hub.follow_logs(found, tail=tail, since=time):
                _print(line, as_json)
        else:
            for line in hub.logs(found, tail=tail, head=head, since=time).lines:
                _print(line, as_json)


def _print(line: LogLine, as_json: bool) -> None:
    if as_json:
        print(json.dumps(line.model_dump(mode="json"), ensure_ascii=False), flush=True)
        return
    level = "" if line.level == "info" else f"{line.level}: "
    print(f"{line.time.astimezone():%Y-%m-%d %H:%M:%S}  {level}{plain(line.text)}", flush=True)
