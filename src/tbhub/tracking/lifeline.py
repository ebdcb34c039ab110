"""What ties a run to its hub and its storage while it trains.

A thread of its own tells the hub: of the run, that it is alive, its hyperparameters. An agent
publishes the files. Training waits for neither: when no hub has answered in a few seconds the run
goes on without one, its files wait in the spool, and the thread tries again. The directory that is
written to is settled at the beginning and never changes.

The process with the lowest rank of a distributed job speaks for all when the run ends.
"""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tbhub.api.models import Finish, Heartbeat, NewRun, Run, RunChange, RunEnding, StartedRun
from tbhub.api.problems import (
    BadRequest,
    Conflict,
    Fenced,
    NotAuthenticated,
    Problem,
    TooManyRequests,
    Unavailable,
)
from tbhub.api.problems import (
    NotFound as NoSuchRun,
)
from tbhub.client import calls
from tbhub.client.errors import HubUnreachable
from tbhub.client.hub import Hub
from tbhub.errors import TbhubError, TbhubWarning
from tbhub.publisher.agent import Publishing, start_agent
from tbhub.publisher.exclusion import checked_patterns
from tbhub.publisher.older import Older, begin_session, find_foreign, find_older, last_attempt
from tbhub.publisher.plan import latest_stamp
from tbhub.publisher.publisher import Backlog
from tbhub.publisher.restorer import Progress, Restored, RestoreError, Restorer
from tbhub.publisher.spool import Spool, all_spools, check_spool, make_spool, redirect
from tbhub.publisher.state import State
from tbhub.storage.errors import NotFound
from tbhub.storage.joined import readable
from tbhub.storage.open import open_store
from tbhub.storage.store import Patience
from tbhub.tracking import environment
from tbhub.tracking.details import git_diff
from tbhub.tracking.directory_lock import DirectoryLock
from tbhub.tracking.hparams import HParam
from tbhub.tracking.joined_run import read_hparams
from tbhub.tracking.leftovers import (
    Adopted,
    Leftover,
    adopt,
    is_adoptable,
    keep_for_restore,
    leftover_without_hub,
    leftovers_of,
    publish_late,
)
from tbhub.tracking.owed import (
    UNTOLD,
    Known,
    Owed,
    goes_to_hub,
    hub_credentials,
    read_owed,
    write_known,
    write_owed,
)
from tbhub.tracking.takeover import start_run
from tbhub.tracking.upload_progress import UploadProgress, in_bytes
from tbhub.tracking.waiting import within

PATIENCE = 5.0  # seconds a training waits for its hub at the beginning
_BEAT = 15.0  # seconds between two signs of life
_LASTING = 20.0  # seconds without anything published after which a problem is told
_TIMEOUT = 10.0  # seconds of a call
_LOOK = 5.0  # seconds for the agent to end
_PROGRESS_INTERVAL = 1.0  # seconds between two looks at what is left
_FETCHING = Patience(timeout=PATIENCE, connect_timeout=PATIENCE, retries=1, total=PATIENCE)
_RESTORING = Patience(timeout=60.0, connect_timeout=10.0, retries=4, total=60.0)
_STALLED = 15.0  # seconds without progress after which the end is not waited for
_RESUME_TIMEOUT = 15.0  # seconds that a run which is resumed waits for its hub
_REQUEUE_TIMEOUT = 60.0  # the same of a job that was started again, where nobody would do so soon
_RETRY_INTERVAL = 1.0
_MAX_LISTED = 3
_ALONE = (
    "If this is one of several processes of a job, set TBHUB_RUN_KEY to the same for all of them, "
    "and to something that no other job has: then they are one run."
)
_PASSING = (HubUnreachable, Unavailable, TooManyRequests)


