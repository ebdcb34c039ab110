"""Names of runs that were found, kept unique in their workspace as runs come.

A name is as short as it can be when its run is found, and grows when another run is found that
would be called the same. It does not shrink again when that one goes: a name that once meant two
runs is not given to one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, and_, bindparam, or_, select, update

from tbhub.catalog.names import (
    MAX_NAME,
    after,
    first_parts,
    least_parts,
    name_of,
    parts_needed,
    tail_of,
)
from tbhub.catalog.query import Clause
from tbhub.database.rows import among, chunks
from tbhub.database.tables import runs, workspaces

_RANGES_AT_ONCE = 100


def lock_names(connection: Connection, workspace_id: int) -> bool:
    """Keep others from giving names in a workspace until the transaction ends.

    Returns whether there is such a workspace.
    """
    chosen = select(workspaces.c.id).where(workspaces.c.id == workspace_id)
    return connection.scalar(chosen.with_for_update(key_share=True)) is not None


def name_found(
    connection: Connection, workspace_id: int, locations: Mapping[int, str]
) -> dict[int, str]:
    """Return names for new runs, and lengthen those of known runs that they would be mistaken for.

    Args:
        locations: By the number of the run.
    """
    tails = {number: tail_of(location) for number, location in locations.items()}
    known = _known_alike(connection, workspace_id, tails.values())
    groups: dict[str, set[str]] = {}
    for tail in (*tails.values(), *(row.tail for row in known)):
        groups.setdefault(_beginning(tail), set()).add(tail)
    counts: dict[str, int] = {}
    for alike in groups.values():
        counts |= parts_needed(list(alike))
    changed = {
        row.id: row.tail
        for row in known
        if not row.named and len(name_of(row.tail, counts[row.tail])) > len(row.name)
    }
    names = _free_names(connection, workspace_id, {**changed, **tails}, counts)
    renamed = [{"run": number, "called": names.pop(number)} for number in changed]
    if renamed:
        statement = update(runs).where(runs.c.id == bindparam("run"))
        connection.execute(statement.values(name=bindparam("called")), renamed)
    return names


def lengthen_name(connection: Connection, workspace_id: int, run: int) -> bool:
    """Give a found run a longer name, so that another run can have the one it has.

    Returns whether that was possible: not for a run that a user has named.
    """
    chosen = select(runs.c.name, runs.c.tail).where(runs.c.id == run, ~runs.c.named)
    row = connection.execute(chosen.where(runs.c.tail.is_not(None))).first()
    if row is None:
        return False
    count = least_parts(row.tail)
    while len(_bounded(run, row.tail, count)) <= len(row.name):
        count += 1
    name = _free_names(connection, workspace_id, {run: row.tail}, {row.tail: count})[run]
    connection.execute(update(runs).where(runs.c.id == run).values(name=name))
    return True


def ends_in(prefixes: Sequence[str], *within: Clause) -> list[Clause]:
    """Conditions on runs whose tails begin so, some prefixes in each; an index answers them."""
    return [
        or_(*(and_(*within, runs.c.tail >= prefix, runs.c.tail < after(prefix)) for prefix in some))
        for some in chunks(prefixes, _RANGES_AT_ONCE)
    ]


def _beginning(tail: str) -> str:
    return first_parts(tail, least_parts(tail))


def _known_alike(connection: Connection, workspace_id: int, tails: Iterable[str]) -> list[Any]:
    """The known runs that have the shortest name of a new one."""
    prefixes = list(dict.fromkeys(map(_beginning, tails)))
    columns = (runs.c.id, runs.c.tail, runs.c.name, runs.c.named)
    found: list[Any] = []
    for alike in ends_in([each for each in prefixes if each], runs.c.workspace_id == workspace_id):
        found += connection.execute(select(*columns).where(alike)).all()
    return found


def _free_names(
    connection: Connection,
    workspace_id: int,
    tails: Mapping[int, str],
    counts: Mapping[str, int],
) -> dict[int, str]:
    """A name for each run that no other run has, with more of its path where one has been given."""
    found: dict[int, str] = {}
    taken: set[str] = set()
    waiting = {number: counts[tail] for number, tail in tails.items()}
    while waiting:
        asked = {
            number: _bounded(number, tails[number], count) for number, count in waiting.items()
        }
        here = runs.c.workspace_id == workspace_id, among(connection, runs.c.name, asked.values())
        rows = connection.execute(select(runs.c.name, runs.c.id).where(*here))
        held = {row.name for row in rows if row.id not in tails}
        for number, name in asked.items():
            if name in held or name in taken:
                waiting[number] += 1
            else:
                taken.add(name)
                found[number] = name
                del waiting[number]
    return found


def _bounded(number: int, tail: str, count: int) -> str:
    """A name of so many directories; with the run's number where there are not as many."""
    name = name_of(tail, count) or "/"
    missing = max(count - tail.count("/"), int(len(name) > MAX_NAME))
    mark = f" #{number}" * missing
    return name if not mark else f"{name[-(MAX_NAME - len(mark)) :]}{mark}"
