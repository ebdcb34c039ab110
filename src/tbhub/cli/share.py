"""``tbhub share``: a board for somebody without a login."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tbhub.cli.asking import connect, expiring, find
from tbhub.cli.completion import BoardArgument
from tbhub.cli.tables import Column, Csv, Json, Output, Quiet, show
from tbhub.cli.text import clock

if TYPE_CHECKING:
    from tbhub.api.models import Share


def share(
    board: BoardArgument,
    expires: Annotated[
        str, typer.Option("--expires", metavar="TIME", help="How long the link is good.")
    ] = "7d",
    show_all: Annotated[
        bool, typer.Option("--list", help="List the links there are; none is made.")
    ] = False,
    revoke: Annotated[
        int | None, typer.Option("--revoke", metavar="ID", help="Make a link worthless.")
    ] = None,
    as_json: Json = False,
    as_csv: Csv = False,
    quiet: Quiet = False,
) -> None:
    """Make a link that shows one board to whoever has it, and nothing else, for a while.

    - `tbhub share rarely-cute-otter`
    - `tbhub share rarely-cute-otter --expires 2h`
    - `tbhub share rarely-cute-otter --list`
    - `tbhub share rarely-cute-otter --revoke 3`

    The link is shown this once. It needs no login, and cannot change anything.
    """
    from tbhub.api.models import NewShare

    output = Output(as_json, as_csv, quiet)
    if show_all and revoke is not None:
        raise ValueError("--list and --revoke exclude one another")
    with connect() as hub:
        found = find(hub, board, to_change=True).id
        if revoke is not None:
            hub.revoke_share(found, revoke)
            print(f"revoked {revoke}")
            return
        if not show_all:
            made = hub.share(found, expiring(NewShare, expires))
            print(made.url)
            print(f"good until {clock(made.expires)}", file=sys.stderr)
            return
        columns: list[Column[Share]] = [
            Column("ID", lambda share: share.id, right=True),
            Column("CREATED", lambda share: share.created),
            Column("EXPIRES", lambda share: share.expires),
        ]
        show(
            hub.shares(found),
            columns,
            output,
            key=lambda share: share.id,
            nothing="no links; `tbhub share BOARD` makes one",
        )
