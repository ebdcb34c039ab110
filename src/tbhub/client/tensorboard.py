"""TensorBoards from Python: made, found, waited for, stopped.

from tbhub import TensorBoard

board = TensorBoard.create(uri="runs/")
print(board.app_uri)
board.stop()
"""

from __future__ import annotations

import builtins
import math
import os
import time
import warnings
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar, overload

from tbhub.api.models import (
    Board,
    BoardChange,
    BoardOptions,
    BoardRuns,
    LogLine,
    NewBoard,
    NewShare,
    Reason,
    State,
)
from tbhub.api.problems import Forbidden
from tbhub.client import calls
from tbhub.client.board_status import BoardStatus
from tbhub.client.errors import SourceUnreadable, UnexpectedStatusException, WaitTimeout
from tbhub.client.find import every_board, find_board
from tbhub.client.hub import AsyncHub, Hub
from tbhub.client.replies import Lost, Reply, read
from tbhub.client.sources import Named, Selectors, Uris, find_trials, sources
from tbhub.client.steps import Awaiting, Both, Pause, Steps, Waiting, ask
from tbhub.errors import TbhubError

T = TypeVar("T")
P = ParamSpec("P")

UP = frozenset({State.RUNNING, State.WAITING})
ENDED = frozenset({State.STOPPED, State.TERMINATED, State.FAILED})
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
_ANSWER_TIMEOUT = 35.0  # seconds; a store has answered or failed by then, see `bucket.PATIENCE`
# How much of a board's log is looked through for warnings, and how much of these is told.
_LAST_LINES, _MOST_WARNINGS, _LONGEST_WARNING = 100, 3, 500


class _Makes(Generic[P]):
    """A class method whose steps end in a board, which it wraps."""

    def __init__(self, steps: Callable[P, Steps[Board]]) -> None:
        self._steps = steps
        self.__doc__ = steps.__doc__

    @overload
    def __get__(self, mine: Any, owner: type[TensorBoard]) -> Callable[P, TensorBoard]: ...
    @overload
    def __get__(
        self, mine: Any, owner: type[AsyncTensorBoard]
    ) -> Callable[P, Coroutine[Any, Any, AsyncTensorBoard]]: ...
    def __get__(self, mine: Any, owner: Any) -> Any:
        @wraps(self._steps)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return owner._made(self._steps(*args, **kwargs), kwargs.get("hub"))

        return method


class _Finds(Generic[P]):
    """A class method whose steps end in several boards."""

    def __init__(self, steps: Callable[P, Steps[builtins.list[Board]]]) -> None:
        self._steps = steps
        self.__doc__ = steps.__doc__

    @overload
    def __get__(
        self, mine: Any, owner: type[TensorBoard]
    ) -> Callable[P, builtins.list[TensorBoard]]: ...
    @overload
    def __get__(
        self, mine: Any, owner: type[AsyncTensorBoard]
    ) -> Callable[P, Coroutine[Any, Any, builtins.list[AsyncTensorBoard]]]: ...
    def __get__(self, mine: Any, owner: Any) -> Any:
        @wraps(self._steps)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return owner._found(self._steps(*args, **kwargs), kwargs.get("hub"))

        return method


def _check_positional(
    wait: object, display_name: object, minutes: object, source_id: object, source_type: object
) -> None:
    """Raise `TypeError` for arguments of `create` that were meant for another parameter."""
    if not isinstance(wait, bool):
        raise TypeError(
            f"wait takes True or False, not {wait!r}. hint: name what to show: runs={wait!r}"
        )
    texts = {"display_name": display_name, "source_id": source_id, "source_type": source_type}
    for name, value in texts.items():
        if value is not None and not isinstance(value, str):
            raise TypeError(
                f"{name} takes text, not {value!r}. hint: pass runs, experiments and trials by name"
            )
    if minutes is not None and (isinstance(minutes, bool) or not isinstance(minutes, int | float)):
        raise TypeError(f"max_runtime_in_minutes takes a number, not {minutes!r}")


