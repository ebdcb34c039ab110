"""Whole answers, ready to be sent, with the headers that every answer of a hub has."""

from __future__ import annotations

import orjson

from tbhub.api.problems import Problem, TooManyRequests
from tbhub.boards.wsgi import Headers, Response, Scope
from tbhub.hub.language import problem_text
from tbhub.hub.pages import POLICY

# For everything; pages that are shown in frames of our own pages are the boards' alone.
SECURITY: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_NOT_KEPT = (b"cache-control", b"no-store")


def html(
    status: int,
    body: bytes,
    *more: tuple[bytes, bytes],
    framed: bool = False,
    policy: str = POLICY,
) -> Response:
    """A page of the hub's own; `framed` where it stands for a board, which the web page frames."""
    framing = (b"SAMEORIGIN", b"'self'") if framed else (b"DENY", b"'none'")
    headers: Headers = [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"content-security-policy", policy.encode() + b";frame-ancestors " + framing[1]),
        (b"x-frame-options", framing[0]),
        _NOT_KEPT,
        *SECURITY,
        *more,
    ]
    return Response(status, headers, body)


def problem(found: Problem, *more: tuple[bytes, bytes]) -> Response:
    """A problem as programs get it."""
    said = found.to_json()
    said["error"]["message"] = problem_text(found)
    body = orjson.dumps(said, default=str, option=orjson.OPT_NON_STR_KEYS)
    headers: Headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        _NOT_KEPT,
        *SECURITY,
        *more,
    ]
    if found.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if found.status == 413:
        # What is still to come is not waited for.
        headers.append((b"connection", b"close"))
    if isinstance(found, TooManyRequests) or "retry_after" in found.details:
        wait = int(found.details.get("retry_after", 1)) + 1
        headers.append((b"retry-after", str(wait).encode()))
    return Response(found.status, headers, body)


def redirect(where: str, *more: tuple[bytes, bytes], status: int = 303) -> Response:
    """Somewhere else; what stood in the address stays between us."""
    headers: Headers = [
        (b"location", where.encode("ascii", "ignore")),
        (b"content-length", b"0"),
        (b"referrer-policy", b"no-referrer"),
        _NOT_KEPT,
        *more,
    ]
    return Response(status, headers, b"")


def wants_page(scope: Scope) -> bool:
    """Return whether a browser shows the answer as a page: of a link or a form, not of a script."""
    if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD", "POST"):
        return False
    return any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])
