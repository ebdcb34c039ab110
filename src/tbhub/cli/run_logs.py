"""What a run has printed, as a terminal may show it, followed while the run is live."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tbhub.api.models import RunLog
    from tbhub.client.hub import Hub

_FOLLOW_INTERVAL = 1.0
_MAX_FAILURES = 30  # in a row, while a run is followed
_MAX_ESCAPE = 4096  # characters of an escape sequence that is not complete yet
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, modes
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC, DCS, SOS, PM, APC: titles, clipboards, …
    r"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"  # two or three characters
)
_BEGUN_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)")
_OTHER_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class TerminalFilter:
    """Removes from text what would drive a terminal; colours, tabs and line ends stay."""

    def __init__(self) -> None:
        self._held = ""
        self.is_coloured = False

    def feed(self, text: str) -> str:
        """Return text that may be shown. The start of an escape sequence waits for its end."""
        text = self._held + text
        self._held = ""
        shown: list[str] = []
        at = 0
        while (begin := text.find("\x1b", at)) >= 0:
            shown.append(_OTHER_CONTROLS.sub("", text[at:begin]))
            whole = _ESCAPE.match(text, begin)
            if whole is None:
                if len(text) - begin < _MAX_ESCAPE and _BEGUN_ESCAPE.fullmatch(text, begin):
                    self._held = text[begin:]
                    return "".join(shown)
                at = begin + 1  # no sequence: without its ESC it is text
            else:
                at = whole.end()
                if _COLOUR.fullmatch(whole[0]):
                    self.is_coloured = True
                    shown.append(whole[0])
        shown.append(_OTHER_CONTROLS.sub("", text[at:]))
        return "".join(shown)


def print_run_log(
    hub: Hub,
    run: int,
    *,
    follow: bool,
    tail: int | None,
    head: int | None,
    file: str | None,
    as_json: bool,
) -> None:
    """Print a console log part by part, so that memory does not grow with it."""
    parts = _parts(hub, run, follow=follow, tail=tail, file=file)
    if as_json:
        for name, line in _lines(parts, head):
            print(json.dumps({"file": name, "text": line}, ensure_ascii=False), flush=True)
        return
    shown = TerminalFilter() if sys.stdout.isatty() else None
    left = head
    try:
        for part in parts:
            text = part.text
            if left is not None:
                *whole, rest = text.split("\n", left)
                left -= len(whole)
                if left == 0:
                    text = text.removesuffix(rest)
            sys.stdout.write(text if shown is None else shown.feed(text))
            sys.stdout.flush()
            if left == 0:
                return
    finally:
        if shown is not None and shown.is_coloured:
            sys.stdout.write("\x1b[0m")
            sys.stdout.flush()


def _lines(parts: Iterator[RunLog], most: int | None) -> Iterator[tuple[str, str]]:
    """Yield whole lines, each with its file; a last one without an end, too."""
    rest, name, count = "", "", 0
    for part in parts:
        if rest and name != part.file:
            yield name, rest
            rest = ""
        name = part.file
        *whole, rest = (rest + part.text).split("\n")
        for line in whole:
            if count == most:
                return
            count += 1
            yield name, line
    if rest and count != most:
        yield name, rest


def _parts(
    hub: Hub, run: int, *, follow: bool, tail: int | None, file: str | None
) -> Iterator[RunLog]:
    """Yield parts of a console log in order; with `follow` until the run has ended."""
    from tbhub.api.problems import NotFound, Unavailable
    from tbhub.client.errors import HubUnreachable

    name, after, failures = file, None if tail is not None else 0, 0
    while True:
        is_over = True
        try:
            is_over = not follow or hub.run(run).status != "running"
            part = hub.run_log(run, tail=tail, after=after, file=name)
        except NotFound:
            if not follow or is_over:
                raise
        except (HubUnreachable, Unavailable):
            failures += 1
            if not follow or failures > _MAX_FAILURES:
                raise
        else:
            failures = 0
            name, after = part.file, part.end
            yield part
            if after < part.size and part.text:
                continue
            if follow and file is None and part.files[-1] != name:
                name, after = part.files[-1], 0  # another attempt has begun
                continue
            if is_over:
                return
        time.sleep(_FOLLOW_INTERVAL)
