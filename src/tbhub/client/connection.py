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
class TokenOrigin:
    """Where a token is from, for errors.

    Args:
        text: What the user knows the token by: "the token in the environment variable …".
        hint: What to do when the hub rejects it.
    """

    text: str
    hint: str

    def rejected(self, url: str) -> str:
        """Return the error for a token that the hub at `url` rejects; without the token."""
        return f"{url} rejects {self.text}: it is unknown, expired or revoked. hint: {self.hint}"

    def malformed(self) -> str:
        """Return the error for a token that cannot be sent; without the token."""
        return f"{self.text} has characters that no token has. hint: {self.hint}"


GIVEN_TOKEN = TokenOrigin(
    "the token that was given",
    "create a token with `tbhub tokens create`, or on the hub's page",
)
_ENVIRONMENT_TOKEN = TokenOrigin(
    "the token in the environment variable TBHUB_TOKEN",
    "set TBHUB_TOKEN to a valid token (`tbhub tokens create`), or unset it to use `tbhub login`",
)


def _address_token(origin: str) -> TokenOrigin:
    if origin == "TBHUB_URL":
        text = "the token in the address in the environment variable TBHUB_URL"
        return TokenOrigin(text, "set TBHUB_URL to an address without a token, or with a valid one")
    return TokenOrigin("the token in the address that was given", GIVEN_TOKEN.hint)


def _login_token(url: str) -> TokenOrigin:
    text = f"the login that `tbhub login` has stored in {logins.path()}"
    return TokenOrigin(text, f"log in again with `tbhub login {url}`")


def _home_token(path: str) -> TokenOrigin:
    return TokenOrigin(
        f"the token in {path}",
        "another hub may be running at this address; `tbhub up` starts the hub of this machine",
    )


@dataclass(frozen=True)
class Connection:
    """How to reach a hub.

    Args:
        url: Its address, without a slash at the end.
        origin: Where the address is from, for people.
        home: The home of the hub on this machine, if it is one's own.
        token_origin: Where the token is from.
    """

    url: str
    token: str | None = field(default=None, repr=False)
    origin: str = "what was given"
    home: Path | None = None
    token_origin: TokenOrigin = field(default_factory=lambda: GIVEN_TOKEN)

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
    explicit = _explicit_token(token, environment)
    own = hub_home(home, environment)
    if url or (home is None and environment.get("TBHUB_URL")):
        given, origin = (url, "what was given") if url else (environment["TBHUB_URL"], "TBHUB_URL")
        address, in_address = split_token(given)
        if explicit is None and in_address:
            explicit = (in_address, _address_token(origin))
        known, token_origin = explicit or _token_for(address, own)
        return Connection(address, known, origin, token_origin=token_origin)
    if home is None and (stored := logins.current()):
        origin = f"tbhub login, in {logins.path()}"
        known, token_origin = explicit or (stored.token, _login_token(stored.url))
        return Connection(stored.url, known, origin, token_origin=token_origin)
    if found := _running(own):
        known, token_origin = explicit or (found.token, found.token_origin)
        return Connection(found.url, known, found.origin, own, token_origin)
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


def _explicit_token(
    token: str | None, environment: Mapping[str, str]
) -> tuple[str, TokenOrigin] | None:
    """Return the token that the caller or the environment names, and which of them does."""
    if token:
        return token, GIVEN_TOKEN
    if token := environment.get("TBHUB_TOKEN"):
        return token, _ENVIRONMENT_TOKEN
    return None


def _token_for(url: str, home: Path) -> tuple[str | None, TokenOrigin]:
    """Return the token that is known for an address, and where it is from."""
    if stored := logins.for_url(url):
        return stored.token, _login_token(url)
    running = _running(home)
    if running and running.url == url:
        return running.token, running.token_origin
    return None, GIVEN_TOKEN


def _running(home: Path) -> Connection | None:
    """The hub that runs, or ran, in a home."""
    path = home / "connection.json"
    try:
        found = json.loads(path.read_bytes())
        url, _ = split_token(found["url"])
        return Connection(url, found.get("token"), str(path), home, _home_token(str(path)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
