"""What is wrong with a place, found out by using it.

For runs a small object is written below the place, read and deleted again; for boards one that is
there is read, and nothing is written. Each answer is a finding; what could not be tried because of
an earlier one says so. The object's name is new every time, and nothing else is touched.
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
    Conflict,
    NoBucket,
    NoPermission,
    StoreError,
    Throttled,
    Timeout,
    Unreachable,
    WrongRegion,
)
from tbhub.storage.open import open_store
from tbhub.storage.roles import BOARDS, RUNS, VERBS, Purpose, permission
from tbhub.storage.store import DELETE, LIST, READ, WRITE, Entry, Patience, Store
from tbhub.storage.uri import FILE, Uri, parse

REACH, CREDENTIALS, BUCKET, REGION, CLOCK = "reach", "credentials", "bucket", "region", "clock"
CREATE, PARTS = "create", "parts"
_ALWAYS = (REACH, CREDENTIALS, BUCKET, REGION, CLOCK, LIST, READ)
CHECKS = (*_ALWAYS, WRITE, CREATE, DELETE)
CHECKS_FOR: Mapping[Purpose | None, tuple[str, ...]] = {
    None: CHECKS,
    BOARDS: _ALWAYS,
    RUNS: (*_ALWAYS, WRITE, CREATE, PARTS, DELETE),
}

_BRIEF = Patience(timeout=15.0, connect_timeout=5.0, retries=2, total=20.0)
_TOLERATED_SKEW = 300.0  # seconds; the stores refuse at 900
_CONTENT = b"tbhub storage test"
_LARGE = (8 << 20) + 1  # bytes; sent in parts
_WORKED = {CREATE: "refuses to replace what was created", PARTS: "may write in parts"}
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

    check: str  # one of CHECKS_FOR
    good: bool | None  # None: not known
    text: str


def probe(
    uri: str | Uri,
    credentials: Mapping[str, str] | None = None,
    *,
    purpose: Purpose | None = None,
    patience: Patience = _BRIEF,
) -> list[Finding]:
    """Return everything that can be said about a place.

    Args:
        purpose: What it is to be used for: with boards nothing is written; with runs a large object
            is, too.
    """
    found = _Findings(purpose)
    try:
        place = parse(uri) if isinstance(uri, str) else uri
        found.scheme = place.scheme
        store, path = open_store(place, credentials, patience=patience)
    except StoreError as error:
        found.failed("open", error)
        return found.all()
    try:
        with _as_it_was(place):
            _try_verbs(store, path, found, purpose)
    finally:
        store.close()
    return found.all()


def is_good(findings: list[Finding]) -> bool:
    """Return whether a place can be used for all that was tried."""
    return all(finding.good is not False for finding in findings)


def usable_for(findings: list[Finding]) -> list[Purpose]:
    """Return what a place can be used for, as far as it was tried."""
    bad = {finding.check for finding in findings if finding.good is False}
    written = any(finding.check == WRITE and finding.good for finding in findings)
    usable: list[Purpose] = [] if bad & set(_ALWAYS) else [BOARDS]
    return [*usable, RUNS] if written and not bad else usable


def _try_verbs(store: Store, path: str, found: _Findings, purpose: Purpose | None) -> None:
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
    written = purpose != BOARDS and verb(WRITE, lambda: store.put(name, _CONTENT))
    if written:
        verb(READ, lambda: store.read(name))
        with suppress(StoreError):
            found.clock(store.stat(name).modified - time.time())
        verb(CREATE, lambda: _expect_conflict(store, name))
        if purpose == RUNS:
            verb(PARTS, lambda: store.put(name, bytes(_LARGE)))
        if not verb(DELETE, lambda: store.delete(name)):
            found.add(DELETE, False, f"{found.text(DELETE)}; {name} is left there")
    elif entries:
        verb(READ, lambda: store.read(entries[0].path, 0, 1))
    elif found.worked_well(LIST):
        found.add(READ, None, "not tried: nothing is there to read yet")


def _expect_conflict(store: Store, name: str) -> None:
    """Try to create an object that exists, which has to be refused."""
    try:
        store.put_if_absent(name, _CONTENT)
    except Conflict:
        return
    raise StoreError(
        WRITE,
        name,
        "the store replaces an object where it was told to create one, so that writers "
        "of one run could overwrite each other",
    )


class _Findings:
    """What was found; `scheme` is the store's, where permissions have names."""

    def __init__(self, purpose: Purpose | None) -> None:
        self.scheme = ""
        self._purpose = purpose
        self._by_check: dict[str, Finding] = {}
        self.is_over = False  # nothing that is tried now would tell more

    def add(self, check: str, good: bool | None, text: str) -> None:
        self._by_check[check] = Finding(check, good, text)

    def text(self, check: str) -> str:
        return self._by_check[check].text

    def worked(self, verb: str) -> None:
        self._answered()
        self.add(BUCKET, True, "there")
        self.add(verb, True, _WORKED.get(verb, f"may {verb}"))

    def worked_well(self, verb: str) -> bool:
        return verb in self._by_check and self._by_check[verb].good is True

    def failed(self, verb: str, error: StoreError) -> None:
        check = next((_ANSWERS[kind] for kind in type(error).__mro__ if kind in _ANSWERS), None)
        if check is None:
            text = error.what
            if isinstance(error, NoPermission):  # who may not look does not learn of the bucket
                self._answered()
                self._by_check.setdefault(BUCKET, Finding(BUCKET, None, "not known"))
                text += self._needs(verb)
            self.add(verb if verb in CHECKS_FOR[RUNS] else REACH, False, text)
            return
        self.add(check, False, error.what)
        self.is_over = True
        if check != REACH and verb != "open":
            self.add(REACH, True, "the store answers")

    def _needs(self, verb: str) -> str:
        """Return which permission is missing, and that boards do without it if they do."""
        needed = permission(self.scheme, WRITE if verb in (CREATE, PARTS) else verb)
        text = f"; needs {needed}" if needed else ""
        only = verb not in VERBS[BOARDS] and self._purpose is None
        return f"{text}; runs need this, boards do not" if only else text

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
        found = []
        unknown = "not known"
        for check in CHECKS_FOR[self._purpose]:
            finding = self._by_check.get(check, Finding(check, None, unknown))
            if self.is_over and finding.good is False:
                unknown = "not tried, because of the above"
            found.append(finding)
        return found


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
