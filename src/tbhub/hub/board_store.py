"""Boards in the database: one function for each thing that is asked or kept.

Every function takes a connection and does all it does in the caller's transaction.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    Connection,
    and_,
    bindparam,
    delete,
    func,
    insert,
    select,
    update,
)

from tbhub.api.models import Board, BoardOptions, LogLine, Reason, State
from tbhub.boards.life import Life, Say
from tbhub.catalog.resolve import location_above
from tbhub.catalog.selection import Location
from tbhub.database.rows import among, chunks, insert_new
from tbhub.database.tables import (
    board_logs,
    board_runs,
    boards,
    members,
    runs,
    users,
    workspaces,
)
from tbhub.hub.deleted_sources import Numbers, find_deleted, named_by, without_deleted
from tbhub.hub.registry import Entry
from tbhub.hub.sources import Asked, Shown, has_places

_MAX_NAMED = 3  # runs in a line of a log

# --- life


def life_columns(life: Life) -> dict[str, Any]:
    """A life as columns of its board."""
    return {
        "state": life.state.value,
        "reason": None if life.reason is None else life.reason.value,
        "exit_code": life.exit_code,
        "message": life.message,
        "host_id": life.host,
        "generation": life.generation,
        "started": life.started,
        "ready": life.ready,
        "ended": life.ended,
        "deadline": life.deadline,
        "max_runtime": life.max_runtime,
    }


def _life(row: Any) -> Life:
    return Life(
        state=State(row.state),
        reason=None if row.reason is None else Reason(row.reason),
        exit_code=row.exit_code,
        message=row.message,
        host=row.host_id,
        generation=row.generation,
        started=row.started,
        ready=row.ready,
        ended=row.ended,
        deadline=row.deadline,
        max_runtime=row.max_runtime,
    )


def save_life(connection: Connection, board_id: str, life: Life, said: Iterable[Say]) -> None:
    """What has become of a board, and the lines that say so."""
    connection.execute(update(boards).where(boards.c.id == board_id), life_columns(life))
    add_lines(connection, board_id, said)


def save_activity(connection: Connection, entries: Sequence[Mapping[str, Any]]) -> None:
    """When boards were last looked at, and how often."""
    changed = update(boards).where(boards.c.id == bindparam("board"))
    names = ("active", "requests", "bytes")
    values: dict[str, Any] = {name: bindparam(f"new_{name}") for name in names}
    connection.execute(changed.values(values), list(entries))


# --- all boards, for the registry


def load_entries(connection: Connection, now: float) -> list[Entry]:
    """Every board there is."""
    columns = [column for column in boards.c if column.name != "options"]
    return [_entry(row, now) for row in connection.execute(select(*columns))]


def load_entry(connection: Connection, board_id: str, now: float) -> Entry:
    """One board."""
    return _entry(connection.execute(select(boards).where(boards.c.id == board_id)).one(), now)


def _entry(row: Any, now: float) -> Entry:
    life = _life(row)
    entry = Entry(
        id=row.id,
        short=row.short,
        name=row.name,
        key=row.key,
        owner_id=row.owner_id,
        workspace_id=row.workspace_id,
        workspaces=frozenset(row.asked["shown"]["workspaces"]),
        sources_key=row.sources_key,
        follow=row.follow,
        created=row.created,
        idle_timeout=row.idle_timeout,
        no_data_timeout=row.no_data_timeout,
        life=life,
        active=row.active,
        touched=now,
        requests=row.requests,
        bytes=row.bytes,
        held=life.host,
        has_places=has_places(Asked.from_json(row.selector, row.asked["asked"])),
    )
    entry.set_clock(now)
    return entry


# --- making and changing


def insert_board(
    connection: Connection, values: Mapping[str, Any], asked: Asked, shown: Shown
) -> None:
    """A new board with its runs; `values` are the columns that have nothing to do with them."""
    connection.execute(
        insert(boards),
        {
            **values,
            "selector": asked.selector,
            "sources": list(shown.uris),
            "asked": {"asked": asked.to_json(), "shown": shown.to_json()},
        },
    )
    rows = [{"board_id": values["id"], "run_id": number} for number in shown.run_ids]
    insert_new(connection, board_runs, rows)


def asked_of(connection: Connection, board_id: str) -> Asked:
    """What a board was asked to show."""
    chosen = select(boards.c.selector, boards.c.asked).where(boards.c.id == board_id)
    row = connection.execute(chosen).one()
    return Asked.from_json(row.selector, row.asked["asked"])


def options_of(connection: Connection, board_id: str) -> BoardOptions:
    """Return how a board shows its runs."""
    options = connection.scalar(select(boards.c.options).where(boards.c.id == board_id))
    return BoardOptions.model_validate(options)


def set_asked(connection: Connection, board_id: str, asked: Asked, key: str) -> None:
    """Name what a board shows in other words; `key` is that of the words, see `Asked.key`."""
    kept = connection.scalar(select(boards.c.asked).where(boards.c.id == board_id))
    values = {
        "selector": asked.selector,
        "asked": {**(kept or {}), "asked": asked.to_json()},
        "sources_key": key,
    }
    connection.execute(update(boards).where(boards.c.id == board_id), values)


def renew_key(connection: Connection, board_id: str) -> str:
    """Store the key of what a board shows now, see `Asked.key`, and return it."""
    asked, options = asked_of(connection, board_id), options_of(connection, board_id)
    mine = boards.c.id == board_id
    follow = connection.execute(select(boards.c.follow).where(mine)).scalar_one()
    key = asked.key(options, follow)
    connection.execute(update(boards).where(mine), {"sources_key": key})
    return key


def set_shown(connection: Connection, board_id: str, asked: Asked, shown: Shown) -> None:
    """Makes a board show this."""
    there = set(run_ids(connection, board_id))
    for chunk in chunks(sorted(there - set(shown.run_ids))):
        these = and_(board_runs.c.board_id == board_id, board_runs.c.run_id.in_(chunk))
        connection.execute(delete(board_runs).where(these))
    fresh = [number for number in shown.run_ids if number not in there]
    rows = [{"board_id": board_id, "run_id": number} for number in fresh]
    insert_new(connection, board_runs, rows)
    kept = {"asked": asked.to_json(), "shown": shown.to_json()}
    values = {"selector": asked.selector, "asked": kept, "sources": list(shown.uris)}
    connection.execute(update(boards).where(boards.c.id == board_id), values)


def run_ids(connection: Connection, board_id: str) -> list[int]:
    """The runs that a board shows."""
    mine = board_runs.c.board_id == board_id
    chosen = select(board_runs.c.run_id).where(mine).order_by(board_runs.c.run_id)
    return list(connection.execute(chosen).scalars())


def boards_with(connection: Connection, run_id: int) -> frozenset[str]:
    """The boards that show a run, by itself or with the place it is in."""
    chosen = select(board_runs.c.board_id).where(board_runs.c.run_id == run_id)
    found = set(connection.execute(chosen).scalars())
    location = connection.scalar(select(runs.c.location).where(runs.c.id == run_id))
    if location is not None:
        above = set(location_above(location))
        places = select(boards.c.id, boards.c.sources, boards.c.asked)
        for board_id, uris, kept in connection.execute(places):
            if not above.isdisjoint(uris) and run_id not in kept["asked"].get("removed", ()):
                found.add(board_id)
    return frozenset(found)


def shown_by(connection: Connection, board_id: str) -> Shown:
    """What a board shows."""
    chosen = select(boards.c.sources, boards.c.asked).where(boards.c.id == board_id)
    row = connection.execute(chosen).one()
    shown = row.asked["shown"]
    return Shown(
        tuple(run_ids(connection, board_id)),
        tuple(row.sources),
        tuple(shown["experiments"]),
        tuple(shown["trials"]),
        frozenset(shown["workspaces"]),
    )


def run_counts(connection: Connection, board_ids: Collection[str]) -> dict[str, int]:
    """How many runs each board has."""
    counted = (
        select(board_runs.c.board_id, func.count())
        .where(among(connection, board_runs.c.board_id, board_ids))
        .group_by(board_runs.c.board_id)
    )
    return {row[0]: row[1] for row in connection.execute(counted)}


def name_lengths(connection: Connection, board_ids: Collection[str]) -> dict[str, tuple[int, int]]:
    """Return how many runs each board has, and how many characters their names have in all.

    The name of a found run only grows, so the second number changes when one does.
    """
    counted = (
        select(board_runs.c.board_id, func.count(), func.sum(func.length(runs.c.name)))
        .join(runs, runs.c.id == board_runs.c.run_id)
        .where(among(connection, board_runs.c.board_id, board_ids))
        .group_by(board_runs.c.board_id)
    )
    return {row[0]: (row[1], row[2]) for row in connection.execute(counted)}


def workspace_named(connection: Connection, name: str) -> int | None:
    """The number of a workspace."""
    return connection.scalar(select(workspaces.c.id).where(workspaces.c.name == name))


def visible_to(connection: Connection, user_id: int) -> frozenset[int] | None:
    """The workspaces somebody may see; none: all."""
    role = connection.scalar(select(users.c.role).where(users.c.id == user_id))
    if role == "admin":
        return None
    mine = select(members.c.workspace_id).where(members.c.user_id == user_id)
    return frozenset(connection.execute(mine).scalars())


# --- what people are shown


def boards_of(connection: Connection, board_ids: Sequence[str]) -> dict[str, Board]:
    """Boards as people are shown them, but for their addresses, which depend on who asks."""
    joined = boards.join(users, users.c.id == boards.c.owner_id).outerjoin(
        workspaces, workspaces.c.id == boards.c.workspace_id
    )
    columns = (boards, users.c.name.label("owner"), workspaces.c.name.label("workspace"))
    chosen = select(*columns).select_from(joined)
    rows = connection.execute(chosen.where(among(connection, boards.c.id, board_ids))).mappings()
    given = [(dict(row), Asked.from_json(row["selector"], row["asked"]["asked"])) for row in rows]
    numbers = Numbers()
    for row, asked in given:
        shown = row["asked"]["shown"]
        named = Numbers(frozenset(shown["trials"]), frozenset(shown["experiments"]))
        numbers |= named | named_by(asked)
    deleted = find_deleted(connection, numbers)
    removed = _named(connection, {each for _, asked in given for each in asked.removed})
    return {
        row["id"]: _board(row, without_deleted(asked, deleted), deleted, removed)
        for row, asked in given
    }


def _named(connection: Connection, run_ids: Collection[int]) -> dict[int, tuple[str, str]]:
    """Return the names and locations of runs, by number."""
    chosen = select(runs.c.id, runs.c.name, runs.c.location)
    rows = connection.execute(chosen.where(among(connection, runs.c.id, run_ids)))
    return {row.id: (row.name, row.location) for row in rows}


def _board(
    row: dict[str, Any], asked: Asked, deleted: Numbers, named: Mapping[int, tuple[str, str]]
) -> Board:
    shown = row.pop("asked")["shown"]
    words, now = asked.words(), asked.current()
    # Of places that are runs we know, nothing else says that they were named.
    row["selector"] = now.selector or ", ".join(str(Location(uri)) for uri in now.uris)
    row["experiments"] = [each for each in shown["experiments"] if each not in deleted.experiments]
    row["trials"] = [each for each in shown["trials"] if each not in deleted.runs]
    row["uris"] = row["sources"]
    row["sources"] = words
    places = asked.places_left_out()
    out = [named[number] for number in asked.removed if number in named]
    above = frozenset(places)
    names = [name for name, location in out if above.isdisjoint(location_above(location))]
    row["removed"] = [*names, *(str(Location(uri)) for uri in places)]
    row["options"] = BoardOptions.model_validate(row["options"])
    row["host"] = row.pop("host_id")
    row["url"] = ""
    return Board.model_validate(row)


# --- logs


def add_lines(connection: Connection, board_id: str, said: Iterable[Say]) -> None:
    """Lines for the log of a board."""
    now = time.time()
    rows = [
        {"board_id": board_id, "time": now, "level": each.level, "text": each.text} for each in said
    ]
    if rows:
        connection.execute(insert(board_logs), rows)


def log_deleted_runs(connection: Connection, run_ids: Sequence[int], by: str) -> None:
    """Log in each board with some of these runs that they are deleted; call it before they are."""
    gone: dict[str, list[str]] = {}
    joined = board_runs.join(runs, runs.c.id == board_runs.c.run_id)
    chosen = select(board_runs.c.board_id, runs.c.id, runs.c.name).select_from(joined)
    for chunk in chunks(sorted(run_ids)):
        rows = connection.execute(chosen.where(runs.c.id.in_(chunk)).order_by(runs.c.id))
        for board_id, number, name in rows:
            gone.setdefault(board_id, []).append(f"{name} (#{number})")
    for board_id, names in gone.items():
        text = f"run {names[0]} was deleted by {by}"
        if len(names) > 1:
            listed = ", ".join(names[:_MAX_NAMED])
            more = f" and {len(names) - _MAX_NAMED:,} more" if len(names) > _MAX_NAMED else ""
            text = f"{len(names):,} runs were deleted by {by}: {listed}{more}"
        add_lines(connection, board_id, [Say(text)])


def lines(
    connection: Connection,
    board_id: str,
    *,
    tail: int | None = None,
    head: int | None = None,
    since: float | None = None,
    after_id: int | None = None,
) -> list[LogLine]:
    """Lines of a board's log, oldest first: the first, the last, later ones, or all."""
    chosen = select(board_logs).where(board_logs.c.board_id == board_id)
    if since is not None:
        # People are shown microseconds, which are less than what is kept.
        chosen = chosen.where(board_logs.c.time >= since - 1e-6)
    if after_id is not None:
        chosen = chosen.where(board_logs.c.id > after_id)
    if tail is not None:
        rows = connection.execute(chosen.order_by(board_logs.c.id.desc()).limit(tail)).all()[::-1]
        rows = rows[:head]
    else:
        rows = connection.execute(chosen.order_by(board_logs.c.id).limit(head)).all()
    return [LogLine.model_validate(dict(row._mapping)) for row in rows]


def new_warnings(connection: Connection, board_id: str, texts: Sequence[str]) -> list[str]:
    """Those warnings that a board's log does not have yet."""
    known = select(board_logs.c.text).where(
        board_logs.c.board_id == board_id, board_logs.c.text.in_(texts)
    )
    there = set(connection.execute(known).scalars())
    return [text for text in dict.fromkeys(texts) if text not in there]
