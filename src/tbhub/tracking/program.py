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
        # Known now only: Python removes `__file__` before the functions of `atexit` are called.
        self._is_script = hasattr(sys.modules.get("__main__"), "__file__")

    def ending(self) -> tuple[RunEnding, int | None]:
        """How it ends, and with which code if that is known; to be asked while Python ends."""
        error = getattr(sys, "last_value", None)
        if error is None or id(error) == self._earlier or self._is_at_prompt():
            return "finished", None
        return ("killed", None) if isinstance(error, KeyboardInterrupt) else ("failed", 1)

    def _is_at_prompt(self) -> bool:
        """Return whether statements are read from a prompt, which continues after an error.

        A script that has opened a prompt to be debugged (`code.interact`) is still a script.
        """
        return bool(sys.flags.interactive) or (hasattr(sys, "ps1") and not self._is_script)


def exit_code(given: object) -> int:
    """What Python ends with for the code of a `SystemExit`."""
    if given is None:
        return 0
    return given & 0xFF if isinstance(given, int) else 1
