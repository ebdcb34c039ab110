"""The points of runs, for charts that are not a board's: asked of a host, which follows the runs.

What a host needs to read a run goes with every request, after the caller's right to see the run was
looked up. So the hub remembers nothing, and neither needs the host to: where one has died, the next
is asked the same.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import orjson

from tbhub.api.problems import NotFound, TooLarge, Unavailable
from tbhub.boards.wsgi import Headers
from tbhub.database.engine import Database
from tbhub.hub.access import Caller
from tbhub.hub.host_link import HostLink
from tbhub.hub.host_payload import Credentials, places
from tbhub.hub.hosts import NoHostError
from tbhub.hub.upstream import Answer, Upstream, UpstreamError

_PATIENCE = 20.0  # seconds for another host to be there, where one has died
_PAUSE = 0.05


class Series:
    """Belongs to one event loop."""

    def __init__(
        self,
        database: Database,
        ready_host: Callable[[], Awaitable[HostLink]],
        credentials: Credentials,
    ) -> None:
        self._database = database
        self._ready_host = ready_host
        self._credentials = credentials
        self._upstream = Upstream()
        self._open: set[Answer] = set()

    def close(self) -> None:
        """Ends what would not end by itself, and the connections."""
        for each in list(self._open):
            each.close()
        self._upstream.close()

    async def ask(
        self,
        caller: Caller,
        kind: str,
        runs: Sequence[int],
        asked: dict[str, Any],
        headers: Headers,
    ) -> Answer:
        """The answer of a host about some runs; whoever gets it reads it with `pieces`.

        Raises:
            NotFound: A run is not there, or not for the caller; or what is asked of it is not.
            TooLarge: Less has to be asked for.
            Unavailable: No host answers.
        """
        found = await asyncio.to_thread(self._places, caller, runs)
        body = orjson.dumps({"runs": found, **asked})
        answer = await self._ask(f"/series/{kind}", body, headers)
        if answer.status == 200:
            return answer
        try:
            text = orjson.loads(b"".join([piece async for piece in answer.pieces()]))["error"]
        except (UpstreamError, ValueError, KeyError):
            text = "the process that reads runs could not answer; its log says why"
        finally:
            answer.close()
        raise {404: NotFound, 413: TooLarge}.get(answer.status, Unavailable)(text)

    def _places(self, caller: Caller, ids: Sequence[int]) -> list[dict[str, Any]]:
        wanted = list(dict.fromkeys(ids))
        with self._database.read() as connection:
            found = places(connection, wanted, caller.visible, self._credentials)
        for each in wanted:
            if each not in found:
                raise NotFound(f"no run {each}")
        return [found[each] for each in wanted]

    async def _ask(self, target: str, body: bytes, headers: Headers) -> Answer:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                async with asyncio.timeout(deadline - time.monotonic()):
                    link = await self._ready_host()
            except (NoHostError, TimeoutError) as error:
                raise Unavailable(f"no process that reads runs: {error}") from error
            shown = [
                *headers,
                (b"authorization", f"Bearer {link.secret}".encode()),
                (b"content-length", str(len(body)).encode()),
            ]
            try:
                assert link.address is not None
                return await self._upstream.ask(link.address, "POST", target, shown, _once(body))
            except UpstreamError as error:
                # It has closed a connection that was long unused, or is dying: then another comes.
                if time.monotonic() > deadline:
                    raise Unavailable("the process that reads runs does not answer") from error
            await asyncio.sleep(_PAUSE)

    async def pieces(self, answer: Answer) -> AsyncIterator[bytes]:
        """The body of an answer. One that breaks off is left unfinished."""
        self._open.add(answer)
        try:
            async for piece in answer.pieces():
                yield piece
        finally:
            self._open.discard(answer)
            answer.close()


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body
