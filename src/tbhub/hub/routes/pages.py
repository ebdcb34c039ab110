"""The pages for people: the web page, login, and signing in elsewhere. Not part of the schema."""

from __future__ import annotations

import time
from typing import Annotated
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter, Depends, Request
from fastapi import Response as FastResponse

from tbhub.api.problems import (
    BadRequest,
    Gone,
    NotAuthenticated,
    NotFound,
    Problem,
    TooLarge,
    TooManyRequests,
)
from tbhub.boards.wsgi import Response
from tbhub.hub import answers, invitations, login_links, oidc, pages
from tbhub.hub.gate import Pass, cookie, make_cookie
from tbhub.hub.hub import Hub
from tbhub.hub.language import problem_text, say
from tbhub.hub.page_files import page_headers
from tbhub.hub.pages import Chrome
from tbhub.hub.routes.common import TheHub, hub_of
from tbhub.hub.routes.sessions import address_of
from tbhub.hub.visits import login_address
from tbhub.texts import text

router = APIRouter(include_in_schema=False)

_MOST_FORM = 16 << 10
# The query of the page that browsers are sent to after a link was refused: a reload is harmless.
_OVER = "expired"
# The web page's own addresses, as `web/src/router.ts` knows them; /boards/<id>/… are TensorBoard's.
PAGES = (
    "/",
    "/runs/{rest:path}",
    "/compare",
    "/boards",
    "/board/{rest:path}",
    "/settings",
    "/settings/{rest:path}",
)


def pass_of(request: Request) -> Pass | None:
    """Whoever asks, if they are known."""
    return hub_of(request).gate.find(request.scope)


Found = Annotated[Pass | None, Depends(pass_of)]


async def page(hub: TheHub, request: Request, found: Found) -> FastResponse:
    """The web page, whichever of its addresses is asked for; it asks the API for the rest."""
    if found is None:
        return _sent(answers.redirect(login_address(hub.settings.base_path, request.scope)))
    made = request.app.state.page_files.page
    if made is None:
        chrome = Chrome(hub.settings.base_path, found.caller.name)
        page = pages.message_page(chrome, say("page.not_built"), say("page.not_built_text"))
        return _sent(answers.html(200, page))
    return _sent(Response(200, [*page_headers(len(made)), *answers.SECURITY], made))


for _path in PAGES:
    router.add_api_route(_path, page, methods=["GET"])


@router.get("/login")
def login_page(hub: TheHub, request: Request, found: Found) -> FastResponse:
    """Asks who somebody is; whoever is known goes on."""
    after = local(request.query_params.get("next"), hub.settings.base_path)
    if found is not None:
        return _sent(answers.redirect(after))
    return _login(hub, after)


@router.post("/login")
async def log_in(hub: TheHub, request: Request) -> FastResponse:
    """What was written into the login page."""
    hub.gate.require_own_page(request.scope)
    form = await _form(request)
    after = local(form.get("next"), hub.settings.base_path)
    try:
        if "token" in form:
            token = form["token"].strip()
            if await hub.in_thread(hub.identity.identify, token) is None:
                raise NotAuthenticated(text("login.token_invalid"))
        else:
            who = form.get("name", ""), form.get("password", ""), address_of(request)
            token = (await hub.in_thread(hub.identity.log_in, *who)).token
    except Problem as problem:
        return _login(hub, after, problem, form.get("name", ""))
    lasting = hub.settings.session_hours * 3600
    return _sent(answers.redirect(after, hub.gate.set_cookie(request.scope, token, lasting)))


@router.post("/logout")
def log_out(hub: TheHub, request: Request, found: Found) -> FastResponse:
    """Ends a browser's session."""
    hub.gate.require_own_page(request.scope)
    if found is not None and found.token is not None:
        hub.identity.log_out(found.token)
    where = f"{hub.settings.base_path}/login"
    return _sent(answers.redirect(where, hub.gate.drop_cookie(request.scope)))


@router.get(login_links.PATH)
def link_page(hub: TheHub, request: Request) -> FastResponse:
    """The page of every login link; nothing is used up by loading it."""
    chrome = Chrome(hub.settings.base_path)
    if _OVER in request.query_params:
        return _link_over(chrome, login_links.PATH, say("page.link_over_text"))
    return _link_answer(200, pages.link_page(chrome, login_links.PATH))


@router.post(login_links.PATH)
async def redeem_link(hub: TheHub, request: Request, found: Found) -> FastResponse:
    """Open a session for the code of a login link, and the page the link is for."""
    hub.gate.require_own_page(request.scope)
    form = await _form(request)
    code = form.get("code", "")
    base = hub.settings.base_path
    who = None if found is None else found.caller.name
    if who is not None and "switch" not in form:
        user = await hub.in_thread(hub.login_links.user_of, code)
        if user is not None and user != who:
            page = pages.switch_user_page(Chrome(base, who), login_links.PATH, code, user)
            return _link_answer(200, page)
    try:
        session, path = await hub.in_thread(hub.login_links.redeem, code)
    except Gone:
        if answers.wants_page(request.scope):
            return _sent(answers.redirect(f"{base}{login_links.PATH}?{_OVER}"))
        return _link_over(Chrome(base, who), login_links.PATH, say("page.link_over_text"))
    assert session.expires is not None
    lasting = session.expires.timestamp() - time.time()
    header = hub.gate.set_cookie(request.scope, session.token, lasting)
    return _sent(answers.redirect(local(path, base), header))