class Lifeline:
    """A run's ties.

    Args:
        new: The run, as the hub is told of it; with a key.
        logdir: The directory to write to; without one it is chosen.
        hub: Which hub; without one it is found as `Hub` does.
        offline: Ask no hub.
        rank: Of this process among those of its job.
        exclude: Globs of files that are not published.
        restore: Give back what earlier attempts wrote, if the run is resumed.
        report: Called with what is waited for, or was done, in a sentence.

    A run that is resumed needs its hub, unless nothing is restored. `begin` is to be called before
    anything is written.

    Raises:
        DirectoryInUseError: Another run writes to `logdir`.
        HubUnreachable: The run is to be resumed, and no hub answers.
        Problem: The hub does not want the run.
        SpoolError: What it logs cannot be kept on this machine; no hub has been told.

    Attributes:
        started: The run as the hub knows it; None while no hub does.
        logdir: The directory to write to.
        older: Files of a given directory that were there before the run, and are not its own.
        trouble: Why the hub does not know the run, or why it is no longer told; a sentence.
    """

    def __init__(
        self,
        new: NewRun,
        *,
        logdir: Path | None = None,
        hub: Hub | None = None,
        offline: bool = False,
        rank: int = 0,
        exclude: Sequence[str] = (),
        restore: bool = True,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.started: StartedRun | None = None
        self.older = Older()
        self.trouble = "" if not offline else "it was started offline"
        self._new = new
        self._rank = rank
        self._exclude = checked_patterns(exclude)
        self._report = report
        self._resumes = new.resume is not None or new.resume_or_start
        self._restores = restore and self._resumes
        timeout = _REQUEUE_TIMEOUT if new.resume_or_start else _RESUME_TIMEOUT
        self._answer_by = time.monotonic() + (timeout if self._restores else PATIENCE)
        self._waits = False
        self._adopted: Adopted | None = None
        self._adopted_owed: Owed | None = None  # what an adopted spool has to tell, without a hub
        self._left: list[Leftover] = []
        self._hub = hub
        self._owns_hub = hub is None
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._answered = threading.Event()
        self._wake = threading.Event()
        self._ended = False
        self._is_over = False
        self._is_gone = False  # deleted from the hub
        self._troubles_told: set[str] = set()
        self._collected: dict[str, HParam] = {}
        self._fenced = threading.Event()
        self._refusal: TbhubError | None = None
        self._unsaid: dict[str, HParam] = {}
        self._spool: Spool | None = None
        self._written_by: int | None = None  # the attempt that used the given directory last
        self._held: int | None = None
        self._publishing: Publishing | None = None
        self._thread: threading.Thread | None = None
        self._diff: threading.Thread | None = None
        self._directory: DirectoryLock | None = None
        if logdir is not None:
            hint = _ALONE if self._seems_alone() else ""
            self._directory = DirectoryLock(logdir, new, hint)
        try:
            if new.storage is None or "://" in new.storage:
                check_spool()
            if not offline:
                self._thread = threading.Thread(
                    target=self._live, name="tbhub-lifeline", daemon=True
                )
                self._thread.start()
                self._answered.wait(None if self._resumes else PATIENCE)
            with self._lock:
                if self._refusal is not None:
                    raise self._refusal
                self.logdir = self._settle(logdir)
        except BaseException:
            self._unlock()
            raise
        if self.started is None and not offline:
            why = self.trouble or "the hub does not answer in time"
            warnings.warn(
                f"the run goes on without a hub: {why}; what it logs is kept in {self.logdir} and "
                "published when a hub answers, or by `tbhub sync`",
                TbhubWarning,
                stacklevel=4,
            )

    def begin(self, progress: Callable[[Progress], None] = lambda _: None) -> None:
        """Restore what earlier attempts wrote, and publish what is written from now on.

        Args:
            progress: Called with how far the restore is, by other threads.

        Raises:
            RestoreError: The files of the run cannot be restored.
        """
        if self.started is not None and self._resumes:
            for left in self._left:
                publish_late(left, self.started.attempt, self._credentials, self._report)
            if self._restores and self._spool is not None and self.started.attempt > 1:
                self._restore(self.started, self._spool, progress)
        with self._lock:
            if self._spool is not None and self.started is not None and self._publishing is None:
                self._publish(self._spool)
        self._diff = threading.Thread(target=self._keep_diff, name="tbhub-diff", daemon=True)
        self._diff.start()

    @property
    def hub(self) -> Hub | None:
        """The hub that knows the run, or that was to know it."""
        return self._hub

    @property
    def is_fenced(self) -> bool:
        """Whether a later attempt of the run has taken over."""
        return self._fenced.is_set()

    @property
    def url(self) -> str | None:
        """The address of the run's page; None while no hub knows the run."""
        if self.started is None or self._hub is None or self._is_gone:
            return None
        return f"{self._hub.connection.url}/runs/{self.started.run.id}"

    @property
    def location(self) -> str:
        """Where the files are, as the hub reads them; the local directory while it knows none."""
        return self.started.run.location if self.started else str(self.logdir)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """To be inherited by processes that write: their files are followed while they live."""
        found = [self._held] if self._held is not None else []
        return (*found, self._publishing.pipe) if self._publishing else tuple(found)

    @property
    def rank(self) -> int:
        """Which process of its job this is."""
        return self._rank

    @property
    def adoption_record(self) -> Path | None:
        """The file that records which files of the run are copies; None without a spool."""
        return self._spool.adopted if self._spool is not None else None

    def fetch(self, name: str) -> bytes | None:
        """A file that earlier attempts have published; None if there is none.

        Raises:
            OSError: It cannot be had now, or not in a few seconds.
        """
        if self._spool is None or self.started is None or self._hub is None:
            return None
        to_hub = goes_to_hub(self._spool.uri)
        credentials = hub_credentials(self._hub, self.started.attempt) if to_hub else None
        opened, prefix = open_store(self._spool.uri, credentials, patience=_FETCHING)

        def read() -> bytes | None:
            store = readable(opened)
            try:
                return store.read(f"{prefix}/{_below(self._rank, name)}")
            except NotFound:
                return None
            finally:
                store.close()

        return within(PATIENCE, read)

    def _restore(
        self, started: StartedRun, spool: Spool, progress: Callable[[Progress], None]
    ) -> None:
        written_by = self._adopted.attempt if self._adopted is not None else self._written_by
        written_by = written_by or started.attempt
        if self._adopted is None:
            assert self._hub is not None
            known = Known.of(started, self._hub.connection.url)
            keep_for_restore(spool, replace(known, attempt=written_by))
        credentials = self._credentials(started.attempt)
        store, prefix = open_store(spool.uri, credentials, patience=_RESTORING)
        restorer = Restorer(
            store,
            f"{prefix}/rank{self._rank}" if self._rank else prefix,
            spool.directory,
            state=spool.state,
            without_ranks=self._rank == 0 and environment.world_size() > 1,
            is_newest=written_by >= started.attempt - 1,
            attempt=written_by,
            older=self.older,
        )
        try:
            found = within(threading.TIMEOUT_MAX, lambda: restorer.run(progress))
        except RestoreError as error:
            raise RestoreError(
                f"the files of {started.run.name} cannot be restored: {str(error).rstrip('.')}. "
                "hint: resume the run again when that is mended, or start without its files: "
                "--no-restore, Run(restore=False)"
            ) from error
        finally:
            restorer.stop()
            store.close()
        spool.note_earlier()
        _wait_for_later_stamp(spool.earlier())
        for text in _restored(found, self._adopted is not None):
            self._report(text)

    def _credentials(self, attempt: int) -> dict[str, str] | None:
        assert self._hub is not None
        assert self.started is not None
        to_hub = goes_to_hub(self.started.target)
        return hub_credentials(self._hub, attempt) if to_hub else None

    def counted_before(self, directory: str) -> int:
        """Where the steps of earlier attempts below a directory have come to; 0 without any."""
        if self.started is None or self._hub is None or self.started.attempt == 1:
            return 0
        from tbhub.tracking.counting import counted_before

        return counted_before(
            self._hub, self.started.run, self.started.attempt, _below(self._rank, directory)
        )

    def tell_hparams(self, hparams: dict[str, HParam]) -> None:
        """Has the hub know hyperparameters, soon."""
        with self._lock:
            if self.started is None:
                self._new.hparams = {**self._new.hparams, **hparams}
                if self._spool is not None:
                    with suppress(OSError):  # a full disk does not end a training
                        write_owed(self._spool, self._owed(None))
            else:
                self._unsaid.update(hparams)
                self._wake.set()

    def finish(self, status: RunEnding, exit_code: int | None = None, *, waits: bool = True) -> str:
        """Waits until all is published, as long as that goes on, and tells the hub.

        Again, after an interrupt, it may be told not to wait: the agent publishes what is left.

        Returns:
            What is left to do, in a sentence; empty if that is nothing.
        """
        if self._process != os.getpid() or self._is_over:
            return ""
        self._collect_hparams()
        self._ended = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(PATIENCE)
        if self._diff is not None:
            self._diff.join(PATIENCE)
        if self._fenced.is_set():
            self._let_go(False)
            return ""
        # Of the processes of a run the one with the lowest rank says how it has ended.
        ended: dict[str, object] = {"status": status, "exit_code": exit_code, "rank": self._rank}
        with self._lock, suppress(OSError):  # a full disk: the hub is told all the same
            if self._spool is not None:
                write_owed(self._spool, self._owed(ended))
        left = self._drain() if waits and not self._is_gone else self._backlog()
        is_told = self._tell_end(ended)
        if self._spool is not None and not is_told:
            with suppress(OSError):  # there may be room by now
                write_owed(self._spool, self._owed(ended))
        if self._fenced.is_set():
            self._let_go(False)
            return ""
        if self._spool is None and not is_told:
            self._keep_end(self._owed(ended))
        elif self._spool is not None and is_told:
            with suppress(OSError):  # it is only told again
                write_owed(self._spool, self._owed(None))  # the files may come later: by the agent
        self._let_go(is_told and not left.files)
        return self._what_is_left(left, is_told)

    # ------------------------------------------------------------------ the hub

    def _collect_hparams(self) -> None:
        """Tell the hub of hyperparameters that a program inside of `tbhub run` has left."""
        found = read_hparams(self._spool) if self._spool is not None else {}
        if found != self._collected:
            known, self._collected = self._collected, found
            self.tell_hparams(
                {
                    name: value
                    for name, value in found.items()
                    if name not in known or known[name] != value
                }
            )

    def _live(self) -> None:
        while True:
            last = self._ended
            if not last:
                self._collect_hparams()
            try:
                if self.started is None:
                    self._tell_run()
                else:
                    self._tell_life(self.started)
            except Fenced as error:
                self._fence(str(error))
                self._answered.set()
                return
            except BadRequest as error:  # a ValueError that is final
                self._refuse(error)
                self._answered.set()
                return
            except (*_PASSING, ValueError) as error:
                self.trouble = str(error)
                if self._must_wait():
                    if not self._waits:
                        self._waits = True
                        self._report(f"waiting for the hub: {error}")
                    self._wake.wait(_RETRY_INTERVAL)
                    continue
                if self._restores and not self._answered.is_set() and not self._goes_on_alone():
                    self._refusal = _unanswered(self._new, error)
                    self._answered.set()
                    return
            except TbhubError as error:
                if not (isinstance(error, NotAuthenticated) and self._logs_in_again(error)):
                    self._refuse(error)
                    self._answered.set()
                    return
            except OSError as error:  # no room in the spool
                self.trouble = str(error)
            self._answered.set()
            if last:
                return
            self._wake.wait(_BEAT)
            self._wake.clear()
            if self._publishing is not None:
                self._publishing.revive()
                self._warn_of_publishing()

    def _warn_of_publishing(self) -> None:
        """Say, once for each reason, that nothing is published; a training may last for days."""
        problem = self._spool.lasting_problem(_LASTING) if self._spool is not None else ""
        if self._spool is None or not problem or problem in self._troubles_told or self._ended:
            return
        left = self._spool.backlog()
        if left.files:
            self._troubles_told.add(problem)
            _warn(
                f"{left} not published yet: {problem.rstrip('.')}. The run goes on and so does "
                f"publishing; the files are in {self._spool.directory} meanwhile"
            )

    def _must_wait(self) -> bool:
        """Whether a run that is to be resumed still waits for its hub."""
        is_waiting = self._resumes and not self._answered.is_set() and not self._ended
        return is_waiting and time.monotonic() < self._answer_by

    def _goes_on_alone(self) -> bool:
        """Whether a run is resumed, or started, although no hub answers.

        It is where this machine has the files of its last attempt, and where no hub is known at
        all: then there is none that could know the run.
        """
        if self._hub is None and self._new.resume_or_start:
            return True
        return leftover_without_hub(self._new, self._rank) is not None

    def _tell_run(self) -> None:
        if self._hub is None:
            self._hub = Hub(timeout=_TIMEOUT)
        self._new.late = self._spool is not None  # training has begun without the hub
        started = start_run(self._hub, self._new, self._report)
        with self._lock:
            self.started = started
            self.trouble = ""
            if self._directory is not None:
                self._directory.add(started.run)
            if self._spool is not None:  # training has begun without us
                self._spool = redirect(self._spool, started.target)
                self._publish(self._spool)

    def _tell_life(self, started: StartedRun) -> None:
        assert self._hub is not None
        self._tell_unsaid(self._hub, started)
        beat = calls.build(Heartbeat, attempt=started.attempt)
        self._hub.heartbeat(started.run.id, beat)

    def _tell_unsaid(self, hub: Hub, started: StartedRun) -> None:
        """Tell the hub of hyperparameters; they stay unsaid if it does not answer."""
        with self._lock:
            unsaid = dict(self._unsaid)
        if not unsaid:
            return
        is_answered = True
        try:
            hub.change_run(started.run.id, calls.build(RunChange, hparams=unsaid))
        except _PASSING:
            is_answered = False
            raise
        finally:
            if is_answered:
                with self._lock:
                    for name, value in unsaid.items():
                        if self._unsaid.get(name) == value:
                            del self._unsaid[name]

    def _tell_end(self, ended: dict[str, object]) -> bool:
        if self.started is None or self._hub is None:
            return False
        finish = calls.build(Finish, attempt=self.started.attempt, **ended)
        with suppress(TbhubError, ValueError):  # the other thread may still wait for an answer
            self._tell_unsaid(self._hub, self.started)
        try:
            self._hub.finish_run(self.started.run.id, finish)
        except Fenced as error:
            self._fence(str(error))
            return True
        except NoSuchRun as error:
            self.trouble = str(error)
            self._abandon()
            return False
        except TbhubError as error:
            self.trouble = str(error)
            return False
        return True

    def _keep_end(self, owed: Owed) -> None:
        """Of a run that writes to its place itself nothing waits but how it has ended."""
        if self.started is None or self._hub is None:
            return
        self._spool = make_spool(self.started.target, rank=self._rank)
        write_known(self._spool, Known.of(self.started, self._hub.connection.url))
        write_owed(self._spool, owed)

    def _logs_in_again(self, error: NotAuthenticated) -> bool:
        """Use the login that is stored now, if the hub has revoked the one that was used so far.

        Returns:
            Whether the run is still told to the hub: now, or once the user has logged in.
        """
        if self.started is None or self._hub is None or not self._owns_hub:
            return False
        if not self.trouble:
            _warn(
                f"the hub no longer accepts the login of the run; what it logs is kept here until "
                f"it does: {error}"
            )
        self.trouble = str(error)
        before = self._hub
        try:
            fresh = Hub(timeout=_TIMEOUT)
        except (HubUnreachable, ValueError):  # the user has logged out
            return True
        if not self._is_better(fresh, before):
            fresh.close()
            return True
        with self._lock:
            self._hub = fresh
            self.trouble = ""
            if self._publishing is not None and self._spool is not None:
                self._publishing.abandon()
                self._publish(self._spool)
        before.close()
        self._wake.set()
        return True

    def _is_better(self, fresh: Hub, before: Hub) -> bool:
        """Whether a login that was found just now is another one, and knows the run."""
        assert self.started is not None
        old, new = before.connection, fresh.connection
        if (new.url, new.token) == (old.url, old.token):
            return False
        try:
            return Known.of(self.started, old.url).is_of(fresh.run(self.started.run.id), new.url)
        except TbhubError:
            return False

    def _fence(self, why: str) -> None:
        self._fenced.set()
        self.trouble = why
        if self._spool is not None:
            self._spool.mark_fenced()
        if self._publishing is not None:
            self._publishing.abandon()
        _warn(
            f"another process has gone on with the run: {why.rstrip('.')}. What this one logs is "
            f"published no more and stays in {self.logdir}"
        )

    def _refuse(self, error: TbhubError) -> None:
        self.trouble = str(error)
        if self.started is not None and isinstance(error, NoSuchRun):
            self._abandon()
            _warn(self._gone())
        elif self._answered.is_set():
            _warn(f"the hub does not take the run: {error}; what it logs stays in {self.logdir}")
        elif isinstance(error, Conflict) and self._seems_alone():
            self._refusal = Conflict(f"{error.message} {_ALONE}", **error.details)
        elif isinstance(error, Problem):
            self._refusal = error

    def _abandon(self) -> None:
        """Publish nothing more: the hub no longer has the run."""
        self._is_gone = True
        if self._publishing is not None:
            self._publishing.abandon()

    def _gone(self) -> str:
        assert self.started is not None
        said = f"the hub no longer has run {self.started.run.name}: it was deleted, or is not yours"
        if self._spool is None:
            return f"{said}; what it has logged is in {self.logdir}"
        discard = f"; `tbhub sync --discard {self._spool.name}` deletes it"
        return f"{said}; what it has logged is in {self.logdir}{discard * self._spool.is_own}"

    def _seems_alone(self) -> bool:
        """Whether this is one process of a job, and the others cannot be known."""
        return environment.is_ranked() and environment.shared_key() is None

    # ------------------------------------------------------------------ the files

    def _settle(self, logdir: Path | None) -> Path:
        """Where is written to, and what is published from there."""
        if self.started is not None and (unused := _unused(self._new, self.started)):
            _warn(f"{self.started.run.name} is gone on with as it is: {unused} not used")
        if self.started is not None and self._resumes and self._hub is not None:
            self._left = leftovers_of(self.started, self._hub.connection.url, self._rank)
        elif self.started is None and self._restores:
            left = leftover_without_hub(self._new, self._rank)
            self._left = [left] if left is not None else []
            if left is None and self._new.resume is not None:
                raise RestoreError(
                    f"run {self._new.resume} cannot be resumed without a hub: this machine has no "
                    "files of it. hint: start without its files: --no-restore, Run(restore=False)"
                )
        if self.started is not None and "://" not in self.started.target and logdir is None:
            place = Path(self.started.target)
            place = place / f"rank{self._rank}" if self._rank else place
            place.mkdir(parents=True, exist_ok=True)
            if self.started.attempt == 1 or not _is_behind(place):
                return place
        uri = self.started.target if self.started is not None else UNTOLD
        self._adopted = self._adopt(uri, logdir)
        if self.started is None and self._left and self._adopted is None and logdir is None:
            raise RestoreError(
                f"run {self._new.resume or self._new.name or 'of this job'} cannot be resumed "
                f"without a hub: its files in {self._left[0].spool.directory} are used by another "
                "process, or are a directory that was given. hint: end that process, give the "
                "directory again, or start without the files: --no-restore, Run(restore=False)"
            )
        if self._adopted is not None:
            self._spool, self._held, _ = self._adopted
            if self.started is None:
                self._adopted_owed = read_owed(self._spool)
                write_owed(self._spool, self._owed(None))
                self._report("the files of the earlier attempt on this machine are there again")
            self._spool.catch_up()  # what the dead attempt had yet to copy
            self._spool.note_earlier()
            self.older = self._spool.older()
            if logdir is not None:
                self._share(logdir, self._spool, self.older)
            return self._spool.directory
        self._spool = make_spool(uri, logdir, rank=self._rank, exclude=self._exclude)
        if logdir is not None:
            self._share(logdir, self._spool)
        self._held = self._spool.hold()
        if self.started is None:
            write_owed(self._spool, self._owed(None))
        return self._spool.directory

    def _share(self, logdir: Path, spool: Spool, known: Older | None = None) -> None:
        """Find out which files of a given directory are not this run's; it is this run's now.

        Args:
            known: What an earlier attempt, whose spool was adopted, has found.
        """
        names = self._names()
        first_start = self.started.run.created.timestamp() if self.started is not None else 0.0
        is_resumed = self.started.attempt > 1 if self.started is not None else self._resumes
        there = find_older(logdir)
        self._freeze_others(logdir, spool, there)
        if known is not None:
            spool.thaw()
            found = find_foreign(logdir, names, 0.0, State(spool.state).has_published)
            self.older = Older({**found.files, **known.files})
        elif is_resumed:
            self.older = find_foreign(logdir, names, first_start)
        else:
            self.older = there
        spool.leave_out(self.older)
        self._written_by = last_attempt(logdir, names)
        begin_session(logdir, names, self.started.attempt if self.started is not None else None)

    def _freeze_others(self, logdir: Path, spool: Spool, there: Older) -> None:
        """Keep this run's files out of what ended runs of the directory have yet to publish."""
        for other in all_spools():
            is_here = other.directory == logdir.absolute() and other.path != spool.path
            if is_here and not other.is_held():
                with suppress(OSError):  # published and removed by now
                    other.freeze(there.files)

    def _names(self) -> list[str]:
        """Return what this run is known by on this machine."""
        if self.started is not None and self._hub is not None:
            run = self.started.run
            return [f"{self._hub.connection.url}#{run.id}", f"{run.workspace}/{run.name}"]
        name = self._new.name or self._new.resume or self._new.key
        return [f"{self._new.workspace}/{name}"]

    def _adopt(self, uri: str, logdir: Path | None) -> Adopted | None:
        """Take over the newest spool that an earlier attempt has left here."""
        if not self._restores:
            return None
        for left in self._left:
            if is_adoptable(left, logdir):
                known = None
                if self.started is not None and self._hub is not None:
                    known = Known.of(self.started, self._hub.connection.url)
                place = uri if known is not None else left.spool.uri
                adopted = adopt(left, known, place, exclude=self._exclude)
                if adopted is not None:
                    self._left.remove(left)
                    return adopted
        return None

    def _publish(self, spool: Spool) -> None:
        assert self.started is not None
        assert self._hub is not None
        known = Known.of(self.started, self._hub.connection.url)
        write_known(spool, known)
        write_owed(spool, self._owed(None))
        self._publishing = start_agent(spool, self._credentials(known.attempt))

    def _owed(self, ended: dict[str, object] | None) -> Owed:
        if self.started is not None:
            return Owed(None, ended)
        if self._adopted_owed is not None:
            return Owed(self._adopted_owed.new, ended)
        return Owed(self._new.model_dump(mode="json", exclude_unset=True), ended)

    def _drain(self) -> Backlog:
        """What is left when all is published, or when it does not go on."""
        if self._publishing is None:
            return self._backlog()
        least, since = float("inf"), time.monotonic()
        with UploadProgress() as progress:
            while True:
                left = self._publishing.flush(_PROGRESS_INTERVAL, has_ended=True)
                if not left.files:
                    return left
                progress.show(left)
                if left.bytes < least:
                    least, since = left.bytes, time.monotonic()
                elif time.monotonic() - since > _STALLED:
                    return left

    def _backlog(self) -> Backlog:
        return self._spool.backlog() if self._spool is not None else Backlog()

    def _unlock(self) -> None:
        """Let other runs use a given directory."""
        with self._lock:
            if self._directory is not None:
                self._directory.release()
                self._directory = None

    def _let_go(self, is_done: bool) -> None:
        self._is_over = True
        self._unlock()
        if self._held is not None:
            os.close(self._held)
            self._held = None
        if self._owns_hub and self._hub is not None:
            self._hub.close()
        if self._spool is not None and is_done:
            write_owed(self._spool, Owed())
            # Processes that the command has left behind may still log: the agent ends with them.
            if self._publishing is not None and not self._spool.is_held():
                self._publishing.close(_LOOK)

    def _what_is_left(self, left: Backlog, is_told: bool) -> str:
        if self._is_gone:
            return self._gone()
        said = []
        if left.files and self._spool is not None:
            why = f" ({left.problem})" if left.problem else ""
            said.append(f"{left} not published yet from {self._spool.directory}{why}")
        if not is_told:
            what = "how the run has ended" if self.started else "of the run"
            said.append(f"the hub has not been told {what}: {self.trouble or 'no answer'}")
        if said and left.files and self._publishing is not None:
            said.append(
                "publishing continues in the background; `tbhub sync --list` shows what is left, "
                "`tbhub sync` waits for it"
            )
        elif said and self._spool is not None:
            said.append("`tbhub sync` does what is left")
        if left.files and left.problem and self._spool is not None and self._spool.is_own:
            said.append(f"`tbhub sync --discard {self._spool.name}` deletes it instead")
        return "\n".join(filter(None, ["; ".join(said), self._kept(left)]))

    def _kept(self, left: Backlog) -> str:
        """Return which files stay on this machine, where, and how to delete them."""
        if self._spool is None:
            return ""
        said = [f"cannot be published: {each}" for each in left.refused]
        if left_out := self._spool.left_out():
            files = "1 file" if len(left_out) == 1 else f"{len(left_out):,} files"
            size = in_bytes(sum(each.look.size for each in left_out))
            largest = left_out[0]
            said.append(
                f"{files} ({size}) not published: {largest.path} ({largest.left_out})"
                + (" and more" if len(left_out) > 1 else "")
            )
        if not self._spool.is_held() and (opened := self._spool.open_files()):
            more = f" and {len(opened) - 1:,} more" if len(opened) > 1 else ""
            said.append(
                f"{opened[0]}{more} still open in another process; `tbhub sync` publishes the rest "
                "when it is closed"
            )
        if not said or not self._spool.is_own:
            return "; ".join(said)
        said.append(
            f"kept in {self._spool.directory}; `tbhub sync --discard {self._spool.name}` deletes "
            "what is there"
        )
        return "; ".join(said)

    def _keep_diff(self) -> None:
        if diff := git_diff():
            try:
                (self.logdir / "git.diff").write_bytes(diff)
            except OSError as error:
                _warn(f"the diff of the working directory is not kept: {error.strerror}")


def _unanswered(new: NewRun, error: Exception) -> HubUnreachable:
    what = f"run {new.resume}" if new.resume is not None else f"run {new.name or 'of this job'}"
    return HubUnreachable(
        f"{what} cannot be resumed: {str(error).rstrip('.')}. hint: start the hub, or train "
        "without the run's files: --no-restore, Run(restore=False)"
    )


def _restored(found: Restored, is_adopted: bool) -> list[str]:
    """What a restore did, in sentences."""
    told = []
    if is_adopted:
        told.append("the files of the earlier attempt on this machine are there again")
    if found.files:
        files = "1 file" if found.files == 1 else f"{found.files:,} files"
        told.append(f"restored {files}, {found.bytes:,} bytes")
    if found.incomplete:
        told.append(f"left out, because not all of it was published: {_listed(found.incomplete)}")
    told += [f"kept a file that a later attempt has replaced as {each}" for each in found.renamed]
    told += [f"kept a file of another run as {each}; it is not published" for each in found.foreign]
    told += [f"{each} was not restored: something else is there" for each in found.kept]
    return told


def _listed(paths: Sequence[str]) -> str:
    rest = len(paths) - _MAX_LISTED
    return ", ".join(paths[:_MAX_LISTED]) + (f" and {rest:,} more" if rest > 0 else "")


def _below(rank: int, name: str) -> str:
    return f"rank{rank}/{name}" if rank else name


def _unused(new: NewRun, started: StartedRun) -> str:
    """What was given and a run that is gone on with does not take; the beginning of a sentence."""
    if new.resume is None and not (new.resume_or_start and started.attempt > 1):
        return ""
    run, given = started.run, []
    if new.job is not None and str(new.job) not in _words_for_job(run):
        given.append(f"the job {new.job}")
    if new.name not in (None, run.name):
        given.append(f"the name {new.name}")
    if new.experiment not in ("default", run.experiment):
        given.append(f"the experiment {new.experiment}")
    if new.storage is not None and not f"{run.location}/".startswith(f"{new.storage.rstrip('/')}/"):
        given.append(f"the storage {new.storage}")
    return f"{' and '.join(given)} {'is' if len(given) == 1 else 'are'}" if given else ""


def _words_for_job(run: Run) -> tuple[str, ...]:
    """Return what the job of a run is called."""
    return ("",) if run.job is None else (str(run.job), f"job{run.job}", run.job_name or "")


def _is_behind(directory: Path) -> bool:
    """Whether event files are there that were begun later than now, by the clock of this machine.

    One that is begun now would seem to come before them. Where it is published instead of written
    there, it is under a later time (`tbhub.publisher.plan.names_behind`).
    """
    names = (file.name for file in directory.rglob("*tfevents*"))
    return latest_stamp(names) > time.time()


def _wait_for_later_stamp(earlier: list[str]) -> None:
    """Wait until an event file that is begun now sorts behind those of earlier attempts.

    Their names have seconds. A clock that is further behind is the publisher's business.
    """
    now = time.time()
    if latest_stamp(earlier) == int(now):
        time.sleep(int(now) + 1 - now)


def _warn(text: str) -> None:
    warnings.warn(text, TbhubWarning, stacklevel=2)
