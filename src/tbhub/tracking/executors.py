"""Read what `add_tensorboard` is given as an executor: ours, or XManager's by shape; pure.

XManager is not imported: its executors are told by the name of their class and what they hold.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tbhub.launchers.base import Options

BUCKET = "GOOGLE_CLOUD_BUCKET_NAME"
"""The default bucket of XManager's jobs."""
# What each of XManager's executors is told by where its class has another name.
_SHAPES = {"docker_options": "Local", "cloud_provider": "Kubernetes", "tensorboard": "Vertex"}
_KINDS = {"Local": None, "Kubernetes": "kubernetes", "Vertex": None, "Caip": None}
_NESTED = "docker_options"
_READ = "tensorboard"  # of Vertex: it is used, and not an option of a container


@dataclass(frozen=True)
class Executor:
    """What an executor means for a board.

    Attributes:
        launcher: The launcher that is meant; None for any.
        must_match: A hub with another launcher does not take the board.
        unused: Options that were set and that a single board does not have.
        log_dir: The directory that it names, if any.
        name: The TensorBoard that it names, if any.
    """

    launcher: str | None = None
    must_match: bool = False
    unused: tuple[str, ...] = ()
    log_dir: str | None = None
    name: str | None = None


def read_executor(executor: object) -> Executor:
    """Return what an executor means.

    Raises:
        ValueError: It is none.
    """
    if executor is None:
        return Executor()
    if isinstance(executor, str):
        return Executor(executor, must_match=True)
    if isinstance(executor, type) and issubclass(executor, Options):
        return Executor(executor.launcher, must_match=True)
    if isinstance(executor, Options):
        unused = tuple(sorted(executor.model_fields_set))
        return Executor(executor.launcher, must_match=True, unused=unused)
    kind = _kind(executor)
    if isinstance(executor, type):
        return Executor(_KINDS[kind])
    capability = getattr(executor, _READ, None) if _KINDS[kind] is None else None
    return Executor(
        _KINDS[kind],
        unused=tuple(_set_options(executor)),
        log_dir=output_directory(_text(capability, "base_output_directory"))
        if capability
        else None,
        name=_text(capability, "name"),
    )


def is_executor(value: object) -> bool:
    """Return whether a value is an executor, rather than something else in its place."""
    if value is None or isinstance(value, str):
        return False
    try:
        read_executor(value)
    except ValueError:
        return False
    return True


def output_directory(given: str | None, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return where jobs on Vertex log: ``bucket/path`` is one of Google's, none the default bucket.

    Paths of this machine are taken where they begin with a slash or a dot.
    """
    text = given or environ.get(BUCKET)
    if text and "://" not in text and not text.startswith(("/", ".", "~")):
        return f"gs://{text}"
    return text or None


def _kind(executor: object) -> str:
    named = (executor if isinstance(executor, type) else type(executor)).__name__
    if named in _KINDS:
        return named
    for attribute, kind in _SHAPES.items():
        if hasattr(executor, attribute):
            return kind
    raise ValueError(
        f"executor is {named}; it is a launcher's name, one of tbhub.launchers, or XManager's "
        f"{', '.join(_KINDS)}"
    )


def _set_options(given: object) -> list[str]:
    """Return the names of attributes that differ from those of an object made without any."""
    plain = _made_plain(given)
    found = []
    for name, value in sorted(getattr(given, "__dict__", {}).items()):
        if name == _NESTED and value is not None:
            found += [f"{_NESTED}.{each}" for each in _set_options(value)]
        elif name != _READ and not name.startswith("_") and not _is_same(plain, name, value):
            found.append(name)
    return found


def _made_plain(given: object) -> object | None:
    try:
        return type(given)()
    except Exception:  # it takes arguments, or cannot be made here
        return None


def _is_same(plain: object | None, name: str, value: Any) -> bool:
    if plain is None:
        return not value
    default = getattr(plain, name, None)
    return bool(value is default or value == default or (value in (None, {}, []) and not default))


def _text(capability: object, name: str) -> str | None:
    value = getattr(capability, name, None)
    return value if isinstance(value, str) and value else None
