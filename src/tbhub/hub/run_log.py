"""What a run has printed: the file ``console.log`` beside its logs, read from its end."""

from __future__ import annotations

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


def tail_of(hub: Hub, run: int, facts: Facts, lines: int) -> RunLog:
    """The last lines.

    Raises:
        NotFound: The run has printed nothing, or nobody has kept it.
    """
    store, path = open_files(hub, run, facts, _PATIENCE)
    try:
        name = _newest(entry.path for entry in store.list(path))
        size = store.stat(name).size
        offset = max(0, size - _MOST)
        data = store.read(name, offset, size - offset) if size else b""
    except StoreError as error:
        problem = as_problem(error, NAME)
        if isinstance(problem, NotFound):
            raise NotFound("this run has no console log") from None
        raise problem from None
    finally:
        store.close()
    begin = _begin_of_last(data, lines)
    return RunLog(text=data[begin:].decode(errors="replace"), size=size, offset=offset + begin)


def _newest(paths: Iterable[str]) -> str:
    """The log of the last attempt: each that begins anew has one beside those before."""
    found: dict[int, str] = {}
    for path in paths:
        name = path.rpartition("/")[2]
        again = name.removeprefix(f"{NAME}.again")
        if name == NAME or again.isdecimal():
            found[0 if name == NAME else int(again)] = path
    if not found:
        raise NotFound("this run has no console log")
    return found[max(found)]


def _begin_of_last(data: bytes, lines: int) -> int:
    """Where the last lines begin; a newline at the end ends the last one."""
    at = len(data) - data.endswith(b"\n")
    for _ in range(lines):
        at = data.rfind(b"\n", 0, max(at, 0))
        if at < 0:
            return 0
    return len(data) if not lines else at + 1
