"""Runs a command as a run: started, watched, published, and its end recorded.

The command has a group of processes of its own, the terminal if there is one, and inherits what
keeps its files followed: were this process killed, the agent would go on as long as the command
does. Once the command has been started its exit code is ours, whatever we fail to write: that is
reported in a sentence. What is sent to us is sent on: an interrupt and a hangup to the whole group,
as a terminal does; anything else to the command alone, which knows best how to tell its children. A
shell does not: when the command has ended after SIGTERM, what is left of its group gets it as well,
and has a few seconds to end. Processes that a command leaves behind without a signal are left
alone: they are not waited for, but what they log until they end is added to the run. What is
ignored when we are started (`nohup`) stays so, for the command as well. Before there is a command,
what would have ended it ends us. When it has ended they are for us: we no longer wait until all is
published. Where a terminal stops the command (Ctrl-Z) its shell is to know, so we stop with it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

from tbhub.api.models import RunEnding
from tbhub.errors import TbhubError
from tbhub.publisher.adopted import read_record
from tbhub.publisher.restorer import Progress
from tbhub.publisher.spool import SpoolError
from tbhub.tracking.announce import is_quiet
from tbhub.tracking.capture.capturing import Capturing
from tbhub.tracking.capture.processes import SOCKET, Processes, is_helper
from tbhub.tracking.capture.summary import adopted_line, has_event_files, missing_line
from tbhub.tracking.console import Console
from tbhub.tracking.environment import child_environment, with_logdir
from tbhub.tracking.lifeline import Lifeline
from tbhub.tracking.process_table import group_members, inheritors, start_time
from tbhub.tracking.session import Session
from tbhub.tracking.system import SystemMetrics

_TO_GROUP = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
_ENDING = (*_TO_GROUP, signal.SIGTERM)
_PASSED_ON = (*_ENDING, signal.SIGUSR1, signal.SIGUSR2)
_GROUP_TIMEOUT = 10.0  # seconds that processes have to end after the command, which a signal ended
_GROUP_INTERVAL = 0.05  # seconds between two looks at them
_LOG, _SYSTEM = "console.log", "system"
NOT_FOUND, NOT_EXECUTABLE = 127, 126  # as shells have it


@dataclass(frozen=True)
class Outcome:
    """How a run has gone.

    Attributes:
        code: The command's exit code; 128 and the number of the signal that has ended it.
        left: What is left to do, in a sentence.
        status: What the hub is told.
        adopted: Which event files were adopted, in a sentence.
        missing: Which were not, in a sentence.
        running: Which processes of the command still run, in a sentence.
        failed: What could not be written, and where the files are, in a sentence.
    """

    code: int
    left: str
    status: RunEnding
    adopted: str = ""
    missing: str = ""
    running: str = ""
    failed: str = ""


class NotStartedError(TbhubError):
    """The command cannot be started.

    Attributes:
        code: What a shell would exit with.
    """

    def __init__(self, command: str, error: OSError) -> None:
        super().__init__(f"{command}: {error.strerror}")
        self.code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE


def supervise(
    command: list[str],
    lifeline: Lifeline,
    *,
    hparams: dict[str, bool | int | float | str],
    system_metrics: bool = False,
    capture: bool = True,
    logdirs: Sequence[str] = (),
    console_limit: int | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
) -> Outcome:
    """Runs a command to its end, and tells of it.

    Args:
        capture: Adopt event files that the command writes outside of the run's directory.
        logdirs: Directories to adopt from; without any they are found.
        console_limit: How many bytes of what it prints are kept; None for all.
        progress: Called with how far the restore of the run's files is, before the command.

    Raises:
        RestoreError: The files of the run cannot be restored; the attempt has failed.
        NotStartedError: The command cannot be started; the run has failed.
        SpoolError: What it would log cannot be kept; the run has failed, without the command.
    """
    session = Session(lifeline.logdir)
    left_behind = _LeftBehind(lifeline, is_adopted=capture)
    failures = _Failures(lifeline)
    with _signals() as received:
        ended, adopted, left_out = -1, "", ""
        try:
            with received.ending_us():
                lifeline.begin(progress)
            if hparams:
                session.start(hparams)
            adopting = _Adopting(lifeline, logdirs) if capture else None
            try:
                ended = _run(
                    command,
                    lifeline,
                    system_metrics,
                    console_limit,
                    received,
                    adopting,
                    left_behind,
                    failures,
                )
            finally:  # while it adopts, the spool is not removed
                if adopting is not None:
                    with failures.collect("event files that were written elsewhere"):
                        adopted, left_out = adopting.finish(is_good=ended == 0)
                        left_behind.add(adopting.running)
        except _TooEarly as early:
            ended = -early.number
        except (NotStartedError, OSError) as error:
            _fail(error, session, lifeline)
            if isinstance(error, TbhubError):
                raise
            raise _not_kept(error, lifeline) from error
        status = _status(ended, received.seen)
        with failures.collect("how the session of hyperparameters has ended"):
            session.end(status)
        code = 128 - ended if ended < 0 else ended
        left = ""
        with failures.collect("how the run has ended"):
            try:
                with received.interrupting():
                    left = lifeline.finish(status, code, waits=not received.is_late)
            except KeyboardInterrupt:
                left = lifeline.finish(status, code, waits=False)
    return Outcome(
        code, left, status, adopted, left_out, left_behind.sentence(), failures.sentence()
    )


def _fail(error: Exception, session: Session, lifeline: Lifeline) -> None:
    """Record that the run has failed before its command has begun; the error is raised anyway."""
    code = error.code if isinstance(error, NotStartedError) else None
    with suppress(OSError):
        session.end("failed")
    with suppress(OSError):
        lifeline.finish("failed", code, waits=code is not None)


def _not_kept(error: OSError, lifeline: Lifeline) -> SpoolError:
    reason = error.strerror or str(error)
    where = f": {error.filename}" if error.filename else ""
    return SpoolError(
        f"the command was not started: {reason}{where}; what it logs is kept in "
        f"{lifeline.logdir}. hint: make room there, or set TBHUB_SPOOL_DIR to another directory"
    )


class _Failures:
    """What could not be written since the command was started.

    Args:
        lifeline: Of the run, whose files stay where they are.
    """

    def __init__(self, lifeline: Lifeline) -> None:
        self._logdir = lifeline.logdir
        self._has_spool = lifeline.adoption_record is not None
        self._found: dict[str, list[str]] = {}  # by reason

    @contextmanager
    def collect(self, what: str) -> Iterator[None]:
        """Record an error instead of raising it.

        Args:
            what: What could not be written then.
        """
        try:
            yield
        except Exception as error:  # the command has run: its exit code is what counts
            self.add(what, error)

    def add(self, what: str, error: Exception) -> None:
        """Record that something could not be written."""
        number = error.errno if isinstance(error, OSError) else None
        reason = os.strerror(number) if number else f"{error!r:.300}"
        self._found.setdefault(reason, []).append(what)

    def sentence(self) -> str:
        """Return what could not be written, why, and where the files are; empty if nothing."""
        if not self._found:
            return ""
        found = "; ".join(f"{', '.join(what)} ({why})" for why, what in self._found.items())
        said = f"could not be written: {found}"
        if not self._logdir.exists():  # all that was written is published
            return said
        hint = " hint: make room there, then run `tbhub sync`" if self._has_spool else ""
        return f"{said}. The files of the run are in {self._logdir}.{hint}"


class _Adopting:
    """Event files that the command writes elsewhere are adopted, until its processes have ended.

    Attributes:
        running: The processes from which adopting continues after `finish`, with start times.
    """

    def __init__(self, lifeline: Lifeline, logdirs: Sequence[str]) -> None:
        self._logdir = lifeline.logdir
        self._rank = lifeline.rank
        self._record = lifeline.adoption_record
        self._capturing = Capturing(
            lifeline.logdir,
            lifeline.adoption_record,
            published=lifeline.location,
            named=logdirs,
            inherited=lifeline.descriptors,
        )
        self.descriptors = (self._capturing.pipe,)
        self.add_command = self._capturing.add_command
        self.variables = self._capturing.variables
        self.running: dict[int, int] = {}

    def finish(self, is_good: bool) -> tuple[str, str]:
        """Return what was adopted, and what was not: sentences."""
        report = self._capturing.finish()
        self.running = report.running if report is not None else {}
        adopted = adopted_line(report) if report is not None else ""
        is_over = is_good and not self.running
        is_expected = is_over and self._rank == 0 and not is_quiet() and not self._has_event_files()
        recorded = self._recorded() if report is None else ()
        return adopted, missing_line(report, is_expected, recorded)

    def _recorded(self) -> list[str]:
        """Return the directories that a killed process has recorded as adopted from."""
        if self._record is None:
            return []
        with suppress(OSError, ValueError, TypeError):
            found = read_record(self._record)
            return list(dict.fromkeys(os.path.dirname(each.source) for each in found))
        return []

    def _has_event_files(self) -> bool:
        """Return whether the command has written event files to the run's directory."""
        return has_event_files(self._logdir, but_of=os.getpid())


