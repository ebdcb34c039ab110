"""How the program ends that this process is, as far as that can be known at its very end.

Python tells nobody of a `SystemExit`: whoever ends with a code says so by ``with``, by
`Run.finish`, or by being run by ``tbhub run``.
"""

from __future__ import annotations

import sys

from tbhub.api.models import RunEnding


class Program:
    """This program from now on: what has gone wrong before is not its end."""

    def __init__(self) -> None:
        # Its number alone: an exception keeps everything alive that its frames have.
        self._earlier = id(getattr(sys, "last_value", None))

    def ending(self) -> tuple[RunEnding, int | None]:
        """How it ends, and with which code if that is known; to be asked while Python ends."""
        error = getattr(sys, "last_value", None)
        if error is None or id(error) == self._earlier:
            return "finished", None
        return ("killed", None) if isinstance(error, KeyboardInterrupt) else ("failed", 1)


def exit_code(given: object) -> int:
    """What Python ends with for the code of a `SystemExit`."""
    if given is None:
        return 0
    return given & 0xFF if isinstance(given, int) else 1
