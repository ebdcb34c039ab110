"""Keeps requests to a hub out of the program's own log, where httpx2 would list each of them."""

from __future__ import annotations

import logging


class _WithoutRequestsTo(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self.urls: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is not about a request to one of the addresses."""
        words = record.args if isinstance(record.args, tuple) else ()
        return not any(str(word).startswith(tuple(self.urls)) for word in words)


_filter = _WithoutRequestsTo()
logging.getLogger("httpx2").addFilter(_filter)


def hide_requests(url: str) -> None:
    """Log no requests to an address and what is below it."""
    _filter.urls.add(f"{url.rstrip('/')}/")
