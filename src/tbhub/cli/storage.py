"""``tbhub storage``: how the hub gets at buckets."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tbhub.cli.asking import Refused, connect
from tbhub.cli.groups import group
from tbhub.cli.tables import Column, Csv, Json, Output, Quiet, print_json, show
from tbhub.cli.text import plain

if TYPE_CHECKING:
    from tbhub.api.models import StorageConnection, StorageFindings, StoragePurpose

_ABOUT = """
List the hub's connections to buckets; add, test and remove some.

Members see the connections of their workspaces, and may start boards over what lies below them; to
change them takes an admin of the workspace or the hub.

- `tbhub storage`
- `tbhub storage add team-s3 s3://bucket/runs --set region=eu-west-1`
- `tbhub storage test team-s3`
- `tbhub storage test s3://bucket/runs` without a hub, by what the environment says

For what lies below its prefix the hub uses a connection's credentials; of several that fit, those
of the longest prefix, then the newest. They are kept encrypted, and never shown again.
"""

app = group(_ABOUT)

# What is asked for where there is a terminal.
_ASKED = {
    "s3": ("access_key_id", "secret_access_key"),
    "oss": ("access_key_id", "secret_access_key"),
    "gs": ("service_account_key",),
    "az": ("account_key",),
}
_PUBLIC = frozenset(
    {
        *("region", "endpoint", "anonymous", "access_key_id", "account_name"),
        *("tenant_id", "client_id"),
    }
)


@app.command("list")
def list_connections(as_json: Json = False, as_csv: Csv = False, quiet: Quiet = False) -> None:
    """List connections: for who may change one with the names of its settings, never their values.

    - `tbhub storage --json`
    """
    output = Output(as_json, as_csv, quiet)
    with connect() as hub:
        found = hub.connections()
    columns: list[Column[StorageConnection]] = [
        Column("NAME", lambda each: each.name),
        Column("URI", lambda each: each.uri),
        Column("WORKSPACE", lambda each: each.workspace or "all"),
        Column("SETTINGS", lambda each: each.settings),
        Column("CREATED", lambda each: each.created),
    ]
    nothing = "no connections; `tbhub storage add NAME URI` adds one"
    show(found, columns, output, key=lambda each: each.name, nothing=nothing)


@app.command("add")
def add(
    name: Annotated[str, typer.Argument(help="What to call it.")],
    uri: Annotated[str, typer.Argument(help="What it is for: `s3://bucket/prefix`.")],
    workspace: Annotated[
        str | None,
        typer.Option("-w", "--workspace", help="Only for runs of this workspace."),
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting that is no secret."),
    ] = None,
    from_env: Annotated[
        bool, typer.Option("--from-env", help="Take credentials from the environment.")
    ] = False,
    from_stdin: Annotated[
        bool, typer.Option("--stdin", help="Read NAME=VALUE lines from standard input.")
    ] = False,
    ask: Annotated[
        bool, typer.Option("--ask/--no-ask", help="Ask for keys; without: the hub's own identity.")
    ] = True,
    test: Annotated[
        bool,
        typer.Option("--test/--no-test", help="Read there first; add it only if boards could."),
    ] = True,
) -> None:
    """Have the hub keep credentials for what lies below a prefix.

    - `tbhub storage add team s3://bucket/runs --set region=eu-west-1` asks for the keys
    - `tbhub storage add team s3://bucket --from-env` takes those of `AWS_ACCESS_KEY_ID` and so on
    - `tbhub storage add team gs://bucket --stdin < settings`

    Boards below the prefix use it at once, so it is tested first: the hub lists and reads there.
    The settings of each kind of store are listed in docs/storage.md. Secrets are never arguments.
    """
    from tbhub.api.models import NewStorageConnection
    from tbhub.api.problems import Unreadable
    from tbhub.client.calls import build
    from tbhub.storage.environment import settings_from
    from tbhub.storage.uri import parse

    place = parse(uri)
    settings = _given(given or [])
    if from_env:
        settings = {**settings_from(os.environ, place), **settings}
    if from_stdin:
        settings |= dict(_pair(line) for line in sys.stdin.read().splitlines() if line.strip())
    if ask and not from_env and not from_stdin:
        settings |= _asked([each for each in _ASKED.get(place.scheme, ()) if each not in settings])
    new = build(
        NewStorageConnection,
        name=name,
        uri=uri,
        workspace=workspace,
        settings=settings,
        test=test,
    )
    with connect() as hub:
        try:
            made = hub.add_connection(new)
        except Unreadable as error:
            end = "" if error.message.endswith((".", "?")) else "."
            raise Unreadable(
                f"{error.message}{end} hint: `--no-test` adds it all the same"
            ) from None
        added = plain(made.name)
        print(f"added {added} for {plain(made.uri)}; `tbhub storage test {added}`")
        _print_same_prefix(made, hub.connections())


@app.command("test")
def try_out(
    place: Annotated[
        str, typer.Argument(metavar="NAME|URI", help="A connection, or a place to try from here.")
    ],
    purpose: Annotated[
        Literal["boards", "runs"] | None,
        typer.Option(
            "--for",
            help="What it is for: `boards` only read, `runs` also write. Both unless given.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Test what boards and runs need, and say exactly what is wrong; exits with 1 if anything is.

    - `tbhub storage test team` from the hub's machine, with the connection's credentials
    - `tbhub storage test s3://bucket/runs` from here, with the environment's
    - `tbhub storage test team --for boards` lists and reads; a read-only key is all it takes
    - `tbhub storage test team --for runs` also writes, 8 MB in parts among it, and deletes that

    The last lines name the role that grants what is needed, once the credentials are accepted.
    """
    from tbhub.api.storage_findings import test_place
    from tbhub.catalog.selection import looks_like_path

    if looks_like_path(place):
        found = test_place(place, None, purpose)
    else:
        with connect() as hub:
            found = hub.test_connection(place, purpose)
    if as_json:
        print_json(found.model_dump())
    else:
        _print_findings(found, purpose)
        if looks_like_path(place) and (name := _connection_of_hub(place)):
            command = f"tbhub storage test {name}{f' --for {purpose}' if purpose else ''}"
            print(f"hint: the hub has connection {name} for this place: `{command}`")
    if not found.good:
        raise Refused


