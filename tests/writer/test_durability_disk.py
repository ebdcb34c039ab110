"""A disk that is full, gone or read-only never stops a program, and nothing is lost in silence."""

import errno
import gc
import pickle
import re
import shutil
import signal
import warnings
import weakref

import pytest
from tensorboard.compat.tensorflow_stub import pywrap_tensorflow

from support.readback import event_files, read_file, read_scalars, read_steps, remount, wait_for
from tbhub import SummaryWriter, TbhubWarning, WriteError
from tbhub._kernel import MAX_PENDING_BYTES, masked_crc32c


@pytest.fixture
def caught():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found


def texts(caught):
    assert all(each.category is TbhubWarning for each in caught)
    return [str(each.message) for each in caught]


def assert_refused(action, code):
    with pytest.raises(WriteError) as refused:
        action()
    assert refused.value.errno == code
    assert isinstance(refused.value, OSError)
    return str(refused.value)


@pytest.mark.root
def test_a_full_disk_is_warned_of_once_and_everything_arrives_when_there_is_room(tiny_disk, caught):
    disk = tiny_disk("64k")
    writer = SummaryWriter(disk / "run", flush_secs=600)
    for step in range(5000):
        writer.add_scalar("a", step, step)
    assert "5000 events" not in assert_refused(writer.flush, errno.ENOSPC)  # some have gone out
    for step in range(5000, 10_000):
        writer.add_scalar("a", step, step)
    assert_refused(writer.flush, errno.ENOSPC)
    assert_refused(writer.close, errno.ENOSPC)
    assert len(texts(caught)) == 1
    assert "run" in texts(caught)[0]
    assert "No space left on device" in texts(caught)[0]
    assert "64 MB" in texts(caught)[0]
    assert caught[0].filename == __file__  # points at the call, not into tbhub

    remount(disk, "size=16m")
    writer.close()
    (path,) = event_files(disk / "run")
    assert read_steps(path) == list(range(10_000))
    assert len(caught) == 1


@pytest.mark.root
def test_a_full_disk_is_tried_again_without_being_asked(tiny_disk, caught):
    disk = tiny_disk("64k")
    writer = SummaryWriter(disk / "run", flush_secs=0.1)
    for step in range(5000):
        writer.add_scalar("a", step, step)
    last = 5000

    def warned():
        nonlocal last
        writer.add_scalar("a", last, last)
        last += 1
        return caught

    wait_for(warned)
    remount(disk, "size=16m")
    wait_for(lambda: len(read_steps(disk / "run", cut_short=True)) == last)
    assert len(caught) == 1
    writer.close()
    assert read_steps(disk / "run") == list(range(last))


@pytest.mark.root
def test_a_writer_opened_on_a_full_disk(tiny_disk, caught):
    disk = tiny_disk("64k")
    (disk / "run").mkdir()
    with (disk / "fill").open("wb", buffering=0) as file:
        assert file.write(bytes(1 << 20)) <= 64 << 10  # all there is
    writer = SummaryWriter(disk / "run", flush_secs=600)
    for step in range(100):
        writer.add_scalar("a", step, step)
        writer.add_scalars("pair", {"left": step}, step)
    assert_refused(writer.flush, errno.ENOSPC)
    (disk / "fill").unlink()
    writer.close()
    assert read_steps(disk / "run") == list(range(100))
    assert read_steps(disk / "run" / "pair_left", "pair") == list(range(100))


@pytest.mark.root
def test_no_room_for_another_file(tiny_disk, caught):
    disk = tiny_disk("1m,nr_inodes=4")  # the root, a directory and a file; one is left
    writer = SummaryWriter(disk / "run", flush_secs=600)
    (disk / "fill").touch()
    for step in range(10):
        writer.add_scalars("pair", {"left": step}, step)
        writer.add_scalar("a", step, step)
    assert_refused(writer.flush, errno.ENOSPC)
    remount(disk, "nr_inodes=100")
    writer.close()
    assert read_steps(disk / "run") == list(range(10))
    assert read_steps(disk / "run" / "pair_left", "pair") == list(range(10))


@pytest.mark.root
def test_beyond_the_bound_events_are_dropped_counted_and_reported(tiny_disk, caught, monkeypatch):
    disk = tiny_disk("64k")
    writer = SummaryWriter(disk / "run", flush_secs=600)
    writer.add_text("text", "x" * 100_000, 0)
    assert_refused(writer.flush, errno.ENOSPC)
    text = "x" * (1 << 20)
    for step in range(1, 100):
        writer.add_text("text", text, step)
    assert len(caught) == 1
    message = assert_refused(writer.flush, errno.ENOSPC)
    (kept,) = map(int, re.findall(r"(\d+) events could not be written", message))
    (dropped,) = map(int, re.findall(r"(\d+) more were dropped", message))
    assert kept + dropped == 100
    assert abs(kept - (MAX_PENDING_BYTES >> 20)) <= 2

    remount(disk, "size=256m")
    writer.flush()
    assert len(caught) == 2
    assert f"{dropped} events" in texts(caught)[1]
    writer.add_text("text", "the end", 100)
    writer.close()
    assert len(caught) == 2  # reported once
    # TensorBoard's checksum takes a minute for so much; its reader it is all the same.
    monkeypatch.setattr(pywrap_tensorflow, "masked_crc32c", masked_crc32c)
    (path,) = event_files(disk / "run")
    assert [event.step for event in read_file(path)[1:]] == [*range(kept), 100]


