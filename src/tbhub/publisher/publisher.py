"""The engine: follows a directory, and publishes what is new in it.

A pass looks at every file; what has not changed since it was last wholly published costs nothing
but that look. What is due goes up through a few threads, metrics and logs first. A store that fails
ends the pass: the next one comes later, and later again, and goes on where this one stood. So it is
with a state that cannot be saved, because the disk is full: files are still sent, but nothing is
done before the state is saved. Large files are uploaded beside the passes (`bulk`), in parts, and
tried again by themselves.

Invariants, also for a process that is killed between any two steps:
  - What is stored of an event file is a beginning of it that ends with a whole record; of a log a
    beginning.
  - A new segment is only ever created, never put in the place of something (`put_if_absent`). What
    is found there is either ours, its acknowledgement lost, and we go on behind it; or someone
    else's, and we take another name.
  - What is stored of any other file is one version of it: a file that changes while it is uploaded
    is uploaded again, and until then the version before is what is stored.
  - Nothing that is published is deleted or taken back.
  - A file is published after the records of event files that were written before it was closed: a
    run that is resumed from a checkpoint elsewhere has every point that was flushed before it.
  - Where a checkpoint directory is partly stored, the manifest lists the files that are missing, as
    far as they were there when others were sent.

A listing is asked for when it is not known what has been published, and once more at the end to see
that every object is as long as it should be; an old listing makes us ask or send again, no more.
"""

from __future__ import annotations

import math
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from tbhub.events.names import is_event_file
from tbhub.events.segments import group_segments, segment_name
from tbhub.publisher import checkpoints, plan
from tbhub.publisher.bulk import BULK, BulkUploads
from tbhub.publisher.checkpoints import Checkpoints
from tbhub.publisher.files import LINK, files_below, look_of, openness_of, read_link
from tbhub.publisher.holding import Holding
from tbhub.publisher.manifest import MANIFEST, ManifestWriter
from tbhub.publisher.older import Older
from tbhub.publisher.plan import Due, Look, Openness, Piece
from tbhub.publisher.records import boundary_before, log_end, whole_end
from tbhub.publisher.state import Grown, State, StateError
from tbhub.publisher.throttle import process_throttle
from tbhub.storage.errors import BadName, Conflict, Fenced, NoPermission, StoreError, WrongOffset
from tbhub.storage.source import FileSource, SourceError, SourceStoppedError
from tbhub.storage.store import AppendingStore, Store

_THREADS = 8
_SHARE = 50  # a look at the directory takes at most one part in so many of the time
_LONGEST_PAUSE = 60.0  # while the store fails in passing
_SLOW_PAUSE = 10.0  # the first, and
_SLOWEST_PAUSE = 300.0  # the longest, where someone has to do something
_SAVE_EVERY = 2.0  # seconds of a long pass
_PASS_SECONDS = 2.0  # of a pass while the program runs; other files than metrics wait for the next
_FIRST_RETRY, _LAST_RETRY = 2.0, 60.0  # seconds before a large file is uploaded again
_CLOSED_SECONDS = 0.1  # since the last change of a file that is taken for closed for good
_COMPARED = 64  # bytes at the end of an object that can grow


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is not published yet.

    Attributes:
        files: How many files have something that is not published.
        bytes: How much that is.
        problem: Why, in a sentence, if something failed last time.
        refused: Files that cannot be published, each with the reason; they are not waited for.
    """

    files: int = 0
    bytes: int = 0
    problem: str = ""
    refused: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The beginning of a sentence: ``1 file with 1,234 bytes is``."""
        files = "1 file" if self.files == 1 else f"{self.files:,} files"
        size = "1 byte" if self.bytes == 1 else f"{self.bytes:,} bytes"
        return f"{files} with {size} {'is' if self.files == 1 else 'are'}"


def told(refused: Mapping[str, str]) -> tuple[str, ...]:
    """Return files that cannot be published, each with the reason, as `Backlog` has them."""
    return tuple(f"{path!r}: {why}" for path, why in sorted(refused.items()))


@dataclass(frozen=True, slots=True)
class Progress:
    """What a publisher has done."""

    logged: int  # bytes that the files have
    sent: int  # bytes that went to the store
    requests: int


