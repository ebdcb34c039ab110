"""A hub that is looked at while it runs: ``python -m benchmarks.profiled_hub``.

Two hundred times a second a thread looks where the event loop's thread is. Every second what was
seen is written to ``profile.json`` in the hub's home: how many looks there were, how many found it
at work, and in which lines of tbhub's, or what it called there.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType

_PAUSE = 0.005
_SWITCH = 0.0005  # seconds until the interpreter lets us look, wherever the other is
_HERE = f"{os.sep}tbhub{os.sep}"


def main() -> None:
    """Runs the hub with settings from the environment."""
    from tbhub.hub.server import main as hub

    sys.setswitchinterval(_SWITCH)
    watched = threading.get_ident()
    place = Path(os.environ["TBHUB_HOME"]) / "profile.json"
    threading.Thread(target=_look, args=(watched, place), daemon=True).start()
    hub()


def _look(watched: int, place: Path) -> None:
    seen: Counter[str] = Counter()
    looks, written = 0, time.monotonic()
    while True:
        time.sleep(_PAUSE)
        looks += 1
        at = _where(sys._current_frames().get(watched))
        if at is not None:
            seen[at] += 1
        if time.monotonic() > written + 1:
            written = time.monotonic()
            place.with_suffix(".new").write_text(json.dumps({"looks": looks, "seen": seen}))
            place.with_suffix(".new").replace(place)


def _where(frame: FrameType | None) -> str | None:
    """The innermost line of tbhub's; none if the event loop waits, which is tbhub's first line."""
    inner = frame
    while frame is not None and _HERE not in frame.f_code.co_filename:
        frame = frame.f_back
    if frame is None or frame.f_code.co_name in ("run", "main"):
        # Below uvicorn or the framework, or nothing to do: the loop itself has no frame.
        name = "" if inner is None else inner.f_code.co_name
        return None if name in ("run", "main", "") else f"outside: {_short(inner)}"
    return _short(frame)


def _short(frame: FrameType | None) -> str:
    if frame is None:
        return "?"
    path = frame.f_code.co_filename
    for root in (_HERE, f"{os.sep}site-packages{os.sep}"):
        path = path.rpartition(root)[2]
    return f"{path}:{frame.f_lineno} {frame.f_code.co_name}"


if __name__ == "__main__":
    main()
