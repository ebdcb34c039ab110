"""Runs as they are listed, changed and deleted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event

from support import rows
from support.rows import NOW
from tbhub import SummaryWriter
from tbhub.api.models import Deleted, RunChange, Runs
from tbhub.api.problems import Ambiguous, Conflict, NotFound
from tbhub.catalog.runs import change_run, delete_runs, get_run, list_runs
from tbhub.catalog.selectors import parse
from tbhub.database.engine import Database


def listed(database: Database, text: str = "", **options: Any) -> Runs:
    with database.read() as connection:
        return list_runs(connection, parse(text), options.pop("visible", None), **options)


def numbers(found: Runs) -> list[int]:
    return [run.id for run in found.runs]


# --- lists


def test_a_run_is_shown_with_all_that_is_known_of_it(database: Database) -> None:
    with database.begin() as c:
        job = rows.job(c, "ws")
        number = rows.run(
            c,
            "first",
            "mnist/cnn",
            "ws",
            owner="ada",
            job_id=job,
            path="a/b",
            status="failed",
            exit_code=3,
            note="a note",
            machine="gpu1",
            command="python train.py",
            started=NOW,
            updated=NOW + 1,
            ended=1e300,
            tags=["b", "a"],
            values={"lr": 0.1, "n": 2**60, "amp": True, "opt": "1", "nan": float("nan")},
            series={
                "loss": {"last": 0.5, "min": 0.25, "min_step": 7, "max": 1.5, "max_step": 0},
                "acc": {"last": None, "count": 9, "last_step": 8},
            },
        )
    [run] = listed(database).runs
    with database.read() as c:
        assert get_run(c, number, None) == run
    assert run.model_dump(exclude={"metrics", "hparams"}) == {
        "id": number,
        "name": "first",
        "path": "a/b",
        "workspace": "ws",
        "experiment": "mnist/cnn",
        "experiment_id": 1,
        "job": job,
        "job_name": "",
        "location": "/logs/ws/mnist/cnn/first",
        "status": "failed",
        "exit_code": 3,
        "note": "a note",
        "owner": "ada",
        "archived": False,
        "machine": "gpu1",
        "command": "python train.py",
        "attempt": 0,
        "progress": None,
        "heartbeat": None,
        "created": datetime.fromtimestamp(NOW, UTC),
        "started": datetime.fromtimestamp(NOW, UTC),
        "updated": datetime.fromtimestamp(NOW + 1, UTC),
        "ended": datetime.max.replace(tzinfo=UTC),
        "problem": None,
        "tags": ["a", "b"],
    }
    assert run.hparams == {"lr": 0.1, "n": 2**60, "amp": True, "opt": "1", "nan": "nan"}
    assert {name: type(value) for name, value in run.hparams.items()} == {
        "lr": float,
        "n": int,
        "amp": bool,
        "opt": str,
        "nan": str,
    }
    loss, acc = run.metrics["loss"], run.metrics["acc"]
    assert (loss.count, loss.last, loss.last_step) == (1, 0.5, 0)
    assert (loss.min, loss.min_step, loss.max, loss.max_step) == (0.25, 7, 1.5, 0)
    assert (acc.count, acc.last, acc.last_step, acc.min) == (9, None, 8, None)
    everything = listed(database)
    assert Runs.model_validate_json(everything.model_dump_json()) == everything


def test_pages(database: Database) -> None:
    with database.begin() as c:
        for _ in range(7):
            rows.run(c, values={"even": 1})
    newest = [7, 6, 5, 4, 3, 2, 1]
    for text in ("", "where even = 1"):
        pages = [listed(database, text, limit=3, offset=offset) for offset in (0, 3, 6, 9)]
        assert [numbers(page) for page in pages] == [newest[:3], newest[3:6], newest[6:], []]
        assert [(page.total, page.offset) for page in pages] == [(7, 0), (7, 3), (7, 6), (7, 9)]
        assert listed(database, text, limit=0).total == 7
        # The selection's own limit is for all pages together.
        bounded = [listed(database, f"{text} limit 5", limit=3, offset=at) for at in (0, 3, 6)]
        assert [numbers(page) for page in bounded] == [newest[:3], newest[3:5], []]
        assert {page.total for page in bounded} == {5}
    assert listed(database, "where even = 2").total == 0
    assert numbers(listed(database, "run2-run4, run6 order by id")) == [2, 3, 4, 6]


def test_a_page_takes_the_same_few_statements_however_long_it_is(database: Database) -> None:
    with database.begin() as c:
        for number in range(30):
            rows.run(c, tags=["t"], values={"lr": number}, series={"loss": {"last": number}})

    def statements(limit: int, metrics: bool) -> int:
        sent: list[str] = []

        def count(_: Connection, __: object, sql: str, *___: object) -> None:
            sent.append(sql)

        with database.read() as connection:
            event.listen(connection, "before_cursor_execute", count)
            text = "where lr >= 0 order by metrics.loss.last"
            page = list_runs(connection, parse(text), None, limit=limit, metrics=metrics)
        assert len(page.runs) == limit
        assert all(bool(run.metrics) == metrics and run.tags for run in page.runs)
        return len([sql for sql in sent if sql.lstrip().startswith("SELECT")])

    assert statements(3, True) == statements(30, True) == 7
    assert statements(30, False) == 6


def test_terms_that_name_nothing_are_errors_in_lists_too(database: Database) -> None:
    with database.begin() as c:
        rows.run(c, "x", home="ws1")
        rows.run(c, "x", home="ws2")
        ws1 = frozenset({rows.workspace(c, "ws1")})
    with pytest.raises(NotFound, match="There is no run run9"):
        listed(database, "run9")
    with pytest.raises(Ambiguous):
        listed(database, "x")
    assert numbers(listed(database, "x", visible=ws1)) == [1]
    assert numbers(listed(database, visible=ws1)) == [1]
    assert listed(database, visible=frozenset()).total == 0
    with pytest.raises(NotFound, match="There is no run at or below /elsewhere"):
        listed(database, "/elsewhere")


# --- changes


def test_a_run_is_changed(database: Database) -> None:
    with database.begin() as c:
        number = rows.run(c, tags=["old"], note="as it was")
        change = RunChange(name="best one", tags=["b", "a", "b"])
        changed = change_run(c, number, change, None)
        assert (changed.name, changed.note, changed.tags) == ("best one", "as it was", ["a", "b"])
        changed = change_run(c, number, RunChange(note="", archived=True), None)
        assert (changed.name, changed.note, changed.archived) == ("best one", "", True)
        assert change_run(c, number, RunChange(tags=[]), None).tags == []
    with database.read() as c:
        assert get_run(c, number, None).name == "best one"


def test_names_are_unique_in_a_workspace(database: Database) -> None:
    with database.begin() as c:
        one, two = rows.run(c, "one"), rows.run(c, "two")
        rows.run(c, "three", home="ws2")
    with pytest.raises(Conflict, match="two"), database.begin() as c:
        change_run(c, one, RunChange(name="two", note="lost"), None)
    with database.begin() as c:
        assert get_run(c, one, None).note == ""
        assert change_run(c, one, RunChange(name="three"), None).name == "three"
        assert change_run(c, two, RunChange(name="two"), None).name == "two"


def test_runs_of_others_are_not_found(database: Database) -> None:
    with database.begin() as c:
        number = rows.run(c, home="ws1")
        others = frozenset({rows.workspace(c, "ws2")})
        for attempt in (
            lambda: get_run(c, number, others),
            lambda: change_run(c, number, RunChange(note="x"), others),
            lambda: delete_runs(c, [number], others, files=False, dry_run=False),
            lambda: get_run(c, 99, None),
        ):
            with pytest.raises(NotFound, match="There is no run"):
                attempt()
        assert get_run(c, number, None).note == ""


# --- deletion


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return tmp_path / "logs"


@pytest.fixture
def logged(database: Database, logs: Path) -> dict[str, int]:
    """Runs with files: ``1``, ``1/nested`` within it, and ``10`` and ``11`` beside it."""
    found = {}
    with database.begin() as c:
        logdir = rows.logdir(c, str(logs))
        for path in ("1", "1/nested", "10", "11"):
            with SummaryWriter(logs / path) as writer:
                writer.add_scalar("loss", 1.0, 0)
            found[path] = rows.run(
                c, f"name{path}", location=str(logs / path), path=path, logdir_id=logdir
            )
    return found


def files_of(directory: Path) -> set[str]:
    return {
        str(
            path.relative_to(directory).parent
            if "tfevents" in path.name
            else path.relative_to(directory)
        )
        for path in directory.rglob("*")
        if not path.is_dir() or path.is_symlink()
    }


def deleted(
    database: Database, ids: Sequence[int], *, files: bool = True, dry_run: bool = False
) -> Deleted:
    with database.begin() as connection:
        return delete_runs(connection, ids, None, files=files, dry_run=dry_run)


def test_deleting_a_run_takes_its_own_files_alone(
    database: Database, logged: dict[str, int], logs: Path
) -> None:
    outside = logs / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    (logs / "1" / "link").symlink_to(outside)
    (logs / "1" / "checkpoints").mkdir()
    (logs / "1" / "checkpoints" / "last.pt").write_text("12345")
    before = files_of(logs)
    planned = deleted(database, [logged["1"]], dry_run=True)
    assert (planned.runs, planned.files, planned.dry_run) == (1, 3, True)
    assert planned.bytes > 5
    assert files_of(logs) == before
    assert listed(database).total == 4

    done = deleted(database, [logged["1"]])
    assert done == planned.model_copy(update={"dry_run": False})
    assert files_of(logs) == {"1/nested", "10", "11", "outside/precious"}
    assert numbers(listed(database)) == [logged["11"], logged["10"], logged["1/nested"]]


def test_nested_runs_go_if_they_are_named(
    database: Database, logged: dict[str, int], logs: Path
) -> None:
    done = deleted(database, [logged["1"], logged["1/nested"], logged["1"]])
    assert (done.runs, done.files, done.problems) == (2, 2, [])
    assert not (logs / "1").exists()
    assert files_of(logs) == {"10", "11"}


def test_files_can_be_kept(database: Database, logged: dict[str, int], logs: Path) -> None:
    before = files_of(logs)
    done = deleted(database, [logged["10"]], files=False)
    assert (done.runs, done.files, done.bytes) == (1, 0, 0)
    assert files_of(logs) == before
    assert listed(database).total == 3


def test_a_run_behind_a_link_keeps_its_files(database: Database, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    with SummaryWriter(outside / "run") as writer:
        writer.add_scalar("loss", 1.0, 0)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "link").symlink_to(outside)
    with database.begin() as c:
        logdir = rows.logdir(c, str(tmp_path / "logs"))
        number = rows.run(c, location=str(tmp_path / "logs" / "link" / "run"), logdir_id=logdir)
    done = deleted(database, [number])
    assert done.files == 0
    assert "through a link" in done.problems[0]
    assert files_of(outside) == {"run"}


def test_nothing_is_deleted_if_one_is_unknown(
    database: Database, logged: dict[str, int], logs: Path
) -> None:
    before = files_of(logs)
    with pytest.raises(NotFound, match="There is no run 98, no run 99"):
        deleted(database, [logged["10"], 98, 99])
    assert files_of(logs) == before
    assert listed(database).total == 4
