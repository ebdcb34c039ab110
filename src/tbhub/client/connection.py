"""Where the hub is, and what shows it who asks.

What is said counts most, then the environment (``TBHUB_URL``, ``TBHUB_TOKEN``), then what
``tbhub login`` has stored, then the hub of this machine (``connection.json`` in its home). A token
is only ever sent to the address it belongs to, unless somebody says otherwise.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import parse_qs, urlsplit, urlunsplit

from tbhub.client import logins
from tbhub.client.errors import HubUnreachable


@dataclass(frozen=True)
class Connection:
    """How to reach a hub.

    Args:
        url: Its address, without a slash at the end.
        origin: Where the address is from, for people.
        home: The home of the hub on this machine, if it is one's own.
    """

    url: str
    token: str | None = field(default=None, repr=False)
    origin: str = "what was given"
    home: Path | None = None

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine."""
        return is_loopback(self.url)

    @property
    def is_encrypted(self) -> bool:
        """Whether nobody between here and there can read along."""
        return self.url.startswith("https:")


def find_connection(
    url: str | None = None,
    token: str | None = None,
    home: str | os.PathLike[str] | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Connection:
    """Where the hub is.

    Raises:
        HubUnreachable: None is known.
        ValueError: An address is none.
    """
    token = token or environment.get("TBHUB_TOKEN") or None
    own = hub_home(home, environment)
    if url or (home is None and environment.get("TBHUB_URL")):
        given, origin = (url, "what was given") if url else (environment["TBHUB_URL"], "TBHUB_URL")
        address, in_address = split_token(given)
        return Connection(address, token or in_address or _token_for(address, own), origin)
    if home is None and (stored := logins.current()):
        origin = f"tbhub login, in {logins.path()}"
        return Connection(stored.url, token or stored.token, origin)
    if found := _running(own):
        return Connection(found.url, token or found.token, found.origin, own)
    raise HubUnreachable(
        f"no hub is known: start one with `tbhub up` (there is none in {own}), or say where it is "
        "with `tbhub login URL` or TBHUB_URL"
    )


def hub_home(
    home: str | os.PathLike[str] | None = None, environment: Mapping[str, str] = os.environ
) -> Path:
    """The home of this machine's hub."""
    given = home or environment.get("TBHUB_HOME")
    if not given:
        import platformdirs

        given = platformdirs.user_data_dir("tbhub")
    return Path(os.path.abspath(os.path.expanduser(given)))


def split_token(text: str) -> tuple[str, str | None]:
    """An address as people paste it, and the token in it, if there is one.

    Raises:
        ValueError: It is none.
    """
    parts = urlsplit(text.strip())
    try:
        is_good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good or "@" in parts.netloc:
        raise ValueError(f"{text}: write the hub's address like http://127.0.0.1:6060")
    tokens = parse_qs(parts.query).get("token")
    url = urlunsplit((parts.scheme, parts.netloc.lower(), parts.path.rstrip("/"), "", ""))
    return url, tokens[0] if tokens else None


def is_loopback(url: str) -> bool:
    """Whether an address is on this machine."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _token_for(url: str, home: Path) -> str | None:
    """The token that is known for an address."""
    if stored := logins.for_url(url):
        return stored.token
    running = _running(home)
    return running.token if running and running.url == url else None


def _running(home: Path) -> Connection | None:
    """The hub that runs, or ran, in a home."""
    path = home / "connection.json"
    try:
        found = json.loads(path.read_bytes())
        url, _ = split_token(found["url"])
        return Connection(url, found.get("token"), str(path), home)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
