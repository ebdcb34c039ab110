"""The ``tbhub`` command: its sub-commands, and how errors reach a person.

To run one command only its module is imported, and what that needs only when it runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated

import typer
from typer.core import TyperCommand

from tbhub.cli.asking import Refused
from tbhub.cli.failures import EXIT_CODES, exit_code, tell
from tbhub.cli.groups import taking_many


@dataclass(frozen=True)
class _Command:
    """Where a command is: a function, or the `app` of a group of commands, in a module of `cli`.

    Args:
        panel: Under what it is listed.
        many: Options that take all the words that follow.
        numeric: Those of them that take only numbers.
        aliases: Of a group that has no module: the commands it offers under their own names.
        runs_another: All behind its first word belongs to another program.
    """

    panel: str
    module: str = ""
    function: str = "app"
    hidden: bool = False
    many: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    runs_another: bool = False


_TENSORBOARD = """
The commands for boards, as Determined has them: each is the one of the same name without
`tensorboard`.

- `tbhub tensorboard start 7 9 --trial-ids 31 35` is `tbhub start 7 9 --trial-ids 31 35`
- `tbhub tensorboard list -a`, `tbhub tensorboard open ID`, `tbhub tensorboard logs ID -f`
- `tbhub tensorboard config ID`, `tbhub tensorboard kill ID`
"""

_COMMANDS = {
    "up": _Command("Hub", "up", "up"),
    "status": _Command("Hub", "status", "status"),
    "doctor": _Command("Hub", "doctor", "doctor"),
    "hosts": _Command("Hub", "hosts"),
    "login": _Command("Hub", "login", "login"),
    "logout": _Command("Hub", "login", "logout"),
    "start": _Command(
        "Boards",
        "start",
        "start",
        many=("-t", "--trial-ids", "--runs"),
        numeric=("-t", "--trial-ids"),
    ),
    "list": _Command("Boards", "boards", "list_boards"),
    "ls": _Command("Boards", "boards", "list_boards", hidden=True),
    "open": _Command("Boards", "boards", "open_board"),
    "logs": _Command("Boards", "logs", "logs"),
    "config": _Command("Boards", "boards", "config"),
    "stop": _Command("Boards", "endings", "stop"),
    "restart": _Command("Boards", "endings", "restart"),
    "kill": _Command("Boards", "endings", "kill"),
    "delete": _Command("Boards", "endings", "delete"),
    "add": _Command("Boards", "boards", "add"),
    "remove": _Command("Boards", "boards", "remove"),
    "extend": _Command("Boards", "boards", "extend"),
    "share": _Command("Boards", "share", "share"),
    "tensorboard": _Command(
        "Boards", aliases=("start", "list", "ls", "open", "logs", "config", "stop", "kill")
    ),
    "run": _Command("Runs", "run", "run", runs_another=True),
    "runs": _Command("Runs", "runs"),
    "experiments": _Command("Runs", "experiments"),
    "logdirs": _Command("Runs", "logdirs"),
    "storage": _Command("Runs", "storage"),
    "workspaces": _Command("People", "workspaces"),
    "users": _Command("People", "users"),
    "tokens": _Command("People", "tokens"),
    "view": _Command("Logs, without a hub", "view", "view"),
    "export": _Command("Logs, without a hub", "export", "export"),
    "check": _Command("Logs, without a hub", "check", "check"),
    "sync": _Command("Logs, without a hub", "sync", "sync"),
    "repair": _Command("Logs, without a hub", "repair", "repair"),
    "vertex": _Command("Logs, without a hub", "vertex", "vertex"),
}


def command_line(names: Iterable[str] = tuple(_COMMANDS)) -> typer.Typer:
    """The command with some of its sub-commands: the others need not be imported to run one."""
    app = typer.Typer(
        name="tbhub",
        epilog=EXIT_CODES,
        no_args_is_help=True,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for name in names:
        _add(app, name)
    return app


def _add(app: typer.Typer, name: str) -> None:
    command = _COMMANDS[name]
    if command.aliases:
        app.add_typer(_alias_group(command), name=name, rich_help_panel=command.panel)
        return
    found = getattr(import_module(f"tbhub.cli.{command.module}"), command.function)
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name, rich_help_panel=command.panel)
    else:
        many, numeric = command.many, command.numeric
        kind = taking_many(many, numeric) if many else TyperCommand
        app.command(
            name,
            cls=kind,
            hidden=command.hidden,
            rich_help_panel=command.panel,
            context_settings={"allow_interspersed_args": not command.runs_another},
        )(found)


def _alias_group(command: _Command) -> typer.Typer:
    app = typer.Typer(
        help=_TENSORBOARD,
        no_args_is_help=True,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name in command.aliases:
        _add(app, name)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        import tbhub

        print(f"tbhub {tbhub.__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Say the version."),
    ] = False,
) -> None:
    """What JupyterHub is to notebooks, tbhub is to TensorBoard.

    - `tbhub up --logdir runs/` starts a hub, which knows every run below `runs/`
    - `tbhub start 7 9` opens experiments 7 and 9 in a TensorBoard
    - `tbhub list` shows the TensorBoards that are up
    - `tbhub view runs/` shows runs in a TensorBoard, without a hub

    `TBHUB_URL` and `TBHUB_TOKEN` say which hub is asked, `TBHUB_HOME` where the one of this machine
    has its home.
    """


def main() -> None:
    """Runs the command; an error is told on stderr, never as a traceback."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # it was closed, and nobody reads what is printed
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        else:
            stream.reconfigure(errors="backslashreplace")
    asked = [name for name in sys.argv[1:2] if name in _COMMANDS]
    try:
        command_line(asked or _COMMANDS)(prog_name="tbhub")
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone
        sys.exit(141)
    except Refused:
        sys.exit(1)
    except Exception as error:
        if os.environ.get("TBHUB_DEBUG"):
            raise
        tell(error)
        sys.exit(exit_code(error))
