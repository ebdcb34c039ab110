"""Boards that named found runs by number, as ``run6``, name them as ``trial:6``.

Before revision 0006 a found run was called ``run<number>``; ``run6`` may now be what another run is
called. Which of the two a source means is decided by the runs that its board shows.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import orjson
import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_WORD = re.compile(r"[^\s,\"']*\"(?:\\.|[^\"\\])*\"|[^\s,\"']+")
_CLAUSE = re.compile(r"(?:where|order|limit)", re.IGNORECASE)
_NAMES_RUNS = re.compile(
    r"(?:(?P<home>[A-Za-z0-9_][A-Za-z0-9_.-]*)/)?"
    r"(?P<text>run[1-9][0-9]*(?:-run[1-9][0-9]*)?|run[0-9]*[*?][0-9*?]*)"
)
_RANGE = re.compile(r"run([0-9]+)-run([0-9]+)")
_QUOTED = re.compile(r'("(?:\\.|[^"\\])*")')
_VALUE = r"run[1-9][0-9]*(?![A-Za-z0-9_/.:+-])"
_NAMED = re.compile(
    rf"(?<![A-Za-z0-9_/.:+-])name (?:(?:=|!=) {_VALUE}|(?:not )?in \({_VALUE}(?:, {_VALUE})*\))"
)
_STAGES = ("train", "training", "test", "eval", "val", "valid", "validation", "dev")

_boards = sa.table(
    "boards",
    sa.column("id", sa.String),
    sa.column("selector", sa.Text),
    sa.column("follow", sa.Boolean),
    sa.column("sources_key", sa.String),
    sa.column("asked", sa.JSON),
    sa.column("options", sa.JSON),
)


class _Run(NamedTuple):
    id: int
    name: str
    workspace: str
    is_found: bool
    is_named: bool  # by a user, or by the worker that started it
    directories: tuple[str, ...]  # the last of its location, and of a stage the one it is in

    @property
    def old_names(self) -> list[str]:
        """Return what it may have been called: a user may have named it before or since."""
        numbered = [f"run{self.id}"] if self.is_found else []
        return [self.name, *numbered] if self.is_named else numbered


class _Source(NamedTuple):
    """A part of a selector that names runs: a term, or a comparison with names."""

    text: str
    home: str | None = None

    def matches(self, name: str) -> bool:
        ends = _RANGE.fullmatch(self.text)
        if ends:
            digits = name.removeprefix("run")
            is_number = name != digits and digits.isdecimal() and digits[0] != "0"
            return is_number and int(ends[1]) <= int(digits) <= int(ends[2])
        if "*" in self.text or "?" in self.text:
            pattern = re.escape(self.text).replace(r"\*", ".*").replace(r"\?", ".")
            return re.fullmatch(pattern, name, re.DOTALL) is not None
        return name == self.text

    @property
    def number(self) -> int | None:
        digits = self.text.removeprefix("run")
        return int(digits) if digits.isdecimal() else None

    def by_number(self, runs: Iterable[_Run]) -> set[int]:
        """Return the runs that had such a name before revision 0006."""
        return {
            run.id
            for run in runs
            if any(map(self.matches, run.old_names)) and self.home in (None, run.workspace)
        }

    def by_name(self, runs: Iterable[_Run]) -> set[int]:
        """Return the runs that have such a name now, or that lie in such a directory."""
        return {run.id for run in runs if any(map(self.matches, (run.name, *run.directories)))}


class _Board(NamedTuple):
    """A board with the runs that it shows or that were removed from it."""

    there: dict[int, _Run]
    follow: bool
    texts: list[str]
    known: Mapping[int, _Run]

    def names_by_number(self) -> bool:
        """Return whether its sources name what it shows by number, and by name do not."""
        sources = [each for text in self.texts for each in _sources(text)]
        is_filtered = any(map(_has_clauses, self.texts))
        there = self.there.values()
        old: set[int] = set()
        new: set[int] = set()
        is_complete = True
        for source in sources:
            numbers, names = source.by_number(there), source.by_name(there)
            exists = source.number is None or source.number in self.known
            if not numbers and exists and not is_filtered:
                return False
            old |= numbers
            new |= names
            is_complete = is_complete and bool(names)
        return bool(old) and (len(old) > len(new) or (old != new and not is_complete))

    def rewritten(self, text: str) -> str:
        """Return a selector that names the same runs by number."""
        head, tail = _split(text)
        return _replace_words(head, self._term) + _replace_names(tail, self._is_given)

    def _is_given(self, name: str) -> bool:
        """Return whether a run that the board shows was given this name."""
        return any(run.is_named and run.name == name for run in self.there.values())

    def _term(self, source: _Source) -> str:
        prefix = "" if source.home is None else f"{source.home}/"
        if source.number is not None:
            is_name = self._is_given(source.text)
            return prefix + (source.text if is_name else f"trial:{source.number}")
        if self.follow and source.text == "run*":
            return f"{prefix}*" if prefix else "all"
        others = [run for run in self.known.values() if self.follow and not run.is_named]
        numbers = sorted(source.by_number([*self.there.values(), *others]))
        keeps = [prefix + source.text] if self.follow and "-" not in source.text else []
        terms = [*keeps, *(f"{prefix}trial:{number}" for number in numbers)]
        return ", ".join(terms) or prefix + source.text


def upgrade() -> None:
    """Rewrite the sources of boards that name runs by number."""
    connection = op.get_bind()
    rows = connection.execute(sa.select(_boards)).all()
    concerned = [row for row in rows if any(map(_sources, _texts(row)))]
    if not concerned:
        return
    known = _runs(connection)
    for row in concerned:
        _upgrade_board(connection, row, known)


def _upgrade_board(connection: sa.Connection, row: Any, known: Mapping[int, _Run]) -> None:
    shown = connection.execute(
        sa.text("SELECT run_id FROM board_runs WHERE board_id = :board"), {"board": row.id}
    ).scalars()
    asked: dict[str, Any] = dict(row.asked["asked"])
    ids = {*shown, *asked.get("removed", ())}
    there = {number: known[number] for number in ids if number in known}
    board = _Board(there, row.follow, _texts(row), known)
    if not board.names_by_number():
        return
    selector = board.rewritten(row.selector)
    if asked.get("added"):
        asked["added"] = [board.rewritten(text) for text in asked["added"]]
    if asked.get("removed_words"):
        words = (_words_of(board.rewritten(word)) for word in asked["removed_words"])
        asked["removed_words"] = list(dict.fromkeys(word for each in words for word in each))
    values = {
        "selector": selector,
        "asked": {**row.asked, "asked": asked},
        "sources_key": _key(selector, asked, row.options, row.follow),
    }
    connection.execute(sa.update(_boards).where(_boards.c.id == row.id).values(values))


def _runs(connection: sa.Connection) -> dict[int, _Run]:
    rows = connection.execute(
        sa.text(
            "SELECT runs.id, runs.name, runs.named, runs.location, runs.tail,"
            " workspaces.name AS workspace"
            " FROM runs JOIN workspaces ON workspaces.id = runs.workspace_id"
        )
    )
    return {
        row.id: _Run(
            row.id,
            row.name,
            row.workspace,
            row.tail is not None,
            bool(row.named),
            _directories(row.tail or ""),
        )
        for row in rows
    }


def _directories(tail: str) -> tuple[str, ...]:
    parts = tail.split("/")
    return tuple(parts[: 2 if parts[0] in _STAGES else 1])


def _texts(row: Any) -> list[str]:
    return [row.selector, *row.asked["asked"].get("added", ())]


def _sources(text: str) -> list[_Source]:
    """Return the parts of a selector that may name runs by number."""
    found: list[_Source] = []
    head, tail = _split(text)

    def note(source: _Source) -> str:
        found.append(source)
        return source.text

    _replace_words(head, note)
    for part in _QUOTED.split(tail)[::2]:
        for comparison in _NAMED.findall(part):
            if "!=" not in comparison and "not in" not in comparison:
                found += map(_Source, re.findall("run[0-9]+", comparison))
    return found


def _split(text: str) -> tuple[str, str]:
    """Return the terms of a selector, and its filter, order and limit."""
    for word in _WORD.finditer(text):
        if _CLAUSE.fullmatch(word[0]):
            return text[: word.start()], text[word.start() :]
    return text, ""


def _has_clauses(text: str) -> bool:
    return bool(_split(text)[1])


def _words_of(text: str) -> list[str]:
    return [text] if _has_clauses(text) else _WORD.findall(text)


def _replace_words(text: str, replace: Callable[[_Source], str]) -> str:
    def replaced(word: re.Match[str]) -> str:
        found = _NAMES_RUNS.fullmatch(word[0])
        return word[0] if found is None else replace(_Source(found["text"], found["home"]))

    return _WORD.sub(replaced, text)


def _replace_names(text: str, is_given: Callable[[str], bool]) -> str:
    """Compare numbers where names of runs were compared that were not given to them."""

    def replaced(found: re.Match[str]) -> str:
        if any(map(is_given, re.findall("run[0-9]+", found[0]))):
            return found[0]
        return re.sub("run([0-9]+)", r"\1", "id" + found[0].removeprefix("name"))

    parts = _QUOTED.split(text)
    parts[::2] = [_NAMED.sub(replaced, part) for part in parts[::2]]
    return "".join(parts)


def _key(selector: str, asked: Mapping[str, Any], options: Any, follow: bool) -> str:
    """Return the key by which a board with the same sources and options is found."""
    fields = [
        selector,
        *(sorted(set(asked.get(name, ()))) for name in ("experiments", "trials", "uris")),
        options,
        bool(follow),
        *([asked["added"]] if asked.get("added") else []),
    ]
    return hashlib.sha256(orjson.dumps(fields)).hexdigest()
