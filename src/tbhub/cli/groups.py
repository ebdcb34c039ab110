"""Kinds of commands: groups such as ``tbhub users add``, and options that take many words."""

from __future__ import annotations

import re
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

_NUMBERS = re.compile("[0-9,]+")


class _ListByDefault(TyperGroup):
    """Without a command of its own it lists: ``tbhub runs "where lr<.1"``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        is_told = bool(args) and (args[0] in self.commands or args[0] in ("-h", "--help"))
        if not is_told and not ctx.resilient_parsing:  # as when a shell completes words
            args = ["list", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        found = super().shell_complete(ctx, incomplete)
        for parameter in self.commands["list"].params:
            if parameter.param_type_name == "argument":
                found += parameter.shell_complete(ctx, incomplete)
        return found


def group(about: str) -> typer.Typer:
    """A group of commands, of which `list` is what it does if not told otherwise."""
    return typer.Typer(
        cls=_ListByDefault,
        help=about,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def taking_many(options: tuple[str, ...], numeric: tuple[str, ...] = ()) -> type[TyperCommand]:
    """A command some of whose options take all the words that follow: ``--trial-ids 12 15``.

    Args:
        numeric: Those that take numbers: the first word that is none is an argument again.
    """

    class TakingMany(TyperCommand):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            return super().parse_args(ctx, repeat(args, options, numeric))

    return TakingMany


def repeat(args: list[str], options: tuple[str, ...], numeric: tuple[str, ...] = ()) -> list[str]:
    """Arguments in which an option stands before each of the words that followed it."""
    found: list[str] = []
    current = ""
    for place, word in enumerate(args):
        if word == "--":
            return [*found, *args[place:]]
        if word.startswith("-") and len(word) > 1:
            current = word if word in options else ""
            if not current:
                found.append(word)
        else:
            # Its first word is an option's whatever it is, for a complaint that names it.
            if current in numeric and args[place - 1] != current and not _NUMBERS.fullmatch(word):
                current = ""
            found += [current, word] if current else [word]
    if current and (not found or args[-1] == current):
        found.append(current)  # without any word: for the parser to complain of
    return found
