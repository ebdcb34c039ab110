"""Writers into registered factories: the same promises as for files."""

import errno
import gc
import io
import threading
import uuid
import weakref

import pytest

from support.readback import read_file, read_steps, wait_for
from tbhub import SummaryWriter, TbhubWarning, WriteError, register_writer_factory
from tbhub.writer.record_writer import _factories


class Folder:
    """A factory that keeps each stream in a file below a directory."""

    def __init__(self, root):
        self.root = root
        self.checked = []
        self.streams = []

    def directory_check(self, path):
        self.checked.append(path)

    def open(self, path):
        local = self.root / path.partition("://")[2]
        local.parent.mkdir(parents=True, exist_ok=True)
        self.streams.append(Stream(local))
        return self.streams[-1]


class Stream:
    def __init__(self, path):
        self.file = path.open("xb")
        self.closed = False

    def write(self, data):
        self.file.write(data)

    def flush(self):
        self.file.flush()

    def close(self):
        self.file.close()
        self.closed = True


class Refusing(Folder):
    """Refuses what is named, until told otherwise: "open", "write", "flush" or "close"."""

    def __init__(self, root, *refused):
        super().__init__(root)
        self.refused = set(refused)

    def check(self, what):
        if what in self.refused:
            raise PermissionError(errno.EACCES, "the bucket is locked")

    def open(self, path):
        self.check("open")
        stream = super().open(path)
        for name in "write", "flush", "close":
            setattr(stream, name, self.guarded(name, getattr(stream, name)))
        return stream

    def guarded(self, name, action):
        def act(*arguments):
            self.check(name)
            action(*arguments)

        return act


@pytest.fixture
def prefix():
    name = f"memory{uuid.uuid4().hex}"
    yield name
    del _factories[name]


def test_events_arrive_in_time_at_flush_and_at_close(tmp_path, prefix):
    folder = Folder(tmp_path)
    register_writer_factory(prefix, folder)
    writer = SummaryWriter(f"{prefix}://bucket/run", flush_secs=0.1)
    writer.add_scalar("a", 0, 0)
    wait_for(lambda: read_steps(tmp_path / "bucket/run", cut_short=True) == [0])
    writer.add_scalar("a", 1, 1)
    writer.add_scalars_batch("a", [2.0, 3.0], [2, 3])
    writer.flush()
    assert read_steps(tmp_path / "bucket/run") == [0, 1, 2, 3]
    writer.add_text("text", "words", 4)
    writer.close()
    (stream,) = folder.streams
    assert stream.closed
    assert read_file(stream.file.name)[-1].step == 4
    assert folder.checked == [f"{prefix}://bucket/run"]


def test_use_after_close_is_written_in_time_to_a_new_stream(tmp_path, prefix):
    folder = Folder(tmp_path)
    register_writer_factory(prefix, folder)
    writer = SummaryWriter(f"{prefix}://run", flush_secs=0.1)
    writer.close()
    writer.close()
    assert len(folder.streams) == 1
    writer.add_scalar("a", 1, 1)
    wait_for(lambda: read_steps(tmp_path / "run", cut_short=True) == [1])
    writer.close()
    assert len(folder.streams) == 2
    assert all(stream.closed for stream in folder.streams)


@pytest.mark.parametrize("refused", ["write", "flush"])
def test_what_a_stream_refuses_is_kept_and_tried_again(tmp_path, prefix, refused):
    factory = Refusing(tmp_path)
    register_writer_factory(prefix, factory)
    writer = SummaryWriter(f"{prefix}://run", flush_secs=600)
    factory.refused = {refused}
    for step in range(100):
        writer.add_scalar("a", step, step)
    with pytest.raises(WriteError, match="Permission denied") as caught:
        writer.flush()
    assert caught.value.errno == errno.EACCES
    if refused == "write":
        assert "100 events" in str(caught.value)

    def log_on():
        for step in range(100, 200):
            writer.add_scalar("a", step, step)
            writer.add_text("text", "words")

    with pytest.warns(TbhubWarning, match="the bucket is locked") as warned:
        log_on()
    assert len(warned) == 1
    with pytest.raises(WriteError):
        writer.close()
    factory.refused = set()
    writer.close()
    assert read_steps(tmp_path / "run") == list(range(200))


def test_a_refused_flush_is_not_forgotten(tmp_path, prefix):
    factory = Refusing(tmp_path, "flush")
    register_writer_factory(prefix, factory)
    writer = SummaryWriter(f"{prefix}://run", flush_secs=600)
    for _ in range(3):
        with pytest.raises(WriteError):
            writer.flush()
    factory.refused = set()
    writer.close()


def test_a_refused_close_can_be_repeated(tmp_path, prefix):
    factory = Refusing(tmp_path, "close")
    register_writer_factory(prefix, factory)
    writer = SummaryWriter(f"{prefix}://run", flush_secs=600)
    with pytest.raises(WriteError):
        writer.close()
    factory.refused = set()
    writer.close()
    assert factory.streams[0].closed