def _create(
    uri: Uris | None = None,
    wait: bool = True,
    display_name: str | None = None,
    max_runtime_in_minutes: float | None = None,
    source_id: str | None = None,
    source_type: str | None = None,
    *,
    runs: Selectors | None = None,
    experiments: Named | None = None,
    trials: Named | None = None,
    key: str | None = None,
    idle_timeout: float | None = None,
    no_data_timeout: float | None = None,
    timeout: float | None = 60.0,
    follow: bool = False,
    reuse: bool = False,
    name_template: str | None = None,
    group_by: str | None = None,
    hide_grouped: bool | None = None,
    samples: int | None = None,
    requests_per_minute: int | None = None,
    launcher: str | None = None,
    strict: bool = True,
    session: object = None,
    hub: Hub | AsyncHub | None = None,
) -> Steps[Board]:
    """Makes a board over runs named in any of these ways; together they are the union.

    Positional arguments are those of PAI's `TensorBoard.create`, in its order.

    Args:
        uri: A path or URI of logs, or several. A relative path is one of this machine.
        wait: Return when the board is up.
        display_name: What it is called; without one it gets a pet name.
        max_runtime_in_minutes: When it ends whatever happens; 0: never.
        source_id: With `source_type`, what the board belongs to. The same source is the same
            board, as with `key`.
        source_type: See `source_id`.
        runs: A selector: ``"exp:7"``, ``"run1-run5 where lr<0.01"``. Or several without ``where``,
            ``order by`` and ``limit``.
        experiments: An experiment by number or name, or several.
        trials: A run by number (``23``, ``"23"``, ``"#23"``, ``"trial:23"``) or name, or several.
        key: Get-or-create: the same key is the same board, started if it was not. It shows what it
            was made with and what was added to it, whatever is asked for now; its name, times and
            options stay, too. A warning says so where its sources or options are others.
        idle_timeout: Seconds without anybody looking after which it stops; 0: never. Without it
            the hub's.
        no_data_timeout: Seconds without anything logged after which it ends; 0: never. Without it
            the hub's.
        timeout: Seconds `wait` may take; None: as long as it takes.
        follow: Runs that come to match later are shown, too.
        reuse: Take a board of mine with the same sources, if there is one.
        name_template: How runs are named: ``"{experiment}_{run}_lr={hparams.lr}"``. Without it
            ``TBHUB_NAME_TEMPLATE``, then the default of the user, the workspace or the hub.
        group_by: Show mean and spread of runs alike in these: ``"all except seed"``.
        hide_grouped: Show groups only, not the runs in them.
        samples: How many points are drawn of a series.
        requests_per_minute: How often the stores of its runs may be asked; where that is used up
            they are listed more seldom, and new points come later.
        launcher: What the hub must serve boards by: ``"slurm"``; without it whatever it does.
        strict: With `wait`, raise where something that the board is to show cannot be read; if
            False, warn. A path that does not exist yet is waited for.
        session: Not used: scripts for PAI pass theirs.
        hub: The hub to ask; without one: see `Hub`.

    Raises:
        TypeError: An argument is of a kind that it does not take.
        BadRequest: There is nothing to show, or a selector or a number cannot be.
        NotFound: There is no such run, or none that may be seen.
        TensorboardLimitExceeded: No more boards may run; its details name those that do.
        WaitTimeout: It was not up in time; it is there and may still come up. With the last
            warnings of its log.
        UnexpectedStatusException: It has failed, with the reason.
        SourceUnreadable: A bucket or path cannot be read: why, and what would help. The board
            stays, and shows its runs as soon as they can be read.
    """
    _check_positional(wait, display_name, max_runtime_in_minutes, source_id, source_type)
    if isinstance(runs, bool):
        raise TypeError("runs takes a selector or a list of them, not bool. hint: wait=False")
    if key is None and source_id is not None:
        key = f"{source_type or 'source'}:{source_id}"
    minutes = max_runtime_in_minutes
    found = yield from find_trials(trials)
    new = calls.build(
        NewBoard,
        **sources(uri, runs, experiments, found),
        name=display_name,
        key=key,
        reuse=reuse,
        follow=follow,
        max_runtime=None if minutes is None else minutes * 60,
        idle_timeout=idle_timeout,
        no_data_timeout=no_data_timeout,
        launcher=launcher,
        options=calls.build(
            BoardOptions,
            template=name_template or os.environ.get("TBHUB_NAME_TEMPLATE"),
            group_by=group_by,
            hide_grouped=hide_grouped,
            samples=samples,
            requests_per_minute=requests_per_minute,
        ),
    )
    board = yield from ask(calls.create_board(new))
    if key is not None and (difference := difference_from_request(board, new)):
        from tbhub.writer.event_file import warn

        warn(difference)
    if wait:
        board = yield from wait_until_up(board, timeout)
        board = yield from wait_until_looked(board, timeout)
        check_readable(board, strict=strict)
    return board


