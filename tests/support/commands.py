"""Many commands, each a process of its own, without importing everything for each.

A parent that has imported what commands need is told, line by line, what to run; it forks, and the
child is the command.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from threading import Lock, Timer

PATIENCE = 60  # seconds; only against hangs


class Commands:
    """Runs ``tbhub`` commands; ends with `close`."""

    def __init__(self) -> None:
        self._parent = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._lock = Lock()

    def run(
        self,
        arguments: list[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        stdin: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """What a command prints, and its exit code."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        asked = {"argv": arguments, "cwd": str(cwd), "env": dict(environment), "stdin": stdin or ""}
        watch = Timer(PATIENCE, self._parent.kill)
        with self._lock:
            watch.start()
            try:
                self._parent.stdin.write(json.dumps(asked) + "\n")
                self._parent.stdin.flush()
                code, out, err = json.loads(self._parent.stdout.readline())
            finally:
                watch.cancel()
        return subprocess.CompletedProcess(arguments, code, out, err)

    def close(self) -> None:
        """Ends the parent."""
        self._parent.communicate(timeout=PATIENCE)


def _serve() -> None:
    import rich.table  # noqa: F401
    import typer.rich_utils  # noqa: F401

    import tbhub.client.tensorboard  # noqa: F401
    from tbhub.cli.main import command_line

    command_line()
    for line in sys.stdin:
        asked = json.loads(line)
        with (
            tempfile.TemporaryFile("w+") as stdin,
            tempfile.TemporaryFile("w+") as out,
            tempfile.TemporaryFile("w+") as err,
        ):
            stdin.write(asked["stdin"])
            stdin.seek(0)
            child = os.fork()
            if child == 0:
                for number, file in enumerate((stdin, out, err)):
                    os.dup2(file.fileno(), number)
                os._exit(_be(asked))
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            out.seek(0)
            err.seek(0)
            print(json.dumps([code, out.read(), err.read()]), flush=True)


def _be(asked: dict[str, object]) -> int:
    """The command itself, in its own process."""
    from tbhub.cli.main import main

    assert isinstance(asked["env"], dict)
    assert isinstance(asked["argv"], list)
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(str(asked["cwd"]))
    sys.argv = ["tbhub", *asked["argv"]]
    sys.stdin = os.fdopen(0)
    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    return code


if __name__ == "__main__":
    _serve()
