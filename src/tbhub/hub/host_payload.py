"""A board as its host is told of it: where each run is, what it is called, what is known of it.
And runs of which only the points are wanted.

A run has the name it has everywhere. One that lies inside another run of the board is named below
it, by which TensorBoard finds the metrics of its hyperparameters. Where runs of two workspaces have
one name, the one with the lower number keeps it, so that no name changes when others come. Places
are named by `places.name_places`; a place that is the only source and a run itself is named by
`places.name_root`. Where a storage connection is for a place, its credentials go along: what is
made here is for hosts, and for nobody else.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, select

from tbhub.database.rows import among, chunks
from tbhub.database.tables import board_runs, boards, experiments, hparams, runs, workspaces
from tbhub.hub.board_store import visible_to
from tbhub.hub.places import known_runs, name_places, name_root
from tbhub.hub.run_facts import run_columns, sendable, template_values
from tbhub.storage.environment import settings_from
from tbhub.storage.errors import StoreError
from tbhub.storage.uri import parse

# The settings for a place, of connections that some workspaces may use; all for None.
Credentials = Callable[[str, Collection[int] | None], dict[str, str] | None]


def no_credentials(place: str, allowed: Collection[int] | None) -> None:
    """Of a hub that has no connections."""


def with_environment(credentials: Credentials, environ: Mapping[str, str]) -> Credentials:
    """Return credentials that fall back to what environment variables hold for a place."""

    def found(place: str, allowed: Collection[int] | None) -> dict[str, str] | None:
        settings = credentials(place, allowed)
        if settings is not None or "://" not in place:
            return settings
        try:
            return settings_from(environ, parse(place)) or None
        except StoreError:
            return None

    return found


def payload(
    connection: Connection, board_id: str, credentials: Credentials = no_credentials
) -> dict[str, Any] | None:
    """A board as its host needs it; none if it is no more."""
    chosen = select(
        boards.c.name, boards.c.sources, boards.c.options, boards.c.owner_id, boards.c.asked
    )
    board = connection.execute(chosen.where(boards.c.id == board_id)).one_or_none()
    if board is None:
        return None
    template = board.options.get("template") or ""
    sources = _run_sources(connection, board_id, credentials, template)
    seen = visible_to(connection, board.owner_id) if board.sources else frozenset()
    taken = {source["name"] for source in sources}
    shown = {source["columns"]["id"] for source in sources}
    asked = board.asked["asked"]
    for uri, name in zip(board.sources, name_places(board.sources, taken), strict=True):
        name = name or name_root(connection, uri, seen)
        source: dict[str, Any] = {"path": uri, "name": name, "place": True}
        known = known_runs(
            connection,
            uri,
            seen,
            shown=shown,
            removed=asked.get("removed", ()),
            removed_uris=asked.get("removed_uris", ()),
            with_columns=bool(template or board.options.get("group_by")),
            template=template,
        )
        if known:
            source["known"] = known
        sources.append(_with_credentials(source, credentials(uri, seen)))
    return {"sources": sources, "options": {"title": board.name, **board.options}}


def places(
    connection: Connection,
    ids: Sequence[int],
    visible: Collection[int] | None,
    credentials: Credentials = no_credentials,
) -> dict[int, dict[str, Any]]:
    """Runs as a host needs them to read their points, of those workspaces; all for None."""
    chosen = select(
        runs.c.id, runs.c.location, runs.c.logdir_id, runs.c.attempt, runs.c.workspace_id
    )
    found = {}
    for chunk in chunks(ids):
        for row in connection.execute(chosen.where(among(connection, runs.c.id, chunk))):
            if visible is None or row.workspace_id in visible:
                place = {"id": row.id, "path": row.location, "alone": _is_alone(row)}
                settings = credentials(row.location, {row.workspace_id})
                found[row.id] = _with_credentials(place, settings)
    return found


def _with_credentials(source: dict[str, Any], settings: dict[str, str] | None) -> dict[str, Any]:
    return source if settings is None else {**source, "credentials": settings}


def _run_sources(
    connection: Connection, board_id: str, credentials: Credentials, template: str
) -> list[dict[str, Any]]:
    joined = (
        board_runs.join(runs, runs.c.id == board_runs.c.run_id)
        .join(experiments, experiments.c.id == runs.c.experiment_id)
        .join(workspaces, workspaces.c.id == runs.c.workspace_id)
    )
    columns = (
        runs.c.id,
        runs.c.name,
        runs.c.location,
        runs.c.logdir_id,
        runs.c.attempt,
        runs.c.workspace_id,
        runs.c.experiment_id,
        experiments.c.name.label("experiment"),
        workspaces.c.name.label("workspace"),
    )
    mine = board_runs.c.board_id == board_id
    rows = connection.execute(select(*columns).select_from(joined).where(mine).order_by(runs.c.id))
    found = rows.all()
    values = _hparams(connection, board_id)
    names = _names(found)
    named = template_values(connection, [row.id for row in found], template)
    return [
        _with_credentials(
            {
                "path": row.location,
                "name": names[row.id],
                "columns": {**run_columns(row), **named[row.id]},
                "hparams": values.get(row.id, {}),
                "alone": _is_alone(row),
            },
            credentials(row.location, {row.workspace_id}),
        )
        for row in found
    ]


def _is_alone(row: Any) -> bool:
    """What was found in a log tree is one directory; what was created has all below it."""
    return row.logdir_id is not None or not row.attempt


def _names(found: Sequence[Any]) -> dict[int, str]:
    """The names of runs in their board, by number."""
    by_place = {row.location.rstrip("/"): row for row in found}
    taken: set[str] = set()
    names: dict[int, str] = {}
    for row in found:
        others = (f"{row.workspace}/{row.name}", f"{row.name} #{row.id}")
        names[row.id] = _unique(_below_another(row, by_place) or row.name, others, taken)
    return names


def _below_another(row: Any, by_place: Mapping[str, Any]) -> str | None:
    """The name of a run that lies inside another run, whose own name it goes on with."""
    place = row.location.rstrip("/")
    above = os.path.dirname(place)
    while above not in ("", "/") and not above.endswith(":/"):
        outer = by_place.get(above)
        if outer is not None and outer.workspace_id == row.workspace_id:
            return f"{outer.name}{place[len(above) :]}"
        above = os.path.dirname(above)
    return None


def _unique(plain: str, others: Iterable[str], taken: set[str]) -> str:
    """The first name that is free. Names do not change when runs with higher numbers come."""
    name = next((each for each in (plain, *others) if each not in taken), plain)
    taken.add(name)
    return name


def _hparams(connection: Connection, board_id: str) -> dict[int, dict[str, Any]]:
    mine = select(board_runs.c.run_id).where(board_runs.c.board_id == board_id)
    found: dict[int, dict[str, Any]] = {}
    for row in connection.execute(select(hparams).where(hparams.c.run_id.in_(mine))):
        found.setdefault(row.run_id, {})[row.name] = sendable(row)
    return found
