"""What hosts are told of a run of the catalog: the columns and hyperparameters of a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from tbhub.catalog.hparam_values import hparam_value
from tbhub.catalog.selection import TIMES, Field
from tbhub.catalog.selection import Column as RunColumn
from tbhub.catalog.table import load_columns, template_columns
from tbhub.catalog.templates import parse_template

_EXACT = 1 << 63
_TIMES = TIMES | {"heartbeat"}


def run_columns(row: Any) -> dict[str, Any]:
    """Return what names and groups of a run are made of."""
    return {
        "workspace": row.workspace,
        "run": row.name,
        "experiment": row.experiment,
        "experiment_id": row.experiment_id,
        "id": row.id,
    }


def template_values(
    connection: Connection, ids: Sequence[int], template: str
) -> dict[int, dict[str, Any]]:
    """Return what a name template needs of each run beside the columns that every run has."""
    fields = template_columns(parse_template(template).fields) if template else {}
    found: dict[int, dict[str, Any]] = {number: {} for number in ids}
    for name, values in load_columns(connection, ids, fields).items():
        for number, value in zip(ids, values, strict=True):
            if value is not None:
                found[number][name] = _shown(fields[name], value)
    return found


def _shown(field: Field, value: Any) -> Any:
    """Return a value as a name shows it: times to the minute, durations in seconds."""
    if isinstance(field, RunColumn) and field.name in _TIMES:
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%dT%H:%M")
    if isinstance(field, RunColumn) and field.name == "duration":
        return f"{round(value)}s"
    return value


def sendable(row: Any) -> bool | int | float | str:
    """Return a hyperparameter as it can be sent to a host."""
    value = hparam_value(row.kind, row.number, row.text)
    return value if _is_json(value) else str(row.text)


def _is_json(value: bool | int | float | str) -> bool:
    """Whether it arrives as it was sent."""
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or abs(value) < _EXACT
