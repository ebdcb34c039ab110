"""``tbhub login`` and ``logout``: which hub commands go to, and as whom."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tbhub.cli.asking import read_secret
from tbhub.cli.text import plain


def login(
    url: Annotated[
        str | None,
        typer.Argument(help="The hub's address; unless given the one commands go to now."),
    ] = None,
    user: Annotated[
        str | None, typer.Option("-u", "--user", help="Your name there; asked for unless given.")
    ] = None,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password from standard input.")
    ] = False,
    token_stdin: Annotated[
        bool,
        typer.Option("--token-stdin", help="Read a token from standard input; no name is needed."),
    ] = False,
) -> None:
    """Log in to a hub; from then on commands and scripts of yours go there.

    - `tbhub login https://tbhub.example.com`
    - `tbhub login https://tbhub.example.com -u maria --password-stdin < password`
    - `tbhub login https://tbhub.example.com --token-stdin < token`

    Who signs in with single sign-on makes a token on the hub's page, for `--token-stdin`. What is
    stored is a session or the token, never the password, in a file that only you can read.
    `TBHUB_URL` and `TBHUB_TOKEN` count more than a login.
    """
    from tbhub.client import logins
    from tbhub.client.connection import find_connection, split_token
    from tbhub.client.hub import Hub

    if password_stdin and token_stdin:
        raise ValueError("--password-stdin and --token-stdin exclude one another")
    address, token_in_address = split_token(url or find_connection().url)
    if url and token_in_address:
        raise ValueError(
            "the address holds a token, which others see in the list of processes: give it by "
            "--token-stdin"
        )
    _warn_of_plain_text(address)
    if token_stdin:
        token = read_secret("Token", True, "--token-stdin").strip()
    else:
        name = user or _ask_name()
        password = read_secret("Password", password_stdin, "--password-stdin")
        with Hub(address, "-") as hub:
            token = hub.login(name, password).token
    with Hub(address, token) as hub:
        me = hub.me()
    logins.remember(logins.StoredLogin(address, token, me.user.name))
    print(f"logged in to {plain(address)} as {plain(me.user.name)}, {me.user.role}")


def logout(
    url: Annotated[
        str | None, typer.Argument(help="The hub's address; unless given the last logged in to.")
    ] = None,
) -> None:
    """Log out: the session ends, and what was stored is deleted.

    - `tbhub logout`

    A token that was stored is forgotten here but stays good: `tbhub tokens revoke`.
    """
    from tbhub.client import logins
    from tbhub.client.connection import split_token
    from tbhub.client.hub import Hub
    from tbhub.errors import TbhubError

    stored = logins.for_url(split_token(url)[0]) if url else logins.current()
    if stored is None:
        print("nobody is logged in" + (f" to {plain(url)}" if url else ""), file=sys.stderr)
        return
    try:
        with Hub(stored.url, stored.token, timeout=5.0) as hub:
            hub.logout()
    except TbhubError as error:
        print(f"tbhub: {plain(error)}; the login is forgotten here", file=sys.stderr)
    logins.forget(stored.url)
    print(f"logged out of {plain(stored.url)}")


def _ask_name() -> str:
    if not sys.stdin.isatty():
        raise ValueError("say who you are: --user NAME")
    import getpass

    name: str = typer.prompt("Name", default=getpass.getuser(), err=True)
    return name


def _warn_of_plain_text(url: str) -> None:
    from tbhub.client.connection import is_loopback

    if url.startswith("http:") and not is_loopback(url):
        print(f"tbhub: {plain(url)} is not encrypted: others may read along", file=sys.stderr)
