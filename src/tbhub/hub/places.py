"""Boards over places: everything below a path or URI, and what the catalog knows of it.

A place is read and followed by the host itself, whatever the catalog knows. The catalog adds
hyperparameters and columns to the runs it knows there, and says which are left out:

- runs and logdirs of workspaces that the board's owner may not see,
- archived runs, unless the place is the run itself,
- runs that were taken out of the board, and runs that the board shows already,
- watched directories whose event files all belong to runs that the board shows already.

The entry nearest to a directory decides. A user without a right to the place itself (see
`board_access`) is shown the known runs below it that they may see.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, or_, select

from tbhub.api.problems import NotFound
from tbhub.catalog.adopted_dirs import find_adopters
from tbhub.catalog.resolve import (
    known_spellings,
    location_above,
    location_below,
    location_spellings,
    resolve,
)
from tbhub.catalog.selection import Location, Selection
from tbhub.database.rows import chunks
from tbhub.database.tables import adopted_dirs, experiments, hparams, logdirs, runs, workspaces
from tbhub.hub.board_access import may_open
from tbhub.hub.run_facts import run_columns, sendable, template_values

Visible = frozenset[int] | None


def open_places(
    connection: Connection, places: Iterable[Location], visible: Visible
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the places that may be opened, and the runs to show of those that may not.

    Raises:
        NotFound: A place has nothing that may be seen.
    """
    uris: dict[str, None] = {}
    run_ids: dict[int, None] = {}
    for term in places:
        spellings = known_spellings(connection, term.uri)
        nothing = NotFound(f"There is nothing at {term.uri}, or nothing you may see.")
        if may_open(connection, visible, spellings[:1]):
            if visible is not None and _is_hidden(connection, spellings, visible):
                raise nothing
            uris[spellings[0]] = None
            continue
        found = resolve(connection, Selection((term,)), visible)
        if not found.run_ids:
            raise nothing
        run_ids |= dict.fromkeys(found.run_ids)
    return tuple(uris), tuple(run_ids)


def _is_hidden(connection: Connection, spellings: Sequence[str], visible: frozenset[int]) -> bool:
    """Whether the nearest logdir or run at or above a place is one that may not be seen."""
    above = [upper for place in spellings for upper in location_above(place)]
    nearest = (-1, False)
    for location, home in (
        (runs.c.location, runs.c.workspace_id),
        (logdirs.c.path, logdirs.c.workspace_id),
    ):
        for path, workspace in connection.execute(
            select(location, home).where(location.in_(above))
        ):
            nearest = max(nearest, (len(path), workspace not in visible))
    return nearest[1]


def workspaces_below(
    connection: Connection, uris: Iterable[str], visible: Visible
) -> frozenset[int]:
    """Return the workspaces of the known runs at and below some places."""
    found: set[int] = set()
    for uri in uris:
        spellings = known_spellings(connection, uri)
        chosen = select(runs.c.workspace_id).where(_within(runs.c.location, spellings)).distinct()
        found.update(connection.scalars(chosen))
    return frozenset(found if visible is None else found & visible)


def ids_below(connection: Connection, uris: Iterable[str], visible: Visible) -> tuple[int, ...]:
    """Return the known runs at and below some places."""
    found: dict[int, None] = {}
    for uri in uris:
        within = _within(runs.c.location, known_spellings(connection, uri))
        for run_id, workspace in connection.execute(
            select(runs.c.id, runs.c.workspace_id).where(within).order_by(runs.c.id)
        ):
            if visible is None or workspace in visible:
                found[run_id] = None
    return tuple(found)


def known_runs(
    connection: Connection,
    uri: str,
    visible: Visible,
    *,
    shown: Collection[int] = (),
    removed: Collection[int] = (),
    removed_uris: Iterable[str] = (),
    with_columns: bool = False,
    template: str = "",
) -> dict[str, dict[str, Any]]:
    """Return what a host is told of the runs below a place, by their paths relative to it.

    Args:
        uri: The place.
        visible: The workspaces that the board's owner may see; None: all.
        shown: Runs that the board shows already.
        removed: Runs that were taken out of the board.
        removed_uris: Places that were taken out of the board.
        with_columns: With the columns of each run, which names and groups are made of.
        template: The board's name template; its columns are added.
    """
    spellings = known_spellings(connection, uri)
    found: dict[str, dict[str, Any]] = {}
    if visible is not None:
        chosen = select(logdirs.c.path, logdirs.c.workspace_id)
        for path, workspace in connection.execute(chosen.where(_within(logdirs.c.path, spellings))):
            # Also the visible ones: they end what a hidden one above them hides.
            _put(found, spellings, path, {} if workspace in visible else {"hidden": True})
    is_split = bool(found)
    rows = {row.id: row for row in _rows(connection, spellings)}
    gone, there = frozenset(removed), frozenset(shown)
    entries: dict[int, dict[str, Any]] = {}
    for row in rows.values():
        is_place = row.location in spellings
        entry: dict[str, Any] = {}
        if row.logdir_id is not None or not row.attempt:
            entry["alone"] = True
        if (
            (visible is not None and row.workspace_id not in visible)
            or row.id in gone
            or row.id in there
            or (row.archived and not is_place)
        ):
            entry["hidden"] = True
        elif with_columns:
            entry["columns"] = run_columns(row)
        entries[row.id] = entry
    wanted = [run_id for run_id, entry in entries.items() if "hidden" not in entry]
    if template:
        for run_id, named in template_values(connection, wanted, template).items():
            entries[run_id]["columns"] |= named
    for run_id, values in _hparams(connection, wanted).items():
        entries[run_id]["hparams"] = values
    for run_id, entry in entries.items():
        if entry.keys() - {"alone"} or is_split:
            _put(found, spellings, rows[run_id].location, entry)
    for path in _copied(connection, spellings, visible, there):
        _put(found, spellings, path, {"alone": True, "hidden": True})
    for each in removed_uris:
        for path in known_spellings(connection, each):
            if path not in spellings:
                _put(found, spellings, path, {"hidden": True})
    return found


