"""``tbhub stop``, ``restart``, ``kill``, ``delete``: the same to one board or to many."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from tbhub.cli.asking import Yes, confirm, connect, find
from tbhub.cli.completion import BoardArguments
from tbhub.cli.failures import exit_code, tell
from tbhub.cli.text import count, plain

if TYPE_CHECKING:
    from tbhub.api.models import Board
    from tbhub.client.hub import Hub

Force = Annotated[
    bool, typer.Option("-f", "--force", help="Go on with the next where one cannot be done.")
]


def kill(boards: BoardArguments = None, force: Force = False) -> None:
    """End boards for good; they stay in the list.

    - `tbhub kill rarely-cute-otter`
    - `tbhub kill aab4 77f0 -f` goes on where one of them cannot be ended
    - `tbhub kill $(tbhub list -q)` ends all of yours that are up, which may be none

    Killing a board that has ended is no error. Stops at the first error unless told to go on; then
    each is told, and the exit code is that of the first.
    """

    def end(hub: Hub, board: Board) -> str:
        hub.kill_board(board.id)
        return "killed"

    _each("kill", boards, force, end)


def stop(boards: BoardArguments = None, force: Force = False) -> None:
    """Stop boards; they keep their ids, and start again when asked to or when visited.

    - `tbhub stop rarely-cute-otter`
    - `tbhub restart rarely-cute-otter` starts it again
    """

    def end(hub: Hub, board: Board) -> str:
        hub.stop_board(board.id)
        return "stopped"

    _each("stop", boards, force, end)


def restart(boards: BoardArguments = None, force: Force = False) -> None:
    """Start boards again, under the same ids: those that run, were stopped, or have failed.

    - `tbhub restart rarely-cute-otter`
    """

    def again(hub: Hub, board: Board) -> str:
        hub.restart_board(board.id)
        return "restarted"

    _each("restart", boards, force, again)


def delete(boards: BoardArguments = None, yes: Yes = False, force: Force = False) -> None:
    """End boards and forget them, with their logs and links; runs and files stay.

    - `tbhub delete rarely-cute-otter`
    - `tbhub delete aab4 77f0 --yes`
    """
    found = []
    if boards:
        with connect() as hub:
            for board in boards:
                try:
                    found.append(find(hub, board, to_change=True))
                except Exception:
                    if not force:
                        raise
    if found:
        names = ", ".join(f"{plain(board.name)} ({board.state})" for board in found[:5])
        more = f" and {len(found) - 5:,} more" if len(found) > 5 else ""
        confirm(f"Delete {count(len(found), 'board')}: {names}{more}?", yes)

    def forget(hub: Hub, board: Board) -> str:
        hub.delete_board(board.id)
        return "deleted"

    _each("delete", boards, force, forget)


def _each(
    verb: str, boards: list[str] | None, force: bool, act: Callable[[Hub, Board], str]
) -> None:
    """Do something to each board, and print it; with `force` continue past errors."""
    from tbhub.client.errors import HubUnreachable
    from tbhub.errors import TbhubError

    if not boards:  # as of `tbhub kill $(tbhub list -q)`
        print(f"Nothing to {verb}.")
        return
    failed = 0
    with connect() as hub:
        for each in dict.fromkeys(boards):
            try:
                board = find(hub, each, to_change=True)
                done = act(hub, board)
            except HubUnreachable:
                raise
            except TbhubError as error:
                if not force:
                    raise
                tell(error)
                failed = failed or exit_code(error)
            else:
                print(f"{done} {plain(board.name)} ({board.id})", flush=True)
    if failed:
        raise typer.Exit(failed)
