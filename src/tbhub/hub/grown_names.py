"""Sources of boards whose names have grown.

A found run is called by more of its path when another run of its name is found. A board that was
started over ``run31`` is over ``exp3/run31`` from then on: its old source names two runs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace

from sqlalchemy import Connection

from tbhub.catalog.resolve import find_runs
from tbhub.catalog.run_lookup import Match
from tbhub.catalog.selection import Location, RunName, RunNumber, Selection, Term
from tbhub.catalog.selectors import SelectorError, parse
from tbhub.hub.places import Visible
from tbhub.hub.sources import Asked


def with_grown_names(
    connection: Connection, asked: Asked, shown: Collection[int], visible: Visible
) -> Asked:
    """Return the sources of a board, each run by a name that means this run only.

    A name is replaced if it means several runs now, exactly one of which is the board's.

    Args:
        shown: The runs that the board shows.
    """
    selections = [parse(text) for text in (asked.selector, *asked.added)]
    names = {term for each in selections for term in _names(each)}
    ours = {*shown, *asked.removed}
    grown: dict[RunName | None, Term] = {}
    for name, matches in find_runs(connection, names, visible).items():
        mine = [match for match in matches if match.id in ours]
        if len(matches) > 1 and len(mine) == 1:
            grown[name] = _term_of(connection, mine[0], visible)
    if not grown:
        return asked
    selector, *added = (str(_replaced(each, grown)) for each in selections)
    words = {str(name): str(new) for name, new in grown.items()}
    for term in (term for each in selections for term in each.terms):
        words[str(term)] = str(grown.get(_name_of(term), term))
    return replace(
        asked,
        selector=selector,
        added=tuple(added),
        removed_words=tuple(words.get(word, word) for word in asked.removed_words),
    )


def _names(selection: Selection) -> list[RunName]:
    whole = [RunName(selection.phrase)] if selection.phrase else []
    return [*whole, *filter(None, map(_name_of, selection.terms))]


def _name_of(term: Term) -> RunName | None:
    """Return the name of a run that a term is; ``a/b/c`` is the end of a run's path."""
    if isinstance(term, Location) and not term.is_path:
        return RunName(term.uri)
    return term if isinstance(term, RunName) else None


def _replaced(selection: Selection, grown: Mapping[RunName | None, Term]) -> Selection:
    if selection.phrase and (whole := grown.get(RunName(selection.phrase))):
        return replace(selection, terms=(whole,))
    terms = tuple(grown.get(_name_of(term), term) for term in selection.terms)
    return replace(selection, terms=terms)


def _term_of(connection: Connection, run: Match, visible: Visible) -> Term:
    """Return a term that means one run: its name, or its number if the name may mean others."""
    for text in (run.name, str(RunName(run.name))):
        with suppress(SelectorError):
            terms = parse(text).terms
            names = list(filter(None, map(_name_of, terms)))
            found = find_runs(connection, names, visible)
            ids = [match.id for matches in found.values() for match in matches]
            if len(terms) == 1 and ids == [run.id]:
                return terms[0]
    return RunNumber(run.id)
