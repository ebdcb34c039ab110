"""What a host sees of the sources of a board, for `tbhub doctor`: paths, files, credentials.

Secrets are never part of it: of credentials only the names of settings, variables and files are
told.
"""

from __future__ import annotations

import getpass
import os
import socket
from typing import Any

from tbhub.boards.board import Board, Source
from tbhub.series.follower import Root
from tbhub.storage.environment import google_login_file

_MAX_SOURCES = 1000
_VARIABLES = {
    "s3": (
        "AWS_ACCESS_KEY_ID",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    ),
    "oss": ("OSS_ACCESS_KEY_ID", "ALIBABA_CLOUD_ACCESS_KEY_ID"),
    "gs": ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SERVICE_ACCOUNT"),
    "az": ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_CLIENT_ID", "AZURE_STORAGE_SAS_KEY"),
}


def check_sources(board: Board) -> list[dict[str, Any]]:
    """Return what is seen of each source of a board; the first ones, if there are many."""
    return [_checked(source, root) for source, root in board.roots()[:_MAX_SOURCES]]


def _checked(source: Source, root: Root | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "path": source.path,
        "runs": 0 if root is None else len(root.runs),
        "files": 0 if root is None else sum(len(log.view.contents) for log in root.runs.values()),
        "problem": "" if root is None else root.problems.get(root.path, ""),
        "listed": root is not None and root.is_listed,
    }
    if "://" in source.path:
        found["credentials"] = _credentials(source)
    else:
        found["exists"] = os.path.exists(source.path)
        found["readable"] = os.access(source.path, os.R_OK)
        found["user"] = f"{_user()} on {socket.gethostname()}"
    return found


def _credentials(source: Source) -> str:
    if source.credentials:
        return f"sent by the hub ({', '.join(sorted(source.credentials))})"
    scheme = source.path.partition("://")[0]
    names = [name for name in _VARIABLES.get(scheme, ()) if os.environ.get(name)]
    if names:
        return f"of the backend's environment ({', '.join(names)})"
    if scheme == "gs" and (file := google_login_file(os.environ)):
        return f"the login in {file}"
    return "none: the identity of the backend's machine, if it has one"


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid())
