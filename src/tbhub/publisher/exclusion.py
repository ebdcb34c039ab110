"""Which files the user has asked not to publish.

A pattern is a glob: ``*`` matches anything, ``?`` one character, ``[ab]`` one of some. One without
a slash is compared with the name of the file and of every directory above it, below the run's
directory; one with a slash with the path from there, in which ``*`` matches slashes, too. A
directory that matches is left out with everything below it.

`tbhub.publisher.restorer` renames files that it would replace otherwise: ``last.pt.attempt1``,
``console.attempt1.log``, ``last.pt.other-run``. Such a file is left out if its name or the name it
had before matches.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

VARIABLE = "TBHUB_EXCLUDE"
OTHER_RUN = "other-run"
"""Marks the name of a renamed file that is another run's."""
_MAX_PATTERNS = 100
_MAX_LENGTH = 1000
_MARK = re.compile(rf"\.(attempt\d+|{OTHER_RUN})(-\d+)?(?=\.|$)")
_OF_OTHER_RUN = re.compile(rf"\.{OTHER_RUN}(-\d+)?$")


def checked_patterns(given: Iterable[str]) -> tuple[str, ...]:
    """Return patterns in the form that `excluding` compares, each once.

    Raises:
        ValueError: One of them matches nothing, or there are too many.
    """
    found: dict[str, None] = {}
    for text in given:
        pattern = text.strip().removeprefix("./").rstrip("/")
        if not pattern or pattern.startswith("/") or len(pattern) > _MAX_LENGTH:
            raise ValueError(
                f"--exclude {text!r}: expected a pattern relative to the run's directory, "
                "such as '*.ckpt' or 'checkpoints/*'"
            )
        found[pattern] = None
    if len(found) > _MAX_PATTERNS:
        raise ValueError(f"--exclude: expected at most {_MAX_PATTERNS} patterns, got {len(found)}")
    return tuple(found)


def patterns_of_environment() -> tuple[str, ...]:
    """Return the patterns of ``TBHUB_EXCLUDE``, which are separated by commas.

    Raises:
        ValueError: One of them matches nothing, or there are too many.
    """
    given = os.environ.get(VARIABLE, "").split(",")
    return checked_patterns(filter(str.strip, given))


def excluding(path: str, patterns: Sequence[str]) -> str:
    """Return the pattern that leaves a file out; empty if none does."""
    if not patterns:
        return ""
    parts = path.split("/")
    paths = ["/".join(parts[: number + 1]) for number in range(len(parts))]
    if (before := _MARK.sub("", parts[-1])) != parts[-1]:
        paths.append("/".join([*parts[:-1], before]))
        parts.append(before)
    for pattern in patterns:
        compared = paths if "/" in pattern else parts
        if any(fnmatchcase(each, pattern) for each in compared):
            return pattern
    return ""


def attempt_mark(attempt: int) -> str:
    """Return what marks the name of a renamed file that an earlier attempt wrote."""
    return f"attempt{attempt}"


def is_of_other_run(path: str) -> bool:
    """Return whether a file was renamed because it is another run's, by its name."""
    return _OF_OTHER_RUN.search(path) is not None
