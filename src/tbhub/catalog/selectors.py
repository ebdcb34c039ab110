"""Selectors: how people say which runs they mean.

    TERM, TERM …  where CONDITION  order by FIELD [asc|desc], …  limit N

Every part may be left out. Terms are parted by commas or blanks, and together they are a union; no
term at all means all runs.

| term | names |
| --- | --- |
| ``7``, ``exp:7`` | the runs of experiment 7 |
| ``exp:mnist/cnn``, ``exp:"two words"`` | the runs of an experiment by its name |
| ``exp:mnist*`` | the runs of all experiments with such a name |
| ``trial:12``, ``#12`` | the run with number 12 |
| ``run343``, ``"my run"``, ``trial:"7"`` | a run by its name |
| ``exp8/run82``, ``a/b/run82``, ``exp8/*`` | runs by the end of their paths |
| ``run1-run5`` | names that begin alike and end in a number from 1 to 5 |
| ``run3*``, ``run?`` | names with any characters, or one, in that place |
| ``job2300``, ``job:2300``, ``job:sweepA`` | the runs of a job, by its number or name |
| ``ws1/run7``, ``ws1/exp:x``, ``ws1/*`` | the same, within a workspace |
| ``./x``, ``~/x``, ``/x``, ``x/``, ``s3://bucket/x`` | the runs at a place and below |
| ``all``, ``*`` | all runs |

A run that was found is called what its directory is called. A name that several runs have is an
error that lists them; ranges and wildcards mean all that fit.

Quotes, ``'`` or ``"``, stand around names with blanks, commas, quotes, slashes and so on; within
them ``\\"`` and ``\\\\`` are a quote and a backslash. What is quoted is never a number, a range or
a wildcard, and a path only if it is absolute or a URI. Both ends of a range have the same zeros in
front, ``run01-run12``, or none.

A condition is a comparison ``FIELD OPERATOR VALUE`` or is made of others with ``and``, ``or``,
``not`` and parentheses. Operators are ``= == != <> < <= > >=``, ``~`` and ``!~`` (contains or does
not, upper and lower case alike), ``in (…)``, ``not in (…)``, ``is null``, ``is not null``. Fields:

- Columns: id name path status experiment workspace owner job created started updated ended duration
  note tag machine location archived.
- ``hparams.lr``, or ``lr`` where no column is called so; ``hparams."learning rate"``.
- ``metrics.loss.last``, also ``.min .max .step .count``; ``metrics.loss`` is ``metrics.loss.last``.
  The tag may have dots and slashes; one with other characters is quoted: ``metrics."top 5".max``.

Values are numbers, text (quoted unless it is one word), ``true``, ``false``, and for times
``2026-11-16``, ``2026-11-16T10:00`` (UTC unless a zone follows) and ages: ``created > 2d`` is true
of what was created less than two days ago; there are ``s m h d w``. A day is all of that day, for
``=`` as for ``<`` and ``>``.

A comparison with something that a run does not have is false, and ``not`` in front of it makes it
true. ``tag != x`` says that none of a run's tags is x. Words of the language may be written in
upper case.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from tbhub.catalog.clauses import parse_clauses
from tbhub.catalog.selection import (
    RESERVED,
    All,
    ExperimentGlob,
    ExperimentName,
    ExperimentNumber,
    Job,
    JobName,
    Location,
    Phrase,
    RunGlob,
    RunName,
    RunNumber,
    RunRange,
    Selection,
    Term,
    is_quoted_path,
    is_uri,
    is_workspace,
    looks_like_path,
)
from tbhub.catalog.selector_error import MAX_NUMBER, SelectorError, quoted

__all__ = ["MAX_RANGE", "Selection", "SelectorError", "parse"]

MAX_RANGE = 100_000
"""How many names a range may have."""

# NUL and lone surrogates, which databases refuse.
_NO_TEXT = re.compile("[\x00\ud800-\udfff]")
_QUOTES = ('"', "'")
_QUOTE = re.compile("[\"']")
_GAP = re.compile(r"[\s,]*")
_CLAUSE = re.compile(r"(where|order|limit)(?=[\s(]|$)", re.IGNORECASE)
_BARE = re.compile(r"[^\s,\"']*")
_KIND = re.compile(r"([A-Za-z]+):")
_DIGITS = re.compile(r"[0-9]+")
_NUMBER = re.compile(r"#([0-9]+)")
_JOB = re.compile(r"job([0-9]+)")
_END = re.compile(r"(.*?)([0-9]+)", re.DOTALL)


def parse(text: str) -> Selection:
    """Takes a selector apart.

    Raises:
        SelectorError: It cannot be understood; says where and why.
    """
    found = _NO_TEXT.search(text)
    if found:
        raise SelectorError(text, found.start(), "this character is not text", "leave it out")
    terms, at = _parse_terms(text)
    where, order, limit = parse_clauses(text, at)
    return Selection(terms, where, order, limit, written=_phrase(text, terms))


# --- terms


def _phrase(text: str, terms: tuple[Term, ...]) -> Phrase | None:
    """Return the whole text if it is several words without quotes, commas and clauses."""
    words = [term.typed for term in terms]
    is_phrase = len(words) > 1 and text.split() == words and not _QUOTE.search(text)
    return Phrase(text.strip(), terms) if is_phrase else None


def _parse_terms(text: str) -> tuple[tuple[Term, ...], int]:
    """The terms, each once, and where they are over."""
    terms: dict[Term, None] = {}
    at = _end(_GAP, text, 0)
    while at < len(text) and not _CLAUSE.match(text, at):
        term, at = _term(text, at)
        terms.setdefault(term)
        at = _end(_GAP, text, at)
    return tuple(terms), at


def _term(text: str, start: int) -> tuple[Term, int]:
    at = _end(_BARE, text, start)
    bare = text[start:at]
    within = None
    if text[at : at + 1] in _QUOTES:
        quote_at = at
        within, at = quoted(text, at)
        if not within:
            raise SelectorError(
                text, quote_at, "nothing is between the quotes", "write a name there"
            )
        if bare[-1:] not in ("", ":", "/") or (at < len(text) and _end(_GAP, text, at) == at):
            raise SelectorError(
                text, quote_at, "quotes begin or end within a name", "put them around all of it"
            )
    return _Word(text, start, bare, within, text[start:at]).term(), at


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Where what a pattern takes is over; it may take nothing."""
    found = pattern.match(text, at)
    return found.end() if found else at


