"""``tbhub sync``: publish what waits on this machine."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from tbhub.cli.asking import connect
from tbhub.cli.event_files import errors
from tbhub.cli.text import count, duration, plain, size
from tbhub.errors import TbhubError
from tbhub.publisher.publisher import Backlog
from tbhub.publisher.spool import (
    Spool,
    SpoolTakenError,
    all_spools,
    discard,
    publish_now,
    remove_published,
)

_TAKEN = "being published by another process"
_PATIENCE, _PAUSE = 5.0, 0.1  # seconds


def sync(
    only_list: Annotated[
        bool, typer.Option("--list", help="Show what waits, and publish nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    may_discard: Annotated[
        bool,
        typer.Option(
            "--discard",
            help="Remove what no hub wants any more: of runs that were deleted, or that another "
            "process has gone on with.",
        ),
    ] = False,
    wait: Annotated[
        str, typer.Option("--wait", metavar="TIME", help="Give up after so long: 90, 15m, 2h.")
    ] = "10m",
) -> None:
    """Publish what was logged to a bucket or hub and has not got there yet.

    - `tbhub sync --list`
    - `tbhub sync --wait 2h`
    - `tbhub sync --discard`

    What a run, or a `SummaryWriter("s3://…")`, logs is kept on this machine until it is published.
    A process of its own does that, also after the program has ended, for an hour. What is left
    then, or when the machine was switched off, waits for this command. Credentials come from the
    environment.
    Runs that no hub knows yet, because it was down or they were offline, are told to it first; one
    whose name is taken by then is given another.
    What has been published is removed from this machine.

    Exits with 0 when nothing is left, 1 when something is.
    """
    deadline = time.monotonic() + duration(wait)
    results = []
    removed: set[Path] = set()
    for spool in all_spools():
        left = spool.backlog()
        if not only_list:
            spool, left = _publish(spool, left, deadline, removed if may_discard else None)
        results.append((spool, left))
    if as_json:
        told = [_as_json(spool, left, spool.path in removed) for spool, left in results]
        print(json.dumps(told, indent=2))
    else:
        _print(results, removed, only_list)
    if any(_is_waiting(*each) for each in results):
        raise typer.Exit(1)


def _publish(
    spool: Spool, before: Backlog, deadline: float, removed: set[Path] | None
) -> tuple[Spool, Backlog]:
    """What is left, and where it goes: a run that is told to a hub is given a place.

    Args:
        removed: Gets those that nobody wants and that are removed; None: nothing may be.
    """
    from tbhub.tracking.owed import (
        concerns_hub,
        credentials_for,
        tell_end,
        tell_run,
        why_unwanted,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(
        *columns, console=errors, transient=True, disable=not errors.is_terminal
    ) as progress:
        task = progress.add_task(plain(spool.uri), total=before.bytes or None)
        hub = None
        try:
            _ask_for(spool)
            hub = connect() if concerns_hub(spool) else None
            if hub is not None:
                spool = tell_run(hub, spool)
                if unwanted := why_unwanted(hub, spool):
                    if removed is not None and discard(spool):
                        removed.add(spool.path)
                        return spool, Backlog()
                    advice = "`tbhub sync --discard` removes it"
                    return spool, Backlog(before.files, before.bytes, f"{unwanted}; {advice}")
            left = publish_now(
                spool,
                credentials_for(hub, spool) if hub is not None else None,
                timeout=max(0.0, deadline - time.monotonic()),
                report=lambda done, _: progress.update(task, completed=done.sent),
            )
            if hub is not None and not left.files:
                tell_end(hub, spool)
        except SpoolTakenError:
            return spool, Backlog(before.files, before.bytes, _TAKEN)
        except TbhubError as error:
            return spool, Backlog(before.files, before.bytes, str(error))
        finally:
            if hub is not None:
                hub.close()
    if not left.files and not left.refused:
        remove_published(spool)
    return spool, left


def _ask_for(spool: Spool) -> None:
    """The process that has outlived its program lets go; it may not know where the hub is now."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        try:
            with spool.taken():
                return
        except SpoolTakenError:
            spool.want()
            time.sleep(_PAUSE)


def _is_waiting(spool: Spool, left: Backlog) -> bool:
    return bool(left.files or left.refused or left.problem or spool.owed.exists())


def _as_json(spool: Spool, left: Backlog, is_removed: bool) -> dict[str, Any]:
    return {
        "uri": spool.uri,
        "directory": str(spool.directory),
        "files": left.files,
        "bytes": left.bytes,
        "problem": left.problem or None,
        "refused": list(left.refused),
        "removed": is_removed,
    }


def _print(results: list[tuple[Spool, Backlog]], removed: set[Path], only_list: bool) -> None:
    console = Console(highlight=False, soft_wrap=True)
    waiting = 0
    for spool, left in results:
        if not _is_waiting(spool, left):
            if spool.path in removed:
                console.print(f"removed    {plain(spool.uri)}, unpublished", markup=False)
            elif not only_list:
                console.print(f"published  {plain(spool.uri)}", style="green", markup=False)
            continue
        waiting += 1
        what = f"{count(left.files, 'file')}, {size(left.bytes)}"
        console.print(f"waiting    {plain(spool.uri)}: {what}", style="yellow", markup=False)
        console.print(f"  in {plain(spool.directory)}", markup=False)
        if left.problem:
            console.print(f"  {plain(left.problem)}", markup=False)
        if spool.owed.exists() and not left.problem:
            console.print("  the hub has yet to be told of the run, or of its end")
        if spool.given and left.files:
            console.print("  the program gave credentials of its own; set them in the environment")
        for each in left.refused:
            console.print(f"  cannot be published: {plain(each)}", markup=False)
    if not waiting:
        console.print("nothing is waiting to be published")
