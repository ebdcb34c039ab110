"""Coming in and going out, for programs: ``/api/v1/login`` and ``/api/v1/logout``."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from tbhub.api.models import Login, LoginLink, NewLoginLink, TokenWithSecret
from tbhub.api.problems import TooManyRequests
from tbhub.hub.routes.common import Reader, TheHub, problems

router = APIRouter(tags=["people"])


@router.post("/login", responses=problems(TooManyRequests))
def login(hub: TheHub, request: Request, response: Response, who: Login) -> TokenWithSecret:
    """A session for a name and a password; browsers keep it as a cookie."""
    hub.gate.require_own_page(request.scope)
    made = hub.identity.log_in(who.name, who.password, address_of(request))
    lasting = hub.settings.session_hours * 3600
    name, value = hub.gate.set_cookie(request.scope, made.token, lasting)
    response.headers.append(name.decode(), value.decode("latin-1"))
    response.headers["cache-control"] = "no-store"
    return made


@router.post("/logout", status_code=204, responses=problems())
def logout(hub: TheHub, request: Request) -> Response:
    """Ends the session that is shown. A token that somebody made stays."""
    found = hub.gate.enter(request.scope)
    if found.token is not None:
        hub.identity.log_out(found.token)
    response = Response(status_code=204)
    name, value = hub.gate.drop_cookie(request.scope)
    response.headers.append(name.decode(), value.decode("latin-1"))
    return response


@router.post("/login-links", status_code=201, responses=problems())
def create_login_link(
    hub: TheHub, request: Request, caller: Reader, new: NewLoginLink
) -> LoginLink:
    """Create a link that logs a browser in as the caller, once and within minutes."""
    address = hub.gate.address(request.scope) or hub.url
    return hub.login_links.create(caller, new.path, address)


def address_of(request: Request) -> str:
    """Where somebody tries from."""
    return request.client.host if request.client is not None else ""
