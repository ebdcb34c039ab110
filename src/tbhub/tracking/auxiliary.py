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
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from tbhub.api.problems import BadRequest
from tbhub.client.hub import Hub
from tbhub.client.tensorboard import TensorBoard
from tbhub.errors import TbhubError
from tbhub.tracking.executors import Executor, is_executor, read_executor
from tbhub.tracking.tensorboard_flags import Flags, read_flags
from tbhub.writer.event_file import warn

DAY = 86400.0
DEFAULT_PORT = 6006
_HUB_TIMEOUT = 10.0  # seconds an experiment waits for its hub
_MAX_NAME = 150  # letters of an experiment's name in a key

Uris = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def add_tensorboard(
    experiment: object,
    log_dir: Uris | None = None,
    port: object = DEFAULT_PORT,
    timeout_secs: float = DAY,
    args: Mapping[str, Any] | Iterable[str] | None = None,
    *,
    executor: object = None,
    logdir: Uris | None = None,
    termination_delay_secs: float | None = None,
    hub: Hub | None = None,
    **others: object,
) -> TensorBoard | None:
    """Add a board to an experiment and return at once; the same call again is the same board.

    Whatever is wrong with the call, the hub or the board is a warning: a launch script goes on
    without its board. What a board of the hub does not have, of the executor and of `args`, is
    named in a warning, too.

    Args:
        experiment: Whose board it is: a name, a number, or what has an ``experiment_id``, an ``id``
            or a ``name``.
        log_dir: A path or URI of logs, or several. Without one what `executor` names:
            ``Vertex(tensorboard=…)``.
        port: Where a TensorBoard of its own would listen. The hub serves all boards at its own
            address, so it is checked and not used; scripts written for XManager have it. An
            executor in its place is taken as one.
        timeout_secs: When the board ends, counted from this call; 0: never.
        args: Flags of TensorBoard's, as a mapping or as ``["--name=value"]``: ``window_title``,
            ``samples_per_plugin``, ``logdir``; and how runs are shown: ``name_template``,
            ``group_by``, ``hide_grouped``, ``samples``, ``follow``.
        executor: XManager's ``Local(docker_options=…)``, ``Kubernetes()`` or
            ``Vertex(tensorboard=…)``: the board is served wherever the hub serves boards. Or the
            launcher that it must be, by name or as ``tbhub.launchers.Slurm()``: a hub that has
            another one does not take the board.
        logdir: The same as `log_dir`.
        termination_delay_secs: How long it stays when this program has ended by itself; None, or
            where a signal ends it: as long as `timeout_secs` says.
        hub: The hub to ask; without one: see `Hub`.
        others: Named in a warning.

    Returns:
        The board, which may still be starting; None where there is none, as a warning has said.
    """
    try:
        if executor is None and is_executor(port):
            executor, port = port, DEFAULT_PORT
        _check("timeout_secs", timeout_secs)
        _check("termination_delay_secs", termination_delay_secs or 0)
        if not isinstance(port, int) or not 0 <= port <= 65535:
            raise ValueError(f"port is {port!r:.80}; it is a number between 0 and 65535")
        wanted, flags = read_executor(executor), read_flags(args)
        _warn_of_unused(executor, wanted, flags, sorted(others))
        places = _places(flags.log_dir or (log_dir if log_dir is not None else logdir), wanted)
        board = _create(experiment, places, wanted, flags, timeout_secs, hub)
    except Exception as error:  # a launch script never ends because of its board
        warn(f"experiment {_shown(experiment)} goes on without a TensorBoard: {error}")
        return None
    if termination_delay_secs is not None:
        atexit.register(_end_later, board, termination_delay_secs)
    return board


def _create(
    experiment: object,
    places: list[str | os.PathLike[str]],
    wanted: Executor,
    flags: Flags,
    timeout_secs: float,
    hub: Hub | None,
) -> TensorBoard:
    def create(launcher: str | None) -> TensorBoard:
        return TensorBoard.create(
            uri=places,
            wait=False,
            key=_key(experiment, [os.fspath(each) for each in places], flags.options),
            display_name=(flags.title or wanted.name or _identity(experiment))[:_MAX_NAME],
            max_runtime_in_minutes=timeout_secs / 60,
            launcher=launcher,
            hub=hub or Hub(timeout=_HUB_TIMEOUT, keep_alive=False),
            **flags.options,
        )

    try:
        board = create(wanted.launcher)
    except BadRequest as error:
        has = error.details.get("launcher")
        if wanted.must_match or has is None:
            raise
        warn(f"the hub serves the board by its launcher {has}, not by {wanted.launcher}")
        board = create(None)
    board.set_max_runtime(timeout_secs)  # also of a board that was there already
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
    if len(identity) > _MAX_NAME:
        identity = f"{identity[:_MAX_NAME]}…{_digest(identity)}"
    return f"experiment:{identity}"


def _key(experiment: object, places: list[str], options: Mapping[str, Any]) -> str:
    return f"{_prefix(experiment)}:{_digest(json.dumps([places, options], sort_keys=True))}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _places(given: Uris | None, wanted: Executor) -> list[str | os.PathLike[str]]:
    given = given if given is not None else wanted.log_dir
    places = [given] if isinstance(given, str | os.PathLike) else list(given or ())
    if not places or not all(os.fspath(each) for each in places):
        raise ValueError("log_dir is empty; it is a path or URI of logs, or several")
    return places


def _warn_of_unused(executor: object, wanted: Executor, flags: Flags, others: list[str]) -> None:
    """Name what was asked for and a single board of the hub does not have."""
    if wanted.unused:
        kind = executor if isinstance(executor, type) else type(executor)
        warn(
            f"not used for this board: {', '.join(wanted.unused)} of {kind.__name__}. Its options "
            "are set at the hub for all boards (--launcher-options), which serves them at its own "
            "address and reads with the credentials of `tbhub storage add`"
        )
    if flags.unused:
        warn(
            f"not used for this board: {', '.join(flags.unused)} of args. The hub serves and "
            "reloads all boards itself"
        )
    if others:
        warn(f"not used for this board: {', '.join(others)}; add_tensorboard has no such argument")


def _shown(experiment: object) -> str:
    try:
        return _identity(experiment)
    except ValueError:
        return type(experiment).__name__


def _end_later(board: TensorBoard, seconds: float) -> None:
    with suppress(TbhubError):  # else it ends by its timeout
        board.end_in(seconds)
