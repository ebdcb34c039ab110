"""Hyperparameters as the hub keeps them; pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

HParam = bool | int | float | str


def plain_hparams(hparams: Mapping[str, Any]) -> dict[str, HParam]:
    """Each value as a bool, a number or a text; None means not set, so it is left out.

    Raises:
        TypeError: A name is no str.
    """
    for name in hparams:
        if not isinstance(name, str):
            raise TypeError(f"hparams must have str keys, got {name!r:.40}")
    return {name: _plain(value) for name, value in hparams.items() if value is not None}


def parse_hparam(text: str) -> tuple[str, HParam]:
    """``name=value`` of a command line; a value that reads as a number or a bool is one.

    Raises:
        ValueError: It is not of that form.
    """
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ValueError(f"{text!r}: write a hyperparameter like lr=0.01")
    if value.lower() in ("true", "false"):
        return name, value.lower() == "true"
    for kind in (int, float):
        try:
            return name, _plain(kind(value))
        except ValueError:
            pass
    return name, value


def _plain(value: Any) -> HParam:
    if hasattr(value, "item") and hasattr(value, "dtype"):  # of NumPy, torch, JAX, …
        with suppress(ValueError, TypeError, RuntimeError):  # several are no number
            value = value.item()
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if abs(value) <= 2**256 else str(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if isinstance(value, list | tuple | dict):
        try:
            return json.dumps(value)
        except (TypeError, ValueError):
            return str(value)
    return str(getattr(value, "__name__", value)) if callable(value) else str(value)
