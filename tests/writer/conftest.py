"""Fixtures for tests of writers: programs run as real processes, and disks that fill up."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from support.readback import PATIENCE

# Programs start with the default action, also where the tests run under nohup.
with contextlib.suppress(ValueError):  # not the main thread
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


class Program:
    """A Python program of a test's, in a process group of its own."""

    def __init__(self, path, arguments, interpreter_options, environment):
        self.errors = path.with_suffix(".stderr")
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, *interpreter_options, str(path), *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=path.parent,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
                start_new_session=True,
            )
        self.pid = self.process.pid
        self._unread = b""

    def line(self):
        """The next line the program prints."""
        deadline = time.monotonic() + PATIENCE
        while b"\n" not in self._unread:
            left = max(0, deadline - time.monotonic())
            readable, _, _ = select.select([self.process.stdout], [], [], left)
            chunk = os.read(self.process.stdout.fileno(), 65536) if readable else b""
            assert chunk, f"no line from the program: {self.stderr()}"
            self._unread += chunk
        line, self._unread = self._unread.split(b"\n", 1)
        return line.decode()

    def send(self, number):
        """Sends the program a signal."""
        os.kill(self.pid, number)

    def finish(self):
        """Waits for the end; the exit status, negative for a signal's number."""
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            pytest.fail(f"the program hangs: {self.stderr()}")

    def output(self):
        """What the program printed that no one has read as a line."""
        return (self._unread + self.process.stdout.read()).decode()

    def stderr(self):
        return self.errors.read_text(errors="replace")

    def end(self):
        """Ends the program and all it has started, however it is stuck."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)
        self.process.stdout.close()


@pytest.fixture
def start(tmp_path):
    """Starts a program; its first argument is by convention the log directory."""
    programs = []

    def start_program(code, *arguments, options=(), **environment):
        path = tmp_path / f"program{len(programs)}.py"
        path.write_text(textwrap.dedent(code))
        programs.append(Program(path, arguments, options, environment))
        return programs[-1]

    yield start_program
    for program in programs:
        program.end()


@pytest.fixture
def run(start):
    """Runs a program to its end, which must be a good one."""

    def run_program(code, *arguments, status=0, **options):
        program = start(code, *arguments, **options)
        found = program.finish()
        assert found == status, f"exit status {found}: {program.stderr()}"
        return program

    return run_program


@pytest.fixture
def logdir(tmp_path):
    return tmp_path / "run"


@pytest.fixture
def tiny_disk(tmp_path):
    """Mounts file systems of a given size; ``readback.remount`` changes them."""
    mounted = []

    def mount(size):
        directory = tmp_path / f"disk{len(mounted)}"
        directory.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tbhub-test", str(directory)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"cannot mount a file system here: {done.stderr.strip()}")
        mounted.append(directory)
        return directory

    yield mount
    for directory in mounted:
        subprocess.run(["umount", "-l", str(directory)], check=True)
