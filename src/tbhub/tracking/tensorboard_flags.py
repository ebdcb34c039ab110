"""Read ``args`` of `add_tensorboard`: flags of TensorBoard's, and options of a board; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_OPTIONS = ("follow", "group_by", "hide_grouped", "name_template", "samples")
_MAX_SAMPLES = 1_000_000
_MIN_SAMPLES = 2


@dataclass
class Flags:
    """What flags mean for a board.

    Attributes:
        options: How runs are shown; see `TensorBoard.create`.
        log_dir: Where the logs are, if a flag says so; not checked.
        title: What the window is called, if a flag says so.
        unused: Flags that a board of the hub does not have.
    """

    options: dict[str, Any] = field(default_factory=dict)
    log_dir: Any = None
    title: str | None = None
    unused: list[str] = field(default_factory=list)


def read_flags(args: Mapping[str, Any] | Iterable[str] | None) -> Flags:
    """Return what flags mean: ``{"window_title": "a"}`` or ``["--window_title=a"]``.

    Raises:
        ValueError: They are neither, or a value cannot be.
    """
    found = Flags()
    for name, value in _pairs(args):
        if name in _OPTIONS:
            found.options[name] = value
        elif name == "logdir":
            found.log_dir = value
        elif name == "window_title":
            found.title = None if value is None else str(value)
        elif name == "samples_per_plugin":
            _read_samples(found, value)
        else:
            found.unused.append(name)
    return found


def _pairs(args: Mapping[str, Any] | Iterable[str] | None) -> list[tuple[str, Any]]:
    if args is None:
        return []
    if isinstance(args, Mapping):
        return [(_name(str(name)), value) for name, value in args.items()]
    is_list = isinstance(args, Iterable) and not isinstance(args, str | bytes)
    flags = list(args) if is_list else []
    if not is_list or not all(isinstance(each, str) for each in flags):
        raise ValueError(
            f"args is {args!r:.80}; it names flags: {{'window_title': 'mine'}} or "
            "['--window_title=mine']"
        )
    words = [each.partition("=") for each in flags]
    return [(_name(name), value if equals else True) for name, equals, value in words]


def _name(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_")


def _read_samples(found: Flags, value: Any) -> None:
    """Take the number of scalars; TensorBoard's 0 means all."""
    if isinstance(value, Mapping):
        value = ",".join(f"{plugin}={number}" for plugin, number in value.items())
    for plugin, number in _samples_of_text(str(value)):
        if plugin == "scalars":
            wanted = int(number) or _MAX_SAMPLES
            found.options["samples"] = min(max(wanted, _MIN_SAMPLES), _MAX_SAMPLES)
        else:
            found.unused.append(f"samples_per_plugin {plugin}")


def _samples_of_text(text: str) -> list[tuple[str, str]]:
    """Take ``scalars=500,images=10`` apart."""
    found = []
    for part in filter(None, text.split(",")):
        plugin, equals, number = part.partition("=")
        if not equals or not number.strip().isdecimal():
            raise ValueError(
                f"samples_per_plugin is {text!r:.80}; it is like scalars=500,images=10"
            )
        found.append((plugin.strip(), number.strip()))
    return found
