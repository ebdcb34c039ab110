"""Imported by every Python that a command of `tbhub run` starts: reports event files it opens.

torch opens its file only to append to it, so no other process can see that it is open. Nothing is
changed in the program: the real `sitecustomize`, if there is one, is imported as always, and this
directory is removed from the path. Must run on every Python 3, and import nothing that is slow.
"""

import os
import sys

_MAX_REPORTED = 10_000


def _install(notes: str) -> None:
    reported = {notes}
    process = os.getpid
    writing = os.O_WRONLY | os.O_RDWR

    def report(event: str, details: "tuple[object, ...]") -> None:
        if event != "open":
            return
        try:
            path, mode, flags = details
            if isinstance(path, bytes):
                path = os.fsdecode(path)
            if not isinstance(path, str) or "tfevents" not in path or path in reported:
                return
            is_written = isinstance(flags, int) and bool(flags & writing)
            if isinstance(mode, str):
                is_written = is_written or bool(set(mode) & set("wax+"))
            if not is_written or len(reported) >= _MAX_REPORTED:
                return
            reported.add(path)
            line = f"{process()} {os.path.abspath(path)}\n"
            file = os.open(notes, os.O_WRONLY | os.O_APPEND)
            try:
                os.write(file, os.fsencode(line))
            finally:
                os.close(file)
        except Exception:
            return  # never the program's concern

    if hasattr(sys, "addaudithook"):
        sys.addaudithook(report)


def _import_the_real_one() -> None:
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [each for each in sys.path if os.path.abspath(each) != here]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if os.environ.get("TBHUB_CAPTURE_NOTES"):
    _install(os.environ["TBHUB_CAPTURE_NOTES"])
_import_the_real_one()