def _run(
    command: list[str],
    lifeline: Lifeline,
    system_metrics: bool,
    console_limit: int | None,
    received: _Received,
    adopting: _Adopting | None,
    left_behind: _LeftBehind,
    failures: _Failures,
) -> int:
    """Return the command's code; the number of the signal that has ended it, below zero.

    Raises:
        NotStartedError: The command cannot be started.
        OSError: Something else cannot be written, before the command is started.
    """
    with received.ending_us():
        log = _log_name(lifeline)
    kept = lifeline.logdir / log
    console = Console(kept, console_limit)
    started, hub = lifeline.started, lifeline.hub
    terminal = _Terminal()
    environ = child_environment(
        os.environ,
        lifeline.logdir,
        run=started.run.id if started else None,
        attempt=started.attempt if started else None,
        url=hub.connection.url if hub else None,
        token=hub.connection.token if hub else None,
    )
    environ |= adopting.variables(environ) if adopting is not None else {SOCKET: ""}
    try:
        process = subprocess.Popen(
            with_logdir(command, lifeline.logdir),
            stdout=console.stdout,
            stderr=console.stderr,
            process_group=0,
            pass_fds=(*lifeline.descriptors, *(adopting.descriptors if adopting else ())),
            env=environ,
        )
    except OSError as error:
        raise NotStartedError(command[0], error) from error
    received.give_to(process)
    if adopting is not None:
        adopting.add_command(process.pid, kept)
    terminal.give(process.pid)
    console.start()
    metrics = None
    if system_metrics:
        with failures.collect("system metrics"):
            metrics = SystemMetrics(lifeline.logdir, process.pid, lifeline.counted_before(_SYSTEM))
    ended_by = terminal.wait(process)
    is_signalled = received.end_group(process, ended_by)
    terminal.take()
    if metrics is not None:
        with failures.collect("system metrics"):
            metrics.close()
    # The command's exit status is collected last: until then its group cannot be another one.
    left_behind.wait_for_group(process.pid, _GROUP_TIMEOUT if is_signalled else 0.0)
    code = process.wait()
    console.finish()
    if console.error is not None:
        failures.add("what the command has printed", console.error)
    return code


