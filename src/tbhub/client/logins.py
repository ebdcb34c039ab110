"""What ``tbhub login`` keeps: hubs with a token for each, in a file only its owner can read.

The hub logged in to last is the one commands go to.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class StoredLogin:
    """A hub, and what shows it who asks."""

    url: str
    token: str = field(repr=False)
    user: str


def path() -> Path:
    """Where logins are kept."""
    import platformdirs

    return Path(platformdirs.user_config_dir("tbhub")) / "logins.json"


def stored() -> list[StoredLogin]:
    """All that are kept, the latest last; a file that cannot be read counts as none."""
    try:
        found = json.loads(path().read_bytes())
        return [StoredLogin(each["url"], each["token"], each["user"]) for each in found]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def current() -> StoredLogin | None:
    """The hub logged in to last."""
    return next(reversed(stored()), None)


def for_url(url: str) -> StoredLogin | None:
    """The login at an address."""
    return next((each for each in stored() if each.url == url), None)


def remember(login: StoredLogin) -> None:
    """Keeps a login, in place of an earlier one at the same hub."""
    _store([*(each for each in stored() if each.url != login.url), login])


def forget(url: str) -> None:
    """Keeps nothing of a hub."""
    _store([each for each in stored() if each.url != url])


def _store(logins: list[StoredLogin]) -> None:
    """Whole or not at all: the file takes its name when it is complete."""
    place = path()
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(dir=place.parent, prefix=".logins-")  # 0600
    try:
        with os.fdopen(number, "w") as file:
            json.dump([asdict(each) for each in logins], file, indent=2)
        os.replace(name, place)
    except BaseException:
        os.unlink(name)
        raise