def test_a_factory_that_cannot_open_is_told_at_once_but_not_later(tmp_path, prefix):
    factory = Refusing(tmp_path, "open")
    register_writer_factory(prefix, factory)
    with pytest.raises(PermissionError):
        SummaryWriter(f"{prefix}://run")
    factory.refused = set()
    writer = SummaryWriter(f"{prefix}://run", flush_secs=600)
    writer.close()
    factory.refused = {"open"}
    for step in range(10):
        writer.add_scalar("a", step, step)
        writer.add_scalars("pair", {"left": step}, step)
    with pytest.raises(WriteError):
        writer.flush()
    factory.refused = set()
    writer.close()
    assert read_steps(tmp_path / "run") == list(range(10))
    assert read_steps(tmp_path / "run" / "pair_left", "pair") == list(range(10))


def test_too_much_is_dropped_whole_counted_and_reported(tmp_path, prefix):
    factory = Refusing(tmp_path)
    register_writer_factory(prefix, factory)
    writer = SummaryWriter(f"{prefix}://run", flush_secs=600)
    factory.refused = {"write"}
    writer.add_scalar("a", 0, 0)
    with pytest.raises(WriteError):
        writer.flush()
    with pytest.warns(TbhubWarning, match="locked"):
        writer.add_scalars_batch("b", [0.0] * 3_000_000)
    with pytest.raises(WriteError, match=r"\d+ more were dropped"):
        writer.flush()
    factory.refused = set()
    with pytest.warns(TbhubWarning, match=r"\d+ events .* were dropped"):
        writer.flush()
    writer.close()
    (stream,) = factory.streams
    from tbhub._kernel import inspect

    found = inspect(stream.file.name)
    assert found["damages"] == []
    assert 1_000_000 < found["good_events"] < 3_000_000


def test_a_dropped_writer_is_closed_and_its_thread_ends(tmp_path, prefix):
    folder = Folder(tmp_path)
    register_writer_factory(prefix, folder)
    before = threading.active_count()
    writer = SummaryWriter(f"{prefix}://run", flush_secs=0.05)
    writer.add_scalar("a", 1, 1)
    dropped = weakref.ref(writer)
    del writer
    gc.collect()
    assert dropped() is None
    assert read_steps(tmp_path / "run") == [1]
    wait_for(lambda: threading.active_count() == before)


def test_a_stream_of_the_standard_library(prefix):
    class Memory:
        def __init__(self):
            self.stream = io.BytesIO()

        def directory_check(self, path):
            pass

        def open(self, path):
            return self.stream

    factory = Memory()
    register_writer_factory(prefix, factory)
    writer = SummaryWriter(f"{prefix}://run")
    writer.add_scalar("a", 1, 1)
    writer.flush()
    assert b"brain.Event:2" in factory.stream.getvalue()
    writer.close()


FACTORY = """
    import multiprocessing, os, pathlib, sys, threading, time
    from tbhub import SummaryWriter, register_writer_factory

    class Folder:
        def directory_check(self, path):
            pass

        def open(self, path):
            local = pathlib.Path(sys.argv[1] + "/" + path.partition("://")[2])
            local.parent.mkdir(parents=True, exist_ok=True)
            return local.open("xb")  # with a buffer

    register_writer_factory("folder", Folder())

    def log(writer, start, count=100):
        for step in range(start, start + count):
            writer.add_scalar("a", step, step)
"""


@pytest.mark.parametrize("ending", ["", "sys.exit(0)", "threading.Thread(target=sys.exit).start()"])
def test_nothing_is_lost_at_exit(run, tmp_path, ending):
    run(
        f"""{FACTORY}
    writer = SummaryWriter("folder://run", flush_secs=600)
    log(writer, 0)
    {ending}
    """,
        tmp_path,
    )
    assert read_steps(tmp_path / "run") == list(range(100))


def test_parent_and_child_have_streams_of_their_own(run, tmp_path):
    run(
        f"""{FACTORY}
    writer = SummaryWriter("folder://run", flush_secs=600)
    log(writer, 0)
    child = os.fork()
    log(writer, 100 if child else 200)
    if child:
        assert os.waitpid(child, 0)[1] == 0
    """,
        tmp_path,
    )
    assert sorted(read_steps(tmp_path / "run")) == list(range(300))
    assert len(list((tmp_path / "run").iterdir())) == 2


def test_children_of_multiprocessing(run, tmp_path):
    run(
        f"""{FACTORY}
    writer = SummaryWriter("folder://run", flush_secs=600)
    log(writer, 0)
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=log, args=(writer, n * 100)) for n in (1, 2, 3)]
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0
    """,
        tmp_path,
    )
    assert sorted(read_steps(tmp_path / "run")) == list(range(400))


def test_forks_while_threads_log(run, tmp_path):
    run(
        f"""{FACTORY}
    import numpy
    values = numpy.zeros(20)
    writer = SummaryWriter("folder://run", flush_secs=0)
    stop = threading.Event()

    def work():
        while not stop.is_set():
            writer.add_scalars_batch("load", values)
            writer.flush()
            time.sleep(0.0005)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(20):
        child = os.fork()
        if not child:
            log(writer, number * 10, 10)
            writer.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    stop.set()
    """,
        tmp_path,
    )
    assert sorted(read_steps(tmp_path / "run")) == list(range(200))
