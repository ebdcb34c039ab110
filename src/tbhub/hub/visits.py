"""Visits of boards: ``/boards/<short>/…``.

Every request is authorised before anything else happens, and only authorised ones keep a board from
being idle. Who may not see a board gets the answer of one that is not there; its owner, who may not
see what it shows any more, learns why. A board that is up is the proxy's; visiting the page of a
stopped one wakes it, by a share link or a caller who may start boards, and one that has ended says
why.

An open page requests the board's events again whenever their stream ends. Where there are none, the
answer says what has happened, and in ``details.next`` how the user can continue: by reloading the
page, at another address (``url``), or by starting the board first (``start``).
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol
from urllib.parse import parse_qsl, quote, urlencode

from tbhub.api.models import Board, State
from tbhub.api.problems import (
    Conflict,
    Forbidden,
    Gone,
    NotAuthenticated,
    NotFound,
    Problem,
    Unavailable,
)
from tbhub.boards.wsgi import Receive, Response, Scope, Send
from tbhub.hub import answers, pages
from tbhub.hub.access import Caller
from tbhub.hub.board_access import Access, BoardAccess
from tbhub.hub.gate import Gate, cookie, make_cookie
from tbhub.hub.language import problem_text, say
from tbhub.hub.pages import Chrome
from tbhub.hub.proxy import HostGoneError, Proxy, Target
from tbhub.hub.settings import Settings
from tbhub.hub.shares import Shares, expiry_of
from tbhub.texts import text

_SHORT = re.compile(r"[0-9a-f]{8}\Z")
_WHOLE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
_UP = (State.RUNNING, State.WAITING)
_COMING = (State.QUEUED, State.STARTING)
_ASLEEP = (State.STOPPING, State.STOPPED)
_PATIENCE = 8.0  # seconds a request waits for its board before it is told so
_RETRY = (b"retry-after", b"1")
_RETRY_PAUSE = 0.1
_BODILESS = ("GET", "HEAD")
_EVENTS = "tbhub/events"
_RECHECK_INTERVAL = 1.0  # seconds between two checks of all open pages


class Route(Protocol):
    """What the conductor knows of a board without looking."""

    @property
    def board_id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def state(self) -> State: ...
    @property
    def address(self) -> str | None: ...
    @property
    def secret(self) -> str | None: ...
    @property
    def handover(self) -> str | None: ...


class Boards(Protocol):
    """What is needed of the conductor."""

    def route(self, board: str) -> Route | None: ...
    def note_request(self, board_id: str, size: int) -> None: ...
    def streams(self, board_id: str, change: int) -> None: ...
    def wake(self, board_id: str, timeout: float) -> Awaitable[object]: ...
    def get(self, caller: Caller, board: str) -> Awaitable[Board]: ...
    def start_board(self, caller: Caller, board: str) -> Awaitable[object]: ...
    def deleted_by(self, caller: Caller, short: str) -> str | None: ...


@dataclass(frozen=True)
class _Visit:
    """A request for something of a board."""

    short: str
    path: str  # below the board, as the client has written it
    root: str  # what stands before it: <base>/boards/<short>/

    @property
    def is_page(self) -> bool:
        return self.path in ("", "index.html")

    @property
    def is_events(self) -> bool:
        return self.path == _EVENTS


class Visits:
    """The ASGI application of all board pages."""

    def __init__(
        self,
        boards: Boards,
        gate: Gate,
        access: BoardAccess,
        shares: Shares,
        proxy: Proxy,
        settings: Settings,
    ) -> None:
        self._boards = boards
        self._gate = gate
        self._access = access
        self._shares = shares
        self._proxy = proxy
        self._base = settings.base_path
        self._chrome = Chrome(self._base)
        self._access_changed = False
        self._rechecking: asyncio.Task[None] | None = None

    def close(self) -> None:
        """Ends the streams of open pages; the hub is about to."""
        if self._rechecking is not None:
            self._rechecking.cancel()
        self._proxy.end_streams()

    def recheck_soon(self) -> None:
        """End the streams of pages whose users no longer have access; their rights have changed."""
        self._access_changed = True
        if self._rechecking is None or self._rechecking.done():
            self._rechecking = asyncio.create_task(self._recheck())

    async def _recheck(self) -> None:
        while self._access_changed:
            self._access_changed = False
            for stream in self._proxy.streams:
                if not await self._has_access(stream.scope):
                    stream.end()
            await asyncio.sleep(_RECHECK_INTERVAL)

    async def _has_access(self, scope: Scope) -> bool:
        """Return whether a request for something of a board would still be allowed."""
        try:
            visit = self._visit(scope)
            if visit is None:
                return False
            route = self._boards.route(visit.short)
            return await self._caller(scope, visit, route) is not None
        except Unavailable:
            return True
        except Problem:
            return False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
            return
        try:
            response = await self._answer(scope, receive, send)
        except Problem as problem:
            response = self._problem(scope, problem)
        if response is not None:
            await response.send(send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> Response | None:
        visit = self._visit(scope)
        if visit is None:
            return self._proper(scope)
        route = self._boards.route(visit.short)
        if route is not None and b"share=" in scope["query_string"]:
            response = await self._open_share(scope, visit, route)
            if response is not None:
                return response
        try:
            caller = await self._caller(scope, visit, route)
        except NotAuthenticated:
            if not visit.is_events:
                raise
            raise NotAuthenticated(
                text("page.board_no_access"), next={"label": say("page.log_in")}
            ) from None
        if route is None or caller is None:
            raise await self._missing(scope, visit, route)
        if scope["method"] not in ("GET", "HEAD") and not self._gate.is_own_page(scope):
            raise self._gate.foreign_page(scope)
        if scope["method"] == "POST" and visit.path == "":
            return await self._start(caller, visit, route)
        wakes = visit.is_page and scope["method"] == "GET" and _may_wake(caller)
        if route.state in _COMING or (wakes and route.state in _ASLEEP):
            route = await self._waited_for(visit, route)
        if route.state not in _UP or route.address is None:
            return await self._not_up(scope, caller, visit, route)
        return await self._pass_on(scope, receive, send, caller, visit, route)

    async def _pass_on(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        caller: Caller,
        visit: _Visit,
        route: Route,
    ) -> Response | None:
        self._boards.note_request(route.board_id, 0)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _PATIENCE
        while True:
            try:
                await self._proxy.forward(scope, receive, send, self._target(visit, route))
                return None
            except HostGoneError as problem:
                left = deadline - loop.time()
                # A body has been read, and cannot be sent again.
                again = await self._replaced(visit, left) if scope["method"] in _BODILESS else None
                if again is None:
                    return self._silent(scope, route, problem)
                route = again

    async def _replaced(self, visit: _Visit, seconds: float) -> Route | None:
        """Wait for a board whose process does not answer to be served again, perhaps by another."""
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await asyncio.sleep(_RETRY_PAUSE)
                route = self._boards.route(visit.short)
                if route is not None and route.state in _COMING:
                    route = await self._waited_for(visit, route)
                if route is not None and route.state in _UP and route.address is not None:
                    return route
        return None

    def _silent(self, scope: Scope, route: Route, problem: HostGoneError) -> Response:
        if not answers.wants_page(scope):
            return answers.problem(problem, _RETRY)
        page = pages.message_page(self._chrome, route.name, say("page.board_silent"), again=True)
        return answers.html(503, page, _RETRY, framed=True)

    def _target(self, visit: _Visit, route: Route) -> Target:
        assert route.address is not None
        return Target(
            address=route.address,
            secret=route.secret or "",
            root=f"/b/{route.board_id}/",
            path=visit.path,
            public=visit.root,
            count=partial(self._boards.note_request, route.board_id),
            stream=partial(self._boards.streams, route.board_id),
            handover=route.handover,
        )

    def _visit(self, scope: Scope) -> _Visit | None:
        """What is asked for; None for a board that is not called as it goes by here: by its whole
        id, or without the slash that has to follow."""
        beginning = f"{self._base}/boards/"
        raw = (scope.get("raw_path") or quote(scope["path"]).encode()).decode("latin-1")
        if not raw.startswith(beginning):
            raise NotFound(text("missing.page"))
        short, slash, path = raw.removeprefix(beginning).partition("/")
        is_whole = _WHOLE.match(short) is not None
        if not is_whole and not _SHORT.match(short):
            raise NotFound(text("missing.board"))
        if is_whole or not slash:
            return None
        # The host must not be led out of the board, by whatever way these are written.
        if any(each in (".", "..") for each in re.split(r"[/\\]", scope["path"])):
            raise NotFound(text("missing.page"))
        return _Visit(short, path, f"{beginning}{short}/")

    def _proper(self, scope: Scope) -> Response:
        """To the address that a board goes by."""
        query = scope["query_string"].decode("latin-1")
        board, _, path = scope["path"].removeprefix(f"{self._base}/boards/").partition("/")
        where = f"{self._base}/boards/{board[:8]}/{path}"
        return answers.redirect(quote(where) + (f"?{query}" if query else ""), status=308)

    # --- who

    async def _caller(self, scope: Scope, visit: _Visit, route: Route | None) -> Caller | None:
        """Return the caller if they may see what the board shows; None if they may not.

        Raises:
            NotAuthenticated: Nobody known asks.
            Forbidden: The board is the caller's, but a right to one of its sources is missing.
        """
        found = await self._gate.find_soon(scope)
        access = None
        if found is not None and route is not None:
            access = await self._access_of(found.caller, route)
            if access.is_open:
                return found.caller
        link = cookie(scope, self._gate.share_cookie(visit.short))
        if link is not None and route is not None:
            shared = self._shares.remembered(link, route.board_id) or await asyncio.to_thread(
                self._shares.open, link, route.board_id
            )
            if shared is not None:
                return shared
        if found is None:
            raise NotAuthenticated(text("login.first_or_link"))
        if access is not None and access.missing is not None:
            raise Forbidden(access.missing, next=self._all_boards())
        return None

    async def _access_of(self, caller: Caller, route: Route) -> Access:
        known = self._access.remembered(caller, route.board_id)
        if known is None:
            known = await asyncio.to_thread(self._access.of, caller, route.board_id)
        return known

    async def _open_share(self, scope: Scope, visit: _Visit, route: Route) -> Response | None:
        """A good share link becomes a cookie for this board alone, and leaves the address."""
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        link = next((value for name, value in query if name == "share"), "")
        rest = urlencode([(name, value) for name, value in query if name != "share"])
        if scope["method"] != "GET" or not link:
            return None
        caller = await asyncio.to_thread(self._shares.open, link, route.board_id)
        if caller is None:
            if await self._gate.find_soon(scope) is not None:
                return None
            title, reason = say("page.share_over"), say("page.share_over_text")
            return answers.html(404, pages.message_page(self._chrome, title, reason), framed=True)
        where = visit.root + visit.path + (f"?{rest}" if rest else "")
        name = self._gate.share_cookie(visit.short)
        lasting = expiry_of(link) - time.time()
        return answers.redirect(where, make_cookie(scope, name, link, visit.root, lasting))

    # --- boards that are not up

    async def _missing(self, scope: Scope, visit: _Visit, route: Route | None) -> NotFound:
        """Return the answer for a board that was deleted, never existed or may not be seen.

        Only users who could see a board learn that it was deleted.
        """
        onwards = self._all_boards()
        found = await self._gate.find_soon(scope) if route is None else None
        by = None if found is None else self._boards.deleted_by(found.caller, visit.short)
        if by:
            return NotFound(text("page.board_deleted_by", name=by), next=onwards)
        if visit.is_events:
            return NotFound(text("page.board_no_access"), next=onwards)
        return NotFound(text("missing.board"))

    def _all_boards(self) -> dict[str, object]:
        """Return the way from a page of a board to the list of boards."""
        return {"label": say("page.all_boards"), "url": f"{self._base}/boards"}

    async def _waited_for(self, visit: _Visit, route: Route) -> Route:
        """A board is waited for while it starts or moves; one that was stopped is woken."""
        with suppress(Unavailable, Conflict):  # which the page then says
            await self._boards.wake(route.board_id, _PATIENCE)
        return self._boards.route(visit.short) or route

    async def _not_up(self, scope: Scope, caller: Caller, visit: _Visit, route: Route) -> Response:
        may_come = route.state in (*_COMING, *_UP) or (route.state in _ASLEEP and _may_wake(caller))
        if not answers.wants_page(scope):
            problem = await self._why_not_up(caller, route)
            return answers.problem(problem, *[_RETRY] * may_come)
        if may_come:
            page = pages.waiting_page(self._chrome, route.name, route.state)
            return answers.html(503, page, _RETRY, framed=True)
        if route.state is State.STOPPING:
            page = pages.message_page(self._chrome, route.name, say("page.board_stops"), again=True)
            return answers.html(503, page, _RETRY, framed=True)
        board = await self._boards.get(caller, route.board_id)
        page = pages.ended_page(self._chrome, board, refusal=_why_no_start(caller))
        return answers.html(410, page, framed=True)

    async def _why_not_up(self, caller: Caller, route: Route) -> Problem:
        """Return why a board is not up; with how to continue if it does not come up by itself."""
        state = route.state
        if state not in (State.STOPPED, State.TERMINATED, State.FAILED):
            return Unavailable(f"this board is {state.value}", state=state.value)
        board = await self._boards.get(caller, route.board_id)
        why = board.message.partition("\n")[0]
        onwards: dict[str, object] = {"label": say("page.details")}
        if state is State.STOPPED:
            if _may_wake(caller):
                onwards["label"] = say("page.start_again")  # loading the page starts the board
            message = text("page.board_not_running", why=why)
            return Unavailable(message, state=state.value, next=onwards)
        if state is State.TERMINATED:
            return Gone(text("page.board_ended", why=why), state=state.value, next=onwards)
        if caller.may("write", "member"):
            onwards = {"label": say("page.start_again"), "start": True}
        return Gone(text("page.board_failed", why=why), state=state.value, next=onwards)

    async def _start(self, caller: Caller, visit: _Visit, route: Route) -> Response:
        caller.require("write", "member")
        await self._boards.start_board(caller, route.board_id)
        return answers.redirect(visit.root)

    def _problem(self, scope: Scope, problem: Problem) -> Response:
        if not answers.wants_page(scope):
            return answers.problem(problem)
        if isinstance(problem, NotAuthenticated):
            return answers.redirect(login_address(self._base, scope))
        page = pages.problem_page(self._chrome, problem)
        return answers.html(problem.status, page, framed=True)

    # --- websockets

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            visit = self._visit(scope)
            route = None if visit is None else self._boards.route(visit.short)
            caller = None if visit is None else await self._caller(scope, visit, route)
            if visit is None or route is None or caller is None or route.address is None:
                raise NotFound(text("missing.board"))
            if not self._gate.is_own_page(scope):
                raise self._gate.foreign_page(scope)
            self._boards.note_request(route.board_id, 0)
            await self._proxy.websocket(scope, receive, send, self._target(visit, route))
        except Problem:
            await send({"type": "websocket.close", "code": 1008})


def _may_wake(caller: Caller) -> bool:
    """Return whether a visit starts a stopped board.

    The caller must be allowed to start boards. A share link shows its board until the link expires.
    """
    return caller.share is not None or caller.may("write", "member")


def _why_no_start(caller: Caller) -> str | None:
    """Return why a caller may not start a board; None if the caller may."""
    try:
        caller.require("write", "member")
    except Forbidden as problem:
        return problem_text(problem)
    return None


def login_address(base: str, scope: Scope) -> str:
    """Where a person logs in who then comes back to what they asked for."""
    query = scope["query_string"].decode("latin-1")
    after = quote(scope["path"]) + (f"?{query}" if query else "")
    return f"{base}/login?{urlencode({'next': after})}"
