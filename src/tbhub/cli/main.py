"""The ``tbhub`` command: its sub-commands, and how errors reach a person.

Exit codes: 0 all is well, 1 the answer is "no" (something is damaged), 2 the command could not be
carried out, 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Annotated

import typer

_COMMANDS = ("view", "export", "check", "repair")  # each in a module of its own


def command_line(names: Iterable[str] = _COMMANDS) -> typer.Typer:
    """The command with some of its sub-commands: the others need not be imported to run one."""
    app = typer.Typer(
        name="tbhub",
        help="What JupyterHub is to notebooks, tbhub is to TensorBoard.",
        no_args_is_help=True,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for name in names:
        app.command()(getattr(import_module(f"tbhub.cli.{name}"), name))
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
    """What JupyterHub is to notebooks, tbhub is to TensorBoard."""


def main() -> None:
    """Runs the command; an error is one line on stderr, never a traceback."""
    asked = [name for name in sys.argv[1:2] if name in _COMMANDS]
    try:
        command_line(asked or _COMMANDS)()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone
        sys.exit(141)
    except (OSError, ValueError) as error:
        print(f"tbhub: {_one_line(error)}", file=sys.stderr)
        sys.exit(2)


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__
