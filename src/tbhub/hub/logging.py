"""What the hub says of itself on stderr: lines for people, or JSON for programs.

Nothing secret gets into a log: addresses are logged without their queries, and whatever looks like
a token of ours is blotted out, wherever it comes from.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

from tbhub.hub.settings import Settings

_SECRETS = re.compile(r"tbh_[A-Za-z0-9_-]{8,}|(?<=[?&](?:token=))[^&\s\"']+")
_SHARES = re.compile(r"(?<=share=)[^&\s\"']+")
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def configure(settings: Settings, stream: TextIO | None = None) -> None:
    """Sends the logs of tbhub and of its server to stderr."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.log_format == "json" else TextFormatter())
    for name in ("tbhub", "uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(settings.log_level.upper() if name == "tbhub" else logging.WARNING)
    logging.getLogger("uvicorn.error").addFilter(_not_cut_off)


def without_secrets(text: str) -> str:
    """A text that may be logged."""
    return _SHARES.sub("…", _SECRETS.sub("tbh_…", text))


class TextFormatter(logging.Formatter):
    """One line for a person, with what belongs to it behind."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        fields = " ".join(f"{name}={value}" for name, value in _fields(record).items())
        text = f"{when} {record.levelname.lower()}: {record.getMessage()}"
        if fields:
            text += f" ({fields})"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return _UNSAFE.sub("�", without_secrets(text))


class JsonFormatter(logging.Formatter):
    """One JSON object in a line."""

    def format(self, record: logging.LogRecord) -> str:
        found: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)
        return without_secrets(json.dumps(found, default=str))


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields = getattr(record, "fields", None)
    return fields if isinstance(fields, dict) else {}


def _not_cut_off(record: logging.LogRecord) -> bool:
    """Answers that break off because a host has gone are no fault of the server's."""
    return "returned without completing response" not in record.getMessage()
