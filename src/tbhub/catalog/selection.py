"""What a selector says, taken apart: which runs, which of these, in what order, how many.

Everything here is a plain value. Printed it is a selector again, the same for all ways of writing
it: ``parse(str(selection)) == selection``. `tbhub.catalog.selectors` makes these out of text and is
where the language is described.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

STATUSES = ("running", "finished", "failed", "killed", "lost", "unknown")

# What a run has, by how it is compared.
NUMBERS = frozenset({"id"})
TEXTS = frozenset({"name", "path", "status", "owner", "workspace", "note", "machine", "location"})
TIMES = frozenset({"created", "started", "updated", "ended"})
NUMBERS_OR_NAMES = frozenset({"experiment", "job"})
COLUMNS = NUMBERS | TEXTS | TIMES | NUMBERS_OR_NAMES | {"duration", "archived", "tag"}

Aggregate = Literal["last", "min", "max", "step", "count"]
AGGREGATES: tuple[Aggregate, ...] = ("last", "min", "max", "step", "count")

Operator = Literal["=", "!=", "<", "<=", ">", ">=", "~", "!~"]

# Words of the language; a name that is one of them is quoted.
RESERVED = frozenset(
    {
        *("where", "order", "by", "limit", "asc", "desc", "all"),
        *("and", "or", "not", "in", "is", "null", "true", "false"),
    }
)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_/.:+-]*", re.ASCII)
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://", re.ASCII)
_WORKSPACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", re.ASCII)


def quote(text: str) -> str:
    """Text in double quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def is_workspace(text: str) -> bool:
    """Whether a workspace can be called so."""
    return _WORKSPACE.fullmatch(text) is not None


def is_uri(text: str) -> bool:
    """Whether text begins with a scheme, as ``s3://bucket`` does."""
    return _URI.match(text) is not None


def looks_like_path(text: str) -> bool:
    """Return whether text without quotes can only be a path or a URI."""
    return (
        text in (".", "..")
        or text.startswith(("/", "./", "../", "~"))
        or text.endswith("/")
        or is_uri(text)
    )


def is_quoted_path(text: str) -> bool:
    """Return whether text is a place although it is in quotes: an absolute path or a URI."""
    return text.startswith("/") or is_uri(text)


# --- terms


@dataclass(frozen=True)
class _Term:
    """Names some runs; `typed` is how the user wrote it, for messages."""

    workspace: str | None = field(default=None, kw_only=True)
    typed: str = field(default="", compare=False, repr=False, kw_only=True)

    def _within(self, text: str) -> str:
        return text if self.workspace is None else f"{self.workspace}/{text}"


@dataclass(frozen=True)
class All(_Term):
    """Every run there is, or every run of a workspace."""

    def __str__(self) -> str:
        return "all" if self.workspace is None else self._within("*")


@dataclass(frozen=True)
class ExperimentNumber(_Term):
    number: int

    def __str__(self) -> str:
        last = self.typed.rpartition("/")[2]
        if self.workspace is not None and last.isdecimal():
            return self._within(last)  # as it was typed, it may also be the end of a run's path
        return self._within(f"exp:{self.number}")


@dataclass(frozen=True)
class ExperimentName(_Term):
    name: str

    def __str__(self) -> str:
        return self._within(f"exp:{_word(self.name)}")


@dataclass(frozen=True)
class ExperimentGlob(_Term):
    pattern: str

    def __str__(self) -> str:
        return self._within(f"exp:{self.pattern}")


@dataclass(frozen=True)
class RunNumber(_Term):
    number: int

    def __str__(self) -> str:
        return self._within(f"trial:{self.number}")


@dataclass(frozen=True)
class RunName(_Term):
    name: str

    def __str__(self) -> str:
        text = quote(self.name)
        if looks_like_path(self.name):
            return self._within(f"trial:{text}")
        if is_plain_name(self.name):
            return self._within(self.name)
        return self._within(text)


@dataclass(frozen=True)
class RunGlob(_Term):
    """Run names with ``*`` for any characters and ``?`` for one."""

    pattern: str

    def __str__(self) -> str:
        return self._within(self.pattern)