def _get(id: str, *, hub: Hub | AsyncHub | None = None) -> Steps[Board]:  # noqa: A002
    """The board of an id, of a unique prefix of one, or of a name.

    Raises:
        NotFound: There is none, or none that may be seen.
        Ambiguous: There are several; its details list them.
    """
    return find_board(id)


def _list(
    *, everyone: bool = False, live: bool = False, hub: Hub | AsyncHub | None = None
) -> Steps[list[Board]]:
    """The boards that are mine, the newest first.

    Args:
        everyone: All boards that I may see.
        live: Only those that have not ended.
        hub: See `create`.
    """
    return every_board(everyone=everyone, live=live)


class _Board:
    """What boards of both kinds are and do."""

    _hub: Hub | AsyncHub
    _board: Board

    def __init__(self, board: Board, hub: Hub | AsyncHub) -> None:
        self._board = board
        self._hub = hub

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._board.name} {self._board.state} {self.app_uri}>"

    @property
    def id(self) -> str:
        """The board's id, a UUID."""
        return self._board.id

    @property
    def tensorboard_id(self) -> str:
        """The board's id, by PAI's name for it."""
        return self._board.id

    @property
    def display_name(self) -> str:
        """What the board is called."""
        return self._board.name

    @property
    def app_uri(self) -> str:
        """Where the board is looked at."""
        return self._board.url

    @property
    def summary_uri(self) -> str:
        """What it shows: a path or URI, or else the selector it was made with."""
        return self._board.uris[0] if self._board.uris else self._board.selector

    @property
    def reason(self) -> Reason | None:
        """Why it ended, as of the last look."""
        return self._board.reason

    @property
    def message(self) -> str:
        """What it waits for or how it ended, in a sentence."""
        return self._board.message

    @property
    def details(self) -> Board:
        """Everything the hub said of it at the last look."""
        return self._board

    @Both
    def refresh(self) -> Steps[None]:
        """Has another look at the board."""
        self._board = yield from ask(calls.board(self.id))

    @Both
    def start(
        self, wait: bool = True, *, timeout: float | None = 60.0, strict: bool = True
    ) -> Steps[None]:
        """Starts it again under the same id after it was stopped or failed.

        Args:
            wait: Return when it is up; see `wait` for `timeout`, `strict` and what is raised.

        Raises:
            Conflict: It was killed.
        """
        self._board = yield from ask(calls.start_board(self.id))
        if wait:
            yield from _wait(self, timeout, strict=strict)

    @Both
    def stop(self) -> Steps[None]:
        """Stops it; `start` starts it again. A board that has ended stays as it is."""
        self._board = yield from ask(calls.stop_board(self.id))

    @Both
    def restart(
        self, wait: bool = True, *, timeout: float | None = 60.0, strict: bool = True
    ) -> Steps[None]:
        """Starts it again under the same id, whether it runs, was stopped or has failed.

        Args:
            wait: Return when it is up; see `wait` for `timeout`, `strict` and what is raised.

        Raises:
            Conflict: It was killed.
        """
        self._board = yield from ask(calls.restart_board(self.id))
        if wait:
            yield from _wait(self, timeout, strict=strict)

    @Both
    def kill(self) -> Steps[None]:
        """Ends it for good. It stays in the list, with who ended it."""
        self._board = yield from ask(calls.kill_board(self.id))

    @Both
    def end_in(self, seconds: float) -> Steps[None]:
        """Has it end so many seconds from now, whatever was said before."""
        change = calls.build(BoardChange, ends_in=seconds)
        self._board = yield from ask(calls.change_board(self.id, change))

    @Both
    def set_max_runtime(self, seconds: float) -> Steps[None]:
        """Gives it so much time from now on, whatever was said before; 0: no limit."""
        change = calls.build(BoardChange, max_runtime=seconds)
        self._board = yield from ask(calls.change_board(self.id, change))

    @Both
    def delete(self) -> Steps[None]:
        """Ends it and has it forgotten; what it showed stays. Later calls raise `NotFound`."""
        yield from ask(calls.delete_board(self.id))

    @Both
    def wait(
        self, timeout: float | None = 60.0, *, data: bool = False, strict: bool = True
    ) -> Steps[None]:
        """Waits until the board is up.

        Args:
            timeout: Seconds; None: as long as it takes.
            data: Wait until it has something to show, too.
            strict: Raise where something that the board is to show cannot be read; else warn.

        Raises:
            WaitTimeout: It was not in time; it may still come. With the last warnings of its log.
            UnexpectedStatusException: It has ended; with the reason.
            SourceUnreadable: Something that it is to show cannot be read.
        """
        yield from _wait(self, timeout, data, strict=strict)

    @Both
    def logs(self, *, tail: int | None = None) -> Steps[builtins.list[LogLine]]:
        """What has happened to it: all of it, or the last lines."""
        return (yield from ask(calls.logs(self.id, tail=tail))).lines

    @Both
    def share(self, *, expires_in: float | None = None) -> Steps[str]:
        """A link that shows it to whoever has the link, without a login; `Hub.shares` lists them.

        Args:
            expires_in: Seconds the link is good; without it a week.
        """
        new = calls.build(NewShare, expires_in=expires_in)
        made = yield from ask(calls.share(self.id, new))
        return str(made.url)  # which a link has when it is made

    @Both
    def add(self, runs: Selectors = "", *, uri: Uris | None = None) -> Steps[None]:
        """Adds runs, named by selectors or by where they are; open pages show them at once."""
        self._board = yield from ask(calls.add_runs(self.id, _board_runs(runs, uri)))

    @Both
    def remove(self, runs: Selectors = "", *, uri: Uris | None = None) -> Steps[None]:
        """Takes runs out of it."""
        self._board = yield from ask(calls.remove_runs(self.id, _board_runs(runs, uri)))

    create = _Makes(_create)
    get = _Makes(_get)
    list = _Finds(_list)


