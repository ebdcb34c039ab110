"""The few pages the hub makes itself: login, and what stands in the place of a board that is not
up. Plain HTML without scripts, but for that of login links; everything that comes from elsewhere is
escaped, and nothing is asked of any other server.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from tbhub.api.models import Board, Reason, State
from tbhub.api.problems import Problem
from tbhub.hub.language import language, problem_text, say
from tbhub.texts import TEXTS, Language

_STYLE = (Path(__file__).parent / "pages.css").read_text("utf-8")
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY = (
    f"default-src 'none';style-src 'sha256-{_STYLE_HASH}';img-src 'self' data:;form-action 'self';"
    "base-uri 'none'"
)
_HTML_LANGUAGES: Mapping[Language, str] = {"en": "en", "zh": "zh-CN"}
# Posts the code in the address, also one that is pasted into the tab later: then only the fragment
# differs, and the browser loads nothing. A page that a browser renders in advance waits until it is
# shown. An answer to a posted code keeps the code in the state of the tab's history: a reload then
# requests the page of the link, and does not repeat the POST, which would be without an origin.
_LINK_SCRIPT = """
function redeem(code) {
  const form = document.getElementById("redeem");
  const incomplete = document.getElementById("incomplete");
  if (incomplete) {
    form.hidden = !code;
    incomplete.hidden = !!code;
  }
  if (!code) return;
  form.elements.code.value = code;
  history.replaceState(null, "", location.pathname);
  form.submit();
}
function start() {
  const posted = document.getElementById("posted");
  if (posted) history.replaceState({ code: posted.value }, "", location.pathname);
  else redeem(location.hash.slice(1) || history.state?.code);
}
addEventListener("hashchange", () => redeem(location.hash.slice(1)));
if (document.prerendering) document.addEventListener("prerenderingchange", start, { once: true });
else start();
"""
_LINK_SCRIPT_HASH = base64.b64encode(hashlib.sha256(_LINK_SCRIPT.encode()).digest()).decode()
LINK_POLICY = f"{POLICY};script-src 'sha256-{_LINK_SCRIPT_HASH}'"


@dataclass(frozen=True)
class Chrome:
    """What all pages of a hub share: its base path, and who is looking, if anybody."""

    base: str = ""
    who: str | None = None


def login_page(
    chrome: Chrome,
    *,
    after: str,
    by_token: bool,
    sso: str | None = None,
    problem: str | None = None,
    name: str = "",
) -> bytes:
    """The page that asks who somebody is; `after` is where they go then."""
    parts = [f"<h1>{escape(say('page.log_in_title'))}</h1>"]
    if problem:
        parts.append(f'<p class="notice" role="alert">{escape(problem)}</p>')
    action = escape(f"{chrome.base}/login")
    hidden = f'<input type="hidden" name="next" value="{escape(after)}">'
    if by_token:
        parts.append(
            f'<p class="quiet">{_with_code("page.token_hint", "tbhub up")}</p>'
            f'<form method="post" action="{action}">{hidden}{_label("token", "page.token")}'
            '<input id="token" name="token" type="password" autocomplete="off" autofocus required>'
            f"{_submit('page.log_in')}</form>"
        )
    else:
        parts.append(
            f'<form method="post" action="{action}">{hidden}{_label("name", "page.name")}'
            f'<input id="name" name="name" value="{escape(name)}" autocomplete="username" '
            f'autocapitalize="none" autofocus required>{_label("password", "page.password")}'
            '<input id="password" name="password" type="password" autocomplete="current-password" '
            f"required>{_submit('page.log_in')}</form>"
        )
    if sso is not None:
        parts.append(sso)
    return _page(say("page.log_in"), chrome, f'<div class="card">{"".join(parts)}</div>')


def sso_button(address: str, name: str) -> str:
    """The way to another place to sign in, for the login page."""
    return f'<a class="button" href="{escape(address)}">{_say("page.sign_in_with", name=name)}</a>'


def link_page(chrome: Chrome, path: str, *, is_invitation: bool = False) -> bytes:
    """The page of a login link, which posts the code that stands behind ``#`` in its address."""
    title = "page.log_in" if is_invitation else "page.logging_in"
    incomplete = _with_code("page.link_incomplete", "tbhub open")
    if is_invitation:
        incomplete = _say("page.invitation_incomplete")
    body = (
        f'<div class="card"><h1>{_say(title)}</h1>'
        f'{_redeem_form(chrome, path)}<p id="incomplete" class="quiet" hidden>{incomplete}</p>'
        f'<noscript><p class="notice">{_say("page.link_script")}</p></noscript></div>'
        f"<script>{_LINK_SCRIPT}</script>"
    )
    return _page(say("page.log_in"), chrome, body)


