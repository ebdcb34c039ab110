"""A bucket of OSS with and without its host in a URI: one place, and one run for each directory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection, event, insert, select

from tbhub.api.problems import Conflict
from tbhub.catalog.removal import delete_runs
from tbhub.catalog.resolve import resolve
from tbhub.catalog.run_lookup import oss_spellings
from tbhub.catalog.run_records import FoundRun, add_found, create_run, find_known
from tbhub.catalog.selectors import parse
from tbhub.catalog.workspaces import ensure_defaults, remember, workspace_id_of
from tbhub.database.engine import Database
from tbhub.database.tables import logdirs, runs

SHORT = "oss://box"
HOST = "oss://box.oss-cn-hangzhou.aliyuncs.com"
INTERNAL = "oss://box.oss-cn-hangzhou-internal.aliyuncs.com"
SPELLINGS = (SHORT, HOST, INTERNAL)


@pytest.fixture
def connection(database: Database) -> Iterator[Connection]:
    with database.begin() as made:
        ensure_defaults(made)
        yield made


@pytest.fixture
def home(connection: Connection) -> int:
    """The number of the default workspace."""
    return workspace_id_of(connection, "default", None)


def found(top: str, *paths: str) -> list[FoundRun]:
    return [FoundRun(path, f"{top}/{path}", "e") for path in paths]


def watch(connection: Connection, home: int, path: str) -> int:
    row = {"workspace_id": home, "path": path, "created": 0.0}
    return connection.execute(insert(logdirs).values(row).returning(logdirs.c.id)).scalar_one()


def locations(connection: Connection) -> list[str]:
    return list(connection.scalars(select(runs.c.location).order_by(runs.c.id)))


@contextmanager
def statements(connection: Connection) -> Iterator[list[str]]:
    made: list[str] = []

    def note(*call: object) -> None:
        made.append(str(call[2]))

    event.listen(connection, "before_cursor_execute", note)
    yield made
    event.remove(connection, "before_cursor_execute", note)


@pytest.mark.parametrize("first", SPELLINGS)
@pytest.mark.parametrize("second", SPELLINGS)
def test_runs_found_by_another_spelling_are_known(
    connection: Connection, home: int, first: str, second: str
) -> None:
    made = add_found(connection, home, None, found(first, "a", "b"), 0.0)
    again = add_found(connection, home, None, found(second, "a", "b", "c"), 0.0)
    assert [again[f"{second}/{path}"] for path in "ab"] == [
        made[f"{first}/{path}"] for path in "ab"
    ]
    assert locations(connection) == [f"{first}/a", f"{first}/b", f"{second}/c"]


@pytest.mark.parametrize(
    "other",
    [
        "oss://box2/a",
        "oss://box.oss-cn-hangzhou.aliyuncs.com.evil/a",
        "s3://box/a",
        f"{HOST}/a/b",
        f"{HOST}/A",
    ],
)
def test_other_places_are_other_runs(connection: Connection, home: int, other: str) -> None:
    add_found(connection, home, None, found(SHORT, "a"), 0.0)
    add_found(connection, home, None, [FoundRun("x", other, "e")], 0.0)
    assert locations(connection) == [f"{SHORT}/a", other]


def test_a_logdir_leaves_runs_of_another_spelling_as_they_are(
    connection: Connection, home: int
) -> None:
    once = add_found(connection, home, None, found(SHORT, "a"), 0.0)
    started = create_run(connection, home, "e", f"{INTERNAL}/b")
    logdir = watch(connection, home, HOST)
    added = add_found(connection, home, logdir, found(HOST, "a", "b", "c"), 0.0)
    assert list(added) == [f"{HOST}/c"]
    rows = connection.execute(select(runs.c.id, runs.c.logdir_id).order_by(runs.c.id)).all()
    assert [tuple(row) for row in rows] == [
        (once[f"{SHORT}/a"], None),
        (started.id, None),
        (added[f"{HOST}/c"], logdir),
    ]


def test_a_started_run_is_not_found_again(connection: Connection, home: int) -> None:
    run = create_run(connection, home, "e", f"{HOST}/a", "best")
    assert add_found(connection, home, None, found(SHORT, "a"), 0.0) == {f"{SHORT}/a": run.id}
    with pytest.raises(Conflict, match=f"run {run.id} logs"):
        create_run(connection, home, "e", f"{INTERNAL}/a")
    assert locations(connection) == [f"{HOST}/a"]


def test_a_found_run_that_is_started_has_the_spelling_of_its_worker(
    connection: Connection, home: int
) -> None:
    logdir = watch(connection, home, SHORT)
    made = add_found(connection, home, logdir, found(SHORT, "a"), 0.0)
    run = create_run(connection, home, "e", f"{HOST}/a", "a")
    assert (run.id, run.location) == (made[f"{SHORT}/a"], f"{HOST}/a")
    # The logdir finds it again, and leaves it alone.
    assert add_found(connection, home, logdir, found(SHORT, "a"), 0.0) == {}
    assert locations(connection) == [f"{HOST}/a"]


def test_of_runs_that_were_made_twice_the_given_spelling_counts(
    connection: Connection, home: int
) -> None:
    both = [found(top, "a")[0] for top in (HOST, SHORT)]
    made = add_found(connection, home, None, both, 0.0)
    known = find_known(connection, home, [f"{top}/a" for top in SPELLINGS])
    assert {location: row.id for location, row in known.items()} == {
        **made,
        f"{INTERNAL}/a": made[f"{HOST}/a"],  # the oldest
    }


def test_lookups_do_not_grow_with_the_number_of_locations(
    connection: Connection, home: int
) -> None:
    many = [f"r{number}" for number in range(3000)]
    for top in (HOST, INTERNAL):
        add_found(connection, home, None, found(top, f"other-{len(top)}"), 0.0)
    add_found(connection, home, None, found(HOST, *many), 0.0)

    def asked(top: str, names: Sequence[str]) -> int:
        with statements(connection) as made:
            find_known(connection, home, [f"{top}/{name}" for name in names])
        return len(made)

    assert asked("s3://box", many) == 1
    assert asked("/data", many) == 1
    assert asked(SHORT, many[:1]) == asked(SHORT, many) == 4  # three for the hosts of the bucket
    known = find_known(connection, home, [f"{SHORT}/{name}" for name in many])
    assert len({row.id for row in known.values()}) == len(many)


@pytest.mark.parametrize("files", [False, True])
@pytest.mark.parametrize("watched", SPELLINGS)
def test_a_deleted_run_is_found_again_by_no_spelling_that_is_watched(
    connection: Connection, home: int, watched: str, files: bool
) -> None:
    logdir = watch(connection, home, f"{watched}/tb")
    add_found(connection, home, logdir, found(f"{watched}/tb", "a", "b"), 0.0)
    create_run(connection, home, "e", f"{HOST}/tb/started")
    ids = list(connection.scalars(select(runs.c.id).where(~runs.c.location.endswith("/b"))))
    done = delete_runs(connection, ids, files=files, dry_run=False)
    assert (done.runs, done.files, len(done.problems)) == (2, 0, 2 * files)
    again = found(f"{watched}/tb", "a", "b", "started", "new")
    add_found(connection, home, logdir, again, 0.0)
    assert locations(connection) == [f"{watched}/tb/b", f"{watched}/tb/new"]
    remember(connection, home, f"{watched}/tb/a")
    assert list(add_found(connection, home, logdir, again[:1], 0.0)) == [f"{watched}/tb/a"]


def test_a_place_has_the_spellings_of_its_runs_and_logdirs(
    connection: Connection, home: int
) -> None:
    add_found(connection, home, None, found(HOST, "tb/a", "tb/b"), 0.0)
    add_found(connection, home, None, found(f"{SHORT}.oss-x.evil", "tb/a"), 0.0)
    watch(connection, home, INTERNAL)
    for top in (*SPELLINGS, f"{SHORT}.oss-cn-beijing.aliyuncs.com"):
        assert oss_spellings(connection, f"{top}/tb") == [f"{each}/tb" for each in SPELLINGS]
        assert oss_spellings(connection, top) == list(SPELLINGS)
    assert oss_spellings(connection, "oss://box2/tb") == ["oss://box2/tb"]
    assert oss_spellings(connection, "s3://box/tb") == oss_spellings(connection, "/box") == []


@pytest.mark.parametrize("top", SPELLINGS)
def test_a_selector_names_runs_however_their_bucket_is_spelled(
    connection: Connection, home: int, top: str
) -> None:
    made = [
        add_found(connection, home, None, found(each, f"tb/{len(each)}"), 0.0) for each in SPELLINGS
    ]
    add_found(connection, home, None, found(f"{top}2", "tb/a"), 0.0)
    ids = tuple(number for numbers in made for number in numbers.values())
    for text in (f"{top}/tb", f"{top}/tb/", top):
        assert resolve(connection, parse(text), None).run_ids == ids, text
    assert resolve(connection, parse(f"{top}/tb/{len(HOST)}"), None).run_ids == ids[1:2]
    assert resolve(connection, parse(f"{top}/none"), None).uris == (f"{top}/none",)
