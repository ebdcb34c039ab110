"""Sources of boards that were deleted from the catalog: they are shown and listed no more."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeGuard

from sqlalchemy import Connection, Table, select

from tbhub.catalog.selection import ExperimentNumber, RunNumber, Term
from tbhub.catalog.selectors import parse
from tbhub.database.rows import chunks
from tbhub.database.tables import experiments, runs
from tbhub.hub.bound_names import bound, with_terms
from tbhub.hub.sources import Asked, experiment_word, run_word


@dataclass(frozen=True)
class Numbers:
    """Runs and experiments that are named one by one."""

    runs: frozenset[int] = frozenset()
    experiments: frozenset[int] = frozenset()

    def __or__(self, other: Numbers) -> Numbers:
        return Numbers(self.runs | other.runs, self.experiments | other.experiments)


def named_by(asked: Asked) -> Numbers:
    """Return the runs and experiments that a board names one by one, also those taken out."""
    selections = [bound(parse(each), asked.meant) for each in (asked.selector, *asked.added)]
    terms = [term for each in selections for term in each.terms]
    return Numbers(
        frozenset(
            (
                *asked.trials,
                *asked.removed,
                *(each.number for each in terms if isinstance(each, RunNumber)),
            )
        ),
        frozenset((*asked.experiments, *(each.number for each in terms if _is_experiment(each)))),
    )


def _is_experiment(term: Term) -> TypeGuard[ExperimentNumber]:
    """Return whether a term is the number of an experiment; ``a/7`` may be the end of a path."""
    return isinstance(term, ExperimentNumber) and term.workspace is None


def find_deleted(connection: Connection, numbers: Numbers) -> Numbers:
    """Return those of some runs and experiments that do not exist any more."""
    return Numbers(
        _missing(connection, runs, numbers.runs),
        _missing(connection, experiments, numbers.experiments),
    )


def _missing(connection: Connection, table: Table, numbers: frozenset[int]) -> frozenset[int]:
    found: set[int] = set()
    for chunk in chunks(tuple(numbers)):
        found.update(connection.scalars(select(table.c.id).where(table.c.id.in_(chunk))))
    return numbers - found


def existing(connection: Connection, asked: Asked) -> Asked:
    """Return the sources of a board without runs and experiments that were deleted."""
    return without_deleted(asked, find_deleted(connection, named_by(asked)))


def without_deleted(asked: Asked, deleted: Numbers) -> Asked:
    """Return the sources of a board without some runs and experiments."""

    def is_deleted(term: Term) -> bool:
        if isinstance(term, RunNumber):
            return term.number in deleted.runs
        return _is_experiment(term) and term.number in deleted.experiments

    removed = tuple(each for each in asked.removed if each not in deleted.runs)
    words: list[str] = []

    def left_of(selector: str) -> str:
        selection = parse(selector)
        gone = [term for term in bound(selection, asked.meant).terms if is_deleted(term)]
        words.extend(word for term in gone for word in (term.typed, str(term)))
        if not gone:
            return selector
        names = {term.typed for term in gone}
        if selection.phrase in names:
            return ""
        left = [term for term in selection.terms if term.typed not in names]
        return str(with_terms(selection, left))

    selector, *added = map(left_of, (asked.selector, *asked.added))
    words += map(run_word, deleted.runs.intersection(asked.trials))
    words += map(experiment_word, deleted.experiments.intersection(asked.experiments))
    if not words and removed == asked.removed:
        return asked
    return replace(
        asked,
        selector=selector,
        added=tuple(filter(None, added)),
        trials=tuple(each for each in asked.trials if each not in deleted.runs),
        experiments=tuple(each for each in asked.experiments if each not in deleted.experiments),
        removed=removed,
        deleted_words=tuple(dict.fromkeys((*asked.deleted_words, *words))),
        meant={word: number for word, number in asked.meant.items() if word not in words},
    )
