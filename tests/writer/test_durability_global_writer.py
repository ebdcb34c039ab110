"""GlobalSummaryWriter: one series over a tree of processes."""

from support.readback import event_files, read_scalars, read_steps
from tbhub import GlobalSummaryWriter


def test_four_forked_children_count_every_step_once(run, logdir):
    run(
        """
        import multiprocessing, sys
        from tbhub import GlobalSummaryWriter

        writer = GlobalSummaryWriter(sys.argv[1])

        def work(number):
            for value in range(1000):
                writer.add_scalar("a", value)
                if value % 10 == 0:
                    writer.add_text("words", "text")

        context = multiprocessing.get_context("fork")
        children = [context.Process(target=work, args=(n,)) for n in range(4)]
        for child in children:
            child.start()
        work(4)
        for child in children:
            child.join()
            assert child.exitcode == 0
        """,
        logdir,
    )
    assert len(event_files(logdir)) == 5
    found = read_scalars(logdir)
    assert sorted(step for tag, step, _ in found if tag == "a") == list(range(5000))
    assert sorted(step for tag, step, _ in found if tag != "a") == list(range(500))
    for path in event_files(logdir):
        steps = [step for tag, step, _ in read_scalars(path) if tag == "a"]
        assert steps == sorted(steps)


def test_a_pool_as_in_the_documentation_of_tensorboardx(run, logdir):
    run(
        """
        import multiprocessing, sys
        from tbhub import GlobalSummaryWriter

        writer = GlobalSummaryWriter(sys.argv[1])

        def train(x):
            writer.add_scalar("poolmap/1", x)
            writer.add_scalar("poolmap/2", x)

        with multiprocessing.get_context("fork").Pool(4) as pool:
            pool.map(train, range(100))
        """,
        logdir,
    )
    found = read_scalars(logdir)
    for tag in "poolmap/1", "poolmap/2":
        assert sorted(step for name, step, _ in found if name == tag) == list(range(100))
        assert sorted(value for name, _, value in found if name == tag) == list(range(100))


def test_threads_count_every_step_once(run, logdir):
    run(
        """
        import sys, threading
        from tbhub import GlobalSummaryWriter

        writer = GlobalSummaryWriter(sys.argv[1])

        def work():
            for value in range(1000):
                writer.add_scalar("a", value)

        for _ in range(8):
            threading.Thread(target=work).start()
        """,
        logdir,
    )
    assert sorted(step for _, step, _ in read_scalars(logdir)) == list(range(8000))


def test_there_is_one_global_writer(run, tmp_path):
    run(
        """
        import os, threading
        from tbhub import GlobalSummaryWriter

        found = []
        together = threading.Barrier(8)

        def get():
            together.wait()
            found.append(GlobalSummaryWriter.getSummaryWriter())

        threads = [threading.Thread(target=get) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(map(id, found))) == 1
        writer = found[0]
        assert writer is GlobalSummaryWriter.getSummaryWriter()
        writer.add_scalar("a", 0)
        child = os.fork()
        if child == 0:
            assert GlobalSummaryWriter.getSummaryWriter() is writer
            writer.add_scalar("a", 1)
        else:
            os.waitpid(child, 0)
            writer.add_scalar("a", 2)
        """
    )
    (directory,) = (tmp_path / "runs").iterdir()
    assert sorted(read_steps(directory)) == [0, 1, 2]


def test_flush_close_and_use_after_close(logdir):
    writer = GlobalSummaryWriter(logdir)
    writer.add_scalar("a", 0)
    writer.flush()
    assert read_steps(logdir) == [0]
    writer.close()
    writer.add_scalar("a", 1)
    writer.close()
    assert read_steps(logdir) == [0, 1]
    assert len(event_files(logdir)) == 2
