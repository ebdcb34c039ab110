"""Forked and spawned processes: each writes its own file, nothing is lost or written twice."""

import pytest

from support.readback import event_files, read_file, read_scalars, read_steps

LOG = """
    import os, sys, threading, time, warnings
    import multiprocessing
    from tbhub import FileWriter, SummaryWriter

    def log(writer, start, count=1000, tag="a"):
        for step in range(start, start + count):
            writer.add_scalar(tag, step, step)

    def wait_for(child):
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


def test_parent_and_child_write_on_and_what_waited_is_written_once(run, logdir):
    run(
        f"""{LOG}
    writer = SummaryWriter(sys.argv[1], flush_secs=600)
    log(writer, 0)
    child = os.fork()
    log(writer, 1000 if child else 2000)
    if child:
        wait_for(child)
    """,
        logdir,
    )
    parent, child = sorted(event_files(logdir), key=lambda path: -len(read_steps(path)))
    assert read_steps(parent) == list(range(2000))
    assert read_steps(child) == list(range(2000, 3000))


def test_a_child_that_does_not_log_leaves_no_file(run, logdir):
    run(
        f"""{LOG}
    writer = SummaryWriter(sys.argv[1], flush_secs=600)
    log(writer, 0)
    child = os.fork()
    if child:
        wait_for(child)
    else:
        writer.flush()
        writer.close()
    """,
        logdir,
    )
    (path,) = event_files(logdir)
    assert read_steps(path) == list(range(1000))


def test_generations_of_forks_and_sub_runs(run, logdir):
    run(
        f"""{LOG}
    writer = SummaryWriter(sys.argv[1], flush_secs=600)
    for generation in range(4):
        log(writer, generation * 100, 100)
        writer.add_scalars("pair", {{"left": generation}}, generation)
        child = os.fork()
        if child:
            wait_for(child)
            break
    """,
        logdir,
    )
    assert len(event_files(logdir)) == 4
    assert sorted(read_steps(logdir)) == list(range(400))
    assert sorted(read_steps(logdir / "pair_left", "pair")) == list(range(4))


def test_a_writer_is_flushed_in_time_in_a_child(run, logdir):
    run(
        f"""{LOG}
    writer = SummaryWriter(sys.argv[1], flush_secs=0.05)
    child = os.fork()
    if not child:
        log(writer, 0)
        time.sleep(1)
        os._exit(0)  # nothing but the background thread has written
    wait_for(child)
    """,
        logdir,
    )
    assert read_steps(logdir) == list(range(1000))


@pytest.mark.parametrize("load", ["scalars", "batches", "flushes", "openings"])
def test_forks_while_other_threads_log_at_full_speed(run, logdir, load):
    loads = {
        "scalars": "writer.add_scalar('load', 1, 1)",
        "batches": "writer.add_scalars_batch('load', values)",
        "flushes": "writer.add_scalar('load', 1, 1); writer.flush()",
        "openings": "SummaryWriter(sys.argv[1] + '/more').add_scalar('load', 1, 1)",
    }
    run(
        f"""{LOG}
    import numpy
    values = numpy.zeros(10)
    writer = SummaryWriter(sys.argv[1], flush_secs=0.01)
    stop = threading.Event()

    def work():
        while not stop.is_set():
            {loads[load]}
            time.sleep(0.0002)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(20):
        child = os.fork()
        if not child:
            log(writer, number * 10, 10)
            writer.flush()
            os._exit(0)
        wait_for(child)
    stop.set()
    """,
        logdir,
    )
    assert sorted(read_steps(logdir)) == list(range(200))
    for path in logdir.rglob("*tfevents*"):
        read_file(path)


METHODS = ["fork", "forkserver", "spawn"]

WORK = f"""{LOG}
    def work(writer, number):
        log(writer, number * 100, 100)

    def work_in_file_writer(writer, number):
        from tbhub.events.schema import Event
        for step in range(number * 100, number * 100 + 100):
            writer.add_event(Event(), step)

    def work_in_inherited(number):
        log(inherited, number * 100, 100)

    def first_use(logdir, number):
        log(SummaryWriter(logdir, flush_secs=600), number * 100, 100)