def _log_name(lifeline: Lifeline) -> str:
    """The file of what is printed; earlier attempts' is gone on with."""
    attempt = lifeline.started.attempt if lifeline.started else 1
    log = lifeline.logdir / _LOG
    if attempt == 1 or log.exists():
        return _LOG
    try:
        earlier = lifeline.fetch(_LOG)
    except OSError:
        return f"console-{attempt}.log"  # nothing of theirs is overwritten
    if earlier is not None:
        log.write_bytes(earlier)
    return _LOG


def _status(ended: int, seen: list[int]) -> RunEnding:
    """A shell ends with 128 and the number of a signal that has ended what it ran."""
    if ended == 0:
        return "finished"
    return "killed" if ended < 0 or ended - 128 in seen else "failed"


class _LeftBehind:
    """Processes of the command that have not ended with it.

    Args:
        lifeline: Of the run, whose spool they may hold.
        is_adopted: Whether event files that they write elsewhere are adopted.
    """

    def __init__(self, lifeline: Lifeline, *, is_adopted: bool) -> None:
        self._logdir = lifeline.logdir
        self._is_adopted = is_adopted
        self._members: dict[int, int] = {}
        self._adopted_from: dict[int, int] = {}
        self._held = next(iter(lifeline.descriptors), None)
        self._file = os.fstat(self._held) if self._held is not None else None

    def wait_for_group(self, group: int, timeout: float) -> None:
        """Wait until the processes of the command's group have ended, or time is up."""
        deadline = time.monotonic() + timeout
        while (members := group_members(group)) and time.monotonic() < deadline:
            time.sleep(_GROUP_INTERVAL)
        self._members = members

    def add(self, adopted_from: dict[int, int]) -> None:
        """Add processes whose event files elsewhere are adopted until they end."""
        self._adopted_from = adopted_from

    def sentence(self) -> str:
        """Return which processes still run, and what happens to what they log; empty if none do."""
        adopted_from = _running(self._adopted_from)
        holders = []
        if self._held is not None and self._file is not None:
            found = inheritors(self._held, self._file)
            holders = [process for process in found if not is_helper(process)]
        seen = {} if self._is_adopted else self._find()
        numbers = sorted({*adopted_from, *_running(self._members), *holders, *seen})
        if not numbers:
            return ""
        if is_one := len(numbers) == 1:
            said, logs, writes = f"process {numbers[0]} of the command still runs", "logs", "writes"
        else:
            named = ", ".join(map(str, numbers))
            said, logs, writes = f"processes {named} of the command still run", "log", "write"
        what, end = ("it", "it ends") if is_one else ("they", "they end")
        if adopted_from:
            return f"{said}; what {what} {logs} until {end} is added to the run"
        if self._held is not None and not holders:  # the spool ends with those that hold it
            return f"{said}; what {what} {logs} from now on is not added to the run"
        return (
            f"{said}; what {what} {writes} to the run's directory until {end} is added to the run, "
            "event files elsewhere are not"
        )

    def _find(self) -> dict[int, int]:
        """Return the processes with the environment of a command that nothing is adopted from."""
        processes = Processes(str(self._logdir), "")
        processes.refresh()
        since = start_time(os.getpid()) or 0  # an earlier attempt may have had the same directory
        return {each: begun for each, begun in processes.running().items() if begun >= since}


