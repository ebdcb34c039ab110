"""The indexer: what the catalog says is what is in the files, whatever happens to them."""

from __future__ import annotations

import math
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import insert, select, update

import tbhub
from support.catalog import Watch, Watched, log
from support.live import VERSION, append, cache_at, eventually, every_kind, record, scalar
from tbhub import SummaryWriter
from tbhub.api.models import RunChange
from tbhub.catalog import indexer as indexing
from tbhub.catalog import open_runs, run_reader, watched_logdirs
from tbhub.catalog.indexer import News, Progress
from tbhub.catalog.readings import RUNNING
from tbhub.catalog.removal import delete_runs
from tbhub.catalog.run_records import create_run
from tbhub.catalog.runs import change_run
from tbhub.database import engine
from tbhub.database.engine import Database
from tbhub.database.tables import board_runs, boards, runs, users
from tbhub.writer.summaries import hparams as hparams_of


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@contextmanager
def running(watched: Watched) -> Iterator[None]:
    """The indexer's loop, in a thread."""
    thread = threading.Thread(target=watched.indexer.run)
    thread.start()
    try:
        yield
    finally:
        watched.indexer.stop()
        thread.join()


def expected(path: Path) -> dict[str, dict[str, Any]]:
    """What `tbhub.load` makes of a run, as the catalog would say it."""
    found = {}
    with _quiet():
        series = tbhub.load(path)["."].scalars
    for tag, points in series.items():
        values = np.asarray(points.values, np.float64)
        finite = np.isfinite(values)
        at = {}
        if finite.any():
            low = int(np.flatnonzero(values == values[finite].min())[0])
            high = int(np.flatnonzero(values == values[finite].max())[0])
            at = {
                "min": values[low],
                "min_step": points.steps[low],
                "max": values[high],
                "max_step": points.steps[high],
            }
        found[tag] = {
            "count": len(values),
            "last": values[-1] if math.isfinite(values[-1]) else None,
            "last_step": points.steps[-1],
            **(at or dict.fromkeys(("min", "min_step", "max", "max_step"))),
        }
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def told(run: Any) -> dict[str, dict[str, Any]]:
    return {tag: each.model_dump(exclude={"last_time"}) for tag, each in run.metrics.items()}


class TestMetrics:
    """What is said of a series."""

    def test_are_what_load_gives(self, root: Path, watch: Watch) -> None:
        rng = np.random.default_rng(0)
        for run in ("a", "b/c"):
            with SummaryWriter(root / run) as writer:
                for step in range(500):
                    writer.add_scalar("loss", rng.normal(), step * 3)
                    writer.add_scalar("äcc/tôp 5", rng.normal(), 1000 - step)
        found = watch(root).index()
        assert sorted(found) == ["a", "b/c"]
        for name, run in found.items():
            assert told(run) == expected(root / name)

    def test_of_every_kind_of_file(self, root: Path, watch: Watch) -> None:
        root.mkdir()
        append(root / "events.out.tfevents.1", every_kind())
        append(root / "events.out.tfevents.2", VERSION + scalar("even", 100, 3.0, 500))
        run = watch(root).index()["runs"]
        assert told(run) == expected(root)
        assert run.problem is not None
        assert "damaged" in run.problem

    def test_not_finite_values_count_and_are_no_extremes(self, root: Path, watch: Watch) -> None:
        log(root / "a", 3.0, math.nan, 1.0, math.inf, -math.inf, 2.0, math.nan)
        log(root / "b", math.nan, math.inf)
        found = watch(root).index()
        (some,) = found["a"].metrics.values()
        assert (some.count, some.last, some.last_step) == (7, None, 6)
        assert (some.min, some.min_step, some.max, some.max_step) == (1.0, 2, 3.0, 0)
        (none,) = found["b"].metrics.values()
        assert (none.count, none.last, none.min, none.max_step) == (2, None, None, None)

    def test_of_a_run_that_grows(self, root: Path, watch: Watch) -> None:
        with SummaryWriter(root / "a") as writer:
            watched = watch(root)
            for value in (3.0, 1.0, 2.0):
                writer.add_scalar("loss", value)
                writer.add_scalar(f"once {value}", value)
                writer.flush()
                found = watched.index()["a"]
                assert told(found) == expected(root / "a")
        assert found.metrics["loss"].count == 3
        assert found.metrics["loss"].min == 1.0

    def test_of_a_run_that_started_over(self, root: Path, watch: Watch) -> None:
        file = log(root / "a", 1.0, 2.0, tag="old") / "events.out.tfevents.9"
        watched = watch(root)
        watched.index()
        for each in (root / "a").iterdir():
            each.unlink()
        append(file, VERSION + scalar("new", 1, 5.0))
        found = watched.index()["a"]
        assert list(found.metrics) == ["new"]

    def test_names_and_times_no_database_takes(self, root: Path, watch: Watch) -> None:
        root.mkdir()
        tags = ["x" * 401, "a\x00b", "é" * 400, "fine"]
        append(
            root / "events.out.tfevents.1",
            VERSION + b"".join(scalar(tag, 1, 1.0, math.nan) for tag in tags),
        )
        append(root / "events.out.tfevents.2", VERSION + scalar("late", -(1 << 63), 1.0, 1e300))
        run = watch(root).index()["runs"]
        assert sorted(run.metrics) == ["fine", "late", "é" * 400]
        assert run.metrics["late"].last_step == -(1 << 63)
        assert run.problem is not None
        assert "2 metrics are left out" in run.problem