@router.get(invitations.PATH)
def invitation_link(hub: TheHub, request: Request) -> FastResponse:
    """Return the page of every invitation; nothing is used up by loading it."""
    chrome = Chrome(hub.settings.base_path)
    if _OVER in request.query_params:
        return _link_over(chrome, invitations.PATH, say("invitation.used"))
    return _link_answer(200, pages.link_page(chrome, invitations.PATH, is_invitation=True))


@router.post(invitations.PATH)
async def accept_invitation(hub: TheHub, request: Request) -> FastResponse:
    """Ask an invited user for a password; set it and log them in once it is given."""
    hub.gate.require_own_page(request.scope)
    form = await _form(request)
    code, address = form.get("code", ""), address_of(request)
    chrome = Chrome(hub.settings.base_path)
    try:
        user = await hub.in_thread(hub.invitations.find_user, code, address)
        if "password" not in form:
            page = pages.invitation_page(chrome, invitations.PATH, code, user)
            return _link_answer(200, page)
        password, again = form["password"], form.get("again", "")
        given = await hub.in_thread(hub.invitations.accept, code, password, again, address)
    except BadRequest as problem:
        said = problem_text(problem)
        page = pages.invitation_page(chrome, invitations.PATH, code, user, said)
        return _link_answer(problem.status, page)
    except Gone as problem:
        if answers.wants_page(request.scope):
            return _sent(answers.redirect(f"{chrome.base}{invitations.PATH}?{_OVER}"))
        return _link_over(chrome, invitations.PATH, problem_text(problem))
    except TooManyRequests as problem:
        if not answers.wants_page(request.scope):
            raise
        page = pages.link_problem_page(chrome, invitations.PATH, code, problem)
        return _link_answer(problem.status, page)
    hub.identity.forget()
    made = await hub.in_thread(hub.identity.open_session, *given)
    lasting = hub.settings.session_hours * 3600
    header = hub.gate.set_cookie(request.scope, made.token, lasting)
    return _sent(answers.redirect(f"{hub.settings.base_path}/", header))


@router.get("/login/oidc")
async def begin(hub: TheHub, request: Request) -> FastResponse:
    """Sends somebody to sign in elsewhere."""
    provider = _provider(hub)
    base = hub.settings.base_path
    after = local(request.query_params.get("next"), base)
    public = hub.gate.address(request.scope) or hub.url
    where, kept = await provider.begin(after, f"{public}/login/oidc/callback")
    header = make_cookie(request.scope, oidc.COOKIE, kept, f"{base}/login/oidc", oidc.LASTING)
    return _sent(answers.redirect(where, header))


@router.get("/login/oidc/callback")
async def finish(hub: TheHub, request: Request) -> FastResponse:
    """Somebody comes back, signed in or not."""
    provider = _provider(hub)
    path = f"{hub.settings.base_path}/login/oidc"
    over = make_cookie(request.scope, oidc.COOKIE, "", path, 0)
    try:
        kept = cookie(request.scope, oidc.COOKIE)
        user, after = await provider.finish(kept, dict(request.query_params))
    except Problem as problem:
        return _login(hub, f"{hub.settings.base_path}/", problem)
    made = await hub.in_thread(hub.identity.open_session, user.id, user.role)
    lasting = hub.settings.session_hours * 3600
    header = hub.gate.set_cookie(request.scope, made.token, lasting)
    return _sent(answers.redirect(local(after, hub.settings.base_path), header, over))


def local(path: str | None, base: str) -> str:
    """Where somebody goes after they have logged in: within this hub, whatever was asked."""
    return login_links.local_path(path, base) or f"{base}/"


def _link_answer(status: int, page: bytes) -> FastResponse:
    return _sent(answers.html(status, page, policy=pages.LINK_POLICY))


def _link_over(chrome: Chrome, path: str, reason: str) -> FastResponse:
    return _link_answer(Gone.status, pages.link_over_page(chrome, path, reason))


def _provider(hub: Hub) -> oidc.OpenIdConnect:
    if hub.oidc is None:
        raise NotFound(text("oidc.absent"))
    return hub.oidc


def _login(hub: Hub, after: str, problem: Problem | None = None, name: str = "") -> FastResponse:
    base = hub.settings.base_path
    sso = None
    if hub.oidc is not None:
        where = f"{base}/login/oidc?{urlencode({'next': after})}"
        sso = pages.sso_button(where, hub.settings.oidc_name)
    page = pages.login_page(
        Chrome(base),
        after=after,
        by_token=hub.settings.single_user,
        sso=sso,
        problem=None if problem is None else problem_text(problem),
        name=name,
    )
    status = 200 if problem is None else problem.status
    return _sent(answers.html(status, page))


async def _form(request: Request) -> dict[str, str]:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_FORM:
            raise TooLarge("a login is shorter than this")
    kind = request.headers.get("content-type", "")
    if not kind.startswith("application/x-www-form-urlencoded"):
        raise BadRequest("a form is expected, as the login page sends it")
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def _sent(response: Response) -> FastResponse:
    made = FastResponse(response.body, response.status)
    made.raw_headers = list(response.headers)
    return made
