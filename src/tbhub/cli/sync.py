"""``tbhub sync``: publish what waits on this machine."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, replace
from errno import EDQUOT, ENOSPC
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from tbhub.cli.asking import Yes, confirm, connect
from tbhub.cli.event_files import errors
from tbhub.cli.text import count, duration, plain, size
from tbhub.errors import TbhubError
from tbhub.publisher.files import Found
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
_SHOWN = 10  # files of a spool directory


@dataclass
class _Result:
    """A spool directory, and what has become of it.

    Attributes:
        left: What is not published.
        kept: Files that are left out: excluded ones, and what is not a file to publish.
        is_unwanted: No hub wants what is left.
        is_discarded: It was deleted.
        notes: What else there is to say, in sentences.
    """

    spool: Spool
    left: Backlog
    kept: list[Found] = field(default_factory=list)
    is_unwanted: bool = False
    is_discarded: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def is_waiting(self) -> bool:
        """Whether there is something to be published, or to be told to a hub, yet."""
        left = self.left
        return not self.is_discarded and bool(
            left.files or left.problem or self.spool.owed.exists()
        )

    @property
    def is_in_use(self) -> bool:
        """Whether all is published, and a process of the run may log more."""
        is_there = not self.is_discarded and not self.is_waiting and self.spool.path.exists()
        return is_there and (self.spool.is_held() or bool(self.open_files))

    @cached_property
    def open_files(self) -> list[str]:
        """Files of the spool that are open in a process that may be none of the run's."""
        return self.spool.open_files()

    @property
    def is_done(self) -> bool:
        """Whether nothing is left, but for files that the user excluded."""
        return self.is_discarded or not (self.is_waiting or self.left.refused)


def sync(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]…",
            help="Only these, as `tbhub sync --list` names them; a beginning will do.",
        ),
    ] = None,
    only_list: Annotated[
        bool, typer.Option("--list", help="Show what waits, and publish nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    may_discard: Annotated[
        bool,
        typer.Option(
            "--discard",
            help="Delete what is not published from this machine, after asking: with a NAME all "
            "that is there, else what was excluded, cannot be published, or no hub wants any more.",
        ),
    ] = False,
    yes: Yes = False,
    wait: Annotated[
        str, typer.Option("--wait", metavar="TIME", help="Give up after so long: 90, 15m, 2h.")
    ] = "10m",
) -> None:
    """Publish what was logged to a bucket or hub and has not got there yet.

    - `tbhub sync --list`
    - `tbhub sync --wait 2h`
    - `tbhub sync --discard 7-3fa9c1d2e4b5`

    What a run, or a `SummaryWriter("s3://…")`, logs is kept on this machine until it is published.
    A process of its own does that, also after the program has ended. What is left when that makes
    no progress for an hour, or when the machine was switched off, waits for this command.
    Credentials come from the environment.
    Runs that no hub knows yet, because it was down or they were offline, are told to it first; one
    whose name is taken by then is given another.
    What has been published is removed from this machine. Files that were excluded, or that cannot
    be published, stay until `--discard` deletes them.

    Exits with 0 when nothing is left to be published, 1 when something is.
    """
    deadline = time.monotonic() + duration(wait)
    results = []
    publishes = not only_list and not (may_discard and names)
    for spool in _chosen(names or [], with_earlier=publishes):
        result = _Result(spool, spool.backlog())
        if publishes:
            result = _publish(spool, result.left, deadline)
        result.kept = result.spool.left_out() if result.spool.path.exists() else []
        results.append(result)
    if may_discard and not only_list:
        _discard(results, bool(names), yes)
    if as_json:
        print(json.dumps([_as_json(result) for result in results], indent=2))
    else:
        _print(results, only_list)
    if not all(result.is_done for result in results):
        raise typer.Exit(1)


def _chosen(names: list[str], *, with_earlier: bool) -> list[Spool]:
    """Return the spool directories of some names; all without any.

    Args:
        with_earlier: Return those of earlier attempts of the same runs, too.

    Raises:
        ValueError: There is none of a name, or there are several.
    """
    spools = all_spools()
    if not names:
        return spools
    chosen: dict[Path, Spool] = {}
    for name in names:
        if not name.strip():
            raise ValueError("an empty name is none of what waits here: is a variable not set?")
        found = [spool for spool in spools if spool.name == name] or [
            spool for spool in spools if spool.name.startswith(name)
        ]
        if len(found) != 1:
            known = ", ".join(spool.name for spool in found or spools) or "nothing"
            what = "matches several of" if found else "is not among what waits here:"
            raise ValueError(f"{name!r} {what} {known}")
        for spool in _with_earlier(found[0], spools) if with_earlier else found:
            chosen[spool.path] = spool
    return sorted(chosen.values(), key=lambda spool: (spool.made, spool.name))


