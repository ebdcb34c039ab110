"""``tbhub users``: the people of a hub."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tbhub.cli.asking import Yes, confirm, connect, expiring, read_secret
from tbhub.cli.groups import group
from tbhub.cli.tables import Column, Csv, Json, Output, Quiet, print_json, show
from tbhub.cli.text import clock, plain

if TYPE_CHECKING:
    from tbhub.api.models import Invitation, User

_ABOUT = """
List users; add, change and remove some. For admins.

- `tbhub users`
- `tbhub users add maria --role member`
- `tbhub users invite maria` prints a link by which maria chooses a password
- `tbhub users disable maria`

An **admin** may do everything, a **member** makes boards and changes runs in their workspaces, a
**viewer** looks.
"""

app = group(_ABOUT)
Role = Literal["admin", "member", "viewer"]
UserName = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")]
Email = Annotated[str | None, typer.Option("--email", help="Their address.")]
NameTemplate = Annotated[
    str | None,
    typer.Option(
        "--name-template", metavar="TEMPLATE", help="How boards name their runs; empty: no default."
    ),
]
MaxBoards = Annotated[
    int | None,
    typer.Option("--max-boards", min=0, metavar="N", help="Boards they may have up; 0: any."),
]
FromStdin = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from standard input.")
]


@app.command("list")
def list_users(as_json: Json = False, as_csv: Csv = False, quiet: Quiet = False) -> None:
    """List everybody.

    - `tbhub users --json`
    """
    output = Output(as_json, as_csv, quiet)
    with connect() as hub:
        found = hub.users()
    columns: list[Column[User]] = [
        Column("ID", lambda user: user.id, right=True),
        Column("NAME", lambda user: user.name),
        Column("ROLE", lambda user: user.role),
        Column("LOG IN BY", _login_ways),
        Column("EMAIL", lambda user: user.email),
        Column("DISABLED", lambda user: user.disabled),
        Column("MAX BOARDS", lambda user: user.max_boards, right=True),
        Column("CREATED", lambda user: user.created),
    ]
    show(found, columns, output, key=lambda user: user.name, nothing="no users")


@app.command("add")
def add(
    name: UserName,
    role: Annotated[Role, typer.Option("--role", help="What they may do.")] = "member",
    email: Email = None,
    max_boards: MaxBoards = None,
    has_password: Annotated[
        bool,
        typer.Option("--password/--no-password", help="Ask for a first password, or set none."),
    ] = True,
    invites: Annotated[
        bool,
        typer.Option("--invite", help="Print a link by which they choose their password."),
    ] = False,
    from_stdin: FromStdin = False,
) -> None:
    """Add a user, with a first password, a link to choose one, or neither.

    - `tbhub users add maria` asks for a first password
    - `tbhub users add maria --invite` prints a link; it works once, within 24 hours
    - `tbhub users add maria --role viewer --password-stdin < password`
    - `tbhub users add maria --no-password --email maria@example.com` for single sign-on
    - `tbhub users add ci --no-password` for tokens only

    A user without a password cannot log in until there is a link, a password or a token. With
    single sign-on, whoever signs in with the e-mail address given here becomes this user.
    """
    from tbhub.api.models import NewInvitation, NewUser
    from tbhub.client.calls import build

    if invites and from_stdin:
        raise ValueError("--invite and --password-stdin exclude one another")
    password = None
    if from_stdin or (has_password and not invites):
        options = "--password-stdin, --invite or --no-password"
        password = read_secret("Password", from_stdin, options, twice=True)
    new = build(
        NewUser, name=name, role=role, email=email, max_boards=max_boards, password=password
    )
    with connect() as hub:
        made = hub.create_user(new)
        print(f"added {plain(made.name)}, {made.role}", file=sys.stderr if invites else sys.stdout)
        if invites:
            _print_invitation(hub.invite(NewInvitation(user=name)))
    if not invites:
        _print_login(made)


@app.command("edit")
def edit(
    name: UserName,
    role: Annotated[Role | None, typer.Option("--role", help="What they may do.")] = None,
    email: Email = None,
    max_boards: MaxBoards = None,
    name_template: NameTemplate = None,
) -> None:
    """Change a user's role, address, how many boards they may have, or how these name runs.

    - `tbhub users edit maria --role admin`
    - `tbhub users edit maria --max-boards 5`
    - `tbhub users edit maria --name-template "{experiment}/{run}"`

    Everybody may change their own address and template.
    """
    changes = {
        "role": role,
        "email": email,
        "max_boards": max_boards,
        "name_template": name_template,
    }
    if all(value is None for value in changes.values()):
        raise ValueError("say what to change: --role, --email, --max-boards, --name-template")
    _change(name, **changes)
    print(f"changed {plain(name)}")


@app.command("password")
def password(name: UserName, from_stdin: FromStdin = False) -> None:
    """Set the password of a user; ends their sessions and revokes their invitation.

    - `tbhub users password maria`
    - `tbhub users password maria --password-stdin < password`
    """
    secret = read_secret("New password", from_stdin, "--password-stdin", twice=True)
    _change(name, password=secret)
    print(f"changed the password of {plain(name)}")


@app.command("invite")
def invite(
    name: UserName,
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="TIME", help="How long the link works; 24h by default."),
    ] = None,
    revokes: Annotated[
        bool, typer.Option("--revoke", help="Revoke the link instead of making a new one.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print a link by which a user chooses a password; it works once.

    - `tbhub users invite maria`
    - `tbhub users invite maria --expires 3d`
    - `tbhub users invite maria --revoke`

    For new users and for those who forgot their password, which stays valid until the link is used.
    A new link revokes the one before; so do setting a password and disabling the user.
    """
    from tbhub.api.models import NewInvitation

    if revokes:
        with connect() as hub:
            hub.revoke_invitation(name)
        print(f"revoked the invitation of {plain(name)}")
        return
    new = expiring(NewInvitation, expires or "24h", user=name)
    with connect() as hub:
        made = hub.invite(new)
    if as_json:
        print_json(made.model_dump(mode="json"))
        return
    _print_invitation(made)