"""


@pytest.mark.parametrize("method", METHODS)
def test_processes_log_through_a_writer_they_are_given(run, logdir, method):
    run(
        f"""{WORK}
    if __name__ == "__main__":
        context = multiprocessing.get_context("{method}")
        writer = SummaryWriter(sys.argv[1], flush_secs=600)
        log(writer, 300, 100)
        children = [context.Process(target=work, args=(writer, n)) for n in range(3)]
        for child in children:
            child.start()
        for child in children:
            child.join()
            assert child.exitcode == 0
        log(writer, 400, 100)
    """,
        logdir,
    )
    assert len(event_files(logdir)) == 4
    assert sorted(read_steps(logdir)) == list(range(500))


@pytest.mark.parametrize("method", METHODS)
def test_processes_log_through_a_file_writer(run, logdir, method):
    run(
        f"""{WORK}
    if __name__ == "__main__":
        context = multiprocessing.get_context("{method}")
        writer = FileWriter(sys.argv[1], flush_secs=600)
        children = [context.Process(target=work_in_file_writer, args=(writer, n)) for n in (0, 1)]
        for child in children:
            child.start()
        work_in_file_writer(writer, 2)
        for child in children:
            child.join()
            assert child.exitcode == 0
    """,
        logdir,
    )
    steps = [event.step for path in event_files(logdir) for event in read_file(path)[1:]]
    assert sorted(steps) == list(range(300))


@pytest.mark.parametrize("method", METHODS)
def test_processes_that_open_the_first_writer_themselves(run, logdir, method):
    run(
        f"""{WORK}
    if __name__ == "__main__":
        context = multiprocessing.get_context("{method}")
        child = context.Process(target=first_use, args=(sys.argv[1], 0))
        child.start()
        child.join()
        assert child.exitcode == 0
    """,
        logdir,
    )
    assert read_steps(logdir) == list(range(100))


@pytest.mark.parametrize("ending", ["raise ValueError", "sys.exit(3)", "sys.exit(0)"])
def test_a_process_that_fails_has_still_logged(run, logdir, ending):
    run(
        f"""{LOG}
    def fail():
        log(writer, 0)
        {ending}

    writer = SummaryWriter(sys.argv[1], flush_secs=600)
    child = multiprocessing.get_context("fork").Process(target=fail)
    child.start()
    child.join()
    """,
        logdir,
    )
    assert read_steps(logdir) == list(range(1000))


def test_a_process_of_a_process(run, logdir):
    run(
        f"""{LOG}
    context = multiprocessing.get_context("fork")

    def descend(depth):
        log(writer, depth * 100, 100)
        if depth < 3:
            child = context.Process(target=descend, args=(depth + 1,))
            child.start()
            child.join()

    writer = SummaryWriter(sys.argv[1], flush_secs=600)
    descend(0)
    """,
        logdir,
    )
    assert sorted(read_steps(logdir)) == list(range(400))


def test_a_thread_that_outlives_the_function_of_its_process(run, logdir):
    run(
        f"""{LOG}
    def work():
        log(writer, 0)
        threading.Timer(0.3, log, (writer, 1000)).start()

    writer = SummaryWriter(sys.argv[1], flush_secs=600)
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join()
    """,
        logdir,
    )
    assert read_steps(logdir) == list(range(2000))


def test_multiprocessing_imported_after_the_writer_was_opened(run, logdir):
    run(
        """
        import sys
        from tbhub import SummaryWriter
        writer = SummaryWriter(sys.argv[1], flush_secs=600)
        assert "multiprocessing" not in sys.modules

        def work():
            for step in range(1000):
                writer.add_scalar("a", step, step)

        import multiprocessing
        child = multiprocessing.get_context("fork").Process(target=work)
        child.start()
        child.join()
        """,
        logdir,
    )
    assert read_steps(logdir) == list(range(1000))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("ending", ["close", "terminate"])
def test_pools(run, logdir, method, ending):
    # Leaving ``with Pool()`` is terminate(), which sends SIGTERM.
    run(
        f"""{WORK}
    def start_worker(logdir):
        global inherited
        inherited = SummaryWriter(logdir, flush_secs=600)

    if __name__ == "__main__":
        context = multiprocessing.get_context("{method}")
        pool = context.Pool(2, start_worker, (sys.argv[1],))
        pool.map(work_in_inherited, range(20), chunksize=1)
        pool.{ending}()
        pool.join()
    """,
        logdir,
    )
    # A worker may be terminated while it opens its file, which stays empty.
    steps = read_steps(logdir, cut_short=ending == "terminate")
    assert sorted(steps) == list(range(2000))


def test_a_forked_pool_with_an_inherited_writer(run, logdir):
    run(
        f"""{WORK}
    inherited = SummaryWriter(sys.argv[1], flush_secs=600)
    log(inherited, 2000, 100)
    with multiprocessing.get_context("fork").Pool(4) as pool:
        pool.map(work_in_inherited, range(20), chunksize=1)
    """,
        logdir,
    )
    assert sorted(read_steps(logdir)) == list(range(2100))


def test_an_executor_with_an_inherited_writer(run, logdir):
    run(
        f"""{WORK}
    from concurrent.futures import ProcessPoolExecutor
    inherited = SummaryWriter(sys.argv[1], flush_secs=600)
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(2, context) as pool:
        list(pool.map(work_in_inherited, range(20)))
    """,
        logdir,
    )
    assert sorted(read_steps(logdir)) == list(range(2000))


def test_a_child_has_warnings_and_counts_of_its_own(run, logdir):
    run(
        f"""{LOG}
    import shutil
    warnings.simplefilter("always")
    writer = SummaryWriter(sys.argv[1] + "/gone", flush_secs=600)
    shutil.rmtree(sys.argv[1])
    open(sys.argv[1], "w").close()

    def warned():
        log(writer, 0, 10)
        try:
            writer.flush()
        except OSError:
            pass
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            log(writer, 10, 10)
        return len(caught)

    assert warned() == 1
    child = os.fork()
    if not child:
        os._exit(warned() != 1)
    wait_for(child)
    os.remove(sys.argv[1])
    """,
        logdir,
    )
    assert read_scalars(logdir / "gone") == [("a", step, step) for step in range(20)]
