"""What was wrong with the fields of a request or of the settings, in one line for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def sentence(errors: Iterable[Mapping[str, Any]]) -> str:
    """Return what pydantic has found, each with the field it is about."""
    return "; ".join(
        f"{field}: {why}" if field else why for field, why in map(field_and_reason, errors)
    )


def field_and_reason(error: Mapping[str, Any]) -> tuple[str, str]:
    """Return the field that an error is about, empty if none, and what is wrong."""
    if error["type"] == "json_invalid":  # its place is an offset, and no field
        return "", f"this is not JSON: {error.get('ctx', {}).get('error', error['msg'])}"
    field = ".".join(map(str, error["loc"]))
    why = _text(error)
    return field, f"{why[:1].lower()}{why[1:]}" if field else why


def _text(error: Mapping[str, Any]) -> str:
    if error["type"] != "string_pattern_mismatch":
        return str(error["msg"]).removeprefix("Value error, ")
    # A pattern tells a person nothing.
    pattern = str(error.get("ctx", {}).get("pattern", ""))
    if r"\x1f" in pattern:
        return "one line, without control characters"
    if r"\x00" in pattern:
        return "text without zero bytes"
    return "letters, digits and _ . - alone, the first a letter, a digit or _"