@pytest.mark.root
def test_memory_is_bounded_while_the_disk_is_full(run, tiny_disk):
    disk = tiny_disk("64k")
    program = run(
        """
        import resource, sys
        import numpy
        from tbhub import SummaryWriter, WriteError

        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

        values = numpy.zeros(1_000_000)
        writer = SummaryWriter(sys.argv[1] + "/run")
        before = peak()
        for _ in range(10):  # about 400 MB
            writer.add_scalars_batch("a", values)
        print(peak() - before)
        """,
        disk,
    )
    assert int(program.output()) < 2.5 * (MAX_PENDING_BYTES >> 20)
    assert len(program.stderr().split("cannot write to")) == 2
    assert re.search(r"\d+ events could not be written", program.stderr())
    assert re.search(r"\d+ more were dropped", program.stderr())
    assert "lost with the end of this process" in program.stderr()


@pytest.mark.root
def test_sigterm_with_a_full_disk_ends_the_program(start, tiny_disk):
    disk = tiny_disk("64k")
    program = start(
        """
        import sys, time
        from tbhub import SummaryWriter
        writer = SummaryWriter(sys.argv[1] + "/run")
        for step in range(10_000):
            writer.add_scalar("a", step, step)
        print("logged")
        time.sleep(600)
        """,
        disk,
    )
    program.line()
    program.send(signal.SIGTERM)
    assert program.finish() == -signal.SIGTERM
    steps = read_steps(disk / "run", cut_short=True)
    assert steps == list(range(len(steps)))
    assert len(steps) > 500


@pytest.mark.root
def test_a_writer_dropped_while_the_disk_is_full_loses_nothing(tiny_disk, caught):
    disk = tiny_disk("64k")
    writer = SummaryWriter(disk / "run", flush_secs=0.1)
    for step in range(5000):
        writer.add_scalar("a", step, step)
    assert_refused(writer.flush, errno.ENOSPC)
    dropped = weakref.ref(writer)
    del writer
    gc.collect()
    assert dropped() is None
    remount(disk, "size=16m")
    wait_for(lambda: len(read_steps(disk / "run", cut_short=True)) == 5000)


@pytest.mark.root
def test_a_read_only_directory(tiny_disk, caught):
    disk = tiny_disk("1m")
    writer = SummaryWriter(disk / "run", flush_secs=600)
    writer.add_scalar("a", 0, 0)
    writer.close()
    remount(disk, "ro")
    for step in range(1, 10):
        writer.add_scalar("a", step, step)
        writer.add_scalars("pair", {"left": step}, step)
    assert_refused(writer.flush, errno.EROFS)
    assert_refused(writer.close, errno.EROFS)
    with pytest.raises(OSError, match="Read-only"):
        SummaryWriter(disk / "other")
    remount(disk, "rw")
    writer.close()
    assert read_steps(disk / "run") == list(range(10))
    assert read_steps(disk / "run" / "pair_left", "pair") == list(range(1, 10))


def test_a_directory_that_vanishes_is_made_again(logdir, caught):
    writer = SummaryWriter(logdir, flush_secs=600)
    for step in range(10):
        for each in range(step * 10, step * 10 + 10):
            writer.add_scalar("a", each, each)
            writer.add_scalars("pair", {"left": each}, each)
        if step == 5:
            writer.flush()
            shutil.rmtree(logdir)
    writer.close()
    assert read_steps(logdir) == list(range(60, 100))
    assert read_steps(logdir / "pair_left", "pair") == list(range(60, 100))
    assert caught == []


def test_a_directory_that_vanishes_again_and_again_while_threads_log(run, logdir):
    run(
        """
        import os, shutil, sys, threading, time
        from tbhub import SummaryWriter

        writer = SummaryWriter(sys.argv[1], flush_secs=0)
        stop = threading.Event()

        def work():
            step = 0
            while not stop.is_set():
                writer.add_scalar("a", step, step)
                step += 1
                time.sleep(0.0001)

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(50):
            shutil.rmtree(sys.argv[1], ignore_errors=True)
            time.sleep(0.005)
        stop.set()
        for thread in threads:
            thread.join()
        writer.close()
        writer.add_scalar("last", 1, 1)
        writer.close()
        """,
        logdir,
        options=["-W", "error"],
    )
    assert ("last", 1, 1.0) in read_scalars(logdir)


