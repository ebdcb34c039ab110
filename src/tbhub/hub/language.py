"""The language to answer in: what was chosen on the page, else what the browser prefers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from tbhub.api.invalid import field_and_reason, sentence
from tbhub.api.models import Findings
from tbhub.api.problems import Problem
from tbhub.boards.wsgi import Scope
from tbhub.hub.gate import cookie
from tbhub.texts import (
    LANGUAGES,
    TEXTS,
    Language,
    Message,
    recognize,
    recognize_finding,
    recognize_problem,
    text,
)

COOKIE = "tbhub-language"  # set by web/src/lib/i18n.svelte.ts
_MAX_HEADER = 1000
_MAX_TRANSLATED = 10  # wrong fields of a request
# Of the request that is being answered; English for programs.
language: ContextVar[Language] = ContextVar("language", default="en")


def language_of(scope: Scope) -> Language:
    """Return the language to answer a request in."""
    chosen = cookie(scope, COOKIE)
    for each in LANGUAGES:
        if each == chosen:
            return each
    header = next((value for name, value in scope["headers"] if name == b"accept-language"), b"")
    return _preferred(header[:_MAX_HEADER].decode("latin-1"))


def say(code: str, /, **values: object) -> str:
    """Return the text of a code in the language of the request that is being answered."""
    return text(code, **values).in_language(language.get())


def translate(message: str) -> str:
    """Return a message in the language of the request; other text as it is."""
    return message.in_language(language.get()) if isinstance(message, Message) else message


def translate_log(written: str) -> str:
    """Return a text of a board's log in the language of the request."""
    if language.get() == "en":
        return written
    first, newline, rest = written.partition("\n")  # what a process printed follows
    return translate(recognize(first)) + newline + rest


def translate_finding(check: str, good: bool | None, written: str) -> str:
    """Return a finding of a storage test in the language of the request."""
    if language.get() == "en":
        return written
    found = recognize(written)
    if good is False and found is written:
        return say(f"check.{check}", why=written)
    return translate(found)


def translate_findings(found: Findings) -> Findings:
    """Return what the doctor found in the language of the request; subjects are names."""
    if language.get() == "en":
        return found
    return Findings(
        findings=[
            each.model_copy(
                update={
                    "text": _finding_text(each.text),
                    "advice": _finding_text(each.advice),
                }
            )
            for each in found.findings
        ]
    )


def _finding_text(written: str) -> str:
    """Return a text of the doctor; what a host or a store said is known from logs."""
    found = recognize_finding(written)
    return translate(found if isinstance(found, Message) else recognize(written))


def refused_fields(errors: Sequence[Mapping[str, Any]]) -> str:
    """Return what is wrong with the fields of a request, in English.

    Of a few fields it is a `Message`; a request may have as many wrong ones as it has bytes.
    """
    if not 0 < len(errors) <= _MAX_TRANSLATED:
        return sentence(errors)
    said = []
    for field, written in map(field_and_reason, errors):
        why = recognize_problem(written)
        said.append(text("field.wrong", field=field, why=why) if field else why)
    joined = said.pop()
    while said:
        joined = text("field.and", first=said.pop(), more=joined)
    return joined


def problem_text(problem: Problem) -> str:
    """Return the message of a problem in the language of the request.

    A problem without a text of its own is introduced by one for its code.
    """
    message = problem.message
    if language.get() != "en" and not isinstance(message, Message):
        message = recognize_problem(message)
    if isinstance(message, Message):
        return translate(message)
    code = f"problem.{problem.code}"
    return say(code if code in TEXTS else "problem.internal", message=problem.message)


def _preferred(header: str) -> Language:
    """Return the language with the highest weight in an Accept-Language header; else English."""
    best: tuple[float, Language] = (0.0, "en")
    for part in header.split(","):
        tag, _, parameter = part.partition(";")
        name = tag.strip().lower().partition("-")[0]
        try:
            weight = float(parameter.partition("=")[2]) if parameter else 1.0
        except ValueError:
            continue
        for each in LANGUAGES:
            if name == each and weight > best[0]:
                best = (weight, each)
    return best[1]
