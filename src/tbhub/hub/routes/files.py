"""``/api/v1/runs/{run}/files``: the files of a run; those that the hub keeps can grow.

A path is taken literally and stays below the run's directory. A body is taken piece by piece, as
long as there is room for it; nothing here makes the event loop wait for a disk.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path as FilePath
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Request, Response
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse

from tbhub.api.models import Attempt, DeletedFiles, FileEntries, FileEntry, Written
from tbhub.api.problems import (
    BadRequest,
    Changed,
    Conflict,
    NoRoom,
    NotFound,
    PastEnd,
    TooLarge,
    Unavailable,
)
from tbhub.catalog.attempts import fenced
from tbhub.hub.access import Caller
from tbhub.hub.downloads import Download, open_files
from tbhub.hub.files import CHUNK, Facts, as_problem, checked
from tbhub.hub.hub import Hub
from tbhub.hub.routes.common import Number, QuickReader, TheHub, as_json, problems
from tbhub.storage.errors import StoreError
from tbhub.storage.joined import Readable
from tbhub.storage.store import Entry, Patience

router = APIRouter(tags=["files"])

_PIECE = 1 << 20  # bytes read or written at a time
_BODY_SECONDS = 120.0  # for a body of an append to arrive
_PATIENCE = Patience(timeout=15.0, connect_timeout=5.0, retries=2, total=20.0)
_RANGE = re.compile(r"bytes=(\d{1,18})?-(\d{1,18})?")

Name = Annotated[str, Path(min_length=1, max_length=1024, description="Below the run.")]
TheAttempt = Annotated[
    Attempt | None, Query(description="Of the worker that writes; older ones are refused.")
]
_UPLOAD = "^[0-9a-f]{32}$"
Upload = Annotated[
    str, Query(pattern=f"{_UPLOAD}|^$", description="An upload in parts, as its client names it.")
]
Below = Annotated[str, Query(max_length=1024, description="A directory of the run.")]

_WRITING = problems(NotFound, Conflict, Changed, NoRoom)
_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


# --- reading


@router.get("/runs/{run}/files", responses=problems(NotFound), response_model=FileEntries)
async def list_files(
    hub: TheHub,
    caller: QuickReader,
    run: Number,
    below: Below = "",
    only: Annotated[str, Query(max_length=1024, description="Just this file.")] = "",
) -> Response:
    """The files of a run, wherever it is."""
    facts = await _seen(hub, caller, run)
    found = await asyncio.to_thread(_list, hub, run, facts, below, only)
    return as_json(FileEntries(files=found))


@router.get(
    "/runs/{run}/files/{path:path}",
    responses={
        **problems(NotFound, PastEnd),
        200: {"content": {"application/octet-stream": {}}, "description": "The file."},
        206: {"content": {"application/octet-stream": {}}, "description": "A part of it."},
    },
    response_class=Response,
)
async def read_file(
    request: Request,
    hub: TheHub,
    caller: QuickReader,
    run: Number,
    path: Name,
    wanted: Annotated[str, Header(alias="range", max_length=100)] = "",
) -> Response:
    """A file of a run, or a range of it."""
    _literally(request)
    facts = await _seen(hub, caller, run)
    checked(path)
    download = await asyncio.to_thread(_download, hub, run, facts, path)
    entry = download.entry
    try:
        begin, end = _range(wanted, entry.size)
        first = await asyncio.to_thread(download.read, begin, min(_PIECE, end - begin))
    except StoreError as error:
        download.close()
        raise as_problem(error, path) from None
    except BaseException:
        download.close()
        raise
    headers = {
        "etag": f'"{entry.version}"',
        "accept-ranges": "bytes",
        "content-length": str(end - begin),
        "content-disposition": "attachment",
    }
    is_part = bool(wanted) and end - begin < entry.size
    if is_part:
        headers["content-range"] = f"bytes {begin}-{end - 1}/{entry.size}"
    return StreamingResponse(
        _pieces(download, first, begin, end),
        206 if is_part else 200,
        headers,
        "application/octet-stream",
    )


# --- writing


@router.put("/runs/{run}/files/{path:path}", responses=_WRITING, openapi_extra=_BODY)
async def write_file(
    request: Request,
    hub: TheHub,
    caller: QuickReader,
    run: Number,
    path: Name,
    offset: Annotated[
        int | None, Query(ge=0, le=2**62, description="Where the file ends: appends to it.")
    ] = None,
    whole: Annotated[bool, Query(description="Replaces the file.")] = False,
    upload: Upload = "",
    attempt: TheAttempt = None,
    if_match: Annotated[str, Header(max_length=200)] = "",
    if_none_match: Annotated[str, Header(max_length=200)] = "",
) -> Written:
    """Append to a file, at most 16 MiB, or replace it; the answer comes when the disk has it.

    With `upload` the bytes are a part of a file that takes the place of this one later, by POST.
    """
    _literally(request)
    if whole == (offset is not None):
        raise BadRequest("say where the bytes go (offset) or that they are the file (whole)")
    await _writable(hub, caller, run, attempt)
    checked(path)
    if upload and offset is None:
        raise BadRequest("a part of an upload needs its offset")
    if offset is not None:
        async with hub.files.room(_length(request, CHUNK)):
            data = await _body(request)
            if upload:
                if offset + len(data) > hub.settings.max_file:
                    raise TooLarge(f"a file may have {hub.settings.max_file >> 20} MiB")
                size = await asyncio.to_thread(_append_part, hub, run, upload, offset, data)
            else:
                size = await hub.files.append(run, path, attempt, offset, data)
        return Written(size=size, version="")
    absent, version = if_none_match == "*", if_match.strip('"') or None
    is_plain = not absent and version is None
    if is_plain and _length(request, hub.settings.max_file) > CHUNK:
        return await _put_large(request, hub, run, path, attempt)
    async with hub.files.room(_length(request, CHUNK)):
        data = await _body(request)
        made = await hub.files.put(run, path, attempt, data, absent=absent, version=version)
    return Written(size=len(data), version=made)


@router.post("/runs/{run}/files/{path:path}", responses=_WRITING)
async def complete_upload(
    request: Request,
    hub: TheHub,
    caller: QuickReader,
    run: Number,
    path: Name,
    upload: Annotated[str, Query(pattern=_UPLOAD, description="The upload.")],
    size: Annotated[int, Query(ge=0, le=2**62, description="Bytes of all parts together.")],
    attempt: TheAttempt = None,
) -> Written:
    """Replace a file by an upload that has all its parts."""
    _literally(request)
    await _writable(hub, caller, run, attempt)
    made = await hub.files.put_parts(run, checked(path), attempt, upload, size)
    return Written(size=size, version=made)


@router.delete("/runs/{run}/files", responses=_WRITING)
async def delete_files(
    hub: TheHub, caller: QuickReader, run: Number, below: Below = "", attempt: TheAttempt = None
) -> DeletedFiles:
    """Deletes all files of a run that the hub keeps, or those below a directory."""
    await _writable(hub, caller, run, attempt)
    deleted = await hub.files.delete_below(run, checked(below) if below else "", attempt)
    return DeletedFiles(deleted=deleted)


@router.delete("/runs/{run}/files/{path:path}", responses=_WRITING)
async def delete_file(
    request: Request,
    hub: TheHub,
    caller: QuickReader,
    run: Number,
    path: Name,
    upload: Upload = "",
    attempt: TheAttempt = None,
) -> DeletedFiles:
    """Delete a file that the hub keeps; there need not be one.

    With `upload` the file stays, and the parts that were uploaded to replace it are deleted.
    """
    _literally(request)
    await _writable(hub, caller, run, attempt)
    if upload:
        await asyncio.to_thread(hub.files.uploads.discard, run, upload)
        return DeletedFiles(deleted=0)
    return DeletedFiles(deleted=await hub.files.delete(run, checked(path), attempt))


# --- parts


def _literally(request: Request) -> None:
    """A name cannot hold a slash: what would become one is meant to lead elsewhere."""
    if b"%2f" in request.scope.get("raw_path", b"").lower():
        raise BadRequest("a name cannot hold a slash, in whatever form")


async def _seen(hub: Hub, caller: Caller, run: int) -> Facts:
    facts = hub.files.known(run)
    if facts is None:
        facts = await asyncio.to_thread(hub.files.facts, run)
    if not caller.may_see(facts.workspace_id):
        raise NotFound(f"There is no run {run}.")
    return facts


async def _writable(hub: Hub, caller: Caller, run: int, attempt: int | None) -> None:
    facts = await _seen(hub, caller, run)
    caller.require_write(facts.workspace_id, "run")
    if not facts.kept:
        raise Conflict(f"the hub does not keep the files of run {run}; it logs to {facts.location}")
    if not hub.files.keeps(run, facts):
        raise Conflict(
            f"the files of run {run} are at {facts.location}, which is not the hub's storage now"
        )
    if attempt is not None and attempt < facts.attempt:
        raise fenced(run, attempt, facts.attempt)


def _open(hub: Hub, run: int, facts: Facts) -> tuple[Readable, str]:
    try:
        return open_files(hub, run, facts, _PATIENCE)
    except StoreError as error:
        raise Unavailable(str(error)) from None


def _download(hub: Hub, run: int, facts: Facts, path: str) -> Download:
    store, top = _open(hub, run, facts)
    try:
        return Download(store, f"{top}/{path}")
    except StoreError as error:
        store.close()
        raise as_problem(error, path) from None


def _list(hub: Hub, run: int, facts: Facts, below: str, only: str) -> list[FileEntry]:
    store, top = _open(hub, run, facts)
    try:
        if only:
            return [_shown(store.stat(f"{top}/{checked(only)}"), top)]
        prefix = f"{top}/{checked(below)}" if below else top
        return [_shown(entry, top) for entry in store.list(prefix)]
    except StoreError as error:
        raise as_problem(error, only or below) from None
    finally:
        store.close()


def _shown(entry: Entry, top: str) -> FileEntry:
    return FileEntry(
        path=entry.path[len(top) + 1 :],
        size=entry.size,
        version=entry.version,
        modified=entry.modified,
    )


def _range(wanted: str, size: int) -> tuple[int, int]:
    """The bytes of a file that a header names; all of them if it cannot be understood."""
    found = _RANGE.fullmatch(wanted.strip())
    if found is None or (found[1] is None and found[2] is None):
        return 0, size
    if found[1] is None:
        begin, end = max(0, size - int(found[2])), size
    else:
        begin = int(found[1])
        end = size if found[2] is None else min(size, int(found[2]) + 1)
    if begin >= size:
        raise PastEnd(f"the file has {size} bytes", size=size)
    return (begin, end) if begin < end else (0, size)


async def _pieces(download: Download, first: bytes, begin: int, end: int) -> AsyncIterator[bytes]:
    """An answer; one that cannot be kept breaks off."""
    try:
        piece = first
        while piece:
            yield piece
            begin += len(piece)
            if begin >= end:
                return
            piece = await asyncio.to_thread(download.read, begin, min(_PIECE, end - begin))
            if begin + len(piece) >= end and not await asyncio.to_thread(download.is_same):
                return
    except OSError:
        return
    finally:
        download.close()


def _length(request: Request, most: int) -> int:
    """How long a body will be: as it says, or as long as it may be."""
    told = request.headers.get("content-length", "")
    length = int(told) if told.isdecimal() and len(told) < 19 else most
    if length > most:
        raise TooLarge(f"at most {most >> 20} MiB at a time")
    return length


async def _body(request: Request) -> bytes:
    """All of a body that is bounded."""
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for piece in request.stream():
                size += len(piece)
                if size > CHUNK:
                    raise TooLarge(f"at most {CHUNK >> 20} MiB at a time")
                pieces.append(piece)
    except ClientDisconnect:
        raise BadRequest("the body broke off") from None
    except TimeoutError:
        raise Unavailable("the body did not come in time", retry_after=1) from None
    return b"".join(pieces)


def _append_part(hub: Hub, run: int, upload: str, offset: int, data: bytes) -> int:
    try:
        return hub.files.uploads.append(run, upload, offset, data)
    except (StoreError, OSError) as error:
        raise as_problem(error, "the upload") from None


async def _put_large(
    request: Request, hub: Hub, run: int, path: str, attempt: int | None
) -> Written:
    """A file that does not fit in memory goes to the disk as it comes."""
    with hub.files.incoming() as incoming:
        async with hub.files.room(2 * _PIECE):
            size = await _spool(request, incoming, hub.settings.max_file)
        version = await hub.files.put(run, path, attempt, incoming)
    return Written(size=size, version=version)


async def _spool(request: Request, incoming: FilePath, most: int) -> int:
    size = 0
    waiting: list[bytes] = []
    held = 0
    try:
        with incoming.open("xb", buffering=0) as file:
            async for piece in request.stream():
                size, held = size + len(piece), held + len(piece)
                if size > most:
                    raise TooLarge(f"a file may have {most >> 20} MiB")
                waiting.append(piece)
                if held >= _PIECE:
                    await asyncio.to_thread(file.write, b"".join(waiting))
                    waiting, held = [], 0
            await asyncio.to_thread(file.write, b"".join(waiting))
    except ClientDisconnect:
        raise BadRequest("the body broke off") from None
    except OSError as error:
        raise as_problem(error, incoming.name) from None
    return size