class Publisher:
    """Publishes one directory to one place."""

    def __init__(
        self,
        directory: Path,
        store: Store,
        prefix: str,
        *,
        state: Path,
        rank: int = 0,
        interval: float = 1.0,
        exclude: Sequence[str] = (),
        include_unfinished: bool = False,
        older: Older | None = None,
        earlier: Collection[str] = (),
        late_attempt: int = 0,
        with_manifest: bool = False,
    ) -> None:
        """Nothing is done yet.

        Args:
            directory: What is published; it need not exist yet.
            store: Where to; whoever opened it closes it.
            prefix: The place in the store.
            state: The file in which is kept what has been published; not in the directory.
            rank: Of a process among those of a job: all but the first publish below ``rank<n>/``.
            interval: Seconds between two passes.
            exclude: Globs of files that are not published; see `tbhub.publisher.exclusion`.
            include_unfinished: Publish files that are called like unfinished ones from the start,
                not only when the program has ended.
            older: Files of the directory that are not sent: they were there before the run.
            earlier: Event files of earlier attempts in the directory: new ones come behind them.
            late_attempt: The attempt that wrote the files, if a newer attempt has begun since:
                what that one may have written instead is not replaced. 0 if there is none.
            with_manifest: Publish which files checkpoint directories have, unless a newer attempt
                does; see `tbhub.publisher.manifest`. Not for copies of published directories,
                which have a manifest among their files.
        """
        self._directory = directory
        self._store = store
        parts = [prefix.strip("/"), f"rank{rank}" if rank else ""]
        self._prefix = "/".join(filter(None, parts))
        self._state = State(state)
        self._interval = interval
        self._exclude = tuple(exclude)
        self._older = older or Older()
        self._has_ended = include_unfinished
        self._throttle = process_throttle()
        self._bulk = BulkUploads(self._publish_bulk, self._wake_up)
        self._bulk_sent: dict[str, int] = {}  # bytes of uploads that are under way
        self._bulk_retry: dict[str, tuple[float, float]] = {}  # not before; and pause after that
        self._bulk_error: StoreError | OSError | None = None
        self._is_cut_short = False
        self._wake = threading.Event()
        self._grows = isinstance(store, AppendingStore)
        self._earlier = frozenset(earlier)
        self._late_attempt = late_attempt
        self._with_manifest = with_manifest
        self._manifest = (
            ManifestWriter(store, self._place(MANIFEST), self._exclude)
            if with_manifest and not late_attempt
            else None
        )
        is_known = self._state.was_found and not late_attempt
        self._listing: dict[str, int] | None = {} if is_known else None
        self._settled: dict[str, Look] = {}  # what files were when all of them was published
        self._seen: dict[str, tuple[Look, float, float]] = {}  # since when; changed since when
        self._sent_at: dict[str, float] = {}
        self._logs_sent_for: dict[str, Look] = {}  # versions that logs have been sent ahead of
        self._uploads: Counter[str] = Counter()
        self._given_up: dict[str, float] = {}  # when a large file was changed during its upload
        self._rewritten: set[str] = set()  # files whose programs write new versions over old ones
        self._finished: dict[str, Look | None] = {}  # what files were that seemed complete
        self._holding = Holding()
        self._is_fresh = False  # a file was closed a moment ago: the next pass comes soon
        self._look_seconds = 0.0  # of the last pass; to send what was found is not counted
        self._refused: dict[str, tuple[Look, str]] = {}
        self._error: Exception | None = None
        self._backlog = Backlog()
        self._is_stuck = False
        self._logged = 0
        self._sent = 0
        self._requests_before = store.meter.reading().total
        self._lock = threading.Lock()
        self._has_mended = False
        self._passing = threading.Lock()
        self._sending_logs = threading.Lock()
        self._closing = threading.Event()
        self._stopped = threading.Event()
        self._is_done = False
        self._thread: threading.Thread | None = None

    @property
    def backlog(self) -> Backlog:
        """What the last pass has left."""
        return self._backlog

    @property
    def progress(self) -> Progress:
        """What has been done so far."""
        requests = self._store.meter.reading().total - self._requests_before
        return Progress(self._logged, self._sent, requests)

    def start(self) -> None:
        """Publishes from now on, in a thread of its own."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="tbhub-publisher", daemon=True)
            self._thread.start()

    def publish(self, *, has_ended: bool = False) -> Backlog:
        """Make one pass now, over all files, those that are being written to as well.

        Large files may be under way when it returns; they count in what is left until they are
        published.

        Args:
            has_ended: The program that writes has ended: from now on, files that are called like
                unfinished ones are published, too.
        """
        self._has_ended = self._has_ended or has_ended
        return self._pass(everything=True)

    def advance(self) -> Backlog:
        """One pass now, over what is due; for those who do without a thread of its own."""
        return self._pass(everything=False)

    @property
    def is_settled(self) -> bool:
        """Whether all that is in the directory now is published, by what passes have found."""
        return all(self._settled.get(path) == look for path, look in self._files_to_publish())

    def close(self, timeout: float | None = None) -> Backlog:
        """Publishes until nothing is left, or time is up; what is left then.

        When time was up publishing goes on, until `stop` or the end of the process.
        """
        self._has_ended = True
        self._closing.set()
        self.start()
        assert self._thread is not None
        self._thread.join(timeout)
        return self._backlog

    @property
    def is_alive(self) -> bool:
        """Whether it publishes: it has been started, and is neither done nor stopped."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def is_done(self) -> bool:
        """Whether it has been closed and all is published."""
        return self._is_done

    @property
    def is_stuck(self) -> bool:
        """Whether the last pass failed so that somebody has to do something."""
        return self._is_stuck

    @property
    def is_fenced(self) -> bool:
        """Whether the last pass failed because a newer attempt writes there now."""
        return isinstance(self._error or self._bulk_error, Fenced)

    def stop(self, timeout: float = 0.0) -> None:
        """Begin nothing new and give up large uploads; a request under way may still be done.

        Args:
            timeout: Seconds to wait for the end of large uploads.
        """
        self._stopped.set()
        self._closing.set()
        self._wake.set()
        self._bulk.wait(timeout)
        self._holding.release()

    # ------------------------------------------------------------------ passes

    def _run(self) -> None:
        failures = 0
        while not self._stopped.is_set():
            closing = self._closing.is_set()
            try:
                self._pass(everything=closing)
                if closing and not self._backlog.files and not self._backlog.problem:
                    if self._mend():
                        self._is_done = True
                        return
                    if self._error is None:
                        continue
            except Exception as error:  # the thread must not end: nothing else would publish
                self._fail(error)
            failures = failures + 1 if self._error else 0
            pause = self._pause(failures)
            if closing:
                self._wake.wait(min(pause, _SLOW_PAUSE))
                self._wake.clear()
            elif self._closing.wait(pause):
                failures = 0

    def _fail(self, error: Exception) -> None:
        """Report an error that a pass did not expect, as one of the store is reported."""
        self._error = error
        self._is_stuck = self._needs_somebody()
        self._backlog = replace(self._backlog, problem=f"publishing failed: {error!r:.300}")

    def _pause(self, failures: int) -> float:
        if self._is_cut_short and self._error is None:
            return 0.0
        if self._error is None and self._backlog.files:
            soon = max(_CLOSED_SECONDS, _SHARE * self._look_seconds)
            return min(soon, self._interval) if self._is_fresh else self._interval
        if self._error is None:
            return max(self._interval, _SHARE * self._look_seconds)
        first, longest = self._interval, _LONGEST_PAUSE
        if self._needs_somebody():
            first, longest = max(first, _SLOW_PAUSE), _SLOWEST_PAUSE
        return min(longest, first * 2.0 ** min(failures - 1, 20)) * random.uniform(0.5, 1.0)

    def _needs_somebody(self) -> bool:
        error = self._error or self._bulk_error
        return error is not None and not getattr(error, "passing", False)

    def _wake_up(self) -> None:
        self._wake.set()

    def _pass(self, everything: bool) -> Backlog:
        with self._passing:
            self._error = None
            self._is_fresh = False
            now = time.monotonic()
            files = self._with_held(dict(self._files()))
            self._logged = sum(look.size for look in files.values())
            found = checkpoints.checkpoint_files(files)
            newest = checkpoints.newest_files(found, files)
            growing = checkpoints.unfinished(found, files)
            due = self._due(files, newest, growing, now, everything)
            due = self._held_first(due, found, files)
            self._look_seconds = time.monotonic() - now
            if self._listing is None and files:
                self._list()
            logs, others = self._logs_first(due, files, now)
            bulk = [path for path in others if self._is_bulk(path, files[path])]
            due = [path for path in others if not self._is_bulk(path, files[path])]
            saved_at = begun_at = now
            self._is_cut_short = False

            def work(path: str) -> None:
                nonlocal saved_at
                if self._bulk.has(path):  # a larger version, which must not replace this one
                    return
                is_late = time.monotonic() - begun_at > _PASS_SECONDS and not everything
                if is_late and not self._is_growing(path):
                    self._is_cut_short = True
                elif self._error is None and not self._stopped.is_set():
                    self._publish_one(path)
                    if time.monotonic() - saved_at > _SAVE_EVERY:
                        saved_at = time.monotonic()
                        self._save_state()

            with self._sending_logs:
                _on_threads(logs, work)
            begun_at = time.monotonic()
            if self._error is None and not self._stopped.is_set():
                with self._lock:
                    self._logs_sent_for.update((path, files[path]) for path in others)
            last = {path: newest[path] for path in [*due, *bulk] if newest.get(path)}
            last |= self._links(due, files)
            if self._error is None and not self._stopped.is_set():
                published = self._published(files)
                self._observe_checkpoints(files, {*due, *bulk}, published)
            if self._error is None and not self._stopped.is_set():
                self._bulk.set_due(path for path in bulk if last.get(path, set()) <= published)
                _on_threads([path for path in due if path not in last], work)
            if self._error is None and last:
                published = self._published(files)
                _on_threads([path for path in due if last.get(path, {""}) <= published], work)
            self._save_manifest()
            self._holding.release_published(self._published(files))
            self._forget(files)
            with self._lock:
                self._state.set_refused(dict(self._refused))
            self._save_state()
            self._backlog = self._left(files)
            self._is_stuck = self._needs_somebody()
            return self._backlog

    def _save_state(self) -> None:
        """Save what is published; a failure is an error of the pass, unless it has one already."""
        try:
            self._state.save()
        except StateError as error:
            self._error = self._error or error

    def _files(self) -> Iterator[tuple[str, Look]]:
        for path, look in self._files_to_publish():
            if self._has_ended or not plan.is_unfinished(path):
                yield path, look

    def _files_to_publish(self) -> Iterator[tuple[str, Look]]:
        for path, look in files_below(self._directory, self._exclude):
            if not self._older.covers(path, look):
                yield path, look

    def _with_held(self, files: dict[str, Look]) -> dict[str, Look]:
        """Return files, and those of a held checkpoint that have been deleted since."""
        held = self._holding.files
        if any(not files.get(path, look).has_same_content(look) for path, look in held.items()):
            self._holding.release()  # its program writes to it: what is open is of two versions
            return files
        return held | files

    def _held_first(
        self, due: list[str], found: Checkpoints, files: Mapping[str, Look]
    ) -> list[str]:
        """Return the files that are due, those of a held checkpoint first.

        If none is held, it is the newest one that is due as a whole.
        """
        if not self._holding.files and not self._late_attempt:
            sent, directories = self._published(files), map(checkpoints.checkpoint_directory, due)
            for directory in dict.fromkeys(filter(None, directories)):
                paths = {f"{directory}/{name}" for name in found.get(directory, ())}
                if len(paths) > 1 and paths - sent <= set(due):
                    self._holding.take(self._directory, {path: files[path] for path in paths})
                    break
        held = self._holding.files
        return sorted(due, key=lambda path: path not in held)

    def _logs_first(
        self, due: Iterable[str], files: Mapping[str, Look], now: float
    ) -> tuple[list[str], list[str]]:
        """Split the files that are due into event files and logs, which are sent first, and others.

        If a version of another file is due for the first time, all event files and logs are due.
        """
        logs = [path for path in due if self._is_growing(path)]
        others = [path for path in due if path not in set(logs)]
        if any(self._logs_sent_for.get(path) != files[path] for path in others):
            logs = self._unsent_logs(files, now)
        return logs, others

    def _unsent_logs(self, files: Mapping[str, Look], now: float) -> list[str]:
        return [
            path
            for path, look in files.items()
            if self._is_growing(path)
            and self._is_due(path, look, now, everything=True, may_get_more=False)
        ]

    def _send_logs_ahead(self, path: str, look: Look) -> bool:
        """Send event files and logs, if they were not for this version of a file.

        The file was written since the pass looked at it. Return whether they are published now.
        """
        if plan.is_growing(path) or self._logs_sent_for.get(path) == look:
            return True
        with self._sending_logs:
            for log in self._unsent_logs(dict(self._files()), time.monotonic()):
                self._publish_one(log)
        if self._error is not None or self._stopped.is_set():
            return False
        with self._lock:
            self._logs_sent_for[path] = look
        return True

    def _is_bulk(self, path: str, look: Look) -> bool:
        return look.size > BULK and not self._is_growing(path)

    def _due(
        self,
        files: Mapping[str, Look],
        newest: Collection[str],
        unfinished: Collection[str],
        now: float,
        everything: bool,
    ) -> list[str]:
        """Return the files to send now, the newest first.

        Args:
            newest: The newest file of each checkpoint directory.
            unfinished: Checkpoint directories that files may still be added to.
        """
        may_get_more = {
            path for path in newest if checkpoints.checkpoint_directory(path) in unfinished
        }
        due = [
            path
            for path, look in files.items()
            if self._is_due(path, look, now, everything, path in may_get_more)
        ]
        return sorted(due, key=lambda path: files[path].mtime_ns, reverse=True)

    def _is_due(
        self, path: str, look: Look, now: float, everything: bool, may_get_more: bool
    ) -> bool:
        """Return whether to send a file now.

        Args:
            everything: Do not wait until the file is finished.
            may_get_more: The file completes a checkpoint, unless its program adds another one.
        """
        if self._settled.get(path) == look:
            return False
        if path in self._refused and self._refused[path][0] == look:
            return False
        since_sent = now - self._sent_at.get(path, -math.inf)
        if self._is_growing(path):
            grown = self._state.grown.get(path)
            if everything or self._grows or grown is None:
                return True
            since_sent /= self._interval
            return plan.is_worth_sending(grown.ends, look.size, since_sent)
        if self._state.whole.get(path) == look:
            self._settled[path] = look
            return False
        seen, since, changed = self._seen.get(path, (look, now, now))
        if seen != look:
            since = now
        before = seen if seen != look else self._state.whole.get(path, look)
        if before.inode == look.inode and look.size < before.size:
            self._rewritten.add(path)
        self._seen[path] = (look, since, changed)
        is_bulk = self._is_bulk(path, look)
        if is_bulk and now < self._bulk_retry.get(path, (0.0, 0.0))[0]:
            return False
        if everything:
            self._finished[path] = None
            return True
        openness = self._openness(path, look)
        if may_get_more and openness is Openness.CLOSED and not self._holding.has(path):
            openness = Openness.UNKNOWN
        found = plan.due(
            look.size,
            now - since,
            now - changed,
            since_sent,
            self._interval,
            uploads=self._uploads[path],
            openness=openness,
            is_rewritten=path in self._rewritten,
            is_bulk=is_bulk,
        )
        self._finished[path] = look if found is Due.FINISHED else None
        return found is not Due.NO

    def _openness(self, path: str, look: Look) -> Openness:
        """Return whether a program can write to a file; one that it has just closed counts as open.

        A large file that is changed during its upload is not taken for closed for a while: it is
        likely to be changed during the next upload, too.
        """
        if path.endswith(LINK) or self._holding.has(path):
            return Openness.CLOSED
        if time.monotonic() - self._given_up.get(path, -math.inf) < plan.PACE:
            return Openness.UNKNOWN
        found = openness_of(self._directory / path)
        age = time.time() - look.mtime_ns / 1e9
        if found is not Openness.CLOSED or age >= _CLOSED_SECONDS:
            return found
        if age < 0:  # by the clock of another machine
            return Openness.UNKNOWN
        self._is_fresh = True
        return Openness.OPEN

    def _is_finished(self, path: str, look: Look) -> bool:
        """Return whether a file may be uploaded as it is now; it may have changed since it was due.

        One that is only added to is uploaded as it is.
        """
        judged = self._finished.get(path)
        if judged in (None, look):
            return True
        return openness_of(self._directory / path) is Openness.CLOSED

    def _links(self, due: Iterable[str], files: Mapping[str, Look]) -> dict[str, set[str]]:
        """Return links that are due, each with the files of the directory it leads to.

        It is sent when these are published: a restored link leads to a whole checkpoint.
        """
        links = {}
        for path in due:
            if path.endswith(LINK):
                with suppress(OSError):
                    if (link := read_link(self._directory, path)) is not None:
                        below = os.path.join(os.path.dirname(path), os.fsdecode(link.text))
                        target = f"{os.path.normpath(below)}/"
                        links[path] = {each for each in files if each.startswith(target)}
        return links

    def _published(self, files: Mapping[str, Look]) -> set[str]:
        """Return the files that nothing of is left to be sent."""
        with self._lock:
            settled = {**self._state.whole, **self._settled}
            return {path for path, look in files.items() if settled.get(path) == look}.union(
                self._refused
            )

    def _observe_checkpoints(
        self, files: Mapping[str, Look], due: Set[str], published: Set[str]
    ) -> None:
        """Update the manifest; it is put before the first file that needs it."""
        if self._manifest is None:
            return
        present = checkpoints.checkpoint_files(
            path for path in files if path in due or path not in self._refused
        )
        begun = set()
        for directory, names in present.items():
            paths = {f"{directory}/{name}" for name in names}
            if not paths.isdisjoint(due) or not (paths <= published or paths.isdisjoint(published)):
                begun.add(directory)
        try:
            self._manifest.observe(present, begun, time.monotonic(), has_ended=self._has_ended)
        except StoreError as error:
            self._error = error

    def _save_manifest(self) -> None:
        """Put what no upload of this pass has put: new files that are not due, or deleted ones."""
        if self._manifest is not None and self._error is None and not self._stopped.is_set():
            try:
                self._manifest.save()
            except StoreError as error:
                self._error = error

    def _is_growing(self, path: str) -> bool:
        grown = self._state.grown.get(path)
        return plan.is_growing(path, grown.again if grown else 0)

    def _forget(self, files: dict[str, Look]) -> None:
        """What is gone from the directory needs no place in memory; what was published stays."""
        with self._lock:
            by_path = self._settled, self._seen, self._sent_at, self._uploads, self._given_up
            for known in (*by_path, self._finished, self._refused, self._logs_sent_for):
                for path in [path for path in known if path not in files]:
                    del known[path]
            self._rewritten.intersection_update(files)
            self._bulk_retry = {
                path: retry for path, retry in self._bulk_retry.items() if path in files
            }
            if not self._bulk_retry:
                self._bulk_error = None

    def _left(self, files: dict[str, Look]) -> Backlog:
        left = size = 0
        for path, look in files.items():
            if self._settled.get(path) == look or path in self._refused:
                continue
            grown = self._state.grown.get(path)
            left += 1
            size += max(0, look.size - (grown.end if grown else self._bulk_sent.get(path, 0)))
        with self._lock:
            refused = told({path: why for path, (_, why) in self._refused.items()})
        error = self._error or self._bulk_error
        return Backlog(left, size, str(error) if error else "", refused)

    def _publish_one(self, path: str) -> None:
        try:
            if self._is_growing(path):
                self._publish_growing(path)
            else:
                self._publish_whole(path)
        except BadName as error:
            self._refuse(path, error.what)
        except (StoreError, StateError) as error:
            self._error = error
        except (SourceError, FileNotFoundError):
            self._holding.release_with(path)  # changed or gone: the next pass sees what it is
        except OSError as error:
            self._refuse(path, error.strerror or str(error))
        except Exception as error:
            self._refuse(path, f"publishing it failed: {error!r:.300}")

    def _refuse(self, path: str, why: str) -> None:
        self._holding.release_with(path)
        with suppress(OSError), self._lock:  # gone meanwhile
            link = read_link(self._directory, path)
            look = link.look if link is not None else look_of(os.stat(self._directory / path))
            self._refused[path] = look, why
        if self._manifest is not None:
            self._manifest.leave_out(path)

    def _settle(self, path: str, look: Look) -> None:
        with self._lock:
            self._settled[path] = look
            self._refused.pop(path, None)
            self._seen.pop(path, None)

    def _count(self, size: int) -> None:
        with self._lock:
            self._sent += size

    def _place(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name

    # ------------------------------------------------------------------ other files

    def _publish_bulk(self, path: str) -> None:
        """Upload a large file; one that fails is tried again, later each time."""
        if self._stopped.is_set():
            return
        try:
            self._publish_whole(path)
        except BadName as error:
            self._refuse(path, error.what)
        except StoreError as error:
            with self._lock:
                _, pause = self._bulk_retry.get(path, (0.0, _FIRST_RETRY))
                until = time.monotonic() + pause * random.uniform(0.5, 1.0)
                self._bulk_retry[path] = until, min(_LAST_RETRY, 2 * pause)
                self._bulk_error = error
            return
        except (SourceError, FileNotFoundError):  # changed or deleted since
            self._holding.release_with(path)
            self._given_up[path] = time.monotonic()
        except OSError as error:
            self._refuse(path, error.strerror or str(error))
        except Exception as error:
            self._refuse(path, f"publishing it failed: {error!r:.300}")
        finally:
            self._bulk_sent.pop(path, None)
        with self._lock:
            self._bulk_retry.pop(path, None)
            if not self._bulk_retry:
                self._bulk_error = None
        with suppress(StateError):  # the next pass saves it, or reports why not
            self._state.save()

    def _source(self, path: str) -> FileSource:
        """Open a file for an upload that gives way to metrics, and stops when we do."""
        file = self._directory / path
        held = self._holding.open(path)
        is_bulk = (os.fstat(held) if held is not None else file.stat()).st_size > BULK

        def on_read(size: int) -> None:
            stopped = self._stopped.is_set
            self._throttle.take(size, is_urgent=not is_bulk, is_stopped=stopped)
            if is_bulk and stopped():
                raise SourceStoppedError("publishing has been stopped")
            if is_bulk:
                self._bulk_sent[path] = self._bulk_sent.get(path, 0) + size

        return FileSource(file, on_read=on_read, part=self._throttle.part, descriptor=held)

    def _publish_whole(self, path: str) -> None:
        if self._manifest is not None and checkpoints.checkpoint_directory(path) is not None:
            self._manifest.save()
        if (link := read_link(self._directory, path)) is not None:
            if not self._late_attempt or path not in (self._listing or ()):
                self._store.put(self._place(path), link.text)
                self._count(link.look.size)
            self._state.set_whole(path, link.look)
            self._settle(path, link.look)
            return
        file = self._directory / path
        if self._with_manifest and path == MANIFEST:  # restored by an earlier version of tbhub
            look = look_of(file.stat())
            self._state.set_whole(path, look)
            self._settle(path, look)
            return
        if self._late_attempt and path in (self._listing or ()):
            look = look_of(file.stat())
            if self._is_in_store(path, file, look):
                self._state.set_whole(path, look)
                self._settle(path, look)
            else:
                self._refuse(path, "a newer attempt of the run has written its own")
            return
        with self._source(path) as source:
            look = self._holding.look_at(path, source.status)
            if not (self._is_finished(path, look) and self._send_logs_ahead(path, look)):
                return
            self._store.put(self._place(path), source)
        self._count(look.size)
        self._state.set_whole(path, look)
        with self._lock:
            self._sent_at[path] = time.monotonic()
            self._uploads[path] += 1
            self._given_up.pop(path, None)
            self._seen.pop(path, None)
        try:
            is_same = self._holding.look_at(path, file.stat()) == look
        except FileNotFoundError:
            is_same = self._holding.has(path)
        if is_same:
            self._settle(path, look)

    def _is_in_store(self, path: str, file: Path, look: Look) -> bool:
        """Whether the store has the same bytes under a file's name."""
        if (self._listing or {}).get(path) != look.size:
            return False
        with file.open("rb") as opened:
            for start in range(0, look.size, plan.CHUNK):
                data = opened.read(plan.CHUNK)
                if data != self._store.read(self._place(path), start, len(data)):
                    return False
        return True

    # ------------------------------------------------------------------ files that only grow

    def _publish_growing(self, path: str) -> None:
        descriptor = os.open(self._directory / path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            look = look_of(os.fstat(descriptor))
            grown = self._state.grown.get(path)
            if grown is None:
                grown = self._find(path, descriptor)
                self._state.set_grown(path, grown)
            elif not grown.is_of(descriptor):
                grown = self._take_another_name(path, grown)
                if not plan.is_growing(path, grown.again):
                    self._publish_whole(path)
                    return
            if self._late_attempt and not is_event_file(path) and grown.end < look.size:
                grown = self._take_name_of_attempt(path, grown)
            advance = self._append if self._grows else self._send_segment
            more = True
            while more and grown.end < look.size and not self._stopped.is_set():
                grown, more = advance(path, grown, descriptor)
            self._sent_at[path] = time.monotonic()
            if not more or grown.end >= look.size:
                self._settle(path, look)
        finally:
            os.close(descriptor)

    def _take_another_name(self, path: str, grown: Grown) -> Grown:
        number = grown.again + 1
        while (self._directory / plan.again_name(path, number)).exists():
            number += 1
        fresh = Grown(plan.again_name(path, number), number)
        self._state.set_grown(path, fresh)
        return fresh

    def _take_name_of_attempt(self, path: str, grown: Grown) -> Grown:
        """Publish a log that a newer attempt continues beside that one."""
        stem, dot, suffix = path.rpartition(".")
        name = f"{stem}-{self._late_attempt}{dot}{suffix}"
        if grown.name == name:
            return grown
        fresh = Grown(name)
        self._state.set_grown(path, fresh)
        return fresh

    def _send_segment(self, path: str, grown: Grown, descriptor: int) -> tuple[Grown, bool]:
        """Sends the next segment; whether there may be more."""
        ended = whole_end if is_event_file(path) else log_end
        whole = ended(descriptor, grown.end, plan.segment_limit(grown.ends))
        piece = plan.next_segment(grown.ends, whole)
        if piece is None:
            return grown, False
        data = _read(descriptor, piece.start, piece.end)
        if piece.is_new:
            self._state.save()  # from here on the segment before this one is final
        place = self._place(segment_name(grown.name, piece.number))
        self._throttle.take(len(data), is_urgent=True, is_stopped=self._stopped.is_set)
        try:
            if piece.is_new:
                self._store.put_if_absent(place, data)
            else:
                self._store.put(place, data)
        except Conflict:
            return self._meet(path, grown, piece, place, descriptor), True
        self._count(len(data))
        self._state.grow(grown, piece.number, piece.end, descriptor)
        return grown, True

    def _meet(self, path: str, grown: Grown, piece: Piece, place: str, descriptor: int) -> Grown:
        """Something is where a segment was to be: it is ours, or we take another name."""
        there = self._store.read(place)
        end = piece.start + len(there)
        if not there or os.pread(descriptor, len(there), piece.start) != there:
            return self._take_another_name(path, grown)
        self._state.grow(grown, piece.number, end, descriptor)
        return grown

    def _append(self, path: str, grown: Grown, descriptor: int) -> tuple[Grown, bool]:
        """Appends the next records, in requests of bounded size."""
        assert isinstance(self._store, AppendingStore)
        ended = whole_end if is_event_file(path) else log_end
        whole = ended(descriptor, grown.end, grown.end + plan.CHUNK)
        position = grown.end
        while (piece := plan.next_append(position, whole)) is not None:
            data = _read(descriptor, piece.start, piece.end)
            self._throttle.take(len(data), is_urgent=True, is_stopped=self._stopped.is_set)
            try:
                self._store.append(self._place(grown.name), piece.start, data)
            except WrongOffset as error:
                if error.size >= piece.start:
                    return self._take_another_name(path, grown), True
                # It has less than we knew of: we go on from there.
                self._state.grow(grown, 1, _cut(path, descriptor, error.size), descriptor)
                return grown, True
            self._count(len(data))
            position = piece.end
        if position == grown.end:
            return grown, False
        self._state.grow(grown, 1, position, descriptor)
        return grown, True

    # ------------------------------------------------------------------ what is there already

    def _list(self) -> None:
        try:
            self._listing = self._sizes()
        except NoPermission:
            self._listing = {}  # conflicts will tell
        except StoreError as error:
            self._error = error

    def _sizes(self) -> dict[str, int]:
        before = len(self._prefix) + 1 if self._prefix else 0
        return {entry.path[before:]: entry.size for entry in self._store.list(self._prefix)}

    def _find(self, path: str, descriptor: int) -> Grown:
        """What is published of a file of which nothing is known, by the listing."""
        listing = self._listing or {}
        others = [
            name
            for name in {*group_segments(listing), *self._earlier}
            if name != path and (name in self._earlier or not (self._directory / name).exists())
        ]
        perhaps, behind = plan.names_behind(path, others)
        if self._late_attempt or path in self._earlier:
            behind = path  # others may have come later
        for name in perhaps:
            grown = Grown(name)
            if self._recognise(grown, listing, descriptor) and grown.ends:
                return grown
        for again in count():
            grown = Grown(plan.again_name(path, again), again)
            if not self._recognise(grown, listing, descriptor):
                return grown if again else Grown(behind)
            if grown.ends:
                return grown
        raise AssertionError("unreachable")

    def _recognise(self, grown: Grown, listing: dict[str, int], descriptor: int) -> bool:
        """Whether something is published under a name; how far, if it is of this file."""
        if self._grows:
            size = listing.get(grown.name, 0)
            if not size:
                return False
            if self._is_alike(grown.name, max(0, size - _COMPARED), size, size, descriptor):
                grown.ends = [_cut(grown.name, descriptor, size)]
        else:
            for number in count(1):
                name = segment_name(grown.name, number)
                if name not in listing:
                    break
                grown.ends.append(grown.end + listing[name])
            if not grown.ends:
                return False
            *_, start, end = [0, *grown.ends]
            name = segment_name(grown.name, len(grown.ends))
            if not self._is_alike(name, 0, end - start, end, descriptor):
                grown.ends = []
        if grown.ends:
            grown.remember(descriptor)
        return True

    def _is_alike(self, name: str, start: int, stop: int, end: int, descriptor: int) -> bool:
        """Whether bytes of an object are those of the file before `end`."""
        there = self._store.read(self._place(name), start, stop - start)
        return there == os.pread(descriptor, stop - start, end - (stop - start))

    def _mend(self) -> bool:
        try:
            return self._grows or self.compare()
        except StoreError:
            return True  # nothing says that something is wrong

    def compare(self) -> bool:
        """Sends again what is not as long in the store as it should be; True if all is well.

        A request that was given up may have been carried out late, over a newer one.

        Raises:
            StoreError: The store does not list what it has.
        """
        sizes = self._sizes()
        mended = False
        with self._passing:
            for path, look in self._files():
                if self._state.whole.get(path) == look and sizes.get(path) != look.size:
                    self._state.set_whole(path, None)
                    self._settled.pop(path, None)
                    mended = True
                grown = self._state.grown.get(path)
                if grown is not None and self._mend_segments(path, grown, sizes):
                    mended = True
        # A listing that is old stays old for a while: it is believed once.
        is_good = self._error is None and (not mended or self._has_mended)
        self._has_mended = mended and self._error is None
        return is_good

    def _mend_segments(self, path: str, grown: Grown, sizes: dict[str, int]) -> bool:
        wrong = [
            (number, start, end)
            for number, (start, end) in enumerate(
                zip([0, *grown.ends], grown.ends, strict=False), 1
            )
            # A longer one is another machine's, which had more of the same file.
            if sizes.get(segment_name(grown.name, number), -1) < end - start
        ]
        if not wrong:
            return False
        try:
            descriptor = os.open(self._directory / path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            if not grown.is_of(descriptor):
                return False
            for number, start, end in wrong:
                data = _read(descriptor, start, end)
                self._store.put(self._place(segment_name(grown.name, number)), data)
                self._count(len(data))
        except StoreError as error:
            self._error = error
        finally:
            os.close(descriptor)
        return True


def _cut(path: str, descriptor: int, size: int) -> int:
    """Where a file is gone on with of which a store has so many bytes."""
    return boundary_before(descriptor, size) if is_event_file(path) else size


def _read(descriptor: int, start: int, end: int) -> bytes:
    pieces = []
    while start < end:
        data = os.pread(descriptor, end - start, start)
        if not data:
            raise FileNotFoundError("the file has been truncated meanwhile")
        pieces.append(data)
        start += len(data)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _on_threads(paths: Iterable[str], work: Callable[[str], None]) -> None:
    """Works on all paths; on the calling thread if there is one only.

    The threads do not keep a program from ending, as those of an executor would.
    """
    left = list(paths)
    if len(left) == 1:
        work(left[0])
        return
    left.reverse()
    lock = threading.Lock()

    def take() -> None:
        while True:
            with lock:
                if not left:
                    return
                path = left.pop()
            work(path)

    threads = [
        threading.Thread(target=take, name="tbhub-publish", daemon=True)
        for _ in range(min(_THREADS, len(left)))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
