"""The run an integration logs to, and who ends it.

A run that was given is ended by who gave it. Without one the integration makes its own when it
first has something to log, so that processes that log nothing make none; inside `tbhub run` that
joins the run there is.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tbhub.tracking.run import Run


class Ownership:
    """Either a run that was given, or one made when it is needed.

    Args:
        run: The one that was given.
        logdir: The local directory of one that is made.
    """

    def __init__(self, run: Run | None, logdir: str | os.PathLike[str] | None = None) -> None:
        self._run = run
        self._logdir = logdir
        self._is_own = run is None
        self._is_over = False

    @property
    def run(self) -> Run:
        """The run."""
        if self._run is None:
            from tbhub.tracking.run import Run

            self._run = Run(logdir=self._logdir)
        return self._run

    def finish(self, status: str = "finished") -> None:
        """Ends a run of one's own, if there is one."""
        if self._is_own and self._run is not None:
            self._is_over = True
            self._run.finish(status)

    def renew(self) -> None:
        """After a run of one's own has ended, what comes next is another."""
        if self._is_over:
            self._run, self._is_over = None, False