class TestRuns:
    """What is said of a run."""

    def test_hparams_keep_their_kinds(self, root: Path, watch: Watch) -> None:
        values = {"lr": 0.001, "batch": 32, "bn": True, "opt": "adam", "hüge": 1e300}
        with SummaryWriter(root / "a") as writer:
            writer.add_hparams(values, {"m": 1.0}, run_name=".")
        found = watch(root).index()["a"].hparams
        assert found == values
        assert {name: type(value) for name, value in found.items()} == {
            "lr": float,
            "batch": int,
            "bn": bool,
            "opt": str,
            "hüge": float,
        }

    def test_times(self, root: Path, watch: Watch) -> None:
        root.mkdir()
        file = root / "events.out.tfevents.1"
        append(file, VERSION + scalar("a", 0, 1.0, 100.5) + scalar("a", 1, 1.0, 200.25))
        run = watch(root).index()["runs"]
        assert run.started is not None
        assert run.updated is not None
        assert run.ended is not None
        times = [each.timestamp() for each in (run.started, run.updated, run.ended)]
        assert times == [1.0, 200.25, 200.25]

    @pytest.mark.parametrize(("first", "expected"), [(1.6e9, 1.6e9), (3.0, 1.7e9), (1.8e9, 1.7e9)])
    def test_points_with_times_before_the_file_was_begun(
        self, root: Path, watch: Watch, first: float, expected: float
    ) -> None:
        root.mkdir()
        begun = record(wall_time=1.7e9, file_version="brain.Event:2")
        append(root / "events.out.tfevents.1", begun + scalar("a", 0, 1.0, first))
        run = watch(root).index()["runs"]
        assert run.started is not None
        assert (run.started.timestamp(), run.created) == (expected, run.started)

    def test_a_run_without_events_yet(self, root: Path, watch: Watch) -> None:
        root.mkdir()
        (root / "events.out.tfevents.1").write_bytes(b"")
        run = watch(root).index()["runs"]
        assert (run.status, run.started, run.updated, run.metrics) == ("unknown", None, None, {})

    def test_it_runs_while_it_logs_and_then_has_ended(self, root: Path, watch: Watch) -> None:
        now = [time.time()]
        watched = watch(root, clock=lambda: now[0])
        now[0] += 1000
        log(root / "old", 1.0, wall_time=now[0] - 900)
        with SummaryWriter(root / "fresh") as writer:
            writer.add_scalar("loss", 1.0, 0, walltime=now[0] - 10)
            writer.flush()
            found = watched.index()
        assert {name: run.status for name, run in found.items()} == {
            "fresh": "running",
            "old": "finished",
        }
        assert found["fresh"].ended is None
        now[0] += RUNNING
        ended = watched.index()["fresh"]
        assert ended.status == "finished"
        assert ended.ended == ended.updated
        log(root / "fresh", 2.0, wall_time=now[0])
        assert watched.index()["fresh"].status == "running"
        assert watched.index()["fresh"].ended is None

    def test_a_log_that_ended_just_before_it_was_found_is_never_running(
        self, root: Path, watch: Watch
    ) -> None:
        """Which one goes on logging is seen when it does."""
        begun = time.time()
        log(root / "done", 1.0, wall_time=begun)
        log(root / "live", 1.0, wall_time=begun)
        now = [begun + 20]
        watched = watch(root, clock=lambda: now[0])
        found = watched.index()
        assert {run.status for run in found.values()} == {"unknown"}
        assert abs(found["done"].created.timestamp() - begun) < 1  # not when it was found
        log(root / "live", 2.0, wall_time=begun + 21)
        now[0] += 5
        assert {path: run.status for path, run in watched.index().items()} == {
            "done": "unknown",
            "live": "running",
        }
        now[0] += RUNNING
        assert {run.status for run in watched.index().values()} == {"finished"}

    def test_a_log_that_began_after_the_hub_and_is_moved_in_whole_is_never_running(
        self, root: Path, watch: Watch, tmp_path: Path
    ) -> None:
        now = [time.time()]
        watched = watch(root, clock=lambda: now[0])
        log(tmp_path / "moved", 1.0, wall_time=now[0] + 1)
        root.mkdir()
        (tmp_path / "moved").rename(root / "moved")
        now[0] += 5
        assert watched.index()["moved"].status == "unknown"
        now[0] += RUNNING
        assert watched.index()["moved"].status == "finished"

    def test_a_log_runs_if_one_of_its_files_is_open(self, root: Path, watch: Watch) -> None:
        now = [time.time()]
        watched = watch(root, clock=lambda: now[0])
        log(root / "a", 1.0, wall_time=now[0] + 1)
        with SummaryWriter(root / "a") as writer:
            writer.flush()
            now[0] += 5
            assert watched.index()["a"].status == "running"

    @pytest.mark.parametrize(
        ("ending", "status"), [("STATUS_FAILURE", "failed"), ("STATUS_SUCCESS", "finished")]
    )
    def test_how_it_ended_if_it_says_so(
        self, root: Path, watch: Watch, ending: str, status: str
    ) -> None:
        with SummaryWriter(root / "a") as writer:
            writer.add_scalar("x", 1.0, 0, walltime=1.0)
            writer.file_writer.add_summary(hparams_of.session_end(ending), walltime=2.0)
        assert watch(root).index()["a"].status == status

    def test_a_clock_that_is_ahead(self, root: Path, watch: Watch) -> None:
        watched = watch(root)
        with SummaryWriter(root / "a") as writer:
            writer.add_scalar("loss", 1.0, 0, walltime=time.time() + 3600)
            writer.flush()
            assert watched.index()["a"].status == "running"
        for file in (root / "a").iterdir():
            os.utime(file, (1000, 1000))
        assert watched.index()["a"].status == "finished"

    def test_what_somebody_started_has_the_status_they_told(
        self, database: Database, root: Path, watch: Watch
    ) -> None:
        watched = watch(root)
        with database.begin() as connection:
            made = create_run(
                connection,
                watched.logdir.id,
                "mine",
                str(root / "a"),
                hparams={"lr": 0.5, "seed": 1},
            )
        assert (made.name, made.status, made.experiment) == (f"run{made.id}", "running", "mine")
        with SummaryWriter(root / "a") as writer:
            writer.add_scalar("x", 1.0, 0, walltime=1.0)
            writer.add_hparams({"lr": 0.25, "more": "m"}, {}, run_name=".")
        found = watched.index()["a"]
        assert (found.id, found.status, found.experiment) == (made.id, "running", "mine")
        assert found.hparams == {"lr": 0.5, "seed": 1, "more": "m"}
        assert "x" in found.metrics


