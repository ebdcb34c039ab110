"""``tbhub logdirs``: where the hub looks for runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tbhub.cli.asking import connect
from tbhub.cli.groups import group
from tbhub.cli.tables import Column, Csv, Json, Output, Quiet, show
from tbhub.cli.text import plain

if TYPE_CHECKING:
    from tbhub.api.models import Logdir
    from tbhub.client.hub import Hub

_ABOUT = """
List the directories the hub looks for runs in; add and remove some.

- `tbhub logdirs`
- `tbhub logdirs add ./runs`
- `tbhub logdirs remove ./runs`
"""

app = group(_ABOUT)


@app.command("list")
def list_logdirs(as_json: Json = False, as_csv: Csv = False, quiet: Quiet = False) -> None:
    """List the directories the hub looks for runs in.

    - `tbhub logdirs --json`
    """
    output = Output(as_json, as_csv, quiet)
    with connect() as hub:
        found = hub.logdirs()
    columns: list[Column[Logdir]] = [
        Column("ID", lambda logdir: logdir.id, right=True),
        Column("WORKSPACE", lambda logdir: logdir.workspace),
        Column("PATH", lambda logdir: logdir.path),
        Column("RUNS", lambda logdir: logdir.runs, right=True),
        Column("CREATED", lambda logdir: logdir.created),
    ]
    nothing = "no log directories; `tbhub logdirs add PATH` adds one"
    show(found, columns, output, key=lambda logdir: logdir.id, nothing=nothing)


@app.command("add")
def add(
    path: Annotated[str, typer.Argument(help="A directory of the hub's machine.")],
    workspace: Annotated[
        str, typer.Option("-w", "--workspace", help="The workspace its runs belong to.")
    ] = "default",
) -> None:
    """Have the hub look for runs below a directory, now and from now on.

    - `tbhub logdirs add ./runs`
    - `tbhub logdirs add /data/team/runs -w team`
    """
    from tbhub.api.models import NewLogdir
    from tbhub.client.calls import build
    from tbhub.client.paths import absolute

    with connect() as hub:
        made = hub.add_logdir(build(NewLogdir, path=absolute(path), workspace=workspace))
    print(f"added {plain(made.path)} ({made.id}) to workspace {plain(made.workspace)}")
    if made.notice:
        print(plain(made.notice), file=sys.stderr)


@app.command("remove")
def remove(
    logdir: Annotated[
        str, typer.Argument(metavar="ID|PATH", help="Its number, see `tbhub logdirs`, or its path.")
    ],
) -> None:
    """Have the hub no longer look there. Files stay.

    - `tbhub logdirs remove 2`
    - `tbhub logdirs remove ./runs`
    """
    with connect() as hub:
        number = int(logdir) if logdir.isascii() and logdir.isdigit() else _at(hub, logdir)
        hub.remove_logdir(number)
    print(f"removed {plain(logdir)}")


def _at(hub: Hub, path: str) -> int:
    """Return the number of the log directory at a path or URI.

    Raises:
        NotFound: The hub does not look there.
        Ambiguous: It looks there for several workspaces.
    """
    from tbhub.api.problems import Ambiguous, NotFound
    from tbhub.client.paths import absolute

    wanted = absolute(path).rstrip("/")
    found = [each for each in hub.logdirs() if each.path.rstrip("/") == wanted]
    if not found:
        raise NotFound(f"There is no log directory {path}. hint: `tbhub logdirs` lists them.")
    if len(found) > 1:
        listed = ", ".join(f"{each.id} (workspace {each.workspace})" for each in found)
        raise Ambiguous(
            f"{path} is a log directory of {len(found)} workspaces: {listed}. hint: give the "
            "number.",
            matches=[each.id for each in found],
        )
    return found[0].id