@dataclass(frozen=True)
class RunRange(_Term):
    """Names that begin alike and go on with a number between two others, both included.

    With a width, numbers have leading zeros to be as wide.
    """

    prefix: str
    first: int
    last: int
    width: int = 0

    def name(self, number: int) -> str:
        """The name with a number."""
        return f"{self.prefix}{number:0{self.width}d}"

    def __str__(self) -> str:
        return self._within(f"{self.name(self.first)}-{self.name(self.last)}")


@dataclass(frozen=True)
class Job(_Term):
    """A job by its number, or one that is called ``job<number>``.

    Without `only` it may also be a run whose directory is called so.
    """

    number: int
    only: bool = False

    def __str__(self) -> str:
        return self._within(f"job:{self.number}" if self.only else f"job{self.number}")


@dataclass(frozen=True)
class JobName(_Term):
    name: str

    def __str__(self) -> str:
        return self._within(f"job:{_word(self.name)}")


@dataclass(frozen=True)
class Location(_Term):
    """A path or a URI: the runs at it and below it.

    One that could be something else, ``a/b/c``, is the end of a run's path unless there is such a
    directory.
    """

    uri: str

    @property
    def is_path(self) -> bool:
        """Whether it can only be a path or a URI."""
        return looks_like_path(self.uri)

    def __str__(self) -> str:
        if looks_like_path(self.uri) and not _fits(self.uri):
            return quote(self.uri)
        return self.uri

    def absolute(self, directory: str) -> Location:
        """The same place, whatever the current directory is; a URI is as it was."""
        if is_uri(self.uri):
            return self
        path = os.path.join(directory, os.path.expanduser(self.uri))
        if not self.is_path and not os.path.exists(path):
            return self
        return replace(self, uri=os.path.normpath(path))


Term = (
    All
    | ExperimentNumber
    | ExperimentName
    | ExperimentGlob
    | RunNumber
    | RunName
    | RunGlob
    | RunRange
    | Job
    | JobName
    | Location
)

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.+@-]*", re.ASCII)
_RANGE_OR_JOB = re.compile(r"job[0-9]+|.*[0-9]-.*[0-9]", re.ASCII)


def is_plain_name(name: str) -> bool:
    """Whether a run of this name can be named without quotes, and is printed so."""
    return (
        _PLAIN.fullmatch(name) is not None
        and name.lower() not in RESERVED
        and _RANGE_OR_JOB.fullmatch(name) is None
    )


def _word(name: str) -> str:
    """What goes behind ``exp:``: bare where that means the same."""
    return name if _BARE.fullmatch(name) and name[-1] != "/" else quote(name)


def _fits(text: str) -> bool:
    """Whether text can stand bare among terms."""
    return not re.search(r"[\s,*\"']", text)


# --- filters


