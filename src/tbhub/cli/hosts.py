"""``tbhub hosts``: the processes that serve boards."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from tbhub.cli.asking import connect
from tbhub.cli.groups import group
from tbhub.cli.tables import Column, Csv, Json, Output, Quiet, show
from tbhub.cli.text import count, plain

if TYPE_CHECKING:
    from tbhub.api.models import Host

_ABOUT = """
List the processes that serve boards; take one out of use. For the hub's admins.

- `tbhub hosts`
- `tbhub hosts drain slurm-3`
"""
_LOOK_SECONDS = 0.2

app = group(_ABOUT)


@app.command("list")
def list_hosts(as_json: Json = False, as_csv: Csv = False, quiet: Quiet = False) -> None:
    """List the processes that serve boards.

    - `tbhub hosts --json`
    """
    output = Output(as_json, as_csv, quiet)
    with connect() as hub:
        found = hub.hosts()
    columns: list[Column[Host]] = [
        Column("ID", lambda host: host.id),
        Column("STATE", lambda host: host.state),
        Column("BOARDS", lambda host: host.boards, right=True),
        Column("ADDRESS", lambda host: (host.address or "").partition("#")[0]),
        Column("CREATED", lambda host: host.created),
        Column("MESSAGE", lambda host: host.message),
    ]
    nothing = "no hosts; one is started with the next board"
    show(found, columns, output, key=lambda host: host.id, nothing=nothing)


@app.command("drain")
def drain(
    host: Annotated[str, typer.Argument(metavar="HOST", help="See `tbhub hosts`.")],
    wait: Annotated[bool, typer.Option(help="Wait until it is gone.")] = True,
) -> None:
    """Move a host's boards to others, and end it: before its machine is taken down, say.

    Links to the boards stay as they are. Another host is started first if there is none.

    - `tbhub hosts drain slurm-3`
    - `tbhub hosts drain slurm-3 --no-wait`
    """
    with connect() as hub:
        found = hub.drain_host(host)
        print(f"moving {count(found.boards, 'board')} from {plain(host)}")
        while wait and any(each.id == host for each in hub.hosts()):
            time.sleep(_LOOK_SECONDS)
    if wait:
        print(f"{plain(host)} has ended")