class TestComingAndGoing:
    """Directories that come, go and change."""

    def test_numbers_and_names(self, root: Path, watch: Watch) -> None:
        for name in ("a", "b"):
            log(root / name, 1.0)
        watched = watch(root)
        first = watched.index()
        assert [run.name for run in first.values()] == ["a", "b"]
        assert {run.experiment for run in first.values()} == {"runs"}
        shutil.rmtree(root / "b")
        assert list(watched.index()) == ["a"]
        log(root / "b", 1.0)
        assert watched.index()["b"].id > first["b"].id  # never given twice

    def test_files_that_are_gone_are_no_reading_of_an_empty_run(
        self, root: Path, tmp_path: Path
    ) -> None:
        log(root / "a", 1.0)
        reader = run_reader.RunReader(str(root / "a"), cache_at(None))
        assert list(reader.read(run_reader.signature(str(root / "a"))).metrics) == ["loss"]
        reader.saved()
        for file in (root / "a").iterdir():
            file.unlink()
        with pytest.raises(FileNotFoundError):
            reader.read(run_reader.signature(str(root / "a")))
        reader.close()

    def test_a_directory_name_that_is_taken(
        self, database: Database, root: Path, watch: Watch
    ) -> None:
        log(root / "a", 1.0)
        watched = watch(root)
        run = watched.index()["a"]
        with database.begin() as connection:
            change_run(connection, run.id, RunChange(name="b"), None)
        log(root / "b", 1.0)
        found = watched.index()
        assert (found["a"].name, found["b"].name) == ("b", "runs/b")

    def test_what_a_person_would_miss_is_lost_and_found(
        self, database: Database, root: Path, watch: Watch
    ) -> None:
        names = ("noted", "tagged", "named", "shown", "plain")
        for name in names:
            log(root / "x" / name, 1.0)
        watched = watch(root)
        found = watched.index()
        with database.begin() as connection:
            change_run(connection, found["x/noted"].id, RunChange(note="n"), None)
            change_run(connection, found["x/tagged"].id, RunChange(tags=["t"]), None)
            change_run(connection, found["x/named"].id, RunChange(name="best"), None)
            _show(connection, found["x/shown"].id)
        (root / "x").rename(root / "y")
        after = watched.index()
        assert sorted(after) == sorted(
            [*(f"x/{name}" for name in names if name != "plain"), *(f"y/{name}" for name in names)]
        )
        lost = after["x/noted"]
        assert (lost.status, lost.problem) == ("lost", "Its directory is gone.")
        assert list(lost.metrics) == ["loss"]
        (root / "y").rename(root / "x")
        back = watched.index()
        assert sorted(back) == sorted(f"x/{name}" for name in names)
        assert back["x/noted"].id == found["x/noted"].id
        assert (back["x/noted"].status, back["x/noted"].problem) == ("finished", None)
        assert back["x/noted"].note == "n"

    def test_a_logdir_that_disappears_keeps_its_runs(
        self, root: Path, watch: Watch, tmp_path: Path
    ) -> None:
        seen: list[Progress] = []
        watched = watch(root, progress=seen.append)
        assert watched.index() == {}
        assert seen[-1].problems == {str(root): "The logdir is not there"}
        log(root / "a", 1.0)
        first = watched.index()["a"]
        root.rename(tmp_path / "aside")
        assert watched.index() == {"a": first}
        (tmp_path / "aside").rename(root)
        log(root / "b", 1.0)
        assert watched.index()["a"] == first
        assert seen[-1].problems == {}

    def test_a_run_that_was_deleted_meanwhile(
        self, database: Database, root: Path, watch: Watch
    ) -> None:
        log(root / "a", 1.0)
        log(root / "b", 1.0)
        watched = watch(root)
        run = watched.index()["a"]
        with database.begin() as connection:
            delete_runs(connection, [run.id], files=True, dry_run=False)
        log(root / "b", 2.0)
        watched.indexer._use_database()  # which has not heard of it
        assert list(watched.index()) == ["b"]

    def test_two_workspaces_may_watch_the_same_directory(
        self, database: Database, root: Path, watch: Watch
    ) -> None:
        from tbhub.api.models import NewLogdir, NewWorkspace
        from tbhub.catalog.workspaces import add_logdir, create_workspace

        log(root / "a", 1.0)
        watched = watch(root)
        with database.begin() as connection:
            create_workspace(connection, NewWorkspace(name="other"))
            add_logdir(connection, NewLogdir(path=str(root), workspace="other"), None)
        watched.indexer.run_until_idle()
        with database.read() as connection:
            assert len(connection.scalars(select(runs.c.id)).all()) == 2
            assert connection.scalars(select(runs.c.status)).all() == ["finished"] * 2

    def test_hostile_names(self, root: Path, watch: Watch) -> None:
        names = ["' OR 1=1 --", "a b\n c", "%2f..", "été 🚀", '"; DROP TABLE runs;']
        for name in names:
            log(root / name, 1.0)
        found = watch(root).index()
        assert sorted(found) == sorted(names)
        assert all(list(run.metrics) == ["loss"] for run in found.values())


