"""``tbhub up``: the hub itself."""

from __future__ import annotations

import gc
import os
import sys
import time
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tbhub.cli.browser import open_browser
from tbhub.cli.text import count, plain

if TYPE_CHECKING:
    from tbhub.hub.hub import Hub
    from tbhub.hub.settings import Settings

_PATIENCE = 3.0


def up(
    logdirs: Annotated[
        list[Path] | None,
        typer.Option("--logdir", help="A directory of runs; repeat for several."),
    ] = None,
    home: Annotated[
        Path | None,
        typer.Option("--home", envvar="TBHUB_HOME", help="Where the hub keeps what it knows."),
    ] = None,
    host: Annotated[
        str | None, typer.Option("--host", help="The address to listen on [default: 127.0.0.1].")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="The port [default: 6060]; 0: any."),
    ] = None,
    database: Annotated[
        str | None,
        typer.Option(
            "--database",
            metavar="URL",
            help="`postgresql://…`; a file in the home unless given. A password in it is better "
            "given by TBHUB_DATABASE.",
        ),
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(
            "--storage",
            metavar="PLACE",
            help="Where files that workers send are kept: a directory, or a bucket as "
            "`s3://bucket/prefix` [default: files in the home].",
        ),
    ] = None,
    auth: Annotated[
        Literal["token", "users", "none"] | None,
        typer.Option(
            "--auth",
            help="`token`: one person, by the token in the address. `users`: a team, who log in. "
            "`none`: whoever is on this machine. [default: token]",
        ),
    ] = None,
    base_path: Annotated[
        str | None, typer.Option("--base-path", help="What every path begins with: `/tbhub`.")
    ] = None,
    public_url: Annotated[
        str | None, typer.Option("--public-url", help="How others reach it, behind a proxy.")
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option("--tls-cert", help="A certificate, for https.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", help="Its key.")] = None,
    launcher: Annotated[
        str | None,
        typer.Option(
            "--launcher",
            metavar="NAME",
            help="Where boards are served: `local`, or an engine; see docs/launchers.md. "
            "[default: local]",
        ),
    ] = None,
    launcher_options: Annotated[
        str | None,
        typer.Option("--launcher-options", metavar="JSON", help="Its options."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            envvar="TBHUB_CONFIG",
            metavar="FILE",
            help="A TOML file with settings; options and environment count more.",
        ),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open a browser, where there is one.")
    ] = True,
) -> None:
    """Run a hub: it knows every run below its log directories, and opens boards over any of them.

    - `tbhub up --logdir runs/` for yourself; Ctrl-C ends it
    - `tbhub up --logdir /data/runs --host 0.0.0.0 --auth users --tls-cert c.pem --tls-key k.pem`
      for a team
    - `tbhub up --host 127.0.0.1 --base-path /tbhub --public-url https://example.com/tbhub`
      behind a proxy

    Boards, runs and endings stay in its home: a hub that is started again goes on where it was,
    and so do boards that were up. Every setting can be given by environment, too: `TBHUB_PORT`,
    `TBHUB_AUTH`, `TBHUB_IDLE_TIMEOUT`, …; docs/hub.md lists them.
    """
    gc.disable()  # while everything is imported; the hub enables it
    from tbhub.hub.settings import Settings

    quiet = sys.stderr.isatty() and "TBHUB_LOG_LEVEL" not in os.environ
    settings = Settings.load(
        config,
        launcher=launcher,
        launcher_options=launcher_options,
        logdirs=tuple(logdirs) if logdirs else None,
        home=home,
        host=host,
        port=port,
        database=database,
        storage=storage,
        auth=auth,
        base_path=base_path,
        public_url=public_url,
        tls_cert=tls_cert,
        tls_key=tls_key,
        # Who looks on is told what matters; a file or a journal gets everything.
        log_level="warning" if quiet else None,
    )
    for logdir in settings.logdirs:
        if not logdir.exists():
            print(f"tbhub: {plain(logdir)} does not exist yet; waiting for it", file=sys.stderr)
    _run(settings, browser)


def _run(settings: Settings, browser: bool) -> None:
    from tbhub.client import logins
    from tbhub.hub.server import run

    def ready(hub: Hub) -> None:
        print(f"tbhub is running at: {hub.open_url}  (Ctrl-C ends it)", flush=True)
        if settings.host in ("", "0.0.0.0", "::") and not settings.public_url:
            print(f"others reach it at: {_from_elsewhere(hub.url)}", flush=True)
        if (stored := logins.current()) and stored.url != hub.url:
            print(
                f"tbhub: you are logged in to {plain(stored.url)}, where your commands go; for "
                f"this hub: export TBHUB_URL={hub.url}",
                file=sys.stderr,
            )
        if settings.auth == "token" and (users := _users_with_passwords(hub)):
            print(
                f"tbhub: {count(users, 'user')} cannot log in by password on the page. hint: start "
                "the hub with --auth users",
                file=sys.stderr,
            )
        Thread(target=_tell_runs, args=(hub,), daemon=True).start()
        if browser:
            Thread(target=_open_browser, args=(hub,), daemon=True).start()

    run(settings, ready)


def _users_with_passwords(hub: Hub) -> int:
    from sqlalchemy import func, select

    from tbhub.database.tables import users

    with hub.database.read() as connection:
        return connection.scalar(select(func.count(users.c.password))) or 0


def _open_browser(hub: Hub) -> None:
    """Open the hub's page, logged in as its first user."""
    caller = hub.identity.identify(hub.token)
    assert caller is not None
    open_browser(lambda: hub.login_links.create(caller, None, hub.url), hub.home.path)


def _from_elsewhere(url: str) -> str:
    """The address by this machine's name. Whatever else leads here is as good."""
    import socket
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    return f"{parts.scheme}://{socket.gethostname()}:{parts.port}{parts.path}/"


def _tell_runs(hub: Hub) -> None:
    """Says how many runs there are, when they have been read; and before, where that takes long."""
    begin = time.monotonic()
    told = False
    while True:
        runs, left = hub.indexing.get("runs", 0), hub.indexing.get("to_read", 0)
        if runs and not left:
            print(f"{count(runs, 'run')} known", flush=True)
            return
        if not told and time.monotonic() - begin > _PATIENCE:
            told = True
            if runs:
                print(f"{count(runs, 'run')} found, {left:,} still to be read", flush=True)
            else:
                print("no runs yet; they are known as soon as there are any", flush=True)
        time.sleep(1.0 if told else 0.1)
