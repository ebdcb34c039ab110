"""A writer whose process is killed: what is older than flush_secs is on the disk, and whole."""

import mmap
import random
import struct
import time

import pytest

from support.readback import event_files, read_file, read_steps

LOG_AND_WAIT = """
    import sys, time
    from tbhub import SummaryWriter

    keywords = {"flush_secs": float(sys.argv[2])} if len(sys.argv) > 2 else {}
    writer = SummaryWriter(sys.argv[1], **keywords)
    for step in range(1000):
        writer.add_scalar("a", step, step)
    writer.add_text("words", "and a text", 7)
    writer.add_scalars("pair", {"left": 1.0, "right": 2.0}, 3)
    print("logged")
    time.sleep(600)
"""


@pytest.mark.parametrize("flush_secs", [None, 0.2, 0])
def test_what_is_older_than_flush_secs_survives_kill_9(start, logdir, flush_secs):
    program = start(LOG_AND_WAIT, logdir, *([] if flush_secs is None else [flush_secs]))
    program.line()
    time.sleep((2 if flush_secs is None else flush_secs) + 1)
    program.process.kill()
    program.finish()
    assert read_steps(logdir) == list(range(1000))
    (main,) = event_files(logdir)
    assert read_file(main)[-1].summary.value[0].tag == "words/text_summary"
    for name, value in ("left", 1.0), ("right", 2.0):
        (sub,) = event_files(logdir / f"pair_{name}")
        assert [v.simple_value for e in read_file(sub) for v in e.summary.value] == [value]


def test_a_long_flush_secs_is_honoured(start, logdir):
    program = start(LOG_AND_WAIT, logdir, 600)
    program.line()
    time.sleep(3)
    assert read_steps(logdir) == []
    program.process.kill()


# Tells the test how far it has come through shared memory, which outlives a kill.
LOG_UNTIL_KILLED = """
    import mmap, struct, sys, time
    from tbhub import SummaryWriter

    with open(sys.argv[2], "r+b") as file:
        progress = mmap.mmap(file.fileno(), 8)
    pause = float(sys.argv[3])
    writer = SummaryWriter(sys.argv[1], flush_secs=0.2)
    print("ready")
    step = 0
    while True:
        for _ in range(20):
            writer.add_scalar("a", float(step), step)
            step += 1
        progress[:] = struct.pack("<q", step)
        if pause:
            time.sleep(pause)
"""


@pytest.mark.parametrize("seed", range(3))
def test_kill_9_at_any_moment_loses_only_the_newest(start, tmp_path, logdir, seed):
    memory = tmp_path / "progress"
    memory.write_bytes(bytes(8))
    program = start(LOG_UNTIL_KILLED, logdir, memory, 0.002)
    program.line()
    with memory.open("r+b") as file, mmap.mmap(file.fileno(), 8) as progress:
        time.sleep(random.Random(seed).uniform(0.05, 0.4))
        (logged_before,) = struct.unpack("<q", progress[:])
        time.sleep(0.2 + 1)  # flush_secs and some slack
    program.process.kill()
    program.finish()
    steps = read_steps(logdir, cut_short=True)
    assert steps == list(range(len(steps)))
    assert len(steps) >= logged_before > 0


@pytest.mark.parametrize("seed", range(3))
def test_kill_9_at_full_speed_leaves_a_readable_file(start, tmp_path, logdir, seed):
    memory = tmp_path / "progress"
    memory.write_bytes(bytes(8))
    program = start(LOG_UNTIL_KILLED, logdir, memory, 0)
    program.line()
    time.sleep(random.Random(seed).uniform(0, 0.03))
    program.process.kill()
    program.finish()
    steps = read_steps(logdir, cut_short=True)
    assert steps == list(range(len(steps)))
