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

from tbhub.api.models import State
from tbhub.api.problems import BadRequest
from tbhub.client.hub import Hub
from tbhub.client.paths import absolute
from tbhub.client.tensorboard import TensorBoard, ending
from tbhub.errors import TbhubError
from tbhub.storage.errors import BadName
from tbhub.storage.uri import parse
from tbhub.tracking.executors import Executor, is_executor, read_executor
from tbhub.tracking.tensorboard_flags import Flags, read_flags
from tbhub.writer.event_file import warn

DAY = 86400.0
DEFAULT_PORT = 6006
_HUB_TIMEOUT = 10.0  # seconds an experiment waits for its hub
_MAX_SECONDS = 10 * 365 * 86400  # as the hub takes
_MAX_POSITIONAL = 5  # arguments of add_tensorboard
_MAX_NAME = 150  # letters of a board's name, and of an experiment's name in a key
_MAX_IDENTITY = 100  # letters of an experiment's name in the name of a board
_LOG_DIR = "it is a path or URI of logs, or several"

Uris = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def add_tensorboard(
    experiment: object = None,
    log_dir: Uris | None = None,
    port: object = DEFAULT_PORT,
    timeout_secs: float = DAY,
    args: Mapping[str, Any] | Iterable[str] | None = None,
    *unused: object,
    executor: object = None,
    logdir: Uris | None = None,
    termination_delay_secs: float | None = None,
    hub: Hub | None = None,
    **others: object,
) -> TensorBoard | None:
    """Add a board to an experiment and return at once; the same call again is the same board.

    Whatever is wrong with the call, the hub or the board is a warning: a launch script goes on
    without its board. What a board of the hub does not have, of the executor and of `args`, is
    named in a warning, too. The board is called by its experiment and the last part of `log_dir`,
    unless ``window_title`` names it.

    Args:
        experiment: Whose board it is: a name, a number, or what has an ``experiment_id``, an ``id``
            or a ``name``.
        log_dir: A path or URI of logs, or several. A relative path is one of this machine, below
            the current directory. Without one what `executor` names: ``Vertex(tensorboard=…)``.
        port: Where a TensorBoard of its own would listen. The hub serves all boards at its own
            address, so it is checked and not used; scripts written for XManager have it. An
            executor in its place is taken as one.
        timeout_secs: When the board ends, counted from this call, or from its start if it has not
            started yet; 0: never.
        args: Flags of TensorBoard's, as a mapping or as ``["--name=value"]``: ``window_title``,
            ``samples_per_plugin``, ``logdir``; and how runs are shown: ``name_template``,
            ``group_by``, ``hide_grouped``, ``samples``, ``follow``.
        unused: Named in a warning.
        executor: XManager's ``Local(docker_options=…)``, ``Kubernetes()`` or
            ``Vertex(tensorboard=…)``: the board is served wherever the hub serves boards. Or the
            launcher that it must be, by name or as ``tbhub.launchers.Slurm()``: a hub that has
            another one does not take the board.
        logdir: The same as `log_dir`, which is used if both are given.
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
        _identity(experiment)
        _check("timeout_secs", timeout_secs)
        if termination_delay_secs is not None:
            _check("termination_delay_secs", termination_delay_secs)
        if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 65535:
            raise ValueError(f"port is {port!r:.80}; it is a number between 0 and 65535")
        if hub is not None and not isinstance(hub, Hub):
            raise ValueError(f"hub is {hub!r:.80}; it is a tbhub.Hub, or None")
        wanted, flags = read_executor(executor), read_flags(args)
        positions = range(_MAX_POSITIONAL + 1, _MAX_POSITIONAL + 1 + len(unused))
        positional = [f"positional argument {number}" for number in positions]
        _warn_of_unused(executor, wanted, flags, positional + sorted(others))
        given = {"args logdir": flags.log_dir, "log_dir": log_dir, "logdir": logdir}
        places = _places(_first(given), wanted)
        board = _create(experiment, places, wanted, flags, timeout_secs, hub)
    except Exception as error:  # a launch script never ends because of its board
        warn(f"{_shown(experiment)} goes on without a TensorBoard: {error}")
        return None
    if board.details.state == State.FAILED:
        warn(ending(board.details))
    if termination_delay_secs is not None:
        atexit.register(_end_later, board, termination_delay_secs)
    return board


def _create(
    experiment: object,
    places: list[str],
    wanted: Executor,
    flags: Flags,
    timeout_secs: float,
    hub: Hub | None,
) -> TensorBoard:
    def create(launcher: str | None) -> TensorBoard:
        return TensorBoard.create(
            uri=places,
            wait=False,
            key=_key(experiment, places, flags.options),
            display_name=(flags.title or wanted.name or _name(experiment, places))[:_MAX_NAME],
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
    title = (flags.title or "")[:_MAX_NAME]
    if title and board.details.name != title:
        warn(f"the board was there already: it is called {board.details.name}, not {title}")
    # A board that was there already has a limit of its own, or has used up a part of it.
    has_limit = math.isclose(board.details.max_runtime or 0, timeout_secs)
    if not has_limit or board.details.deadline is not None:
        board.set_max_runtime(timeout_secs)
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
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 <= seconds <= _MAX_SECONDS:
        raise ValueError(
            f"{name} is {seconds!r:.80}; it is between 0 and {_MAX_SECONDS} seconds (10 years)"
        )


def _identity(experiment: object) -> str:
    if _is_identity(experiment):
        return str(experiment)
    for name in ("experiment_id", "id", "name"):
        try:
            value = getattr(experiment, name, None)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise ValueError(f"the experiment's {name} cannot be read: {reason}") from error
        if _is_identity(value):
            return str(value)
    is_plain = experiment is None or isinstance(experiment, str | bool)
    shown = repr(experiment) if is_plain else type(experiment).__name__
    raise ValueError(
        f"{shown} is no experiment: give a name, a number, or what has an experiment_id, an id or "
        "a name"
    )


def _is_identity(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip() != ""


def _name(experiment: object, places: list[str]) -> str:
    """Return what a board is called unless a flag or an executor names it; one line."""
    last_parts = (each.rstrip("/").rpartition("/")[2] or each for each in places)
    text = f"{_identity(experiment)[:_MAX_IDENTITY]} {', '.join(dict.fromkeys(last_parts))}"
    return "".join(each if each.isprintable() else "?" for each in text)


def _prefix(experiment: object) -> str:
    identity = _identity(experiment)
    if len(identity) > _MAX_NAME:
        identity = f"{identity[:_MAX_NAME]}…{_digest(identity)}"
    return f"experiment:{identity}"


def _key(experiment: object, places: list[str], options: Mapping[str, Any]) -> str:
    shows = json.dumps([places, options], sort_keys=True, default=repr)
    return f"{_prefix(experiment)}:{_digest(shows)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _first(given: Mapping[str, Any]) -> Any:
    """Return the first of some arguments that is given, and warn if it is not the only one."""
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        warn(f"{' and '.join(names)} are given; {names[0]} is used")
    return given[names[0]] if names else None


def _places(given: Any, wanted: Executor) -> list[str]:
    """Return paths from the root on, and URIs."""
    given = given if given is not None else wanted.log_dir or ()
    is_one = isinstance(given, str | os.PathLike | bytes | Mapping)
    places = [given] if is_one or not isinstance(given, Iterable) else list(given)
    if not places:
        raise ValueError(f"log_dir is empty; {_LOG_DIR}")
    return [_place(each) for each in places]


def _place(given: object) -> str:
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(text, str):
        raise ValueError(f"log_dir is {given!r:.80}; {_LOG_DIR}")
    if not text:
        raise ValueError(f"log_dir is empty; {_LOG_DIR}")
    try:
        parse(text)
    except BadName as error:
        raise ValueError(f"log_dir cannot be read: {error.where}: {error.what}") from None
    return absolute(text)


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
        return f"experiment {_identity(experiment)}"
    except Exception:
        return "the experiment"


def _end_later(board: TensorBoard, seconds: float) -> None:
    with suppress(TbhubError):  # else it ends by its timeout
        board.end_in(seconds)