def _with_earlier(spool: Spool, spools: list[Spool]) -> list[Spool]:
    """Return a spool behind those of earlier attempts of its run that no hub knows yet.

    Attempts are numbered as they are registered: the earlier one has to come first.
    """
    from tbhub.api.models import NewRun
    from tbhub.client.calls import build
    from tbhub.tracking.owed import is_same_run, read_owed

    owed = read_owed(spool).new
    if owed is None or not (owed.get("resume") or owed.get("resume_or_start")):
        return [spool]
    new = build(NewRun, **owed)
    earlier = [
        each
        for each in spools
        if each.made < spool.made and read_owed(each).new is not None and is_same_run(each, new)
    ]
    return [*earlier, spool]


def _publish(spool: Spool, before: Backlog, deadline: float) -> _Result:
    """Publish what waits in one place, which a run that is told to a hub is given first."""
    from tbhub.tracking.owed import (
        Rights,
        concerns_hub,
        require_own_hub,
        rights_to_publish,
        tell_end,
        tell_run,
        why_unwanted,
    )

    columns = (
        *(TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn()),
        *(TransferSpeedColumn(), TimeRemainingColumn()),
    )
    notes: list[str] = []
    with Progress(
        *columns, console=errors, transient=True, disable=not errors.is_terminal
    ) as progress:
        task = progress.add_task(plain(spool.uri), total=before.bytes, visible=bool(before.bytes))
        hub = None
        try:
            _ask_for(spool)
            hub = connect() if concerns_hub(spool) else None
            if hub is not None:
                require_own_hub(hub, spool)
                spool = tell_run(hub, spool, notes.append)
                if unwanted := why_unwanted(hub, spool):
                    left = Backlog(before.files, before.bytes, f"{unwanted}; {_advice(spool)}")
                    return _Result(spool, left, is_unwanted=True)
            rights = rights_to_publish(hub, spool) if hub is not None else Rights()
            left = publish_now(
                spool,
                rights.credentials,
                timeout=max(0.0, deadline - time.monotonic()),
                late_attempt=rights.late_attempt,
                report=lambda _, left: progress.update(
                    task, completed=max(0, before.bytes - left.bytes)
                ),
            )
            if hub is not None and not left.files:
                tell_end(hub, spool)
        except SpoolTakenError:
            left = spool.backlog()
            is_in_use = spool.is_held() and not left.files
            return _Result(spool, left if is_in_use else replace(left, problem=_TAKEN))
        except TbhubError as error:
            if not spool.path.exists():  # another process has just published it
                return _Result(spool, Backlog())
            return _Result(spool, Backlog(before.files, before.bytes, str(error)))
        except OSError as error:
            return _Result(spool, Backlog(before.files, before.bytes, _failed(spool, error)))
        finally:
            if hub is not None:
                hub.close()
    if not left.files and not left.refused:
        remove_published(spool)
    return _Result(spool, left, notes=notes)


def _failed(spool: Spool, error: OSError) -> str:
    where = error.filename or spool.path
    text = f"cannot write {where}: {error.strerror or error}"
    return f"{text}. hint: make room there" if error.errno in (ENOSPC, EDQUOT) else text


def _advice(spool: Spool) -> str:
    return f"`tbhub sync --discard {spool.name}` deletes it"


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


def _discard(results: list[_Result], is_named: bool, yes: bool) -> None:
    """Delete what is not published, after asking.

    Raises:
        Refused: The answer is not yes.
        ValueError: There is no terminal to ask on.
    """
    going = [
        result
        for result in results
        if result.spool.path.exists()
        and (is_named or result.kept or result.left.refused or result.is_unwanted)
    ]
    if not going:
        return
    about, files, total = [], 0, 0
    for result in going:
        lines, number, bytes_ = _contents(result)
        about += lines
        files, total = files + number, total + bytes_
    what = (
        f"{count(files, 'file')} ({size(total)}) that {'is' if files == 1 else 'are'} not published"
    )
    confirm(f"Delete {what}?", yes, about)
    for result in going:
        _ask_for(result.spool)
        result.is_discarded = discard(result.spool)
        if not result.is_discarded:
            result.left = Backlog(result.left.files, result.left.bytes, "a process still uses it")


