"""Boards beside an experiment, as XManager's ``add_tensorboard``: never in its way.

A board is known by its experiment and what it shows, so that two of one experiment do not collide
and a later process finds them again; the hub serves it, whatever becomes of the script.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import math
import os
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from tbhub.client.hub import Hub
from tbhub.client.tensorboard import TensorBoard
from tbhub.errors import TbhubError, TbhubWarning
from tbhub.launchers.base import Options

DAY = 86400.0
_PATIENCE = 10.0  # seconds an experiment waits for its hub
_LONGEST = 150  # letters of an experiment's name in a key
_ARGS = ("follow", "group_by", "hide_grouped", "samples", "template")

Uris = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def add_tensorboard(
    experiment: object,
    log_dir: Uris,
    port: int = 6006,
    *,
    timeout_secs: float = DAY,
    executor: Options | type[Options] | str | None = None,
    args: Mapping[str, Any] | None = None,
    termination_delay_secs: float | None = None,
    hub: Hub | None = None,
) -> TensorBoard | None:
    """Adds a board to an experiment and goes on at once; the same again is the same board.

    What goes wrong with the board is a warning, so that training goes on without it.

    Args:
        experiment: Whose board it is: a name, a number, or what has an ``experiment_id``, an ``id``
            or a ``name``.
        log_dir: A path or URI of logs, or several.
        port: Where a TensorBoard of its own would listen. The hub serves all boards at its own
            address, so it is checked and not used; scripts written for XManager have it.
        timeout_secs: When the board ends, counted from this call; 0: never.
        executor: The launcher it is meant for, by name or as ``tbhub.launchers.Slurm()``; a hub
            that has another one does not take the board.
        args: How runs are shown: ``template``, ``group_by``, ``hide_grouped``, ``samples``,
            ``follow``.
        termination_delay_secs: How long it stays when this program has ended by itself; None, or
            where a signal ends it: as long as `timeout_secs` says.
        hub: The hub to ask; without one: see `Hub`.

    Returns:
        The board, which may be on its way; None where there is none, as a warning has said.

    Raises:
        ValueError: A number or an argument that cannot be.
    """
    _check("timeout_secs", timeout_secs)
    _check("termination_delay_secs", termination_delay_secs or 0)
    if not isinstance(port, int) or not 0 <= port <= 65535:
        raise ValueError(f"port is {port!r}; it is a number between 0 and 65535")
    if not isinstance(args or {}, Mapping):
        raise ValueError(f"args is {args!r}; it names options: {{'group_by': 'lr'}}")
    options = dict(args or {})
    if unknown := sorted(set(options) - set(_ARGS)):
        raise ValueError(f"args has {', '.join(unknown)}; a board has {', '.join(_ARGS)}")
    places = [log_dir] if isinstance(log_dir, str | os.PathLike) else list(log_dir)
    if not places or not all(os.fspath(each) for each in places):
        raise ValueError("log_dir is empty; it is a path or URI of logs, or several")
    try:
        board = TensorBoard.create(
            uri=places,
            wait=False,
            key=_key(experiment, [os.fspath(each) for each in places], options),
            display_name=f"{_identity(experiment)}"[:_LONGEST],
            max_runtime_in_minutes=timeout_secs / 60,
            launcher=_launcher(executor),
            hub=hub or Hub(timeout=_PATIENCE, keep_alive=False),
            **options,
        )
        board.set_max_runtime(timeout_secs)  # also of a board that was there already
    except TbhubError as error:
        text = f"experiment {_identity(experiment)} goes on without a TensorBoard: {error}"
        warnings.warn(text, TbhubWarning, stacklevel=2)
        return None
    if termination_delay_secs is not None:
        atexit.register(_end_later, board, termination_delay_secs)
    return board


def tensorboards_of(experiment: object, *, hub: Hub | None = None) -> list[TensorBoard]:
    """The boards that `add_tensorboard` has added to an experiment, in this process or another.

    Args:
        experiment: See `add_tensorboard`.
        hub: The hub to ask; without one: see `Hub`.
    """
    mine = _prefix(experiment)
    found = TensorBoard.list(hub=hub)
    return [each for each in found if (each.details.key or "").rpartition(":")[0] == mine]


def _check(name: str, seconds: float) -> None:
    if not (isinstance(seconds, int | float) and math.isfinite(seconds) and seconds >= 0):
        raise ValueError(f"{name} is {seconds!r}; it is 0 or more seconds")


def _identity(experiment: object) -> str:
    if isinstance(experiment, str | int):
        return str(experiment)
    for name in ("experiment_id", "id", "name"):
        value = getattr(experiment, name, None)
        if isinstance(value, str | int):
            return str(value)
    raise ValueError(
        f"{type(experiment).__name__} is no experiment: give a name, a number, or what has an "
        "experiment_id, an id or a name"
    )


def _prefix(experiment: object) -> str:
    identity = _identity(experiment)
    if len(identity) > _LONGEST:
        identity = f"{identity[:_LONGEST]}…{_digest(identity)}"
    return f"experiment:{identity}"


def _key(experiment: object, places: list[str], options: Mapping[str, Any]) -> str:
    return f"{_prefix(experiment)}:{_digest(json.dumps([places, options], sort_keys=True))}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _launcher(executor: Options | type[Options] | str | None) -> str | None:
    if isinstance(executor, type):
        return executor.launcher
    if not isinstance(executor, Options):
        return executor
    if executor.model_fields_set:
        text = f"the options of {type(executor).__name__} are set at the hub, not for one board"
        warnings.warn(text, TbhubWarning, stacklevel=3)
    return executor.launcher


def _end_later(board: TensorBoard, seconds: float) -> None:
    with suppress(TbhubError):  # else it ends by its timeout
        board.end_in(seconds)
