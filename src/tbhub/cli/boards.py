"""``tbhub list``, ``open``, ``config``, ``add``, ``remove``, ``extend``: boards that are there."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tbhub.cli.asking import connect, find, selector
from tbhub.cli.browser import open_board_page
from tbhub.cli.completion import BoardArgument, complete_boards, complete_selectors
from tbhub.cli.tables import Column, Csv, Json, Output, Quiet, print_json, show
from tbhub.cli.text import clock, count, duration, plain, span

if TYPE_CHECKING:
    from collections.abc import Callable

    from tbhub.api.models import Board
    from tbhub.client.hub import Hub

_SHOWN = 100
_SHOWN_REMOVED = 3
# After boards whose pages show nothing any more.
_NEXT_STEPS = {
    "TERMINATED": "`tbhub start` makes another",
    "FAILED": "`tbhub restart {id}` starts it again",
}


def list_boards(
    everyone: Annotated[
        bool,
        typer.Option(
            "-a", "--all", help="All boards: those that have ended and other users', too."
        ),
    ] = False,
    live: Annotated[
        bool, typer.Option("--live", help="With -a: of all users only those that are up.")
    ] = False,
    states: Annotated[
        list[str] | None,
        typer.Option(
            "--state", metavar="STATE", help="Those in this state, whether up or not; repeatable."
        ),
    ] = None,
    sort_by: Annotated[
        str | None,
        typer.Option("--sort-by", metavar="COLUMN", help="Sort by a column: `state`, `idle`, …"),
    ] = None,
    order_by: Annotated[
        Literal["asc", "desc"], typer.Option("--order-by", help="Which end of it comes first.")
    ] = "asc",
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", min=0, metavar="N", help="At most so many; 0: all. Tables show 100."
        ),
    ] = None,
    as_json: Json = False,
    as_csv: Csv = False,
    quiet: Quiet = False,
) -> None:
    """List the boards that are up, the newest first, each with all its sources.

    - `tbhub list` your boards that are up: from QUEUED to RUNNING, and STOPPING
    - `tbhub list --all` also those that have ended, and other users' as far as you may see them
    - `tbhub list --state failed --state stopped` yours in these states
    - `tbhub list --sort-by idle --order-by desc`
    - `tbhub kill $(tbhub list -q)` ends all of yours

    IDLE is how long nobody has looked at a board. EXIT STATUS says why one ended and its exit code:
    USER_KILLED, USER_STOPPED, IDLE, MAX_RUNTIME, NO_DATA, CRASHED, CANCELLED (its Slurm job, by
    scancel) or START_FAILED; `tbhub logs` tells the rest.
    """
    from tbhub.client.find import every_board

    output = Output(as_json, as_csv, quiet)
    if limit is None and output.is_table:
        limit = _SHOWN
    wanted = frozenset(map(_state, states or ()))
    order = None if sort_by is None else _order(sort_by)
    is_whole = not wanted and order is None  # what comes first is known when all are
    live = live or not (everyone or wanted)
    with connect() as hub:
        boards = hub.do(
            every_board(everyone=everyone, live=live, limit=limit or None if is_whole else None)
        )
        ended = _count_ended(hub, live=not everyone and live and output.is_table)
    boards = [board for board in boards if not wanted or board.state in wanted]
    if order is not None:
        boards.sort(key=order, reverse=order_by == "desc")
    boards = boards[: limit or None]
    now = datetime.now(UTC)
    columns: list[Column[Board]] = [
        Column("ID", lambda board: board.id, narrow=lambda board: board.id[:8]),
        Column("OWNER", lambda board: board.owner),
        Column("DESCRIPTION", lambda board: board.name),
        Column("STATE", lambda board: board.state),
        Column("EXPERIMENTS", lambda board: board.experiments, wide_only=True),
        Column("TRIALS", lambda board: board.trials, wide_only=True),
        Column("SOURCES", _sources),
        Column("CREATED", lambda board: board.created, narrow=lambda board: _day(board, now)),
        Column("IDLE", lambda board: _idle(board, now)),
        Column("EXIT STATUS", _exit_status),
    ]
    show(
        boards,
        columns,
        output,
        key=lambda board: board.id,
        nothing="no boards are up; `tbhub start` makes one" if live else "no boards",
    )
    if output.is_table:
        _print_messages(boards)
    if ended:
        print(f"{count(ended, 'board')} not up; `tbhub list --all` lists all", file=sys.stderr)
    if limit and len(boards) == limit and output.is_table:
        first = "newest" if order is None else "first"
        print(f"the {first} {limit:,}; --limit 0 lists all", file=sys.stderr)


def _print_messages(boards: list[Board]) -> None:
    """Print why boards are closed, and messages of RUNNING ones, once for those of a host."""
    names: dict[str, list[str]] = {}
    for board in boards:
        if board.closed:
            names.setdefault(board.problem, []).append(board.name)
        elif board.state == "RUNNING" and board.message:
            names.setdefault(board.message, []).append(board.name)
    for message, (first, *others) in names.items():
        more = f" and {count(len(others), 'other board')}" if others else ""
        print(f"{plain(first)}{more}: {plain(message)}", file=sys.stderr)


def open_board(
    board: BoardArgument,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open a browser, where there is one.")
    ] = True,
) -> None:
    """Open a board in the browser, and print its address.

    - `tbhub open rarely-cute-otter`
    - `tbhub open aab4 --no-browser`

    Without a browser, e.g. over ssh, it also prints a link to paste into one: it logs you in, once
    and within ten minutes. A stopped board starts again when a user who may start boards opens its
    page. One that has failed or ended for good, or that shows what you may not see any more, is not
    opened: it says why, and what to do.
    """
    with connect() as hub:
        found = find(hub, board)
        _insist_on_life(found)
        _insist_on_right(found)
        print(found.url)
        open_board_page(hub, found, browser)


def config(board: BoardArgument) -> None:
    """Print what a board shows and how, as JSON: sources, options, limits.

    - `tbhub config rarely-cute-otter`
    """
    with connect() as hub:
        print_json(hub.config(find(hub, board).id))


def add(
    board: Annotated[
        str,
        typer.Argument(
            metavar="BOARD|PLACE",
            help="A board and runs to add to it; or a path or URI alone, whose logs the hub is to "
            "know.",
            autocompletion=complete_boards,
        ),
    ],
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SELECTOR]...",
            help="Runs; see `tbhub runs --help`.",
            autocompletion=complete_selectors,
        ),
    ] = None,
    experiment: Annotated[
        str | None,
        typer.Option("--experiment", help="What the logs of a place belong to."),
    ] = None,
    workspace: Annotated[
        str | None, typer.Option("-w", "--workspace", help="Whose they are.")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again, for logs that come later.")
    ] = False,
) -> None:
    """Add runs to a board; open pages show them at once. Or have the hub know logs of a place.

    - `tbhub add rarely-cute-otter run7 run9`
    - `tbhub add rarely-cute-otter exp:12 "where lr<.01"`
    - `tbhub add rarely-cute-otter ./more-runs`
    - `tbhub add ./old-runs` each directory with event files becomes a run
    - `tbhub add s3://bucket/runs --experiment resnet --watch`

    One argument is a place, several are a board and its runs. Nothing is copied: logs are read
    where they are.
    """
    if runs:
        if experiment or workspace or watch:
            raise ValueError("--experiment, --workspace and --watch are for a path or URI alone")
        _change_runs(board, runs, is_more=True)
    else:
        _register(board, experiment, workspace, watch)


def remove(
    board: BoardArgument,
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="SELECTOR",
            help="Runs; see `tbhub runs --help`.",
            autocompletion=complete_selectors,
        ),
    ],
) -> None:
    """Take runs out of a board; the runs themselves stay.

    - `tbhub remove rarely-cute-otter run7`
    """
    _change_runs(board, runs, is_more=False)


def extend(
    board: BoardArgument,
    by: Annotated[str, typer.Argument(metavar="TIME", help="By how much: `30m`, `2h`, `1d`.")],
) -> None:
    """Give a board more time before its maximum run time ends it.

    - `tbhub extend rarely-cute-otter 2h`
    """
    from tbhub.api.models import BoardChange
    from tbhub.client.calls import build

    seconds = duration(by)
    with connect() as hub:
        changed = hub.change_board(
            find(hub, board, to_change=True).id, build(BoardChange, extend=seconds)
        )
    end = f"ends at {clock(changed.deadline)}" if changed.deadline else "has no time to end at"
    print(f"TensorBoard ({plain(changed.name)}) {end}")


def _insist_on_life(board: Board) -> None:
    """Refuses a board whose page would show nothing."""
    from tbhub.client.errors import UnexpectedStatusException
    from tbhub.client.tensorboard import ending

    if board.state not in _NEXT_STEPS:
        return
    advice = _NEXT_STEPS[board.state].format(id=board.id[:8])
    raise UnexpectedStatusException(f"{ending(board).removesuffix('.')}; {advice}", board.state)


def _insist_on_right(board: Board) -> None:
    """Refuse a board whose data the user may not see."""
    from tbhub.api.problems import Forbidden

    if board.closed:
        raise Forbidden(f"TensorBoard ({board.name}) cannot be opened: {board.problem}")


def _register(place: str, experiment: str | None, workspace: str | None, watch: bool) -> None:
    from tbhub.api.models import ExistingLogs
    from tbhub.catalog.selection import is_uri, looks_like_path
    from tbhub.client.calls import build
    from tbhub.client.paths import absolute

    if not looks_like_path(place) and not os.path.isdir(place):
        raise ValueError(
            f"{place} is no path here: say which runs to add to a board of that name, or name a "
            "place like ./runs or s3://bucket/runs"
        )
    uri = place if is_uri(place) else absolute(place)
    logs = build(
        ExistingLogs, uri=uri, experiment=experiment, workspace=workspace, watch=watch or None
    )
    with connect() as hub:
        found = hub.find_runs(logs)
    more = "; more will be looked for" if found.logdir is not None else ""
    print(f"{plain(found.uri)}: {count(found.runs, 'run')}, {found.new:,} of them new{more}")


def _change_runs(board: str, words: list[str], *, is_more: bool) -> None:
    from tbhub.api.models import BoardRuns
    from tbhub.client.calls import build

    chosen = build(BoardRuns, runs=selector(words))
    with connect() as hub:
        board = find(hub, board, to_change=True).id
        changed = hub.add_runs(board, chosen) if is_more else hub.remove_runs(board, chosen)
    print(f"TensorBoard ({plain(changed.name)}) shows {count(changed.runs, 'run')}")


def _state(text: str) -> str:
    from tbhub.api.models import State

    found = text.strip().upper()
    if found not in State.__members__:
        raise ValueError(f"--state {text}: there are {', '.join(State)}")
    return found


def _order(column: str) -> Callable[[Board], Any]:
    """What boards are sorted by; columns are named as in the table or in CSV."""
    name = column.strip().lower().replace(" ", "_").replace("-", "_")
    if name not in _ORDERS:
        raise ValueError(f"--sort-by {column}: there are {', '.join(_ORDERS)}")
    return _ORDERS[name]


def _count_ended(hub: Hub, *, live: bool) -> int:
    """Return how many of the caller's boards a list of those that are up leaves out."""
    if not live:
        return 0
    return hub.boards(limit=0).total - hub.boards(live=True, limit=0).total