@app.command("remove")
def remove(name: Annotated[str, typer.Argument(help="See `tbhub storage`.")]) -> None:
    """Have the hub forget a connection. Nothing in the store changes.

    - `tbhub storage remove team`
    """
    with connect() as hub:
        hub.remove_connection(name)
    print(f"removed {plain(name)}")


def _print_same_prefix(made: StorageConnection, known: Sequence[StorageConnection]) -> None:
    """Name the connections that a new one replaces, and those that are used before it."""
    for each in known:
        if each.uri != made.uri or each.name == made.name:
            continue
        name = plain(each.name)
        if each.workspace == made.workspace:
            print(
                f"{plain(made.name)} is used instead of {name}, which has the same prefix. "
                f"hint: `tbhub storage remove {name}`"
            )
        elif made.workspace is None:
            print(
                f"{name}, which has the same prefix, is still used for workspace "
                f"{plain(each.workspace or '')}. hint: `tbhub storage remove {name}`"
            )


def _print_findings(found: StorageFindings, purpose: StoragePurpose | None) -> None:
    for each in found.findings:
        mark = {True: "ok", False: "BAD", None: "?"}[each.good]
        print(f"{each.check:<12} {mark:<4} {plain(each.text)}")
    is_accepted = any(each.check == "credentials" and each.good for each in found.findings)
    wanted: tuple[StoragePurpose, ...] = (purpose,) if purpose else ("boards", "runs")
    for each_purpose in wanted:
        is_usable = each_purpose in found.usable_for
        mark = "ok" if is_usable else "BAD"
        # A role is granted to credentials: without accepted ones it is not what is missing.
        role = found.roles.get(each_purpose, "") if is_usable or is_accepted else ""
        print(f"for {each_purpose:<8} {mark:<4} {f'needs {plain(role)}' if role else ''}".rstrip())
    if purpose is None and found.usable_for == ["boards"]:
        print("hint: if it is meant for boards alone, test it with --for boards")


def _connection_of_hub(place: str) -> str:
    """Return the name of the hub's connection for a place; empty if no hub tells one."""
    from tbhub.errors import TbhubError
    from tbhub.storage.credentials import Known, choose
    from tbhub.storage.uri import parse

    if "://" not in place:
        return ""
    try:
        with connect() as hub:
            listed = sorted(hub.connections(), key=lambda each: each.created)
    except (TbhubError, ValueError):
        return ""
    any_workspace = 0
    known = [
        Known(each.name, parse(each.uri), any_workspace if each.workspace else None, {})
        for each in listed
    ]
    found = choose(known, place, None)
    return "" if found is None else plain(found.name)


def _given(pairs: list[str]) -> dict[str, str]:
    found = dict(map(_pair, pairs))
    for name in found.keys() - _PUBLIC:
        raise ValueError(
            f"{name} is a secret: others see the arguments of commands; give it by --stdin, "
            "--from-env, or when asked"
        )
    return found


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ValueError("settings are written NAME=VALUE")  # without what may be a secret
    return name.strip(), value.strip()


def _asked(names: list[str]) -> dict[str, str]:
    """Typed unseen; what is left empty is not set."""
    if not names:
        return {}
    if not sys.stdin.isatty():
        raise ValueError(
            "there is no terminal to ask for the keys on: give --stdin, --from-env, or --no-ask "
            "for the hub's own identity"
        )
    import getpass

    found = {name: getpass.getpass(f"{name} (empty: none): ", sys.stderr) for name in names}
    return {name: value for name, value in found.items() if value}
