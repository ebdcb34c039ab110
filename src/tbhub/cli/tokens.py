"""``tbhub tokens``: what programs show the hub instead of a password."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tbhub.cli.asking import connect, expiring
from tbhub.cli.groups import group
from tbhub.cli.tables import Column, Csv, Json, Output, Quiet, print_json, show
from tbhub.cli.text import clock

if TYPE_CHECKING:
    from tbhub.api.models import Token

_ABOUT = """
List your tokens; make and revoke some.

- `tbhub tokens`
- `tbhub tokens create --name ci --scope read --expires 90d`
- `tbhub tokens revoke 3`

Programs take a token from `TBHUB_TOKEN`. A token may do what you may, as far as its scope goes.
"""

app = group(_ABOUT)


@app.command("list")
def list_tokens(as_json: Json = False, as_csv: Csv = False, quiet: Quiet = False) -> None:
    """List your tokens; not what they are, which nobody knows but whoever has them.

    - `tbhub tokens`
    """
    output = Output(as_json, as_csv, quiet)
    with connect() as hub:
        found = hub.tokens()
    columns: list[Column[Token]] = [
        Column("ID", lambda token: token.id, right=True),
        Column("NAME", lambda token: token.name),
        Column("USER", lambda token: token.user),
        Column("SCOPE", lambda token: token.scope),
        Column("CREATED", lambda token: token.created),
        Column("USED", lambda token: token.used),
        Column("EXPIRES", lambda token: token.expires),
    ]
    nothing = "no tokens; `tbhub tokens create` makes one"
    show(found, columns, output, key=lambda token: token.id, nothing=nothing)


@app.command("create")
def create(
    name: Annotated[str, typer.Option("--name", help="What it is for.")] = "api",
    scope: Annotated[
        Literal["read", "write", "admin"], typer.Option("--scope", help="What it may do.")
    ] = "write",
    expires: Annotated[
        str | None,
        typer.Option(
            "--expires", metavar="TIME", help="How long it is good; for ever unless given."
        ),
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", help="For somebody else; for admins.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a token, and print it this once.

    - `tbhub tokens create --name ci --scope read --expires 90d`
    - `export TBHUB_TOKEN=$(tbhub tokens create --name notebook)`
    """
    from tbhub.api.models import NewToken

    new = expiring(NewToken, expires, name=name, scope=scope, user=user)
    with connect() as hub:
        made = hub.create_token(new)
    if as_json:
        print_json(made.model_dump(mode="json"))
        return
    print(made.token)
    end = f", good until {clock(made.expires)}" if made.expires else ""
    print(f"token {made.id} may {made.scope}{end}; it is not shown again", file=sys.stderr)


@app.command("revoke")
def revoke(
    tokens: Annotated[list[int], typer.Argument(metavar="ID", help="See `tbhub tokens`.")],
) -> None:
    """Make tokens worthless.

    - `tbhub tokens revoke 3 4`
    """
    with connect() as hub:
        for token in tokens:
            hub.revoke_token(token)
            print(f"revoked {token}")
