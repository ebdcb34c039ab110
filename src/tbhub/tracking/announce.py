"""Tell the user, on standard error, where a run is to be seen: when it begins and when it ends.

``TBHUB_QUIET=1`` silences these lines; warnings are not silenced by it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress

from tbhub.api.models import RunEnding

QUIET = "TBHUB_QUIET"
_OFF = ("", "0", "false", "no", "off")


def announce_start(name: str, url: str | None) -> None:
    """Print the address of a run that begins; nothing while no hub knows the run."""
    if url is not None:
        inform(f"View run {name} at {url}")


def announce_end(name: str, url: str | None, status: RunEnding, exit_code: int | None) -> None:
    """Print how a run has ended and its address; nothing if no hub knows the run."""
    if url is not None:
        inform(f"Run {name} {_ending(status, exit_code)}: {url}")


def inform(text: str) -> None:
    """Print a line of information, without anything that a terminal would act on."""
    if is_quiet() or sys.stderr is None:
        return
    shown = "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text
    )
    with suppress(OSError, ValueError):  # standard error is closed
        print(f"tbhub: {shown}", file=sys.stderr, flush=True)


def is_quiet(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether ``TBHUB_QUIET`` asks for silence."""
    return environ.get(QUIET, "").strip().lower() not in _OFF


def _ending(status: RunEnding, exit_code: int | None) -> str:
    if not exit_code:
        return status if status != "killed" else "was killed"
    if status != "killed":
        return f"{status} with exit code {exit_code}"
    with suppress(ValueError):
        return f"was killed by {signal.Signals(exit_code - 128).name}"
    return f"was killed, exit code {exit_code}"
