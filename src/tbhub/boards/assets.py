"""TensorBoard's own page, read from its package, with our script in front of it.

The package keeps its files deflated in one zip. gzip is deflate with a header and a footer, so
they are sent as they lie there: nothing is inflated, nothing is compressed again.

All that is alike for every board has one address, ``<static root>/<version>/<path>``, which may
be cached for ever: a browser fetches and compiles the 6 MB of script once, not once per board.
"""

from __future__ import annotations

import gzip
import hashlib
import html
import os
import re
import struct
import weakref
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from tbhub.errors import TbhubError

_PAGE = Path(__file__).parent / "page"
_INDEX = "index.html"
_HTML = "text/html; charset=utf-8"
_CONTENT_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": _HTML,
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml; charset=utf-8",
    ".ttf": "font/ttf",
    ".woff2": "font/woff2",
}

# Deflate, no name, no time, unknown system.
_GZIP_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
_GZIP_EXTRA = len(_GZIP_HEADER) + 8
_LOCAL_HEADER_SIZE = 30
_NAME_SIZES = struct.Struct("<26xHH")

# What TensorBoard's pages say, and where it has to point for us.
_FONTS = re.compile(rb"url\(/font-roboto/")
_INDEX_SCRIPT = re.compile(rb'src="index\.js(?:\?[^"]*)?"')
_HEAD = re.compile(rb'<head>(?:<meta charset="utf-8">)?')
_TITLE = re.compile(rb"<title>[^<]*</title>")


@dataclass(frozen=True)
class Asset:
    """One file to serve. ``gzip`` is its compressed form, where that is smaller."""

    content_type: str
    etag: str
    gzip: bytes | None
    raw: Callable[[], bytes]


@dataclass(frozen=True)
class _Body:
    """TensorBoard's index.html around our part of the head; the rest deflated as a last block."""

    opening: bytes
    text: bytes
    deflated: bytes


