"""The hub itself: its version, who asks, how it is, its hosts, and what is new."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from importlib.metadata import version as version_of
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse, StreamingResponse

from tbhub.api.models import Findings, Host, Me, Status
from tbhub.api.problems import NotFound, Unavailable
from tbhub.hub import metrics, status
from tbhub.hub.access import Caller
from tbhub.hub.doctor import examine_hosts
from tbhub.hub.hub import Hub
from tbhub.hub.language import translate_findings
from tbhub.hub.routes.common import Admin, Reader, TheHub, Word, caller_of, is_still, problems

router = APIRouter(tags=["hub"])
health_router = APIRouter(tags=["hub"])

_PING = 15.0
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events; the data of each is an Event.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


@router.get("/version")
def version() -> dict[str, str]:
    """The hub's version; for everybody."""
    return {"version": version_of("tbhub"), "api": "v1"}


@router.get("/me", responses=problems())
def me(hub: TheHub, caller: Reader) -> Me:
    """Who asks, and what they may."""
    return status.me(hub, caller)


@router.get("/status", responses=problems())
def hub_status(hub: TheHub, caller: Reader) -> Status:
    """How the hub is, as far as the caller may know."""
    return status.status(hub, caller)


@router.get("/hosts", responses=problems())
async def list_hosts(hub: TheHub, caller: Admin) -> list[Host]:
    """The processes that serve boards; for the hub's admins."""
    return list(hub.conductor.hosts())


@router.get("/doctor", responses=problems())
async def hosts_doctor(hub: TheHub, caller: Admin) -> Findings:
    """Ask the hosts whether they can serve boards; for admins."""
    return translate_findings(await examine_hosts(hub.conductor))


@router.post("/hosts/{host}/drain", status_code=202, responses=problems(NotFound))
async def drain_host(hub: TheHub, caller: Admin, host: Word) -> Host:
    """Moves a host's boards to others and ends it; it is gone from the list when that is done."""
    return await hub.conductor.drain(host)


@router.get("/events", responses={**problems(), **_STREAM}, response_class=Response)
def events(hub: TheHub, caller: Reader, request: Request) -> StreamingResponse:
    """What changes, as it changes; begins with a ``hello``."""
    return StreamingResponse(
        _events(hub, caller, request),
        media_type="text/event-stream",
        headers={"cache-control": "no-store", "x-accel-buffering": "no"},
    )


async def _events(hub: Hub, caller: Caller, request: Request) -> AsyncIterator[str]:
    """Ends when the caller is no longer who they were."""
    async with aclosing(hub.bus.subscribe(caller)) as news:
        yield "retry: 1000\n\n"
        while not hub.bus.is_closed:
            event = await news.next(_PING)
            if not await is_still(caller, request):
                return
            if event is None:
                yield ": ping\n\n"
            else:
                yield f"event: {event.kind}\ndata: {event.model_dump_json()}\n\n"


@health_router.get("/healthz", responses={503: problems(Unavailable)[503]})
def healthz(hub: TheHub) -> dict[str, str]:
    """Whether the hub can do its work; for everybody."""
    with hub.database.read() as connection:
        connection.exec_driver_sql("SELECT 1")
    return {"status": "ok"}


@health_router.get("/metrics", response_class=PlainTextResponse, responses=problems())
def prometheus(hub: TheHub, request: Request) -> Response:
    """Numbers for Prometheus."""
    if not hub.settings.metrics_public:
        caller_of(request)
    return Response(hub.metrics.text(), media_type=metrics.CONTENT_TYPE)
