"""The board of a run or an experiment, as PAI's ``estimator.tensorboard()``."""

from __future__ import annotations

import os
import re

from tbhub.api.problems import Ambiguous, NotFound
from tbhub.catalog.selection import RunName, is_plain_name, is_uri, looks_like_path, quote
from tbhub.client.hub import Hub
from tbhub.client.paths import absolute, absolute_paths, is_path_here
from tbhub.client.tensorboard import TensorBoard
from tbhub.tracking.run import Run

_SELECTOR = re.compile(r"(exp|trial|job):|#\d")
_NUMBER = re.compile(r"(?:trial:|#)([0-9]{1,18})", re.ASCII)


def tensorboard(
    run_or_experiment: Run | str | int,
    *,
    wait: bool = True,
    timeout: float | None = 60.0,
    hub: Hub | None = None,
) -> TensorBoard:
    """Open the board of a run or an experiment, or the one that there is.

    Args:
        run_or_experiment: A `Run`; a run's number or name; an experiment's name; or a selector:
            ``"trial:12"``, ``"exp:7"``, ``"run1-run5"``, ``"where lr<.01"``; or a path or URI, as
            ``tbhub start`` reads them. Text that is the name of a run or an experiment is that
            name. Runs that match a selector later are shown, too.
        wait: Return when the board is up.
        timeout: Seconds that `wait` may take; None: as long as it takes.
        hub: Which hub; see `Hub`.

    Raises:
        NotFound: There is no such run or experiment.
        Ambiguous: A run and an experiment have this name, or several runs.
        BadRequest: The selector cannot be parsed.
        HubUnreachable: No hub answers.
        WaitTimeout: The board is not up in time; it may still come up.
    """
    what: Run | str | int = run_or_experiment
    if isinstance(what, Run):
        if what.id is None:
            place = what.logdir
            return TensorBoard.create(uri=place, wait=wait, timeout=timeout, reuse=True, hub=hub)
        what = what.id
    if isinstance(what, str):
        asked = hub or Hub(keep_alive=False)
        if what.isdecimal():
            what = _numbered(asked, what)
        elif number := _NUMBER.fullmatch(what):
            what = int(number[1])
        else:
            what = what if _SELECTOR.match(what) else _named(asked, what)
    if isinstance(what, int):
        return TensorBoard.create(trials=what, wait=wait, timeout=timeout, reuse=True, hub=hub)
    return TensorBoard.create(
        runs=what, wait=wait, timeout=timeout, reuse=True, follow=True, hub=hub
    )


def _numbered(hub: Hub, text: str) -> int:
    """Return the number of the run that has a number, or that is called by it."""
    named = _runs(hub, str(RunName(text))) or []
    found = sorted({*named, *(_runs(hub, f"trial:{text}") or [])})
    if len(found) > 1:
        matches = [f"trial:{number}" for number in found]
        raise Ambiguous(
            f"{text!r} may be {' or '.join(matches)}: write one of these", matches=matches
        )
    return found[0] if found else int(text)


def _named(hub: Hub, name: str) -> str | int:
    """Return the number of the run of a name, or the selector of an experiment.

    Text that is not the name of either is a selector or a path.
    """
    experiment = f"exp:{quote(name)}"
    runs, has_experiment = _runs(hub, str(RunName(name))), _runs(hub, experiment) is not None
    if runs and (has_experiment or len(runs) > 1):
        matches = [f"trial:{number}" for number in runs]
        matches += [experiment] if has_experiment else []
        raise Ambiguous(
            f"{name!r} may be {' or '.join(matches)}: write one of these", matches=matches
        )
    if runs or has_experiment:
        return runs[0] if runs else experiment
    selector = _as_selector(name)
    if selector == name and is_plain_name(name):
        raise NotFound(f"There is no run and no experiment {name!r}; `tbhub runs` lists them.")
    return selector


def _as_selector(text: str) -> str:
    """Return text as a selector with absolute paths, by the rules for a word of ``tbhub start``.

    Text that looks like a path, or contains blanks and a slash, and that names something that
    exists is one path, whatever characters it contains.
    """
    path = os.path.expanduser(text)
    is_explicit = not is_uri(text) and looks_like_path(text) and os.path.exists(path)
    if is_explicit or (" " in text and is_path_here(text)):
        return quote(absolute(path))
    return absolute_paths(text)


def _runs(hub: Hub, selector: str) -> list[int] | None:
    """Return the numbers of runs, at most ten; None if what they are named by is not there."""
    try:
        return [run.id for run in hub.runs(selector, limit=10, metrics=False).runs]
    except Ambiguous as error:
        raise error
    except NotFound:
        return None
