"""What a client does, as steps: calls to send and pauses to make, one after the other.

A generator yields its steps and is sent what came of them; it neither waits nor awaits. `Both`
makes one such function a plain method where things are waited for (`Waiting`) and a coroutine where
they are awaited (`Awaiting`), so that nothing is written twice.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from functools import update_wrapper, wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from tbhub.client.calls import Call
from tbhub.client.errors import HubUnreachable
from tbhub.client.replies import Lost, Reply, read

T = TypeVar("T")
P = ParamSpec("P")

# Seconds before a call is sent again; connections that are refused are refused quickly.
_PAUSES = (0.1, 0.3, 1.0)
_REFUSED_PAUSES = (0.1, 0.2)
# A hub that is being restarted behind a proxy, a database that is busy.
PASSING = (502, 503, 504)


@dataclass(frozen=True)
class Pause:
    """Nothing, for some seconds."""

    seconds: float


Step = Call[Any] | Pause
Steps = Generator[Step, Any, T]


def ask(call: Call[T]) -> Steps[T]:
    """Sends a call and reads the answer.

    It is sent again after a passing failure if it changes nothing, or if it never arrived.

    Raises:
        Problem: The hub does not do it.
        HubUnreachable: No answer, or not a hub's.
    """
    attempt = 0
    while True:
        came: Reply | Lost = yield call
        pauses: tuple[float, ...] = ()
        if isinstance(came, Lost):
            if not came.sent:
                pauses = _REFUSED_PAUSES
            elif call.is_safe:
                pauses = _PAUSES
        elif call.is_safe and came.status in PASSING:
            pauses = _PAUSES
        if attempt < len(pauses):
            yield Pause(pauses[attempt])
            attempt += 1
        elif isinstance(came, Lost):
            raise HubUnreachable(came.text)
        else:
            return read(call, came)


def do(steps: Steps[T], send: Callable[[Call[Any]], Reply | Lost]) -> T:
    """Does the steps, waiting for each."""
    try:
        step = next(steps)
        while True:
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                step = next(steps)
            else:
                step = steps.send(send(step))
    except StopIteration as end:
        answer: T = end.value
        return answer


async def do_async(steps: Steps[T], send: Callable[[Call[Any]], Awaitable[Reply | Lost]]) -> T:
    """Does the steps, awaiting each."""
    import asyncio  # takes longer than a command should that does without

    try:
        step = next(steps)
        while True:
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                step = next(steps)
            else:
                step = steps.send(await send(step))
    except StopIteration as end:
        answer: T = end.value
        return answer


class Waiting:
    """Does steps and waits for them."""

    def do(self, steps: Steps[T]) -> T:
        """Does some steps."""
        raise NotImplementedError


class Awaiting:
    """Does steps and awaits them."""

    async def do(self, steps: Steps[T]) -> T:
        """Does some steps."""
        raise NotImplementedError


class Both(Generic[P, T]):
    """A method made of steps, for classes of both kinds."""

    __name__: str

    def __init__(self, steps: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        self._steps = steps
        update_wrapper(self, steps)

    def __call__(self, mine: Any, *args: P.args, **kwargs: P.kwargs) -> Steps[T]:
        """The steps themselves, as part of others."""
        return self._steps(mine, *args, **kwargs)

    @overload
    def __get__(self, mine: None, owner: type) -> Both[P, T]: ...
    @overload
    def __get__(self, mine: Waiting, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, mine: Awaiting, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, mine: Waiting | Awaiting | None, owner: type) -> Any:
        if mine is None:
            return self

        @wraps(self._steps)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return mine.do(self._steps(mine, *args, **kwargs))

        return method


def asking(call: Callable[P, Call[T]]) -> Both[P, T]:
    """The method that sends one call."""

    def steps(_mine: Any, /, *args: P.args, **kwargs: P.kwargs) -> Steps[T]:
        return ask(call(*args, **kwargs))

    update_wrapper(steps, call)
    return Both(steps)