def _running(processes: dict[int, int]) -> set[int]:
    """Return those of some processes, with their start times, that have not ended."""
    return {process for process, begun in processes.items() if start_time(process) == begun}


class _TooEarly(Exception):  # noqa: N818 - no error: somebody wants us to end
    """A signal has come that would have ended the command, before there is one."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _Received:
    """Signals that came, and the command they are for; while there is none they wait for it.

    Attributes:
        seen: Their numbers.
    """

    def __init__(self) -> None:
        self.seen: list[int] = []
        self._waiting: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._is_group_left = False
        self._ends_us = False
        self._interrupts = False

    @contextmanager
    def ending_us(self) -> Iterator[None]:
        """What would end the command is not kept waiting meanwhile: it is a `_TooEarly`."""
        self._ends_us = True
        try:
            yield
        finally:
            self._ends_us = False

    def give_to(self, process: subprocess.Popen[bytes]) -> None:
        """The command is there, and gets what has come before."""
        self._process = process
        while self._waiting:
            self._pass_on(process, self._waiting.pop(0))

    def end_group(self, process: subprocess.Popen[bytes], ended_by: int) -> bool:
        """Send SIGTERM to what a command that it ended has left of its group.

        Signals that come later are for the group. Those of a terminal it has had already: another
        interrupt would end what the first one has it save.

        Args:
            process: The command, whose exit status is not collected yet.
            ended_by: The signal that has ended it; 0 if none has.

        Returns:
            Whether the command has ended after a signal that would end it.
        """
        came = {ended_by, *self.seen}.intersection(_ENDING)
        self._is_group_left = bool(came)
        if signal.SIGTERM in came:
            self._pass_on(process, signal.SIGTERM)
        return bool(came)

    @property
    def is_late(self) -> bool:
        """Whether a signal came after the command's end, which nothing has acted on."""
        return bool(self._waiting)

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """What comes now, the command having ended, is a KeyboardInterrupt; once."""
        self._interrupts = True
        try:
            yield
        finally:
            self._interrupts = False

    def receive(self, number: int, _frame: FrameType | None) -> None:
        """A signal has come."""
        self.seen.append(number)
        if self._process is not None and self._process.returncode is None:
            self._pass_on(self._process, number)
        elif self._interrupts:
            self._interrupts = False
            raise KeyboardInterrupt
        elif self._ends_us and number in _ENDING:
            self._ends_us = False
            raise _TooEarly(number)
        else:
            self._waiting.append(number)

    def _pass_on(self, process: subprocess.Popen[bytes], number: int) -> None:
        with suppress(ProcessLookupError):
            if number in _TO_GROUP or self._is_group_left:
                os.killpg(process.pid, number)
            else:
                os.kill(process.pid, number)


