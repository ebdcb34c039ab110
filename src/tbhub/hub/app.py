"""The hub as an ASGI application: what comes in goes to the boards, to their static files, or to
the API and the hub's own pages.

Whatever goes wrong is answered as a problem, as JSON to programs and as a page to people; nothing
is answered without the headers that keep browsers careful.
"""

from __future__ import annotations

import logging
import time
from importlib.metadata import version
from urllib.parse import parse_qsl, quote, urlencode

from fastapi import FastAPI, Request
from fastapi import Response as FastResponse
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DataError
from starlette.exceptions import HTTPException

from tbhub.api.problems import (
    BadRequest,
    Forbidden,
    NotFound,
    Problem,
    TooLarge,
    WrongMethod,
    problem_of,
)
from tbhub.boards.answers import static_file
from tbhub.boards.assets import Assets
from tbhub.boards.wsgi import Message, Receive, Response, Scope, Send
from tbhub.catalog.selectors import SelectorError
from tbhub.hub import answers, pages
from tbhub.hub.forwarded import Forwarded
from tbhub.hub.gate import asked_at
from tbhub.hub.hub import Hub
from tbhub.hub.language import language, language_of, refused_fields
from tbhub.hub.page_files import PageFiles
from tbhub.hub.pages import Chrome
from tbhub.hub.routes import (
    about,
    attempts,
    boards,
    files,
    internal,
    people,
    runs,
    series,
    sessions,
    storage,
    table,
    workspaces,
)
from tbhub.hub.routes import pages as page_routes
from tbhub.texts import text

logger = logging.getLogger("tbhub.hub")
access_logger = logging.getLogger("tbhub.access")

_API = "/api/v1"
_ANY_PATH = "{path}"
_PAGE_FILES = ("/assets/", "/theme.js", "/icon.svg")
_INTERNAL = Problem("something went wrong in the hub; its log says what")


def create_app(hub: Hub) -> Front:
    """The application of a hub."""
    api = make_api(hub)
    api.state.page_files = PageFiles(hub.settings.base_path)
    return Front(hub, api)


def make_api(hub: Hub) -> FastAPI:
    """The API and the hub's own pages."""
    api = FastAPI(
        title="tbhub",
        version=version("tbhub"),
        description="Runs, boards, and the people who look at them.",
        openapi_url=f"{_API}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=False,
    )
    api.state.hub = hub
    for router in (
        about.router,
        sessions.router,
        workspaces.router,
        table.router,
        runs.router,
        series.router,
        attempts.router,
        files.router,
        storage.router,
        boards.router,
        people.router,
    ):
        api.include_router(router, prefix=_API)
    for router in (about.health_router, internal.router, page_routes.router):
        api.include_router(router)
    api.add_exception_handler(Problem, _problem)
    api.add_exception_handler(SelectorError, _selector_error)
    api.add_exception_handler(RequestValidationError, _invalid)
    api.add_exception_handler(HTTPException, _http_error)
    api.add_exception_handler(DataError, _data_error)
    return api


