"""What comes back of a call: an answer, one of the hub's problems, or nothing of a hub's."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from tbhub.api.problems import NotAuthenticated, Problem, problem_of
from tbhub.client.calls import Call
from tbhub.client.errors import HubUnreachable

T = TypeVar("T")


@dataclass(frozen=True)
class Reply:
    """An answer as it came.

    Args:
        source: Who gave it, for errors.
        rejected: The error if the hub rejects the token that was sent; empty if none was sent.
    """

    status: int
    body: bytes
    source: str = "the hub"
    rejected: str = ""


@dataclass(frozen=True)
class Lost:
    """No answer.

    Args:
        text: Why, in a sentence.
        sent: False if the hub cannot have seen the call.
    """

    text: str
    sent: bool


def read(call: Call[T], reply: Reply) -> T:
    """The answer to a call.

    Raises:
        Problem: The hub does not do it.
        HubUnreachable: This is not a hub's answer.
    """
    if not 200 <= reply.status < 300:
        raise _problem(call, reply) or HubUnreachable(
            f"what answers at {reply.source} is not a hub (status {reply.status} for "
            f"/api/v1/{call.path}): is the address right?"
        )
    kind: Any = call.answer
    if kind is type(None):
        return None  # type: ignore[return-value]
    try:
        answer: T = TypeAdapter(kind).validate_json(reply.body)
    except ValidationError:
        raise HubUnreachable(
            f"{reply.source} answers /api/v1/{call.path} with something else than expected: "
            "it is not a hub, or one of another version"
        ) from None
    return answer


def _problem(call: Call[Any], reply: Reply) -> Problem | None:
    try:
        error = json.loads(reply.body)["error"]
        found = problem_of(
            reply.status, str(error["code"]), str(error["message"]), dict(error["details"])
        )
    except (ValueError, TypeError, KeyError, LookupError):
        return None
    if isinstance(found, NotAuthenticated) and reply.rejected and call.path != "login":
        return NotAuthenticated(reply.rejected, **found.details)
    return found
