"""Selectors: what each form means, that printing goes both ways, and what errors say."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tbhub.catalog.selection import (
    AGGREGATES,
    NUMBERS,
    STATUSES,
    TIMES,
    Age,
    All,
    And,
    Column,
    Comparison,
    Condition,
    ExperimentGlob,
    ExperimentName,
    ExperimentNumber,
    Field,
    Hparam,
    IsNull,
    Job,
    Location,
    Metric,
    Moment,
    Not,
    OneOf,
    Or,
    Order,
    RunGlob,
    RunName,
    RunNumber,
    RunRange,
    Selection,
    Term,
    Value,
)
from tbhub.catalog.selectors import MAX_RANGE, SelectorError, parse

LR = Hparam("lr")


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("7", ExperimentNumber(7)),
        ("007", ExperimentNumber(7)),
        ("exp:7", ExperimentNumber(7)),
        ("EXP:7", ExperimentNumber(7)),
        ("exp:name", ExperimentName("name")),
        ("exp:mnist/cnn", ExperimentName("mnist/cnn")),
        ("exp:mnist/", ExperimentName("mnist/")),
        ("exp:lr=0.1", ExperimentName("lr=0.1")),
        ('exp:"a b"', ExperimentName("a b")),
        ('exp:"7"', ExperimentName("7")),
        ("exp:mnist*", ExperimentGlob("mnist*")),
        ('exp:"mnist*"', ExperimentName("mnist*")),
        ("trial:12", RunNumber(12)),
        ('trial:"12"', RunName("12")),
        ("trial:baseline", RunName("baseline")),
        ("run343", RunName("run343")),
        ('"7"', RunName("7")),
        ("'a \"b\", c'", RunName('a "b", c')),
        (r'"a \"b\" \\ \n"', RunName(r'a "b" \ \n')),
        ("größe", RunName("größe")),
        ("run(1)", RunName("run(1)")),
        ("run1-run5", RunRange("run", 1, 5)),
        ("run01-run12", RunRange("run", 1, 12, 2)),
        ("my-run-8-my-run-10", RunRange("my-run-", 8, 10)),
        ("run1-5", RunName("run1-5")),
        ("run1-test5", RunName("run1-test5")),
        ("2026-11-16", RunName("2026-11-16")),
        ("7-9", RunName("7-9")),
        ('"run1-run5"', RunName("run1-run5")),
        ("run3*", RunGlob("run3*")),
        ("run?", RunGlob("run?")),
        ('"run?"', RunName("run?")),
        ("job2300", Job(2300)),
        ("job:2300", Job(2300, only=True)),
        ("job:job2300", Job(2300, only=True)),
        ("job2300x", RunName("job2300x")),
        ("all", All()),
        ("*", All()),
        ("ws1/*", All(workspace="ws1")),
        ("ws1/run7", RunName("run7", workspace="ws1")),
        ("ws1/7", ExperimentNumber(7, workspace="ws1")),
        ("ws1/exp:name", ExperimentName("name", workspace="ws1")),
        ("ws1/exp:a/b", ExperimentName("a/b", workspace="ws1")),
        ("ws1/trial:7", RunNumber(7, workspace="ws1")),
        ("ws1/job7", Job(7, workspace="ws1")),
        ("ws1/run1-run5", RunRange("run", 1, 5, workspace="ws1")),
        ("ws1/run*", RunGlob("run*", workspace="ws1")),
        ('ws1/"a/b c"', RunName("a/b c", workspace="ws1")),
        ('"/a*b"', Location("/a*b")),
        ("./x", Location("./x")),
        ("../x", Location("../x")),
        (".", Location(".")),
        ("/x/lr=0.1", Location("/x/lr=0.1")),
        ("~/x", Location("~/x")),
        ("x/", Location("x/")),
        ("a/b/c", Location("a/b/c")),
        ("s3://bucket/p/", Location("s3://bucket/p/")),
        ('"/my runs/x, y"', Location("/my runs/x, y")),
        ('trial:"/x"', RunName("/x")),
        ('"../../etc"', RunName("../../etc")),
        ('"./x"', RunName("./x")),
        ("'~'", RunName("~")),
        ('"x/"', RunName("x/")),
        ("a/b/*", RunGlob("a/b/*")),
        ("runs/*/x?", RunGlob("runs/*/x?")),
    ],
)
def test_each_form_of_a_term(text: str, term: Term) -> None:
    assert parse(text).terms == (term,)
    assert parse(text).terms[0].typed == text


def test_terms_are_parted_by_commas_or_blanks_and_come_once() -> None:
    terms = parse(" run1-run3,job5, exp:x\nrun2*  ws/run7,,run2* ").terms
    assert terms == (
        RunRange("run", 1, 3),
        Job(5),
        ExperimentName("x"),
        RunGlob("run2*"),
        RunName("run7", workspace="ws"),
    )


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("lr<0.01", Comparison(LR, "<", 0.01)),
        ("hparams.lr <= .01", Comparison(LR, "<=", 0.01)),
        ("lr>-1e-3", Comparison(LR, ">", -1e-3)),
        ("lr==1", Comparison(LR, "=", 1)),
        ("lr<>1", Comparison(LR, "!=", 1)),
        ("optimizer = adam", Comparison(Hparam("optimizer"), "=", "adam")),
        ("batch = '32'", Comparison(Hparam("batch"), "=", "32")),
        ("amp=TRUE", Comparison(Hparam("amp"), "=", True)),
        ("amp='true'", Comparison(Hparam("amp"), "=", "true")),
        ("hparams.status=1", Comparison(Hparam("status"), "=", 1)),
        ('"my rate" > 1', Comparison(Hparam("my rate"), ">", 1)),
        ('hparams."my rate" > 1', Comparison(Hparam("my rate"), ">", 1)),
        ("model.depth > 1", Comparison(Hparam("model.depth"), ">", 1)),
        ("STATUS = running", Comparison(Column("status"), "=", "running")),
        ("name = 7", Comparison(Column("name"), "=", "7")),
        ("name ~ 007", Comparison(Column("name"), "~", "007")),
        ("lr !~ 1e-3", Comparison(LR, "!~", "1e-3")),
        ("note = ''", Comparison(Column("note"), "=", "")),
        ("location ~ s3://b/x", Comparison(Column("location"), "~", "s3://b/x")),
        ("experiment = 7", Comparison(Column("experiment"), "=", 7)),
        ("experiment = '7'", Comparison(Column("experiment"), "=", "7")),
        ("archived = false", Comparison(Column("archived"), "=", False)),
        ("duration > 1.5h", Comparison(Column("duration"), ">", Age(1.5, "h"))),
        ("duration > 90", Comparison(Column("duration"), ">", 90)),
        ("created > 2d", Comparison(Column("created"), ">", Age(2, "d"))),
        ("created = 2026-11-16", Comparison(Column("created"), "=", Moment("2026-11-16"))),
        (
            "ended < 2026-11-16T10:00+02:00",
            Comparison(Column("ended"), "<", Moment("2026-11-16T08:00")),
        ),
        (
            'ended < "2026-11-16 10:00:30"',
            Comparison(Column("ended"), "<", Moment("2026-11-16T10:00:30")),
        ),
        ("metrics.loss < 1", Comparison(Metric("loss"), "<", 1)),
        ("metrics.acc.max>0.9", Comparison(Metric("acc", "max"), ">", 0.9)),
        ("metrics.a/b.c.count>3", Comparison(Metric("a/b.c", "count"), ">", 3)),
        ("metrics.train.loss>3", Comparison(Metric("train.loss"), ">", 3)),
        ('metrics."top 5".step>3', Comparison(Metric("top 5", "step"), ">", 3)),
        ('metrics."a.max">3', Comparison(Metric("a.max"), ">", 3)),
        ("metrics.max>3", Comparison(Metric("max"), ">", 3)),
        ("owner in (ada, 'b c', 7)", OneOf(Column("owner"), ("ada", "b c", "7"))),
        ("lr not in (1, 2.5, x)", OneOf(LR, (1, 2.5, "x"), negated=True)),
        ("ended is null", IsNull(Column("ended"))),
        ("lr is not null", IsNull(LR, negated=True)),
        ("lr != null", IsNull(LR, negated=True)),
        ("tag = best", Comparison(Column("tag"), "=", "best")),
    ],
)
def test_each_form_of_a_comparison(text: str, condition: Condition) -> None:
    assert parse(f"where {text}").where == condition


def test_and_binds_closer_than_or_and_not_closest() -> None:
    a, b, c = (Comparison(Hparam(name), "=", 1) for name in "abc")
    assert parse("where a=1 or not b=1 and c=1").where == Or((a, And((Not(b), c))))
    assert parse("where (a=1 or b=1) AND c=1").where == And((Or((a, b)), c))
    assert parse("where(a=1 and (b=1 and c=1))").where == And((a, b, c))
    assert parse("where not (a=1 or b=1)").where == Not(Or((a, b)))


def test_the_whole_of_a_selector() -> None:
    text = (
        "run1-run5, exp:x where lr<0.01 and status=running and metrics.acc.max>0.9"
        " order by metrics.loss.last, created desc, lr asc limit 10"
    )
    selection = parse(text)
    assert selection.order == (
        Order(Metric("loss")),
        Order(Column("created"), descending=True),
        Order(LR),
    )
    assert selection.limit == 10
    assert str(selection) == (
        "run1-run5, exp:x where hparams.lr < 0.01 and status = running and metrics.acc.max > 0.9"
        " order by metrics.loss.last, created desc, hparams.lr limit 10"
    )
    assert not parse(" , ")
    assert parse("limit 1") == Selection(limit=1)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("my run", "my run"),
        (" my  run 2\n", "my  run 2"),
        ("test #2", "test #2"),
        ("my, run", ""),
        ("my run,", ""),
        ("run", ""),
        ('"my run" 2', ""),
        ("my run where lr<1", ""),
        ("my run limit 2", ""),
    ],
)
def test_words_that_may_be_one_name_are_kept(text: str, name: str) -> None:
    selection = parse(text)
    assert selection.phrase == name
    assert parse(str(selection)).phrase == name
    assert replace(selection, terms=selection.terms[:1]).phrase == ""


def test_paths_can_be_made_absolute_for_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    selection = parse("run1 ./a/../b ~/c /d/ s3://e/f/ g/ where lr<1")
    assert str(selection.absolute("/work")) == (
        "run1, /work/b, /home/ada/c, /d, s3://e/f/, /work/g where hparams.lr < 1"
    )


@pytest.mark.parametrize(
    ("text", "position", "says"),
    [
        ("run1 lr<0.01", 5, "a filter begins with where"),
        ("run1 run5-run2", 5, "write run2-run5"),
        ("run1-run999999", 0, f"wider than {MAX_RANGE:,}"),
        ("run01-run2", 0, "write run01-run02"),
        ("run1 and run2", 5, "parted by commas or blanks"),
        ("run:12", 0, "there are exp:, trial: and job:"),
        ("a, exp:", 3, "exp: names nothing"),
        ('run"1"', 3, "put them around all of it"),
        ('"a"b', 0, "put them around all of it"),
        ('run1 "a', 5, 'close it with "'),
        ('""', 0, "nothing is between the quotes"),
        ("./runs/*/x", 0, "not in paths"),
        ("99999999999999999999", 0, "no number is that large"),
        ("run1 \x00", 5, "not text"),
        ("where", 5, "a field is missing"),
        ("where lr", 8, "an operator is missing behind 'lr'"),
        ("where lr <", 10, "a value is missing"),
        ("where lr < and x=1", 11, "a value is missing"),
        ("where 0.1 > lr", 6, "put the field first"),
        ("where lr < 1 run7", 13, "names of runs stand before where"),
        ("where (lr < 1", 6, "close it with )"),
        ("where lr < 1)", 12, "')' is not expected here"),
        ("where lr ! 1", 9, "write != or not"),
        ("where lr in 1", 12, "in (1, 2, 3)"),
        ("where lr in (1 2)", 15, "without a comma"),
        ("where lr is 3", 12, "is null or is not null"),
        ("where lr not 3", 13, "an operator is missing"),
        ("where status = runing", 15, "did you mean running?"),
        ("where status = x", 15, "there are running, finished"),
        ("where id = abc", 11, "id is a whole number, 'abc' is not"),
        ("where id ~ 3", 9, "id is no text"),
        ("where created > yesterday", 16, "created > 2d"),
        ("where created = 2d", 14, "an age goes with < <= > >="),
        ("where created > 2026-13-01", 16, "is no time"),
        ("where duration > long", 17, "write 90s, 5m, 2h or 3d"),
        ("where archived = 1", 17, "archived = true"),
        ("where archived > true", 15, "use = or !="),
        ("where tag > x", 10, "use = or !="),
        ("where amp < true", 10, "use = or !="),
        ("where metrics.loss = low", 21, "metrics.loss.last is a number, 'low' is not"),
        ("where metrics. > 1", 6, "names nothing"),
        ("where lr > null", 11, "is null"),
        ("where lr = 1e999", 11, "that large"),
        ("where name = order", 13, "a value is missing"),
        ("where and = 1", 6, "hparams.and"),
        ("order created", 6, "order by created desc"),
        ("order by tag", 9, "a run may have many tags"),
        ("limit", 5, "limit 10"),
        ("limit -1", 6, "limit 10"),
        ("limit 3 where lr<1", 8, "out of order"),
        ("where " + "(" * 10_000, 47, "nested too deeply"),
        ("where " + "not " * 10_000, 170, "nested too deeply"),
        ("where " + " or ".join(["a=1"] * 300), 6 + 7 * 200, "more than 200 comparisons"),
    ],
)
def test_errors_say_where_and_what_to_do(text: str, position: int, says: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse(text)
    error = caught.value
    assert error.position == position
    assert error.text == text
    assert says in str(error)
    assert f"column {position + 1}:" in str(error)
    assert error.hint in str(error)
    assert len(str(error)) < 400
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.position, again.hint) == (str(error), position, error.hint)


# --- printing goes both ways

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1)
AWKWARD = st.sampled_from(
    [
        *("where", "Order", "LIMIT", "all", "and", "null", "true", "in", "7", "007", "1e3", "2d"),
        *("run1-run5", "run01-run2", "job7", "exp:7", "trial:x", "a/b", "a/b/c", "/x", "~", "."),
        *("x/", "s3://x", "run*", "a?", '"', "'", "\\", '\\"', "a b", "a,b", "(", "lr<1", "x=1"),
        *("2026-11-16", "loss.max", ".max", "max", "a.", "metrics.x", "hparams.", "-", "größe"),
    ]
)
NAMES = (
    AWKWARD | TEXT | st.from_regex(r"[a-z]{1,3}[0-9]{0,2}(-[a-z]{1,3}[0-9]{0,2})?", fullmatch=True)
)
BARE = st.from_regex(r"[a-z_.]{0,3}[*?][a-z0-9_.]{0,3}", fullmatch=True).filter(
    lambda text: text not in ("*",) and not text.startswith("./")
)
SPACES = st.none() | st.sampled_from(["ws1", "7", "default", "my.ws-2", "where"])
NUMBER = st.integers(0, 2**62)


@st.composite
def ranges(draw: st.DrawFn) -> RunRange:
    prefix = draw(st.sampled_from(["run", "my-run-", "a1b", "größe"]))
    first = draw(st.integers(0, 10**9))
    last = first + draw(st.integers(0, MAX_RANGE - 1))
    width = len(str(last)) + 1 if draw(st.booleans()) else 0
    return RunRange(prefix, first, last, width, workspace=draw(SPACES))


TERMS: st.SearchStrategy[Term] = st.one_of(
    st.builds(All, workspace=SPACES),
    st.builds(ExperimentNumber, NUMBER, workspace=SPACES),
    st.builds(ExperimentName, NAMES, workspace=SPACES),
    st.builds(ExperimentGlob, BARE, workspace=SPACES),
    st.builds(RunNumber, NUMBER, workspace=SPACES),
    st.builds(RunName, NAMES, workspace=SPACES),
    st.builds(RunGlob, BARE, workspace=SPACES),
    ranges(),
    st.builds(Job, NUMBER, st.booleans(), workspace=SPACES),
    st.builds(Location, TEXT.map(lambda text: f"/{text}") | TEXT.map(lambda text: f"s3://{text}")),
)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
AGES = st.builds(Age, st.integers(0, 10**9 - 1) | st.just(1.5), st.sampled_from("smhdw"))
MOMENTS = st.datetimes().flatmap(
    lambda time: st.sampled_from(
        [
            Moment(time.date().isoformat()),
            *(
                Moment(time.isoformat(timespec=spec))
                for spec in ("minutes", "seconds", "microseconds")
            ),
        ]
    )
)
HPARAMS = st.builds(Hparam, NAMES)
METRICS = st.builds(Metric, NAMES, st.sampled_from(AGGREGATES))
PLAIN = ("name", "path", "owner", "workspace", "note", "machine", "location")
COMPARED = ("=", "!=", "<", "<=", ">", ">=")


def comparisons(
    field: st.SearchStrategy[Field], value: st.SearchStrategy[Value], signs: tuple[str, ...]
) -> st.SearchStrategy[Condition]:
    return st.one_of(
        st.builds(Comparison, field, st.sampled_from(signs), value),
        st.builds(IsNull, field, st.booleans()),
    )


def lists(
    field: st.SearchStrategy[Field], value: st.SearchStrategy[Value]
) -> st.SearchStrategy[Condition]:
    values = st.lists(value, min_size=1, max_size=4, unique_by=lambda each: (type(each), each))
    return st.builds(OneOf, field, values.map(tuple), st.booleans())


LEAVES: st.SearchStrategy[Condition] = st.one_of(
    comparisons(HPARAMS, st.integers() | FLOATS | NAMES, COMPARED),
    comparisons(HPARAMS, NAMES, ("~", "!~")),
    comparisons(HPARAMS, st.booleans(), ("=", "!=")),
    lists(HPARAMS, st.integers() | FLOATS | NAMES | st.booleans()),
    comparisons(METRICS, st.integers() | FLOATS, COMPARED),
    lists(METRICS, FLOATS),
    comparisons(st.sampled_from(PLAIN).map(Column), NAMES, (*COMPARED, "~", "!~")),
    comparisons(st.just(Column("status")), st.sampled_from(STATUSES), COMPARED),
    comparisons(st.sampled_from(sorted(NUMBERS)).map(Column), NUMBER, COMPARED),
    comparisons(st.sampled_from(sorted(TIMES)).map(Column), MOMENTS, COMPARED),
    comparisons(st.sampled_from(sorted(TIMES)).map(Column), AGES, ("<", "<=", ">", ">=")),
    comparisons(st.just(Column("duration")), AGES | st.integers(0, 10**6), COMPARED),
    comparisons(st.just(Column("experiment")), NUMBER | NAMES, COMPARED),
    comparisons(st.just(Column("archived")), st.booleans(), ("=", "!=")),
    comparisons(st.just(Column("tag")), NAMES, ("=", "!=", "~", "!~")),
    lists(st.sampled_from(PLAIN).map(Column), NAMES),
    lists(st.just(Column("tag")), NAMES),
)


def nested(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    """As the parser nests: no conjunction right in another, no disjunction right in another."""

    def parts(kind: type[And] | type[Or]) -> st.SearchStrategy[tuple[Condition, ...]]:
        other = inner.filter(lambda part: type(part) is not kind)
        return st.lists(other, min_size=2, max_size=3).map(tuple)

    return st.builds(And, parts(And)) | st.builds(Or, parts(Or)) | st.builds(Not, inner)


CONDITIONS = st.recursive(LEAVES, nested, max_leaves=6)
ORDERS = st.lists(
    st.builds(
        Order,
        HPARAMS | METRICS | st.sampled_from([*PLAIN, *TIMES, "id", "duration"]).map(Column),
        st.booleans(),
    ),
    max_size=3,
    unique_by=lambda order: order.field,
)
SELECTIONS = st.builds(
    Selection,
    st.lists(TERMS, max_size=4, unique=True).map(tuple),
    st.none() | CONDITIONS,
    ORDERS.map(tuple),
    st.none() | st.integers(0, 10**9),
)


@settings(max_examples=400)
@given(SELECTIONS)
def test_what_is_printed_is_read_as_the_same(selection: Selection) -> None:
    text = str(selection)
    assert parse(text) == selection
    assert str(parse(text)) == text


SCRAPS = st.lists(
    AWKWARD
    | TEXT
    | st.sampled_from(
        [" ", ",", "where ", " order by ", " limit ", "<", "=", "(", ")", "metrics.a"]
    ),
    max_size=12,
).map("".join)


@settings(max_examples=400)
@given(SCRAPS)
def test_any_text_is_a_selection_or_an_error_with_a_place(text: str) -> None:
    found = parse_or_error(text)
    if isinstance(found, SelectorError):
        assert 0 <= found.position <= len(text)
    else:
        assert parse(str(found)) == found


def parse_or_error(text: str) -> Selection | SelectorError:
    try:
        return parse(text)
    except SelectorError as error:
        return error
