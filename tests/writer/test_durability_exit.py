"""Every way a program can end without closing its writer: nothing that was logged is missing."""

import pytest

from support.readback import event_files, read_scalars, read_steps

LOG = """
    import atexit, os, sys, threading, time
    from tbhub import SummaryWriter

    writer = SummaryWriter(sys.argv[1], flush_secs=600)

    def log(start=0, tag="a"):
        for step in range(start, start + 1000):
            writer.add_scalar(tag, step, step)

    log()
"""

ENDINGS = {
    "the last line": ("pass", 0),
    "sys.exit": ("sys.exit(3)", 3),
    "an exception": ("raise RuntimeError('training failed')", 1),
    "KeyboardInterrupt": ("raise KeyboardInterrupt", -2),
    "sys.exit in a thread": ("threading.Thread(target=sys.exit).start()", 0),
    "a thread that lives on": ("threading.Timer(0.3, log, [0, 'b']).start()", 0),
    "os._exit after flush": ("writer.flush(); os._exit(4)", 4),
    "execv after flush": ("writer.flush(); os.execv('/bin/true', ['true'])", 0),
    "a writer that was dropped": ("del writer; import gc; gc.collect(); os._exit(0)", 0),
    "a recursion that is too deep": ("f = lambda: f(); f()", 1),
    "a failing atexit": ("atexit.register(lambda: 1 / 0)", 0),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_nothing_is_lost_however_a_program_ends(run, logdir, ending):
    code, status = ENDINGS[ending]
    run(f"{LOG}\n    {code}\n", logdir, status=status)
    assert read_steps(logdir) == list(range(1000))
    if ending == "a thread that lives on":
        assert read_steps(logdir, "b") == list(range(1000))


def test_atexit_functions_registered_before_and_after_ours_may_log(run, logdir):
    run(
        f"""
    import atexit
    atexit.register(lambda: log(0, "before"))  # runs after tbhub's own
    {LOG}
    atexit.register(lambda: log(0, "after"))
    """,
        logdir,
    )
    for tag in "a", "before", "after":
        assert read_steps(logdir, tag) == list(range(1000))


def test_objects_may_log_while_the_interpreter_takes_them_down(run, logdir):
    run(
        f"""{LOG}
    class Model:
        def __del__(self):
            writer.add_scalar("deleted", 1, 1)

    model = Model()
    """,
        logdir,
    )
    assert ("deleted", 1, 1.0) in read_scalars(logdir)


def test_daemon_threads_that_log_at_shutdown(run, logdir):
    program = run(
        f"""{LOG}
    counts = [0] * 3

    def work(number):
        while True:
            writer.add_scalar(str(number), counts[number], counts[number])
            counts[number] += 1
            time.sleep(0)

    for number in range(3):
        threading.Thread(target=work, args=[number], daemon=True).start()
    while min(counts) < 1000:
        time.sleep(0.001)
    print(*counts)
    """,
        logdir,
    )
    counts = list(map(int, program.output().split()))
    assert read_steps(logdir) == list(range(1000))
    for number, count in enumerate(counts):
        steps = read_steps(logdir, str(number))
        assert steps == list(range(len(steps)))
        assert len(steps) >= count


# What gives up the interpreter's lock and wants it back while the interpreter goes down.
AT_SHUTDOWN = {
    "flush": "writer.flush()",
    "batches": "writer.add_scalars_batch('batch', values); time.sleep(0.001)",
    "opening": "SummaryWriter(sys.argv[1] + '/more').add_scalar('b', 1, 1)",
    "reopening": "writer.add_scalar('b', 1, 1); writer.close()",
    "trouble": "troubled.add_scalar('b', 1, 1)",
}


@pytest.mark.parametrize("action", AT_SHUTDOWN)
def test_daemon_threads_busy_in_a_writer_do_not_crash_the_shutdown(start, logdir, action):
    programs = [
        start(
            f"""{LOG}
    import numpy
    values = numpy.zeros(50)
    troubled = SummaryWriter(sys.argv[1] + "/gone")
    import shutil; shutil.rmtree(sys.argv[1] + "/gone"); open(sys.argv[1] + "/gone", "w").close()

    def work():
        while True:
            {AT_SHUTDOWN[action]}

    for _ in range(3):
        threading.Thread(target=work, daemon=True).start()
    time.sleep(0.05)
    """,
            logdir / str(number),
            PYTHONWARNINGS="ignore",
        )
        for number in range(4)
    ]
    for number, program in enumerate(programs):
        assert program.finish() == 0, program.stderr()
        paths = event_files(logdir / str(number))
        assert read_steps(paths[0])[:1000] == list(range(1000))
