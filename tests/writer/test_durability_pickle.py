"""Writers that are pickled and copied go on in the same directory, in files of their own."""

import copy
import pickle

import pytest
from tensorboard.compat.proto.event_pb2 import Event

from support.readback import event_files, read_file, read_scalars, read_steps
from tbhub import FileWriter, GlobalSummaryWriter, SummaryWriter, TbhubWarning

DUPLICATES = {
    "pickle": lambda writer: pickle.loads(pickle.dumps(writer)),
    "oldest protocol": lambda writer: pickle.loads(pickle.dumps(writer, 2)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.fixture(params=DUPLICATES)
def duplicate(request):
    return DUPLICATES[request.param]


def test_a_duplicate_writes_its_own_file_and_nothing_twice(logdir, duplicate):
    with SummaryWriter(logdir, flush_secs=600, filename_suffix=".end") as writer:
        for step in range(100):
            writer.add_scalar("a", step, step)
        with duplicate(writer) as other:
            for step in range(100, 200):
                other.add_scalar("a", step, step)
        writer.add_scalar("a", 200, 200)
    paths = event_files(logdir)
    assert len(paths) == 2
    assert all(path.name.endswith(".end") for path in paths)
    assert sorted(read_steps(logdir)) == list(range(201))


def test_a_duplicate_keeps_the_settings(logdir, duplicate):
    with SummaryWriter(
        logdir, max_queue=5, flush_secs=7, filename_suffix=".end", purge_step=3
    ) as writer:
        other = duplicate(writer)
    for name in "logdir", "log_dir", "max_queue", "flush_secs", "filename_suffix", "purge_step":
        assert getattr(other, name) == getattr(writer, name)


def test_a_duplicate_does_not_purge_again(logdir, duplicate):
    with SummaryWriter(logdir, purge_step=3) as writer, duplicate(writer) as other:
        other.add_scalar("a", 5, 5)
    original, duplicated = event_files(logdir)
    assert len(read_scalars(duplicated)) == 1
    assert [event.session_log.status for event in read_file(original)[1:]] == [1]
    assert not any(event.HasField("session_log") for event in read_file(duplicated))


def test_an_unused_duplicate_leaves_no_file(logdir, duplicate):
    with SummaryWriter(logdir) as writer:
        writer.add_scalars("pair", {"left": 1}, 1)
        writer.flush()
        other = duplicate(writer)
        other.flush()
        other.close()
        del other
        assert len(list(logdir.rglob("*tfevents*"))) == 2


def test_a_duplicate_made_inside_a_container_and_after_close(logdir):
    writer = SummaryWriter(logdir)
    writer.close()
    state = pickle.dumps({"logger": [writer], "step": 3})
    other = pickle.loads(state)["logger"][0]
    other.add_scalar("a", 1, 1)
    other.close()
    assert read_steps(logdir) == [1]


def test_write_to_disk_false_survives(logdir, duplicate):
    other = duplicate(SummaryWriter(logdir, write_to_disk=False))
    other.add_scalar("a", 1, 1)
    other.add_text("b", "text")
    other.close()
    assert not logdir.exists()


@pytest.mark.parametrize("name", [name for name in DUPLICATES if name != "copy"])
def test_a_file_writer_duplicates(logdir, name):
    writer = FileWriter(logdir, flush_secs=600, filename_suffix=".end")
    writer.add_event(Event(step=1))
    other = DUPLICATES[name](writer)
    assert other.get_logdir() == str(logdir)
    assert len(event_files(logdir)) == 1
    other.add_event(Event(step=2))
    other.close()
    writer.close()
    assert len(event_files(logdir)) == 2
    steps = [event.step for path in event_files(logdir) for event in read_file(path)[1:]]
    assert sorted(steps) == [1, 2]


def test_a_global_writer_pickles(logdir):
    writer = GlobalSummaryWriter(logdir)
    other = pickle.loads(pickle.dumps(writer))
    writer.add_scalar("a", 0)
    other.add_scalar("a", 1)
    writer.close()
    other.close()
    assert sorted(step for path in event_files(logdir) for step in read_steps(path)) == [0, 1]


def test_a_global_writer_in_spawned_processes(run, logdir):
    run(
        """
        import multiprocessing, sys
        from tbhub import GlobalSummaryWriter

        def work(writer):
            for number in range(100):
                writer.add_scalar("a", number)

        if __name__ == "__main__":
            context = multiprocessing.get_context("spawn")
            writer = GlobalSummaryWriter(sys.argv[1])
            children = [context.Process(target=work, args=(writer,)) for _ in range(2)]
            for child in children:
                child.start()
            for child in children:
                child.join()
                assert child.exitcode == 0
            work(writer)
        """,
        logdir,
    )
    steps = [step for path in event_files(logdir) for _, step, _ in read_scalars(path)]
    assert sorted(steps) == list(range(300))


def test_a_global_writer_whose_first_process_has_ended(logdir):
    writer = GlobalSummaryWriter(logdir)
    state = {**writer.__getstate__(), "counters": "/proc/1/fd/999999"}
    orphan = GlobalSummaryWriter.__new__(GlobalSummaryWriter)
    with pytest.warns(TbhubWarning, match="steps start at 0 again"):
        orphan.__setstate__(state)
    orphan.add_scalar("a", 1)
    orphan.close()
    writer.close()
