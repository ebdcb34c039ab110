"""Free text in runs: every word must be somewhere, in whichever of the things people remember.

Nothing of this is indexed. Where all runs are asked, each table is gone through once; where a few
are, only their own rows are looked at.
"""

from __future__ import annotations

from sqlalchemy import and_, exists, or_, select, true

from tbhub.catalog.query import Clause, contains
from tbhub.database.tables import experiments, hparams, run_tags, runs, users

_MOST_WORDS = 20


def matches(text: str, *, wide: bool) -> Clause:
    """Whether a run has every word in its name, path, note, experiment, owner, tags or the values
    of its hyperparameters; upper and lower case are alike.

    Args:
        wide: All runs are asked, or nearly so.
    """
    words = list(dict.fromkeys(text.split()))[:_MOST_WORDS]
    return and_(true(), *(_has(word, wide) for word in words))


def _has(word: str, wide: bool) -> Clause:
    value, tag = contains(hparams.c.text, word), contains(run_tags.c.tag, word)
    called = select(experiments.c.id).where(contains(experiments.c.name, word))
    owners = select(users.c.id).where(contains(users.c.name, word))
    of_a_kind: tuple[Clause, Clause]
    if wide:
        of_a_kind = (
            runs.c.id.in_(select(run_tags.c.run_id).where(tag)),
            runs.c.id.in_(select(hparams.c.run_id).where(value)),
        )
    else:
        of_a_kind = (
            exists().where(run_tags.c.run_id == runs.c.id, tag),
            exists().where(hparams.c.run_id == runs.c.id, value),
        )
    return or_(
        *(contains(column, word) for column in (runs.c.name, runs.c.path, runs.c.note)),
        runs.c.experiment_id.in_(called),
        and_(runs.c.owner_id.is_not(None), runs.c.owner_id.in_(owners)),
        *of_a_kind,
    )
