"""``tbhub users``: the people of a hub."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tbhub.cli.asking import Yes, confirm, connect, read_secret
from tbhub.cli.groups import group
from tbhub.cli.tables import Column, Csv, Json, Output, Quiet, show
from tbhub.cli.text import plain

if TYPE_CHECKING:
    from tbhub.api.models import User

_ABOUT = """
List users; add, change and remove some. For admins.

- `tbhub users`
- `tbhub users add maria --role member`
- `tbhub users disable maria`

An **admin** may do everything, a **member** makes boards and changes runs in their workspaces, a
**viewer** looks.
"""

app = group(_ABOUT)
Role = Literal["admin", "member", "viewer"]
UserName = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")]
Email = Annotated[str | None, typer.Option("--email", help="Their address.")]
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
        typer.Option(
            "--password/--no-password", help="Ask for a password; without one: single sign-on."
        ),
    ] = True,
    from_stdin: FromStdin = False,
) -> None:
    """Add a user; asks for their first password.

    - `tbhub users add maria`
    - `tbhub users add maria --role viewer --password-stdin < password`
    - `tbhub users add ci --no-password` somebody with tokens only
    """
    from tbhub.api.models import NewUser
    from tbhub.client.calls import build

    password = None
    if has_password:
        password = read_secret("Password", from_stdin, "--password-stdin", twice=True)
    new = build(
        NewUser, name=name, role=role, email=email, max_boards=max_boards, password=password
    )
    with connect() as hub:
        made = hub.create_user(new)
    print(f"added {plain(made.name)}, {made.role}")


@app.command("edit")
def edit(
    name: UserName,
    role: Annotated[Role | None, typer.Option("--role", help="What they may do.")] = None,
    email: Email = None,
    max_boards: MaxBoards = None,
) -> None:
    """Change a user's role, address, or how many boards they may have.

    - `tbhub users edit maria --role admin`
    - `tbhub users edit maria --max-boards 5`
    """
    changes = {"role": role, "email": email, "max_boards": max_boards}
    if all(value is None for value in changes.values()):
        raise ValueError("say what to change: --role, --email, --max-boards")
    _change(name, **changes)
    print(f"changed {plain(name)}")


@app.command("password")
def password(name: UserName, from_stdin: FromStdin = False) -> None:
    """Give a user another password; whoever is logged in with the old one is logged out.

    - `tbhub users password maria`
    """
    secret = read_secret("New password", from_stdin, "--password-stdin", twice=True)
    _change(name, password=secret)
    print(f"changed the password of {plain(name)}")


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


def _change(name: str, **changes: Any) -> None:
    from tbhub.api.models import UserChange
    from tbhub.client.calls import build

    change = build(UserChange, **changes)
    with connect() as hub:
        hub.change_user(name, change)
