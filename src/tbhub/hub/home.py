"""The hub's home: the directory with all that a hub keeps outside its database.

    hub.db            the database, unless it is elsewhere
    hub.lock          held while a hub runs; names its process and address
    secret            signs share links, and encrypts the secrets of storage connections
    connection.json   how programs of the same person find the hub
    hosts/            what hosts have said, how they ended, where they take clients over
    files/            what the hub keeps for runs, unless that is elsewhere

Nobody but its owner may look into it. One hub at a time has it; of replicas, the one that leads: a
lease in their database says which, so that one that hangs does not keep the home.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import tempfile
from pathlib import Path
from typing import Any, Self

from tbhub.errors import TbhubError


class HomeError(TbhubError, OSError):
    """The home cannot be used."""


class HomeTakenError(HomeError):
    """Another hub has the home.

    Attributes:
        pid: Its process, if known.
        url: Its address, if it has one yet.
    """

    def __init__(self, path: Path, pid: int | None, url: str | None) -> None:
        self.pid = pid
        self.url = url
        who = f"process {pid}" if pid else "another process"
        where = f", at {url}" if url else ""
        super().__init__(
            f"a hub is running on {path} already ({who}{where}); use that one, stop it, or give "
            "this one another --home"
        )


class Home:
    """A home that is ours until it is closed.

    Args:
        path: Where it is.
        is_replica: Other replicas may have it as well; hubs that are none may not.

    Attributes:
        secret: Random bytes that stay the same as long as the home does.
        id: What the hub of this home is told from others by; no secret.
    """

    def __init__(self, path: Path, *, is_replica: bool = False) -> None:
        self.path = path
        try:
            for each in (path, path / "hosts"):
                each.mkdir(mode=0o700, parents=True, exist_ok=True)
            if path.stat().st_mode & 0o077:
                path.chmod(0o700)
            self._lock = os.open(path / "hub.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise HomeError(
                f"cannot use {path} as the hub's home: {error.strerror}; give another by --home "
                "or TBHUB_HOME"
            ) from error
        try:
            self._take(fcntl.LOCK_SH if is_replica else fcntl.LOCK_EX)
            self.secret = self._read_secret()
            self.id = self.id_of(self.secret)
        except BaseException:
            os.close(self._lock)
            raise

    @staticmethod
    def id_of(secret: bytes) -> str:
        """What a hub is told from others by, from its secret."""
        return hashlib.sha256(b"home" + secret).hexdigest()[:12]

    def _take(self, kind: int) -> None:
        try:
            fcntl.flock(self._lock, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            known = _object(os.pread(self._lock, 65536, 0))
            raise HomeTakenError(self.path, known.get("pid"), known.get("url")) from None
        except OSError as error:
            raise HomeError(
                f"cannot lock {self.path}: {error.strerror}; the home must be on a file system "
                "that has locks"
            ) from error
        self._describe(url=None)

    def _describe(self, url: str | None) -> None:
        content = json.dumps({"pid": os.getpid(), "url": url}).encode()
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, content, 0)

    def _read_secret(self) -> bytes:
        path = self.path / "secret"
        try:
            found = bytes.fromhex(path.read_text("ascii"))
            if len(found) == 32:
                return found
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            raise HomeError(
                f"cannot read {path}: {error}; without it share links made so far are void and "
                "storage connections lack their secrets, delete it to have it so"
            ) from error
        made = secrets.token_bytes(32)
        _write(path, made.hex().encode())
        return made

    @property
    def known_token(self) -> str | None:
        """The token in connection.json, from this hub or from the one before."""
        try:
            found = _object((self.path / "connection.json").read_bytes()).get("token")
        except OSError:
            return None
        return found if isinstance(found, str) else None

    def announce(self, url: str, token: str | None) -> None:
        """Says where the hub is, to a second hub and to programs of the same person."""
        self._describe(url)
        _write(
            self.path / "connection.json", json.dumps({"url": url, "token": token}).encode() + b"\n"
        )

    def close(self) -> None:
        """Gives the home up. connection.json stays: the next hub goes on with the same token."""
        os.ftruncate(self._lock, 0)
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _object(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _write(path: Path, content: bytes) -> None:
    """Writes a file for its owner's eyes, whole or not at all."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
