"""How a run is named inside a board: ``{workspace}_{run}_{logdir}_lr={hparams.lr}``.

A field is a column of the run (``{run}``) or a hyperparameter (``{hparams.lr}``, or ``{lr}`` where
no column is called so). ``{{`` and ``}}`` are braces. Values are written like this:

- Floats as Microsoft XT writes them: ``.01``, ``-.5``, ``1``, ``1e-05``; never rounded.
- Booleans, whole numbers and text as Python prints them, lists as ``1,2``, mappings as ``a=1,b=2``.
- None, or nothing at all, as ``NA``, which is reported; so is a column without text or tags, but
  for paths. A hyperparameter that is empty text is a value.
- At most 200 characters; what is longer ends in ``…``, but for paths: what lies below a run must
  still be seen to.
- A slash is kept in ``{run}``, ``{name}``, ``{path}`` and ``{logdir}``, and is ``%2F`` elsewhere:
  TensorBoard takes a run for part of another if its name goes on with a slash, and a value must
  not bring that about.

Names are unique, and a name once given stays. The sub-directory of a training, which would have the
same name as the others, stands behind it where the template does not name it: ``lr=.01/train`` and
``lr=.01/test``. Of different runs with the same name the first keeps it; the next get what they are
called behind it, ``lr=.01_run7``, where the template does not say that, and are numbered ``_2``,
``_3`` if that is not enough. Upper and lower case differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from numbers import Integral, Real

from tbhub.errors import TbhubError

MISSING = "NA"
"""Stands for a value that a run does not have."""

MAX_VALUE = 200
"""How many characters of a value a name shows."""

_HPARAMS = "hparams."
_LOGDIR = "logdir"
_PATHS = frozenset({"run", "name", "path", _LOGDIR})
_PLACES = frozenset({"path", "name", "location"})  # fields that may name the sub-directory, too
_TELLING = frozenset({"run", "path", "name", "location", "id"})  # and that tell runs apart
_EMPTY: tuple[object, ...] = ("", [], ())  # a column that holds nothing: no note, no tags
_MAX_LISTED = 12

# Control characters, line separators, marks that turn the text behind them around, and lone
# surrogates, which stand for the bytes of undecodable file names and which UTF-8 refuses.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_BLANKS = " \xa0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


class TemplateError(TbhubError, ValueError):
    """A template that cannot be understood."""


@dataclass(frozen=True)
class RunFields:
    """What a template can say about a run.

    Args:
        columns: Values by the name of their column; ``run`` and ``logdir`` are paths.
        hparams: Hyperparameters, flat or nested.
        key: Tells this run from all others, now and later; its path does.
        owner: Shared by the sub-directories of one training run. With a template that ends in
            ``/{logdir}`` they are then numbered together, ``run1_2/train`` and ``run1_2/test``,
            and so they are with one that does not name the sub-directory at all; TensorBoard
            finds the metrics of a set of hyperparameters by this prefix.
    """

    columns: Mapping[str, object]
    hparams: Mapping[str, object]
    key: str
    owner: str = ""


@dataclass(frozen=True)
class NamedRuns:
    """Names in the order of the runs, and what was missing on the way.

    Attributes:
        names: One for each run.
        missing: Keys of the runs that have no value, by field.
        known: The fields there would have been.
    """

    names: tuple[str, ...]
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    known: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Field:
    name: str


@dataclass(frozen=True)
class Template:
    """A template taken apart; ``parse_template`` makes it."""

    text: str
    parts: tuple[str | _Field, ...]

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields it names, each once."""
        return tuple(dict.fromkeys(part.name for part in self.parts if isinstance(part, _Field)))


def parse_template(text: str) -> Template:
    """Takes a template apart.

    Raises:
        TemplateError: It is blank, a brace has no partner or a field has no name.
    """
    if not text.strip():
        raise TemplateError("the template is blank; write for example {workspace}_{run}_{logdir}")
    parts: list[str | _Field] = []
    literal: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char not in "{}":
            literal.append(char)
            at += 1
        elif text[at : at + 2] == char * 2:
            literal.append(char)
            at += 2
        elif char == "}":
            raise _wrong(text, at, "a } closes nothing; write }} for a brace")
        else:
            name, at = _field(text, at)
            if literal:
                parts.append("".join(literal))
                literal = []
            parts.append(_Field(name))
    if literal:
        parts.append("".join(literal))
    return Template(text, tuple(parts))


