"""``tbhub status``: how the hub is, and who you are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tbhub.cli.asking import connect
from tbhub.cli.tables import Json, print_json, print_pairs
from tbhub.cli.text import count, plain

if TYPE_CHECKING:
    from tbhub.api.models import Host


def status(as_json: Json = False) -> None:
    """Tell how the hub is, which one it is, and who you are there.

    - `tbhub status`
    - `tbhub status --json`
    """
    with connect() as hub:
        found, me = hub.status(), hub.me()
        where = hub.connection
    if as_json:
        print_json(
            {
                "url": where.url,
                "origin": where.origin,
                "user": me.user.name,
                "role": me.user.role,
                "scope": me.scope,
                "boards_used": me.boards_used,
                "boards_allowed": me.boards_allowed,
                **found.model_dump(mode="json"),
            }
        )
        return
    boards = [f"{number:,} {state}" for state, number in found.boards.items() if number]
    left = found.indexing.get("to_read", 0)
    allowed = "" if me.boards_allowed is None else f" of {me.boards_allowed:,}"
    hosts = ", ".join(_host(host) for host in found.hosts) or "none"
    is_viewer = me.user.role == "viewer"
    print_pairs(  # only admins see home and hosts
        [
            ("hub", f"{where.url} (from {where.origin})"),
            ("version", found.version),
            ("you", f"{me.user.name}, {me.user.role}, may {'read' if is_viewer else me.scope}"),
            ("your boards", None if is_viewer else f"{me.boards_used:,}{allowed} that are up"),
            ("running since", found.started),
            ("home", found.home),
            ("database", found.database),
            ("runs", f"{found.runs:,} in {count(found.experiments, 'experiment')}"),
            ("boards", ", ".join(boards) or "none"),
            ("hosts", None if found.home is None else hosts),
            ("still to be read", count(left, "run") if left else None),
        ]
    )
    for path, problem in found.indexing.get("problems", {}).items():
        print(f"  {plain(path)}: {plain(problem)}")


def _host(host: Host) -> str:
    message = f": {plain(host.message)}" if host.message else ""
    return f"{host.id} ({host.state}, {count(host.boards, 'board')}){message}"
