"""Which files go with a run, and which never do."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.catalog import Watch, log
from tbhub.catalog.removal import Plan, RunFolder, delete_runs, plan, remove
from tbhub.database.engine import Database

EVENTS = "events.out.tfevents.1.host"


def make(directory: Path, *names: str) -> Path:
    for name in names or (EVENTS,):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(b"12345")
    return directory


def left(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir())


def planned(root: Path, *names: str) -> Plan:
    return plan(RunFolder(str(root / name), str(root)) for name in names)


def test_a_run_goes_with_everything_in_it(tmp_path: Path) -> None:
    make(tmp_path / "a", EVENTS, "checkpoint.pt", "plugins/profile/x/host.pb")
    make(tmp_path / "ab")
    found = planned(tmp_path, "a")
    assert (found.files, found.bytes, found.problems) == (3, 15, [])
    assert len(left(tmp_path)) == 4  # nothing is done by planning
    done = remove(found)
    assert (done.files, done.bytes, done.problems) == (3, 15, [])
    assert left(tmp_path) == [f"ab/{EVENTS}"]
    assert not (tmp_path / "a").exists()


def test_files_that_are_no_event_files_are_named(tmp_path: Path) -> None:
    make(tmp_path / "a", EVENTS, "checkpoint.pt", "plugins/x\udcff.pb")
    assert sorted(planned(tmp_path, "a").others()) == [
        f"{tmp_path}/a/checkpoint.pt",
        f"{tmp_path}/a/plugins/x\\udcff.pb",
    ]


def test_runs_below_it_stay_unless_they_are_named(tmp_path: Path) -> None:
    make(tmp_path / "a", EVENTS, "between/notes.txt")
    make(tmp_path / "a/train", EVENTS, "more/weights.pt")
    make(tmp_path / "a/between/eval")
    assert remove(planned(tmp_path, "a")).files == 2
    assert left(tmp_path) == [
        f"a/between/eval/{EVENTS}",
        f"a/train/{EVENTS}",
        "a/train/more/weights.pt",
    ]
    make(tmp_path / "a")
    done = remove(planned(tmp_path, "a", "a/train", "a/between/eval"))
    assert (done.files, done.problems) == (4, [])
    assert left(tmp_path) == []
    assert not (tmp_path / "a").exists()
    assert tmp_path.exists()


def test_where_the_logdir_is_a_run_only_event_files_go(tmp_path: Path) -> None:
    make(tmp_path, EVENTS, "train.py", "src/model.py")
    assert remove(planned(tmp_path, ".")).files == 1
    assert left(tmp_path) == ["src/model.py", "train.py"]


def test_links_go_but_not_what_they_lead_to(tmp_path: Path) -> None:
    precious = make(tmp_path / "precious", "data.bin", "sub/data.bin")
    root = tmp_path / "runs"
    make(root / "a")
    (root / "a/folder").symlink_to(precious)
    (root / "a/file").symlink_to(precious / "data.bin")
    done = remove(planned(root, "a"))
    assert (done.files, done.problems) == (3, [])
    assert left(precious) == ["data.bin", "sub/data.bin"]
    assert not (root / "a").exists()


@pytest.mark.parametrize("name", ["link", "link/sub"])
def test_a_run_behind_a_link_keeps_its_files(tmp_path: Path, name: str) -> None:
    elsewhere = make(tmp_path / "elsewhere", EVENTS, f"sub/{EVENTS}")
    root = tmp_path / "runs"
    root.mkdir()
    (root / "link").symlink_to(elsewhere)
    done = remove(planned(root, name))
    assert done.files == 0
    (problem,) = done.problems
    assert "reached through a link" in problem
    assert len(left(elsewhere)) == 2


def test_a_directory_that_becomes_a_link_after_planning(tmp_path: Path) -> None:
    precious = make(tmp_path / "precious", EVENTS)
    root = tmp_path / "runs"
    make(root / "a/sub", "x")
    make(root / "a")
    found = planned(root, "a")
    (root / "a").rename(root / "b")
    (root / "a").symlink_to(precious)
    done = remove(found)
    assert done.files == 0
    assert left(precious) == [EVENTS]


def test_a_root_that_is_itself_a_link_is_fine(tmp_path: Path) -> None:
    make(tmp_path / "disk/a")
    (tmp_path / "runs").symlink_to(tmp_path / "disk")
    assert remove(planned(tmp_path / "runs", "a")).files == 1


@pytest.mark.parametrize("location", ["s3://bucket/a", "/elsewhere/a", "/x/../elsewhere"])
def test_places_we_do_not_remove(tmp_path: Path, location: str) -> None:
    found = plan([RunFolder(location, str(tmp_path))])
    assert found.folders == []
    assert "its files are left" in found.problems[0]


def test_what_is_gone_is_no_problem(tmp_path: Path) -> None:
    make(tmp_path / "a")
    found = planned(tmp_path, "a", "never")
    (tmp_path / "a" / EVENTS).unlink()
    assert (remove(found).files, remove(found).problems) == (0, [])


def test_hostile_names(tmp_path: Path) -> None:
    make(tmp_path / "..a/ b\n*/%2f", EVENTS, "-rf", "'; DROP", "é")
    make(tmp_path / "..a/ b")
    assert remove(planned(tmp_path, "..a/ b\n*/%2f")).files == 4
    assert left(tmp_path) == [f"..a/ b/{EVENTS}"]


def test_a_deleted_run_that_keeps_its_files_stays_deleted(
    database: Database, tmp_path: Path, watch: Watch
) -> None:
    root = tmp_path / "runs"
    log(root / "a", 1.0)
    log(root / "b", 1.0)
    watched = watch(root)
    run = watched.index()["a"]
    with database.begin() as connection:
        dry = delete_runs(connection, [run.id], files=False, dry_run=True)
        done = delete_runs(connection, [run.id], files=False, dry_run=False)
    assert (dry.runs, done.runs, done.files) == (1, 1, 0)
    log(root / "a", 2.0)
    assert list(watched.index()) == ["b"]


def test_a_run_logged_anew_where_one_was_deleted_is_found(
    database: Database, tmp_path: Path, watch: Watch
) -> None:
    root = tmp_path / "runs"
    log(root, 1.0)
    log(root / "a", 1.0)
    watched = watch(root)
    runs = watched.index()
    with database.begin() as connection:
        ids = [run.id for run in runs.values()]
        done = delete_runs(connection, ids, files=True, dry_run=False)
    assert (done.runs, done.files, done.problems) == (2, 2, [])
    assert watched.index() == {}
    log(root, 2.0)
    log(root / "a", 2.0)
    assert sorted(watched.index()) == ["a", "runs"]
