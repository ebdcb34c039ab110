"""``/api/v1/boards``. Who may see or do what with a board is the conductor's to decide."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from tbhub.api.models import (
    Board,
    BoardChange,
    BoardRuns,
    Boards,
    Findings,
    LogLine,
    LogLines,
    NewBoard,
    NewShare,
    Runs,
    Share,
    State,
)
from tbhub.api.problems import (
    Ambiguous,
    Conflict,
    Forbidden,
    NotFound,
    TensorboardLimitExceeded,
)
from tbhub.hub.access import Caller
from tbhub.hub.doctor import examine
from tbhub.hub.hub import Hub
from tbhub.hub.language import translate_findings
from tbhub.hub.routes.common import (
    BoardId,
    Ender,
    Limit,
    Number,
    Offset,
    Reader,
    TheHub,
    Writer,
    as_json,
    is_still,
    problems,
)

router = APIRouter(tags=["boards"])

_ONE = problems(NotFound, Ambiguous)
_CHANGE = problems(NotFound, Ambiguous, Conflict)
_START = problems(NotFound, Ambiguous, Conflict, TensorboardLimitExceeded)
_ENDED = (State.STOPPED, State.TERMINATED, State.FAILED)
_PING = 15.0
Lines = Annotated[int, Query(ge=0, le=100_000)]


@router.get("/boards", responses=_ONE, response_model=Boards)
async def list_boards(
    hub: TheHub,
    caller: Reader,
    everyone: Annotated[
        bool, Query(alias="all", description="All the caller may see, not only their own.")
    ] = False,
    live: Annotated[bool, Query(description="Without those that have ended.")] = False,
    run: Annotated[
        int | None, Query(ge=1, le=2**63 - 1, description="Only those that show this run.")
    ] = None,
    board: Annotated[
        str | None,
        Query(
            max_length=200,
            description="Only the board with this id, beginning of an id, or name. Of several of "
            "a name: the caller's own, then live ones, then the newest that has ended.",
        ),
    ] = None,
    change: Annotated[
        bool,
        Query(description="With `board`, to change it: several ended ones are ambiguous."),
    ] = False,
    limit: Limit = 100,
    offset: Offset = 0,
) -> Response:
    """The caller's boards, the newest first."""
    if board is not None:
        one = await hub.conductor.get(caller, board, to_change=change)
        return as_json(Boards(total=1, boards=[one]))
    found = await hub.conductor.list(
        caller, everyone=everyone, live_only=live, run=run, limit=limit, offset=offset
    )
    return as_json(found)


@router.post("/boards", status_code=201, responses=_START)
async def create_board(hub: TheHub, caller: Writer, new: NewBoard) -> Board:
    """Makes a board, or answers the one that is meant; it is started meanwhile."""
    return await hub.conductor.create(caller, new)


# A name may have slashes in it: what has more behind the name comes first.


@router.post("/boards/{board:path}/start", responses=_START)
async def start_board(hub: TheHub, caller: Writer, board: BoardId) -> Board:
    """Starts a board that has stopped or failed; one that lives is left alone."""
    return await hub.conductor.start_board(caller, board)


@router.post("/boards/{board:path}/stop", responses=_CHANGE)
async def stop_board(hub: TheHub, caller: Ender, board: BoardId) -> Board:
    """Stops a board; it can be started again."""
    return await hub.conductor.stop(caller, board)


@router.post("/boards/{board:path}/kill", responses=_CHANGE)
async def kill_board(hub: TheHub, caller: Ender, board: BoardId) -> Board:
    """Ends a board for good."""
    return await hub.conductor.kill(caller, board)


@router.post("/boards/{board:path}/restart", responses=_START)
async def restart_board(hub: TheHub, caller: Writer, board: BoardId) -> Board:
    """Stops a board and starts it again."""
    return await hub.conductor.restart(caller, board)


@router.get("/boards/{board:path}/runs", responses=_ONE, response_model=Runs)
async def board_runs(
    hub: TheHub, caller: Reader, board: BoardId, limit: Limit = 100, offset: Offset = 0
) -> Response:
    """The runs that a board shows; places that are no runs of the catalog are not among them."""
    return as_json(await hub.conductor.runs(caller, board, limit=limit, offset=offset))


@router.post("/boards/{board:path}/runs", responses=_CHANGE)
async def add_runs(hub: TheHub, caller: Writer, board: BoardId, more: BoardRuns) -> Board:
    """Adds runs to a board; open pages show them."""
    return await hub.conductor.add_runs(caller, board, more)


@router.delete("/boards/{board:path}/runs", responses=_CHANGE)
async def remove_runs(hub: TheHub, caller: Writer, board: BoardId, less: BoardRuns) -> Board:
    """Takes runs out of a board; their logs stay."""
    return await hub.conductor.remove_runs(caller, board, less)


