"""``--config`` and ``--config-file`` of ``tbhub start``: options of a board as a document."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tbhub.cli.text import duration

_YES = frozenset({"true", "yes", "on", "1"})
_NO = frozenset({"false", "no", "off", "0"})


@dataclass(frozen=True)
class _Kind:
    """What the value of a key is; `convert` raises if it is something else."""

    convert: Callable[[Any], Any]
    expected: str
    example: str


@dataclass(frozen=True)
class BoardConfig:
    """What a configuration says of a board.

    Args:
        values: Fields of `NewBoard` and of `BoardOptions`, by name.
        ignored: Keys that mean nothing here, with dots: ``resources.slots``.
    """

    values: dict[str, Any] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()


def read_board_config(pairs: Sequence[str], file: str | None) -> BoardConfig:
    """Read what ``--config KEY=VALUE`` and ``--config-file FILE`` say; the former count more.

    Raises:
        ValueError: A pair, a value or the file cannot be understood.
        OSError: The file cannot be read.
    """
    found: list[tuple[str, Any, str]] = []
    if file is not None:
        found += [(*pair, f"{file}: ") for pair in _flat(_read_file(file))]
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"--config {pair}: hint: write KEY=VALUE, like idle_timeout=30m")
        found += [(*each, "--config ") for each in _flat({key.strip(): _parse_value(text)})]
    values: dict[str, Any] = {}
    ignored: dict[str, None] = {}
    for key, value, where in found:
        known = _KEYS.get(key.removeprefix("options."))
        if value is None:
            continue
        if known is None:
            ignored[key] = None
            continue
        name, kind = known
        try:
            values[name] = kind.convert(value)
        except (ValueError, TypeError, OverflowError):
            raise ValueError(
                f"{where}{key}: expected {kind.expected}, got {value!r}. hint: write {kind.example}"
            ) from None
    return BoardConfig(values, tuple(ignored))


def _flat(found: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value that is no mapping, with its key: ``resources.slots``."""
    for key, value in found.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _parse_value(text: str) -> Any:
    """Return a list or mapping in JSON as such, and anything else as text."""
    if text.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(text)
        except ValueError:
            pass
    return None if text.strip() == "null" else text


def _read_file(path: str) -> Mapping[str, Any]:
    kind = os.path.splitext(path)[1].lower()
    with open(path, "rb") as file:
        content = file.read()
    try:
        text = content.decode("utf-8-sig")
        if kind == ".toml":
            found: Any = tomllib.loads(text)
        elif kind == ".json":
            found = json.loads(text)
        else:
            found = _read_yaml(path, text)
    except ValueError as error:  # of all kinds: text that cannot be decoded or parsed
        reason = str(error).splitlines()[0]
        raise ValueError(f"{path}: {reason}. hint: write JSON, TOML (.toml) or YAML") from None
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise ValueError(f"{path}: expected keys and values, got {type(found).__name__}")
    return found


def _read_yaml(path: str, text: str) -> Any:
    """Parse YAML; JSON, which is YAML, also without PyYAML."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise ValueError("reading YAML requires the package PyYAML (pip install pyyaml)") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError
    return str(value)


def _flag(value: Any) -> bool:
    text = str(value).strip().lower()
    if text not in _YES | _NO:
        raise ValueError
    return text in _YES


def _number(value: Any) -> int:
    if isinstance(value, bool | float):
        raise TypeError
    return int(value)


def _time(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError
    return duration(str(value))


def _list_of(convert: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    def converted(value: Any) -> list[Any]:
        return [convert(each) for each in (value if isinstance(value, list) else [value])]

    return converted


_TEXT = _Kind(_text, "text", "words")
_FLAG = _Kind(_flag, "true or false", "true or false")
_NUMBER = _Kind(_number, "a whole number", "digits")
_TIME = _Kind(_time, "a time", "90, 15m, 2h or 3d; 0 is no limit")
_NUMBERS = _Kind(_list_of(_number), "whole numbers", "a list like [3, 4]")
_TEXTS = _Kind(_list_of(_text), "texts", 'a list like ["/data/a", "s3://bucket/b"]')
_SELECTORS = _Kind(_list_of(_text), "selectors", 'a list like ["exp:mnist where lr<.1"]')
# Determined's names, those of the options of `tbhub start`, and those `tbhub config` prints.
_KEYS: dict[str, tuple[str, _Kind]] = {
    "description": ("name", _TEXT),
    "name": ("name", _TEXT),
    "key": ("key", _TEXT),
    "workspace": ("workspace", _TEXT),
    "reuse": ("reuse", _FLAG),
    "follow": ("follow", _FLAG),
    "idle_timeout": ("idle_timeout", _TIME),
    "no_data_timeout": ("no_data_timeout", _TIME),
    "max_runtime": ("max_runtime", _TIME),
    "template": ("template", _TEXT),
    "name_template": ("template", _TEXT),
    "group_by": ("group_by", _TEXT),
    "hide_grouped": ("hide_grouped", _FLAG),
    "samples": ("samples", _NUMBER),
    "requests_per_minute": ("requests_per_minute", _NUMBER),
    "runs": ("runs", _TEXT),
    "experiments": ("experiments", _NUMBERS),
    "trials": ("trials", _NUMBERS),
    "uris": ("uris", _TEXTS),
    "added": ("added", _SELECTORS),
    "removed": ("removed", _SELECTORS),
}
