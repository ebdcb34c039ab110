"""Signals that end a program: everything is written, and the program's own handlers stay."""

import signal
import time

import pytest

from support.readback import read_steps

LOG = """
    import os, signal, sys, time
    from tbhub import SummaryWriter

    def log(writer, start=0):
        for step in range(start, start + 1000):
            writer.add_scalar("a", step, step)
"""

BUSY = {
    "sleep": "time.sleep(600)",
    "wait for a lock": "import threading; threading.Lock().acquire() and threading.Event().wait()",
    "C call with the GIL": "sum(range(10**14))",
    "numpy": "import numpy; numpy.broadcast_to(numpy.float64(1), (10**14,)).sum()",
    "Python": "while True: pass",
    "logging": "while True: writer.add_scalar('b', 1, 1); time.sleep(0.0001)",
}


@pytest.mark.parametrize("busy", BUSY)
def test_sigterm_writes_everything_and_ends_the_program(start, logdir, busy):
    program = start(
        f"""{LOG}
    writer = SummaryWriter(sys.argv[1], flush_secs=600)
    log(writer)
    print("logged")
    {BUSY[busy]}
    """,
        logdir,
    )
    program.line()
    time.sleep(0.1)
    program.send(signal.SIGTERM)
    assert program.finish() == -signal.SIGTERM
    assert read_steps(logdir) == list(range(1000))


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGXCPU, signal.SIGINT])
def test_other_signals_that_end_a_program_write_everything(start, logdir, number):
    program = start(
        f"""{LOG}
    writer = SummaryWriter(sys.argv[1], flush_secs=600)
    log(writer)
    print("logged")
    time.sleep(600)
    """,
        logdir,
    )
    program.line()
    program.send(number)
    assert program.finish() == -number  # Python ends itself by SIGINT after KeyboardInterrupt
    assert read_steps(logdir) == list(range(1000))


@pytest.mark.parametrize("order", ["handler first", "writer first"])
def test_the_programs_own_handler_is_called_and_stays(start, logdir, order):
    handler = "signal.signal(signal.SIGTERM, on_term)"
    writer = "writer = SummaryWriter(sys.argv[1], flush_secs=600)"
    first, second = (handler, writer) if order == "handler first" else (writer, handler)
    program = start(
        f"""{LOG}
    calls = []

    def on_term(number, frame):
        calls.append(number)
        print("handled")
        if len(calls) == 2:
            sys.exit(3)

    {first}
    {second}
    log(writer)
    assert signal.getsignal(signal.SIGTERM) is on_term
    print("logged")
    while True:
        time.sleep(0.01)
        writer.add_scalar("b", 1, 1)
    """,
        logdir,
    )
    assert program.line() == "logged"
    program.send(signal.SIGTERM)
    assert program.line() == "handled"
    time.sleep(0.1)
    program.send(signal.SIGTERM)
    assert program.line() == "handled"
    assert program.finish() == 3
    assert read_steps(logdir) == list(range(1000))


def test_asyncio_handlers_work_with_a_writer_open(start, logdir):
    program = start(
        f"""{LOG}
    import asyncio

    async def main():
        writer = SummaryWriter(sys.argv[1], flush_secs=600)
        stopped = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
        log(writer)
        print("logged")
        await stopped.wait()

    asyncio.run(main())
    """,
        logdir,
    )
    program.line()
    program.send(signal.SIGTERM)
    assert program.finish() == 0
    assert read_steps(logdir) == list(range(1000))


@pytest.mark.parametrize("order", ["ignored first", "writer first"])
def test_an_ignored_signal_stays_ignored(start, logdir, order):
    ignore = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    writer = "writer = SummaryWriter(sys.argv[1])"
    first, second = (ignore, writer) if order == "ignored first" else (writer, ignore)
    program = start(
        f"""{LOG}
    {first}
    {second}
    log(writer)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.1)
    log(writer, 1000)
    """,
        logdir,
    )
    assert program.finish() == 0
    assert read_steps(logdir) == list(range(2000))