class TestTroubles:
    """What cannot be read or written."""

    def test_corrupt_files_are_told(self, root: Path, watch: Watch) -> None:
        log(root / "good", 1.0)
        bad = log(root / "bad", 1.0, 2.0)
        (file,) = bad.iterdir()
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 0xFF
        file.write_bytes(bytes(data))
        (root / "noise").mkdir()
        (root / "noise/tfevents").write_bytes(os.urandom(4096))
        found = watch(root).index()
        assert found["good"].problem is None
        assert "damaged" in (found["bad"].problem or "")
        assert found["noise"].metrics == {}

    def test_hparams_that_cannot_be_decoded(self, root: Path, watch: Watch) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata

        metadata = SummaryMetadata()
        metadata.plugin_data.plugin_name = "hparams"
        metadata.plugin_data.content = b"\xff\xff\xff"
        value = Summary.Value(tag="_hparams_/session_start_info", metadata=metadata)
        root.mkdir()
        event = record(wall_time=1.0, summary=Summary(value=[value]))
        append(root / "events.out.tfevents.1", VERSION + event + scalar("x", 1, 1.0))
        run = watch(root).index()["runs"]
        assert "hyperparameters cannot be decoded" in (run.problem or "")
        assert list(run.metrics) == ["x"]

    def test_a_run_that_cannot_be_listed(
        self, root: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log(root / "a", 1.0)
        watched = watch(root)
        watched.index()
        append(next((root / "a").iterdir()), scalar("loss", 5, 5.0))

        def refused(_: str) -> run_reader.Signature:
            raise PermissionError(13, "Permission denied")

        with monkeypatch.context() as patch:
            patch.setattr(open_runs, "signature", refused)
            run = watched.index()["a"]
        assert run.problem == "It cannot be read: Permission denied"
        assert run.metrics["loss"].count == 1  # what was known stays
        watched.indexer._logdirs[watched.logdir.id].next_check = 0.0  # a minute later
        again = watched.index()["a"]
        assert (again.problem, again.metrics["loss"].count) == (None, 2)

    def test_a_mistake_in_one_run_leaves_the_others_alone(
        self, root: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log(root / "a", 1.0)
        log(root / "b", 1.0)
        read = run_reader.RunReader.read

        def fails(self: run_reader.RunReader, files: run_reader.Signature) -> run_reader.Reading:
            if self.path.endswith("a"):
                raise RuntimeError("never seen before")
            return read(self, files)

        monkeypatch.setattr(run_reader.RunReader, "read", fails)
        found = watch(root).index()
        assert "never seen before" in (found["a"].problem or "")
        assert list(found["b"].metrics) == ["loss"]

    def test_a_value_the_database_refuses(
        self, root: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log(root / "a", 1.0)
        log(root / "b", 1.0)
        log(root / "b", 1.0, tag="toolong")
        monkeypatch.setattr(run_reader, "_is_storable", lambda name: True)
        root.joinpath("c").mkdir()
        append(root / "c/tfevents", VERSION + scalar("\x00" * 500, 1, 1.0))
        found = watch(root).index()
        assert sorted(found) == ["a", "b", "c"]
        assert list(found["a"].metrics) == ["loss"]

    def test_a_locked_database_is_waited_for(
        self,
        tmp_path: Path,
        root: Path,
        sqlite_template: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(engine, "PATIENCE", 0.05)
        shutil.copy(sqlite_template, tmp_path / "hub.db")
        watched = Watched(engine.open_database(f"sqlite:///{tmp_path / 'hub.db'}"), root)
        log(root / "a", 1.0)
        other = sqlite3.connect(tmp_path / "hub.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        for _ in range(20):
            watched.indexer._step(0.02)
        assert watched.runs() == {}
        other.execute("ROLLBACK")
        other.close()
        found = watched.index()["a"]
        assert list(found.metrics) == ["loss"]
        watched.close()
        watched.database.close()


class TestLive:
    """The loop itself: the kernel tells of changes, and they are in the catalog soon."""

    def test_everything_that_happens(
        self, database: Database, root: Path, watch: Watch, tmp_path: Path
    ) -> None:
        heard: list[News] = []
        watched = watch(root, tell=heard.append)
        with running(watched):
            root.mkdir()
            with SummaryWriter(root / "x/a") as writer:
                for step in range(3):
                    writer.add_scalar("loss", step)
                    writer.flush()
                    eventually(lambda: _count(watched, "x/a") == step + 1)  # noqa: B023
            assert watched.runs()["x/a"].status == "running"
            log(tmp_path / "elsewhere/b", 1.0)
            (root / "link").symlink_to(tmp_path / "elsewhere")
            eventually(lambda: _count(watched, "link/b") == 1)
            (root / "x").rename(root / "y")
            eventually(lambda: sorted(watched.runs()) == ["link/b", "y/a"])
            shutil.rmtree(root / "y")
            eventually(lambda: sorted(watched.runs()) == ["link/b"])
            eventually(lambda: len(heard) > 0 and heard[-1].gone > 0)
        assert {run for news in heard for run in news.runs} >= {
            run.id for run in watched.runs().values()
        }

    def test_without_the_kernels_help(
        self, root: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(indexing.Watcher, "add", lambda *_: False)
        monkeypatch.setattr(watched_logdirs, "_POLL_SECONDS", 0.05)
        monkeypatch.setattr(indexing, "_READ_SECONDS", 0.05)
        log(root / "a", 1.0)
        watched = watch(root)
        with running(watched):
            eventually(lambda: _count(watched, "a") == 1)
            append(next((root / "a").iterdir()), scalar("loss", 7, 7.0))
            eventually(lambda: _count(watched, "a") == 2)
            with SummaryWriter(root / "b") as writer:
                for step in range(3):
                    writer.add_scalar("loss", step)
                    writer.flush()
                    eventually(lambda: _count(watched, "b") == step + 1)  # noqa: B023

    def test_more_happened_than_the_kernel_could_tell(
        self, root: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log(root / "a", 1.0)
        watched = watch(root)
        watched.index()
        log(root / "b", 1.0)
        append(next((root / "a").iterdir()), scalar("loss", 7, 7.0))
        lost = indexing.Watcher.wait

        def overflow(self: Any, timeout: float | None) -> Any:
            changes = lost(self, timeout)
            changes.grown, changes.listed, changes.lost = set(), set(), True
            return changes

        monkeypatch.setattr(indexing.Watcher, "wait", overflow)
        with running(watched):
            eventually(lambda: (_count(watched, "a"), _count(watched, "b")) == (2, 1))


def test_an_unchanged_run_is_not_read_again(
    database: Database, root: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    log(root / "a", 1.0)
    log(root / "b", 1.0)
    first = watch(root)
    first.index()
    first.close()
    read: list[str] = []
    real = run_reader.RunReader.read

    def counted(self: run_reader.RunReader, files: run_reader.Signature) -> run_reader.Reading:
        read.append(os.path.basename(self.path))
        return real(self, files)

    monkeypatch.setattr(run_reader.RunReader, "read", counted)
    log(root / "b", 2.0)
    second = indexing.Indexer(database, cache_dir=root.parent / "cache")
    second.run_until_idle()
    second.close()
    assert read == ["b"]


def test_only_what_is_live_is_kept(
    database: Database, root: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        log(root / f"old{number}", 1.0)
    log(root / "live", 1.0, wall_time=time.time())
    watched = watch(root)
    monkeypatch.setattr(indexing, "_BATCH", 4)
    monkeypatch.setattr(indexing, "_AHEAD", 8)
    assert len(watched.index()) == 41
    assert [reader.path for reader in watched.indexer._open._readers.values()] == [
        str(root / "live")
    ]


def test_a_run_that_claims_to_run_is_looked_at_anew(
    database: Database, root: Path, watch: Watch
) -> None:
    log(root / "a", 1.0)
    first = watch(root)
    first.index()
    with database.begin() as connection:
        connection.execute(update(runs).values(status="running"))
    first.close()
    second = indexing.Indexer(database, cache_dir=root.parent / "cache")
    second.run_until_idle()
    second.close()
    assert first.runs()["a"].status == "finished"


def _count(watched: Watched, path: str) -> int:
    run = watched.runs().get(path)
    return run.metrics["loss"].count if run and run.metrics else 0


def _show(connection: Any, run_id: int) -> None:
    person = {"name": "anna", "role": "member", "created": 0.0}
    owner = connection.execute(insert(users).values(person).returning(users.c.id)).scalar_one()
    board = {"id": "b" * 36, "short": "b" * 8, "name": "b", "owner_id": owner, "selector": ""}
    board |= {"sources_key": "", "sources": [], "asked": {}, "options": {}, "state": "RUNNING"}
    board |= {"created": 0.0, "active": 0.0}
    connection.execute(insert(boards), board)
    connection.execute(insert(board_runs), {"board_id": board["id"], "run_id": run_id})
