"""Threads that share a writer."""

import threading

from support.readback import event_files, read_scalars
from tbhub import SummaryWriter

THREADS = 8
CALLS = 20_000


def in_threads(work):
    """Runs ``work(number)`` in threads that start together; the first error is raised."""
    together = threading.Barrier(THREADS)
    errors = []

    def run(number):
        together.wait()
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=[number]) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_nothing_is_lost_and_each_threads_order_is_kept(logdir):
    def log(number):
        tag = f"thread {number}"
        for step in range(CALLS):
            writer.add_scalar(tag, step, step)
            if step % 4000 == number:
                writer.flush()

    with SummaryWriter(logdir, flush_secs=0.05) as writer:
        in_threads(log)
    (path,) = event_files(logdir)
    by_tag = {}
    for tag, step, _ in read_scalars(path):
        by_tag.setdefault(tag, []).append(step)
    assert by_tag == {f"thread {n}": list(range(CALLS)) for n in range(THREADS)}


def test_threads_may_close_a_writer_that_others_use(logdir):
    def log(number):
        for step in range(300):
            writer.add_scalar(str(number), step, step)
            if step % 100 == number:
                writer.close()

    with SummaryWriter(logdir) as writer:
        in_threads(log)
    found = read_scalars(logdir)
    for number in range(THREADS):
        assert [step for tag, step, _ in found if tag == str(number)] == list(range(300))


def test_threads_may_be_the_first_to_use_the_same_sub_runs(logdir):
    def log(number):
        for step in range(100):
            writer.add_scalars("pair", {"left": number, "right": step}, step)

    with SummaryWriter(logdir) as writer:
        in_threads(log)
    for side in "left", "right":
        assert len(read_scalars(logdir / f"pair_{side}")) == 100 * THREADS


def test_many_kinds_of_events_from_many_threads_stay_whole(logdir):
    def log(number):
        for step in range(20):
            writer.add_text("text", "x" * (number * 1000), step)
            writer.add_scalars_batch("batch", [0.0] * 100)
            writer.add_histogram("histogram", [1.0, 2.0], step)

    with SummaryWriter(logdir, max_queue=3) as writer:
        in_threads(log)
    assert len(read_scalars(logdir)) == THREADS * 20 * 102
