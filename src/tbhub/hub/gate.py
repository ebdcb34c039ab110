"""The gate every request passes: who asks, and whether it was their own page that made them ask.

A token comes in the ``Authorization`` header, or in a cookie that browsers send by themselves. For
the latter a change must come from a page of this hub: its ``Origin`` must be ours. ``Origin: null``
says nothing, as both a sandboxed frame of any site and a page whose referrer policy is
``no-referrer`` (which a proxy may have set) send it; there ``Sec-Fetch-Site`` decides, which no
script can set. Without authentication that holds for all changes, and the address that was asked
must be this machine's, so that no page elsewhere can lead a browser here under a name of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from contextvars import ContextVar
from dataclasses import dataclass
from urllib.parse import urlsplit

from tbhub.api.problems import Forbidden, NotAuthenticated
from tbhub.boards.wsgi import Scope
from tbhub.hub.access import Caller
from tbhub.hub.identity import Identity
from tbhub.hub.settings import Settings, is_loopback
from tbhub.texts import text

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
# Where whoever is being answered reaches the hub; empty where nobody has asked over the network.
asked_at: ContextVar[str] = ContextVar("asked_at", default="")
_HOST = re.compile(r"(?:[\w.-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?\Z", re.ASCII)


@dataclass(frozen=True)
class Pass:
    """Who has come in, and how.

    Args:
        token: What they have shown; None where nothing needs to be shown.
        by_cookie: Whether a browser may have shown it without its user's wish.
    """

    caller: Caller
    token: str | None
    by_cookie: bool


class Gate:
    """Finds out who asks. Any thread may ask."""

    def __init__(self, identity: Identity, settings: Settings, secret: bytes) -> None:
        self._identity = identity
        self._settings = settings
        # Cookies do not know ports: hubs on one machine keep theirs apart by name.
        self._mark = hashlib.sha256(b"cookie" + secret).hexdigest()[:8]
        self.cookie = f"tbhub-{self._mark}"
        parts = urlsplit(settings.public_url)
        self._public = f"{parts.scheme}://{parts.netloc}".lower() if settings.public_url else ""

    def share_cookie(self, short: str) -> str:
        """The name of the cookie that opens one shared board."""
        return f"tbhub-share-{self._mark}-{short}"

    # --- who

    def shown(self, scope: Scope) -> tuple[str, bool] | None:
        """The token of a request, and whether it came as a cookie."""
        for name, value in scope["headers"]:
            if name == b"authorization":
                kind, _, token = value.decode("latin-1").partition(" ")
                if kind.lower() == "bearer":
                    return token.strip(), False
        token = cookie(scope, self.cookie)
        return None if token is None else (token, True)

    def quickly(self, scope: Scope) -> Pass | None:
        """Who asks, if that is known without asking the database."""
        if self._settings.auth == "none":
            caller = self._identity.remembered("")
            return None if caller is None else Pass(caller, None, True)
        shown = self.shown(scope)
        caller = None if shown is None else self._identity.remembered(shown[0])
        return None if shown is None or caller is None else Pass(caller, *shown)

    def find(self, scope: Scope) -> Pass | None:
        """Who asks; None for nobody known."""
        if self._settings.auth == "none":
            return Pass(self._identity.whoever_is_here(), None, True)
        shown = self.shown(scope)
        caller = None if shown is None else self._identity.identify(shown[0])
        return None if shown is None or caller is None else Pass(caller, *shown)

    async def find_soon(self, scope: Scope) -> Pass | None:
        """The same from an event loop; the database is asked in a thread."""
        return self.quickly(scope) or await asyncio.to_thread(self.find, scope)

    def enter(self, scope: Scope) -> Pass:
        """Who asks, for a request that somebody known has to make.

        Raises:
            NotAuthenticated: Nobody known asks.
            Forbidden: Another site's page asks.
        """
        found = self.find(scope)
        if found is None:
            code = "login.first" if self.shown(scope) is None else "login.token_invalid"
            raise NotAuthenticated(text(code))
        if found.by_cookie:
            self.require_own_page(scope)
        return found

    # --- from where

    def require_own_page(self, scope: Scope) -> None:
        """Raises `Forbidden` if a page of another site makes a browser change something here."""
        if scope["type"] == "http" and scope["method"] in SAFE:
            return
        if not self.is_own_page(scope):
            raise self.foreign_page(scope)

    def is_own_page(self, scope: Scope) -> bool:
        """Whether a request was made by a page of this hub, or by no page at all."""
        origin, site = _header(scope, b"origin"), _header(scope, b"sec-fetch-site")
        if origin is None:
            return site in (None, "same-origin", "none")
        if origin == "null":
            return site == "same-origin"
        return origin.lower() in (self.origin(scope), self._public) and origin != ""

    def foreign_page(self, scope: Scope) -> Forbidden:
        """Return the refusal of a request that a page of another site has made."""
        origin = _header(scope, b"origin") or "null"
        if origin == "null":
            return Forbidden(text("login.foreign_page", origin=origin))
        own = self.origin(scope)
        return Forbidden(text("login.foreign_proxy", origin=origin[:200], own=own[:200]))

    def origin(self, scope: Scope) -> str:
        """Where a request went, as browsers write it."""
        secure = scope.get("scheme") in ("https", "wss")
        host = (_header(scope, b"host") or "").lower()
        default = ":443" if secure else ":80"
        return f"{'https' if secure else 'http'}://{host.removesuffix(default)}"

    def address(self, scope: Scope) -> str:
        """Where whoever asks reaches the hub, without a slash at the end: as it is set, or as they
        have asked. A hub that listens on many addresses cannot know it otherwise. Empty if they do
        not say."""
        if self._settings.public_url:
            return self._settings.public_url
        found = self.origin(scope)
        is_one = _HOST.match(found.partition("://")[2])
        return found + self._settings.base_path if is_one else ""

    def is_expected_host(self, scope: Scope) -> bool:
        """Whether the address that was asked is one that only this machine can have."""
        if self._settings.auth != "none":
            return True
        if self._public and self.origin(scope) == self._public:
            return True
        try:
            name = urlsplit("//" + (_header(scope, b"host") or "")).hostname or ""
        except ValueError:
            return False
        return is_loopback(name)

    # --- cookies

    def set_cookie(self, scope: Scope, token: str, seconds: float) -> tuple[bytes, bytes]:
        """The header that has a browser keep a token."""
        path = (self._settings.base_path or "") + "/"
        return make_cookie(scope, self.cookie, token, path, seconds)

    def drop_cookie(self, scope: Scope) -> tuple[bytes, bytes]:
        """The header that has a browser forget its token."""
        return self.set_cookie(scope, "", 0)


def make_cookie(
    scope: Scope, name: str, value: str, path: str, seconds: float
) -> tuple[bytes, bytes]:
    """A cookie that scripts do not see and other sites' pages do not send along with changes."""
    secure = "; Secure" if scope.get("scheme") in ("https", "wss") else ""
    text = f"{name}={value}; Path={path}; Max-Age={int(seconds)}; HttpOnly; SameSite=Lax{secure}"
    return b"set-cookie", text.encode("latin-1")


def cookie(scope: Scope, name: str) -> str | None:
    """The value of a cookie."""
    start = f"{name}="
    for header, value in scope["headers"]:
        if header == b"cookie":
            for each in value.decode("latin-1").split(";"):
                found: str = each.strip()
                if found.startswith(start):
                    return found[len(start) :]
    return None


def _header(scope: Scope, wanted: bytes) -> str | None:
    for name, value in scope["headers"]:
        if name == wanted:
            text: str = value.decode("latin-1")
            return text
    return None
