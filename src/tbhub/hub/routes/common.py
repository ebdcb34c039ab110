"""What all routes share: who asks, what can go wrong, and how answers are written."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request, Response
from pydantic import BaseModel

from tbhub.api.models import Id
from tbhub.api.problems import (
    BadRequest,
    Forbidden,
    NotAuthenticated,
    Problem,
    TooLarge,
    Unavailable,
)
from tbhub.hub.access import Caller
from tbhub.hub.hub import Hub


class ProblemBody(BaseModel):
    """What went wrong."""

    code: str
    message: str
    details: dict[str, Any] = {}


class ProblemAnswer(BaseModel):
    """The answer when something was not done."""

    error: ProblemBody


def problems(*kinds: type[Problem]) -> dict[int | str, dict[str, Any]]:
    """The problems a route answers with, for the schema; those of every route are added."""
    found: dict[int | str, dict[str, Any]] = {}
    always: tuple[type[Problem], ...] = (
        BadRequest,
        NotAuthenticated,
        Forbidden,
        TooLarge,
        Unavailable,
    )
    for kind in (*kinds, *always):
        text = (kind.__doc__ or "").splitlines()[0]
        known = found.get(kind.status)
        if known is not None and text not in known["description"]:
            text = f"{known['description']} Or: {text}"
        found[kind.status] = {"model": ProblemAnswer, "description": text}
    return found


def hub_of(request: Request) -> Hub:
    """The hub that answers."""
    hub: Hub = request.app.state.hub
    return hub


def caller_of(request: Request) -> Caller:
    """Whoever asks; nobody unknown gets past."""
    hub = hub_of(request)
    caller = hub.gate.enter(request.scope).caller
    request.scope["tbhub.user"] = caller.name
    return caller


async def caller_soon(request: Request) -> Caller:
    """The same without a thread, where who asks is remembered: for what is asked very often."""
    gate = hub_of(request).gate
    known = gate.quickly(request.scope)
    if known is None:
        known = await asyncio.to_thread(gate.enter, request.scope)
    elif known.by_cookie:
        gate.require_own_page(request.scope)
    request.scope["tbhub.user"] = known.caller.name
    return known.caller


async def is_still(caller: Caller, request: Request) -> bool:
    """Whether the caller of a stream may do what they could when it began: before anything more is
    told, however much there is to tell. Who is not connects again, or no more."""
    try:
        found = await hub_of(request).gate.find_soon(request.scope)
    except Unavailable:
        return False
    return found is not None and found.caller == caller


def writer_of(caller: Annotated[Caller, Depends(caller_of)]) -> Caller:
    """Whoever asks, if they may change anything at all."""
    caller.require("write", "member")
    return caller


def ender_of(caller: Annotated[Caller, Depends(caller_of)]) -> Caller:
    """Return a caller who may end what is their own: with any role, unless the token only reads."""
    caller.require("write")
    return caller


def admin_of(caller: Annotated[Caller, Depends(caller_of)]) -> Caller:
    """An admin."""
    caller.require("admin", "admin")
    return caller


TheHub = Annotated[Hub, Depends(hub_of)]
Reader = Annotated[Caller, Depends(caller_of)]
QuickReader = Annotated[Caller, Depends(caller_soon)]
Writer = Annotated[Caller, Depends(writer_of)]
Ender = Annotated[Caller, Depends(ender_of)]
Admin = Annotated[Caller, Depends(admin_of)]

Number = Annotated[Id, Path(description="Its number.")]
BoardId = Annotated[
    str, Path(max_length=200, description="A board's id, a unique beginning of it, or its name.")
]
Word = Annotated[str, Path(max_length=200)]
Limit = Annotated[int, Query(ge=0, le=10_000, description="How many at most.")]
Offset = Annotated[int, Query(ge=0, le=2**62, description="How many to leave out first.")]


def as_json(model: BaseModel, status: int = 200) -> Response:
    """An answer that is known to be right: written without being checked once more."""
    return Response(model.model_dump_json(), status, media_type="application/json")
