"""Selectors of boards, of which is known what each name meant when it was given.

A name means the same run or experiment for as long as that exists, and nothing afterwards: a later
run of the name is another. What a selector names otherwise (ranges, wildcards, jobs) may be gone
now and there again later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection

from tbhub.api.problems import NotFound
from tbhub.catalog.resolve import Resolved, resolve
from tbhub.catalog.selection import (
    ExperimentName,
    ExperimentNumber,
    RunNumber,
    Selection,
    Term,
)
from tbhub.hub.places import Visible


def resolve_existing(
    connection: Connection,
    selection: Selection,
    visible: Visible,
    experiments: Sequence[int] = (),
    trials: Sequence[int] = (),
) -> Resolved:
    """Resolve a selection without the terms that name nothing.

    Raises:
        NotFound: A term names something that may not be seen.
    """
    try:
        return resolve(connection, selection, visible, experiments, trials)
    except NotFound:
        left = _existing(connection, selection)
        if left == selection:
            raise
        return resolve(connection, left, visible, experiments, trials)


def _existing(connection: Connection, selection: Selection) -> Selection:
    """Return a selection without the terms that name nothing that any user may see."""
    try:
        resolve(connection, selection, None)
    except NotFound as error:
        left = [term for term in selection.terms if term.typed not in error.details["terms"]]
        return with_terms(selection, left)
    return selection


def with_terms(selection: Selection, terms: Sequence[Term]) -> Selection:
    """Return a selection of these terms only; an empty one without terms, which would mean all."""
    return replace(selection, terms=tuple(terms)) if terms else Selection()


def bound(selection: Selection, meant: Mapping[str, int]) -> Selection:
    """Return a selection with numbers in the place of names of which is known what they meant."""
    if selection.phrase in meant:
        whole = RunNumber(meant[selection.phrase], typed=selection.phrase)
        return replace(selection, terms=(whole,))
    return replace(selection, terms=tuple(_bound_term(term, meant) for term in selection.terms))


def _bound_term(term: Term, meant: Mapping[str, int]) -> Term:
    if term.typed not in meant:
        return term
    kind = ExperimentNumber if isinstance(term, ExperimentName) else RunNumber
    return kind(meant[term.typed], typed=term.typed)