def _field(text: str, start: int) -> tuple[str, int]:
    """The name of the field that opens at a place, and where it is over."""
    end = start + 1
    while end < len(text) and text[end] not in "{}":
        end += 1
    if end == len(text) or text[end] == "{":
        raise _wrong(text, start, "a { is not closed; close it with }, or write {{ for a brace")
    name = text[start + 1 : end].strip()
    if not name:
        raise _wrong(text, start, "a field has no name; write for example {run} or {hparams.lr}")
    if name == _HPARAMS:
        raise _wrong(
            text, start, "{hparams.} names no hyperparameter; write for example {hparams.lr}"
        )
    return name, end + 1


def _wrong(text: str, at: int, what: str) -> TemplateError:
    return TemplateError(f"template {text!r}, column {at + 1}: {what}")


def clean_name(text: str) -> str:
    """A run name that is safe in TensorBoard's pages, messages and paths, and still readable.

    The parts between slashes are treated one by one, so that a run that lay below another still
    does. Empty parts and ``.`` are left out, which makes a path relative. As ``%XX`` of their UTF-8
    are written: control characters and line separators, marks that reverse text, lone surrogates,
    blanks at either end of a part, and dots at its end (``..`` would leave the log directory, and
    hyperparameters find no metrics in a run that ends in a dot). All else stays as it is, ``%``
    included. Nothing at all is ``.``, TensorBoard's name for the log directory itself.
    """
    return "/".join(_clean_parts(text)) or "."


def _clean_parts(text: str) -> list[str]:
    return [_clean_part(part) for part in text.split("/") if part not in ("", ".")]


def _clean_part(part: str) -> str:
    part = printable(part)
    bare = part.lstrip(_BLANKS)
    body = bare.rstrip(_BLANKS + ".")
    return _escape(part[: len(part) - len(bare)]) + body + _escape(bare[len(body) :])


def printable(text: str) -> str:
    """Return text with control characters, line separators and marks that reverse text as %XX."""
    return _UNSAFE.sub(lambda found: _escape(found[0]), text)


def _escape(text: str) -> str:
    try:
        encoded = text.encode("utf-8", "surrogateescape")  # the byte of the file name itself
    except UnicodeEncodeError:
        encoded = text.encode("utf-8", "surrogatepass")
    return "".join(f"%{byte:02X}" for byte in encoded)


@dataclass
class _Claim:
    """A stem in use: by whom, and by how many runs."""

    group: tuple[str, str]  # an owner, and the stem without a number
    runs: int = 0


@dataclass(frozen=True)
class _Named:
    name: str
    stem: str
    missing: tuple[str, ...]


class Namer:
    """Names runs one after the other as they appear, and never takes a name back.

    Raises:
        TemplateError: The template cannot be understood.
    """

    def __init__(self, template: str) -> None:
        self.template = parse_template(template)
        # A name is a stem and, if runs are numbered together, the sub-directory behind it. A stem
        # belongs to one group of runs, a name to one run.
        self._runs: dict[str, _Named] = {}  # by key
        self._names: set[str] = set()
        self._claims: dict[str, _Claim] = {}  # by stem
        self._stems: dict[tuple[str, str], str] = {}  # by group
        self._numbers: dict[str, int] = {}  # by plain stem: where to look for a free one
        self._known: dict[str, None] = {}

    def name(self, run: RunFields) -> str:
        """The name of a run: the one it was given first, whatever its values are now."""
        named = self._runs.get(run.key)
        if named is None:
            named = self._runs[run.key] = self._claim(run)
            self._known.update(dict.fromkeys(run.columns))
            self._known.update(dict.fromkeys(f"{_HPARAMS}{name}" for name in run.hparams))
        return named.name

    def forget(self, key: str) -> None:
        """A run is gone and its name is free for the next; unknown keys are no matter."""
        named = self._runs.pop(key, None)
        if named is None:
            return
        self._names.remove(named.name)
        claim = self._claims[named.stem]
        claim.runs -= 1
        if claim.runs == 0:
            del self._claims[named.stem]
            if self._stems.get(claim.group) == named.stem:
                del self._stems[claim.group]
            self._numbers.pop(claim.group[1], None)

    def named(self) -> NamedRuns:
        """All runs it knows, in the order they came."""
        missing: dict[str, list[str]] = {}
        for key, run in self._runs.items():
            for name in run.missing:
                missing.setdefault(name, []).append(key)
        return NamedRuns(
            tuple(run.name for run in self._runs.values()),
            {name: tuple(missing[name]) for name in self.template.fields if name in missing},
            tuple(self._known),
        )

    def _claim(self, run: RunFields) -> _Named:
        texts, missing = _render(self.template, run)
        ends = _ends_in_logdir(self.template)
        together = bool(run.owner) and (ends or not _names_part(self.template, run))
        owner = run.owner if together else run.key
        below = _clean_parts(texts.pop() if ends else _part_of(run)) if together else []
        group = (owner, clean_name("".join(texts)))
        for stem in self._candidates(group, run):
            name = "/".join([stem, *below] if stem != "." or not below else below)
            claim = self._claims.get(stem)
            if name not in self._names and (claim is None or claim.group == group):
                break
        self._names.add(name)
        self._claims.setdefault(stem, _Claim(group)).runs += 1
        self._stems.setdefault(group, stem)
        return _Named(name, stem, missing)

    def _candidates(self, group: tuple[str, str], run: RunFields) -> Iterator[str]:
        """What the group has, the plain stem, with the run's own name, and then numbers."""
        if group in self._stems:
            yield self._stems[group]
        plain = group[1]
        yield plain
        called = run.columns.get("run")
        if called and not _TELLING.intersection(self.template.fields):
            yield clean_name(f"{plain}_{called}")
        for number in count(self._numbers.get(plain, 2)):
            self._numbers[plain] = number
            yield f"{plain}_{number}"


