"""What can go wrong between us and a store, each with a name of its own.

Every error says what was asked, of which place, what is wrong and what to do next. None of them
holds a key, a token or a signed address: their texts are put together here from parts we know, and
not from what a library or a server said. `passing` tells whether the same request may succeed
later without anyone doing anything.
"""

from __future__ import annotations

from typing import ClassVar

from tbhub.errors import TbhubError


class StoreError(TbhubError, OSError):
    """A store did not do what it was asked."""

    passing: ClassVar[bool] = False

    def __init__(self, verb: str, where: str, what: str) -> None:
        super().__init__(f"cannot {verb} {where}: {what}")
        self.verb = verb  # list, read, write, delete, open
        self.where = where  # a URI
        self.what = what

    def __reduce__(self) -> tuple[type[StoreError], tuple[str, str, str]]:
        return type(self), (self.verb, self.where, self.what)


class BadName(StoreError, ValueError):
    """A URI or a name that no store, or not this one, can hold."""


class NotFound(StoreError, FileNotFoundError):
    """There is no such object."""


class NoBucket(StoreError, FileNotFoundError):
    """There is no such bucket or container."""


class NoPermission(StoreError, PermissionError):
    """The store knows who asks, and does not allow it; `verb` says what."""


class BadCredentials(StoreError, PermissionError):
    """The store does not accept who asks: wrong, expired or missing credentials."""


class ClockSkew(StoreError):
    """This machine's clock is too far from the store's."""


class WrongRegion(StoreError):
    """The bucket lives in another region than the one that was asked, or none is given."""


class BadCertificate(StoreError):
    """The store's certificate is not trusted, or there is nothing to check it with."""


class Conflict(StoreError, FileExistsError):
    """The object is there already, or is another version than the one that was to be replaced."""


class WrongOffset(StoreError):
    """An append that does not begin where the object ends, or says something else than is there.

    Attributes:
        size: How long the object is.
    """

    def __init__(self, verb: str, where: str, what: str, size: int = 0) -> None:
        super().__init__(verb, where, what)
        self.size = size

    def __reduce__(self) -> tuple[type[StoreError], tuple[str, str, str, int]]:  # type: ignore[override]
        return type(self), (self.verb, self.where, self.what, self.size)


class Fenced(StoreError):
    """A newer attempt goes on with the run; what this one writes is not wanted any more."""


class Unreachable(StoreError, ConnectionError):
    """No answer, half an answer, or the store says that it has failed."""

    passing = True


class BrokenOff(Unreachable):
    """An answer ended in the middle."""


class Timeout(StoreError, TimeoutError):
    """The answer did not come in time."""

    passing = True


class Throttled(StoreError):
    """The store asks for fewer requests."""

    passing = True