class TensorBoard(_Board, Waiting):
    """A board on the hub; methods wait for their answer.

    `TensorBoard.create` makes one; ``TensorBoard(id)``, `TensorBoard.get` and `TensorBoard.list`
    find those that there are.

    Args:
        tensorboard_id: Its id, a unique prefix of that, or its name.
        hub: The hub to ask; without one: see `Hub`.

    Raises:
        NotFound: There is none, or none that may be seen.
        Ambiguous: There are several; its details list them.
    """

    _hub: Hub

    def __init__(self, tensorboard_id: str | Board, hub: Hub | None = None) -> None:
        hub = hub or Hub(keep_alive=False)
        found = tensorboard_id
        super().__init__(found if isinstance(found, Board) else hub.do(find_board(found)), hub)

    def do(self, steps: Steps[T]) -> T:
        """Does some steps."""
        return self._hub.do(steps)

    @property
    def status(self) -> BoardStatus:
        """The state the board is in now: asks the hub. Equal to PAI's word for it, too."""
        self.refresh()
        return BoardStatus(self._board.state)

    @classmethod
    def _made(cls, steps: Steps[Board], hub: Hub | None) -> TensorBoard:
        hub = hub or Hub(keep_alive=False)
        return cls(hub.do(steps), hub)

    @classmethod
    def _found(cls, steps: Steps[builtins.list[Board]], hub: Hub | None) -> Any:
        hub = hub or Hub(keep_alive=False)
        return [cls(board, hub) for board in hub.do(steps)]


class AsyncTensorBoard(_Board, Awaiting):
    """The same for asyncio: every method is a coroutine."""

    _hub: AsyncHub

    async def do(self, steps: Steps[T]) -> T:
        """Does some steps."""
        return await self._hub.do(steps)

    @property
    def status(self) -> BoardStatus:
        """The state the board was in at the last look; `refresh` has another."""
        return BoardStatus(self._board.state)

    @classmethod
    async def _made(cls, steps: Steps[Board], hub: AsyncHub | None) -> AsyncTensorBoard:
        hub = hub or AsyncHub(keep_alive=False)
        return cls(await hub.do(steps), hub)

    @classmethod
    async def _found(cls, steps: Steps[builtins.list[Board]], hub: AsyncHub | None) -> Any:
        hub = hub or AsyncHub(keep_alive=False)
        return [cls(board, hub) for board in await hub.do(steps)]


def wait_until_up(board: Board, timeout: float | None, *, data: bool = False) -> Steps[Board]:
    """The board when it is up; see `TensorBoard.wait`."""
    end = None if timeout is None else time.monotonic() + timeout
    pause = _FIRST_PAUSE
    while not (board.state == State.RUNNING or (board.state in UP and not data)):
        if board.state in ENDED:
            raise UnexpectedStatusException(ending(board), BoardStatus(board.state))
        left = pause if end is None else end - time.monotonic()
        if left <= 0:
            wanted = "shows data" if data and board.state in UP else "is up"
            warned = yield from _warnings(board)
            raise WaitTimeout(
                f"TensorBoard ({board.name}) is {board.state}; after {timeout:g} s it is not "
                f"certain when it {wanted}: `tbhub logs {board.id[:8]}` tells what happens"
                + (f"; its last warnings: {'; '.join(warned)}" if warned else "")
            )
        yield Pause(min(pause, left))
        pause = min(pause * 1.5, _LONGEST_PAUSE)
        board = yield from ask(calls.board(board.id))
    return board


