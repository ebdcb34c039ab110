"""The clauses of a selector: where, order by, limit. `tbhub.catalog.selectors` describes them.

Values are given the type of the field they are compared with, so that a comparison that can never
be true is an error with a place and not an empty answer.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import NoReturn, cast

from tbhub.catalog.selection import (
    AGGREGATES,
    COLUMNS,
    NUMBERS,
    NUMBERS_OR_NAMES,
    RESERVED,
    STATUSES,
    TEXTS,
    TIMES,
    Age,
    And,
    Column,
    Comparison,
    Condition,
    Field,
    Hparam,
    IsNull,
    Metric,
    Moment,
    Not,
    OneOf,
    Operator,
    Or,
    Order,
    Value,
    moment,
)
from tbhub.catalog.selector_error import MAX_NUMBER, SelectorError, quoted

Clauses = tuple[Condition | None, tuple[Order, ...], int | None]

_MAX_DEPTH = 40
_MAX_CONDITIONS = 200
_MAX_VALUES = 1000
_MAX_TIMES = 100
_MAX_ORDERS = 10

_OPERATOR = re.compile(r"==|!=|<>|<=|>=|!~|[=<>~]")
_WORD = re.compile(r"[^\s\"'(),=<>!~]+")
_DIGITS = re.compile(r"[0-9]{1,18}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_AGE = re.compile(r"([0-9]{1,9}|[0-9]{0,9}\.[0-9]{1,3})([smhdw])")


def parse_clauses(text: str, at: int) -> Clauses:
    """What stands behind the terms of a selector."""
    return _Clauses(text, at).parse()


def parse_fields(text: str, most: int, more: Collection[str] = ()) -> dict[str, Field]:
    """Fields with commas between them, as ``status, hparams.lr``, by how they are written.

    Args:
        most: So many are allowed.
        more: Names of columns that can be shown, beside those that runs are found by.
    """
    return _Clauses(text, 0).fields(most, more)


def parse_sort(text: str) -> tuple[Order, ...]:
    """An order as addresses have it: ``-created,metrics.loss``; ``-`` means descending."""
    return _Clauses(text, 0).sort()


@dataclass(frozen=True)
class _Token:
    """A piece of a condition.

    `text` is what it says without quotes; `parts` has each part of a word, and whether it was
    quoted.
    """

    kind: str  # word, operator, ( ) , or end
    text: str
    start: int
    parts: tuple[tuple[str, bool], ...] = ()

    @property
    def quoted(self) -> bool:
        return any(quoted for _, quoted in self.parts)

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and not self.quoted and self.text.lower() in words


def _tokens(text: str, at: int) -> list[_Token]:
    tokens = []
    while at < len(text):
        start = at
        operator = _OPERATOR.match(text, at)
        if text[at].isspace():
            at += 1
        elif text[at] in "(),":
            tokens.append(_Token(text[at], text[at], at))
            at += 1
        elif operator:
            plain = {"==": "=", "<>": "!="}.get(operator[0], operator[0])
            tokens.append(_Token("operator", plain, at))
            at = operator.end()
        elif text[at] == "!":
            raise SelectorError(text, at, "a ! stands alone", "write != or not")
        else:
            parts = []
            while at < len(text):
                if text[at] in "\"'":
                    part, at = quoted(text, at)
                    parts.append((part, True))
                elif (word := _WORD.match(text, at)) is not None:
                    at = word.end()
                    parts.append((word[0], False))
                else:
                    break
            tokens.append(_Token("word", "".join(part for part, _ in parts), start, tuple(parts)))
    tokens.append(_Token("end", "", len(text)))
    return tokens


class _Clauses:
    """Reads where, order by and limit, in this order; each may be missing."""

    def __init__(self, text: str, at: int) -> None:
        self._text = text
        self._tokens = _tokens(text, at)
        self._next = 0
        self._conditions = 0

    def parse(self) -> Clauses:
        where = None
        order: tuple[Order, ...] = ()
        limit = None
        if self._take("where"):
            where = self._or(0)
        if self._take("order"):
            if not self._take("by"):
                self._fail(self._peek, "by is missing", "write for example order by created desc")
            order = self._order()
        if self._take("limit"):
            limit = self._limit()
        token = self._peek
        if token.kind != "end":
            if token.is_word("where", "order", "limit"):
                self._fail(
                    token, f"{token.text} is out of order", "write where …, order by …, limit …"
                )
            self._fail(
                token,
                f"{_shown(token)} is not expected here",
                "join comparisons by and or or; names of runs stand before where",
            )
        return where, order, limit

    def fields(self, most: int, more: Collection[str]) -> dict[str, Field]:
        found: dict[str, Field] = {}
        while self._peek.kind != "end":
            token = self._advance()
            typed = self._text[token.start : self._peek.start].strip()
            shown = token.is_word(*more)
            found[typed] = Column(token.text.lower()) if shown else self._field(token)
            if len(found) > most:
                self._fail(token, "there are too many fields", f"{most} are allowed")
            self._comma()
        return found

    def sort(self) -> tuple[Order, ...]:
        keys: dict[Field, Order] = {}
        while self._peek.kind != "end":
            token = self._advance()
            first, quoted = token.parts[0] if token.parts else ("", False)
            descending = not quoted and first.startswith("-")
            if descending:
                parts = ((first[1:], False), *token.parts[1:])
                token = _Token("word", token.text[1:], token.start + 1, parts)
            field = self._sortable(token)
            keys.setdefault(field, Order(field, descending))
            if len(keys) > _MAX_ORDERS:
                self._fail(
                    token, "there are too many fields to order by", f"{_MAX_ORDERS} are allowed"
                )
            self._comma()
        return tuple(keys.values())

    def _comma(self) -> None:
        if not self._take_mark(",") and self._peek.kind != "end":
            self._fail(self._peek, "a comma is missing", "put one between two fields")

    @property
    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _advance(self) -> _Token:
        token = self._peek
        self._next += token.kind != "end"
        return token

    def _take(self, *words: str) -> bool:
        taken = self._peek.is_word(*words)
        self._next += taken
        return taken

    def _take_mark(self, mark: str) -> bool:
        taken = self._peek.kind == mark
        self._next += taken
        return taken

    def _fail(self, token: _Token, problem: str, hint: str) -> NoReturn:
        raise SelectorError(self._text, token.start, problem, hint)

    def _limit(self) -> int:
        token = self._advance()
        if token.kind != "word" or not _DIGITS.fullmatch(token.text):
            self._fail(
                token, "limit needs a number", 'write for example limit 10; a run is "limit"'
            )
        return int(token.text)

    def _order(self) -> tuple[Order, ...]:
        keys: dict[Field, Order] = {}
        while True:
            token = self._advance()
            field = self._sortable(token)
            descending = self._take("desc")
            if not descending:
                self._take("asc")
            keys.setdefault(field, Order(field, descending))
            if len(keys) > _MAX_ORDERS:
                self._fail(
                    token, "there are too many fields to order by", f"{_MAX_ORDERS} are allowed"
                )
            if not self._take_mark(","):
                return tuple(keys.values())

    def _sortable(self, token: _Token) -> Field:
        field = self._field(token)
        if field == Column("tag"):
            self._fail(token, "runs cannot be ordered by tag", "a run may have many tags")
        return field

    # --- conditions

    def _or(self, depth: int) -> Condition:
        parts = [self._and(depth)]
        while self._take("or"):
            parts.append(self._and(depth))
        if len(parts) == 1:
            return parts[0]
        return Or(tuple(_flat(Or, parts)))

    def _and(self, depth: int) -> Condition:
        parts = [self._not(depth)]
        while self._take("and"):
            parts.append(self._not(depth))
        if len(parts) == 1:
            return parts[0]
        return And(tuple(_flat(And, parts)))

    def _not(self, depth: int) -> Condition:
        token = self._peek
        if depth > _MAX_DEPTH:
            self._fail(token, "the condition is nested too deeply", "write it with fewer brackets")
        if self._take("not"):
            return Not(self._not(depth + 1))
        if self._take_mark("("):
            inner = self._or(depth + 1)
            if not self._take_mark(")"):
                self._fail(token, "a ( is not closed", "close it with )")
            return inner
        return self._comparison()

    def _comparison(self) -> Condition:
        token = self._advance()
        self._conditions += 1
        if self._conditions > _MAX_CONDITIONS:
            self._fail(
                token, f"there are more than {_MAX_CONDITIONS} comparisons", "use in (…) for lists"
            )
        field = self._field(token)
        if self._take("is"):
            negated = self._take("not")
            if not self._take("null"):
                self._fail(self._peek, "null is missing", "write is null or is not null")
            return IsNull(field, negated)
        negated = self._take("not")
        if self._take("in"):
            return OneOf(field, self._values(field), negated)
        operator = self._advance()
        if operator.kind != "operator" or negated:
            self._fail(
                operator,
                f"an operator is missing behind {_shown(token)}",
                f"write for example {field} = 1, or one of != < <= > >= ~ in is",
            )
        return self._compare(field, operator)

    def _compare(self, field: Field, operator: _Token) -> Condition:
        sign = cast(Operator, operator.text)
        token = self._advance()
        if token.is_word("null"):
            if sign not in ("=", "!="):
                self._fail(token, "nothing is more or less than null", "write is null")
            return IsNull(field, sign == "!=")
        if sign in ("~", "!~"):
            if isinstance(field, Metric) or field in _NOT_TEXT:
                self._fail(operator, f"{field} is no text", "compare it with = < or >")
            return Comparison(field, sign, self._text_value(token))
        value = self._value(field, token)
        if field in (Column("archived"), Column("tag")) and sign not in ("=", "!="):
            self._fail(operator, f"{field} is not more or less than another", "use = or !=")
        if isinstance(value, bool | Age) and field != Column("duration"):
            exact = isinstance(value, bool)
            if exact != (sign in ("=", "!=")):
                self._fail(
                    operator,
                    f"{field} cannot be compared so with {_shown(token)}",
                    "use = or !=" if exact else "an age goes with < <= > >=",
                )
        return Comparison(field, sign, value)

    def _values(self, field: Field) -> tuple[Value, ...]:
        opened = self._advance()
        if opened.kind != "(":
            self._fail(opened, "in needs a list", "write for example in (1, 2, 3)")
        values: dict[tuple[type, Value], Value] = {}
        while True:
            token = self._advance()
            value = self._value(field, token)
            if isinstance(value, Age) and field != Column("duration"):
                self._fail(token, "an age is no single time", "use < or >")
            if isinstance(value, Moment) and len(values) == _MAX_TIMES:
                self._fail(token, f"the list has more than {_MAX_TIMES} times", "use < and >")
            values.setdefault((type(value), value), value)
            if len(values) > _MAX_VALUES:
                self._fail(token, f"the list has more than {_MAX_VALUES} values", "use < and >")
            if self._take_mark(")"):
                return tuple(values.values())
            if not self._take_mark(","):
                self._fail(self._peek, "the list goes on without a comma", "end it with )")

    # --- fields and values

    def _field(self, token: _Token) -> Field:
        if token.kind != "word":
            self._fail(token, "a field is missing", "write for example lr, status, metrics.loss")
        if not token.text:
            self._fail(token, "nothing is between the quotes", "write a name there")
        head = "" if token.parts[0][1] else token.parts[0][0]
        space, dot, _ = head.partition(".")
        if dot and space.lower() in ("hparams", "metrics"):
            if len(token.text) == len(space) + 1:
                self._fail(token, f"{space}. names nothing", f"write for example {space}.loss")
            if space.lower() == "hparams":
                return Hparam(token.text[len(space) + 1 :])
            return self._metric(token, token.text[len(space) + 1 :])
        if not token.quoted and token.text.lower() in COLUMNS:
            return Column(token.text.lower())
        if not token.quoted and token.text.lower() in RESERVED:
            self._fail(
                token,
                f"a field is missing before {token.text}",
                f"write hparams.{token.text} for a hyperparameter",
            )
        if not token.quoted and _NUMBER.fullmatch(token.text):
            self._fail(
                token, f"{token.text} is no field", f"put the field first, as in lr < {token.text}"
            )
        return Hparam(token.text)

    def _metric(self, token: _Token, text: str) -> Metric:
        last, quoted = token.parts[-1]
        if not quoted:
            tag, dot, name = text.rpartition(".")
            if dot and tag and name in AGGREGATES and len(last) > len(name):
                return Metric(tag, name)
        return Metric(text)

    def _word(self, token: _Token) -> str:
        if token.kind != "word" or token.is_word("and", "or", "order", "limit"):
            self._fail(token, "a value is missing", "text that is no single word is quoted")
        return token.text

    def _text_value(self, token: _Token) -> str:
        text = self._word(token)
        if not token.quoted and text.lower() in RESERVED - {"true", "false", "all"}:
            self._fail(token, f"{text} is a word of the language", f'write "{text}"')
        return text

    def _value(self, field: Field, token: _Token) -> Value:
        text = self._word(token)
        number = None if token.quoted else self._number(token)
        if isinstance(field, Hparam):
            if number is not None:
                return number
            if token.is_word("true", "false"):
                return text.lower() == "true"
            return self._text_value(token)
        if isinstance(field, Metric):
            if number is None:
                self._fail(token, f"{field} is a number, {_shown(token)} is not", "write one")
            return number
        if field.name in TIMES:
            return self._time(field, token, number)
        if field.name == "archived":
            if not token.is_word("true", "false"):
                self._fail(token, "archived is true or false", "write archived = true")
            return text.lower() == "true"
        if field.name == "duration":
            age = self._age(token)
            if age is None and number is None:
                self._fail(token, f"{_shown(token)} is no duration", "write 90s, 5m, 2h or 3d")
            return age if age is not None else cast(float, number)
        if field.name in NUMBERS or (field.name in NUMBERS_OR_NAMES and number is not None):
            if not isinstance(number, int) or not 0 <= number <= MAX_NUMBER:
                self._fail(token, f"{field} is a whole number, {_shown(token)} is not", "write one")
            return number
        value = self._text_value(token)
        if field.name == "status" and value not in STATUSES:
            near = difflib.get_close_matches(value, STATUSES, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(STATUSES)}"
            self._fail(token, f"no run has the status {value!r}", hint)
        return value

    def _time(self, field: Field, token: _Token, number: float | None) -> Moment | Age | float:
        found = self._age(token) or moment(token.text)
        if found is not None:
            return found
        if number is None or abs(number) > 1e15:
            self._fail(
                token,
                f"{_shown(token)} is no time",
                f"write {field} > 2026-11-16, {field} > 2026-11-16T10:00 or {field} > 2d",
            )
        return number

    def _age(self, token: _Token) -> Age | None:
        found = None if token.quoted else _AGE.fullmatch(token.text)
        if not found:
            return None
        return Age(float(found[1]) if "." in found[1] else int(found[1]), found[2])

    def _number(self, token: _Token) -> int | float | None:
        if not _NUMBER.fullmatch(token.text):
            return None
        number = float(token.text)
        if math.isinf(number):
            self._fail(token, "no number is that large", "quote text that looks like one")
        return int(token.text) if _INTEGER.fullmatch(token.text) else number


_NOT_TEXT = frozenset(map(Column, NUMBERS | TIMES | {"duration", "archived"}))
assert TEXTS | NUMBERS_OR_NAMES | {"tag"} == COLUMNS - {column.name for column in _NOT_TEXT}


def _flat(kind: type[And] | type[Or], parts: list[Condition]) -> list[Condition]:
    """``(a and b) and c`` is ``a and b and c``."""
    flat: list[Condition] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, And | Or) and type(part) is kind else (part,))
    return flat


def _shown(token: _Token) -> str:
    text = token.text if len(token.text) <= 40 else token.text[:39] + "…"
    return repr(text) if token.kind != "end" else "nothing"
