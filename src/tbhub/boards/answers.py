"""Whole answers of a host: pages, files, JSON, a sentence."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import orjson

from tbhub.boards.assets import Asset, Assets
from tbhub.boards.wsgi import Headers, Response, Scope

# TensorBoard's own policy for its page, plus nothing.
_POLICY = (
    "default-src 'self';font-src 'self' data:;frame-src 'self' https://ui.perfetto.dev;"
    "img-src 'self' data: blob:;object-src 'none';"
    "style-src 'self' https://www.gstatic.com data: 'unsafe-inline';"
    "connect-src 'self';script-src 'self' 'unsafe-eval'"
)


def static_file(assets: Assets, path: str, scope: Scope) -> Response:
    """The answer to a request for ``<version>/<path>``, cached for ever if the version is ours."""
    version, _, path = path.partition("/")
    found = assets.find(path)
    if found is None:
        return text(404, "not found")
    known = version == assets.version
    return asset(found, scope, "public, max-age=31536000, immutable" if known else "no-cache")


def asset(asset: Asset, scope: Scope, caching: str) -> Response:
    """A file of the page."""
    headers: Headers = [
        (b"content-type", asset.content_type.encode()),
        (b"cache-control", caching.encode()),
        (b"etag", asset.etag.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"vary", b"accept-encoding"),
    ]
    if asset.content_type.startswith("text/html"):
        headers.append((b"content-security-policy", _POLICY.encode()))
    asked = dict(scope["headers"])
    if asked.get(b"if-none-match") == asset.etag.encode():
        return Response(304, headers, b"")
    body = asset.gzip
    if body is not None and b"gzip" in asked.get(b"accept-encoding", b""):
        headers.append((b"content-encoding", b"gzip"))
    else:
        body = asset.raw()
    headers.append((b"content-length", str(len(body)).encode()))
    return Response(200, headers, b"" if scope["method"] == "HEAD" else body)


def html_headers(size: int) -> Headers:
    """What goes with a page of so many bytes."""
    return [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-length", str(size).encode()),
        (b"content-security-policy", _POLICY.encode()),
        (b"x-content-type-options", b"nosniff"),
    ]


def text(status: int, text: str) -> Response:
    """A sentence."""
    headers: Headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"x-content-type-options", b"nosniff"),
    ]
    return Response(status, headers, text.encode())


def json(value: Any) -> Response:
    """A value as JSON."""
    return json_bytes(200, orjson.dumps(value))


def json_bytes(status: int, body: bytes) -> Response:
    """JSON that has been written."""
    headers: Headers = [
        (b"content-type", b"application/json"),
        (b"cache-control", b"no-cache"),
        (b"x-content-type-options", b"nosniff"),
        (b"content-length", str(len(body)).encode()),
    ]
    return Response(status, headers, body)


def redirect(path: str) -> Response:
    """Another path of this host."""
    # Relative to the host alone: a path that begins with two slashes would name another host.
    return Response(301, [(b"location", ("/" + quote(path.lstrip("/"))).encode())], b"")