def _contents(result: _Result) -> tuple[list[str], int, int]:
    """Return what a spool directory holds that is not published: lines, files and bytes."""
    spool = result.spool
    found = {each.path: (each.look.size, each.left_out) for each in result.kept}
    if spool.is_own:
        refused = dict(_refused(each) for each in result.left.refused)
        why = result.left.problem or "not published yet"
        for path, missing in spool.unpublished():
            found.setdefault(path, (missing, refused.get(path, why)))
    shown = sorted(found.items(), key=lambda each: -each[1][0])
    lines = [f"{spool.name}, for {plain(spool.uri)}, in {plain(spool.directory)}:"]
    lines += [
        f"  {size(bytes_):>8}  {plain(path)}  ({plain(why)})"
        for path, (bytes_, why) in shown[:_SHOWN]
    ]
    if len(shown) > _SHOWN:
        lines.append(f"  and {len(shown) - _SHOWN:,} more")
    if not spool.is_own:
        lines.append("  the files themselves are in a directory of yours and stay")
    return lines, len(found), sum(bytes_ for bytes_, _ in found.values())


def _refused(text: str) -> tuple[str, str]:
    path, _, why = text.partition("': ")
    return path.strip("'"), why


def _as_json(result: _Result) -> dict[str, Any]:
    spool, left = result.spool, result.left
    return {
        "name": spool.name,
        "uri": spool.uri,
        "directory": str(spool.directory),
        "files": left.files,
        "bytes": left.bytes,
        "problem": left.problem or None,
        "refused": list(left.refused),
        "kept": [
            {"path": path, "bytes": look.size, "reason": reason}
            for path, look, reason in ([] if result.is_discarded else result.kept)
        ],
        "in_use": result.is_in_use,
        "removed": result.is_discarded,
        "notes": result.notes,
    }


def _print(results: list[_Result], only_list: bool) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for result in results:
        spool, left = result.spool, result.left
        if result.is_discarded:
            console.print(f"deleted    {spool.name}, unpublished", markup=False)
            continue
        if result.is_waiting:
            _print_waiting(console, result)
        if left.refused:
            _print_refused(console, result)
        if result.is_in_use:
            console.print(f"in use     {plain(spool.uri)}", style="green", markup=False)
            console.print(f"  {_why_in_use(result)}", markup=False)
        elif result.is_done and not only_list and not result.kept:
            console.print(f"published  {plain(spool.uri)}", style="green", markup=False)
        for note in result.notes:
            console.print(f"  {plain(note)}", markup=False)
        if result.kept:
            _print_kept(console, result, is_published=result.is_done)
    if all(result.is_done for result in results):
        console.print("nothing is waiting to be published")


def _why_in_use(result: _Result) -> str:
    if result.spool.is_held():
        return "a process of the run still logs; it is published as it comes"
    return (
        f"{plain(result.open_files[0])} is open in another process; "
        "run `tbhub sync` again when it is closed"
    )


def _print_waiting(console: Console, result: _Result) -> None:
    spool, left = result.spool, result.left
    what = f"{count(left.files, 'file')}, {size(left.bytes)}"
    console.print(f"waiting    {plain(spool.uri)}: {what}", style="yellow", markup=False)
    console.print(f"  in {plain(spool.directory)}", markup=False)
    if left.problem:
        console.print(f"  {plain(left.problem)}", markup=False)
    if spool.owed.exists() and not left.problem:
        console.print("  the hub has yet to be told of the run, or of its end")
    if spool.given and left.files:
        console.print("  the program gave credentials of its own; set them in the environment")


def _print_refused(console: Console, result: _Result) -> None:
    spool, refused = result.spool, result.left.refused
    rest = "" if result.is_waiting else ", everything else is published"
    what = f"{count(len(refused), 'file')} cannot be published{rest}"
    console.print(f"kept       {plain(spool.uri)}: {what}", style="yellow", markup=False)
    console.print(f"  in {plain(spool.directory)}", markup=False)
    for each in refused[:_SHOWN]:
        console.print(f"  {plain(each)}", markup=False)
    if len(refused) > _SHOWN:
        console.print(f"  and {len(refused) - _SHOWN:,} more")
    console.print(f"  hint: `tbhub sync --discard {spool.name}` deletes what is there")


def _print_kept(console: Console, result: _Result, *, is_published: bool) -> None:
    spool, kept = result.spool, result.kept
    total = size(sum(each.look.size for each in kept))
    rest = ", everything else is published" if is_published else ""
    console.print(
        f"kept       {plain(spool.uri)}: {count(len(kept), 'file')}, {total}{rest}", markup=False
    )
    console.print(f"  in {plain(spool.directory)}", markup=False)
    for path, look, reason in kept[:_SHOWN]:
        console.print(f"  {size(look.size):>8}  {plain(path)}  ({plain(reason)})", markup=False)
    if len(kept) > _SHOWN:
        console.print(f"  and {len(kept) - _SHOWN:,} more")
    console.print(f"  hint: `tbhub sync --discard {spool.name}` deletes what is there")
