"""Python programs report the event files they write, with a descriptor that outlives the file."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

from support.records import frame
from tbhub.tracking.capture import capturing
from tbhub.tracking.capture.capturer import Assignment, Capturer
from tbhub.tracking.capture.reports import Reported, Reports, delete, listen

HOOK = Path(capturing.__file__).with_name("hook")
NAME = "events.out.tfevents.1.host"
WRITE = f"open({NAME!r}, 'wb').write(b'content'); "


@pytest.fixture
def received() -> Iterator[tuple[str, Reports]]:
    address, listener = listen()
    reports = Reports(listener.detach())
    yield address, reports
    reports.close()
    delete(address)


def execute(code: str, address: str, directory: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": str(HOOK), "TBHUB_CAPTURE_SOCKET": address}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=directory, env=environ, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def contents(reports: list[Reported]) -> list[bytes]:
    found = []
    for each in reports:
        if each.descriptor is not None:
            found.append(os.pread(each.descriptor, 100, 0))
            os.close(each.descriptor)
    return found


@pytest.mark.parametrize(
    "deletion",
    [
        f"import os; os.remove({NAME!r})",
        "import os, shutil; shutil.rmtree(os.getcwd())",
        f"import subprocess; subprocess.run(['rm', {NAME!r}])",
        f"import atexit, os; atexit.register(os.remove, {NAME!r})",
        "",
    ],
)
def test_a_reported_file_can_be_read_after_its_deletion(
    deletion: str, received: tuple[str, Reports], tmp_path: Path
) -> None:
    address, reports = received
    place = tmp_path / ("long" * 40)  # more than fits into the address of a socket
    place.mkdir()
    execute(WRITE + deletion, address, place)
    (place / NAME).unlink(missing_ok=True)
    found = list(reports.read())
    assert {each.path for each in found} == {str(place / NAME)}
    assert found[0].is_written
    assert set(contents(found)) == {b"content"}
    assert list(reports.read()) == []


def test_only_event_files_that_are_written_are_reported(
    received: tuple[str, Reports], tmp_path: Path
) -> None:
    address, reports = received
    (tmp_path / NAME).touch()
    code = f"""
open({NAME!r}).close()
open("other", "w").close()
try:
    open("missing/{NAME}", "w")
except FileNotFoundError:
    pass
"""
    execute(code, address, tmp_path)
    assert list(reports.read()) == []


def test_a_program_runs_as_ever_if_reports_are_not_received(tmp_path: Path) -> None:
    address, listener = listen()
    listener.close()
    execute(WRITE, address, tmp_path)
    delete(address)
    execute(WRITE + f"import os; os.remove({NAME!r})", address, tmp_path)
    assert not (tmp_path / NAME).exists()


def test_a_reported_file_that_is_gone_is_missed(tmp_path: Path) -> None:
    gone = tmp_path / "elsewhere" / NAME
    with capturing_in(tmp_path) as (capturer, address):
        sender = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sender.connect(address)
        sender.send(b"w" + os.fsencode(gone))
        sender.close()
        assert capturer.report().missed == {str(gone): "it was deleted before it could be copied"}


def test_an_error_that_ends_adopting_is_reported(tmp_path: Path) -> None:
    code = """
import sys
from tbhub.tracking.capture import __main__, capturer
def fail(*_):
    raise ValueError("broken")
capturer.Copies.update = fail
__main__.main(int(sys.argv[1]))
"""
    address, listener = listen()
    assignment = assignment_for(tmp_path, address, listener.fileno())
    answers, said = os.pipe()
    with os.fdopen(answers) as report:
        done = subprocess.run(
            [sys.executable, "-c", code, str(said)],
            input=json.dumps(asdict(assignment)).encode() + b"\n",
            pass_fds=(listener.fileno(), said),
        )
        os.close(said)
        assert done.returncode == 0
        assert json.loads(report.read())["error"] == "ValueError('broken')"
    listener.close()


def test_published_copies_of_the_runs_own_files_are_not_adopted(tmp_path: Path) -> None:
    with capturing_in(tmp_path) as (capturer, _):
        now = time.time()
        name = f"events.out.tfevents.{int(now)}.{socket.gethostname()}.{os.getpid()}.0"
        later = name.replace(str(int(now)), str(int(now) + 9))
        content = frame(b"\x09" + struct.pack("<d", now) + b"brain.Event:2")
        for each in (
            f"run/{name}",
            f"store/1/{name}",
            f"store/2/{name}.again1",
            f"store/3/{later}",
        ):
            (tmp_path / each).parent.mkdir(parents=True)
            (tmp_path / each).write_bytes(content)
        other = content[:13] + struct.pack("<d", now + 1) + content[21:]
        (tmp_path / "logs").mkdir()
        (tmp_path / "logs" / name).write_bytes(other)
        (tmp_path / "mirror").mkdir()
        (tmp_path / "mirror" / name).write_bytes(other)
        capturer.add_process(os.getpid())
        assert capturer.report().adopted == {str(tmp_path / "logs"): 1}


def assignment_for(directory: Path, address: str, listener: int) -> Assignment:
    return Assignment(
        logdir=str(directory / "run"),
        record=None,
        address=address,
        listener=listener,
        since=time.time(),
        work=str(directory),
        named=[],
        places=[],
        temporary=str(directory),
        excluded=[],
    )


@contextmanager
def capturing_in(directory: Path) -> Iterator[tuple[Capturer, str]]:
    """Adopt files from a directory. Yield the address for reports as well."""
    address, listener = listen()
    capturer = Capturer(assignment_for(directory, address, listener.detach()))
    yield capturer, address
    capturer.close()
    delete(address)


def test_directories_of_killed_listeners_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    live, listener = listen()
    killed, other = listen()
    other.close()
    fresh, another = listen()
    another.close()
    long_ago = time.time() - 3600
    for address in (live, killed):
        os.utime(Path(address).parent, (long_ago, long_ago))
    (tmp_path / "tbhub-opened-link").symlink_to(tmp_path)
    listen()[1].close()
    assert [Path(each).exists() for each in (live, killed, fresh)] == [True, False, True]
    assert (tmp_path / "tbhub-opened-link").is_symlink()
    listener.close()
