"""Waiting for what may not come, no longer than that is worth."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def within(seconds: float, ask: Callable[[], T]) -> T:
    """The answer to a question; one that comes too late is nobody's.

    Signals are seen meanwhile, which a request that hangs would keep waiting.

    Raises:
        TimeoutError: There is none in time.
    """
    answers: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(ask())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="tbhub-ask", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not answers:
        raise TimeoutError(f"no answer in {seconds:g} s")
    return answers[0]
