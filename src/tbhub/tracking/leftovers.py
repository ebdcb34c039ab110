"""What earlier attempts of a run have left in this machine's spool.

The newest of it is adopted: the directory, and what is known to be published of it, become those of
the new attempt, which publishes the rest. So the files are there at once, and nothing is sent
twice. What is older is published with the rights of the new attempt, as what it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from tbhub.api.models import NewRun, StartedRun
from tbhub.errors import TbhubError
from tbhub.publisher.exclusion import checked_patterns, patterns_of_environment
from tbhub.publisher.restorer import RestoreError, begin_restore, is_being_restored
from tbhub.publisher.spool import (
    Spool,
    SpoolTakenError,
    all_spools,
    find_spool,
    publish_now,
    redirect,
    remove_published,
)
from tbhub.tracking.owed import Known, is_same_run, read_known, write_known

_AGENT_TIMEOUT = 10.0  # seconds for an agent that has outlived its program to let go
_AGENT_INTERVAL = 0.1
_PUBLISH_TIMEOUT = 60.0  # seconds for each older spool; `tbhub sync` publishes what is left


class Leftover(NamedTuple):
    """A spool that an earlier attempt has left."""

    spool: Spool
    attempt: int


class Adopted(NamedTuple):
    """A spool that has become the new attempt's.

    Attributes:
        lock: The descriptor that keeps the spool from being removed.
        attempt: The attempt that wrote what is there.
    """

    spool: Spool
    lock: int
    attempt: int


def leftovers_of(started: StartedRun, url: str, rank: int) -> list[Leftover]:
    """List what earlier attempts of a run, and this one, have left here; the newest first.

    Args:
        url: The address of the hub.
        rank: Of this process among those of its job.
    """
    found = []
    for spool in all_spools():
        known = read_known(spool)
        if known is None or spool.rank != rank or spool.is_fenced:
            continue
        if known.is_of(started.run, url) and known.attempt <= started.attempt:
            found.append(Leftover(spool, known.attempt))
    return sorted(found, key=lambda each: each.attempt, reverse=True)


def leftover_without_hub(new: NewRun, rank: int) -> Leftover | None:
    """Return the newest of what earlier starts of a run have left here, by what is known here.

    A spool whose restore was interrupted is not returned: files are missing there.
    """
    for spool in reversed(all_spools()):
        if spool.rank != rank or spool.is_fenced or is_being_restored(spool.state):
            continue
        if is_same_run(spool, new):
            known = read_known(spool)
            return Leftover(spool, known.attempt if known is not None else 1)
    return None


def keep_for_restore(spool: Spool, known: Known) -> None:
    """Record which run a new spool is restored for: an interrupted restore continues there.

    Raises:
        RestoreError: It cannot be recorded.
    """
    begin_restore(spool.state)
    try:
        write_known(spool, known)
    except OSError as error:
        raise RestoreError(f"cannot write to {spool.path}: {error.strerror}") from error


def adopt(
    left: Leftover, known: Known | None, uri: str, *, exclude: tuple[str, ...]
) -> Adopted | None:
    """Make a spool that of the new attempt; None if a process still uses it.

    Args:
        known: The new attempt; None if no hub knows of it, and the spool's own record stays. It
            also stays if the spool's attempt is not the one before: the caller replaces it when
            the files are restored.
    """
    deadline = time.monotonic() + _AGENT_TIMEOUT
    while not left.spool.is_held():
        try:
            with left.spool.taken():
                if find_spool(left.spool.path) is None or left.spool.is_held():
                    return None
                lock = left.spool.hold()
                # What an earlier attempt has left out is not published by a later one either.
                given = [*left.spool.exclude, *exclude, *patterns_of_environment()]
                patterns = checked_patterns(list(dict.fromkeys(given)))
                spool = redirect(replace(left.spool, exclude=patterns), uri)
                # Where another machine has continued the run the files are older than the store's
                # until they are restored: until then they stay those of their attempt.
                if known is not None and left.attempt >= known.attempt - 1:
                    write_known(spool, known)
                return Adopted(spool, lock, left.attempt)
        except SpoolTakenError:
            if time.monotonic() >= deadline:
                return None
            left.spool.want()
            time.sleep(_AGENT_INTERVAL)
        except OSError:  # all of it was published, and it is being removed
            return None
    return None


def is_adoptable(left: Leftover, logdir: Path | None) -> bool:
    """Whether the files of a spool are where the new attempt is to write."""
    return left.spool.is_own if logdir is None else left.spool.directory == logdir.absolute()


def publish_late(
    left: Leftover,
    newest: int,
    credentials: Callable[[int], dict[str, str] | None],
    report: Callable[[str], None],
) -> None:
    """Publish what an older attempt has left, as far as that is possible now."""
    spool = left.spool
    if spool.is_held():
        return
    late = left.attempt if left.attempt < newest else 0
    try:
        spool.catch_up()
        found = spool.backlog()
        if not found.files and not found.refused:  # no store is waited for
            remove_published(spool)
            return
        rest = publish_now(spool, credentials(newest), timeout=_PUBLISH_TIMEOUT, late_attempt=late)
    except SpoolTakenError:
        return
    except (TbhubError, OSError) as error:
        report(
            f"what attempt {left.attempt} has left in {spool.directory} waits for `tbhub sync`"
            f": {error}"
        )
        return
    if rest.files or rest.refused:
        report(f"something of attempt {left.attempt} stays in {spool.directory}; see `tbhub sync`")
    else:
        remove_published(spool)