@dataclass(frozen=True)
class Column:
    """Something every run has, if only as nothing."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Hparam:
    name: str

    def __str__(self) -> str:
        return f"hparams.{_word(self.name)}"


@dataclass(frozen=True)
class Metric:
    tag: str
    aggregate: Aggregate = "last"

    def __str__(self) -> str:
        return f"metrics.{_word(self.tag)}.{self.aggregate}"


Field = Column | Hparam | Metric


@dataclass(frozen=True)
class Moment:
    """A day, a minute, a second or less: from `start` up to, not including, `end`."""

    text: str  # ISO 8601, UTC, as precise as it was given

    @property
    def start(self) -> float:
        return _instant(self.text).timestamp()

    @property
    def end(self) -> float:
        spans = {10: timedelta(days=1), 16: timedelta(minutes=1), 19: timedelta(seconds=1)}
        span = spans.get(len(self.text), timedelta(microseconds=1))
        return self.start + span.total_seconds()

    def __str__(self) -> str:
        return self.text


def moment(text: str) -> Moment | None:
    """A time as people write it; without a zone it is UTC. None if it is no time."""
    if not re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ]|$)", text, re.ASCII):
        return None
    try:
        instant = _instant(text)
    except (ValueError, OverflowError):
        return None
    if len(text) == 10:
        return Moment(text)
    digits = re.sub(r"(?:Z|[+-][0-9:]+)$", "", text[10:])
    spec = "minutes" if len(digits) <= 6 else "seconds" if len(digits) <= 9 else "microseconds"
    return Moment(instant.replace(tzinfo=None).isoformat(timespec=spec))


def _instant(text: str) -> datetime:
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        return instant.replace(tzinfo=UTC)
    return instant.astimezone(UTC)


@dataclass(frozen=True)
class Age:
    """So long ago; for ``duration``, so long."""

    number: int | float
    unit: str

    @property
    def seconds(self) -> float:
        return self.number * _SECONDS[self.unit]

    def __str__(self) -> str:
        return f"{self.number}{self.unit}"


Value = bool | int | float | str | Moment | Age


@dataclass(frozen=True)
class Comparison:
    field: Field
    operator: Operator
    value: Value

    def __str__(self) -> str:
        return f"{self.field} {self.operator} {_value(self.value)}"


@dataclass(frozen=True)
class OneOf:
    field: Field
    values: tuple[Value, ...]
    negated: bool = False

    def __str__(self) -> str:
        values = ", ".join(map(_value, self.values))
        return f"{self.field} {'not in' if self.negated else 'in'} ({values})"


@dataclass(frozen=True)
class IsNull:
    field: Field
    negated: bool = False

    def __str__(self) -> str:
        return f"{self.field} {'is not null' if self.negated else 'is null'}"


@dataclass(frozen=True)
class And:
    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        return " and ".join(
            f"({part})" if isinstance(part, And | Or) else str(part) for part in self.parts
        )


@dataclass(frozen=True)
class Or:
    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        return " or ".join(
            f"({part})" if isinstance(part, Or) else str(part) for part in self.parts
        )


@dataclass(frozen=True)
class Not:
    part: Condition

    def __str__(self) -> str:
        return f"not ({self.part})" if isinstance(self.part, And | Or) else f"not {self.part}"


Condition = Comparison | OneOf | IsNull | And | Or | Not


def _value(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        bare = _BARE.fullmatch(value) is not None and value.lower() not in RESERVED
        return value if bare else quote(value)
    return str(value)


@dataclass(frozen=True)
class Order:
    field: Field
    descending: bool = False

    def __str__(self) -> str:
        return f"{self.field} desc" if self.descending else str(self.field)


# --- the whole


@dataclass(frozen=True)
class Phrase:
    """Words with only blanks between them, which may be terms or one name with blanks."""

    text: str
    terms: tuple[Term, ...]  # what the words are if they are not one name


@dataclass(frozen=True)
class Selection:
    """Runs that any of the terms names (all, without terms) and that the filter lets through."""

    terms: tuple[Term, ...] = ()
    where: Condition | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None
    written: Phrase | None = field(default=None, compare=False, repr=False, kw_only=True)

    @property
    def phrase(self) -> str:
        """The text of the terms if it may be one name with blanks; otherwise empty."""
        is_same = self.written is not None and self.written.terms == self.terms
        return self.written.text if self.written is not None and is_same else ""

    def __bool__(self) -> bool:
        """Whether it says anything at all."""
        return self != Selection()

    def __str__(self) -> str:
        if self.phrase and self == Selection(self.terms):
            return self.phrase
        parts = [", ".join(map(str, self.terms))] if self.terms else []
        if self.where is not None:
            parts.append(f"where {self.where}")
        if self.order:
            parts.append(f"order by {', '.join(map(str, self.order))}")
        if self.limit is not None:
            parts.append(f"limit {self.limit}")
        return " ".join(parts)

    def absolute(self, directory: str) -> Selection:
        """With paths that mean the same in another process: relative ones are below `directory`."""
        return replace(
            self,
            terms=tuple(
                term.absolute(directory) if isinstance(term, Location) else term
                for term in self.terms
            ),
        )

    def fields(self) -> Iterator[Field]:
        """What the filter looks at."""
        waiting = [self.where] if self.where is not None else []
        while waiting:
            condition = waiting.pop()
            if isinstance(condition, And | Or):
                waiting.extend(condition.parts)
            elif isinstance(condition, Not):
                waiting.append(condition.part)
            else:
                yield condition.field
