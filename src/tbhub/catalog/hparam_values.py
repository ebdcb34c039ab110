"""Hyperparameters as rows: what a person wrote comes back as it was, and numbers can be compared.

Booleans and integers keep their kind; TensorBoard's files hold every number as a double, so a whole
number in a file is an integer here.
"""

from __future__ import annotations

import math
from typing import Any

_EXACT = 1 << 53  # whole numbers a double can tell from their neighbours


def hparam_row(run_id: int, name: str, value: object) -> dict[str, Any]:
    """The row of a value."""
    kind, number, text = _parts(value)
    return {"run_id": run_id, "name": name, "number": number, "text": text, "kind": kind}


def hparam_value(kind: str, number: float | None, text: str) -> bool | int | float | str:
    """The value of a row."""
    if kind == "bool":
        return text == "true"
    if kind == "int":
        return int(text)
    if kind == "float":
        return float(text)
    return text


def from_file(value: object) -> object:
    """A value as it was before it became a double."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT:
        return int(value)
    return value


def _parts(value: object) -> tuple[str, float | None, str]:
    if isinstance(value, bool):
        return "bool", float(value), "true" if value else "false"
    if isinstance(value, int):
        number = float(value) if abs(value) < 10**300 else None
        return "int", number, str(value)
    if isinstance(value, float):
        return "float", value if math.isfinite(value) else None, repr(value)
    return "text", None, str(value)
