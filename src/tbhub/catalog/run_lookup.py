"""Which runs a name means: those that are called so, and those whose paths end so.

A name is looked for in both ways, always, and every run that fits is a candidate. Whoever asks for
one run and gets several refuses to choose.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, String, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from tbhub.api.problems import Ambiguous
from tbhub.catalog.names import STAGES, first_parts, tail_of_suffix
from tbhub.catalog.naming import ends_in
from tbhub.catalog.query import begins_with
from tbhub.catalog.selection import RunNumber
from tbhub.database.rows import among
from tbhub.database.tables import logdirs, runs
from tbhub.storage.uri import same_place_key

_LISTED = 10


class Match(NamedTuple):
    """A run that a name may mean."""

    id: int
    name: str
    workspace: str


@dataclass(frozen=True)
class Asked:
    """A name, within a workspace or wherever it is."""

    name: str
    workspace: str | None = None


class RunLookup:
    """Finds runs in some workspaces."""

    def __init__(self, connection: Connection, workspaces: Mapping[int, str]) -> None:
        """`workspaces`: the names of those that the caller may see, by number."""
        self._connection = connection
        self._workspaces = workspaces
        self._known = frozenset(workspaces.values())
        self._here = runs.c.workspace_id.in_(workspaces)

    def find(self, wanted: Collection[Asked]) -> dict[Asked, list[Match]]:
        """Return all runs that each name may mean, by number."""
        texts = {asked: self._texts(asked) for asked in wanted}
        names = {text for each in texts.values() for text, _ in each}
        called = self._called(names)
        ending = self._ending(names)
        found: dict[Asked, list[Match]] = {}
        for asked, each in texts.items():
            matches = {
                match
                for text, home in each
                for match in (*called.get(text, ()), *ending.get(text, ()))
                if home in (None, match.workspace)
            }
            found[asked] = sorted(matches)
        return found

    def parts_of(self, asked: Asked) -> dict[str, list[Match]]:
        """Return the stages of trainings, ``run1/train`` and ``run1/test``, by their directory.

        Args:
            asked: What the directory is called, or how its path ends.
        """
        found: dict[str, set[Match]] = {}
        for text, home in self._texts(asked):
            prefix = tail_of_suffix(text)
            stages = [f"{stage}/{prefix}" for stage in sorted(STAGES)] if prefix else []
            for alike in ends_in(stages, self._here):
                for row in self._rows(alike, runs.c.location):
                    match = self._match(row)
                    if home in (None, match.workspace):
                        directory = row.location.rstrip("/").rpartition("/")[0]
                        found.setdefault(directory, set()).add(match)
        return {directory: sorted(found[directory]) for directory in sorted(found)}

    def _texts(self, asked: Asked) -> list[tuple[str, str | None]]:
        """What to look for, and in which workspace: ``a/b`` may be a path, or ``b`` in ``a``."""
        if asked.workspace is None:
            return [(asked.name, None)]
        path = f"{asked.workspace}/{asked.name}"
        inside = [(asked.name, asked.workspace)] if asked.workspace in self._known else []
        return [*inside, (path, None)]

    def _called(self, names: Collection[str]) -> dict[str, list[Match]]:
        found: dict[str, list[Match]] = {}
        if names:
            for row in self._rows(among(self._connection, runs.c.name, names)):
                found.setdefault(row.name, []).append(self._match(row))
        return found

    def _ending(self, names: Collection[str]) -> dict[str, list[Match]]:
        prefixes = {name: prefix for name in names if (prefix := tail_of_suffix(name))}
        by_prefix: dict[str, list[Match]] = {prefix: [] for prefix in prefixes.values()}
        lengths = sorted({prefix.count("/") for prefix in by_prefix})
        for alike in ends_in(list(by_prefix), self._here):
            for row in self._rows(alike):
                for length in lengths:
                    by_prefix.get(first_parts(row.tail, length), []).append(self._match(row))
        return {name: by_prefix[prefix] for name, prefix in prefixes.items()}

    def _rows(self, fits: ColumnElement[bool], *more: ColumnElement[Any]) -> Iterable[Any]:
        columns = (runs.c.id, runs.c.name, runs.c.workspace_id, runs.c.tail, *more)
        return self._connection.execute(select(*columns).where(self._here, fits)).all()

    def _match(self, row: Any) -> Match:
        return Match(row.id, row.name, self._workspaces[row.workspace_id])


def several(typed: str, matches: Sequence[Match]) -> Ambiguous:
    """Return the error for a name that several runs have."""
    homes = {match.workspace for match in matches}
    shown = [
        f"{match.workspace}/{match.name}" if len(homes) > 1 else match.name for match in matches
    ]
    listed = [
        f"{name} (#{match.id})" for name, match in zip(shown[:_LISTED], matches, strict=False)
    ]
    more = f" and {len(matches) - _LISTED} more" if len(matches) > _LISTED else ""
    return Ambiguous(
        f"{typed} names {len(matches):,} runs: {', '.join(listed)}{more}."
        f" hint: {_advice(typed, shown, matches)}.",
        matches=described(matches),
    )


def described(matches: Sequence[Match]) -> list[dict[str, Any]]:
    """Return runs as the details of an error list them."""
    return [
        {"id": match.id, "name": match.name, "workspace": match.workspace}
        for match in matches[: _LISTED * 10]
    ]


def numbers_of(matches: Sequence[Match]) -> str:
    """Return the numbers of runs as a sentence lists them: ``trial:3, trial:4 or trial:7``."""
    *others, last = [str(RunNumber(match.id)) for match in matches[:_LISTED]]
    return f"{', '.join(others)} or {last}" if others else last


def several_directories(typed: str, directories: Sequence[str]) -> Ambiguous:
    """Return the error for a name that several directories of runs have."""
    more = f" and {len(directories) - _LISTED} more" if len(directories) > _LISTED else ""
    return Ambiguous(
        f"{typed} names {len(directories):,} directories: {', '.join(directories[:_LISTED])}{more}."
        " hint: write more of the path.",
        matches=list(directories[: _LISTED * 10]),
    )


def _advice(typed: str, shown: Sequence[str], matches: Sequence[Match]) -> str:
    """Say how to write one of several runs: a longer path does not help if a run is called so."""
    names = (typed, typed.strip("\"'"))
    if any(name in names for name in shown):
        return f"write {numbers_of(matches)}"
    return f"write more of the path, or a number: {numbers_of(matches)}"


def oss_spellings(connection: Connection, place: str) -> list[str]:
    """Return a place in OSS with each host that runs and logdirs have, and without one.

    Empty for other places.
    """
    if not place.startswith("oss://"):
        return []
    bucket, slash, path = same_place_key(place).removeprefix("oss://").partition("/")
    tops = {f"oss://{bucket}": None}
    for column in (runs.c.location, logdirs.c.path):
        chosen = select(column).where(begins_with(column, f"oss://{bucket}.oss-"))
        while (found := connection.scalar(chosen.limit(1))) is not None:
            top = "/".join(found.split("/", 3)[:3])
            tops |= {top: None} if same_place_key(top) == f"oss://{bucket}" else {}
            chosen = chosen.where(column != top, ~begins_with(column, f"{top}/"))
    return [f"{top}{slash}{path}" for top in tops]


class Directory(FunctionElement[str]):
    """The name of the directory a run was found in; null for others."""

    type = String()
    inherit_cache = True


@compiles(Directory, "sqlite")
def _directory_sqlite(element: Directory, compiler: SQLCompiler, **options: Any) -> str:
    (tail,) = (compiler.process(each, **options) for each in element.clauses)
    return f"substr({tail}, 1, instr({tail}, '/') - 1)"


@compiles(Directory, "postgresql")
def _directory_postgresql(element: Directory, compiler: SQLCompiler, **options: Any) -> str:
    (tail,) = (compiler.process(each, **options) for each in element.clauses)
    return f"split_part({tail}, '/', 1)"