@contextmanager
def _signals() -> Iterator[_Received]:
    received = _Received()
    before = {
        number: signal.signal(number, received.receive)
        for number in _PASSED_ON
        if signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Terminal:
    """The terminal goes to the command: only who has it may read from it."""

    def __init__(self) -> None:
        self._given_to = 0
        self._is_ours = False
        with suppress(OSError, ValueError):
            self._is_ours = sys.stdin.isatty() and os.tcgetpgrp(0) == os.getpgrp()

    def give(self, process: int) -> None:
        if self._is_ours:
            self._given_to = process
            self._set(process)
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)  # it may have been stopped for reading too early

    def wait(self, process: subprocess.Popen[bytes]) -> int:
        """Until the command ends; when it is stopped so are we, and when we are woken so is it.

        Its exit status is left to be collected, so that what it has used can still be read.

        Returns:
            The signal that has ended it; 0 if none has.
        """
        while self._is_ours and self._is_stopped(process.pid):
            if not self._is_at_hand():  # else it wanted the terminal, which a shell has just given
                self.take()
                os.kill(os.getpid(), signal.SIGSTOP)
            if self._is_at_hand():
                self._set(process.pid)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGCONT)
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        return 0 if ended is None or ended.si_code == os.CLD_EXITED else ended.si_status

    @staticmethod
    def _is_stopped(process: int) -> bool:
        """Waits until it is stopped or has ended; which of both. Its end is left to be seen."""
        found = os.waitid(os.P_PID, process, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
        if found is None or found.si_code != os.CLD_STOPPED:
            return False
        os.waitid(os.P_PID, process, os.WSTOPPED | os.WNOHANG)
        return True

    @staticmethod
    def _is_at_hand() -> bool:
        return os.tcgetpgrp(0) == os.getpgrp()

    def take(self) -> None:
        """Back from the command; in the background the shell has it, and keeps it."""
        with suppress(OSError):  # the terminal has been closed
            if self._is_ours and os.tcgetpgrp(0) == self._given_to:
                self._set(os.getpgrp())

    @staticmethod
    def _set(group: int) -> None:
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        with suppress(OSError):
            os.tcsetpgrp(0, group)
        signal.signal(signal.SIGTTOU, before)
