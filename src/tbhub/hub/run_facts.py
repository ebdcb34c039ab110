"""What hosts are told of a run of the catalog: the columns and hyperparameters of a row."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from tbhub.catalog.hparam_values import hparam_value
from tbhub.catalog.selection import TIMES, Field, Metric
from tbhub.catalog.selection import Column as RunColumn
from tbhub.catalog.table import load_columns, template_columns
from tbhub.catalog.templates import parse_template

_EXACT = 1 << 63
_MAX_FLOAT32 = 3.4e38
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
                found[number][name] = shown(fields[name], value)
    return found


def shown(field: Field, value: Any) -> Any:
    """Return a value as a name shows it.

    Times to the minute, durations in seconds, metrics with the digits that a float32 has.
    """
    if isinstance(field, RunColumn) and field.name in _TIMES:
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%dT%H:%M")
    if isinstance(field, RunColumn) and field.name == "duration":
        return f"{round(value)}s"
    if isinstance(field, Metric) and isinstance(value, float):
        return _shortest(value)
    return value


def _shortest(value: float) -> float:
    """Return the number with the fewest digits that is the same float32, if `value` is one."""
    if not _is_float32(value):
        return value
    shorter = (float(f"{value:.{digits}g}") for digits in range(1, 9))
    return next((each for each in shorter if _as_float32(each) == value), value)


def _is_float32(value: float) -> bool:
    return math.isfinite(value) and abs(value) <= _MAX_FLOAT32 and _as_float32(value) == value


def _as_float32(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def sendable(row: Any) -> bool | int | float | str:
    """Return a hyperparameter as it can be sent to a host."""
    value = hparam_value(row.kind, row.number, row.text)
    return value if _is_json(value) else str(row.text)


def _is_json(value: bool | int | float | str) -> bool:
    """Whether it arrives as it was sent."""
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or abs(value) < _EXACT
