"""The supervisor's end of the process that adopts event files: starts it, requests its report."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from tbhub.publisher.spool import spool_root
from tbhub.storage.errors import StoreError
from tbhub.storage.uri import FILE, parse
from tbhub.tracking.capture.capturer import Assignment, Report
from tbhub.tracking.capture.processes import SOCKET
from tbhub.tracking.capture.reports import delete, listen

PLACES = "TBHUB_CAPTURE_DIRS"
"""Names the directories that are searched for event files, besides the working directory."""

_HOOK = Path(__file__).with_name("hook")
_DEFAULT_PLACES = "/tmp/tensorboard"  # Determined's
_MAX_REPORT_SECONDS = 120.0


class Capturing:
    """Has event files of a command adopted until its processes have ended.

    Args:
        logdir: The run's directory.
        record: The file that records what is adopted; None: nothing is recorded.
        published: Where the run is published, a URI or a path: nothing is adopted from there.
        named: Directories to adopt from; without any they are found.
        inherited: Descriptors that keep the run's spool.

    Attributes:
        pipe: A descriptor for the command to inherit: adopting goes on as long as it is open.
    """

    def __init__(
        self,
        logdir: Path,
        record: Path | None,
        *,
        published: str,
        named: Sequence[str] = (),
        inherited: Sequence[int] = (),
    ) -> None:
        self._address, listener = listen()
        assignment = Assignment(
            address=self._address,
            listener=listener.fileno(),
            logdir=str(logdir),
            record=str(record) if record else None,
            since=time.time(),
            work=os.getcwd(),
            named=[os.path.abspath(os.path.expanduser(each)) for each in named],
            places=[
                os.path.abspath(each)
                for each in os.environ.get(PLACES, _DEFAULT_PLACES).split(os.pathsep)
                if each
            ],
            temporary=os.path.abspath(tempfile.gettempdir()),
            excluded=[str(spool_root()), *_local(published)],
        )
        told, self.pipe = os.pipe()
        self._answers, said = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tbhub.tracking.capture", str(said)],
                stdin=told,
                stdout=subprocess.DEVNULL,  # a `sitecustomize` may print
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(*inherited, listener.fileno(), said),
            )
        finally:
            listener.close()
            os.close(told)
            os.close(said)
        self._send(asdict(assignment))

    def variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the variables by which a command's Python programs report files they open."""
        path = os.pathsep.join(filter(None, (str(_HOOK), environ.get("PYTHONPATH"))))
        return {"PYTHONPATH": path, SOCKET: self._address}

    def add_command(self, process: int, console: Path) -> None:
        """Report the process of the command, and the file that has what it prints.

        What is adopted after the end of the command is named in that file.
        """
        self._send({"command": process, "console": str(console), "pipe": self.pipe})

    def finish(self) -> Report | None:
        """Have all adopted that the command has written. Return None if the process was killed.

        While processes of the command run, adopting continues without this process.
        """
        self._send({"end": True})
        os.close(self.pipe)
        text = b""
        deadline = time.monotonic() + _MAX_REPORT_SECONDS
        while not text.endswith(b"\n"):
            left = max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self._answers], [], [], left)
            data = os.read(self._answers, 65536) if ready else b""
            if not data:
                break
            text += data
        os.close(self._answers)
        if not text.endswith(b"\n"):
            self._process.kill()
            self._process.wait()
            delete(self._address)
            return None
        found = json.loads(text)
        running = {int(process): started for process, started in found.pop("running").items()}
        if running:
            self._process.returncode = 0  # it outlives this process, and is not waited for
        else:
            self._process.wait()
        return Report(**found, running=running)

    def _send(self, message: dict[str, object]) -> None:
        with suppress(BrokenPipeError):
            os.write(self.pipe, json.dumps(message).encode() + b"\n")


def _local(place: str) -> list[str]:
    """Return the path of a place if it is one of this machine."""
    try:
        parsed = parse(place)
    except StoreError:
        return []
    return [parsed.path] if parsed.scheme == FILE else []