def test_a_handler_taken_back_to_the_default_still_writes_everything(start, logdir):
    # As Lightning's trainer does it: put a handler in, and back what was there before.
    program = start(
        f"""{LOG}
    writer = SummaryWriter(sys.argv[1], flush_secs=600)
    before = signal.signal(signal.SIGTERM, lambda number, frame: None)
    signal.signal(signal.SIGTERM, before)
    log(writer)
    time.sleep(0.5)  # noticed when the background thread next wakes, as it does for an event
    print("logged")
    time.sleep(600)
    """,
        logdir,
    )
    program.line()
    program.send(signal.SIGTERM)
    assert program.finish() == -signal.SIGTERM
    assert read_steps(logdir) == list(range(1000))


def test_python_sees_no_handler_of_ours(run, logdir):
    run(
        """
        import signal, sys
        before = [signal.getsignal(number) for number in signal.valid_signals()]
        from tbhub import SummaryWriter
        writer = SummaryWriter(sys.argv[1])
        writer.add_scalar("a", 0, 0)
        writer.flush()
        assert [signal.getsignal(number) for number in signal.valid_signals()] == before
        """,
        logdir,
    )


def test_a_program_started_by_ours_has_default_handlers(run, logdir):
    run(
        """
        import subprocess, sys
        from tbhub import SummaryWriter
        writer = SummaryWriter(sys.argv[1])
        for options in {}, {"preexec_fn": lambda: None}, {"close_fds": False}:
            child = subprocess.Popen(["sleep", "600"], **options)
            child.terminate()
            assert child.wait(30) == -15, options
        """,
        logdir,
    )


@pytest.mark.root
def test_sigterm_to_the_first_process_of_a_container(start, logdir):
    """Default actions do not end such a process: it goes on, and so must the writing."""
    program = start(
        """
        import os, subprocess, sys
        if os.getpid() != 1:
            unshare = ["unshare", "--pid", "--fork", "--kill-child", sys.executable, *sys.argv]
            sys.exit(subprocess.run(unshare).returncode)
        import signal, time
        from tbhub import SummaryWriter
        writer = SummaryWriter(sys.argv[1], flush_secs=0.2)
        writer.add_scalar("a", 1, 1)
        os.kill(1, signal.SIGTERM)
        time.sleep(2)
        writer.add_scalar("a", 2, 2)
        time.sleep(1)
        print(os.path.getsize(writer.file_writer.event_writer.sink.path))
        os._exit(0)
        """,
        logdir,
    )
    assert program.finish() == 0, program.stderr()
    assert read_steps(logdir) == [1, 2]


def test_sigterm_in_a_forked_child_that_logs(run, logdir):
    run(
        f"""{LOG}
    writer = SummaryWriter(sys.argv[1], flush_secs=600)
    log(writer)
    reader, ready = os.pipe()
    child = os.fork()
    if child == 0:
        log(writer, 1000)
        os.write(ready, b".")
        while True:
            time.sleep(600)
    os.read(reader, 1)
    os.kill(child, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
    silent = os.fork()  # one that has never logged, and so has no thread to write
    if silent == 0:
        while True:
            time.sleep(600)
    os.kill(silent, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(silent, 0)[1]) == -signal.SIGTERM
    """,
        logdir,
    )
    assert sorted(read_steps(logdir)) == list(range(2000))


def test_sigterm_in_a_child_that_has_only_just_been_forked(run, logdir):
    # Before the child knows that it is one, too.
    run(
        f"""{LOG}
    writer = SummaryWriter(sys.argv[1], flush_secs=600)
    log(writer)
    for _ in range(300):
        child = os.fork()
        if child == 0:
            time.sleep(600)
        os.kill(child, signal.SIGTERM)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
    """,
        logdir,
    )
    assert read_steps(logdir) == list(range(1000))
