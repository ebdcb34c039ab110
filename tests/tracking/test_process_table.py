"""Processes of this machine: of a group, by start time, by what they inherited."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from support.hub import eventually
from tbhub.tracking.lifeline import Lifeline
from tbhub.tracking.process_table import group_members, inheritors, start_time
from tbhub.tracking.supervisor import _LeftBehind


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that leads a group."""
    process = subprocess.Popen(["sleep", "600"], process_group=0)
    yield process
    process.kill()
    process.wait()


def test_an_ended_process_is_no_member_although_its_status_is_not_collected(
    sleeper: subprocess.Popen[bytes],
) -> None:
    begun = start_time(sleeper.pid)
    assert begun is not None
    assert group_members(sleeper.pid) == {sleeper.pid: begun}
    sleeper.kill()
    eventually(lambda: start_time(sleeper.pid) is None)
    assert group_members(sleeper.pid) == {}


def test_a_descriptor_is_found_where_it_was_inherited(sleeper: subprocess.Popen[bytes]) -> None:
    read, write = os.pipe()
    file = os.fstat(read)
    heir = subprocess.Popen(["sleep", "600"], pass_fds=[read])
    try:
        assert inheritors(read, file) == [heir.pid]
    finally:
        heir.kill()
        heir.wait()
        os.close(read)
        os.close(write)
    assert inheritors(read, file) == []


def test_processes_that_do_not_end_in_time_are_named(sleeper: subprocess.Popen[bytes]) -> None:
    lifeline = cast(Lifeline, SimpleNamespace(descriptors=(), logdir="/logs"))
    left = _LeftBehind(lifeline, is_adopted=True)
    left.wait_for_group(sleeper.pid, 0.1)
    assert left.sentence() == (
        f"process {sleeper.pid} of the command still runs; what it writes to the run's directory "
        "until it ends is added to the run, event files elsewhere are not"
    )
    sleeper.kill()
    left.wait_for_group(sleeper.pid, 60)
    assert left.sentence() == ""
