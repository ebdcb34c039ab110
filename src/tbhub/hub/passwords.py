"""Passwords, as they are kept: scrypt, with what it takes written beside the result."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import threading

_COST, _BLOCK, _PARALLEL = 2**15, 8, 1
_MOST_MEMORY = 128 << 20
# Each takes 32 MB and a core for a while: a flood of logins may not take all of either.
_turn = threading.Semaphore(2)


def hash_password(password: str) -> str:
    """What is kept of a password."""
    salt = secrets.token_bytes(16)
    made = _scrypt(password, salt, _COST, _BLOCK, _PARALLEL)
    encoded = (base64.b64encode(each).decode() for each in (salt, made))
    return "$".join(["scrypt", str(_COST), str(_BLOCK), str(_PARALLEL), *encoded])


def is_password(password: str, kept: str | None) -> bool:
    """Whether this is the password. Takes as long when there is none, so as not to tell."""
    parts = (kept or _NONE).split("$")
    try:
        _, cost, block, parallel, salt, expected = parts
        made = _scrypt(password, base64.b64decode(salt), int(cost), int(block), int(parallel))
        return hmac.compare_digest(made, base64.b64decode(expected)) and kept is not None
    except (ValueError, binascii.Error):
        return False


def _scrypt(password: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    with _turn:
        return hashlib.scrypt(
            password.encode("utf-8", "surrogatepass"),
            salt=salt,
            n=cost,
            r=block,
            p=parallel,
            maxmem=_MOST_MEMORY,
            dklen=32,
        )


_NONE = f"scrypt${_COST}${_BLOCK}${_PARALLEL}${'A' * 22}==${'A' * 43}="