def replace_by_a_file(directory):
    shutil.rmtree(directory)
    directory.write_text("in the way")


def test_a_directory_replaced_by_a_file(logdir, caught):
    writer = SummaryWriter(logdir, flush_secs=600)
    writer.add_scalar("a", 0, 0)
    writer.flush()
    replace_by_a_file(logdir)
    for step in range(1, 100):
        writer.add_scalar("a", step, step)
    assert_refused(writer.flush, errno.ENOTDIR)
    writer.add_scalar("a", 100, 100)
    assert_refused(writer.close, errno.ENOTDIR)
    assert len(texts(caught)) == 1
    assert logdir.read_text() == "in the way"
    logdir.unlink()
    writer.close()
    assert read_steps(logdir) == list(range(1, 101))


@pytest.mark.parametrize(
    "use",
    [
        lambda writer: writer.add_scalars("pair", {"left": 1.0}),
        lambda writer: writer.add_hparams({"lr": 1}, {"loss": 2}, run_name="trial"),
        lambda writer: writer.add_text("text", "words"),
        lambda writer: writer.add_scalars_batch("batch", [1.0]),
    ],
    ids=["add_scalars", "add_hparams", "add_text", "add_scalars_batch"],
)
def test_no_call_raises_because_of_the_disk(logdir, caught, use):
    with SummaryWriter(logdir, flush_secs=600) as writer:
        replace_by_a_file(logdir)
        use(writer)
        logdir.unlink()
    assert logdir.is_dir()


def test_add_hparams_on_a_bad_disk_arrives_later(logdir, caught):
    with SummaryWriter(logdir, flush_secs=600) as writer:
        replace_by_a_file(logdir)
        writer.add_hparams({"lr": 1}, {"loss": 2}, run_name="trial")
        logdir.unlink()
    assert ("loss", 0, 2.0) in read_scalars(logdir / "trial")


def test_an_unpickled_writer_whose_directory_is_gone(logdir, caught):
    with SummaryWriter(logdir) as writer:
        replace_by_a_file(logdir)
        with pickle.loads(pickle.dumps(writer)) as other:
            other.add_scalar("a", 1, 1)
            logdir.unlink()
    assert read_steps(logdir) == [1]


FILE_SIZE_LIMIT = """
    import errno, resource, sys
    from tbhub import SummaryWriter, WriteError

    writer = SummaryWriter(sys.argv[1], flush_secs=600)
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, most))

    def refused(action):
        try:
            action()
        except WriteError as error:
            return error.errno == errno.EFBIG
        return False

    for step in range(2000):
        writer.add_scalar("a", step, step)
    assert refused(writer.flush)
    for step in range(2000, 4000):
        writer.add_scalar("a", step, step)
    assert refused(writer.close)
"""


@pytest.mark.parametrize("options", [[], ["-W", "error"], ["-W", "ignore"]])
def test_a_limit_of_the_file_size(run, logdir, options):
    program = run(
        f"""{FILE_SIZE_LIMIT}
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    """,
        logdir,
        options=options,
    )
    (path,) = event_files(logdir)
    assert read_steps(path) == list(range(4000))
    told = 0 if "ignore" in options else 1
    assert program.stderr().count("cannot write to") == told


def test_what_cannot_be_written_at_the_end_is_told(run, logdir):
    program = run(FILE_SIZE_LIMIT, logdir)
    steps = read_steps(logdir, cut_short=True)
    assert steps == list(range(len(steps)))
    (lost,) = map(int, re.findall(r"(\d+) events could not be written", program.stderr()))
    assert len(steps) + lost == 4000
    assert "Traceback" not in program.stderr()


def test_two_episodes_of_trouble_are_two_warnings(logdir, caught):
    writer = SummaryWriter(logdir, flush_secs=600)
    for episode in range(2):
        replace_by_a_file(logdir)
        writer.add_scalar("a", episode, episode)
        assert_refused(writer.flush, errno.ENOTDIR)
        for _ in range(10):
            writer.add_scalar("b", 1, 1)
        assert len(caught) == episode + 1
        logdir.unlink()
        writer.flush()
    writer.close()


def test_each_writer_in_trouble_is_warned_of_and_the_others_go_on(tmp_path, caught):
    bad = SummaryWriter(tmp_path / "bad", flush_secs=600)
    good = SummaryWriter(tmp_path / "good", flush_secs=600)
    bad.add_scalars("pair", {"left": 1, "right": 2})
    replace_by_a_file(tmp_path / "bad")
    for step in range(10):
        bad.add_scalars("pair", {"left": step, "right": step})
        good.add_scalar("a", step, step)
    assert_refused(bad.flush, errno.ENOTDIR)
    good.close()
    assert read_steps(tmp_path / "good") == list(range(10))
    (tmp_path / "bad").unlink()
    bad.close()
    assert len(read_scalars(tmp_path / "bad" / "pair_right")) == 11
