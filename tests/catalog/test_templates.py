"""Names of runs: what templates say, what TensorBoard can take, and that no two are one."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tbhub.catalog.templates import (
    MAX_VALUE,
    MISSING,
    NamedRuns,
    Namer,
    RunFields,
    TemplateError,
    clean_name,
    missing_warning,
    name_runs,
    parse_template,
)
from tbhub.errors import TbhubError


def fields(
    key: str = "k", hparams: Mapping[str, object] | None = None, **columns: object
) -> RunFields:
    return RunFields(columns, hparams or {}, key)


def below(owner: str, run: str, logdir: str) -> RunFields:
    """A sub-directory of a training run."""
    return RunFields({"run": run, "logdir": logdir}, {}, f"{owner}/{logdir}", owner)


def named(template: str, hparams: Mapping[str, object] | None = None, **columns: object) -> str:
    return name_runs(template, [RunFields(columns, hparams or {}, "k")]).names[0]


def value(given_value: object) -> str:
    return named("{hparams.x}", {"x": given_value})


def test_the_name_xt_gives() -> None:
    name = named(
        "{workspace}_{run}_{logdir}_lr={hparams.lr}",
        {"lr": 0.01},
        workspace="ws1",
        run="run23",
        logdir="train",
    )
    assert name == "ws1_run23_train_lr=.01"


@pytest.mark.parametrize(
    ("given_value", "text"),
    [
        (0.01, ".01"),
        (-0.5, "-.5"),
        (1.0, "1"),
        (10.5, "10.5"),
        (100.0, "100"),
        (0.0, "0"),
        (-0.0, "-0"),
        (1e-05, "1e-05"),
        (1.5e-07, "1.5e-07"),
        (1e22, "1e+22"),
        (0.1 + 0.2, ".30000000000000004"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (np.float32(0.01), ".01"),
        (np.float64(0.01), ".01"),
        (np.int64(3), "3"),
        (7, "7"),
        (True, "True"),
        (False, "False"),
        ("0.01", "0.01"),
        ("adam w", "adam w"),
        ([1, 0.5, "a"], "1,.5,a"),
        ((64, None), "64,NA"),
        ({"lr": 0.1, "m": 1}, "lr=.1,m=1"),
        (None, MISSING),
    ],
)
def test_how_values_are_written(given_value: object, text: str) -> None:
    assert value(given_value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_no_float_is_rounded(number: float) -> None:
    assert float(value(number)) == number


def test_hyperparameters_are_found_flat_and_nested() -> None:
    nested: dict[str, Any] = {"optimizer": {"lr": 1, "adam": {"b.1": 2}}, "a.b": {"c": 3}}
    assert named("{hparams.optimizer.lr}", nested) == "1"
    assert named("{hparams.optimizer.adam.b.1}", nested) == "2"
    assert named("{hparams.a.b.c}", nested) == "3"
    assert named("{hparams.optimizer.lr}", nested | {"optimizer.lr": "flat"}) == "flat"
    assert named("{hparams.the learning-rate/base}", {"the learning-rate/base": 4}) == "4"


def test_a_column_wins_over_a_hyperparameter_of_its_name() -> None:
    assert named("{lr}", {"lr": 1}) == "1"
    assert named("{lr}", {"lr": 1}, lr=2) == "2"
    assert named("{hparams.lr}", {"lr": 1}, lr=2) == "1"
    assert named("{opt.lr}", {"opt": {"lr": 1}}) == "1"


def test_doubled_braces_are_braces() -> None:
    assert named("{{{run}}}", run="r") == "{r}"
    assert named("{{}}") == "{}"
    assert named("{ run }", run="r") == "r"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("", "blank"),
        (" \n", "blank"),
        ("a{run", "column 2: a { is not closed"),
        ("{run", "column 1: a { is not closed"),
        ("{a{b}}", "column 1: a { is not closed"),
        ("run}_", "column 4: a } closes nothing; write }}"),
        ("{run}}", "column 6: a } closes nothing"),
        ("a_{}", "column 3: a field has no name"),
        ("{ }", "column 1: a field has no name"),
        ("{hparams.}", "column 1: {hparams.} names no hyperparameter"),
    ],
)
def test_a_malformed_template_says_what_is_wrong_and_where(template: str, message: str) -> None:
    with pytest.raises(TemplateError) as caught:
        parse_template(template)
    assert message in str(caught.value)
    assert isinstance(caught.value, TbhubError)
    assert isinstance(caught.value, ValueError)


def test_the_fields_of_a_template_are_known_before_any_run() -> None:
    assert parse_template("{run}/{hparams.lr}_{run}").fields == ("run", "hparams.lr")


def test_what_is_missing_is_named_so_and_reported_once() -> None:
    runs = [
        fields("/a", {"lr": 1}, run="a"),
        fields("/b", {"lr": None}, run="b"),
        fields("/c", run="c"),
    ]
    result = name_runs("{run}_{hparams.lr}_{nothing}_{nothing}", runs)
    assert result.names == ("a_1_NA_NA", "b_NA_NA_NA", "c_NA_NA_NA")
    assert result.missing == {"hparams.lr": ("/b", "/c"), "nothing": ("/a", "/b", "/c")}
    assert missing_warning(result) == (
        "fields without a value are named NA: {hparams.lr} in 2 of 3 runs, the first is /b; "
        "{nothing} in every run (there are run, hparams.lr)"
    )


def test_a_warning_is_one_line_of_bearable_length() -> None:
    many = {f"p{number}": 1 for number in range(1000)}
    text = missing_warning(name_runs("{a\nb}", [fields("k\ud800", many)]))
    assert text is not None
    assert len(text) < 300
    assert len(text.encode().splitlines()) == 1


@pytest.mark.parametrize("empty", ["", [], (), None])
def test_a_column_without_content_is_missing(empty: object) -> None:
    runs = [fields("a", run="run1", tags=empty), fields("b", run="run2", tags=["x", "y"])]
    found = name_runs("{tags}", runs)
    assert found.names == (MISSING, "x,y")
    assert found.missing == {"tags": ("a",)}
    assert named("{run}_{logdir}", run="run1", logdir="") == "run1_"
    assert named("x={hparams.x}", {"x": ""}) == "x="


def test_no_warning_if_nothing_is_missing() -> None:
    assert missing_warning(name_runs("{run}", [fields(run="")])) is None
    assert missing_warning(NamedRuns(())) is None


def test_the_first_keeps_the_plain_name_and_later_ones_are_numbered() -> None:
    runs = [fields(str(key), run=run) for key, run in enumerate(["x", "x", "x_2", "X", "x"])]
    assert name_runs("{run}", runs).names == ("x", "x_2", "x_2_2", "X", "x_3")


def test_a_run_that_is_seen_again_keeps_its_name() -> None:
    namer = Namer("{run}_{status}")
    assert namer.name(fields("k", run="r", status="running")) == "r_running"
    assert namer.name(fields("k", run="r", status="done")) == "r_running"
    assert namer.named().names == ("r_running",)
    assert name_runs("{run}", [fields(run="r"), fields(run="r")]).names == ("r", "r")


def test_a_forgotten_run_frees_its_name_and_no_other_changes() -> None:
    namer = Namer("{run}")
    first, second, third = (fields(key, run="x") for key in "abc")
    assert [namer.name(run) for run in (first, second, third)] == ["x", "x_2", "x_3"]
    namer.forget("b")
    namer.forget("never seen")
    assert namer.name(third) == "x_3"
    assert namer.name(second) == "x_2"
    namer.forget("a")
    assert namer.name(third) == "x_3"
    assert namer.name(fields("d", run="x")) == "x"


def test_a_forgotten_run_is_missing_nothing() -> None:
    namer = Namer("{lr}")
    namer.name(fields())
    assert namer.named().missing == {"lr": ("k",)}
    namer.forget("k")
    assert namer.named() == NamedRuns(())


def test_sub_directories_of_a_run_are_numbered_together() -> None:
    """TensorBoard finds the metrics of a session by its name and a slash."""
    runs = [
        below("a", "run1", ""),
        below("b", "run1", ""),
        below("a", "run1", "train"),
        below("b", "run1", "train"),
        below("b", "run1", "t/u"),
    ]
    assert name_runs("x/{run}/{logdir}", runs).names == (
        "x/run1",
        "x/run1_2",
        "x/run1/train",
        "x/run1_2/train",
        "x/run1_2/t/u",
    )
    namer = Namer("{run}/{logdir}")
    for run in runs:
        namer.name(run)
    namer.forget("b/")
    assert namer.name(runs[1]) == "run1_2"
    for key in ("b/", "b/train", "b/t/u"):
        namer.forget(key)
    assert namer.name(below("c", "run1", "train")) == "run1_2/train"


@pytest.mark.parametrize("field", ["name", "path", "location"])
def test_sub_directories_of_a_started_run_stand_behind_its_name(field: str) -> None:
    def started(owner: str, logdir: str) -> RunFields:
        columns = {"run": "run13", "logdir": logdir, field: "run13"}
        return RunFields(columns, {}, f"{owner}/{logdir}", owner)

    runs = [started(owner, part) for owner in "ab" for part in ("train", "", "a/test")]
    expected = ("run13/train", "run13", "run13/a/test")
    again = ("run13_2/train", "run13_2", "run13_2/a/test")
    assert name_runs(f"{{{field}}}", runs).names == (*expected, *again)
    assert name_runs(f"x_{{{field}}}", runs).names == tuple(
        f"x_{name}" for name in expected + again
    )


@pytest.mark.parametrize(
    ("template", "names"),
    [
        ("{name}", ("run1", "run1/train", "run1/test")),
        ("{path}", ("exp/run1", "exp/run1/train", "exp/run1/test")),
        ("{location}", ("%2Fr%2Frun1", "%2Fr%2Frun1%2Ftrain", "%2Fr%2Frun1%2Ftest")),
    ],
)
def test_sub_directories_that_were_found_are_named_once(
    template: str, names: tuple[str, ...]
) -> None:
    def found(logdir: str) -> RunFields:
        name = f"run1/{logdir}".rstrip("/")
        places = {"name": name, "path": f"exp/{name}", "location": f"/r/{name}"}
        columns = {"run": "run1", "logdir": logdir, **places}
        return RunFields(columns, {}, f"/r/{name}", "/r/run1")

    assert name_runs(template, map(found, ("", "train", "test"))).names == names


def test_sub_directories_whose_paths_meet_stay_apart() -> None:
    runs = [
        below("1", "a", "b/c"),
        below("2", "a/b", "c"),
        below("3", "a/b/c", ""),
        below("3", "a/b/c", "."),
    ]
    names = name_runs("{run}/{logdir}", runs).names
    assert names == ("a/b/c", "a/b_2/c", "a/b/c_2", "a/b/c_3")


@pytest.mark.parametrize("logdir", ["", ".", "/"])
def test_an_empty_logdir_leaves_no_trace_in_the_path(logdir: str) -> None:
    assert named("{run}/{logdir}", run="r", logdir=logdir) == "r"
    assert named("{run}/{logdir}/lr", run="r", logdir=logdir) == "r/lr"
    assert named("{logdir}", logdir=logdir) == "."


def test_only_paths_and_templates_make_sub_directories() -> None:
    assert named("t/{run}/{logdir}", run="a/b", logdir="c/d") == "t/a/b/c/d"
    assert named("{hparams.data}", {"data": "s3://a"}) == "s3:%2F%2Fa"
    assert named("{run}", {"run": "a/b"}) == "a%2Fb"
    assert named("{workspace}", workspace="team/x") == "team%2Fx"


def test_long_values_are_cut_and_still_told_apart() -> None:
    runs = [fields(end, {"note": "n" * 1000 + end}) for end in "ab"]
    first, second = name_runs("{note}", runs).names
    assert first == "n" * (MAX_VALUE - 1) + "…"
    assert second == first + "_2"
    assert value("n" * MAX_VALUE) == "n" * MAX_VALUE


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("", "."),
        (".", "."),
        ("/", "."),
        ("./a/.//b/", "a/b"),
        ("/etc/passwd", "etc/passwd"),
        ("..", "%2E%2E"),
        ("../../a", "%2E%2E/%2E%2E/a"),
        ("...", "%2E%2E%2E"),
        ("a..b/.hidden", "a..b/.hidden"),
        ("v1./train", "v1%2E/train"),
        (" a b /c ", "%20a b%20/c%20"),
        (" ", "%20"),
        ("\xa0a", "%C2%A0a"),
        ("a\nb\x00\x7f\x85", "a%0Ab%00%7F%C2%85"),
        ("\u2028\u202e", "%E2%80%A8%E2%80%AE"),
        ("caf\udce9", "caf%E9"),
        ("\ud800", "%ED%A0%80"),
    ],
)
def test_what_tensorboard_cannot_take_is_encoded(text: str, clean: str) -> None:
    assert clean_name(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        "a b",
        "größe/日本/👩‍🔬",
        "\"'`",
        "<script>alert(1)<\\script>",
        "#1?a=b&c",
        "%2f",
        "a,b",
        "a\\b",
        "~x",
    ],
)
def test_what_the_pages_show_stays_readable(text: str) -> None:
    assert clean_name(text) == text


TEXT = st.text(
    st.characters(exclude_categories=()) | st.sampled_from("/. {}\n_2\ud800"), max_size=30
)
RUNS = st.lists(
    st.builds(
        lambda run, logdir, lr, owner: (
            {"run": run, "logdir": logdir, "name": run},
            {"lr": lr},
            owner,
        ),
        st.sampled_from(["x", "x_2", "x/t", "", "..", "X", "x "]) | TEXT,
        st.sampled_from(["", ".", "t", "t_2", "u/t"]),
        st.none() | st.integers(0, 2) | st.floats() | TEXT | st.lists(st.booleans()),
        st.sampled_from(["", "one", "two"]),
    ),
    max_size=12,
).map(
    lambda runs: [
        RunFields(columns, hparams, str(number), owner)
        for number, (columns, hparams, owner) in enumerate(runs)
    ]
)
TEMPLATES = st.sampled_from(
    [
        "{run}/{logdir}",
        "/{logdir}",
        "{logdir}",
        "same",
        "{run}_{lr}",
        "{lr}/{logdir}/{run}",
        "{x}",
        "{name}",
    ]
)


def assert_tensorboard_can_take(name: str) -> None:
    assert name
    json.dumps(name, ensure_ascii=False).encode()
    assert not any(ord(char) < 32 for char in name)
    if name != ".":
        assert os.path.normpath(os.path.join("/logs", name)) == f"/logs/{name}"
        assert not name.endswith(".")


@given(TEXT)
def test_a_clean_name_is_safe_and_cleaning_it_changes_nothing(text: str) -> None:
    name = clean_name(text)
    assert_tensorboard_can_take(name)
    assert clean_name(name) == name


@given(TEXT, TEXT)
def test_what_lay_below_a_run_still_does(above: str, below: str) -> None:
    assume(clean_name(above) != "." and clean_name(below) != ".")
    assert clean_name(f"{above}/{below}") == f"{clean_name(above)}/{clean_name(below)}"


@given(TEXT, RUNS)
def test_any_text_is_a_template_or_an_error(text: str, runs: list[RunFields]) -> None:
    try:
        result = name_runs(text, runs)
    except TemplateError:
        return
    for name in result.names:
        assert_tensorboard_can_take(name)
    assert len((missing_warning(result) or "one").encode().splitlines()) == 1


@given(TEXT)
def test_every_text_can_be_written_as_a_template(text: str) -> None:
    assume(text.strip())
    assert named(text.replace("{", "{{").replace("}", "}}")) == clean_name(text)


@given(TEMPLATES, RUNS)
def test_names_are_unique_and_clean(template: str, runs: list[RunFields]) -> None:
    names = name_runs(template, runs).names
    assert len(set(names)) == len(names) == len(runs)
    for name in names:
        assert_tensorboard_can_take(name)
        assert clean_name(name) == name


@given(TEMPLATES, RUNS, st.integers(0, 12))
def test_no_run_is_renamed_when_others_come(
    template: str, runs: list[RunFields], earlier: int
) -> None:
    assert name_runs(template, runs[:earlier]).names == name_runs(template, runs).names[:earlier]


@given(TEMPLATES, RUNS, st.lists(st.tuples(st.booleans(), st.integers(0, 11)), max_size=40))
def test_no_run_is_renamed_or_named_like_another_when_some_go(
    template: str, runs: list[RunFields], steps: list[tuple[bool, int]]
) -> None:
    namer = Namer(template)
    there: dict[str, str] = {}
    for comes, number in steps:
        if number >= len(runs):
            continue
        run = runs[number]
        if comes:
            name = namer.name(run)
            assert there.setdefault(run.key, name) == name
        else:
            namer.forget(run.key)
            there.pop(run.key, None)
        assert namer.named().names == tuple(there.values())
        assert len(set(there.values())) == len(there)


@given(RUNS, st.lists(st.integers(0, 11), max_size=12))
def test_a_namer_that_forgot_everything_is_new(runs: list[RunFields], first: list[int]) -> None:
    namer = Namer("{run}/{logdir}")
    fresh = name_runs("{run}/{logdir}", runs).names
    assert tuple(map(namer.name, runs)) == fresh
    for key in [*map(str, first), *(run.key for run in runs)]:
        namer.forget(key)
    assert tuple(map(namer.name, runs)) == fresh