class Front:
    """What every request passes first."""

    def __init__(self, hub: Hub, api: FastAPI) -> None:
        self.api = api
        self._hub = hub
        self._base = hub.settings.base_path
        self._forwarded = Forwarded(hub.settings.trusted_proxies)
        self._assets = Assets()
        self._max_body = hub.settings.max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] not in ("http", "websocket"):
            return
        scope = self._forwarded.apply(scope)
        language.set(language_of(scope))
        if scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
            return
        began = time.perf_counter()
        self._hub.metrics.begin()
        status = 0

        async def note_and_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._answer(scope, receive, note_and_send)
        except Exception:
            # Without the traceback's arguments: it names code, not what people have sent.
            logger.exception("%s %r failed", scope["method"], scope["path"])
            if not status:
                await answers.problem(_INTERNAL).send(note_and_send)
        finally:
            self._note(scope, status, time.perf_counter() - began)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_board = scope["path"].startswith(f"{self._base}/boards/")
        if is_board and self._hub.gate.is_expected_host(scope):
            await self._hub.visits(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = self._at_once(scope)
        except Problem as problem:
            response = answers.problem(problem)
        if response is not None:
            await response.send(send)
            return
        path = scope["path"][len(self._base) :]
        if b"token=" in scope["query_string"] and scope["method"] == "GET":
            response = await self._take_token(scope, path)
            if response is not None:
                await response.send(send)
                return
        if path.startswith("/boards/"):
            await self._hub.visits(scope, receive, send)
            return
        if scope["method"] == "HEAD" and not path.startswith(_API):  # as those ask who watch us
            scope = {**scope, "method": "GET"}  # the server leaves the body out
        limit = _Limit(receive, self._most(scope))
        scope["root_path"] = self._base
        asked_at.set(self._hub.gate.address(scope))
        await self.api(scope, limit.receive, _with_headers(send))

    def _at_once(self, scope: Scope) -> Response | None:
        """What needs no thought: files, and what is refused whoever asks."""
        path: str = scope["path"]
        if not path.startswith(f"{self._base}/"):
            if path == self._base:
                return answers.redirect(quote(self._base) + "/", status=308)
            raise NotFound(f"the hub is below {self._base}/")
        path = path[len(self._base) :]
        if not self._hub.gate.is_expected_host(scope):
            raise Forbidden("without authentication the hub answers to this machine's names only")
        if path.startswith("/static/") and scope["method"] in ("GET", "HEAD"):
            found = static_file(self._assets, path.removeprefix("/static/"), scope)
            found.headers.extend(answers.SECURITY[1:])
            return found
        if path.startswith(_PAGE_FILES) and scope["method"] in ("GET", "HEAD"):
            files: PageFiles = self.api.state.page_files
            found = files.answer(path.removeprefix("/"), scope)
            found.headers.extend(answers.SECURITY[1:])
            return found
        if "\0" in path or b"%00" in scope["query_string"]:
            raise BadRequest("an address has no zero bytes")
        most = self._most(scope)
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit() and int(value) > most:
                raise TooLarge(f"a request may have {most >> 20} MB")
        return None

    def _most(self, scope: Scope) -> int:
        """How long a body may be; those of files go to the disk as they come."""
        is_file = scope["method"] == "PUT" and "/files/" in scope["path"]
        return self._hub.settings.max_file if is_file else self._max_body

    async def _take_token(self, scope: Scope, path: str) -> Response | None:
        """A token in the address of a page becomes a cookie and leaves the address."""
        if path.startswith(("/api/", "/internal/", "/login/")):
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        token = next((value for name, value in query if name == "token"), None)
        if token is None:
            return None
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        where = "/" + quote(scope["path"].lstrip("/\\")) + (f"?{rest}" if rest else "")
        gate = self._hub.gate
        if await self._hub.in_thread(self._hub.identity.identify, token) is None:
            # Who is known already need not be bothered; others see the login page.
            return answers.redirect(where)
        lasting = self._hub.settings.session_hours * 3600
        return answers.redirect(where, gate.set_cookie(scope, token, lasting))

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        method = scope["method"]
        route = _route(scope, self._base)
        self._hub.metrics.end(method, route, status, seconds)
        # What workers say all the time would hide the rest.
        often = status == 200 and route.endswith((f"/files/{_ANY_PATH}", "/heartbeat"))
        quiet = often or method in ("GET", "HEAD") or status == 0
        level = logging.DEBUG if quiet else logging.INFO
        if access_logger.isEnabledFor(level):
            fields = {
                "method": method,
                "path": scope["path"],
                "status": status,
                "ms": round(seconds * 1000, 1),
                "user": scope.get("tbhub.user", ""),
            }
            access_logger.log(level, "request", extra={"fields": fields})


class _Limit:
    """The body of a request, up to a limit."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive = receive
        self._left = most
        self._most = most

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                # FastAPI takes all other errors for those of a parser.
                raise HTTPException(TooLarge.status, f"a request may have {self._most >> 20} MB")
        return message


def _with_headers(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            there = {name for name, _ in message["headers"]}
            more = [each for each in answers.SECURITY if each[0] not in there]
            if b"cache-control" not in there:
                more.append((b"cache-control", b"no-store"))
            if b"content-security-policy" not in there:
                more.append((b"content-security-policy", b"default-src 'none'"))
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return with_headers


def _route(scope: Scope, base: str) -> str:
    """A request's kind, of which there are few."""
    path = getattr(scope.get("route"), "path_format", None)
    if isinstance(path, str):
        # A route knows its path below its router.
        is_api = scope["path"].startswith(f"{base}{_API}/") and not path.startswith(_API)
        return f"{_API}{path}" if is_api else path
    for kind in ("/boards/", "/static/", "/assets/"):
        if scope["path"].startswith(base + kind):
            return f"{kind}…"
    return "other"


# --- problems


def _answered(request: Request, problem: Problem) -> FastResponse:
    hub: Hub = request.app.state.hub
    base = hub.settings.base_path
    if answers.wants_page(request.scope) and not request.url.path.startswith(f"{base}/api/"):
        made = answers.html(problem.status, pages.problem_page(Chrome(base), problem))
    else:
        made = answers.problem(problem)
    response = FastResponse(made.body, made.status)
    response.raw_headers = list(made.headers)
    return response


async def _problem(request: Request, error: Exception) -> FastResponse:
    assert isinstance(error, Problem)
    return _answered(request, error)


async def _selector_error(request: Request, error: Exception) -> FastResponse:
    assert isinstance(error, SelectorError)
    return _answered(request, BadRequest(str(error), position=error.position, text=error.text))


async def _invalid(request: Request, error: Exception) -> FastResponse:
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    fields = [".".join(map(str, each["loc"])) for each in found]
    # Where a field was found, in the body or the address, is no part of its name.
    said = refused_fields([{**each, "loc": each["loc"][1:]} for each in found])
    return _answered(request, BadRequest(said, fields=fields))


async def _http_error(request: Request, error: Exception) -> FastResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return _answered(request, NotFound(text("missing.page")))
    if error.status_code == 400:
        return _answered(request, BadRequest(str(error.detail)))
    reason = str(error.detail)
    if error.status_code == WrongMethod.status:
        reason = f"this address does not take {request.method}"
    response = _answered(request, problem_of(error.status_code, "", reason, {}))
    response.status_code = error.status_code
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response


async def _data_error(request: Request, error: Exception) -> FastResponse:
    return _answered(request, BadRequest("a value is one that the database cannot keep"))
