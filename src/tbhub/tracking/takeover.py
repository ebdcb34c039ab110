"""Starting a run at the hub, or resuming it from an attempt that has ended.

A hub refuses to resume a run whose worker was heard of a moment ago. Where this process can prove
that the worker is dead it says so, and the hub does not wait. A job that resumes or starts its run
waits until the hub has given the worker up; a person who resumes is told at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from tbhub.api.models import NewRun, StartedRun
from tbhub.api.problems import Conflict
from tbhub.client.hub import Hub
from tbhub.tracking.worker import Attempt, death_of

WAIT_TIMEOUT = 180.0  # seconds that a restarted job waits for its run; three heartbeat timeouts
_WAIT_INTERVAL = 2.0  # seconds between two requests
_MAX_RACES = 3


def start_run(hub: Hub, new: NewRun, report: Callable[[str], None] = lambda _: None) -> StartedRun:
    """Start a run, or resume it, as soon as the hub allows it.

    Args:
        report: Called with what is waited for, and with why an attempt counts as ended.

    Raises:
        Conflict: The run's worker seems to be alive.
        HubUnreachable: No hub answers.
        Problem: The hub refuses the run.
    """
    deadline = time.monotonic() + (WAIT_TIMEOUT if new.resume_or_start else 0.0)
    reported = False
    races = 0
    while True:
        try:
            return hub.create_run(new)
        except Conflict as error:
            if type(error) is not Conflict:
                raise
            ended = proven_end(hub, error)
            if ended is not None and ended.attempt != new.ended_attempt:
                report(f"attempt {ended.attempt} has ended: {ended.reason}")
                new.ended_attempt = ended.attempt
                continue
            if (
                error.details.get("run") is None
            ):  # another process of the same name has just started the run
                races += 1
                if races > _MAX_RACES or not new.resume_or_start:
                    raise
            elif time.monotonic() >= deadline:
                raise
            elif not reported:
                reported = True
                report(f"waiting until the hub gives up the earlier attempt: {error.message}")
        time.sleep(_WAIT_INTERVAL)


class ProvenEnd(NamedTuple):
    """An attempt that has ended, and how that is known."""

    attempt: int
    reason: str


def proven_end(hub: Hub, error: Conflict) -> ProvenEnd | None:
    """Return the attempt that a hub takes to be alive, if it is known to have ended."""
    run, attempt = error.details.get("run"), error.details.get("attempt")
    worker = error.details.get("worker")
    if not (isinstance(worker, dict) and run and attempt):
        return None
    reason = death_of(worker, Attempt(hub.connection.url, run, attempt))
    return ProvenEnd(attempt, reason) if reason else None
