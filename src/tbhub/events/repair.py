"""A damaged event file written anew, with every whole good record and nothing else."""

from __future__ import annotations

import os
from contextlib import suppress

from tbhub import _kernel
from tbhub.events.check import Report, report_from


def repair(path: str | os.PathLike[str], out: str | os.PathLike[str]) -> Report:
    """Writes the good records of ``path`` to the new file ``out`` and reports on ``path``.

    The result appears under its name only once it is complete. A file of that name must not
    exist: nothing is ever overwritten.
    """
    name, target = os.fspath(path), os.fspath(out)
    os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))  # takes the name
    unfinished = f"{target}.{os.getpid()}.unfinished"
    try:
        with open(unfinished, "xb") as file:
            found = _kernel.inspect(name, file.fileno())
            os.fsync(file.fileno())
        os.replace(unfinished, target)
    except BaseException:
        for left_over in (unfinished, target):
            with suppress(FileNotFoundError):
                os.unlink(left_over)
        raise
    return report_from(name, found)
