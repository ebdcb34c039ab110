"""What a board is to show, as Python says it: selectors, numbers, names and places."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any

from tbhub.api.models import Run
from tbhub.api.problems import Ambiguous, BadRequest
from tbhub.client import calls
from tbhub.client.find import pages
from tbhub.client.paths import absolute, absolute_paths
from tbhub.client.steps import Steps

Uris = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
Selectors = str | Iterable[str]
Named = int | str | Iterable[int | str]

_URIS = "uri takes a path or URI, or a list of them"
_SELECTORS = (
    'runs takes a selector or a list of them (experiment 7 is "exp:7", run 7 is "trial:7", and '
    "paths go to uri=)"
)
_TRIALS = "trials takes a number or a name, or a list of them"
_NUMBER = re.compile(r"(?:trial:|#)?([0-9]{1,18})", re.ASCII | re.IGNORECASE)
_LOOKED_UP = 100  # texts in a request


def find_trials(trials: Named | None) -> Steps[list[int | str]]:
    """Return runs with numbers for texts such as "23", "#23" and "trial:23"; names stay names.

    Raises:
        TypeError: Something is neither a number nor text.
        Ambiguous: A text is the number of a run and the name of another.
    """
    given: list[int | str] = _listed(trials, (Integral, str), _TRIALS)
    numbers = {
        text: int(found[1])
        for text in given
        if isinstance(text, str) and (found := _NUMBER.fullmatch(text))
    }
    known = yield from _runs_by(numbers)
    return [
        _number_of(each, numbers[each], known)
        if isinstance(each, str) and each in numbers
        else each
        for each in given
    ]


def _runs_by(numbers: Mapping[str, int]) -> Steps[list[Run]]:
    """Return the runs that have one of these numbers, or one of these texts as their name."""
    from tbhub.catalog.selection import quote

    found: list[Run] = []
    texts = list(numbers)
    for start in range(0, len(texts), _LOOKED_UP):
        some = texts[start : start + _LOOKED_UP]
        ids = ", ".join(str(numbers[text]) for text in some)
        selector = f"where id in ({ids}) or name in ({', '.join(map(quote, some))})"

        def page(size: int, offset: int, selector: str = selector) -> calls.Call[Any]:
            return calls.runs(selector, limit=size, offset=offset, metrics=False, archived=True)

        found += yield from pages(page, lambda page: (page.runs, page.total))
    return found


def _number_of(text: str, number: int, known: Iterable[Run]) -> int:
    """Return the number of the only run that a text means; the number itself if there is none."""
    meant = {run.id: run.name for run in known if run.id == number or run.name == text}
    if len(meant) > 1:
        listed = ", ".join(f"{name} (#{each})" for each, name in meant.items())
        raise Ambiguous(
            f"{text} can mean {len(meant)} runs: {listed}. hint: give the number as an int: "
            f"{' or '.join(f'trials={each}' for each in meant)}.",
            matches=[{"id": each, "name": name} for each, name in meant.items()],
        )
    return next(iter(meant), number)


def sources(
    uri: Uris | None = None,
    runs: Selectors | None = None,
    experiments: Named | None = None,
    trials: Named | None = None,
) -> dict[str, str | list[str] | list[int] | None]:
    """The fields of a request that say what is shown; None where nothing was said.

    Experiments and runs that go by a name become part of the selector.

    Raises:
        TypeError: Something is of a kind that names nothing.
        BadRequest: Selectors have no union.
    """
    experiment_numbers, experiment_names = _named("experiments", experiments)
    run_numbers, run_names = _named("trials", trials)
    found = _listed(runs, str, _SELECTORS)
    if experiment_names or run_names:
        from tbhub.catalog.selection import ExperimentName, RunName

        found += [str(ExperimentName(name)) for name in experiment_names]
        found += [str(RunName(name)) for name in run_names]
    given = _listed(uri, (str, os.PathLike), _URIS)
    if not all(os.fspath(each).strip() for each in given):
        raise BadRequest('uri is empty. hint: for the current directory write uri="."')
    places = [absolute(each) for each in given]
    return {
        "uris": places or None,
        "runs": _union(found) or None,
        "experiments": experiment_numbers or None,
        "trials": run_numbers or None,
    }


def _union(selectors: list[str]) -> str:
    """One selector for what any of some names."""
    said = [each for each in selectors if each.strip()]
    if len(said) > 1:
        for each in said:
            _check_terms(each)
    return absolute_paths(", ".join(said))


def _check_terms(selector: str) -> None:
    """Raises `BadRequest` unless a selector is made of terms alone, which others may follow."""
    from tbhub.catalog.selection import Selection
    from tbhub.catalog.selectors import SelectorError, parse

    try:
        selection = parse(selector)
    except SelectorError as error:
        raise BadRequest(str(error), position=error.position, text=selector) from None
    if selection != Selection(selection.terms):
        raise BadRequest(
            f"{selector!r} has a condition, an order or a limit, which would count for the other "
            "selectors, too: make a board of the one, and `add` the other"
        )


def _named(what: str, given: Named | None) -> tuple[list[int], list[str]]:
    """Numbers and names; digits are a number, as they are in selectors."""
    listed = _listed(given, (Integral, str), f"{what} takes a number or a name, or a list of them")
    numbers: list[int] = []
    names: list[str] = []
    for each in listed:
        if isinstance(each, str) and not (each.isascii() and each.isdigit()):
            names.append(each)
        else:
            numbers.append(int(each))
    return numbers, names


def _listed(given: object, kind: type | tuple[type, ...], expected: str) -> list[Any]:
    """One thing or several as a list.

    Raises:
        TypeError: One of them is of another kind; with what is expected.
    """
    if given is None:
        return []
    is_one = isinstance(given, (kind, bytes, Mapping))
    listed = list(given) if isinstance(given, Iterable) and not is_one else [given]
    for each in listed:
        # True is an Integral, and nobody's number.
        if not isinstance(each, kind) or isinstance(each, bool):
            raise TypeError(f"{expected}, not {type(each).__name__}")
    return listed
