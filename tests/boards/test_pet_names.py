"""Pet names can be typed, and never run out."""

from __future__ import annotations

import re

from tbhub.boards import pet_names
from tbhub.boards.pet_names import COMBINATIONS, pet_name


def test_a_name_is_three_plain_words() -> None:
    for _ in range(200):
        assert re.fullmatch(r"[a-z]+-[a-z]+-[a-z]+", pet_name())


def test_there_are_many_and_no_word_twice() -> None:
    assert COMBINATIONS >= 100_000
    for words in (pet_names._ADVERBS, pet_names._ADJECTIVES, pet_names._ANIMALS):
        assert len(set(words)) == len(words)


def test_a_taken_name_is_not_given_again() -> None:
    taken: set[str] = set()
    for _ in range(2000):
        name = pet_name(taken.__contains__)
        assert name not in taken
        taken.add(name)


def test_when_all_are_taken_they_are_numbered() -> None:
    assert re.fullmatch(r"[a-z]+-[a-z]+-[a-z]+-2", pet_name(lambda name: name[-1].isalpha()))
