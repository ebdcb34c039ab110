"""Workspaces, their members and their logdirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.catalog import Watch, add_user, log
from tbhub.api.models import NewLogdir, NewWorkspace, RunChange, WorkspaceChange
from tbhub.api.problems import BadRequest, Conflict, NotFound
from tbhub.catalog import workspaces as catalog
from tbhub.catalog.removal import delete_runs
from tbhub.catalog.runs import change_run
from tbhub.database.engine import Database


def test_the_default_workspace_is_always_there(database: Database) -> None:
    with database.begin() as connection:
        catalog.ensure_defaults(connection)
        catalog.ensure_defaults(connection)
        assert [each.name for each in catalog.list_workspaces(connection, None)] == ["default"]
        with pytest.raises(Conflict, match="cannot be deleted"):
            catalog.delete_workspace(connection, "default", None)


def test_who_makes_a_workspace_is_its_admin(database: Database) -> None:
    anna = add_user(database, "anna")
    with database.begin() as connection:
        made = catalog.create_workspace(
            connection, NewWorkspace(name="vision", note="n", max_boards=3), owner_id=anna
        )
        assert (made.name, made.note, made.max_boards, made.role) == ("vision", "n", 3, "admin")
        (member,) = catalog.list_members(connection, "vision", None)
        assert (member.user, member.role) == ("anna", "admin")
    with database.begin() as connection, pytest.raises(Conflict, match="already"):
        catalog.create_workspace(connection, NewWorkspace(name="vision"))


def test_what_may_not_be_seen_is_not_found(database: Database) -> None:
    with database.begin() as connection:
        catalog.ensure_defaults(connection)
        mine = catalog.create_workspace(connection, NewWorkspace(name="mine"))
        catalog.create_workspace(connection, NewWorkspace(name="theirs"))
        visible = frozenset({mine.id})
        assert [each.name for each in catalog.list_workspaces(connection, visible)] == ["mine"]
        assert catalog.list_workspaces(connection, frozenset()) == []
        assert catalog.get_workspace(connection, "mine", visible).id == mine.id
        for look in (
            lambda: catalog.get_workspace(connection, "theirs", visible),
            lambda: catalog.list_members(connection, "theirs", visible),
            lambda: catalog.add_logdir(
                connection, NewLogdir(path="/x", workspace="theirs"), visible
            ),
            lambda: catalog.delete_workspace(connection, "theirs", visible),
            lambda: catalog.change_workspace(connection, "no such", WorkspaceChange(), None),
        ):
            with pytest.raises(NotFound, match="There is no workspace"):
                look()


def test_changes(database: Database) -> None:
    with database.begin() as connection:
        catalog.create_workspace(connection, NewWorkspace(name="w", note="n", max_boards=3))
        changed = catalog.change_workspace(connection, "w", WorkspaceChange(note="m"), None)
        assert (changed.note, changed.max_boards) == ("m", 3)
        changed = catalog.change_workspace(connection, "w", WorkspaceChange(max_boards=None), None)
        assert (changed.note, changed.max_boards) == ("m", None)
        catalog.delete_workspace(connection, "w", None)
        assert catalog.list_workspaces(connection, None) == []


def test_members_come_change_and_go(database: Database) -> None:
    add_user(database, "anna")
    add_user(database, "bert")
    with database.begin() as connection:
        catalog.create_workspace(connection, NewWorkspace(name="w"))
        catalog.set_member(connection, "w", "bert", "viewer", None)
        catalog.set_member(connection, "w", "anna", "member", None)
        catalog.set_member(connection, "w", "bert", "admin", None)
        found = catalog.list_members(connection, "w", None)
        assert [(each.user, each.role) for each in found] == [("anna", "member"), ("bert", "admin")]
        catalog.remove_member(connection, "w", "anna", None)
        with pytest.raises(NotFound, match="anna is not a member"):
            catalog.remove_member(connection, "w", "anna", None)
        with pytest.raises(NotFound, match="There is no user carl"):
            catalog.set_member(connection, "w", "carl", "viewer", None)


def test_logdirs(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with database.begin() as connection:
        catalog.ensure_defaults(connection)
        made = catalog.add_logdir(connection, NewLogdir(path="not there/yet/"), None)
        assert made.path == str(tmp_path / "not there/yet")
        assert (made.workspace, made.runs) == ("default", 0)
        with pytest.raises(Conflict, match="already"):
            catalog.add_logdir(connection, NewLogdir(path=made.path), None)
        assert catalog.list_logdirs(connection, None) == [made]
        assert catalog.list_logdirs(connection, frozenset({made.id + 99})) == []
        with pytest.raises(NotFound, match=f"no logdir {made.id}"):
            catalog.remove_logdir(connection, made.id, frozenset())
        catalog.remove_logdir(connection, made.id, None)
        assert catalog.list_logdirs(connection, None, workspace="default") == []


@pytest.mark.parametrize("path", ["s3://", "ftp://bucket/runs", "hub://runs/1", "a\x00b", "\udcff"])
def test_what_is_no_directory(database: Database, path: str) -> None:
    with database.begin() as connection:
        catalog.ensure_defaults(connection)
    with database.begin() as connection, pytest.raises(BadRequest):
        catalog.add_logdir(
            connection, NewLogdir.model_construct(path=path, workspace="default"), None
        )


def test_removing_a_logdir_keeps_what_a_person_added(
    database: Database, tmp_path: Path, watch: Watch
) -> None:
    for name in ("x/a", "x/b", "y/c"):
        log(tmp_path / "runs" / name, 1.0)
    watched = watch(tmp_path / "runs")
    kept = watched.index()["x/b"]
    with database.begin() as connection:
        change_run(connection, kept.id, RunChange(note="the good one"), None)
        catalog.remove_logdir(connection, watched.logdir.id, None)
    assert list(watched.index()) == ["x/b"]
    (place,) = _workspaces(database)
    assert (place.runs, place.experiments) == (1, 1)
    assert (tmp_path / "runs/x/a").exists()


def test_a_logdir_that_is_added_again_finds_everything_again(
    database: Database, tmp_path: Path, watch: Watch
) -> None:
    log(tmp_path / "runs/a", 1.0)
    watched = watch(tmp_path / "runs")
    run = watched.index()["a"]
    with database.begin() as connection:
        delete_runs(connection, [run.id], files=False, dry_run=False)
    assert watched.index() == {}
    with database.begin() as connection:
        catalog.remove_logdir(connection, watched.logdir.id, None)
        catalog.add_logdir(connection, NewLogdir(path=str(tmp_path / "runs")), None)
    assert watched.index()["a"].id > run.id


def _workspaces(database: Database) -> list[catalog.Workspace]:
    with database.read() as connection:
        return catalog.list_workspaces(connection, None)
