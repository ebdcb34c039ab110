"""Where local copies wait until they are published.

    <spool>/<name>-<random>/
        files/         what is to be published, unless that is a directory of the user's own
        target.json    where to, and how credentials are found; never the credentials themselves
        state.json     what has been published
        lock           held by the process that publishes; that of a dead one is free
        writers        held by the processes that write, together: nothing is removed meanwhile
        log            what that process had to say
        run.json       the run that these are the files of, if a hub knows it
        owed           what the hub has yet to be told of the run: nothing is removed before
        adopted.json   which files of `files/` are copies of files elsewhere, see `adopted`
        older.json     files that a directory of the user's had before the run, see `older`
        final.json     all files of a user's directory, when another run was started there
        earlier.json   event files that earlier attempts wrote: what is written now comes behind
        reserve        room for these records when the disk is full, see `room`
        restoring      a restore was begun: files of the newest attempt may be missing
        fenced         the writer was alive when a newer attempt took over: nothing is published

The spool is `TBHUB_SPOOL_DIR`, or a directory among the user's data. Nobody else may look into it.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryFile

from tbhub.errors import TbhubError
from tbhub.events.names import is_event_file
from tbhub.publisher.adopted import catch_up
from tbhub.publisher.exclusion import checked_patterns, patterns_of_environment
from tbhub.publisher.files import (
    IGNORED,
    Found,
    all_files,
    files_below,
    look_of,
    openness_of,
    read_link,
)
from tbhub.publisher.older import FinalFiles, Older, read_older, write_older
from tbhub.publisher.plan import Look, Openness, is_growing
from tbhub.publisher.publisher import Backlog, Progress, Publisher, told
from tbhub.publisher.records import boundary_before, is_torn_record
from tbhub.publisher.room import require_room, reserve_room, write_record
from tbhub.publisher.state import Grown, State
from tbhub.publisher.throttle import rate_of_environment
from tbhub.storage.errors import StoreError
from tbhub.storage.open import open_store
from tbhub.storage.store import Patience, Store

# The publisher has a patience of its own, and wants to know soon.
PATIENCE = Patience(retries=2, total=30)

_FILES, _TARGET, _STATE = "files", "target.json", "state.json"
_LOCK, _WRITERS, _LOG = "lock", "writers", "log"
_RUN, _OWED = "run.json", "owed"
_ADOPTED, _OLDER, _FINAL = "adopted.json", "older.json", "final.json"
_WANTED = "wanted"
_EARLIER, _FENCED = "earlier.json", "fenced"
_WANTED_SECONDS = 5.0
_LOOKS = 0.2  # seconds between two reports of progress
_STOP_TIMEOUT = 5.0  # seconds for large uploads to be given up
_MIN_ROOM = 64 << 10  # bytes: the files of tbhub itself, before a run has written anything


class SpoolError(TbhubError, OSError):
    """The spool cannot be used."""


class SpoolTakenError(SpoolError):
    """Another process publishes this already."""


@dataclass(frozen=True)
class Spool:
    """One directory that waits to be published.

    Attributes:
        path: Its place in the spool.
        uri: Where it goes.
        directory: What is published.
        rank: Of the process among those of its job.
        exclude: Globs of files that are not published.
        given: Whether credentials were given by the program, and not found in the environment.
        made: When it was made, which orders the attempts of a run.
    """

    path: Path
    uri: str
    directory: Path
    rank: int = 0
    exclude: tuple[str, ...] = ()
    given: bool = False
    made: float = 0.0

    @property
    def name(self) -> str:
        """What it is called on a command line."""
        return self.path.name

    @property
    def is_own(self) -> bool:
        """Whether the files are ours to remove."""
        return self.directory == self.path / _FILES

    @property
    def state(self) -> Path:
        """The file in which is kept what has been published."""
        return self.path / _STATE

    def open(
        self, credentials: Mapping[str, str] | None = None, *, late_attempt: int = 0
    ) -> tuple[Publisher, Store]:
        """A publisher for it, and the store that whoever asks is to close."""
        store, prefix = open_store(self.uri, credentials, patience=PATIENCE)
        publisher = Publisher(
            self.directory,
            store,
            prefix,
            state=self.state,
            rank=self.rank,
            exclude=self.exclude,
            older=self.older(),
            earlier=self.earlier(),
            late_attempt=late_attempt,
            with_manifest=True,
        )
        return publisher, store

    def earlier(self) -> list[str]:
        """List the event files that earlier attempts wrote to the directory."""
        try:
            return [str(each) for each in json.loads((self.path / _EARLIER).read_bytes())]
        except (OSError, ValueError, TypeError):
            return []

    def note_earlier(self) -> None:
        """Record that the event files there now were written by earlier attempts."""
        found = [
            path for path, _ in files_below(self.directory, self.exclude) if is_event_file(path)
        ]
        if found:
            write_record(self.path / _EARLIER, json.dumps(found))

    def mark_fenced(self) -> None:
        """Record that a newer attempt took over while a process was still writing here."""
        with suppress(OSError):
            (self.path / _FENCED).touch()

    @property
    def is_fenced(self) -> bool:
        """Whether a newer attempt took over while a process was still writing here."""
        return (self.path / _FENCED).exists()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Nobody else publishes it meanwhile.

        Raises:
            SpoolTakenError: Somebody does.
        """
        try:
            lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SpoolError(f"cannot use {self.path}: {error.strerror}") from error
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise SpoolTakenError(
                    f"another process publishes {self.directory} to {self.uri} already"
                ) from None
            self._wanted.unlink(missing_ok=True)
            yield
        finally:
            os.close(lock)

    @property
    def _wanted(self) -> Path:
        return self.path / _WANTED

    def want(self) -> None:
        """Ask the process that publishes it, and whose program has ended, to let go of it."""
        with suppress(OSError):  # on a full disk it cannot be asked
            self._wanted.touch()

    def is_wanted(self) -> bool:
        """Whether another process waits to publish it; it may have ended since."""
        try:
            return time.time() - self._wanted.stat().st_mtime < _WANTED_SECONDS
        except OSError:
            return False

    @property
    def run(self) -> Path:
        """The file that says which run this is of."""
        return self.path / _RUN

    @property
    def owed(self) -> Path:
        """The file with what a hub has yet to be told; as long as it is there all stays."""
        return self.path / _OWED

    @property
    def adopted(self) -> Path:
        """The file that records which files are copies of files elsewhere."""
        return self.path / _ADOPTED

    def older(self) -> Older:
        """Return the files of the directory that are not published: they are not the run's."""
        return read_older(self.path / _OLDER, FinalFiles(self.path / _FINAL))

    def leave_out(self, older: Older) -> None:
        """Have files that were there before not published."""
        write_older(self.path / _OLDER, older)

    def freeze(self, paths: Iterable[str]) -> None:
        """Publish no files of a user's directory but these: another run uses it from now on."""
        if not self.is_own and not (self.path / _FINAL).exists():
            write_record(self.path / _FINAL, json.dumps(sorted(paths)))

    def thaw(self) -> None:
        """Publish new files again: the run is resumed."""
        (self.path / _FINAL).unlink(missing_ok=True)

    def catch_up(self) -> None:
        """Copy the rest of adopted files whose copying process was killed."""
        catch_up(self.directory, self.adopted)

    def hold(self) -> int:
        """Nothing is removed as long as this process, or one that it forks, is there.

        Returns:
            The descriptor of the lock; closing it lets go.
        """
        lock = os.open(self.path / _WRITERS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_SH)
        return lock

    def is_held(self) -> bool:
        """Whether a process may still write to it."""
        try:
            lock = os.open(self.path / _WRITERS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:  # it has been removed
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    def open_files(self) -> list[str]:
        """Return files that are ours to remove and that another process can still write to.

        It may be one that does not hold the spool, for example a daemon that was told the path.
        """
        if not self.is_own:
            return []
        top = os.path.realpath(self.directory)
        paths = [os.path.join(top, path) for path, _, _ in all_files(self.directory, self.exclude)]
        own = [path for path in paths if not os.path.islink(path)]
        found = [path for path in own if openness_of(Path(path)) is Openness.OPEN]
        ours = _opened_by_us() if found else set()
        return [os.path.relpath(path, top) for path in found if path not in ours]

    def log(self, text: str) -> None:
        """Writes a line to its log."""
        with suppress(OSError), (self.path / _LOG).open("a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {text}\n")

    def last_words(self) -> str:
        """What was said last in its log, without the time."""
        try:
            lines = (self.path / _LOG).read_text(encoding="utf-8").splitlines()
        except OSError:
            return ""
        return lines[-1].partition(" ")[2] if lines else ""

    def lasting_problem(self, seconds: float) -> str:
        """Return the problem the agent has noted, if nothing was published for so long since."""
        try:
            said = (self.path / _LOG).stat().st_mtime
        except OSError:
            return ""
        with suppress(FileNotFoundError):
            if self.state.stat().st_mtime >= said:
                return ""
        return self.last_words() if time.time() - said >= seconds else ""

    def backlog(self) -> Backlog:
        """What is not published, by what is on this machine; no store is asked."""
        missing = dict(self.unpublished())
        refused = {path: why for path, why in self.refused().items() if path in missing}
        waiting = [size for path, size in missing.items() if path not in refused]
        problem = self.last_words() if waiting else ""
        return Backlog(len(waiting), sum(waiting), problem, told(refused))

    def refused(self) -> dict[str, str]:
        """Return the files that could not be published as they are now, with the reasons."""
        known = State(self.state).refused
        found = dict(files_below(self.directory, self.exclude)) if known else {}
        return {path: why for path, (look, why) in known.items() if found.get(path) == look}

    def unpublished(self) -> Iterator[tuple[str, int]]:
        """Yield the files that are to be published and are not, with the bytes that are missing."""
        state = State(self.state)
        older = self.older()
        for path, look in files_below(self.directory, self.exclude):
            if older.covers(path, look):
                continue
            missing = _unpublished(self.directory, state, path, look)
            if missing is not None:
                yield path, missing

    def left_out(self) -> list[Found]:
        """Return the files that are ours to remove and will not be published, largest first."""
        if not self.is_own:
            return []
        state = State(self.state)
        found = [
            each
            for each in all_files(self.directory, self.exclude)
            if each.left_out and state.whole.get(each.path) != each.look  # restored, unchanged
        ]
        for path, look in files_below(self.directory, self.exclude):
            if is_event_file(path) and (tail := _damaged(self.directory, state, path, look)):
                found.append(Found(path, look, f"the last {tail:,} bytes are no events"))
        return sorted(found, key=lambda each: (-each.look.size, each.path))


def _opened_by_us() -> set[str]:
    """Return the files that this process has open."""
    opened = set()
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # closed since
            opened.add(os.readlink(f"/proc/self/fd/{descriptor}"))
    return opened


def _unpublished(directory: Path, state: State, path: str, look: Look) -> int | None:
    """Return how many bytes of a file are not published; None if nothing is missing."""
    grown = state.grown.get(path)
    if is_growing(path, grown.again if grown else 0):
        return _missing(directory / path, grown, look.size) or None
    return None if state.whole.get(path) == look else look.size


def _damaged(directory: Path, state: State, path: str, look: Look) -> int:
    """Return how many bytes of an event file can be neither published nor forgotten."""
    grown = state.grown.get(path)
    try:
        descriptor = os.open(directory / path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        end = grown.end if grown is not None and grown.is_of(descriptor) else 0
        end = boundary_before(descriptor, look.size, end)
        return 0 if is_torn_record(descriptor, end, look.size) else look.size - end
    finally:
        os.close(descriptor)


def _missing(file: Path, grown: Grown | None, size: int) -> int:
    """Bytes that are not published; of an event file those of whole records."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        end = grown.end if grown is not None and grown.is_of(descriptor) else 0
        whole = boundary_before(descriptor, size, end) if is_event_file(file.name) else size
        return whole - end
    finally:
        os.close(descriptor)


def spool_root() -> Path:
    """The directory of all that waits."""
    given = os.environ.get("TBHUB_SPOOL_DIR")
    if given:
        return Path(given).expanduser().absolute()
    from platformdirs import user_data_dir

    return Path(user_data_dir("tbhub", appauthor=False)) / "spool"


def make_spool(
    uri: str,
    directory: Path | None = None,
    *,
    rank: int = 0,
    exclude: Sequence[str] = (),
    given: bool = False,
) -> Spool:
    """A new place in the spool, for a directory of the user's or for files that are yet to come.

    What `exclude` or ``TBHUB_EXCLUDE`` names is not published.

    Raises:
        SpoolError: The spool cannot be written to.
        ValueError: A pattern, or the limit of ``TBHUB_UPLOAD_LIMIT``, is not one.
    """
    rate_of_environment()
    root = spool_root()
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", uri.rstrip("/").rpartition("/")[2])[:40].strip("-.")
    path = root / f"{name or 'run'}-{token_hex(6)}"
    spool = Spool(
        path,
        uri,
        path / _FILES if directory is None else directory.absolute(),
        rank,
        checked_patterns([*exclude, *patterns_of_environment()]),
        given,
        time.time(),
    )
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.mkdir(mode=0o700)
        (path / _FILES).mkdir()
        _write_target(spool)
        reserve_room(path)
    except OSError as error:
        raise _unusable(root, error) from error
    return spool


def check_spool() -> None:
    """Check that the spool can be written to and has room for a run to begin.

    Raises:
        SpoolError: It cannot be written to, or has no room.
        ValueError: A setting of the environment is wrong.
    """
    patterns_of_environment()
    rate_of_environment()
    root = spool_root()
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with TemporaryFile(dir=root) as file:
            file.write(bytes(_MIN_ROOM))
    except OSError as error:
        raise _unusable(root, error) from error


def _unusable(root: Path, error: OSError) -> SpoolError:
    return SpoolError(
        f"cannot keep local copies in {root}: {error.strerror}; set TBHUB_SPOOL_DIR to a "
        "directory that can be written to"
    )


def redirect(spool: Spool, uri: str) -> Spool:
    """The same files, for another place; nobody publishes them yet."""
    other = replace(spool, uri=uri)
    _write_target(other)
    return other


def _write_target(spool: Spool) -> None:
    target = {
        "uri": spool.uri,
        "directory": None if spool.is_own else str(spool.directory),
        "rank": spool.rank,
        "exclude": spool.exclude,
        "credentials": "given" if spool.given else "environment",
        "host": socket.gethostname(),
        "made": spool.made,
    }
    # Whoever lists the spool takes no notice of a place without a target.
    write_record(spool.path / _TARGET, json.dumps(target))


def find_spool(path: Path) -> Spool | None:
    """What is at a place of the spool; None if that is nothing that can be published."""
    try:
        target = json.loads((path / _TARGET).read_bytes())
        directory = Path(target["directory"]) if target["directory"] else path / _FILES
        return Spool(
            path,
            str(target["uri"]),
            directory,
            int(target["rank"]),
            tuple(map(str, target["exclude"])),
            target["credentials"] == "given",
            float(target["made"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def all_spools() -> list[Spool]:
    """Everything in the spool, the oldest first."""
    try:
        places = list(spool_root().iterdir())
    except FileNotFoundError:
        return []
    found = [spool for spool in map(find_spool, places) if spool is not None]
    return sorted(found, key=lambda spool: (spool.made, spool.name))


def publish_now(
    spool: Spool,
    credentials: Mapping[str, str] | None = None,
    *,
    timeout: float | None = None,
    late_attempt: int = 0,
    report: Callable[[Progress, Backlog], None] = lambda _progress, _backlog: None,
) -> Backlog:
    """Publishes what waits in one place, until nothing is left or time is up; what is left then.

    Where somebody has to do something first, nothing is waited for. `late_attempt` is that of the
    files, if a newer attempt has begun since (`Publisher`).

    Raises:
        SpoolTakenError: Another process does it already.
        StoreError: It is not known how to reach the store.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    with spool.taken():
        with suppress(OSError):  # files can be sent without
            require_room(spool.path)
        spool.catch_up()
        publisher, store = spool.open(credentials, late_attempt=late_attempt)
        try:
            while True:
                left = publisher.close(_LOOKS)
                report(publisher.progress, left)
                late = deadline is not None and time.monotonic() >= deadline
                if not publisher.is_alive or publisher.is_stuck or late:
                    break
        finally:
            publisher.stop(_STOP_TIMEOUT)
            store.close()
        if not publisher.is_done and not left.files:  # perhaps no pass has come to its end
            left = replace(spool.backlog(), problem=left.problem, refused=left.refused)
        if left.files or left.problem:
            left = replace(left, problem=left.problem or "not in time")
            spool.log(left.problem)
        return left


def discard(spool: Spool) -> bool:
    """Removes a place of the spool with what waits there; whether nobody was at it.

    A directory of the user's own stays as it is.
    """
    try:
        with spool.taken():
            if spool.is_held():
                return False
            _remove(spool)
            return True
    except SpoolError:
        return False


def remove_published(spool: Spool) -> bool:
    """Delete the files of a spool directory if all are published, and then the directory.

    Files that are left out stay, and with them the directory; so does one to which a process may
    still write, also if it is no process of the run. A directory of the user's own is not touched.

    Returns:
        Whether the spool directory was deleted.
    """
    try:
        with spool.taken():
            left = spool.backlog()
            if spool.is_held() or spool.owed.exists() or left.files or left.refused:
                return False
            if spool.open_files():
                return False
            if spool.is_own and not _delete_published(spool):
                return False
            _remove(spool)
            return True
    except (SpoolError, StoreError):
        return False


def _delete_published(spool: Spool) -> bool:
    """Delete files that are published as they are now; return whether no other file is left."""
    state = State(spool.state)
    top = os.path.realpath(spool.directory)
    kept = {each.path for each in spool.left_out()}
    for path, look, _ in list(all_files(spool.directory, spool.exclude)):
        file = os.path.join(top, path)
        if path in kept or os.path.islink(file):
            continue
        with suppress(FileNotFoundError):
            if (link := read_link(Path(top), path)) is not None:
                if state.whole.get(path) != link.look:
                    return False  # made just now
                continue
            is_same = look_of(os.lstat(file)) == look
            if not is_same or _unpublished(Path(top), state, path, look) is not None:
                return False  # written to just now
            os.unlink(file)
    if kept:
        return False
    for directory, inner, files in os.walk(top, topdown=False):
        for name in (*inner, *files):
            place = os.path.join(directory, name)
            if not os.path.islink(place) and (os.path.isdir(place) or _is_written(place)):
                continue
            with suppress(OSError):
                os.unlink(place)
        with suppress(OSError):
            os.rmdir(directory)
    return not os.path.lexists(top)


def _is_written(place: str) -> bool:
    """Whether a file has just been written: everything that was published is deleted by now."""
    name = os.path.basename(place)
    return os.path.isfile(place) and not name.startswith(IGNORED)


def _remove(spool: Spool) -> None:
    (spool.path / _TARGET).unlink(missing_ok=True)  # nobody finds it from here on
    shutil.rmtree(spool.path, ignore_errors=True)