class Assets:
    """The files of the installed TensorBoard's page and of ours. Any thread may ask."""

    def __init__(self, webfiles: Path | None = None) -> None:
        # Kept open: an upgrade of the package under a running server changes nothing here.
        self._descriptor = os.open(webfiles or _webfiles(), os.O_RDONLY)
        weakref.finalize(self, os.close, self._descriptor)
        with os.fdopen(os.dup(self._descriptor), "rb") as file, zipfile.ZipFile(file) as archive:
            self._entries = {e.filename: e for e in archive.infolist() if not e.is_dir()}
        self._ours = {each.name: each.read_bytes() for each in sorted(_PAGE.iterdir())}
        self._found: dict[str, Asset] = {}
        self._bodies = lru_cache(maxsize=16)(self._body)

    @cached_property
    def version(self) -> str:
        """Names this set of files; another TensorBoard or another script of ours is another."""
        digest = hashlib.sha256()
        for name, entry in self._entries.items():
            digest.update(f"{name}\0{entry.CRC}\0".encode())
        for name, content in self._ours.items():
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
        return digest.hexdigest()[:16]

    def find(self, path: str) -> Asset | None:
        """The file at a path below ``<static root>/<version>/`` (or below a board's own root)."""
        if path not in self._found:
            if path in self._ours:
                self._found[path] = _pack(path, self._ours[path])
            elif path in self._entries and path != _INDEX:
                self._found[path] = self._unpack(self._entries[path])
        return self._found.get(path)

    def index(
        self,
        *,
        board: str,
        static_root: str,
        data_version: int,
        title: str = "TensorBoard",
        relative_root: str = ".",
    ) -> Asset:
        """The page of a board. It differs per board and must not be cached.

        ``static_root`` is the URL of the shared files as seen from this page, best relative
        (``../../static``), so that no proxy's prefix needs to be known. ``relative_root`` leads
        from this page to the board's root. ``data_version`` is what the events' ``version``
        was when the page was made: what changes from then on is what the page has to show.
        """
        body = self._bodies(f"{static_root.rstrip('/')}/{self.version}")
        head = body.opening + self._head(board, static_root, data_version, title, relative_root)
        compress = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
        deflated = compress.compress(head) + compress.flush(zlib.Z_FULL_FLUSH) + body.deflated
        crc = zlib.crc32(body.text, zlib.crc32(head))
        text = head + body.text
        return Asset(_HTML, f'"{crc:08x}"', _gzip(deflated, crc, len(text)), lambda: text)

    def with_fonts(self, page: bytes, static_root: str) -> bytes:
        """Another of TensorBoard's pages (the projector's), with its fonts from our address."""
        where = html.escape(f"{static_root.rstrip('/')}/{self.version}").encode()
        return _FONTS.sub(lambda _: b"url(" + where + b"/font-roboto/", page)

    def _head(
        self, board: str, static_root: str, data_version: int, title: str, relative_root: str
    ) -> bytes:
        static = f"{static_root.rstrip('/')}/{self.version}"
        q = partial(html.escape, quote=True)
        return (
            f"<title>{q(title)}</title>"
            f'<meta name="tb-relative-root" content="{q(relative_root.rstrip("/"))}/">'
            # Before the 200 kB of styles that follow, so that they are on their way at once.
            f'<link rel="preload" as="script" href="{q(static)}/index.js">'
            f'<script src="{q(static)}/board.js" data-board="{q(board)}" '
            f'data-version="{data_version}"></script>'
        ).encode()

    def _body(self, static: str) -> _Body:
        text = self._inflate(self._entries[_INDEX])
        head = _HEAD.search(text)
        if head is None:
            raise TbhubError("the index.html of the installed tensorboard has no <head>")
        where = html.escape(static, quote=True).encode()
        opening, text = text[: head.end()], _TITLE.sub(b"", text[head.end() :], count=1)
        text = _FONTS.sub(lambda _: b"url(" + where + b"/font-roboto/", text)
        text = _INDEX_SCRIPT.sub(lambda _: b'src="' + where + b'/index.js"', text)
        style = b"<style>" + self._ours["board.css"] + b"</style>"
        text = text.replace(b"</head>", style + b"</head>", 1)
        compress = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
        return _Body(opening, text, compress.compress(text) + compress.flush())

    def _stored(self, entry: zipfile.ZipInfo) -> bytes:
        """An entry's bytes as they lie in the zip."""
        header = os.pread(self._descriptor, _LOCAL_HEADER_SIZE, entry.header_offset)
        start = entry.header_offset + _LOCAL_HEADER_SIZE + sum(_NAME_SIZES.unpack(header))
        return os.pread(self._descriptor, entry.compress_size, start)

    def _inflate(self, entry: zipfile.ZipInfo) -> bytes:
        stored = self._stored(entry)
        if entry.compress_type == zipfile.ZIP_STORED:
            return stored
        return zlib.decompress(stored, -zlib.MAX_WBITS, entry.file_size)

    def _unpack(self, entry: zipfile.ZipInfo) -> Asset:
        deflated = entry.compress_type == zipfile.ZIP_DEFLATED
        wrapped = None
        # Fonts are compressed already: deflate has only added to most of them.
        if deflated and entry.compress_size + _GZIP_EXTRA < entry.file_size:
            wrapped = _gzip(self._stored(entry), entry.CRC, entry.file_size)
        raw = partial(self._inflate, entry)
        return Asset(_content_type(entry.filename), f'"{entry.CRC:08x}"', wrapped, raw)


def _gzip(deflated: bytes, crc: int, size: int) -> bytes:
    return _GZIP_HEADER + deflated + struct.pack("<II", crc, size & 0xFFFFFFFF)


def _pack(name: str, content: bytes) -> Asset:
    packed = gzip.compress(content, mtime=0)
    return Asset(_content_type(name), f'"{zlib.crc32(content):08x}"', packed, lambda: content)


def _content_type(path: str) -> str:
    return _CONTENT_TYPES.get(Path(path).suffix, "application/octet-stream")


def _webfiles() -> Path:
    spec = find_spec("tensorboard")
    for place in (spec and spec.submodule_search_locations) or []:
        path = Path(place) / "webfiles.zip"
        if path.exists():
            return path
    try:
        import_module("tensorboard")
    except Exception as error:  # which says more than that its files are not there
        reason = f"{type(error).__name__}: {error}"
        raise TbhubError(f"TensorBoard cannot be imported: {reason}") from error
    raise TbhubError("tensorboard's page is not installed: pip install tensorboard")
