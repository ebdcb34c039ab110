"""Signing in elsewhere, by OpenID Connect: the code flow with PKCE.

What has to come back unchanged (state, nonce, verifier, where to go then) travels in a signed
cookie of ten minutes, so that the hub keeps nothing, and a hub that was started anew can finish
what was begun. The identity is what the provider has signed, for us, just now, and nothing else.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import re
import secrets
import time
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlencode

import aiohttp
import jwt

from tbhub.api.models import User
from tbhub.api.problems import NotAuthenticated, Unavailable
from tbhub.database.engine import Database
from tbhub.hub.settings import Settings
from tbhub.hub.users import user_of_subject
from tbhub.texts import text

COOKIE = "tbhub-oidc"
LASTING = 600.0  # seconds to sign in
_KEPT = 3600.0  # seconds what the provider says of itself is believed
_TIMEOUT = aiohttp.ClientTimeout(total=10)
_MOST = 1 << 20
_LEEWAY = 60
# Never what a provider's own key could be taken for as a shared secret.
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"]
_NOT_IN_NAMES = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True)
class Begun:
    """A sign-in that is under way."""

    state: str
    nonce: str
    verifier: str
    after: str
    redirect: str
    expires: float


class OpenIdConnect:
    """The provider of a hub."""

    def __init__(self, settings: Settings, database: Database, secret: bytes) -> None:
        self._settings = settings
        self._database = database
        self._key = hashlib.sha256(b"oidc" + secret).digest()
        self._about: dict[str, Any] = {}
        self._keys: jwt.PyJWKSet | None = None
        self._read = 0.0
        self._lock = asyncio.Lock()

    async def begin(self, after: str, redirect: str) -> tuple[str, str]:
        """Where to send a browser to sign in, and the cookie's value it is to come back with."""
        about = await self._discover()
        begun = Begun(
            state=secrets.token_urlsafe(24),
            nonce=secrets.token_urlsafe(24),
            verifier=secrets.token_urlsafe(48),
            after=after,
            redirect=redirect,
            expires=time.time() + LASTING,
        )
        challenge = hashlib.sha256(begun.verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self._settings.oidc_client_id,
            "redirect_uri": redirect,
            "scope": self._settings.oidc_scopes,
            "state": begun.state,
            "nonce": begun.nonce,
            "code_challenge": _encode(challenge),
            "code_challenge_method": "S256",
        }
        endpoint = about["authorization_endpoint"]
        joint = "&" if "?" in endpoint else "?"
        return f"{endpoint}{joint}{urlencode(query)}", self._pack(begun)

    async def finish(self, kept: str | None, answer: dict[str, str]) -> tuple[User, str]:
        """Who has signed in, and where they go; `answer` is what the provider sent them back with.

        Raises:
            NotAuthenticated: Somebody else's sign-in, an old one, or one that was refused.
            Unavailable: The provider does not answer.
        """
        begun = self._unpack(kept)
        if begun is None or not hmac.compare_digest(
            begun.state.encode(), answer.get("state", "").encode("utf-8", "replace")
        ):
            raise NotAuthenticated(text("oidc.expired"))
        if "error" in answer or "code" not in answer:
            reason = answer.get("error_description") or answer.get("error") or "no code"
            raise NotAuthenticated(text("oidc.refused", reason=reason[:200]))
        about = await self._discover()
        if answer.get("iss", about["issuer"]) != about["issuer"]:
            raise NotAuthenticated("another provider has answered; try again")
        claims = await self._claims(await self._redeem(about, begun, answer["code"]), begun)
        return await asyncio.to_thread(self._user, about["issuer"], claims), begun.after

    # --- the provider

    async def _discover(self) -> dict[str, Any]:
        async with self._lock:
            if not self._about or time.monotonic() > self._read + _KEPT:
                where = f"{self._settings.oidc_issuer}/.well-known/openid-configuration"
                about = await self._get(where)
                needed = ("issuer", "authorization_endpoint", "token_endpoint", "jwks_uri")
                if not all(isinstance(about.get(name), str) for name in needed):
                    raise Unavailable(f"{where} lacks one of {', '.join(needed)}")
                if about["issuer"].rstrip("/") != self._settings.oidc_issuer:
                    raise Unavailable(
                        f"the provider calls itself {about['issuer']}; set oidc_issuer to that"
                    )
                self._about, self._keys, self._read = about, None, time.monotonic()
            return self._about

    async def _redeem(self, about: dict[str, Any], begun: Begun, code: str) -> str:
        """The identity that a code stands for, as the provider has signed it."""
        secret = self._settings.oidc_client_secret.get_secret_value()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": begun.redirect,
            "code_verifier": begun.verifier,
            "client_id": self._settings.oidc_client_id,
        }
        login = None
        ways = about.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        if secret and "client_secret_basic" in ways:
            login = aiohttp.BasicAuth(self._settings.oidc_client_id, secret, "utf-8")
            del form["client_id"]
        elif secret:
            form["client_secret"] = secret
        status, answer = await self._ask("POST", about["token_endpoint"], data=form, auth=login)
        if status >= 500:
            raise Unavailable("the provider cannot sign anybody in now")
        token = answer.get("id_token")
        if status != 200 or not isinstance(token, str):
            reason = str(answer.get("error_description") or answer.get("error") or status)[:200]
            raise NotAuthenticated(text("oidc.refused", reason=reason))
        return token

    async def _claims(self, token: str, begun: Begun) -> dict[str, Any]:
        try:
            key = await self._key_of(jwt.get_unverified_header(token))
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=_ALGORITHMS,
                audience=self._settings.oidc_client_id,
                issuer=self._about["issuer"],
                leeway=_LEEWAY,
                options={"require": ["exp", "iat", "aud", "iss", "sub"]},
            )
        except jwt.PyJWTError as error:
            raise NotAuthenticated(text("oidc.invalid", reason=error)) from None
        audience, party = claims["aud"], claims.get("azp", self._settings.oidc_client_id)
        if party != self._settings.oidc_client_id or (
            isinstance(audience, list) and len(audience) > 1 and "azp" not in claims
        ):
            raise NotAuthenticated("the provider's answer is for another program")
        nonce = str(claims.get("nonce", "")).encode("utf-8", "replace")
        if not hmac.compare_digest(nonce, begun.nonce.encode()):
            raise NotAuthenticated("the provider's answer is to another sign-in; try again")
        return claims

    async def _key_of(self, header: dict[str, Any]) -> jwt.PyJWK:
        """The key a token says it was signed with; providers change theirs."""
        for is_fresh in (False, True):
            if self._keys is None or is_fresh:
                self._keys = jwt.PyJWKSet.from_dict(await self._get(self._about["jwks_uri"]))
            wanted = header.get("kid")
            keys = self._keys.keys
            for key in keys:
                if key.key_id == wanted or (wanted is None and len(keys) == 1):
                    return key
        raise jwt.InvalidTokenError("signed with an unknown key")

    async def _get(self, url: str) -> dict[str, Any]:
        status, found = await self._ask("GET", url)
        if status != 200:
            raise Unavailable(f"{url} answers {status}")
        return found

    async def _ask(self, method: str, url: str, **more: Any) -> tuple[int, dict[str, Any]]:
        try:
            async with (
                aiohttp.ClientSession(timeout=_TIMEOUT) as session,
                session.request(method, url, allow_redirects=False, **more) as response,
            ):
                found = json.loads(await response.content.read(_MOST) or b"{}")
                return response.status, found if isinstance(found, dict) else {}
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unavailable(text("oidc.silent", url=url, reason=error)) from error
        except ValueError:
            raise Unavailable(f"the provider at {url} answers what is no JSON") from None

    # --- who it is

    def _user(self, issuer: str, claims: dict[str, Any]) -> User:
        email = claims.get("email")
        told = (claims.get("preferred_username"), email, claims.get("name"), claims["sub"])
        name = next(filter(None, (_name(each) for each in told)), "user")
        names = [name, *(f"{name}-{number}" for number in range(2, 100))]
        mail = _NOT_IN_NAMES.sub("", email)[:320] if isinstance(email, str) else None
        subject = f"{issuer} {claims['sub']}"
        if len(subject) > 512:
            raise NotAuthenticated("the provider's name for this person is too long")
        with self._database.begin() as connection:
            is_verified = claims.get("email_verified") is True
            user = user_of_subject(connection, subject, names, mail, is_verified=is_verified)
        if user.disabled:
            raise NotAuthenticated(text("login.disabled", name=user.name))
        return user

    # --- the cookie

    def _pack(self, begun: Begun) -> str:
        content = _encode(json.dumps(asdict(begun)).encode())
        return f"{content}.{self._sign(content)}"

    def _unpack(self, kept: str | None) -> Begun | None:
        content, dot, signature = (kept or "").partition(".")
        if not dot or not hmac.compare_digest(
            signature.encode("utf-8", "replace"), self._sign(content).encode()
        ):
            return None
        begun = Begun(**json.loads(base64.urlsafe_b64decode(content + "=" * (-len(content) % 4))))
        return begun if begun.expires > time.time() else None

    def _sign(self, content: str) -> str:
        made = hmac.new(self._key, content.encode("utf-8", "replace"), hashlib.sha256)
        return _encode(made.digest())


def _name(told: object) -> str:
    return _NOT_IN_NAMES.sub("", told).strip()[:190] if isinstance(told, str) else ""


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