def link_over_page(chrome: Chrome, path: str, reason: str) -> bytes:
    """Return the page of a link that is not valid; a new link pasted into its tab is redeemed."""
    return message_page(chrome, say("page.link_over"), reason, more=_redeem_new_link(chrome, path))


def link_problem_page(chrome: Chrome, path: str, code: str, problem: Problem) -> bytes:
    """Return the page of a code that could not be checked; a reload posts the code again."""
    posted = f'<input type="hidden" id="posted" value="{escape(code)}">'
    more = posted + _redeem_new_link(chrome, path)
    return message_page(chrome, say("page.failed"), _sentence(problem), more=more)


def invitation_page(
    chrome: Chrome, path: str, code: str, user: str, problem: str | None = None
) -> bytes:
    """Return the form by which an invited user chooses a password."""
    notice = f'<p class="notice" role="alert">{escape(problem)}</p>' if problem else ""
    field = 'type="password" autocomplete="new-password" minlength="8" maxlength="1024" required'
    body = (
        f'<div class="card"><h1>{_say("page.invitation_title", name=user)}</h1>{notice}'
        f'<p class="quiet">{_say("page.invitation_text")}</p>'
        f'<form method="post" action="{escape(chrome.base + path)}">'
        f'<input type="hidden" id="posted" name="code" value="{escape(code)}">'
        f'<input type="hidden" name="username" value="{escape(user)}" autocomplete="username">'
        f'{_label("password", "page.password")}<input id="password" name="password" {field} '
        f"autofocus>{_label('again', 'page.invitation_again')}"
        f'<input id="again" name="again" {field}>{_submit("page.invitation_save")}</form></div>'
        f"{_redeem_new_link(chrome, path)}"
    )
    return _page(say("page.log_in"), chrome, body)


def switch_user_page(chrome: Chrome, path: str, code: str, user: str) -> bytes:
    """Ask before a login link logs another user out."""
    own = chrome.who or ""
    body = (
        f'<div class="card"><h1>{_say("page.switch_title", name=user)}</h1>'
        f'<p class="quiet">{_say("page.switch_text", own=own)}</p>'
        f'<form method="post" action="{escape(chrome.base + path)}">'
        f'<input type="hidden" id="posted" name="code" value="{escape(code)}">'
        '<input type="hidden" name="switch" value="yes">'
        f'<button class="main">{_say("page.switch", name=user)}</button></form>'
        f'<a class="button" href="{escape(chrome.base)}/">{_say("page.stay", own=own)}</a></div>'
        f"{_redeem_new_link(chrome, path)}"
    )
    return _page(say("page.log_in"), chrome, body)


def waiting_page(chrome: Chrome, name: str, state: State) -> bytes:
    """A board that is being started; the page looks again by itself."""
    code = "page.board_restarts" if state is State.STOPPING else "page.board_starts"
    body = (
        f'<div class="card"><h1>{escape(name)}</h1><p class="quiet">{_say(code)}</p>'
        f'<div class="bar" role="progressbar" aria-label="{_say("page.starting")}"></div></div>'
    )
    return _page(name, chrome, body, head='<meta http-equiv="refresh" content="1">')


