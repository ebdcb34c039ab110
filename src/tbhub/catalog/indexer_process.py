"""The indexer as a process of its own: ``python -m tbhub.catalog.indexer_process``.

A line ``started`` on stdin tells that somebody has started a run; ``written`` and its number, that
one that runs no more was written to; ``connections`` and a list of objects, which credentials are
for which buckets: before the first of these no bucket is asked for anything. Any other line makes
it look at the database and at all logdirs again. When stdin ends, so does it.

Each line on stdout is an object: ``{"runs": [1, 2], "new": 0, "gone": 0}`` for runs that were
written to the database, ``{"progress": {"runs": 10, "to_read": 3, "problems": {"/path": "…"}}}``
for how far it is.

The database's URL, which may hold a password, comes in an environment variable.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import orjson

from tbhub.api.problems import Problem
from tbhub.catalog.indexer import Indexer, News, Progress
from tbhub.database.engine import open_database
from tbhub.storage.credentials import Known
from tbhub.storage.uri import parse

STARTED = b"started"
WRITTEN = b"written"
CONNECTIONS = b"connections"
_NICE = 5  # answers of the hub go first


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs until stdin ends; 2 if it cannot begin."""
    parser = argparse.ArgumentParser(prog="tbhub-indexer", description=__doc__)
    parser.add_argument(
        "--database-env",
        default="TBHUB_DATABASE",
        metavar="NAME",
        help="the environment variable with the database's URL",
    )
    name = parser.parse_args(arguments).database_env
    url = os.environ.get(name)
    if not url:
        print(f"{name} is not set; it names the database", file=sys.stderr)
        return 2
    try:
        database = open_database(url)
    except Problem as problem:
        print(problem, file=sys.stderr)
        return 2
    os.nice(_NICE)
    # Directories are many and live long; looking for circles among them again and again is in vain.
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
    indexer = Indexer(database, tell=_tell, progress=_progress)
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: indexer.stop())
    threading.Thread(target=_listen, args=(indexer,), name="tbhub-listen", daemon=True).start()
    try:
        indexer.run()
    except BrokenPipeError:
        # The hub is gone, and nobody is told when Python ends, either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        database.close()
    return 0


def _listen(indexer: Indexer) -> None:
    # Not sys.stdin: Python would wait for its lock when it ends.
    rest = b""
    while said := os.read(0, 65536):
        *lines, rest = (rest + said).split(b"\n")
        for kind, _, more in (line.partition(b" ") for line in dict.fromkeys(lines)):
            if kind == STARTED:
                indexer.look_at_started()
            elif kind == WRITTEN:
                indexer.look_at(int(more))
            elif kind == CONNECTIONS:
                indexer.connect([_connection(each) for each in orjson.loads(more)])
            else:
                indexer.rescan()
    indexer.stop()


def _connection(told: dict[str, Any]) -> Known:
    return Known(told["name"], parse(told["uri"]), told["workspace_id"], told["settings"])


def _tell(news: News) -> None:
    _say(asdict(news))


def _progress(progress: Progress) -> None:
    _say({"progress": asdict(progress)})


def _say(line: dict[str, Any]) -> None:
    sys.stdout.buffer.write(orjson.dumps(line) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
