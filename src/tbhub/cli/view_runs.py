"""``tbhub view`` of runs that a hub knows: a board over them, reused if there is one."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, replace

from tbhub.catalog.selection import All, ExperimentName, Location, Term, quote
from tbhub.cli.asking import connect, selector, unknown_words
from tbhub.errors import TbhubError

_START_TIMEOUT = 60.0
_ASK_TIMEOUT = 5.0
_BARE_WORD = re.compile(r"[^\s,:#*?\"'/]+")


@dataclass(frozen=True)
class ViewOptions:
    """How runs are shown."""

    title: str = ""
    template: str | None = None
    group_by: str | None = None
    hide_grouped: bool = False
    samples: int | None = None
    requests_per_minute: int | None = None


def add_groups(
    words: list[str], job: str | None, experiment: str | None, workspace: str | None
) -> list[str]:
    """Return words with a job and an experiment, all of a workspace."""
    from tbhub.catalog.selectors import parse

    found = [*words]
    if job:
        is_number = job.removeprefix("job").isdecimal()
        found.append(f"job:{job.removeprefix('job')}" if is_number else f"job:{quote(job)}")
    if experiment:
        name = str(ExperimentName(name=experiment))
        found.append(f"exp:{experiment}" if experiment.isdecimal() else name)
    if workspace is None:
        return found
    chosen = parse(selector(found))
    terms = chosen.terms or (All(),)
    return [str(replace(chosen, terms=tuple(_within(term, workspace) for term in terms)))]


def has_runs(words: list[str]) -> bool:
    """Return whether a hub answers soon and knows runs by these words."""
    from tbhub.client.hub import Hub

    try:
        with Hub(timeout=_ASK_TIMEOUT) as hub:
            return bool(hub.runs(selector(words), limit=1, metrics=False).runs)
    except (TbhubError, ValueError):
        return False


def view_runs(words: list[str], options: ViewOptions, *, browser: bool, as_json: bool) -> None:
    """Open a board over runs of the hub.

    Raises:
        ValueError: No hub is known.
        NotFound: The hub does not know one of them.
    """
    from tbhub.api.models import BoardOptions, NewBoard
    from tbhub.api.problems import NotFound
    from tbhub.cli.start import create_board, open_when_up
    from tbhub.client.calls import build
    from tbhub.client.errors import HubUnreachable

    chosen = selector(words)
    new = build(
        NewBoard,
        runs=chosen,
        name=options.title or None,
        reuse=True,
        options=build(
            BoardOptions,
            template=options.template,
            group_by=options.group_by,
            hide_grouped=options.hide_grouped or None,
            samples=options.samples,
            requests_per_minute=options.requests_per_minute,
        ),
    )
    try:
        with connect() as hub:
            board = create_board(hub, new)
            if as_json:
                print(json.dumps({"url": board.url}), flush=True)
            else:
                open_when_up(hub, board, new, _START_TIMEOUT, browser)
    except HubUnreachable as error:
        if not (word := _future_directory(chosen)):
            raise
        raise HubUnreachable(
            f"{word} is no directory here, and {error}. hint: for a directory that is yet to come "
            f"write ./{word}"
        ) from None
    except NotFound as error:
        word = _future_directory(chosen)
        if not word or word not in unknown_words(chosen, error):
            raise
        text = error.message.removesuffix(".")
        before = "; or, for" if "hint:" in text else ". hint: for"
        raise NotFound(
            f"{text}{before} a directory that is yet to come write ./{word}", **error.details
        ) from None


def _future_directory(chosen: str) -> str:
    """Return the first word of a selector if it can name a directory that does not exist yet."""
    from tbhub.catalog.selectors import parse

    try:
        words = [term.typed for term in parse(chosen).terms]
    except TbhubError:
        return ""
    if not words or not _BARE_WORD.fullmatch(words[0]) or os.path.exists(words[0]):
        return ""
    return words[0]


def _within(term: Term, workspace: str) -> Term:
    """Return a term that names runs of a workspace; places are in none."""
    if isinstance(term, Location) or term.workspace is not None:
        return term
    return replace(term, workspace=workspace)