def name_runs(template: str, runs: Iterable[RunFields]) -> NamedRuns:
    """Names runs: unique names in their order, which do not change when others are added behind.

    Raises:
        TemplateError: The template cannot be understood.
    """
    namer = Namer(template)
    names = tuple(namer.name(run) for run in runs)
    return replace(namer.named(), names=names)


def missing_warning(named: NamedRuns) -> str | None:
    """One line about every value that was missing, or None if there were all."""
    if not named.missing:
        return None
    total = len(set(named.names))
    notes = []
    for name, keys in named.missing.items():
        if len(keys) < total:
            notes.append(f"{{{name}}} in {len(keys)} of {total} runs, the first is {keys[0]}")
        else:
            notes.append(f"{{{name}}} in every run")
    text = f"fields without a value are named {MISSING}: {'; '.join(notes)}"
    if any(len(keys) == total for keys in named.missing.values()):
        listed = ", ".join(named.known[:_MAX_LISTED]) or "none"
        text += f" (there are {listed}{', …' if len(named.known) > _MAX_LISTED else ''})"
    return printable(text)


def _ends_in_logdir(template: Template) -> bool:
    before, last = ("", *template.parts)[-2:]
    return last == _Field(_LOGDIR) and isinstance(before, str) and before.endswith("/")


def _part_of(run: RunFields) -> str:
    """Return the sub-directory of a training run; empty for its own directory."""
    return str(run.columns.get(_LOGDIR) or "")


def _names_part(template: Template, run: RunFields) -> bool:
    """Return whether a template names the sub-directory of a training run.

    The name and the path of a run that was found end in it; those of a run that was started are
    the same for all of its sub-directories.
    """
    if _LOGDIR in template.fields:
        return True
    part = _part_of(run)
    values = (str(run.columns.get(name) or "") for name in _PLACES.intersection(template.fields))
    return bool(part) and any(f"/{value.rstrip('/')}".endswith(f"/{part}") for value in values)


def _render(template: Template, run: RunFields) -> tuple[list[str], tuple[str, ...]]:
    """The text of each part, and the fields without a value."""
    texts = []
    missing = []
    for part in template.parts:
        if isinstance(part, str):
            texts.append(part)
            continue
        value = _find_value(part.name, run)
        if value is None:
            missing.append(part.name)
        text = _format(value)
        if part.name not in _PATHS or part.name not in run.columns:
            if len(text) > MAX_VALUE:
                text = text[: MAX_VALUE - 1] + "…"
            text = text.replace("/", "%2F")
        texts.append(text)
    return texts, tuple(dict.fromkeys(missing))


def _find_value(name: str, run: RunFields) -> object:
    if name.startswith(_HPARAMS):
        return _find_hparam(run.hparams, name.removeprefix(_HPARAMS))
    if name in run.columns:
        value = run.columns[name]
        return None if name not in _PATHS and value in _EMPTY else value
    return _find_hparam(run.hparams, name)


def _find_hparam(hparams: Mapping[str, object], name: str) -> object:
    """A flat name wins; otherwise every dot may lead into a mapping, the last one first."""
    if name in hparams:
        return hparams[name]
    end = name.rfind(".")
    while end >= 0:
        inner = hparams.get(name[:end])
        if isinstance(inner, Mapping):
            value = _find_hparam(inner, name[end + 1 :])
            if value is not None:
                return value
        end = name.rfind(".", 0, end)
    return None


def _format(value: object) -> str:
    if value is None:
        return MISSING
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return ",".join(f"{name}={_format(inner)}" for name, inner in value.items())
    if isinstance(value, list | tuple):
        return ",".join(map(_format, value))
    text = str(value)
    if isinstance(value, Real) and not isinstance(value, Integral):  # numpy's floats, too
        text = text.removesuffix(".0")
        text = re.sub(r"^(-?)0\.", r"\1.", text)
    return text
