"""A directory whose event files a started run has copied is not listed as a second run."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection, insert, select, update

from support.catalog import Watch, Watched, add_user, log
from tbhub.api.models import NewWorkspace, Run, RunChange
from tbhub.catalog.experiments import delete_experiment
from tbhub.catalog.removal import delete_runs
from tbhub.catalog.run_records import create_run
from tbhub.catalog.runs import change_run
from tbhub.catalog.workspaces import create_workspace, remember
from tbhub.database.engine import Database
from tbhub.database.tables import adopted_dirs, board_runs, boards, forgotten, runs, workspaces

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


def default_workspace(connection: Connection) -> int:
    """The workspace of the watched log directory."""
    named = select(workspaces.c.id).where(workspaces.c.name == "default")
    return int(connection.execute(named).scalar_one())


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


def test_a_directory_is_withdrawn_when_the_last_of_its_runs_is_known(
    root: Path, watch: Watch, start: Start
) -> None:
    log(root / "a", 1.0)
    log(root.parent / "elsewhere", 2.0)
    shutil.copytree(root.parent / "elsewhere", root / "a", dirs_exist_ok=True)
    watched = watch(root)
    first = root.parent / "first"
    first.mkdir()
    other = {path.name for path in (root.parent / "elsewhere").iterdir()}
    for path in (root / "a").iterdir():
        if path.name not in other:
            shutil.copy(path, first)
    start(first)
    assert found(watched) == ["a"]  # a file is there that no started run has
    start(root.parent / "elsewhere")
    assert found(watched) == []


def test_a_directory_with_another_file_is_listed(root: Path, watch: Watch, start: Start) -> None:
    log(root / "a", 1.0)
    watched = watch(root)
    start(root / "a")
    assert found(watched) == []
    log(root / "a", 2.0, tag="more")
    assert found(watched) == ["a"]
    assert sorted(watched.runs()["a"].metrics) == ["loss", "more"]


@pytest.mark.parametrize("files", [False, True])
def test_a_directory_is_not_listed_when_its_run_is_deleted_until_it_is_added(
    root: Path, database: Database, watch: Watch, start: Start, files: bool
) -> None:
    log(root / "a", 1.0)
    log(root / "b", 2.0)
    watched = watch(root)
    run = start(root / "a")
    assert found(watched) == ["b"]
    with database.begin() as connection:
        delete_runs(connection, [run.id], files=files, dry_run=False)
        assert connection.scalars(select(adopted_dirs.c.location)).all() == []
    assert Path(run.location).exists() is not files
    assert list((root / "a").iterdir())
    assert found(watched) == ["b"]
    with database.begin() as connection:
        remember(connection, default_workspace(connection), str(root / "a"))
    assert found(watched) == ["a", "b"]


def test_directories_are_not_listed_when_the_experiment_of_their_runs_is_deleted(
    root: Path, database: Database, watch: Watch, start: Start
) -> None:
    """A directory with files of two runs that are deleted together is forgotten, too."""
    log(root / "a", 1.0)
    log(root / "shared", 2.0)
    watched = watch(root)
    run = start(root / "a", root / "shared")
    assert found(watched) == []
    log(root.parent / "elsewhere", 3.0)
    start(root.parent / "elsewhere")
    assert found(watched) == []
    shutil.copytree(root.parent / "elsewhere", root / "shared", dirs_exist_ok=True)
    assert found(watched) == []
    with database.begin() as connection:
        of_run = select(runs.c.experiment_id).where(runs.c.id == run.id)
        experiment = connection.execute(of_run).scalar_one()
        done = delete_experiment(connection, experiment, None, files=False, dry_run=False)
    assert done.runs == 2
    assert found(watched) == []


def test_a_shared_directory_is_not_listed_when_one_of_its_runs_is_deleted_until_it_is_added(
    root: Path, database: Database, watch: Watch, start: Start
) -> None:
    log(root / "shared", 1.0)
    watched = watch(root)
    first = start(root / "shared")
    assert found(watched) == []
    log(root.parent / "elsewhere", 2.0, tag="more")
    second = start(root.parent / "elsewhere")
    assert found(watched) == []
    shutil.copytree(root.parent / "elsewhere", root / "shared", dirs_exist_ok=True)
    assert found(watched) == []
    with database.begin() as connection:
        delete_runs(connection, [first.id], files=True, dry_run=False)
    watched.indexer.rescan()
    (root / "shared" / "touched").touch()
    assert found(watched) == []
    with database.begin() as connection:
        remember(connection, default_workspace(connection), str(root / "shared"))
    (root / "shared" / "touched").unlink()
    assert found(watched) == ["shared"]
    assert sorted(watched.runs()["shared"].metrics) == ["loss", "more"]
    assert second.location in {run.location for run in watched.runs().values()}


def test_a_shared_directory_is_forgotten_when_its_runs_are_deleted_one_by_one(
    root: Path, database: Database, watch: Watch, start: Start
) -> None:
    log(root / "shared", 1.0)
    watched = watch(root)
    first = start(root / "shared")
    assert found(watched) == []
    log(root.parent / "elsewhere", 2.0)
    second = start(root.parent / "elsewhere")
    assert found(watched) == []
    shutil.copytree(root.parent / "elsewhere", root / "shared", dirs_exist_ok=True)
    for run in (first, second):
        with database.begin() as connection:
            delete_runs(connection, [run.id], files=False, dry_run=False)
        assert found(watched) == []
    with database.read() as connection:
        assert str(root / "shared") in connection.scalars(select(forgotten.c.location)).all()


def test_a_dry_run_forgets_no_directory(
    root: Path, database: Database, watch: Watch, start: Start
) -> None:
    log(root / "a", 1.0)
    watched = watch(root)
    run = start(root / "a")
    assert found(watched) == []
    with database.begin() as connection:
        delete_runs(connection, [run.id], files=False, dry_run=True)
        assert connection.scalars(select(forgotten.c.location)).all() == []
        assert connection.scalars(select(adopted_dirs.c.location)).all() == [str(root / "a")]


def test_deleting_a_run_forgets_no_directory_of_another_run(
    root: Path, database: Database, watch: Watch, start: Start
) -> None:
    """Directories of tensorboardX may have event files of the same name."""
    log(root / "a", 1.0)
    log(root / "b", 2.0, wall_time=5.0)
    (one,), (other,) = (root / "a").iterdir(), (root / "b").iterdir()
    other.rename(other.with_name(one.name))
    watched = watch(root)
    run, _ = start(root / "a"), start(root / "b")
    assert found(watched) == []
    with database.begin() as connection:
        delete_runs(connection, [run.id], files=False, dry_run=False)
        left = connection.scalars(select(forgotten.c.location)).all()
    assert str(root / "a") in left
    assert str(root / "b") not in left
    assert found(watched) == []


def test_a_directory_that_is_added_again_after_it_ended_is_not_running(
    root: Path, database: Database, watch: Watch, start: Start
) -> None:
    now = [time.time()]
    watched = watch(root, clock=lambda: now[0])
    now[0] += 1000
    log(root / "a", 1.0, wall_time=now[0])
    run = start(root / "a")
    assert found(watched) == []
    with database.begin() as connection:
        delete_runs(connection, [run.id], files=False, dry_run=False)
    assert found(watched) == []
    now[0] += 60
    with database.begin() as connection:
        remember(connection, default_workspace(connection), str(root / "a"))
    assert watched.index()["a"].status == "unknown"
    with database.begin() as connection:
        connection.execute(update(runs).values(seen=""))  # a second reading shows nothing new
    assert watched.index()["a"].status == "unknown"
    now[0] += 10
    log(root / "a", 2.0, wall_time=now[0])
    assert watched.index()["a"].status == "running"


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
