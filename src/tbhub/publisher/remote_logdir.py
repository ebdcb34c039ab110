"""A log directory that is a URI: the local directory behind it, and its publishing.

What is logged below a URI in one process goes to one place in the spool, and so does what is logged
to URIs below that. A forked child goes on in its parent's place, which the parent's agent follows.
"""

from __future__ import annotations

import os
import threading

from tbhub.publisher.agent import Publishing, start_agent
from tbhub.publisher.publisher import Backlog
from tbhub.publisher.spool import make_spool

_known: dict[str, Publishing] = {}
_making = threading.Lock()
os.register_at_fork(after_in_child=_making._at_fork_reinit)  # type: ignore[attr-defined]


def local_directory(uri: str) -> str:
    """The directory whose files are published at a URI; an agent publishes them from now on.

    Raises:
        SpoolError: The spool cannot be written to.
    """
    uri = uri.rstrip("/")
    with _making:
        publishing = _find(uri)
        if publishing is None:
            spool = make_spool(uri)
            spool.hold()
            publishing = _known[uri] = start_agent(spool)
    below = uri[len(publishing.spool.uri) :].strip("/")
    return os.path.join(publishing.spool.directory, below)


def publish(uri: str, timeout: float) -> Backlog:
    """Publishes what is on disk for a URI; what is left when time is up.

    Nothing is waited for in a child process: the parent's agent publishes what it writes.
    """
    publishing = _find(uri.rstrip("/"))
    if publishing is None or not publishing.is_ours:
        return Backlog()
    return publishing.flush(timeout)


def _find(uri: str) -> Publishing | None:
    """The place of a URI, or of the nearest one that it is below."""
    while True:
        found = _known.get(uri)
        if found is not None or "/" not in uri:
            return found
        uri = uri.rpartition("/")[0]
