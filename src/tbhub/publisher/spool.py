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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryFile

from tbhub.errors import TbhubError
from tbhub.events.names import is_event_file
from tbhub.publisher.files import files_below
from tbhub.publisher.plan import is_growing
from tbhub.publisher.publisher import Backlog, Progress, Publisher
from tbhub.publisher.records import boundary_before
from tbhub.publisher.state import Grown, State
from tbhub.storage.errors import StoreError
from tbhub.storage.open import open_store
from tbhub.storage.store import Patience, Store

# The publisher has a patience of its own, and wants to know soon.
PATIENCE = Patience(retries=2, total=30)

_FILES, _TARGET, _STATE = "files", "target.json", "state.json"
_LOCK, _WRITERS, _LOG = "lock", "writers", "log"
_RUN, _OWED = "run.json", "owed"
_WANTED = "wanted"
_WANTED_SECONDS = 5.0
_LOOKS = 0.2  # seconds between two reports of progress


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
        include_checkpoints: Whether checkpoints are published, too.
        given: Whether credentials were given by the program, and not found in the environment.
    """

    path: Path
    uri: str
    directory: Path
    rank: int = 0
    include_checkpoints: bool = False
    given: bool = False

    @property
    def is_own(self) -> bool:
        """Whether the files are ours to remove."""
        return self.directory == self.path / _FILES

    @property
    def state(self) -> Path:
        """The file in which is kept what has been published."""
        return self.path / _STATE

    def open(self, credentials: Mapping[str, str] | None = None) -> tuple[Publisher, Store]:
        """A publisher for it, and the store that whoever asks is to close."""
        store, prefix = open_store(self.uri, credentials, patience=PATIENCE)
        publisher = Publisher(
            self.directory,
            store,
            prefix,
            state=self.state,
            rank=self.rank,
            include_checkpoints=self.include_checkpoints,
        )
        return publisher, store

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
        """Asks who publishes it, and whose program has ended, to let go of it."""
        self._wanted.touch()

    def is_wanted(self) -> bool:
        """Whether somebody else waits to publish it; he may have gone away meanwhile."""
        try:
            return time.time() - self._wanted.stat().st_mtime < _WANTED_SECONDS
        except FileNotFoundError:
            return False

    @property
    def run(self) -> Path:
        """The file that says which run this is of."""
        return self.path / _RUN

    @property
    def owed(self) -> Path:
        """The file with what a hub has yet to be told; as long as it is there all stays."""
        return self.path / _OWED

    def hold(self) -> int:
        """Nothing is removed as long as this process, or one that it forks, is there.

        Returns:
            The descriptor of the lock; closing it lets go.
        """
        lock = os.open(self.path / _WRITERS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_SH)
        return lock

    def _is_held(self) -> bool:
        lock = os.open(self.path / _WRITERS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

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

    def backlog(self) -> Backlog:
        """What is not published, by what is on this machine; no store is asked."""
        state = State(self.state)
        left = size = 0
        for path, look in files_below(self.directory, self.include_checkpoints):
            grown = state.grown.get(path)
            if is_growing(path, grown.again if grown else 0):
                missing = _missing(self.directory / path, grown, look.size)
                if not missing:
                    continue
            elif state.whole.get(path) == look:
                continue
            else:
                missing = look.size
            left += 1
            size += missing
        return Backlog(left, size, self.last_words() if left else "")


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
    include_checkpoints: bool = False,
    given: bool = False,
) -> Spool:
    """A new place in the spool, for a directory of the user's or for files that are yet to come.

    Raises:
        SpoolError: The spool cannot be written to.
    """
    root = spool_root()
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", uri.rstrip("/").rpartition("/")[2])[:40].strip("-.")
    path = root / f"{name or 'run'}-{token_hex(6)}"
    spool = Spool(
        path,
        uri,
        path / _FILES if directory is None else directory.absolute(),
        rank,
        include_checkpoints,
        given,
    )
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.mkdir(mode=0o700)
        (path / _FILES).mkdir()
        _write_target(spool)
    except OSError as error:
        raise _unusable(root, error) from error
    return spool


def check_spool() -> None:
    """Raises `SpoolError` if the spool cannot be written to."""
    root = spool_root()
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with TemporaryFile(dir=root):
            pass
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
        "include_checkpoints": spool.include_checkpoints,
        "credentials": "given" if spool.given else "environment",
        "host": socket.gethostname(),
        "made": time.time(),
    }
    # Whoever lists the spool takes no notice of a place without a target.
    unfinished = spool.path / f"{_TARGET}.tmp"
    unfinished.write_text(json.dumps(target))
    unfinished.replace(spool.path / _TARGET)


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
            bool(target["include_checkpoints"]),
            target["credentials"] == "given",
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def all_spools() -> list[Spool]:
    """Everything in the spool, the oldest first."""
    try:
        places = sorted(spool_root().iterdir(), key=lambda path: (path.stat().st_mtime, path.name))
    except FileNotFoundError:
        return []
    return [spool for spool in map(find_spool, places) if spool is not None]


def publish_now(
    spool: Spool,
    credentials: Mapping[str, str] | None = None,
    *,
    timeout: float | None = None,
    report: Callable[[Progress, Backlog], None] = lambda _progress, _backlog: None,
) -> Backlog:
    """Publishes what waits in one place, until nothing is left or time is up; what is left then.

    Where somebody has to do something first, nothing is waited for.

    Raises:
        SpoolTakenError: Another process does it already.
        StoreError: It is not known how to reach the store.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    with spool.taken():
        publisher, store = spool.open(credentials)
        try:
            while True:
                left = publisher.close(_LOOKS)
                report(publisher.progress, left)
                late = deadline is not None and time.monotonic() >= deadline
                if publisher.is_done or publisher.is_stuck or late:
                    break
        finally:
            publisher.stop()
            store.close()
        if left.files or left.problem:
            spool.log(left.problem or "not in time")
        return left


def discard(spool: Spool) -> bool:
    """Removes a place of the spool with what waits there; whether nobody was at it.

    A directory of the user's own stays as it is.
    """
    try:
        with spool.taken():
            if spool._is_held():
                return False
            _remove(spool)
            return True
    except SpoolError:
        return False


def remove_published(spool: Spool) -> bool:
    """Removes a place of the spool of which everything is published; whether that was so.

    Where a process may still write it stays. A directory of the user's own stays as it is.
    """
    try:
        with spool.taken():
            if spool._is_held() or spool.owed.exists() or spool.backlog().files:
                return False
            _remove(spool)
            return True
    except (SpoolError, StoreError):
        return False


def _remove(spool: Spool) -> None:
    (spool.path / _TARGET).unlink(missing_ok=True)  # nobody finds it from here on
    shutil.rmtree(spool.path, ignore_errors=True)
