"""``tbhub workspaces``: spaces of runs with members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tbhub.cli.asking import Yes, confirm, connect
from tbhub.cli.groups import group
from tbhub.cli.tables import Column, Csv, Json, Output, Quiet, show
from tbhub.cli.text import count, plain

if TYPE_CHECKING:
    from tbhub.api.models import Member, Workspace

_ABOUT = """
List workspaces and their members; add and remove some.

- `tbhub workspaces`
- `tbhub workspaces add vision --note "the vision team"`
- `tbhub workspaces set-member vision maria --role member`

Whoever is not a member of a workspace does not see its runs, nor that they are there; admins of
the hub see all.
"""

app = group(_ABOUT)
Workspaces = Annotated[str, typer.Argument(metavar="WORKSPACE", help="The workspace's name.")]
UserName = Annotated[str, typer.Argument(metavar="USER", help="The user's name.")]
NameTemplate = Annotated[
    str | None,
    typer.Option(
        "--name-template", metavar="TEMPLATE", help="How boards name their runs; empty: no default."
    ),
]
MaxBoards = Annotated[
    int | None,
    typer.Option("--max-boards", min=0, metavar="N", help="Boards that may be up at once; 0: any."),
]


@app.command("list")
def list_workspaces(as_json: Json = False, as_csv: Csv = False, quiet: Quiet = False) -> None:
    """List the workspaces you may see.

    - `tbhub workspaces`
    """
    output = Output(as_json, as_csv, quiet)
    with connect() as hub:
        found = hub.workspaces()
    columns: list[Column[Workspace]] = [
        Column("ID", lambda each: each.id, right=True),
        Column("NAME", lambda each: each.name),
        Column("YOU", lambda each: each.role),
        Column("EXPERIMENTS", lambda each: each.experiments, right=True),
        Column("RUNS", lambda each: each.runs, right=True),
        Column("MAX BOARDS", lambda each: each.max_boards, right=True),
        Column("NOTE", lambda each: each.note),
    ]
    show(found, columns, output, key=lambda each: each.name, nothing="no workspaces")


@app.command("add")
def add(
    name: Workspaces,
    note: Annotated[str | None, typer.Option("--note", help="What it is for.")] = None,
    max_boards: MaxBoards = None,
) -> None:
    """Add a workspace; you become its admin.

    - `tbhub workspaces add vision`
    """
    from tbhub.api.models import NewWorkspace
    from tbhub.client.calls import build

    with connect() as hub:
        made = hub.create_workspace(
            build(NewWorkspace, name=name, note=note, max_boards=max_boards)
        )
    print(f"added workspace {plain(made.name)}")


@app.command("edit")
def edit(
    name: Workspaces,
    note: Annotated[str | None, typer.Option("--note", help="What it is for.")] = None,
    max_boards: MaxBoards = None,
    name_template: NameTemplate = None,
) -> None:
    """Change a workspace's note, how many boards may be up in it, or how these name runs.

    - `tbhub workspaces edit vision --max-boards 20`
    - `tbhub workspaces edit vision --name-template "{run}_lr={hparams.lr}"`
    """
    from tbhub.api.models import WorkspaceChange
    from tbhub.client.calls import build

    change = build(WorkspaceChange, note=note, max_boards=max_boards, name_template=name_template)
    if not change.model_fields_set:
        raise ValueError("say what to change: --note, --max-boards, --name-template")
    with connect() as hub:
        hub.change_workspace(name, change)
    print(f"changed workspace {plain(name)}")


@app.command("delete")
def delete(name: Workspaces, yes: Yes = False) -> None:
    """Delete a workspace with what is known of its runs; asks first. Files stay.

    - `tbhub workspaces delete vision`
    """
    from tbhub.api.problems import NotFound

    with connect() as hub:
        found = next((each for each in hub.workspaces() if each.name == name), None)
        if found is None:
            raise NotFound(f"no workspace {name}")
        what = f"{count(found.experiments, 'experiment')}, {count(found.runs, 'run')}"
        confirm(f"Delete workspace {plain(name)}: {what}; the files stay?", yes)
        hub.delete_workspace(name)
    print(f"deleted workspace {plain(name)}")


@app.command("members")
def members(
    name: Workspaces, as_json: Json = False, as_csv: Csv = False, quiet: Quiet = False
) -> None:
    """List the members of a workspace.

    - `tbhub workspaces members vision`
    """
    output = Output(as_json, as_csv, quiet)
    with connect() as hub:
        found = hub.members(name)
    columns: list[Column[Member]] = [
        Column("USER", lambda member: member.user),
        Column("ROLE", lambda member: member.role),
    ]
    show(found, columns, output, key=lambda member: member.user, nothing="no members")


@app.command("set-member")
def set_member(
    name: Workspaces,
    user: UserName,
    role: Annotated[
        Literal["admin", "member", "viewer"], typer.Option("--role", help="What they may do there.")
    ] = "member",
) -> None:
    """Make a user a member of a workspace, or give them another role there.

    - `tbhub workspaces set-member vision maria`
    - `tbhub workspaces set-member vision maria --role viewer`
    """
    from tbhub.api.models import MemberChange

    with connect() as hub:
        hub.set_member(name, user, MemberChange(role=role))
    print(f"{plain(user)} is a {role} of {plain(name)}")


@app.command("remove-member")
def remove_member(name: Workspaces, user: UserName) -> None:
    """Take a user out of a workspace.

    - `tbhub workspaces remove-member vision maria`
    """
    with connect() as hub:
        hub.remove_member(name, user)
    print(f"{plain(user)} is no member of {plain(name)} any more")