@app.command("disable")
def disable(name: UserName) -> None:
    """Let a user in no longer; nothing of theirs is deleted.

    - `tbhub users disable maria`
    """
    _change(name, disabled=True)
    print(f"disabled {plain(name)}")


@app.command("enable")
def enable(name: UserName) -> None:
    """Let a user in again.

    - `tbhub users enable maria`
    """
    _change(name, disabled=False)
    print(f"enabled {plain(name)}")


@app.command("delete")
def delete(name: UserName, yes: Yes = False) -> None:
    """Delete a user with their boards and tokens; asks first. Runs stay.

    - `tbhub users delete maria`
    """
    from tbhub.api.problems import NotFound
    from tbhub.client.find import every_board

    with connect() as hub:
        if not any(user.name == name for user in hub.users()):
            raise NotFound(f"no user {name}")
        boards = [each for each in hub.do(every_board(everyone=True)) if each.owner == name]
        confirm(f"Delete {plain(name)} with {len(boards):,} boards?", yes)
        hub.delete_user(name)
    print(f"deleted {plain(name)}")


def _login_ways(user: User) -> str:
    if user.disabled:
        return ""
    words = {"sso": "single sign-on", "invitation": "invited"}
    return ", ".join(words.get(way, way) for way in user.login_ways) or "cannot"


def _print_login(user: User) -> None:
    """Say how a new user logs in, or what to do if there is no way yet."""
    name = plain(user.name)
    if "password" in user.login_ways:
        print(f"{name} can log in with the password")
    elif "sso" in user.login_ways:
        print(f"{name} can log in with single sign-on, as {plain(user.email or '')}")
    else:
        word = shlex.quote(user.name)
        print(
            f"{name} cannot log in yet\n"
            f"hint: `tbhub users invite {word}` prints a link to choose a password, "
            f"`tbhub users password {word}` sets one, "
            f"`tbhub tokens create --user {word}` makes a token",
            file=sys.stderr,
        )


def _print_invitation(made: Invitation) -> None:
    from tbhub.client.connection import is_loopback

    print(plain(made.url))
    text = f"{plain(made.user)} chooses a password there; the link works once, until"
    print(f"{text} {clock(made.expires)}, and is not shown again", file=sys.stderr)
    if is_loopback(made.url):
        print(
            "hint: the address works on this machine only; start the hub with --public-url for "
            "links that work elsewhere",
            file=sys.stderr,
        )


def _change(name: str, **changes: Any) -> None:
    from tbhub.api.models import UserChange
    from tbhub.client.calls import build

    change = build(UserChange, **changes)
    with connect() as hub:
        hub.change_user(name, change)
