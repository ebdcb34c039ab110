"""What people give a board to show, and what becomes of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tbhub.api.models import Run, Runs
from tbhub.api.problems import Ambiguous, BadRequest
from tbhub.client.calls import Call
from tbhub.client.replies import Reply
from tbhub.client.sources import find_trials, sources
from tbhub.client.steps import do


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


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("s3://tests/late/", "s3://tests/late"),
        ("s3://tests/", "s3://tests"),
        ("/data/runs/", "/data/runs"),
        ("file:///", "file:///"),
    ],
)
def test_a_place_is_the_same_with_a_slash_at_its_end(uri: str, expected: str) -> None:
    assert said(uri=uri) == {"uris": [expected]}


def test_a_term_with_a_slash_that_names_a_directory_is_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "exp8").mkdir(parents=True)
    assert said(runs="runs/exp8") == {"runs": f"{tmp_path}/runs/exp8"}
    assert said(runs=["runs/exp8", "runs/exp9"]) == {"runs": f"{tmp_path}/runs/exp8, runs/exp9"}
    assert said(trials="runs/exp8", experiments="runs/exp8") == {
        "runs": 'exp:runs/exp8, "runs/exp8"'
    }


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


class Catalog:
    """Answers with all its runs; counts the requests."""

    def __init__(self, **names: str) -> None:
        """`names`: what runs are called by ``r`` and their number."""
        self.requests = 0
        self._runs = [
            Run.model_validate(
                {
                    **dict.fromkeys(("path", "workspace", "experiment", "location"), "x"),
                    "id": int(key[1:]),
                    "name": name,
                    "experiment_id": 1,
                    "status": "finished",
                    "created": "2026-11-16T10:00:00Z",
                }
            )
            for key, name in names.items()
        ]

    def __call__(self, call: Call[Any]) -> Reply:
        self.requests += 1
        answer = Runs(total=len(self._runs), offset=0, runs=self._runs)
        return Reply(200, answer.model_dump_json().encode())


@pytest.mark.parametrize("given", ["23", "#23", "trial:23", "Trial:23"])
def test_text_with_a_number_is_the_run_of_that_number(given: str) -> None:
    assert do(find_trials([given, "best", 7]), Catalog(r23="run82")) == [23, "best", 7]
    assert do(find_trials(given), Catalog()) == [23]  # the hub reports that there is none
    assert do(find_trials(given), Catalog(r23=given)) == [23]


@pytest.mark.parametrize("given", ["23", "#23", "trial:23"])
def test_text_that_is_a_number_and_a_name_is_ambiguous(given: str) -> None:
    assert do(find_trials(given), Catalog(r31=given)) == [31]
    with pytest.raises(Ambiguous, match=r"hint: .* trials=23 or trials=31\.") as caught:
        do(find_trials(given), Catalog(r23="run82", r31=given))
    assert f"{given} can mean 2 runs: run82 (#23), {given} (#31)." in str(caught.value)


def test_numbers_and_names_are_not_looked_up() -> None:
    catalog = Catalog(r23="run82")
    assert do(find_trials([23, "run82", "# 23", "#x"]), catalog) == [23, "run82", "# 23", "#x"]
    assert do(find_trials(None), catalog) == []
    assert catalog.requests == 0
    with pytest.raises(TypeError, match="trials takes a number or a name"):
        do(find_trials(1.5), catalog)  # type: ignore[arg-type]


def test_places() -> None:
    assert said(uri="s3://bucket/x") == {"uris": ["s3://bucket/x"]}
    assert said(uri=[Path("x"), "/y"]) == {"uris": [os.path.abspath("x"), "/y"]}


@pytest.mark.parametrize("uri", ["", " ", ["runs", ""]])
def test_an_empty_place_is_not_the_current_directory(uri: Any) -> None:
    with pytest.raises(BadRequest, match="uri is empty"):
        sources(uri=uri)


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
