"""What a run has printed: the file ``console.log`` beside its logs, read in parts."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tbhub.api.models import RunLog
from tbhub.api.problems import NotFound
from tbhub.hub.downloads import open_files
from tbhub.hub.files import Facts, as_problem
from tbhub.storage.errors import StoreError
from tbhub.storage.store import Patience

if TYPE_CHECKING:
    from tbhub.hub.hub import Hub

NAME = "console.log"
_MOST = 1 << 20  # bytes that are looked at
_PATIENCE = Patience(timeout=15.0, connect_timeout=5.0, retries=2, total=20.0)


def read_log(
    hub: Hub, run: int, facts: Facts, *, lines: int, after: int | None, file: str | None
) -> RunLog:
    """Read the last lines of a console log, or what follows an offset; at most a megabyte.

    Args:
        file: Which of the run's console logs; without it the newest.

    Raises:
        NotFound: The run has printed nothing, or nobody has kept it.
    """
    store, path = open_files(hub, run, facts, _PATIENCE)
    top = f"{path}/" if path else ""
    try:
        files = _logs_in(entry.path.removeprefix(top) for entry in store.list(path))
        if not files:
            raise NotFound("this run has no console log")
        name = files[-1] if file is None else file
        if name not in files:
            there = ", ".join(files)
            raise NotFound(f"this run has no console log {name}; there are {there}")
        size = store.stat(top + name).size
        offset = max(0, size - _MOST) if after is None else min(after, size)
        length = min(size - offset, _MOST)
        data = store.read(top + name, offset, length) if length else b""
    except StoreError as error:
        problem = as_problem(error, NAME)
        if isinstance(problem, NotFound):
            raise NotFound("this run has no console log") from None
        raise problem from None
    finally:
        store.close()
    begin = _begin_of_last(data, lines) if after is None else 0
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(data[begin:])
    cut = len(decoder.getstate()[0])  # bytes of a character that is not complete yet
    return RunLog(
        text=text,
        size=size,
        offset=offset + begin,
        end=offset + len(data) - cut,
        file=name,
        files=files,
    )


def _logs_in(paths: Iterable[str]) -> list[str]:
    """Return the console logs among the files of a run, that of the last attempt last.

    Each later attempt has one beside those of the earlier ones.
    """
    found: list[tuple[int, str]] = []
    for path in paths:
        name = path.rpartition("/")[2]
        again = name.removeprefix(f"{NAME}.again")
        if name == NAME or again.isdecimal():
            found.append((0 if name == NAME else int(again), path))
    return [path for _, path in sorted(found)]


def _begin_of_last(data: bytes, lines: int) -> int:
    """Where the last lines begin; a newline at the end ends the last one."""
    at = len(data) - data.endswith(b"\n")
    for _ in range(lines):
        at = data.rfind(b"\n", 0, max(at, 0))
        if at < 0:
            return 0
    return len(data) if not lines else at + 1
