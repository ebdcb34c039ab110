"""A run that was found is called what its directory is called, and a name means one run."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import Connection, update

from support import rows
from support.catalog import Watch, log
from tbhub.api.models import NewRun, RunChange
from tbhub.api.problems import Ambiguous, Conflict, NotFound
from tbhub.catalog.attempts import begin_run
from tbhub.catalog.names import name_of, parts_needed, tail_of
from tbhub.catalog.resolve import resolve
from tbhub.catalog.run_records import FoundRun, add_found, create_run
from tbhub.catalog.runs import change_run, load_runs
from tbhub.catalog.selectors import parse
from tbhub.database.engine import Database
from tbhub.database.tables import jobs


def shown(locations: list[str]) -> list[str]:
    tails = {location: tail_of(location) for location in locations}
    needed = parts_needed(list(tails.values()))
    return [name_of(tail, needed[tail]) for tail in tails.values()]


def find(database: Database, *paths: str, root: str = "/logs") -> dict[str, int]:
    """Runs found below a directory; their numbers by path."""
    found = [FoundRun(path, f"{root}/{path}", "e") for path in paths]
    with database.begin() as connection:
        home = rows.workspace(connection, "default")
        numbers = add_found(connection, home, None, found, 0.0)
    return {run.path: numbers[run.location] for run in found}


def names(database: Database, numbers: dict[str, int]) -> dict[str, str]:
    with database.read() as connection:
        loaded = load_runs(connection, list(numbers.values()))
    return dict(zip(numbers, (run.name for run in loaded), strict=True))


def selected(
    database: Database, text: str, visible: frozenset[int] | None = None, *, parts: bool = True
) -> list[int]:
    with database.read() as connection:
        return list(resolve(connection, parse(text), visible, parts=parts).run_ids)


@pytest.mark.parametrize(
    ("locations", "expected"),
    [
        (["/r/exp8/run82"], ["run82"]),
        (["/r/exp8/run82", "/r/exp2/run82", "/r/run8"], ["exp8/run82", "exp2/run82", "run8"]),
        (["/a/x/1/m", "/a/y/1/m", "/a/y/2/m"], ["x/1/m", "y/1/m", "2/m"]),
        (["/r/run1/train", "/r/run1/test"], ["run1/train", "run1/test"]),
        (["/p/lightning_logs/version_0"], ["p/lightning_logs/version_0"]),
        (["/data/mix/0", "/data/mix/1"], ["mix/0", "mix/1"]),
        (["s3://bucket/a", "s3://other/a", "gs://bucket"], ["bucket/a", "other/a", "bucket"]),
        (["/train"], ["train"]),
        (["/r/x", "/r/b/x"], ["r/x", "b/x"]),
        (["/r/a\u202egnp.x\n"], ["a%E2%80%AEgnp.x%0A"]),
    ],
)
def test_names_are_as_long_as_tells_them_apart(locations: list[str], expected: list[str]) -> None:
    assert shown(locations) == expected


def test_names_of_a_random_tree_are_unique_and_shortest() -> None:
    chance = random.Random(7)
    words = ["a", "b", "run1", "run-1", "run 1", "train", "x.y"]
    tree = sorted({"/".join(chance.choices(words, k=chance.randint(1, 5))) for _ in range(400)})
    locations = [f"/root/{path}" for path in tree]
    found = shown(locations)
    assert len(set(found)) == len(found)
    for location, name in zip(locations, found, strict=True):
        assert f"/{name}" in location
        alike = [each for each in locations if each.endswith(f"/{name}")]
        assert alike == [location], name


def test_found_runs_are_called_what_their_directories_are_called(
    database: Database, tmp_path: Path, watch: Watch
) -> None:
    for number in (11, 23, 82):
        log(tmp_path / f"runs/exp{number // 10}/run{number}", 1.0)
    log(tmp_path / "runs/llama-1b-lr3e-3-DIVERGED", 1.0)
    watched = watch(tmp_path / "runs")
    found = watched.index()
    assert {path: run.name for path, run in found.items()} == {
        "exp1/run11": "run11",
        "exp2/run23": "run23",
        "exp8/run82": "run82",
        "llama-1b-lr3e-3-DIVERGED": "llama-1b-lr3e-3-DIVERGED",
    }
    for name in ("run23", "exp2/run23", f"#{found['exp2/run23'].id}", "runs/exp2/run23"):
        assert selected(database, name) == [found["exp2/run23"].id], name
    log(tmp_path / "runs/exp9/run23", 1.0)  # now two are called so
    found = watched.index()
    assert found["exp2/run23"].name == "exp2/run23"
    assert found["exp9/run23"].name == "exp9/run23"


def test_a_name_of_several_runs_is_an_error_that_lists_them(database: Database) -> None:
    numbers = find(database, "exp8/run82", "exp2/run82", "exp2/run31")
    with pytest.raises(Ambiguous, match=r"run82 names 2 runs: exp8/run82 \(#1\), exp2/run82") as no:
        selected(database, "run82")
    assert [each["id"] for each in no.value.details["matches"]] == [1, 2]
    assert selected(database, "exp2/run82") == [numbers["exp2/run82"]]
    assert selected(database, "logs/exp2/run82") == [numbers["exp2/run82"]]
    assert selected(database, '"exp2/run82"') == [numbers["exp2/run82"]]
    assert selected(database, "run31") == [numbers["exp2/run31"]]


def test_a_created_run_and_a_directory_of_the_same_name_are_not_confused(
    database: Database,
) -> None:
    numbers = find(database, "exp2/run1", "run2")
    with database.begin() as connection:
        home = rows.workspace(connection, "default")
        made = create_run(connection, home, "e", "/elsewhere/a")
        named = create_run(connection, home, "e", "/elsewhere/b", "best")
    assert made.name == f"run{made.id}"
    assert made.name not in ("run1", "run2")  # directories are called so
    numbers |= find(database, "exp2/best", f"x/run{made.id}")
    assert names(database, numbers)["exp2/best"] == "exp2/best"
    with pytest.raises(Ambiguous, match=rf"best \(#{named.id}\), exp2/best"):
        selected(database, "best")
    assert selected(database, "exp2/best") == [numbers["exp2/best"]]
    with database.begin() as connection, pytest.raises(Conflict, match="The name run2 is taken"):
        create_run(connection, home, "e", "/elsewhere/c", "run2")


def test_a_name_that_was_given_stays(database: Database) -> None:
    numbers = find(database, "a/x")
    with database.begin() as connection:
        change_run(connection, numbers["a/x"], RunChange(name="mine"), None)
    numbers |= find(database, "b/x")
    assert names(database, numbers) == {"a/x": "mine", "b/x": "b/x"}
    assert selected(database, "mine") == selected(database, "a/x") == [numbers["a/x"]]


def test_a_number_is_not_mistaken_for_a_name(database: Database) -> None:
    find(database, *(f"exp/a{number}" for number in range(5)), "exp2/run31")
    with pytest.raises(NotFound, match="hint: #6 is called run31: write trial:6"):
        selected(database, "run6")
    assert selected(database, "#6") == selected(database, "trial:6") == [6]
    with pytest.raises(NotFound, match="There is no run run1-run6"):
        selected(database, "run1-run6")  # numbers, but no names


def test_ranges_and_wildcards_are_over_names(database: Database) -> None:
    numbers = find(database, "e1/run1", "e1/run2", "e2/run2", "e2/run3", "e2/run30", "mix/0")
    assert selected(database, "run2-run3") == [
        numbers["e1/run2"],
        numbers["e2/run2"],
        numbers["e2/run3"],
    ]
    assert selected(database, "e2/run2-run3") == [numbers["e2/run2"], numbers["e2/run3"]]
    assert selected(database, "run3*") == [numbers["e2/run3"], numbers["e2/run30"]]
    assert selected(database, "e1/run*") == [numbers["e1/run1"], numbers["e1/run2"]]
    assert selected(database, "mix/0") == [numbers["mix/0"]]
    more = find(database, "run2-run3")
    with pytest.raises(Ambiguous, match="is a range of 3 runs, and also the name of"):
        selected(database, "run2-run3")
    assert selected(database, '"run2-run3"') == [more["run2-run3"]]


def test_a_workspace_and_a_directory_of_the_same_name(database: Database) -> None:
    with database.begin() as connection:
        inside = rows.run(connection, "x", home="exp2")
    numbers = find(database, "exp2/x")
    with pytest.raises(Ambiguous, match="exp2/x names 2 runs"):
        selected(database, "exp2/x")
    assert selected(database, f"#{inside}") == [inside]
    assert selected(database, "logs/exp2/x") == [numbers["exp2/x"]]


def test_a_directory_of_stages_names_its_runs(database: Database) -> None:
    numbers = find(database, "run1/train", "run1/test", "run2/train")
    assert selected(database, "run1") == [numbers["run1/train"], numbers["run1/test"]]
    assert selected(database, "run1, run2") == [*numbers.values()]
    assert selected(database, "logs/run2") == [numbers["run2/train"]]
    assert selected(database, "default/run2") == [numbers["run2/train"]]
    with pytest.raises(NotFound, match=r"hint: it has the parts run2/train \(#3\)\."):
        selected(database, "run2", parts=False)
    more = find(database, "run1")
    assert selected(database, "run1") == [more["run1"]]  # a run of its own


def test_a_directory_with_stages_and_other_runs_is_not_selected_by_name(
    database: Database,
) -> None:
    find(database, "run1/train", "run1/test", "run1/other")
    with pytest.raises(NotFound, match=r"hint: it has the parts run1/train \(#1\), run1/test"):
        selected(database, "run1")


def test_several_directories_of_stages_are_an_error_that_lists_them(database: Database) -> None:
    numbers = find(database, "a/run1/train", "a/run1/test", "b/run1/train")
    with pytest.raises(
        Ambiguous, match=r"run1 names 2 directories: /logs/a/run1, /logs/b/run1\. hint: write more"
    ):
        selected(database, "run1")
    assert selected(database, "b/run1") == [numbers["b/run1/train"]]


def test_a_wildcard_below_a_directory_selects_by_the_end_of_the_path(database: Database) -> None:
    numbers = find(database, "a/run1/train", "a/run1/test", "b/run1/train", "b/run2")
    runs_of_1 = [numbers[path] for path in numbers if "run1" in path]
    assert selected(database, "run1/*") == runs_of_1
    assert selected(database, "a/run1/*") == runs_of_1[:2]
    assert selected(database, "default/a/run1/t?ain") == runs_of_1[:1]
    with pytest.raises(NotFound, match=r"There is no workspace or directory nope/\*\."):
        selected(database, "nope/*")


def test_the_hint_names_numbers_where_no_path_tells_runs_apart(database: Database) -> None:
    with database.begin() as connection:
        home = rows.workspace(connection, "default")
        made = create_run(connection, home, "e", "/elsewhere/a", "exp8/run82")
    (number,) = find(database, "exp8/run82").values()
    with pytest.raises(Ambiguous) as caught:
        selected(database, "exp8/run82")
    assert f"hint: write trial:{made.id} or trial:{number}." in str(caught.value)
    other = find(database, "exp2/run82")["exp2/run82"]
    hint = f"hint: write more of the path, or a number: trial:{number} or trial:{other}"
    with pytest.raises(Ambiguous, match=hint):
        selected(database, "run82")


def test_a_name_with_blanks_may_be_written_without_quotes(database: Database) -> None:
    with database.begin() as connection:
        whole = rows.run(connection, "my run 2")
        rows.run(connection, "test #1", home="hidden")
        rows.run(connection, "other", "my runs")
        hidden = rows.workspace(connection, "hidden")
    for text in ("my run 2", " my run 2 ", str(parse("my run 2"))):
        assert selected(database, text) == [whole], text
    for text in ("my, run, 2", "run my 2", "my  run 2", "my run"):
        with pytest.raises(NotFound, match="There is no run"):
            selected(database, text)
    with pytest.raises(NotFound, match="""a name with blanks: 'exp:"my runs"'"""):
        selected(database, "exp:my runs")
    for text in ("my run", "exp:my run", "exp:my runs 2"):  # in quotes they would not be found
        with pytest.raises(NotFound, match=r"^There is no [^.]*\.$"):
            selected(database, text)
    assert selected(database, "test #1", frozenset({hidden})) == [whole + 1]
    with pytest.raises(NotFound, match=r"There is no run #1, no run test\.$"):
        selected(database, "test #1", frozenset({hidden + 100}))


def test_a_name_with_blanks_that_is_also_a_list_of_runs_is_ambiguous(database: Database) -> None:
    with database.begin() as connection:
        one, two = rows.run(connection, "my"), rows.run(connection, "run")
        whole = rows.run(connection, "my run")
    for text in ("my run", str(parse("my run"))):
        with pytest.raises(Ambiguous) as caught:
            selected(database, text)
        assert f'my run is the name of a run, "my run" (#{whole}), and' in str(caught.value)
        assert f"hint: write trial:{whole}, or my, run." in str(caught.value)
    assert selected(database, "my, run") == [one, two]
    assert selected(database, '"my run"') == [whole]


def test_names_are_given_in_any_order_of_discovery(database: Database) -> None:
    paths = [f"e{number % 7}/s{number % 3}/run{number % 11}" for number in range(150)]
    paths = list(dict.fromkeys(paths))
    numbers: dict[str, int] = {}
    for begin in range(0, len(paths), 4):
        numbers |= find(database, *paths[begin : begin + 4])
    found = names(database, numbers)
    assert len(set(found.values())) == len(found)
    for path, name in found.items():
        assert f"/logs/{path}".endswith(f"/{name}")
        assert selected(database, name if "/" in name else f'"{name}"') == [numbers[path]]


def test_jobs_are_selected_by_number_and_name(database: Database) -> None:
    with database.begin() as connection:
        plain = rows.job(connection)
        sweep = rows.job(connection, name="sweepA")
        first = rows.run(connection, "a", job_id=plain)
        second = rows.run(connection, "b", job_id=sweep)
        rows.run(connection, "c")
    for text in (f"job{plain}", f"job:{plain}", f"where job = {plain}", f"where job = job{plain}"):
        assert selected(database, text) == [first], text
    for text in ("job:sweepA", "where job = sweepA", "where job ~ SWEEP", f"job:job{sweep}"):
        assert selected(database, text) == [second], text
    assert selected(database, f"where job in (sweepA, {plain})") == [first, second]
    with pytest.raises(NotFound, match="There is no job job:nope"):
        selected(database, "job:nope")
    found = find(database, "pai/job77")
    for text in ("job:77", "job:job77"):
        with pytest.raises(NotFound, match=f"There is no job {text}. hint: a run is called job77"):
            selected(database, text)
    assert selected(database, "job77") == [found["pai/job77"]]  # a directory, and no job
    found |= find(database, f"pai/job{plain}")
    with pytest.raises(
        Ambiguous, match=f"job{plain} can mean 2 things: default/job:{plain}, trial:"
    ):
        selected(database, f"job{plain}")
    for text in (f"job:{plain}", f"job:job{plain}", str(parse(f"job:{plain}"))):
        assert selected(database, text) == [first], text


def test_a_job_is_found_or_made_by_its_name(database: Database) -> None:
    def begin(job: int | str) -> int | None:
        with database.begin() as connection:
            home = rows.workspace(connection, "default")
            ada = rows.user(connection, "ada")
            new = NewRun(job=job)
            place = f"/kept/{rows.run(connection)}"
            number = begin_run(connection, home, ada, new, place, kept=False)
            (run,) = load_runs(connection, [number])
        return run.job

    sweep = begin("sweepA")
    assert begin("sweepA") == sweep
    assert begin(f"job{sweep}") == sweep  # by its number
    named = begin("job2300")  # there is no such number: made, and found again
    assert begin("job2300") == named != sweep
    assert selected(database, "job2300") == selected(database, "where job = job2300")
    assert len(selected(database, "job:sweepA")) == 3
    for text in ("job2300", "job:2300", "where job = 2300", "where job in (2300, nope)"):
        assert len(selected(database, text)) == 2, text


def test_a_job_called_by_a_number_has_no_other(database: Database) -> None:
    def begin(job: int | str) -> int:
        with database.begin() as connection:
            home, ada = rows.workspace(connection, "default"), rows.user(connection, "ada")
            place = f"/kept/{rows.run(connection)}"
            number = begin_run(connection, home, ada, NewRun(job=job), place, kept=False)
            (run,) = load_runs(connection, [number])
        assert run.job is not None
        return run.job

    named = begin("job2300")
    other = begin(f"job{named}")  # not the job of that number, which is called job2300
    assert other != named
    with pytest.raises(NotFound):
        selected(database, f"job{named + 1000}")
    ahead = begin(f"job{other + 2}")  # the number of the next job but one, as a name
    unnamed = [begin("new"), begin("new")]
    assert other + 2 not in unnamed
    assert len({named, other, ahead, *unnamed}) == 5
    assert len(selected(database, f"job{other + 2}")) == 1


def begin_in_job(database: Database, job: int | str, home: str = "default") -> int:
    """Start a run in a job and return the number of the job."""
    with database.begin() as connection:
        return begin_job(connection, job, home)


def begin_job(connection: Connection, job: int | str, home: str = "default") -> int:
    place, ada = rows.workspace(connection, home), rows.user(connection, "ada")
    location = f"/kept/{uuid4()}"
    number = begin_run(connection, place, ada, NewRun(job=job), location, kept=False)
    (run,) = load_runs(connection, [number])
    assert run.job is not None
    return run.job


def test_no_job_gets_a_number_that_another_is_called_by(database: Database) -> None:
    called = begin_in_job(database, "sweep")
    ahead = [f"job{called + number}" for number in (4, 5, 7)]
    named = {name: begin_in_job(database, name) for name in ahead}
    others = [begin_in_job(database, name) for name in ("a", "new", "b", "new")]
    assert not {f"job{number}" for number in others} & named.keys()
    for name, number in named.items():
        assert begin_in_job(database, name) == number
        assert len(selected(database, name)) == 2
    # In another workspace the number is free.
    elsewhere = begin_in_job(database, f"job{others[-1] + 1}", "other")
    assert begin_in_job(database, "c") == others[-1] + 2
    assert elsewhere == others[-1] + 1


def test_jobs_made_at_once_get_no_number_that_one_of_them_is_called_by(database: Database) -> None:
    begin_in_job(database, "first")
    with ThreadPoolExecutor(1) as pool:
        with database.begin() as connection:
            sweep = begin_job(connection, "sweep")
            called = pool.submit(begin_in_job, database, f"job{sweep}")
            with pytest.raises(TimeoutError):
                called.result(timeout=0.5)
        assert called.result(timeout=30) == sweep
        with database.begin() as connection:
            named = begin_job(connection, f"job{sweep + 2}")
            other = pool.submit(begin_in_job, database, "other")
            with pytest.raises(TimeoutError):
                other.result(timeout=0.5)
        assert named == sweep + 1
        assert other.result(timeout=30) == sweep + 3


def test_of_a_name_and_a_number_the_name_counts(database: Database) -> None:
    with database.begin() as connection:  # as older versions have made them
        named = rows.job(connection)
        other = rows.job(connection, name="sweepA")
        values = {"name": f"job{other}"}
        connection.execute(update(jobs).where(jobs.c.id == named).values(values))
        first = rows.run(connection, "a", job_id=named)
        second = rows.run(connection, "b", job_id=other)
    name = f"job{other}"
    for text in (name, f"job:{other}", f"job:{name}", f"default/job:{other}"):
        assert selected(database, text) == [first], text
    for text in (f"where job = {name}", f"where job = {other}", f"where job in ({name})"):
        assert selected(database, text) == [first], text
    assert selected(database, f"where job != {name}") == [second]
    for text in ("job:sweepA", "where job = sweepA"):
        assert selected(database, text) == [second], text
    assert begin_in_job(database, name) == named
    assert begin_in_job(database, "sweepA") == other


def test_zeros_before_the_number_of_a_job_do_not_count(database: Database) -> None:
    named = begin_in_job(database, "job0700")
    assert begin_in_job(database, "job700") == begin_in_job(database, "job00700") == named
    assert len(selected(database, "job:700")) == len(selected(database, "job0700")) == 3


def test_hints_for_jobs_are_selectors_that_work(database: Database) -> None:
    begin_in_job(database, "first")
    numbers = {home: begin_in_job(database, "job2300", home) for home in ("ws1", "ws2")}
    other = begin_in_job(database, "sweep", "ws1")
    begin_in_job(database, f"job{other}", "ws2")
    begin_in_job(database, "sweep", "ws2")
    found = find(database, "pai/job2300")
    for text in ("job2300", "job:2300", f"job{other}", "job:sweep"):
        with pytest.raises(Ambiguous, match="hint: write one of these") as caught:
            selected(database, text)
        hints = caught.value.details["matches"]
        chosen = [selected(database, hint) for hint in hints]
        assert [len(each) for each in chosen] == [1] * len(hints), hints
        assert len({run for each in chosen for run in each}) == len(hints)
        assert (found["pai/job2300"] in chosen[-1]) == (text == "job2300")
    assert len(set(numbers.values())) == 2