def _day(board: Board, now: datetime) -> str:
    """When it was made, in few letters: the time of today, else the day."""
    made, today = board.created.astimezone(), now.astimezone().date()
    return f"{made:%H:%M}" if made.date() == today else f"{made:%Y-%m-%d}"


def _idle(board: Board, now: datetime) -> str:
    return "" if board.ended else span((now - board.active).total_seconds())


def _sources(board: Board) -> list[str]:
    """Return the sources of a board, the last with the runs and places that were taken out."""
    if not board.removed or not board.sources:
        return board.sources
    left_out = ", ".join(board.removed[:_SHOWN_REMOVED])
    if more := len(board.removed) - _SHOWN_REMOVED:
        left_out += f" and {more:,} more" if more > 0 else ""
    return [*board.sources[:-1], f"{board.sources[-1]} without {left_out}"]


def _exit_status(board: Board) -> str:
    if not board.reason:
        return ""
    return board.reason if board.exit_code is None else f"{board.reason} ({board.exit_code})"


_ORDERS: dict[str, Callable[[Board], Any]] = {
    "id": lambda board: board.id,
    "owner": lambda board: board.owner,
    "description": lambda board: board.name.casefold(),
    "state": lambda board: board.state.value,
    "experiments": lambda board: board.experiments,
    "trials": lambda board: board.trials,
    "sources": lambda board: board.sources,
    "created": lambda board: board.created,
    # Those that have ended are not idle; they come first.
    "idle": lambda board: (not board.ended, -board.active.timestamp()),
    "exit_status": _exit_status,
}
