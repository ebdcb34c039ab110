"""Imported by every Python that a command of `tbhub run` starts: reports event files it writes.

torch opens its file only to append to it, so no other process can see that it is open. An open
descriptor goes with the report: a file that is deleted right after it was closed can still be
copied. Python announces that a file will be opened, not that it was; a file that is not there yet
is handed over at the next opportunity, at the latest when it is deleted or the program ends.

Nothing is changed in the program: the real `sitecustomize`, if there is one, is imported as always,
and this directory is removed from the path. Must run on every Python 3, and import nothing that is
slow.
"""

import os
import sys

_MAX_REPORTED = 10_000
_MAX_TRIES = 100  # to open a file that is not there yet


def _install(address: str) -> None:
    reported = set()  # type: set[str]
    pending = {}  # type: dict[str, int]
    removed = 0
    writing = os.O_WRONLY | os.O_RDWR
    reading = os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0)
    place, name = os.path.split(address)

    def send(kind: str, path: str, descriptor: "int | None") -> None:
        import _socket  # a part of `socket` that is quick to import

        with_it = []
        if descriptor is not None:
            rights = descriptor.to_bytes(4, sys.byteorder)
            with_it = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)]
        sender = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        try:
            sender.setblocking(False)
            directory = os.open(place, os.O_RDONLY)  # an address is 107 characters at most
            try:
                sender.connect(f"/proc/self/fd/{directory}/{name}")
            finally:
                os.close(directory)
            sender.sendmsg([os.fsencode(kind + path)], with_it)
        finally:
            sender.close()

    def hand_over(kind: str, path: str, file: str, directory: "int | None" = None) -> bool:
        """Report a file with a descriptor of it. Return False if that failed."""
        try:
            descriptor = os.open(file, reading, dir_fd=directory)
            try:
                send(kind, path, descriptor)
            finally:
                os.close(descriptor)
        except OSError:
            return False
        return True

    def retry() -> None:
        tries = dict(pending)
        pending.clear()  # what is opened here is announced, too
        for path, left in tries.items():
            if not hand_over("w", path, path) and left:
                pending[path] = left - 1

    def on_open(path: object, mode: object, flags: object) -> None:
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if not isinstance(path, str) or "tfevents" not in path:
            return
        is_written = isinstance(flags, int) and bool(flags & writing)
        if isinstance(mode, str):
            is_written = is_written or bool(set(mode) & set("wax+"))
        path = os.path.abspath(path)
        if not is_written or path in reported or len(reported) >= _MAX_REPORTED:
            return
        if os.access(os.path.dirname(path), os.W_OK):  # else it cannot be made
            reported.add(path)
            if not hand_over("w", path, path):
                pending[path] = _MAX_TRIES
                send("w", path, None)

    def on_remove(file: object, directory: object) -> None:
        nonlocal removed
        if isinstance(file, bytes):
            file = os.fsdecode(file)
        if not isinstance(file, str) or "tfevents" not in file or removed >= _MAX_REPORTED:
            return
        removed += 1
        if isinstance(directory, int) and directory >= 0:
            path = os.path.join(os.readlink(f"/proc/self/fd/{directory}"), file)
            hand_over("r", path, file, directory)
        else:
            path = os.path.abspath(file)
            hand_over("r", path, path)
        reported.discard(path)  # another may be made

    def report(event: str, details: "tuple[object, ...]") -> None:
        try:
            if pending:
                retry()
            if event == "open":
                on_open(*details)
            elif event == "os.remove":
                on_remove(*details)
        except Exception:
            return  # never the program's concern

    if hasattr(sys, "addaudithook"):
        import atexit

        sys.addaudithook(report)
        atexit.register(report, "end", ())


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


if os.environ.get("TBHUB_CAPTURE_SOCKET"):
    _install(os.environ["TBHUB_CAPTURE_SOCKET"])
_import_the_real_one()
