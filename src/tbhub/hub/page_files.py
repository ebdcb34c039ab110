"""The web page's files, as `web/` is built into the package: ``hub/web/``.

The page is one file for all its addresses; its ``<base>`` tells it where the hub begins. What it
loads has its content's hash in its name and is kept for ever, but for the few files that
have none. Files are looked up among those that are there: no path leads elsewhere.
"""

from __future__ import annotations

import hashlib
import mimetypes
from html import escape
from pathlib import Path

from tbhub.boards.answers import asset, text
from tbhub.boards.assets import Asset
from tbhub.boards.wsgi import Headers, Response, Scope

BUILT = Path(__file__).parent / "web"
POLICY = (
    "default-src 'none';script-src 'self';style-src 'self';img-src 'self' data: blob:;"
    "font-src 'self';connect-src 'self';frame-src 'self';manifest-src 'self';form-action 'self';"
    "base-uri 'self';frame-ancestors 'none'"
)
_FOR_EVER = "public, max-age=31536000, immutable"
_BASE = '<base href="/" />'


class PageFiles:
    """The built page; a package without one has no files. Any thread may ask.

    Args:
        base: The hub's base path, without a slash at the end.
    """

    def __init__(self, base: str, built: Path = BUILT) -> None:
        self._files: dict[str, Asset] = {}
        self._page: bytes | None = None
        index = built / "index.html"
        if not index.is_file():
            return
        for path in sorted(built.rglob("*")):
            if path.is_file() and path.suffix != ".gz" and path != index:
                self._files[path.relative_to(built).as_posix()] = _asset(path)
        page = index.read_text("utf-8")
        self._page = page.replace(_BASE, f'<base href="{escape(base)}/">').encode()

    @property
    def page(self) -> bytes | None:
        """The page; None if it has not been built."""
        return self._page

    def answer(self, path: str, scope: Scope) -> Response:
        """One of the files that the page loads."""
        found = self._files.get(path)
        if found is None:
            return text(404, "not found")
        return asset(found, scope, _FOR_EVER if path.startswith("assets/") else "no-cache")


def page_headers(size: int) -> Headers:
    """What goes with the page: it runs our scripts and no others, and asks nobody but the hub."""
    return [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-length", str(size).encode()),
        (b"content-security-policy", POLICY.encode()),
        (b"x-frame-options", b"DENY"),
        (b"cache-control", b"no-store"),
    ]


def _asset(path: Path) -> Asset:
    data = path.read_bytes()
    compressed = path.with_name(f"{path.name}.gz")
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    if kind.startswith("text/"):
        kind += "; charset=utf-8"
    return Asset(
        content_type=kind,
        etag=f'"{hashlib.sha256(data).hexdigest()[:16]}"',
        gzip=compressed.read_bytes() if compressed.is_file() else None,
        raw=lambda: data,
    )
