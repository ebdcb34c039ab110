"""What is wrong with a place, found out by using it.

A small object is written below the place, read and deleted again. Each answer is a finding; what
could not be tried because of an earlier one says so. The object's name is new every time, and
nothing else is touched.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from secrets import token_hex

from tbhub.storage.errors import (
    BadCertificate,
    BadCredentials,
    BadName,
    ClockSkew,
    NoBucket,
    NoPermission,
    StoreError,
    Throttled,
    Timeout,
    Unreachable,
    WrongRegion,
)
from tbhub.storage.open import open_store
from tbhub.storage.store import DELETE, LIST, READ, WRITE, Entry, Patience, Store
from tbhub.storage.uri import FILE, Uri, parse

REACH, CREDENTIALS, BUCKET, REGION, CLOCK = "reach", "credentials", "bucket", "region", "clock"
CHECKS = (REACH, CREDENTIALS, BUCKET, REGION, CLOCK, LIST, READ, WRITE, DELETE)

_BRIEF = Patience(timeout=15.0, connect_timeout=5.0, retries=2, total=20.0)
_TOLERATED_SKEW = 300.0  # seconds; the stores refuse at 900
_CONTENT = b"tbhub storage test"
# The check that an error answers, whatever was asked.
_ANSWERS: Mapping[type[StoreError], str] = {
    Unreachable: REACH,
    Timeout: REACH,
    Throttled: REACH,
    BadCertificate: REACH,
    BadCredentials: CREDENTIALS,
    NoBucket: BUCKET,
    BadName: BUCKET,
    WrongRegion: REGION,
    ClockSkew: CLOCK,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer."""

    check: str  # one of CHECKS
    good: bool | None  # None: not known
    text: str


def probe(
    uri: str | Uri,
    credentials: Mapping[str, str] | None = None,
    *,
    patience: Patience = _BRIEF,
) -> list[Finding]:
    """Everything that can be said about a place, in the order of CHECKS."""
    found = _Findings()
    try:
        place = parse(uri) if isinstance(uri, str) else uri
        store, path = open_store(place, credentials, patience=patience)
    except StoreError as error:
        found.failed("open", error)
        return found.all()
    try:
        with _as_it_was(place):
            _try_verbs(store, path, found)
    finally:
        store.close()
    return found.all()


def is_good(findings: list[Finding]) -> bool:
    """Whether a place can be used for everything."""
    return all(finding.good is not False for finding in findings)


def _try_verbs(store: Store, path: str, found: _Findings) -> None:
    def verb(name: str, use: Callable[[], object]) -> bool:
        if found.is_over:
            return False
        try:
            use()
        except StoreError as error:
            found.failed(name, error)
            return False
        found.worked(name)
        return True

    entries: list[Entry] = []
    verb(LIST, lambda: entries.extend(islice(store.list(path), 1)))
    name = f".storage-test-{token_hex(8)}"
    name = f"{path}/{name}" if path else name
    written = verb(WRITE, lambda: store.put(name, _CONTENT))
    if written:
        verb(READ, lambda: store.read(name))
        with suppress(StoreError):
            found.clock(store.stat(name).modified - time.time())
        if not verb(DELETE, lambda: store.delete(name)):
            found.add(DELETE, False, f"{found.text(DELETE)}; {name} is left there")
    elif entries:
        verb(READ, lambda: store.read(entries[0].path, 0, 1))


class _Findings:
    def __init__(self) -> None:
        self._by_check: dict[str, Finding] = {}
        self.is_over = False  # nothing that is tried now would tell more

    def add(self, check: str, good: bool | None, text: str) -> None:
        self._by_check[check] = Finding(check, good, text)

    def text(self, check: str) -> str:
        return self._by_check[check].text

    def worked(self, verb: str) -> None:
        self._answered()
        self.add(BUCKET, True, "there")
        self.add(verb, True, f"may {verb}")

    def failed(self, verb: str, error: StoreError) -> None:
        check = next((_ANSWERS[kind] for kind in type(error).__mro__ if kind in _ANSWERS), None)
        if check is None:
            if isinstance(error, NoPermission):  # who may not look does not learn of the bucket
                self._answered()
                self._by_check.setdefault(BUCKET, Finding(BUCKET, None, "not known"))
            self.add(verb if verb in CHECKS else REACH, False, error.what)
            return
        self.add(check, False, error.what)
        self.is_over = True
        if check != REACH and verb != "open":
            self.add(REACH, True, "the store answers")

    def clock(self, skew: float) -> None:
        text = f"{abs(skew):.0f} s {'behind' if skew > 0 else 'ahead of'} the store's"
        self.add(CLOCK, abs(skew) <= _TOLERATED_SKEW, text if abs(skew) >= 2 else "right")

    def _answered(self) -> None:
        """An answer to a signed request says more than yes or no."""
        self.add(REACH, True, "the store answers")
        self.add(CREDENTIALS, True, "accepted")
        self.add(REGION, True, "right")
        if CLOCK not in self._by_check:
            self.add(CLOCK, True, "near enough to the store's")

    def all(self) -> list[Finding]:
        unknown = "not tried, because of the above" if self.is_over else "not known"
        return [self._by_check.get(check, Finding(check, None, unknown)) for check in CHECKS]


@contextmanager
def _as_it_was(place: Uri) -> Iterator[None]:
    """Takes away the directories that a test of this machine's files has made."""
    made: list[str] = []
    if place.scheme == FILE:
        directory = os.path.abspath(os.path.expanduser(place.path))
        while not os.path.lexists(directory):
            made.append(directory)
            directory = os.path.dirname(directory)
    try:
        yield
    finally:
        for directory in made:
            with suppress(OSError):
                os.rmdir(directory)
