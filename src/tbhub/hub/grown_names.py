"""Sources of boards by the names that their runs have now.

A found run is called by more of its path when another run of its name is found. A board that was
started over ``run31`` is over ``exp3/run31`` from then on: its old source names two runs. A run
that was renamed is listed by its new name, and one that was deleted is not listed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace

from sqlalchemy import Connection, select

from tbhub.catalog.resolve import find_runs
from tbhub.catalog.selection import Location, RunName, RunNumber, Selection, Term
from tbhub.catalog.selectors import SelectorError, parse
from tbhub.database.tables import runs
from tbhub.hub.deleted_sources import existing
from tbhub.hub.places import Visible
from tbhub.hub.sources import Asked


def with_current_names(
    connection: Connection, asked: Asked, shown: Collection[int], visible: Visible
) -> Asked:
    """Return the sources of a board that exist, each run by a name that means this run only.

    Args:
        shown: The runs that the board shows. A name of which is not known what it meant means the
            one of these that is called so.
    """
    asked = existing(connection, asked)
    selections = [parse(text) for text in (asked.selector, *asked.added)]
    names = {word: name for each in selections for word, name in _names(each).items()}
    matches = find_runs(connection, set(names.values()), visible)
    ours = {*shown, *asked.removed}
    meant = dict(asked.meant)
    grown: dict[str, Term] = {}
    for word, name in names.items():
        found = [match.id for match in matches[name]]
        if word not in meant:
            mine = [number for number in found if number in ours]
            if len(mine) != 1:
                continue
            meant[word] = mine[0]
        if found != [meant[word]] and (term := _term_of(connection, meant[word], visible)):
            grown[word] = term
            meant[str(term)] = meant.pop(word)
    selector, *added = (str(_replaced(each, grown)) for each in selections)
    return replace(
        asked,
        selector=selector,
        added=tuple(added),
        removed_words=tuple(str(grown.get(word, word)) for word in asked.removed_words),
        meant=meant,
    )


def _names(selection: Selection) -> dict[str, RunName]:
    """Return the names of runs in a selection, by how they are written."""
    found = {term.typed: _name_of(term) for term in selection.terms}
    if selection.phrase:
        found[selection.phrase] = RunName(selection.phrase)
    return {word: name for word, name in found.items() if name is not None}


def _name_of(term: Term) -> RunName | None:
    """Return the name of a run that a term is; ``a/b/c`` is the end of a run's path."""
    if isinstance(term, Location) and not term.is_path:
        return RunName(term.uri)
    return term if isinstance(term, RunName) else None


def _replaced(selection: Selection, grown: Mapping[str, Term]) -> Selection:
    if whole := grown.get(selection.phrase):
        return replace(selection, terms=(whole,))
    return replace(selection, terms=tuple(grown.get(term.typed, term) for term in selection.terms))


def _term_of(connection: Connection, run: int, visible: Visible) -> Term | None:
    """Return a term that means one run: its name, or its number if the name may mean others.

    None if the run may not be seen.
    """
    chosen = select(runs.c.name, runs.c.workspace_id).where(runs.c.id == run)
    row = connection.execute(chosen).one()
    if visible is not None and row.workspace_id not in visible:
        return None
    for text in (row.name, str(RunName(row.name))):
        with suppress(SelectorError):
            terms = parse(text).terms
            names = list(filter(None, map(_name_of, terms)))
            found = find_runs(connection, names, visible)
            ids = [match.id for matches in found.values() for match in matches]
            if len(terms) == 1 and ids == [run]:
                return terms[0]
    return RunNumber(run)
