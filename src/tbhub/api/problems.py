"""What can go wrong between a client and the hub: raised by the hub, sent as JSON, raised again.

On the wire a problem is ``{"error": {"code": …, "message": …, "details": {…}}}`` under its status.
"""

from __future__ import annotations

from typing import Any, ClassVar

from tbhub.errors import TbhubError


class Problem(TbhubError):
    """The root of what a hub answers when it does not do what was asked."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal"

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    def to_json(self) -> dict[str, Any]:
        """As it is sent."""
        return {"error": {"code": self.code, "message": self.message, "details": self.details}}


class BadRequest(Problem, ValueError):
    """The request cannot be understood; for a selector, `details["position"]` says where."""

    status = 422
    code = "bad_request"


class NotAuthenticated(Problem, PermissionError):
    """Nobody is logged in, or the token is unknown, expired or revoked."""

    status = 401
    code = "not_authenticated"


class Forbidden(Problem, PermissionError):
    """Known to exist, but not for this role; what may not even be seen is `NotFound`."""

    status = 403
    code = "forbidden"


class NotFound(Problem, LookupError):
    """No such board, run, user, …, or none that the caller may see."""

    status = 404
    code = "not_found"


class WrongMethod(Problem):
    """Nothing at this address is asked so."""

    status = 405
    code = "wrong_method"


class Ambiguous(Problem, LookupError):
    """A prefix or a name that fits several; `details["matches"]` lists them."""

    status = 409
    code = "ambiguous"


class Conflict(Problem):
    """It is there already, or is not in a state in which this can be done."""

    status = 409
    code = "conflict"


class Fenced(Conflict):
    """A newer attempt goes on with the run; `details["attempt"]` is its number. What the older one
    says counts no more."""

    code = "fenced"


class WrongOffset(Conflict):
    """Bytes that do not go on where a file ends; `details["size"]` says where that is."""

    code = "wrong_offset"


class Gone(Problem):
    """It has ended, and does not come back by itself."""

    status = 410
    code = "gone"


class Changed(Problem):
    """The file is there already, or is another version than the one that was to be replaced."""

    status = 412
    code = "changed"


class TensorboardLimitExceeded(Problem):
    """No more boards may run at once; `details["boards"]` names those that hold the places."""

    status = 409
    code = "limit_exceeded"


class TooManyRequests(Problem):
    """Too many failed attempts; `details["retry_after"]` is in seconds."""

    status = 429
    code = "too_many_requests"


class TooLarge(Problem):
    """The request's body is larger than is taken."""

    status = 413
    code = "too_large"


class PastEnd(Problem):
    """The range that was asked for lies behind the end of the file."""

    status = 416
    code = "past_end"


class NoRoom(Problem):
    """The disk that the hub keeps files on is full."""

    status = 507
    code = "no_room"


class Unreadable(Problem, OSError):
    """A place that boards could not read; `details["check"]` names what failed."""

    status = 422
    code = "unreadable"


class Unavailable(Problem):
    """For now it cannot be done: the database or a host does not answer, or there is too much to
    do; `details["retry_after"]` may say for how many seconds."""

    status = 503
    code = "unavailable"


def _all(kind: type[Problem]) -> dict[str, type[Problem]]:
    found = {kind.code: kind}
    for below in kind.__subclasses__():
        found.update(_all(below))
    return found


def problem_of(status: int, code: str, message: str, details: dict[str, Any]) -> Problem:
    """The problem that was sent; one with an unknown code goes by its status."""
    kinds = _all(Problem)
    kind = kinds.get(code) or next(
        (each for each in kinds.values() if each.status == status), Problem
    )
    return kind(message, **details)
