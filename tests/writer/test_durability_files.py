"""When files are opened, closed and visible."""

import os
import subprocess
import sys
import threading

import pytest

from support.readback import event_files, read_file, read_scalars, read_steps, wait_for
from tbhub import FileWriter, SummaryWriter

READ_LAST_STEP = """
import pathlib, sys
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event

for line in sys.stdin:
    (path,) = pathlib.Path(sys.argv[1]).iterdir()
    print(max(Event.FromString(data).step for data in RawEventFileLoader(str(path)).Load()),
          flush=True)
"""


def test_writers_opened_in_the_same_second_have_files_of_their_own(logdir):
    writers = [SummaryWriter(logdir) for _ in range(20)]
    for number, writer in enumerate(writers):
        writer.add_scalar("a", number, number)
    for writer in writers:
        writer.close()
    assert [read_steps(path) for path in event_files(logdir)] == [[n] for n in range(20)]


def test_a_file_begins_with_its_version_as_soon_as_it_is_open(logdir):
    writer = SummaryWriter(logdir)
    (path,) = event_files(logdir)
    assert len(read_file(path)) == 1
    writer.close()


def test_flush_makes_everything_visible_to_another_process(logdir):
    with SummaryWriter(logdir, flush_secs=600) as writer:
        writer.flush()
        with subprocess.Popen(
            [sys.executable, "-c", READ_LAST_STEP, str(logdir)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as reader:
            for step in range(1, 50):
                writer.add_scalar("a", step, step)
                writer.flush()
                reader.stdin.write("\n")
                reader.stdin.flush()
                assert reader.stdout.readline() == f"{step}\n"
            reader.stdin.close()


def test_use_after_close_opens_a_new_file(logdir):
    writer = SummaryWriter(logdir)
    for step in range(5):
        writer.add_scalar("a", step, step)
        writer.add_scalars("pair", {"left": step}, step)
        writer.close()
        writer.close()
        writer.flush()
    assert [read_steps(path) for path in event_files(logdir)] == [[n] for n in range(5)]
    assert read_steps(logdir / "pair_left", "pair") == list(range(5))


def test_every_method_may_be_the_first_after_close(logdir):
    writer = SummaryWriter(logdir)
    uses = (
        lambda: writer.add_text("text", "words"),
        lambda: writer.add_scalars_batch("batch", [1.0]),
        lambda: writer.add_scalar("double", 1.0, double_precision=True),
        lambda: writer.file_writer.add_summary(b""),
    )
    for use in uses:
        writer.close()
        use()
    writer.close()
    assert len(event_files(logdir)) == 1 + len(uses)
    for path in event_files(logdir)[1:]:
        assert len(read_file(path)) == 2


def test_close_gives_back_the_file_descriptor(logdir):
    def open_files():
        found = []
        for entry in os.scandir("/proc/self/fd"):
            try:
                found.append(os.readlink(entry.path))
            except FileNotFoundError:
                continue
        return [name for name in found if str(logdir) in name]

    writer = SummaryWriter(logdir)
    writer.add_scalars("pair", {"left": 1, "right": 2})
    writer.flush()
    assert len(open_files()) == 3
    writer.close()
    assert open_files() == []
    for _ in range(50):
        SummaryWriter(logdir)  # dropped at once
    assert open_files() == []


def test_the_context_manager_closes_also_on_an_error(logdir):
    def fail():
        with SummaryWriter(logdir, flush_secs=600) as writer:
            writer.add_scalar("a", 1, 1)
            raise KeyError("training failed")

    with pytest.raises(KeyError, match="training failed"):
        fail()
    assert read_steps(logdir) == [1]


def test_max_queue_writes_ahead_of_time(start, logdir):
    program = start(
        """
        import sys, time
        from tbhub import SummaryWriter
        writer = SummaryWriter(sys.argv[1], max_queue=10, flush_secs=600)
        for step in range(10):
            writer.add_scalar("a", step, step)
        print("logged")
        time.sleep(600)
        """,
        logdir,
    )
    program.line()
    wait_for(lambda: len(read_scalars(logdir)) == 10)


def test_write_to_disk_false_touches_nothing(run, tmp_path):
    run(
        """
        import os, sys, threading
        from tbhub import SummaryWriter

        writer = SummaryWriter(write_to_disk=False)
        threads = len(os.listdir("/proc/self/task"))
        writer.add_scalar("a", 1, 1)
        writer.add_scalar("a", 1, 1, double_precision=True)
        writer.add_scalars("pair", {"left": 1})
        writer.add_scalars_batch("batch", [1.0, 2.0])
        writer.add_text("text", "words")
        writer.add_histogram("histogram", [1.0, 2.0])
        writer.add_hparams({"lr": 1}, {"loss": 2})
        writer.add_embedding([[1.0, 2.0], [3.0, 4.0]])
        writer.add_custom_scalars_multilinechart(["a"])
        writer.file_writer.add_summary(b"")
        assert list(writer.all_writers) == [writer.logdir, writer.logdir + "/pair_left"]
        with writer.use_metadata(global_step=3):
            writer.add_scalar("a", 1)
        writer.flush()
        writer.close()
        writer.add_scalar("a", 1, 1)
        writer.close()
        assert sorted(os.listdir()) == ["program0.py", "program0.stderr"], os.listdir()
        """
    )
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("kind", [SummaryWriter, FileWriter])
def test_a_directory_that_cannot_be_made_is_told_at_once(tmp_path, kind):
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(OSError, match="file") as caught:
        kind(tmp_path / "file" / "run")
    assert isinstance(caught.value, NotADirectoryError)


def test_odd_directories(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for directory in "a b", "ü/ß", "x" * 200, "./dot", "trailing/", "100%:1":
        with SummaryWriter(directory) as writer:
            writer.add_scalar("a", 1, 1)
        assert read_steps(tmp_path / directory) == [1]


def test_a_relative_directory_stays_where_it_was(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with SummaryWriter("run") as writer:
        monkeypatch.chdir(tmp_path / "elsewhere")
        writer.add_scalar("a", 1, 1)
        writer.close()
        writer.add_scalar("a", 2, 2)
        writer.add_scalars("pair", {"left": 3}, 3)
    assert read_steps(tmp_path / "run") == [1, 2]
    assert read_steps(tmp_path / "run" / "pair_left", "pair") == [3]


def test_one_background_thread_serves_all_writers(logdir):
    before = threading.active_count()
    writers = [SummaryWriter(logdir / str(number)) for number in range(10)]
    assert threading.active_count() == before
    for writer in writers:
        writer.close()


def test_a_program_that_closes_every_descriptor(run, logdir, tmp_path):
    """As daemons do. Neither the program's own files nor the log may suffer."""
    run(
        """
        import os, sys, time
        from tbhub import SummaryWriter
        writer = SummaryWriter(sys.argv[1], flush_secs=0.1)
        writer.add_scalar("a", 1, 1)
        writer.flush()
        os.closerange(3, 100)
        files = [open(f"{sys.argv[2]}/{number}", "wb") for number in range(10)]
        writer.add_scalar("a", 2, 2)
        time.sleep(0.5)
        used = time.process_time()
        time.sleep(0.5)
        assert time.process_time() - used < 0.2
        writer.add_scalar("a", 3, 3)
        """,
        logdir,
        tmp_path,
    )
    assert [(tmp_path / str(number)).stat().st_size for number in range(10)] == [0] * 10
    assert [step for path in event_files(logdir) for step in read_steps(path)] == [1, 2, 3]
