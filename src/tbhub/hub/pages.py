"""The few pages the hub makes itself: login, and what stands in the place of a board that is not
up. Plain HTML without scripts; everything that comes from elsewhere is escaped, and nothing is
asked of any other server.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from tbhub.api.models import Board, Reason, State

_STYLE = (Path(__file__).parent / "pages.css").read_text("utf-8")
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY = (
    f"default-src 'none';style-src 'sha256-{_STYLE_HASH}';img-src 'self' data:;form-action 'self';"
    "base-uri 'none'"
)
# Posts the code in the address. A page that a browser renders in advance waits until it is shown.
_LINK_SCRIPT = """
function go() {
  const code = location.hash.slice(1);
  const form = document.forms[0];
  form.hidden = !code;
  document.getElementById("incomplete").hidden = !!code;
  if (!code) return;
  form.elements.code.value = code;
  history.replaceState(null, "", location.pathname);
  form.submit();
}
addEventListener("hashchange", go);
if (document.prerendering) document.addEventListener("prerenderingchange", go, { once: true });
else go();
"""
_LINK_SCRIPT_HASH = base64.b64encode(hashlib.sha256(_LINK_SCRIPT.encode()).digest()).decode()
LINK_POLICY = f"{POLICY};script-src 'sha256-{_LINK_SCRIPT_HASH}'"

_WORDS = {
    Reason.USER_KILLED: "It was killed.",
    Reason.USER_STOPPED: "It was stopped.",
    Reason.IDLE: "It was stopped because nobody looked at it.",
    Reason.MAX_RUNTIME: "Its time is over.",
    Reason.NO_DATA: "It waited for data, and none came.",
    Reason.CRASHED: "The process that served it ended unexpectedly.",
    Reason.START_FAILED: "It could not be started.",
}


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
    parts = ["<h1>Log in to tbhub</h1>"]
    if problem:
        parts.append(f'<p class="notice" role="alert">{escape(problem)}</p>')
    action = escape(f"{chrome.base}/login")
    hidden = f'<input type="hidden" name="next" value="{escape(after)}">'
    if by_token:
        parts.append(
            '<p class="quiet">Open the address that <code>tbhub up</code> has printed, or give the '
            "token that stands in it.</p>"
            f'<form method="post" action="{action}">{hidden}<label for="token">Token</label>'
            '<input id="token" name="token" type="password" autocomplete="off" autofocus required>'
            '<button class="main">Log in</button></form>'
        )
    else:
        parts.append(
            f'<form method="post" action="{action}">{hidden}<label for="name">Name</label>'
            f'<input id="name" name="name" value="{escape(name)}" autocomplete="username" '
            'autocapitalize="none" autofocus required><label for="password">Password</label>'
            '<input id="password" name="password" type="password" autocomplete="current-password" '
            'required><button class="main">Log in</button></form>'
        )
    if sso is not None:
        parts.append(sso)
    return _page("Log in", chrome, f'<div class="card">{"".join(parts)}</div>')


def sso_button(address: str, name: str) -> str:
    """The way to another place to sign in, for the login page."""
    return f'<a class="button" href="{escape(address)}">Sign in with {escape(name)}</a>'


def link_page(chrome: Chrome, path: str) -> bytes:
    """The page of a login link, which posts the code that stands behind ``#`` in its address."""
    body = (
        '<div class="card"><h1>Logging in</h1>'
        f'<form method="post" action="{escape(chrome.base + path)}" hidden>'
        '<input type="hidden" name="code"><button class="main">Log in</button></form>'
        '<p id="incomplete" class="quiet" hidden>This address lacks the code of a login link. '
        "<code>tbhub open</code> prints a new link.</p>"
        '<noscript><p class="notice">Login links need JavaScript.</p></noscript></div>'
        f"<script>{_LINK_SCRIPT}</script>"
    )
    return _page("Log in", chrome, body)


def switch_user_page(chrome: Chrome, path: str, code: str, user: str) -> bytes:
    """Ask before a login link logs another user out."""
    base = escape(chrome.base)
    body = (
        f'<div class="card"><h1>Log in as {escape(user)}?</h1>'
        f'<p class="quiet">You are logged in as {escape(chrome.who or "")}. Continue only if you '
        "trust the sender of this link.</p>"
        f'<form method="post" action="{escape(chrome.base + path)}">'
        f'<input type="hidden" name="code" value="{escape(code)}">'
        '<input type="hidden" name="switch" value="yes">'
        f'<button class="main">Log in as {escape(user)}</button></form>'
        f'<a class="button" href="{base}/">Stay {escape(chrome.who or "")}</a></div>'
    )
    return _page("Log in", chrome, body)


def waiting_page(chrome: Chrome, name: str, state: State) -> bytes:
    """A board that is being started; the page looks again by itself."""
    text = (
        "It is being stopped and will start again."
        if state is State.STOPPING
        else "It is being started; this page shows it as soon as it is up."
    )
    body = (
        f'<div class="card"><h1>{escape(name)}</h1><p class="quiet">{text}</p>'
        '<div class="bar" role="progressbar" aria-label="starting"></div></div>'
    )
    return _page(name, chrome, body, head='<meta http-equiv="refresh" content="1">')


def ended_page(chrome: Chrome, board: Board, *, can_start: bool) -> bytes:
    """A board that has ended: why, and what can be done."""
    why = _WORDS.get(board.reason, "") if board.reason is not None else ""
    code = "" if board.exit_code is None else f" Exit code {board.exit_code}."
    tone = "bad" if board.state is State.FAILED else "quiet"
    parts = [
        f"<h1>{escape(board.name)}</h1>",
        f'<p class="{tone}">{board.state.value.capitalize()}'
        f"{'' if board.ended is None else f' {_ago(board.ended)}'}</p><p>{why}{code}</p>",
    ]
    if board.message:
        parts.append(f"<pre>{escape(board.message)}</pre>")
    if can_start:
        parts.append('<form method="post"><button class="main">Start it again</button></form>')
    elif board.state is State.TERMINATED:
        command = f"tbhub start {shlex.quote(board.selector) if board.selector else '…'}"
        parts.append(
            '<p class="quiet">It does not come back; a new board over the same runs is '
            f"<code>{escape(command)}</code>.</p>"
        )
    return _page(board.name, chrome, f'<div class="card">{"".join(parts)}</div>')


def message_page(chrome: Chrome, title: str, text: str, *, again: bool = False) -> bytes:
    """Something went wrong, in a sentence; `again` looks again by itself."""
    refresh = '<meta http-equiv="refresh" content="2">' if again else ""
    base = escape(chrome.base)
    links = f'<p><a href="{base}/">All runs</a> · <a href="{base}/boards">All boards</a></p>'
    said = f'<h1>{escape(title)}</h1><p class="quiet">{escape(text)}</p>'
    body = f'<div class="card">{said}{links}</div>'
    return _page(title, chrome, body, head=refresh)


def _ago(when: datetime) -> str:
    seconds = (datetime.now(UTC) - when).total_seconds()
    for size, word in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {word}{'' if count == 1 else 's'} ago"
    return "just now"


def _page(title: str, chrome: Chrome, body: str, *, head: str = "") -> bytes:
    who = ""
    if chrome.who is not None:
        who = f'<span class="who">{escape(chrome.who)}</span>'
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'{head}<link rel="icon" href="data:,"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body><header>"
        f'<a class="brand" href="{escape(chrome.base)}/">tbhub</a>{who}</header>'
        f"<main>{body}</main></body></html>"
    ).encode("utf-8", "replace")
