"""What people give a board to show, and what becomes of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tbhub.api.problems import BadRequest
from tbhub.client.sources import sources


def said(**given: Any) -> dict[str, Any]:
    return {name: value for name, value in sources(**given).items() if value is not None}


@pytest.mark.parametrize(
    ("runs", "selector"),
    [
        ("exp:7 where lr<.1", "exp:7 where lr<.1"),
        (["exp:7 where lr<.1"], "exp:7 where lr<.1"),
        (["exp:resnet", "run1-run5"], "exp:resnet, run1-run5"),
        (("exp:resnet", " ", "all"), "exp:resnet, all"),
        ((f"run{number}" for number in (1, 2)), "run1, run2"),
        (["x", "./y"], f"x, {os.path.abspath('y')}"),
    ],
)
def test_several_selectors_are_their_union(runs: Any, selector: str) -> None:
    assert said(runs=runs) == {"runs": selector}


@pytest.mark.parametrize("clause", ["where lr<.1", "exp:7 order by id", "exp:7 limit 3"])
def test_what_has_no_union(clause: str) -> None:
    """A clause would count for the other selectors."""
    with pytest.raises(BadRequest, match="count for the other"):
        sources(runs=["run1", clause])
    with pytest.raises(BadRequest, match="count for the other"):
        sources(runs=clause, experiments="resnet")
    assert said(runs=clause, experiments=7) == {"runs": clause, "experiments": [7]}


def test_which_of_several_selectors_is_wrong() -> None:
    with pytest.raises(BadRequest, match="quote") as raised:
        sources(runs=["run1", 'exp:"a'])
    assert raised.value.details == {"position": 4, "text": 'exp:"a'}


@pytest.mark.parametrize("name", ["experiments", "trials"])
@pytest.mark.parametrize("given", [7, "7", [7], {"7"}, np.int64(7), np.array([7])])
def test_numbers(name: str, given: Any) -> None:
    assert said(**{name: given}) == {name: [7]}


def test_names() -> None:
    assert said(experiments="resnet") == {"runs": "exp:resnet"}
    assert said(experiments=["two words", 7]) == {"runs": 'exp:"two words"', "experiments": [7]}
    assert said(trials=["run1-run5", "all"]) == {"runs": '"run1-run5", "all"'}
    assert said(runs="run1", experiments="a/b", trials="c") == {"runs": "run1, exp:a/b, c"}


def test_places() -> None:
    assert said(uri="s3://bucket/x") == {"uris": ["s3://bucket/x"]}
    assert said(uri=[Path("x"), "/y"]) == {"uris": [os.path.abspath("x"), "/y"]}


def test_nothing() -> None:
    assert said() == said(uri=[], runs=[], experiments=[], trials=()) == said(runs=" ") == {}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"runs": 7}, r'^runs takes a selector .*"exp:7".*"trial:7".*, not int$'),
        ({"runs": ["exp:7", 7]}, r"^runs takes .*, not int$"),
        ({"runs": Path("x")}, r"^runs takes .*uri=.*, not PosixPath$"),
        ({"runs": b"exp:7"}, r"^runs takes .*, not bytes$"),
        ({"experiments": 1.5}, r"^experiments takes a number or a name, .*, not float$"),
        ({"experiments": [True]}, r"^experiments takes .*, not bool$"),
        ({"trials": {7: "a"}}, r"^trials takes .*, not dict$"),
        ({"trials": [[7]]}, r"^trials takes .*, not list$"),
        ({"uri": 7}, r"^uri takes a path or URI, or a list of them, not int$"),
    ],
)
def test_what_names_nothing(given: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        sources(**given)
