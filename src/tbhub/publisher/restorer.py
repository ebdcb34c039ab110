"""Fetches what a run has published back into a directory, before the run is resumed.

Checkpoints come first, the newest before the others, then logs and event files. A file is read in
parts into a staging directory and renamed when it is whole; an interrupted restore continues with
the bytes it has. A restored file counts as published until it is changed.

What is on this machine and has not been published is never replaced without being kept: where a
later attempt has published a file of the same name that does not contain all of it, the local one
is renamed. A link to a file is
published as that file, and treated as one here: the link itself is replaced or renamed, never what
it leads to.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import os
import re
import shutil
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG

from tbhub.errors import TbhubError
from tbhub.events.names import is_event_file, is_log
from tbhub.events.segments import group_segments
from tbhub.publisher.checkpoints import checkpoint_directory, numberless
from tbhub.publisher.exclusion import OTHER_RUN, attempt_mark
from tbhub.publisher.files import LINK, STAGING, look_of, read_link
from tbhub.publisher.manifest import MANIFEST, MAX_BYTES, Entries, decode, missing_files
from tbhub.publisher.older import Older
from tbhub.publisher.state import Grown, State
from tbhub.storage.errors import BadName, NotFound, StoreError
from tbhub.storage.store import AppendingStore, Entry, Store
from tbhub.storage.uri import object_name

_RECORD = "restoring"  # the name of a file beside the state file
_PART = 4 << 20  # bytes that are read at a time
_THREADS = 4  # so at most 16 MiB are in memory
_RETRIES = 3  # for a file that is replaced while it is read
_SAVE_INTERVAL = 2.0  # seconds
_MAX_LINK = 4096  # bytes of where a link leads to
_FULL = (errno.ENOSPC, errno.EDQUOT)
_RANK = re.compile(r"rank[1-9]\d*")
# Written last by the Trainer of Transformers, which cannot resume without it; and what shows that a
# checkpoint is one of that Trainer.
_LAST_OF_TRAINER = "trainer_state.json"
_OF_TRAINER = re.compile(r"training_args\.bin|optimizer\.pt|scheduler\.pt|rng_state\S*\.pth")


class RestoreError(TbhubError, OSError):
    """The files of a run could not be restored."""


@dataclass(frozen=True)
class Progress:
    """How far a restore is.

    Attributes:
        files: How many files are restored.
        of_files: How many there are to restore.
        bytes: How much is restored.
        of_bytes: How much there is to restore.
        path: The file that was begun last.
    """

    files: int
    of_files: int
    bytes: int
    of_bytes: int
    path: str


@dataclass(frozen=True)
class Restored:
    """What a restore did.

    Attributes:
        files: How many files were fetched.
        bytes: How much that was.
        incomplete: Checkpoint directories that were left out because files of them are missing; the
            newest first.
        renamed: Local files of an earlier attempt, under their new names, which a later attempt
            has replaced.
        kept: Local files that were not replaced although the store has others.
        foreign: Local files of another run, under their new names, in whose place those of this
            run were put; they are not published.
    """

    files: int = 0
    bytes: int = 0
    incomplete: tuple[str, ...] = ()
    renamed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()


def begin_restore(state: Path) -> None:
    """Record that a directory lacks files of the newest attempt, until its restore is complete.

    Args:
        state: The publisher's state file of the directory.

    Raises:
        RestoreError: It cannot be recorded.
    """
    try:
        _record(state).touch()
    except OSError as error:
        raise RestoreError(f"cannot write to {state.parent}: {error.strerror}") from error


def is_being_restored(state: Path) -> bool:
    """Return whether the restore of a directory was begun and is not complete."""
    return _record(state).exists()


def _record(state: Path) -> Path:
    return state.with_name(_RECORD)


@dataclass(frozen=True)
class _Wanted:
    """A file to fetch: its path in the directory, and the objects it is made of."""

    path: str
    parts: tuple[Entry, ...]

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    @property
    def modified(self) -> float:
        return max(part.modified for part in self.parts)

    @property
    def grows(self) -> bool:
        return is_event_file(self.path) or is_log(self.path)


class Restorer:
    """Restores one directory.

    Args:
        store: Where the run's files are; the caller closes it.
        prefix: The place of this process's files in the store.
        directory: Where the files are restored to.
        state: The publisher's state file of the directory.
        without_ranks: Leave out what other processes of the job restore: ``rank1/``, ….
        is_newest: Whether what is in the directory now was written by the newest attempt so far:
            then it is at least as new as what the store has.
        attempt: The attempt that wrote what is in the directory; names files that are kept aside.
        older: Files of the directory that are not the run's.
    """

    def __init__(
        self,
        store: Store,
        prefix: str,
        directory: Path,
        *,
        state: Path,
        without_ranks: bool = False,
        is_newest: bool = True,
        attempt: int = 0,
        older: Older | None = None,
    ) -> None:
        self._store = store
        self._prefix = prefix
        self._directory = directory
        self._top = os.path.realpath(directory)
        self._staging = directory / STAGING
        self._state = State(state)
        self._state_file = state
        self._without_ranks = without_ranks
        self._is_newest = is_newest
        self._attempt = attempt
        self._older = older or Older()
        self._manifest: Entries = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._doubtful: dict[str, bool] = {}  # local files to replace: is the suffix to be kept?
        self._renamed: list[str] = []
        self._kept: list[str] = []
        self._foreign: list[str] = []
        self._files = self._bytes = 0
        self._saved_at = time.monotonic()

    def run(self, report: Callable[[Progress], None] = lambda _: None) -> Restored:
        """Restore everything that is missing.

        Raises:
            RestoreError: The store does not answer, the disk is full, or a file keeps changing.
        """
        try:
            found = self._list()
            if not self._is_newest:
                begin_restore(self._state_file)
            times = {path: each.modified for path, each in found.items()}
            incomplete = incomplete_checkpoints(times, self._manifest)
            wanted = [
                found[path]
                for path in in_order(times)
                if checkpoint_directory(path) not in incomplete and self._is_missing(found[path])
            ]
            self._require_space(wanted)
            if wanted:
                self._fetch_all(wanted, report)
            if self._stopped.is_set():
                raise RestoreError("it was interrupted")
        except StoreError as error:
            raise RestoreError(str(error)) from error
        finally:
            self._save()
        shutil.rmtree(self._staging, ignore_errors=True)
        with suppress(OSError):
            _record(self._state_file).unlink()
        incomplete |= unpublished_checkpoints(times.keys(), self._manifest, incomplete)
        left_out = [each for each in incomplete if not (self._directory / each).exists()]
        return Restored(
            self._files,
            self._bytes,
            tuple(sorted(left_out, key=lambda each: (_numbers(each), each), reverse=True)),
            tuple(sorted(self._renamed)),
            tuple(sorted(self._kept)),
            tuple(sorted(self._foreign)),
        )

    def stop(self) -> None:
        """Begin nothing new; `run` returns soon."""
        self._stopped.set()

    # ------------------------------------------------------------------ what there is to do

    def _list(self) -> dict[str, _Wanted]:
        before = len(self._prefix) + 1
        entries = {entry.path[before:]: entry for entry in self._store.list(self._prefix)}
        self._read_manifests(entries)
        if isinstance(self._store, AppendingStore):
            grouped: Mapping[str, Iterable[str]] = {path: [path] for path in entries}
        else:
            grouped = group_segments(entries)
        return {
            path: _Wanted(path, tuple(entries[part] for part in parts))
            for path, parts in grouped.items()
            if self._is_wanted(path)
        }

    def _read_manifests(self, entries: Mapping[str, Entry]) -> None:
        """Read the manifest of each process whose files are restored; skip a damaged one."""
        for path, entry in entries.items():
            above, slash, name = path.rpartition("/")
            is_rank = _RANK.fullmatch(above) and not self._without_ranks
            if name == MANIFEST and (is_rank or not above):
                with suppress(ValueError, NotFound):
                    listed = decode(self._store.read(entry.path, 0, MAX_BYTES))
                    self._manifest |= {f"{above}{slash}{each}": listed[each] for each in listed}

    def _is_wanted(self, path: str) -> bool:
        try:
            object_name(path)
        except BadName:
            return False
        if path.rpartition("/")[2] == MANIFEST:
            return False
        first, _, rest = path.partition("/")
        if self._without_ranks and rest and _RANK.fullmatch(first):
            return False
        return not any(part.startswith(".tbhub-") for part in path.split("/"))

    def _is_missing(self, wanted: _Wanted) -> bool:
        """Return whether a file has to be fetched. Rename what is not the run's in its place."""
        file = self._directory / wanted.path
        if not self._is_inside(file.parent):
            self._kept.append(wanted.path)
            return False
        if wanted.path.endswith(LINK) and os.path.lexists(self._link_of(wanted)):
            is_link = self._link_of(wanted).is_symlink()
            if not is_link:
                self._kept.append(wanted.path.removesuffix(LINK))
            return is_link and not self._is_newest
        status = _status_of(file)
        leads_out = not self._is_inside(file)
        if status is None and not leads_out:
            return True
        if status is None or not S_ISREG(status.st_mode) or (leads_out and self._is_newest):
            self._kept.append(wanted.path)
            return False
        look = look_of(status)
        if leads_out:
            self._renamed.append(self._set_aside(file, attempt_mark(self._attempt)))
            return True
        if self._older.covers(wanted.path, look) and not is_event_file(wanted.path):
            self._foreign.append(self._set_aside(file, OTHER_RUN))
            return True
        if look.size == wanted.size and look.mtime_ns == _nanoseconds(wanted.modified):
            self._note(wanted, file)  # restored before, when the state was not saved
            return False
        if wanted.grows:
            if self._continues_elsewhere(wanted, file):
                self._doubtful[wanted.path] = True
                return True
            return self._has_less(wanted, file, look.size)
        if self._is_newest:
            return False
        if self._state.whole.get(wanted.path) != look:
            self._doubtful[wanted.path] = False
        return True

    def _has_less(self, wanted: _Wanted, file: Path, size: int) -> bool:
        """Whether a local file is a beginning of what is published."""
        if size >= wanted.size:
            return False
        grown = self._state.grown.get(wanted.path)
        with file.open("rb") as opened:
            if grown is not None and grown.end == size and grown.is_of(opened.fileno()):
                return True
        return False

    def _continues_elsewhere(self, wanted: _Wanted, file: Path) -> bool:
        """Whether a later attempt continued a log of which a part is here alone."""
        if self._is_newest or is_event_file(wanted.path):
            return False
        grown = self._state.grown.get(wanted.path)
        return grown is None or grown.end < file.stat().st_size

    def _set_aside(self, file: Path, mark: str, *, keep_suffix: bool = False) -> str:
        """Rename a file, or a link, and return its new path.

        `tbhub.publisher.exclusion` finds the name it had: an excluded file stays excluded.
        """
        aside = _free_name(file, mark, keep_suffix=keep_suffix)
        file.rename(aside)
        return aside.relative_to(self._directory).as_posix()

    def _is_inside(self, place: Path) -> bool:
        """Whether no link leads from the directory to another place."""
        return f"{os.path.realpath(place)}/".startswith(f"{self._top}/")

    def _require_space(self, wanted: list[_Wanted]) -> None:
        needed = sum(each.size for each in wanted)
        if not needed:
            return
        free = shutil.disk_usage(self._directory).free + self._staged()
        if free < needed:
            raise RestoreError(
                f"restoring the run's files takes {needed:,} bytes, and {self._directory} has "
                f"room for {free:,}"
            )

    def _staged(self) -> int:
        try:
            return sum(each.stat().st_size for each in self._staging.iterdir())
        except OSError:
            return 0

    # ------------------------------------------------------------------ fetching

    def _fetch_all(self, wanted: list[_Wanted], report: Callable[[Progress], None]) -> None:
        self._staging.mkdir(mode=0o700, parents=True, exist_ok=True)
        of_bytes = sum(each.size for each in wanted)

        def fetch(each: _Wanted) -> None:
            self._tell(report, len(wanted), of_bytes, each.path)
            self._fetch(each, lambda: self._tell(report, len(wanted), of_bytes, each.path))
            with self._lock:
                self._files += 1
            self._tell(report, len(wanted), of_bytes, each.path)

        waiting = deque(wanted)
        errors: list[BaseException] = []

        def work() -> None:
            while not self._stopped.is_set():
                with self._lock:
                    each = waiting.popleft() if waiting else None
                if each is None:
                    return
                try:
                    fetch(each)
                except BaseException as error:
                    errors.append(error)
                    self._stopped.set()

        # Not those of an executor, which would keep the program from ending.
        threads = [
            threading.Thread(target=work, name="tbhub-restore", daemon=True)
            for _ in range(min(_THREADS, len(wanted)))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    def _tell(
        self, report: Callable[[Progress], None], files: int, of_bytes: int, path: str
    ) -> None:
        with self._lock:
            report(Progress(self._files, files, self._bytes, of_bytes, path))

    def _fetch(self, wanted: _Wanted, tell: Callable[[], None]) -> None:
        file = self._directory / wanted.path
        try:
            for _ in range(_RETRIES):
                staged = self._staging / _digest(wanted)
                self._read(wanted, staged, tell)
                if self._stopped.is_set():
                    return
                entry = wanted.parts[0] if wanted.grows else self._store.stat(wanted.parts[0].path)
                if entry.version == wanted.parts[0].version:
                    break
                staged.unlink()
                wanted = _Wanted(wanted.path, (entry,))
            else:
                raise RestoreError(f"{wanted.path} keeps changing while it is restored")
            file.parent.mkdir(parents=True, exist_ok=True)
            if wanted.path.endswith(LINK) and self._make_link(wanted, staged):
                return
            moment = _nanoseconds(wanted.modified)
            os.utime(staged, ns=(moment, moment))
            if wanted.path in self._doubtful and not _starts_with(staged, file):
                mark, keep_suffix = attempt_mark(self._attempt), self._doubtful[wanted.path]
                self._renamed.append(self._set_aside(file, mark, keep_suffix=keep_suffix))
            staged.replace(file)
        except OSError as error:
            if isinstance(error, StoreError | RestoreError):
                raise
            if error.errno in _FULL:
                raise RestoreError(f"the disk of {self._directory} is full") from error
            raise RestoreError(f"cannot restore {wanted.path}: {error.strerror}") from error
        self._note(wanted, file)
        with self._lock:
            is_due = time.monotonic() - self._saved_at > _SAVE_INTERVAL
            self._saved_at = time.monotonic() if is_due else self._saved_at
        if is_due:
            self._save()

    def _save(self) -> None:
        try:
            self._state.save()
        except OSError as error:
            raise RestoreError(str(error)) from error

    def _link_of(self, wanted: _Wanted) -> Path:
        return self._directory / wanted.path.removesuffix(LINK)

    def _make_link(self, wanted: _Wanted, staged: Path) -> bool:
        """Make a link of a file that holds where it leads to. Return False if it is another file.

        A link leads up to a directory of the run at most, and from there down: so it leads out of
        the run's directory by no way, whatever other links there are.
        """
        if wanted.size > _MAX_LINK:
            return False
        text = os.fsdecode(staged.read_bytes())
        parts = text.split("/")
        up = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
        depth = wanted.path.count("/")
        if up > depth or "\0" in text or any(part in ("", "..") for part in parts[up:]):
            return False
        link = self._link_of(wanted)
        new = staged.with_name(f"{staged.name}.link")
        new.unlink(missing_ok=True)
        new.symlink_to(text)
        if os.path.lexists(link) and not link.is_symlink():
            return False
        new.replace(link)
        staged.unlink()
        if (made := read_link(self._directory, wanted.path)) is not None:
            self._state.set_whole(wanted.path, made.look)
        return True

    def _read(self, wanted: _Wanted, staged: Path, tell: Callable[[], None]) -> None:
        """Read a file to its place in the staging directory, behind what is there of it."""
        with staged.open("ab") as output:
            position = output.tell()
            self._count(position)
            offset = 0
            for part in wanted.parts:
                while position < offset + part.size and not self._stopped.is_set():
                    length = min(_PART, offset + part.size - position)
                    data = self._store.read(part.path, position - offset, length)
                    if not data:
                        break  # shorter than it was: the version tells, or the size
                    output.write(data)
                    position += len(data)
                    self._count(len(data))
                    tell()
                offset += part.size
        if position != wanted.size and not self._stopped.is_set():
            staged.unlink()
            raise RestoreError(
                f"{wanted.path} has {position:,} bytes in the store, and should have "
                f"{wanted.size:,}"
            )

    def _count(self, size: int) -> None:
        with self._lock:
            self._bytes += size

    def _note(self, wanted: _Wanted, file: Path) -> None:
        """Record a file as published."""
        if not wanted.grows:
            self._state.set_whole(wanted.path, look_of(file.stat()))
            return
        ends, end = [], 0
        for part in wanted.parts:
            end += part.size
            ends.append(end)
        grown = Grown(wanted.path, ends=ends)
        with file.open("rb") as opened:
            grown.remember(opened.fileno())
        self._state.set_grown(wanted.path, grown)


def in_order(files: Mapping[str, float]) -> list[str]:
    """Sort files: checkpoints and others, the newest first, those of a directory together; then
    logs and event files.

    Args:
        files: The time of each file by its path.
    """
    latest: dict[str, float] = {}
    for path, modified in files.items():
        group = checkpoint_directory(path) or path
        latest[group] = max(modified, latest.get(group, 0.0))

    def key(path: str) -> tuple[bool, float, str, str]:
        group = checkpoint_directory(path) or path
        return is_event_file(path) or is_log(path), -latest[group], group, path

    return sorted(files, key=key)


def incomplete_checkpoints(files: Mapping[str, float], manifest: Entries) -> set[str]:
    """Return checkpoint directories that lack files.

    A worker that was killed may have published a part of its last checkpoint only. The manifest
    shows it. The program may have been killed before it wrote all files of its last checkpoint. So
    the newest directory of a kind, by its time or its number, requires the files that all others
    list, or, if it is not listed, that most of the others have; and what the Trainer of
    Transformers writes last.

    Args:
        files: The time of each file by its path.
        manifest: The files that directories should have.
    """
    found: dict[str, set[str]] = {}
    latest: dict[str, float] = {}
    for path, modified in files.items():
        if (directory := checkpoint_directory(path)) is not None:
            found.setdefault(directory, set()).add(numberless(path[len(directory) + 1 :]))
            latest[directory] = max(modified, latest.get(directory, 0.0))
    incomplete = set(missing_files(manifest, files))
    kinds: dict[str, list[str]] = {}
    for directory in found.keys() - incomplete:
        kinds.setdefault(numberless(directory), []).append(directory)
    for siblings in kinds.values():
        newest = max(siblings, key=lambda directory: (latest[directory], directory))
        for candidate in {newest, max(siblings, key=_numbers)}:
            others = [each for each in siblings if each != candidate]
            if candidate in manifest:
                required = _in_all([manifest[each] for each in others if each in manifest])
            else:
                required = _in_most([found[each] for each in others])
            if any(map(_OF_TRAINER.fullmatch, found[candidate])):
                required = required | {_LAST_OF_TRAINER}
            if required - found[candidate]:
                incomplete.add(candidate)
    return incomplete


def unpublished_checkpoints(
    files: Collection[str], manifest: Entries, incomplete: Collection[str]
) -> set[str]:
    """Return checkpoint directories that the manifest lists and of which no file was published.

    Only those are returned that come after every complete one of their kind, by the numbers in
    their names: a program deletes old checkpoints, some before they are published.

    Args:
        files: The paths of the files that were published.
        manifest: The files that directories should have.
        incomplete: Directories of which a part was published.
    """
    found = {directory for path in files if (directory := checkpoint_directory(path)) is not None}
    complete = found.difference(incomplete)

    def is_last(directory: str) -> bool:
        kind = numberless(directory)
        return all(
            _numbers(each) < _numbers(directory) for each in complete if numberless(each) == kind
        )

    return {
        each for each, names in manifest.items() if names and each not in found and is_last(each)
    }


def _in_all(directories: Sequence[Set[str]]) -> set[str]:
    """Return the files, without numbers, that all of some directories have."""
    found = [set(map(numberless, names)) for names in directories]
    return set.intersection(*found) if found else set()


def _in_most(directories: Sequence[set[str]]) -> set[str]:
    """Return the files that more than half of some directories have."""
    counts = Counter(itertools.chain.from_iterable(directories))
    return {name for name, count in counts.items() if 2 * count > len(directories)}


def _numbers(directory: str) -> tuple[list[int], str]:
    """Return what orders directories by the numbers in their names."""
    name = directory.rpartition("/")[2]
    return [int(digits) for digits in re.findall(r"\d+", name)], directory


def _status_of(file: Path) -> os.stat_result | None:
    """Return the status of a file, or of what a link leads to; None if nothing is there."""
    try:
        return file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise


def _starts_with(file: Path, beginning: Path) -> bool:
    """Return whether a file starts with all bytes of another file."""
    with file.open("rb") as whole, beginning.open("rb") as first:
        while data := first.read(_PART):
            if whole.read(len(data)) != data:
                return False
    return True


def _free_name(file: Path, mark: str, *, keep_suffix: bool) -> Path:
    """Return a path beside a file that is free: its name with a mark, and a number if needed."""
    for number in itertools.count():
        marked = f".{mark}-{number}" if number else f".{mark}"
        name = f"{file.stem}{marked}{file.suffix}" if keep_suffix else f"{file.name}{marked}"
        if not os.path.lexists(file.with_name(name)):
            return file.with_name(name)
    raise AssertionError("unreachable")


def _digest(wanted: _Wanted) -> str:
    """Return the name of a staged file: another one for another version of the file."""
    versions = "" if wanted.grows else wanted.parts[0].version
    text = f"{wanted.path}\0{versions}\0{wanted.size}"
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{STAGING}-{digest}"


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1000) * 1_000_000
