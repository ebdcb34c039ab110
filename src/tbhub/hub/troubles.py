"""What a board waits for and what of it cannot be read, in words and with the command that helps.
No input, no output."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tbhub.catalog.selection import is_uri

NOT_MOUNTED = "exists on the hub's machine but not where the board is served"
_RIGHT = "the user that the board is served as needs the right to read it"
NOTHING_LEFT = (
    "All runs that it showed were deleted or taken out. hint: `tbhub add BOARD RUNS` adds others"
)
"""What a board says that has no run any more, and no place where some could be found."""
_ABOUT_RIGHTS = (os.strerror(errno.EACCES), os.strerror(errno.EPERM), "may not read")


def unreadable(
    troubles: Sequence[Mapping[str, Any]],
    *,
    has_data: bool,
    on_hub: Callable[[str], bool],
    launcher: str,
    connections: Mapping[str, str],
) -> str:
    """Return why what a board was asked to show cannot be read; empty if it can be.

    A run of the catalog that merely does not exist is no problem of a board with data.

    Args:
        troubles: Of the board's sources, as its host reports them; see `boards.board.Trouble`.
        has_data: Whether the board shows something.
        on_hub: Whether a path exists on the hub's machine.
        launcher: What the hub serves boards by.
        connections: The names of the storage connections that are used, by path.
    """
    for each in troubles:
        path, problem = str(each["path"]), str(each["problem"])
        if problem:
            hint = unreadable_hint(path, problem, connections.get(path, ""))
            kept = "; what was read before stays shown" if each.get("shown") else ""
            said = f"{path} cannot be read: {problem.rstrip('.')}{kept}."
            return f"{said} hint: {hint}" if hint else said
        if has_data and not each["place"]:
            continue
        if launcher != "local" and on_hub(path):
            return f"{path} {NOT_MOUNTED}. hint: {mount_hint(launcher)}"
    return ""


def mount_hint(launcher: str) -> str:
    """Return what to do about a path that is `NOT_MOUNTED`."""
    return f"mount it for hosts of the launcher {launcher}, see docs/launchers.md"


def waits_for(troubles: Sequence[Mapping[str, Any]]) -> str:
    """Return what a board without data waits for."""
    missing = [str(each["path"]) for each in troubles if not each["problem"]]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        return f"Waiting for {missing[0]}{more}, which does not exist where the board is served."
    return "Waiting for data: nothing has been logged there."


def is_about_rights(problem: str) -> bool:
    """Return whether a path cannot be read because its user lacks the right to."""
    return any(each in problem for each in _ABOUT_RIGHTS)


def waits_for_answer(path: str) -> str:
    """Return what a board waits for whose source at a path has not answered yet."""
    return f"Waiting for the first answer of {path}." if path else ""


def unreadable_hint(path: str, problem: str, connection: str = "") -> str:
    """Return what to do about a path that cannot be read; empty if the problem says so itself.

    Args:
        connection: The name of the storage connection whose credentials were used, if known.
    """
    if "hint:" in problem:
        return ""
    if not is_uri(path):
        return _RIGHT if is_about_rights(problem) else ""
    if "no such bucket" in problem:
        return "check the name of the bucket, or create it"
    if connection:
        return (
            f"`tbhub storage test {connection} --for boards` tests the connection that is used; "
            f"`tbhub storage add NAME {path}` gives the hub other credentials for it"
        )
    return (
        f"`tbhub storage test {path}` tells more; `tbhub storage add NAME {path}` gives the hub "
        "credentials for it"
    )
