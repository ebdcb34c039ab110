"""What has reached the disk, by TensorBoard's own reader, and waiting for it to get there."""

import subprocess
import time
from pathlib import Path

from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event

# Seconds; only against hangs: no test waits for it when all is well.
PATIENCE = 60


def event_files(directory):
    """The event files of a directory in the order of their opening by one process."""
    return sorted(Path(directory).glob("*tfevents*"))


def read_file(path, cut_short=False):
    """A file's events by TensorBoard's reader.

    The reader stops at damage without a word, so its coming to the end of the file is checked as
    well. With ``cut_short`` the last record may be incomplete, but nothing else may be wrong.
    """
    data = Path(path).read_bytes()  # before the records: the file may grow while they are read
    records = list(RawEventFileLoader(str(path)).Load())
    rest = data[sum(16 + len(record) for record in records) :]
    if cut_short and len(rest) >= 8:
        assert len(rest) < 16 + int.from_bytes(rest[:8], "little"), f"{path} is damaged"
    elif not cut_short:
        assert not rest, f"{path} has {len(rest)} bytes that cannot be read"
    events = [Event.FromString(record) for record in records]
    if events:
        assert events[0].file_version == "brain.Event:2"
        assert not any(event.file_version for event in events[1:])
    else:
        assert cut_short, f"{path} is empty"
    return events


def read_scalars(path, cut_short=False):
    """The ``(tag, step, value)`` of a file or of all the files of a directory, in order."""
    paths = event_files(path) if Path(path).is_dir() else [path]
    return [
        (value.tag, event.step, value.simple_value)
        for each in paths
        for event in read_file(each, cut_short)
        for value in event.summary.value
    ]


def read_steps(path, tag="a", cut_short=False):
    """The steps of one tag in order; each value must be its step, as the programs log it."""
    found = [(step, value) for name, step, value in read_scalars(path, cut_short) if name == tag]
    assert all(value == step for step, value in found)
    return [step for step, _ in found]


def remount(directory, options):
    """Changes the options of a mounted file system."""
    subprocess.run(["mount", "-o", f"remount,{options}", str(directory)], check=True)


def wait_for(condition):
    """Waits until a condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not (result := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
    return result
