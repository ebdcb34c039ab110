"""``/api/v1/runs`` as a table shows them: columns, groups, and changes of many at once.

These addresses stand before ``/runs/{run}``, or they would be taken for the number of a run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import StringConstraints

from tbhub.api.models import (
    ChangedRuns,
    RunColumn,
    RunGroups,
    RunsChange,
    RunsTable,
    Selector,
)
from tbhub.api.problems import Ambiguous, BadRequest, NotFound
from tbhub.catalog.bulk import change_runs as change_many
from tbhub.catalog.clauses import parse_fields, parse_sort
from tbhub.catalog.groups import MOST_COLUMNS, MOST_KEYS, group_runs
from tbhub.catalog.known_columns import known_columns
from tbhub.catalog.resolve import resolve
from tbhub.catalog.selectors import parse
from tbhub.catalog.table import list_table, parse_columns
from tbhub.hub.routes.common import Limit, Offset, Reader, TheHub, Writer, as_json, problems
from tbhub.hub.routes.runs import tell, workspaces_of_runs

router = APIRouter(tags=["runs"])

Fields = Annotated[str, StringConstraints(max_length=65536, pattern=r"^[^\x00]*$")]
Q = Annotated[Selector, Query(description="Which runs: a selector; all without one.")]
Search = Annotated[
    str,
    Query(
        max_length=1000,
        description="Words that each run has somewhere: in its name, path, note, experiment,"
        " owner, tags or the values of its hyperparameters.",
    ),
]
Sort = Annotated[Fields, Query(description="What to sort by: `-created,metrics.loss.last`.")]
Columns = Annotated[Fields, Query(description="Which columns: `status,hparams.lr,metrics.loss`.")]
Archived = Annotated[bool, Query(description="With runs that were put away.")]


@router.get("/runs/table", responses=problems(NotFound, Ambiguous), response_model=RunsTable)
def runs_table(
    hub: TheHub,
    caller: Reader,
    q: Q = "",
    search: Search = "",
    sort: Sort = "",
    columns: Columns = "",
    archived: Archived = False,
    limit: Limit = 200,
    offset: Offset = 0,
) -> Response:
    """A part of the table of runs, column by column."""
    selection = parse(q)
    order = parse_sort(sort)
    wanted = parse_columns(columns)
    with hub.database.read() as connection:
        found = list_table(
            connection,
            replace(selection, order=order) if order else selection,
            caller.visible,
            columns=wanted,
            search=search,
            limit=limit,
            offset=offset,
            archived=archived,
        )
    return as_json(found)


@router.get("/runs/columns", responses=problems(NotFound, Ambiguous))
def runs_columns(
    hub: TheHub, caller: Reader, q: Q = "", archived: Archived = False
) -> list[RunColumn]:
    """The columns a table of these runs can have, the most frequent first."""
    selection = parse(q)
    with hub.database.read() as connection:
        return known_columns(connection, selection, caller.visible, archived=archived)


@router.get("/runs/groups", responses=problems(NotFound, Ambiguous), response_model=RunGroups)
def runs_groups(
    hub: TheHub,
    caller: Reader,
    by: Annotated[Fields, Query(description="What the runs of a group have in common.")],
    q: Q = "",
    search: Search = "",
    sort: Annotated[Fields, Query(description="`-count`, what is grouped by, or a column.")] = "",
    columns: Annotated[Fields, Query(description="Numbers to put together.")] = "",
    archived: Archived = False,
    limit: Limit = 200,
    offset: Offset = 0,
) -> Response:
    """Runs in groups, with the mean, least and greatest of their numbers."""
    selection = parse(q)
    keys = parse_fields(by, MOST_KEYS)
    numbers = parse_fields(columns, MOST_COLUMNS)
    order = parse_sort(sort)
    with hub.database.read() as connection:
        found = group_runs(
            connection,
            selection,
            caller.visible,
            by=keys,
            columns=numbers,
            order=order,
            search=search,
            limit=limit,
            offset=offset,
            archived=archived,
        )
    return as_json(found)


@router.post("/runs/bulk", responses=problems(NotFound, Ambiguous))
def change_runs(hub: TheHub, caller: Writer, change: RunsChange) -> ChangedRuns:
    """Tags many runs, gives them a note, or puts them away; all of them or none."""
    if not change.q.strip() and not change.ids:
        raise BadRequest("name the runs to change, by ids or by q; all of them are `all`")
    selection = parse(change.q)
    with hub.database.begin() as connection:
        ids = resolve(connection, selection, caller.visible, trials=change.ids).run_ids
        places = workspaces_of_runs(connection, ids)
        for place in places:
            caller.require_write(place, "run")
        change_many(connection, ids, change)
    tell(hub, "runs", *places)
    return ChangedRuns(changed=len(ids))
