"""``/api/v1/series``: points, tags, images and news of runs, for charts."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from tbhub.api.models import Id, Images, SeriesImages, SeriesQuery, SeriesRuns, SeriesTags, Tag
from tbhub.api.packed_series import CONTENT_TYPE
from tbhub.api.problems import NotFound
from tbhub.boards.wsgi import Headers
from tbhub.hub.access import Caller
from tbhub.hub.hub import Hub
from tbhub.hub.routes.common import QuickReader, TheHub, problems
from tbhub.hub.upstream import Answer, UpstreamError

router = APIRouter(tags=["series"])

_LOOK_AGAIN = 15.0  # seconds after which a stream's reader is looked up again
_LINES = "application/x-ndjson"
_PASSED_ON = frozenset({b"content-type", b"content-length", b"content-encoding", b"vary"})


def _binary(description: str, *kinds: str) -> dict[int | str, dict[str, Any]]:
    schema = {"schema": {"type": "string", "format": "binary"}}
    return {200: {"description": description, "content": dict.fromkeys(kinds, schema)}}


@router.post(
    "/series",
    responses={**problems(NotFound), **_binary("Packed series.", CONTENT_TYPE)},
    response_class=Response,
)
async def points(
    hub: TheHub, caller: QuickReader, request: Request, asked: SeriesQuery
) -> Response:
    """The points of some tags of some runs, thinned out from all there are."""
    query = {
        "tags": asked.tags,
        "points": asked.points,
        "x": asked.x,
        "low": asked.min,
        "high": asked.max,
        "x_tag": asked.x_tag,
        "means": asked.means,
    }
    return await _passed_on(hub, caller, request, "points", asked.runs, {"query": query})


@router.post("/series/tags", responses=problems(NotFound), response_model=SeriesTags)
async def tags(hub: TheHub, caller: QuickReader, request: Request, asked: SeriesRuns) -> Response:
    """The tags of some runs, and how many of the runs have each."""
    return await _passed_on(hub, caller, request, "tags", asked.runs, {})


@router.post("/series/images", responses=problems(NotFound), response_model=Images)
async def images(
    hub: TheHub, caller: QuickReader, request: Request, asked: SeriesImages
) -> Response:
    """At which steps some runs have images."""
    return await _passed_on(hub, caller, request, "images", asked.runs, {"tags": asked.tags})


@router.get(
    "/series/image",
    responses={**problems(NotFound), **_binary("The image.", "image/*")},
    response_class=Response,
)
async def image(
    hub: TheHub,
    caller: QuickReader,
    request: Request,
    run: Annotated[Id, Query()],
    tag: Annotated[Tag, Query()],
    step: Annotated[int, Query(ge=-(2**63), le=2**63 - 1)],
    wall_time: Annotated[float, Query(allow_inf_nan=False)],
    sample: Annotated[int, Query(ge=0, le=10_000)] = 0,
) -> Response:
    """One image."""
    place = {"tag": tag, "step": step, "wall_time": wall_time, "sample": sample}
    answer = await _passed_on(hub, caller, request, "image", [run], place)
    # What was logged once stays as it is.
    answer.headers["cache-control"] = "private, max-age=86400, immutable"
    return answer


@router.post(
    "/series/news",
    responses={**problems(NotFound), **_binary("Lines of JSON.", _LINES)},
    response_class=Response,
)
async def news(hub: TheHub, caller: QuickReader, request: Request, asked: SeriesRuns) -> Response:
    """Which of some runs have news, as they have: ``{"runs": [numbers]}`` in a line each."""
    answer = await hub.series.ask(caller, "news", asked.runs, {}, [])
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    lines = _news(hub, caller, request, answer)
    return StreamingResponse(lines, media_type=_LINES, headers=headers)


async def _news(hub: Hub, caller: Caller, request: Request, answer: Answer) -> AsyncIterator[bytes]:
    """Ends when the caller is no longer who they were, or with the host: they ask again."""
    looked = time.monotonic()
    try:
        async for piece in hub.series.pieces(answer):
            yield piece
            if time.monotonic() - looked > _LOOK_AGAIN:
                looked = time.monotonic()
                found = await hub.gate.find_soon(request.scope)
                if found is None or found.caller != caller:
                    return
    except UpstreamError:
        return


async def _passed_on(
    hub: Hub, caller: Caller, request: Request, kind: str, runs: list[int], asked: dict[str, Any]
) -> Response:
    answer = await hub.series.ask(caller, kind, runs, asked, _to_host(request))
    made = StreamingResponse(hub.series.pieces(answer))
    made.raw_headers = [each for each in answer.headers if each[0] in _PASSED_ON]
    return made


def _to_host(request: Request) -> Headers:
    """What a host has to know to compress what goes to other machines, and nothing else of it."""
    client = request.scope.get("client")
    if client is None or client[0].startswith("127.") or client[0] == "::1":
        return []
    accepted = request.headers.get("accept-encoding", "").encode("latin-1")
    return [(b"accept-encoding", accepted), (b"x-forwarded-for", client[0].encode("latin-1"))]
