"""From selectors to runs: what is named is found exactly, and what is not there is an error."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support import rows
from tbhub.api.problems import Ambiguous, BadRequest, NotFound
from tbhub.catalog.resolve import Resolved, find_scope, location_spellings, resolve
from tbhub.catalog.runs import load_runs
from tbhub.catalog.selection import ExperimentName, RunName
from tbhub.catalog.selectors import parse
from tbhub.database.engine import Database
from tbhub.database.rows import insert_new
from tbhub.database.tables import runs


def found(
    database: Database,
    text: str,
    visible: frozenset[int] | None = None,
    experiments: tuple[int, ...] = (),
    trials: tuple[int, ...] = (),
) -> Resolved:
    with database.read() as connection:
        return resolve(connection, parse(text), visible, experiments, trials)


def names(database: Database, text: str, visible: frozenset[int] | None = None) -> list[str]:
    with database.read() as connection:
        ids = resolve(connection, parse(text), visible).run_ids
        return [f"{run.workspace}/{run.name}" for run in load_runs(connection, ids, metrics=False)]


@pytest.fixture
def jobs(database: Database) -> tuple[int, int]:
    """Two workspaces with a bit of everything; the jobs are theirs."""
    with database.begin() as c:
        one, two = rows.job(c, "ws"), rows.job(c, "other")
        for number in (1, 2, 3, 10, 11, 20, 21):
            rows.run(c, f"run{number}", "e", "ws")
        rows.run(c, "Run2", "E", "ws")
        rows.run(c, "run2b", "x", "ws", job_id=one)
        rows.run(c, "run07", "x", "ws", job_id=one)
        rows.run(c, "run7", "x y", "ws")
        rows.run(c, "run7", "e", "other", job_id=two)
        rows.run(c, "run12", "mnist/cnn", "other")
        rows.run(c, "a_b", "mnist/mlp", "other")
        rows.run(c, "aXb", "mnist/mlp", "other")
        rows.run(c, "a[1]", "mnist/mlp", "other")
    return one, two


def test_a_list_of_everything_expands_exactly(database: Database, jobs: tuple[int, int]) -> None:
    # Scenario 12.
    assert names(database, f'run1-run3,job{jobs[1]},exp:"x y",run2*,ws/run7') == [
        "ws/run1",
        "ws/run2",
        "ws/run3",
        "ws/run20",
        "ws/run21",
        "ws/run2b",
        "ws/run7",
        "other/run7",
    ]


@pytest.mark.usefixtures("jobs")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("run10-run20", ["ws/run10", "ws/run11", "ws/run20", "other/run12"]),
        ("ws/run10-run20", ["ws/run10", "ws/run11", "ws/run20"]),
        ("run06-run09", ["ws/run07"]),
        ("run2?", ["ws/run20", "ws/run21", "ws/run2b"]),
        ("R*", ["ws/Run2"]),
        ("a_?", ["other/a_b"]),
        ("*[1]", ["other/a[1]"]),
        ("a*", ["other/a_b", "other/aXb", "other/a[1]"]),
        ("exp:mnist/*", ["other/run12", "other/a_b", "other/aXb", "other/a[1]"]),
        ("exp:mnist/cnn, run12", ["other/run12"]),
        ("ws/exp:x", ["ws/run2b", "ws/run07"]),
        ("exp:E", ["ws/Run2"]),
        ("other/* where name ~ A order by name desc", ["other/a_b", "other/a[1]", "other/aXb"]),
        ("run1 run2 run3 order by name desc limit 2", ["ws/run3", "ws/run2"]),
        ("run1 run2 run3 limit 2", ["ws/run2", "ws/run3"]),
        ("where name = run11", ["ws/run11"]),
        ("", []),
    ],
)
def test_each_term_finds_its_runs(database: Database, text: str, expected: list[str]) -> None:
    assert names(database, text) == expected


@pytest.mark.usefixtures("jobs")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("run1, run99", "There is no run run99."),
        ("run1 nope/run1", "There is no run nope/run1."),
        ("999", "There is no experiment 999."),
        ("exp:999", "There is no experiment exp:999."),
        ('exp:"no such"', 'There is no experiment exp:"no such".'),
        ("exp:no*", "There is no experiment exp:no*."),
        ("trial:999", "There is no run trial:999."),
        ("other/trial:1", "There is no run other/trial:1."),
        ("run50-run60", "There is no run run50-run60."),
        ("zz*", "There is no run zz*."),
        ("job99", "There is no job job99."),
        ("nope/*", "There is no workspace or directory nope/*."),
        ("run1 zz zy", "There is no run zz, no run zy."),
        ("16", "A run has this number: trial:16."),
        ("mnist", "There is no run mnist."),
        ("'x y'", 'An experiment is called so: exp:"x y".'),
        ("other/'mnist/cnn'", "An experiment is called so: other/exp:mnist/cnn."),
    ],
)
def test_what_is_not_there_is_named(database: Database, text: str, says: str) -> None:
    with pytest.raises(NotFound) as caught:
        names(database, text)
    assert says in str(caught.value)


@pytest.mark.usefixtures("jobs")
def test_a_name_of_two_workspaces_is_not_guessed(database: Database) -> None:
    with pytest.raises(Ambiguous) as caught:
        names(database, "run7")
    matches = [(each["workspace"], each["name"]) for each in caught.value.details["matches"]]
    assert matches == [("ws", "run7"), ("other", "run7")]
    assert "names 2 runs: ws/run7 (#" in str(caught.value)
    with pytest.raises(Ambiguous) as caught:
        names(database, "exp:e")
    assert caught.value.details["matches"] == ["other/exp:e", "ws/exp:e"]
    with database.begin() as c:
        ws = rows.workspace(c, "ws")
    assert names(database, "run7", frozenset({ws})) == ["ws/run7"]


def test_experiments_and_trials_are_a_union(database: Database) -> None:
    # Scenario 2.
    with database.begin() as c:
        one = [rows.run(c, group="one") for _ in range(3)]
        two = [rows.run(c, group="two") for _ in range(3)]
        first, second = rows.experiment(c, "one"), rows.experiment(c, "two")
    assert found(database, "", trials=(one[0], two[2])) == Resolved(
        (one[0], two[2]), (), (one[0], two[2])
    )
    # With one of its own, an experiment still shows all.
    assert found(database, "", experiments=(first,), trials=(one[1],)) == Resolved(
        tuple(one), (first,)
    )
    assert found(database, f"{first} trial:{one[1]} trial:{two[0]}") == Resolved(
        (*one, two[0]), (first,), (two[0],)
    )
    assert found(database, f"run{one[2]}-run{two[0]}", experiments=(second,)) == Resolved(
        (one[2], *two), (second,), (one[2],)
    )
    # The filter is for all of them.
    filtered = found(database, f"where id <= {one[1]}", experiments=(first,), trials=(two[0],))
    assert filtered == Resolved((one[0], one[1]), (first,))
    with pytest.raises(NotFound, match="no experiment 99, no run 77"):
        found(database, "", experiments=(first, 99), trials=(77,))


def test_an_experiment_is_not_another_whose_number_begins_alike(database: Database) -> None:
    with database.begin() as c:
        made = {name: rows.run(c, name, f"e{name}") for name in map(str, range(1, 12))}
        numbers = {name: rows.experiment(c, f"e{name}") for name in made}
    assert numbers["10"] == 10
    assert found(database, "1").run_ids == (made["1"],)
    assert found(database, "exp:e1").run_ids == (made["1"],)


def test_what_the_caller_may_not_see_does_not_exist(database: Database) -> None:
    with database.begin() as c:
        mine = rows.run(c, "mine", "e", "ws1")
        theirs = rows.run(c, "theirs", "secret", "ws2")
        group = rows.experiment(c, "secret", "ws2")
        job = rows.job(c, "ws2")
        visible = frozenset({rows.workspace(c, "ws1")})
    assert found(database, "all", visible).run_ids == (mine,)
    assert found(database, "where id > 0", visible).run_ids == (mine,)
    hidden = ("theirs", "th*", "ws2/*", "ws2/theirs", f"trial:{theirs}", f"{group}", "exp:secret")
    for text in (*hidden, "exp:se*", f"job{job}", "/logs/ws2", "/logs/ws2/secret/theirs"):
        with pytest.raises(NotFound) as caught:
            found(database, text, visible)
        assert text in str(caught.value)
    with pytest.raises(NotFound):
        found(database, "", visible, trials=(theirs,))
    assert found(database, "all", frozenset()).run_ids == ()
    everything = frozenset(range(1, 10))
    assert found(database, "all", everything).run_ids == (mine, theirs)


def test_archived_runs_come_when_they_are_named(database: Database) -> None:
    with database.begin() as c:
        shown = rows.run(c, "run1")
        archived = rows.run(c, "run2", archived=True)
        group = rows.experiment(c, "e")
    for text in ("all", "run*", "run1-run2", f"{group}", "where id > 0", "/logs", "default/*"):
        assert found(database, text).run_ids == (shown,), text
    for text in ("run2", f"trial:{archived}", "/logs/default/e/run2", "where archived = true"):
        assert found(database, text).run_ids == (archived,), text
    assert found(database, "all where archived in (true, false)").run_ids == (shown, archived)


def test_paths_are_runs_of_the_catalog_or_places(database: Database, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "logs")
    (tmp_path / "logs").mkdir()
    with database.begin() as c:
        above = rows.run(c, "a", location=f"{tmp_path}/logs/x")
        below = rows.run(c, "b", location=f"{tmp_path}/logs/x/y")
        other = rows.run(c, "c", location=f"{tmp_path}/logs/x2")
        bucket = rows.run(c, "d", location="s3://bucket/p")
    assert found(database, f"{tmp_path}/logs").run_ids == (above, below, other)
    assert found(database, f"{tmp_path}/logs/x/").run_ids == (above, below)
    assert found(database, f"{tmp_path}/logs/../logs/x").run_ids == (above, below)
    assert found(database, f"file://{tmp_path}/logs/x2/").run_ids == (other,)
    assert found(database, f"{tmp_path}/link/x2").run_ids == (other,)
    assert found(database, "s3://bucket/p/").run_ids == (bucket,)
    assert found(database, "s3://bucket").run_ids == (bucket,)
    assert found(database, "/").run_ids == (above, below, other)
    new = f"{tmp_path}/new"
    mixed = found(database, f"{new} {new}/ s3://b/q/ trial:1 s3://BUCKET/p")
    assert mixed == Resolved((above,), (), (above,), (new, "s3://b/q", "s3://BUCKET/p"))
    assert found(database, f"{new} where id < 0").uris == (new,)
    with database.read() as c, pytest.raises(NotFound, match=rf"no run at or below {new}\."):
        find_scope(c, parse(f"trial:1 {new}"), None)


@pytest.mark.parametrize("path", [".", "./logs", "logs/", "../logs", "~nobody-here/logs"])
def test_relative_path_is_refused(database: Database, path: str) -> None:
    with pytest.raises(BadRequest, match="the hub needs the whole path"):
        found(database, path)


def test_a_path_that_cannot_be_resolved_is_compared_as_written(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> str:
        raise PermissionError(13, "Permission denied", path)

    shut = tmp_path / "shut"
    shut.symlink_to(tmp_path)
    with database.begin() as c:
        number = rows.run(c, "a", location=f"{shut}/a")
    monkeypatch.setattr("os.readlink", refuse)  # as /proc/1/root
    with pytest.raises(PermissionError):
        os.path.realpath(shut)
    assert found(database, str(shut)).run_ids == (number,)
    assert found(database, f"{shut}/b").uris == (f"{shut}/b",)
    assert location_spellings("/a\0b") == ["/a\0b"]


def test_paths_are_no_way_around(database: Database, tmp_path: Path) -> None:
    with database.begin() as c:
        logs = tmp_path / "theirs"
        rows.logdir(c, str(logs), "ws2")
        rows.run(c, "a", "e", "ws2", location="s3://bucket/theirs/a")
        visible = frozenset({rows.workspace(c, "ws1")})
    logs.mkdir()
    os.symlink(logs, tmp_path / "link")
    shut = (logs, logs / "new", tmp_path, tmp_path / "link", f"file://{logs}/x")
    for place in (*shut, "s3://bucket", "s3://bucket/theirs/a/b"):
        with pytest.raises(NotFound):
            found(database, str(place), visible)
        if not str(place).startswith("s3://bucket"):
            assert found(database, str(place)).uris
    assert found(database, f"{tmp_path}/theirs2", visible).uris == (f"{tmp_path}/theirs2",)


def test_very_long_selectors(database: Database) -> None:
    with database.begin() as c:
        numbers = [rows.run(c) for _ in range(3)]
    some = tuple(numbers)
    text = ",".join(f"run{number}" for number in range(1, 8000))
    with pytest.raises(NotFound, match="and 7986 more are unknown"):
        found(database, text)
    assert found(database, f"run1-run{90_000}").run_ids == some
    many = ",".join(f"'no {number}'" for number in range(900))
    assert found(database, f"all where lr not in ({many}) or id in (1, 2, 3)").run_ids == some
    conditions = " or ".join(f"metrics.m{number} > 1" for number in range(199))
    assert found(database, f"all where id > 0 or {conditions}").run_ids == some
    with pytest.raises(BadRequest, match="180,002 names; at most 100,000"):
        found(database, "a0-a90000, b0-b90000")
    with pytest.raises(BadRequest, match="at most 200"):
        found(database, " ".join(f"run{number}*" for number in range(201)))
    assert found(database, " ".join(f"/x{number}" for number in range(200))).uris[199] == "/x199"


def test_thousands_of_runs_by_number(database: Database) -> None:
    count = 6000
    with database.begin() as c:
        home, group = rows.workspace(c, "default"), rows.experiment(c, "e")
        row = {"workspace_id": home, "experiment_id": group, "status": "finished", "created": 1.0}
        new = [{**row, "name": f"n{number}", "location": f"/{number}"} for number in range(count)]
        insert_new(c, runs, new)
    everything = found(database, "all").run_ids
    assert len(everything) == count
    assert found(database, "", trials=everything).run_ids == everything
    assert found(database, f"n0-n{count - 2}").run_ids == everything[:-1]


@pytest.mark.parametrize("name", ["a b", 'q"uote', "it's", "../..", "%2f", "ünï/cödé", "7", "a,b"])
def test_names_of_any_kind(database: Database, name: str) -> None:
    with database.begin() as c:
        number = rows.run(c, name, name)
        rows.run(c, "run2")
    assert found(database, str(RunName(name))).run_ids == (number,)
    assert found(database, str(ExperimentName(name, workspace="default"))).run_ids == (number,)