@dataclass(frozen=True)
class _Word:
    """One word among the terms: what is bare of it, and what is quoted behind that."""

    selector: str
    start: int
    bare: str
    quoted: str | None
    typed: str

    def term(self) -> Term:
        if not self.bare and self.quoted is not None:
            if is_quoted_path(self.quoted):
                return Location(self.quoted, typed=self.typed)
            return RunName(self.quoted, typed=self.typed)
        if _KIND.match(self.bare) and not is_uri(self.bare):
            return self._within(None, self.bare)
        if self.quoted is None and looks_like_path(self.bare):
            return self._location()
        workspace, slash, rest = self.bare.partition("/")
        if not slash:
            return self._within(None, self.bare)
        if is_workspace(workspace) and (_KIND.match(rest) or "/" not in rest):
            return self._within(workspace, rest)
        if self.quoted is not None:
            self._fail(
                f"{workspace}/ is no workspace", 'write ws1/"my run", or quote all of a path'
            )
        if "*" in rest or "?" in rest:
            return RunGlob(self.bare, typed=self.typed)
        return self._location()

    def _location(self) -> Location:
        if "*" in self.bare:
            self._fail(
                "wildcards stand in names of runs, not in paths", "quote a path that has a *"
            )
        return Location(self.bare, typed=self.typed)

    def _within(self, workspace: str | None, word: str) -> Term:
        kind = _KIND.match(word)
        if kind:
            return self._of_kind(workspace, kind[1].lower(), word[kind.end() :])
        if self.quoted is not None:
            return RunName(self.quoted, workspace=workspace, typed=self.typed)
        if word in ("*", "all"):
            return All(workspace=workspace, typed=self.typed)
        if _DIGITS.fullmatch(word):
            return ExperimentNumber(self._number(word), workspace=workspace, typed=self.typed)
        run = _NUMBER.fullmatch(word)
        if run:
            return RunNumber(self._number(run[1]), workspace=workspace, typed=self.typed)
        job = _JOB.fullmatch(word)
        if job:
            return Job(self._number(job[1]), workspace=workspace, typed=self.typed)
        if "*" in word or "?" in word:
            return RunGlob(word, workspace=workspace, typed=self.typed)
        if any(char in word for char in "=<>"):
            self._fail(
                f"{word!r} is no name",
                "a filter begins with where; a name with such characters is quoted",
            )
        if word.lower() in RESERVED:
            self._fail(
                f"{word!r} cannot stand here",
                f'names are parted by commas or blanks; a run called so is written "{word}"',
            )
        return self._range(workspace, word) or RunName(word, workspace=workspace, typed=self.typed)

    def _of_kind(self, workspace: str | None, kind: str, name: str) -> Term:
        if kind not in ("exp", "trial", "job"):
            self._fail(
                f"nothing is called {kind}:",
                "there are exp:, trial: and job:; a name with a colon is quoted",
            )
        if not name and self.quoted is None:
            self._fail(f"{kind}: names nothing", f'write {kind}:7 or {kind}:"a name"')
        if name and self.quoted is not None:
            self._fail("quotes begin within a name", "put them around all of it")
        text = self.quoted if self.quoted is not None else name
        number = self.quoted is None and _DIGITS.fullmatch(name) is not None
        if kind == "trial":
            if number:
                return RunNumber(self._number(name), workspace=workspace, typed=self.typed)
            return RunName(text, workspace=workspace, typed=self.typed)
        if kind == "job":
            job = None if self.quoted is not None else _JOB.fullmatch(name)
            if number or job:
                digits = job[1] if job else name
                return Job(self._number(digits), True, workspace=workspace, typed=self.typed)
            return JobName(text, workspace=workspace, typed=self.typed)
        if number:
            return ExperimentNumber(self._number(name), workspace=workspace, typed=self.typed)
        if "*" in name or "?" in name:
            return ExperimentGlob(name, workspace=workspace, typed=self.typed)
        return ExperimentName(text, workspace=workspace, typed=self.typed)

    def _range(self, workspace: str | None, word: str) -> RunRange | None:
        for dash in re.finditer("-", word):
            first = _END.fullmatch(word[: dash.start()])
            last = _END.fullmatch(word[dash.end() :])
            if first and last and first[1] == last[1] and first[1]:
                return self._range_of(workspace, first[1], first[2], last[2])
        return None

    def _range_of(self, workspace: str | None, prefix: str, low: str, high: str) -> RunRange:
        first, last = self._number(low), self._number(high)
        if first > last:
            self._fail(
                f"the range ends before it begins: {last} is less than {first}",
                f"write {prefix}{high}-{prefix}{low}",
            )
        if last - first >= MAX_RANGE:
            self._fail(f"the range is wider than {MAX_RANGE:,} names", f"write {prefix}*")
        padded = any(digits[0] == "0" and len(digits) > 1 for digits in (low, high))
        if padded and len(low) != len(high):
            self._fail(
                "the ends of the range differ in leading zeros",
                f"write {prefix}{low.zfill(len(high))}-{prefix}{high.zfill(len(low))}",
            )
        width = len(low) if padded else 0
        return RunRange(prefix, first, last, width, workspace=workspace, typed=self.typed)

    def _number(self, digits: str) -> int:
        if len(digits) > 19 or int(digits) > MAX_NUMBER:
            self._fail("no number is that large", "quote a name that is one")
        return int(digits)

    def _fail(self, problem: str, hint: str) -> NoReturn:
        raise SelectorError(self.selector, self.start, problem, hint)
