"""Experiments: listed, noted, and deleted without touching others."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.catalog import Watch, log
from tbhub.api.models import NoteChange
from tbhub.api.problems import NotFound
from tbhub.catalog import experiments as catalog
from tbhub.database.engine import Database


def names(database: Database, **options: object) -> list[str]:
    with database.read() as connection:
        found = catalog.list_experiments(connection, None, **options)  # type: ignore[arg-type]
        return [each.name for each in found.experiments]


def number(database: Database, name: str) -> int:
    with database.read() as connection:
        found = catalog.list_experiments(connection, None, archived=True).experiments
        return next(each.id for each in found if each.name == name)


def test_a_page_of_experiments(database: Database, tmp_path: Path, watch: Watch) -> None:
    for name in ("a/1", "a/2", "b/1", "c/1"):
        log(tmp_path / "runs" / name, 1.0, 2.0)
    watch(tmp_path / "runs").index()
    with database.read() as connection:
        found = catalog.list_experiments(connection, None, limit=2)
        assert (found.total, found.offset) == (3, 0)
        assert [(each.name, each.runs, each.running) for each in found.experiments] == [
            ("c", 1, 0),
            ("b", 1, 0),
        ]
        rest = catalog.list_experiments(connection, None, limit=2, offset=2)
        assert [(each.name, each.runs) for each in rest.experiments] == [("a", 2)]
        assert rest.experiments[0].updated is not None
        assert rest.experiments[0].updated.timestamp() == 2.0
        assert catalog.list_experiments(connection, frozenset({999})).total == 0
        with pytest.raises(NotFound, match="There is no experiment 1"):
            catalog.get_experiment(connection, 1, frozenset({999}))


def test_search_and_archive(database: Database, tmp_path: Path, watch: Watch) -> None:
    for name in ("ResNet 50%/1", "resnet_18/1", "bert/1"):
        log(tmp_path / "runs" / name, 1.0)
    watch(tmp_path / "runs").index()
    assert names(database, search="RESNET") == ["resnet_18", "ResNet 50%"]
    assert names(database, search="50%") == ["ResNet 50%"]
    assert names(database, search="t_1") == ["resnet_18"]
    with database.begin() as connection:
        change = NoteChange(note="for the paper", archived=True)
        changed = catalog.change_experiment(connection, number(database, "bert"), change, None)
        assert (changed.note, changed.archived) == ("for the paper", True)
    assert names(database, search="paper") == []
    assert names(database, search="paper the", archived=True) == ["bert"]


@pytest.mark.parametrize("files", [True, False])
def test_deleting_experiment_1_leaves_10_alone(
    database: Database, tmp_path: Path, watch: Watch, files: bool
) -> None:
    for name in ("1/a", "1/b", "10/a", "11/a"):
        log(tmp_path / "runs" / name, 1.0)
    watched = watch(tmp_path / "runs")
    watched.index()
    first = number(database, "1")
    with database.begin() as connection:
        told = catalog.delete_experiment(connection, first, None, files=files, dry_run=True)
    assert len(watched.index()) == 4
    with database.begin() as connection:
        done = catalog.delete_experiment(connection, first, None, files=files, dry_run=False)
    assert (done.experiments, done.runs, done.files) == (1, 2, 2 if files else 0)
    assert done.model_copy(update={"dry_run": True}) == told
    assert bool(done.bytes) is files
    assert sorted(watched.index()) == ["10/a", "11/a"]
    assert names(database) == ["11", "10"]
    assert (tmp_path / "runs/1/a").exists() is not files
    with database.begin() as connection, pytest.raises(NotFound):
        catalog.delete_experiment(connection, first, None, files=True, dry_run=False)