def wait_until_looked(board: Board, timeout: float | None) -> Steps[Board]:
    """Wait until each source of a board that is up has answered or failed once.

    Without data `message` says then what the board waits for. Ends with the timeout; if the board
    has data, after `_ANSWER_TIMEOUT` at the latest.
    """
    begin = time.monotonic()
    pause = _FIRST_PAUSE
    while not has_looked(board):
        limit = _ANSWER_TIMEOUT if board.state == State.RUNNING else math.inf
        if time.monotonic() - begin >= min(limit, math.inf if timeout is None else timeout):
            break
        yield Pause(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)
        board = yield from ask(calls.board(board.id))
    return board


def has_looked(board: Board) -> bool:
    """Return whether each source of a board has answered or failed once, or one is unreadable.

    A board with data has a message only while it waits for the first answer of a source; one
    without data has none before all have answered.
    """
    if board.state == State.WAITING:
        return bool(board.message)
    return board.state != State.RUNNING or bool(board.problem) or not board.message


def difference_from_request(board: Board, new: NewBoard) -> str | None:
    """Return a warning if the board of a key lacks a requested source or has other options."""
    from tbhub.catalog.selection import ExperimentNumber, Location, RunNumber
    from tbhub.catalog.selectors import parse

    requested = {
        *(str(parse(each)) for each in (new.runs, *new.added) if each.strip()),
        *(str(ExperimentNumber(number=number)) for number in new.experiments),
        *(str(RunNumber(number=number)) for number in new.trials),
        *(str(Location(uri)) for uri in new.uris),
    }
    options = new.options
    if not options.template:  # the board may have a default
        options = options.model_copy(update={"template": board.options.template})
    is_whole = requested <= set(board.sources) and bool(new.removed) == bool(board.removed)
    if is_whole and options == board.options:
        return None
    return (
        f"the board of the key {new.key} was there already: it shows {', '.join(board.sources)}, "
        "with its own options, not what was asked for now"
    )


def check_readable(board: Board, *, strict: bool) -> None:
    """Raise, or warn if not `strict`, where what a board is to show cannot be read.

    Raises:
        SourceUnreadable: It cannot be read.
        Forbidden: The user lacks the right to see it.
    """
    if not board.problem:
        return
    if board.closed:
        raise Forbidden(f"TensorBoard ({board.name}): {board.problem}")
    problem = board.problem.rstrip(".")
    text = (
        f"TensorBoard ({board.name}): {problem}. The board stays and tries again; "
        f"`tbhub kill {board.id[:8]}` ends it"
    )
    if strict:
        raise SourceUnreadable(text, BoardStatus(board.state), board.id)
    warnings.warn(text, stacklevel=2)


def _warnings(board: Board) -> Steps[list[str]]:
    """The newest warnings and errors of a board's log; none where they are not to be had."""
    call = calls.logs(board.id, tail=_LAST_LINES)
    came: Reply | Lost = yield call  # and not by `ask`, which goes on trying: the time is over
    if isinstance(came, Lost):
        return []
    try:
        lines = read(call, came).lines
    except TbhubError:
        return []
    found = [line.text[:_LONGEST_WARNING] for line in lines if line.level != "info"]
    return found[-_MOST_WARNINGS:]


def ending(board: Board) -> str:
    """How a board has ended, in one line."""
    reason = f" ({board.reason})" if board.reason else ""
    message = f": {board.message}" if board.message else ""
    return f"TensorBoard ({board.name}) is {board.state}{reason}{message}"


def _wait(
    mine: _Board, timeout: float | None, data: bool = False, *, strict: bool = True
) -> Steps[None]:
    mine._board = yield from ask(calls.board(mine.id))
    try:
        mine._board = yield from wait_until_up(mine._board, timeout, data=data)
    except UnexpectedStatusException:
        mine._board = yield from ask(calls.board(mine.id))
        raise
    mine._board = yield from wait_until_looked(mine._board, timeout)
    check_readable(mine._board, strict=strict)


def _board_runs(runs: Selectors, uri: Uris | None) -> BoardRuns:
    return calls.build(BoardRuns, **sources(uri, runs))