@router.get(
    "/boards/{board:path}/logs",
    responses={
        **_ONE,
        200: {
            "description": "Lines; with `follow` one JSON object a line, as they come.",
            "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
        },
    },
    response_model=LogLines,
)
async def board_logs(
    hub: TheHub,
    caller: Reader,
    request: Request,
    board: BoardId,
    tail: Lines | None = None,
    head: Lines | None = None,
    since: datetime | None = None,
    after: Annotated[int | None, Query(ge=0, le=2**62)] = None,
    follow: bool = False,
) -> Response:
    """What has happened to a board."""
    latest = (await hub.conductor.logs(caller, board, tail=1)).lines if follow else []
    found = await hub.conductor.logs(
        caller, board, tail=tail, head=head, since=since, after_id=after
    )
    if not follow:
        return as_json(found)
    board_id = (await hub.conductor.get(caller, board)).id
    seen = max((line.id for line in [*latest, *found.lines]), default=0)
    lines = _follow(hub, caller, request, board_id, found.lines, seen)
    return StreamingResponse(lines, media_type="application/x-ndjson")


async def _follow(
    hub: Hub,
    caller: Caller,
    request: Request,
    board_id: str,
    first: list[LogLine],
    seen: int,
) -> AsyncIterator[str]:
    """Lines as they come, until the board has ended; an empty one now and then shows life."""
    async with aclosing(hub.bus.subscribe(caller)) as news:
        while not hub.bus.is_closed:
            route = hub.conductor.route(board_id)
            has_ended = route is None or route.state in _ENDED
            # What was written before it ended is read after that was seen.
            try:
                more = await hub.conductor.logs(caller, board_id, after_id=seen)
            except (NotFound, Forbidden):  # deleted, or not theirs to see any more
                return
            for line in [*first, *more.lines]:
                yield line.model_dump_json() + "\n"
                seen = max(seen, line.id)
            first = []
            if has_ended:
                return
            event = await news.next(_PING)
            while event is not None and event.id not in (None, board_id):
                event = await news.next(_PING)
            if not await is_still(caller, request):
                return
            if event is None:
                yield "\n"


@router.get("/boards/{board:path}/config", responses=_ONE)
async def board_config(hub: TheHub, caller: Reader, board: BoardId) -> dict[str, Any]:
    """What a board shows and how, as it can be given to make another."""
    return await hub.conductor.config(caller, board)


@router.get("/boards/{board:path}/doctor", responses=_ONE)
async def board_doctor(hub: TheHub, caller: Reader, board: BoardId) -> Findings:
    """Why a board is empty, stale or slow."""
    return translate_findings(await examine(hub.conductor, caller, board))


@router.get("/boards/{board:path}/shares", responses=_ONE)
async def list_shares(hub: TheHub, caller: Reader, board: BoardId) -> list[Share]:
    """The links by which a board is shared."""
    found = await hub.conductor.get(caller, board)
    return await asyncio.to_thread(hub.shares.list, found.id)


@router.post("/boards/{board:path}/shares", status_code=201, responses=_ONE)
async def create_share(hub: TheHub, caller: Writer, board: BoardId, new: NewShare) -> Share:
    """A link that shows a board, and nothing else, to whoever has it; shown this once."""
    found = await hub.conductor.get_open(caller, board, to_change=True)
    share, text = await asyncio.to_thread(hub.shares.create, caller, found.id, new.expires_in)
    return share.model_copy(update={"url": f"{found.url}?share={text}"})


@router.delete("/boards/{board:path}/shares/{share}", status_code=204, responses=_ONE)
async def delete_share(hub: TheHub, caller: Ender, board: BoardId, share: Number) -> None:
    """Revokes a share link."""
    found = await hub.conductor.get(caller, board, to_change=True)
    await asyncio.to_thread(hub.shares.delete, found.id, share)
    hub.access_changed()


@router.get("/boards/{board:path}", responses=_ONE)
async def get_board(hub: TheHub, caller: Reader, board: BoardId) -> Board:
    """How a board is."""
    return await hub.conductor.get(caller, board)


@router.patch("/boards/{board:path}", responses=_CHANGE)
async def change_board(hub: TheHub, caller: Writer, board: BoardId, change: BoardChange) -> Board:
    """Changes a board's name, options or times."""
    return await hub.conductor.change(caller, board, change)


@router.delete("/boards/{board:path}", status_code=204, responses=_CHANGE)
async def delete_board(hub: TheHub, caller: Ender, board: BoardId) -> None:
    """Ends a board if it lives, and forgets it; runs and files stay."""
    await hub.conductor.delete(caller, board)
