"""Where a run comes from: commit, packages, machine, command.

Nothing of the environment is told. What stands in a variable whose name looks like that of a secret
is taken out wherever else it appears: of a command, of a diff.
"""

from __future__ import annotations

import getpass
import os
import platform
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any
from urllib.parse import urlsplit, urlunsplit

_SECRET = re.compile(r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE", re.I)
_SHORTEST = 6  # a shorter secret would take too much else with it
_HIDDEN = "***"
_GIT_TIMEOUT = 2.0  # seconds of each question
_MOST_DIFF = 4 << 20  # bytes
_MOST_PACKAGES = 2000


def describe(environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Everything about where this process runs, as JSON."""
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "host": hostname(),
        "user": _user(),
        "cwd": os.getcwd(),
        "packages": _packages(),
    }
    if git := _git_state():
        found["git"] = git
    return {
        name: without_secrets(value, environ) if isinstance(value, str) else value
        for name, value in found.items()
    }


def command_text(command: Sequence[str], environ: Mapping[str, str] = os.environ) -> str:
    """A command as a shell would take it."""
    return shlex.join(without_secrets(word, environ) for word in command)


def own_command() -> str:
    """How this process was called."""
    return command_text(getattr(sys, "orig_argv", sys.argv))


def hostname() -> str:
    """What this machine is called."""
    return socket.gethostname() or "localhost"


def git_diff(environ: Mapping[str, str] = os.environ) -> bytes:
    """What differs from the commit, as far as it is not too much; empty without a repository."""
    diff = _git("diff", "HEAD", "--no-ext-diff", "--no-color")
    if diff is None:
        return b""
    text = without_secrets(diff.decode(errors="replace"), environ).encode()
    if len(text) <= _MOST_DIFF:
        return text
    return text[:_MOST_DIFF] + f"\n… {len(text) - _MOST_DIFF:,} more bytes\n".encode()


def without_secrets(text: str, environ: Mapping[str, str]) -> str:
    """A text without what stands in variables that look secret."""
    secrets = {
        value
        for name, value in environ.items()
        if _SECRET.search(name) and len(value) >= _SHORTEST and not os.path.isabs(value)
    }
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, _HIDDEN)
    return text


def without_credentials(remote: str) -> str:
    """The address of a repository without a name and password in it."""
    parts = urlsplit(remote)
    if not parts.scheme or "@" not in parts.netloc:
        return remote
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))


def _git_state() -> dict[str, Any]:
    commit = _line("rev-parse", "HEAD")
    if commit is None:
        return {}
    status = _git("status", "--porcelain", "--untracked-files=no")
    remote = _line("config", "--get", "remote.origin.url")
    return {
        "commit": commit,
        "branch": _line("symbolic-ref", "--short", "-q", "HEAD"),
        "dirty": None if status is None else bool(status.strip()),
        "remote": remote and without_credentials(remote),
    }


def _line(*question: str) -> str | None:
    answer = _git(*question)
    return None if answer is None else answer.decode(errors="replace").strip() or None


def _git(*question: str) -> bytes | None:
    """What git answers; None without git, a repository, or an answer in time."""
    try:
        done = subprocess.run(
            ["git", *question],
            capture_output=True,
            timeout=_GIT_TIMEOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _packages() -> list[str]:
    found = set()
    for each in metadata.distributions():
        name = each.metadata["Name"]
        if name:
            found.add(f"{name}=={each.version}")
    return sorted(found, key=str.lower)[:_MOST_PACKAGES]


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None