def _copied(
    connection: Connection, spellings: Sequence[str], visible: Visible, shown: frozenset[int]
) -> Iterator[str]:
    """Yield the directories below a place that hold nothing but event files of shown runs."""
    if not shown:
        return
    columns = (adopted_dirs.c.workspace_id, adopted_dirs.c.location)
    below: dict[int, list[str]] = {}
    for workspace, location in connection.execute(
        select(*columns).where(_within(adopted_dirs.c.location, spellings))
    ):
        if visible is None or workspace in visible:
            below.setdefault(workspace, []).append(location)
    for workspace, directories in below.items():
        for path, owners in find_adopters(connection, workspace, directories).items():
            if owners <= shown:
                yield path


def name_places(uris: Sequence[str], taken: Collection[str]) -> list[str]:
    """Return what goes before the names of the runs of each place of a board.

    It is as many of the place's last directories as tell it from the others; nothing for a place
    that is all a board shows. A place inside another one is named below that one, so that its runs
    have the same names by either.

    Args:
        uris: The places of the board.
        taken: The names of the runs that the board shows besides.
    """
    real = {uri: location_spellings(uri)[-1] for uri in uris}
    there = {place: uri for uri, place in reversed(real.items())}
    outer = {
        uri: [there[above] for above in location_above(place) if above in there][-1]
        for uri, place in real.items()
    }
    endings = {uri: _endings(uri) for uri in uris if outer[uri] == uri}
    counts = Counter(ending for each in endings.values() for ending in each)
    names = {
        uri: next((end for end in each if counts[end] == 1 and end not in taken), each[-1])
        for uri, each in endings.items()
    }
    if len(names) == 1 and not taken:
        names = dict.fromkeys(names, "")
    return [
        "/".join(filter(None, (names[outer[uri]], real[uri][len(real[outer[uri]]) :].strip("/"))))
        for uri in uris
    ]


def name_root(connection: Connection, uri: str, visible: Visible) -> str:
    """Return the name of the known run that is a place itself, or an empty text.

    Runs below are named below it: by that TensorBoard finds the metrics of its hyperparameters.
    """
    at = _at(runs.c.location, known_spellings(connection, uri))
    chosen = select(runs.c.name, runs.c.workspace_id).where(at).order_by(runs.c.id)
    known = (
        name
        for name, workspace in connection.execute(chosen)
        if visible is None or workspace in visible
    )
    return next(known, "")


def _endings(uri: str) -> list[str]:
    """Return what a place ends with: its last directory, its last two, and so on."""
    parts = [part for part in uri.split("/") if part] or [uri]
    return ["/".join(parts[-count:]) for count in range(1, len(parts) + 1)]


def _put(
    found: dict[str, dict[str, Any]], spellings: Sequence[str], path: str, entry: dict[str, Any]
) -> None:
    for place in spellings:
        if path == place:
            found["."] = {**found.get(".", {}), **entry}
            return
        if path.startswith(prefix := place.rstrip("/") + "/"):
            inside = path[len(prefix) :].rstrip("/")
            found[inside] = {**found.get(inside, {}), **entry}
            return


def _at(column: Any, spellings: Sequence[str]) -> Any:
    return column.in_([*spellings, *(f"{place}/" for place in spellings)])


def _within(column: Any, spellings: Sequence[str]) -> Any:
    below = (location_below(column, place) for place in spellings)
    return or_(_at(column, spellings), *below)


def _rows(connection: Connection, spellings: Sequence[str]) -> Iterable[Any]:
    joined = runs.join(experiments, experiments.c.id == runs.c.experiment_id).join(
        workspaces, workspaces.c.id == runs.c.workspace_id
    )
    columns = (
        runs.c.id,
        runs.c.name,
        runs.c.location,
        runs.c.logdir_id,
        runs.c.attempt,
        runs.c.archived,
        runs.c.workspace_id,
        runs.c.experiment_id,
        experiments.c.name.label("experiment"),
        workspaces.c.name.label("workspace"),
    )
    chosen = select(*columns).select_from(joined)
    return connection.execute(chosen.where(_within(runs.c.location, spellings))).all()


def _hparams(connection: Connection, ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for chunk in chunks(ids):
        for row in connection.execute(select(hparams).where(hparams.c.run_id.in_(chunk))):
            found.setdefault(row.run_id, {})[row.name] = sendable(row)
    return found


def spelled(uri: str) -> str:
    """Return a place as boards keep it."""
    return location_spellings(uri)[0] if os.path.isabs(uri) or "://" in uri else uri