def ended_page(chrome: Chrome, board: Board, *, refusal: str | None) -> bytes:
    """Return the page of a board that has ended: why, and what can be done.

    Args:
        refusal: Why the caller may not start the board; None if the caller may.
    """
    why = _reason(board.reason)
    code = "" if board.exit_code is None else f" {_say('page.exit_code', code=board.exit_code)}"
    tone = "bad" if board.state is State.FAILED else "quiet"
    parts = [
        f"<h1>{escape(board.name)}</h1>",
        f'<p class="{tone}">{_say(f"state.{board.state.value.lower()}")}'
        f"{'' if board.ended is None else f' {_ago(board.ended)}'}</p><p>{why}{code}</p>",
    ]
    if board.message:
        parts.append(f"<pre>{escape(board.message)}</pre>")
    if board.state is State.TERMINATED:
        command = f"tbhub start {shlex.quote(board.selector) if board.selector else '…'}"
        parts.append(f'<p class="quiet">{_with_code("page.over_for_good", command)}</p>')
    elif refusal is None:
        parts.append(f'<form method="post">{_submit("page.start_again")}</form>')
    else:
        parts.append(f'<p class="quiet">{_say("page.no_start", why=refusal)}</p>')
    return _page(board.name, chrome, f'<div class="card">{"".join(parts)}</div>')


def message_page(
    chrome: Chrome, title: str, text: str, *, again: bool = False, more: str = ""
) -> bytes:
    """Return a page with a message.

    Args:
        again: The page reloads itself.
        more: HTML that follows the message.
    """
    refresh = '<meta http-equiv="refresh" content="2">' if again else ""
    base = escape(chrome.base)
    links = (
        f'<p><a href="{base}/">{_say("page.all_runs")}</a> · '
        f'<a href="{base}/boards">{_say("page.all_boards")}</a></p>'
    )
    said = f'<h1>{escape(title)}</h1><p class="quiet">{escape(text)}</p>'
    body = f'<div class="card">{said}{links}</div>{more}'
    return _page(title, chrome, body, head=refresh)


def problem_page(chrome: Chrome, problem: Problem) -> bytes:
    """Return the page of a request that could not be answered."""
    title = say("page.not_found" if problem.status == 404 else "page.failed")
    return message_page(chrome, title, _sentence(problem))


def _sentence(problem: Problem) -> str:
    said = problem_text(problem)
    text = said[:1].upper() + said[1:]
    stop = "。" if language.get() == "zh" else "."
    return text if text.endswith((".", "。", "？")) else f"{text}{stop}"


def _reason(reason: Reason | None) -> str:
    code = "" if reason is None else f"reason.{reason.value}"
    return _say(code) if code in TEXTS else ""


def _say(code: str, /, **values: object) -> str:
    return escape(say(code, **values))


def _with_code(code: str, command: str) -> str:
    """Return a text in which a {command} is set as code."""
    before, _, after = _say(code, command="\0").partition("\0")
    return f"{before}<code>{escape(command)}</code>{after}"


def _redeem_form(chrome: Chrome, path: str) -> str:
    return (
        f'<form id="redeem" method="post" action="{escape(chrome.base + path)}" hidden>'
        f'<input type="hidden" name="code">{_submit("page.log_in")}</form>'
    )


def _redeem_new_link(chrome: Chrome, path: str) -> str:
    """Return what redeems a new link that is pasted into the tab of an answer."""
    return f"{_redeem_form(chrome, path)}<script>{_LINK_SCRIPT}</script>"


def _label(field: str, code: str) -> str:
    return f'<label for="{field}">{_say(code)}</label>'


def _submit(code: str) -> str:
    return f'<button class="main">{_say(code)}</button>'


def _ago(when: datetime) -> str:
    seconds = (datetime.now(UTC) - when).total_seconds()
    for size, code in ((86400, "days_ago"), (3600, "hours_ago"), (60, "minutes_ago")):
        if seconds >= size:
            return _say(f"page.{code}", n=int(seconds // size))
    return _say("page.just_now")


def _page(title: str, chrome: Chrome, body: str, *, head: str = "") -> bytes:
    who = ""
    if chrome.who is not None:
        who = f'<span class="who">{escape(chrome.who)}</span>'
    return (
        f'<!doctype html><html lang="{_HTML_LANGUAGES[language.get()]}"><head>'
        '<meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'{head}<link rel="icon" href="data:,"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body><header>"
        f'<a class="brand" href="{escape(chrome.base)}/">tbhub</a>{who}</header>'
        f"<main>{body}</main></body></html>"
    ).encode("utf-8", "replace")
