"""A directory whose event files a started run has copied is not listed as a second run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import insert, select

from support.catalog import Watch, Watched, add_user, log
from tbhub.api.models import NewWorkspace, Run, RunChange
from tbhub.catalog.removal import delete_runs
from tbhub.catalog.run_records import create_run
from tbhub.catalog.runs import change_run
from tbhub.catalog.workspaces import create_workspace
from tbhub.database.engine import Database
from tbhub.database.tables import board_runs, boards, workspaces

Start = Callable[..., Run]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def start(database: Database, tmp_path: Path) -> Start:
    """Start a run, which has copies of the event files of some directories."""

    def start(*copied: Path, workspace: str = "default") -> Run:
        kept = tmp_path / "kept"
        with database.begin() as connection:
            named = select(workspaces.c.id).where(workspaces.c.name == workspace)
            run = create_run(
                connection,
                connection.scalar(named),
                "tracked",
                lambda number, _: str(kept / str(number)),
            )
        for number, directory in enumerate(copied):
            shutil.copytree(directory, Path(run.location) / str(number))
        return run

    return start


def found(watched: Watched) -> list[str]:
    """The runs that were found in the log directory, by path, once all is read."""
    return sorted(path for path in watched.index() if not path.startswith("/"))


def test_a_found_run_is_withdrawn_when_a_started_run_has_its_files(
    root: Path, watch: Watch, start: Start
) -> None:
    log(root / "a", 1.0)
    log(root / "b", 2.0)
    watched = watch(root)
    assert found(watched) == ["a", "b"]
    run = start(root / "a")
    assert found(watched) == ["b"]
    assert list(watched.runs()[run.location].metrics) == ["0/loss"]


def test_a_directory_found_later_than_its_copy_is_not_listed(
    root: Path, watch: Watch, start: Start
) -> None:
    log(root / "b", 2.0)
    watched = watch(root)
    assert found(watched) == ["b"]
    log(root.parent / "elsewhere", 1.0)
    start(root.parent / "elsewhere")
    assert found(watched) == ["b"]
    shutil.copytree(root.parent / "elsewhere", root / "a")
    assert found(watched) == ["b"]


def test_a_directory_with_files_of_two_started_runs_is_not_listed(
    root: Path, watch: Watch, start: Start
) -> None:
    log(root / "a", 1.0)
    watched = watch(root)
    start(root / "a")
    assert found(watched) == []
    log(root.parent / "elsewhere", 2.0)
    start(root.parent / "elsewhere")
    shutil.copytree(root.parent / "elsewhere", root / "a", dirs_exist_ok=True)
    assert found(watched) == []


def test_a_directory_with_another_file_is_listed(root: Path, watch: Watch, start: Start) -> None:
    log(root / "a", 1.0)
    watched = watch(root)
    start(root / "a")
    assert found(watched) == []
    log(root / "a", 2.0, tag="more")
    assert found(watched) == ["a"]
    assert sorted(watched.runs()["a"].metrics) == ["loss", "more"]


def test_a_directory_is_listed_again_once_its_run_is_deleted(
    root: Path, database: Database, watch: Watch, start: Start
) -> None:
    log(root / "a", 1.0)
    watched = watch(root)
    run = start(root / "a")
    assert found(watched) == []
    with database.begin() as connection:
        delete_runs(connection, [run.id], files=False, dry_run=False)
    assert found(watched) == ["a"]


def test_a_new_directory_of_the_same_name_is_listed(root: Path, watch: Watch, start: Start) -> None:
    log(root / "a", 1.0)
    watched = watch(root)
    start(root / "a")
    assert found(watched) == []
    shutil.rmtree(root / "a")
    assert found(watched) == []
    log(root / "a", 3.0)
    assert found(watched) == ["a"]


def test_a_file_of_the_same_name_begun_at_another_time_is_another_file(
    root: Path, watch: Watch, start: Start
) -> None:
    """tensorboardX names files by second and machine only."""
    log(root / "a", 1.0)
    log(root / "b", 2.0)
    (one,), (other,) = (root / "a").iterdir(), (root / "b").iterdir()
    other.rename(other.with_name(one.name))
    watched = watch(root)
    start(root / "a")
    assert found(watched) == ["b"]


def test_a_started_run_of_another_workspace_hides_nothing(
    root: Path, database: Database, watch: Watch, start: Start
) -> None:
    log(root / "a", 1.0)
    watched = watch(root)
    with database.begin() as connection:
        create_workspace(connection, NewWorkspace(name="other"))
    start(root / "a", workspace="other")
    assert found(watched) == ["a"]


def test_a_found_run_that_a_user_has_described_stays(
    root: Path, database: Database, watch: Watch, start: Start
) -> None:
    log(root / "a", 1.0)
    watched = watch(root)
    run = watched.index()["a"]
    with database.begin() as connection:
        change_run(connection, run.id, RunChange(note="the good one"), None)
    start(root / "a")
    assert found(watched) == ["a"]


@pytest.mark.parametrize("follow", [True, False])
def test_a_found_run_on_a_board_stays_unless_the_board_follows_its_selector(
    root: Path, database: Database, watch: Watch, start: Start, follow: bool
) -> None:
    log(root / "a", 1.0)
    watched = watch(root)
    run = watched.index()["a"]
    board = {
        "id": "b" * 36,
        "short": "b" * 8,
        "name": "board",
        "owner_id": add_user(database, "u"),
        "selector": "",
        "follow": follow,
        "sources_key": "",
        "sources": [],
        "asked": {},
        "options": {},
        "state": "RUNNING",
        "created": 0.0,
        "active": 0.0,
    }
    with database.begin() as connection:
        connection.execute(insert(boards), board)
        connection.execute(insert(board_runs), {"board_id": board["id"], "run_id": run.id})
    start(root / "a")
    assert found(watched) == ([] if follow else ["a"])


def test_directories_below_a_started_run_are_not_listed(
    root: Path, database: Database, watch: Watch
) -> None:
    """A run may be started in a directory that the hub watches."""
    watched = watch(root)
    with database.begin() as connection:
        run = create_run(connection, watched.logdir.id, "tracked", str(root / "mine"))
    log(root / "mine" / "train", 1.0)
    log(root / "mine" / "test", 1.0)
    log(root / "other", 1.0)
    assert found(watched) == ["other"]
    assert sorted(watched.runs()[run.location].metrics) == ["test/loss", "train/loss"]
