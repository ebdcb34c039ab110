"""What was wrong with the fields of a request or of the settings, in one line for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def sentence(errors: Iterable[Mapping[str, Any]]) -> str:
    """What pydantic has found, each with the field it is about."""
    found = []
    for each in errors:
        if each["type"] == "json_invalid":  # its place is an offset, and no field
            found.append(f"this is not JSON: {each.get('ctx', {}).get('error', each['msg'])}")
            continue
        name = ".".join(map(str, each["loc"]))
        text = _text(each)
        found.append(f"{name}: {text[:1].lower()}{text[1:]}" if name else text)
    return "; ".join(found)


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
