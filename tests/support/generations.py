"""A little of Google's XML interface: objects in memory, replaced by generation.

The real servers we can start do not know generations. This one knows nothing else.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class _Handler(BaseHTTPRequestHandler):
    objects: dict[str, tuple[bytes, int]]
    lock: threading.Lock

    def log_message(self, *_: object) -> None:
        pass

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        wanted = self.headers.get("x-goog-if-generation-match")
        with self.lock:
            _, generation = self.objects.get(self.path, (b"", 0))
            if wanted is not None and int(wanted) != generation:
                self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
                return
            # Past all of this object's, also of those that were deleted.
            self.objects[self.path] = data, generation + 1
        self._answer(200, b"", data, generation + 1)

    def do_GET(self) -> None:
        data, generation = self.objects.get(self.path, (b"", 0))
        if generation:
            self._answer(200, data, data, generation)
        else:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

    do_HEAD = do_GET  # noqa: N815

    def _answer(self, status: int, body: bytes, data: bytes = b"", generation: int = 0) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{hashlib.md5(data).hexdigest()}"')
        self.send_header("Last-Modified", formatdate(usegmt=True))
        if generation:
            self.send_header("x-goog-generation", str(generation))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def generations() -> Iterator[str]:
    """The address of such a server."""
    kind = type("Handler", (_Handler,), {"objects": {}, "lock": threading.Lock()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
