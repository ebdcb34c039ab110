"""Boards through their lives, with real hosts, real logs and a real database."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import Table

from support.conducted import (
    ADMIN,
    PATIENCE,
    UP_OR_ENDED,
    Catalog,
    Conducted,
    log,
    running,
)
from tbhub import SummaryWriter
from tbhub.api.models import BoardChange, BoardOptions, BoardRuns, NewBoard, Reason, State
from tbhub.api.problems import (
    Ambiguous,
    BadRequest,
    Conflict,
    Forbidden,
    NotAuthenticated,
    NotFound,
    TensorboardLimitExceeded,
)
from tbhub.catalog.run_records import FoundRun, add_found
from tbhub.database.engine import Database, open_database
from tbhub.database.tables import boards, runs, users, workspaces
from tbhub.hub.doctor import examine
from tbhub.hub.host_link import HostGoneError
from tbhub.hub.troubles import NOTHING_LEFT
from tbhub.launchers.base import Details, Exited, LaunchError, Status


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TBHUB_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def sqlite(tmp_path: Path, sqlite_template: Path) -> Any:
    path = tmp_path / "hub.db"
    path.write_bytes(sqlite_template.read_bytes())
    opened = open_database(f"sqlite:///{path}")
    yield opened
    opened.close()


def two_experiments(database: Database, tmp_path: Path) -> dict[str, int]:
    """Runs 1 and 2 of experiment 1, run 3 of experiment 2; by name."""
    catalog = Catalog(database)
    return {
        name: catalog.run(log(tmp_path / name, 1, 2), experiment, name=name)
        for name, experiment in (("a", "one"), ("b", "one"), ("c", "two"))
    }


async def ended_host(hub: Conducted, number: int = signal.SIGKILL) -> None:
    """Kills the process of the only host."""
    (host,) = hub.conductor.hosts()
    route = hub.conductor._keeper.hosts.get(host.id)
    assert route is not None
    health = await route.health()
    os.kill(health["pid"], number)


# ------------------------------------------------------------------------------- what is shown


@running
async def test_two_experiments_in_one_board_and_its_end(database: Database, tmp_path: Path) -> None:
    two_experiments(database, tmp_path)
    async with Conducted(database, tmp_path) as hub:
        board = await hub.create(ADMIN, experiments=[1, 2])
        assert board.state == State.RUNNING
        assert board.url == f"https://hub.example/base/boards/{board.id[:8]}/"
        assert await hub.names(board.id) == ["a", "b", "c"]
        (listed,) = (await hub.conductor.list(ADMIN)).boards
        assert (listed.experiments, listed.trials, listed.runs) == ([1, 2], [], 3)
        for _ in range(2):
            killed = await hub.conductor.kill(ADMIN, board.id)
            assert (killed.state, killed.reason) == (State.TERMINATED, Reason.USER_KILLED)
            assert (killed.exit_code, killed.message) == (0, "It was killed by admin.")
        assert (await hub.conductor.list(ADMIN)).boards == [killed]
        assert (await hub.conductor.list(ADMIN, live_only=True)).boards == []
        with pytest.raises(Conflict, match="for good"):
            await hub.conductor.start_board(ADMIN, board.id)


@running
async def test_runs_of_a_killed_board_cannot_be_changed(database: Database, tmp_path: Path) -> None:
    two_experiments(database, tmp_path)
    async with Conducted(database, tmp_path) as hub:
        board = await hub.create(ADMIN, experiments=[1])
        await hub.conductor.kill(ADMIN, board.id)
        for change in (hub.conductor.add_runs, hub.conductor.remove_runs):
            with pytest.raises(Conflict, match=r"for good \(USER_KILLED\): It was killed by admin"):
                await change(ADMIN, board.id, BoardRuns(runs="c"))
        assert (await hub.conductor.get(ADMIN, board.id)).runs == board.runs


@running
async def test_trials_of_two_experiments_and_an_experiment_with_its_own_trial(
    database: Database, tmp_path: Path
) -> None:
    runs = two_experiments(database, tmp_path)
    async with Conducted(database, tmp_path) as hub:
        board = await hub.create(ADMIN, trials=[runs["b"], runs["c"]])
        assert await hub.names(board.id) == ["b", "c"]
        assert (board.experiments, board.trials) == ([], [runs["b"], runs["c"]])
        union = await hub.create(ADMIN, experiments=[1], trials=[runs["a"], runs["c"]])
        assert await hub.names(union.id) == ["a", "b", "c"]
        assert (union.experiments, union.trials) == ([1], [runs["c"]])


@running
async def test_names_and_templates(sqlite: Database, tmp_path: Path) -> None:
    catalog = Catalog(sqlite)
    catalog.workspace("ws2")
    a = catalog.run(log(tmp_path / "1", 1), "e", name="a", hparams={"lr": 0.01, "note": "x/y"})
    b = catalog.run(log(tmp_path / "2", 1), "e", "ws2", name="a", hparams={"lr": float("nan")})
    async with Conducted(sqlite, tmp_path) as hub:
        board = await hub.create(ADMIN, trials=[a, b])
        assert await hub.names(board.id) == ["a", "ws2/a"]
        options = BoardOptions(template="{workspace}_{run}_{experiment}_{id}_lr={hparams.lr}")
        await hub.conductor.change(ADMIN, board.id, BoardChange(options=options))
        await hub.shows(board.id, ["default_a_e_1_lr=.01", "ws2_a_e_2_lr=nan"])
        with pytest.raises(BadRequest):
            await hub.create(ADMIN, trials=[a], options={"template": "{"})
        with pytest.raises(BadRequest):
            await hub.create(ADMIN, trials=[a], options={"group_by": ",,"})


@running
async def test_a_run_is_shown_under_its_new_name(sqlite: Database, tmp_path: Path) -> None:
    catalog = Catalog(sqlite)
    a = catalog.run(log(tmp_path / "1", 1), name="a")
    async with Conducted(sqlite, tmp_path) as hub:
        board = await hub.create(ADMIN, trials=[a])
        await hub.shows(board.id, ["a"])
        with sqlite.begin() as connection:
            connection.execute(runs.update().where(runs.c.id == a), {"name": "best"})
        await hub.conductor.run_renamed(a)
        await hub.shows(board.id, ["best"])


@running
async def test_a_name_that_grows_is_new_on_boards_that_are_up(
    sqlite: Database, tmp_path: Path
) -> None:
    places = [log(tmp_path / experiment / "run1", 1) for experiment in ("exp1", "exp2")]
    first, second = [FoundRun(str(place), str(place), "e") for place in places]
    Catalog(sqlite)
    with sqlite.begin() as connection:
        (a,) = add_found(connection, 1, None, [first], time.time()).values()
    async with Conducted(sqlite, tmp_path) as hub:
        board = await hub.create(ADMIN, trials=[a])
        await hub.shows(board.id, ["run1"])
        with sqlite.begin() as connection:
            (b,) = add_found(connection, 1, None, [second], time.time()).values()
        hub.conductor.runs_changed([b])
        await hub.shows(board.id, ["exp1/run1"])


@running
async def test_a_board_is_not_reused_for_a_name_that_several_runs_have_now(
    sqlite: Database, tmp_path: Path
) -> None:
    places = [log(tmp_path / parts, 1) for parts in ("exp1/run1", "exp1/run2", "exp2/run1")]
    first, other, second = [FoundRun(str(place), str(place), place.parent.name) for place in places]
    Catalog(sqlite)
    with sqlite.begin() as connection:
        add_found(connection, 1, None, [first, other], time.time())
    async with Conducted(sqlite, tmp_path) as hub:
        one = await hub.create(ADMIN, runs="run1")
        both = await hub.create(ADMIN, runs="run1 run2", follow=True)
        assert (await hub.create(ADMIN, runs="run1", reuse=True)).id == one.id
        with sqlite.begin() as connection:
            (b,) = add_found(connection, 1, None, [second], time.time()).values()
        for reuse in (False, True):
            with pytest.raises(Ambiguous, match=r"exp1/run1 \(#1\), exp2/run1 \(#3\)"):
                await hub.create(ADMIN, runs="run1", reuse=reuse)
        hub.conductor.runs_changed([b])
        await hub.shows(one.id, ["exp1/run1"])
        await hub.shows(both.id, ["exp1/run1", "run2"])
        assert (await hub.conductor.get(ADMIN, one.id)).sources == ["exp1/run1"]
        assert (await hub.conductor.get(ADMIN, both.id)).sources == ["exp1/run1, run2"]
        assert (await hub.conductor.config(ADMIN, one.id))["runs"] == "exp1/run1"
        assert (await hub.create(ADMIN, runs="exp1/run1", reuse=True)).id == one.id
        removed = await hub.conductor.remove_runs(ADMIN, both.id, BoardRuns(runs="exp1/run1"))
        assert removed.sources == ["run2"]


@running
async def test_a_stopped_board_is_started_with_names_that_have_grown(
    sqlite: Database, tmp_path: Path
) -> None:
    places = [log(tmp_path / parts, 1) for parts in ("exp1/run1", "exp2/run1")]
    first, second = [FoundRun(str(place), str(place), place.parent.name) for place in places]
    Catalog(sqlite)
    with sqlite.begin() as connection:
        add_found(connection, 1, None, [first], time.time())
    async with Conducted(sqlite, tmp_path) as hub:
        board = await hub.create(ADMIN, runs="run1", follow=True)
        await hub.conductor.stop(ADMIN, board.id)
        with sqlite.begin() as connection:
            add_found(connection, 1, None, [second], time.time())
        started = await hub.conductor.restart(ADMIN, board.id)
        assert started.sources == ["exp1/run1"]
        await hub.until(board.id, State.RUNNING)
        await hub.shows(board.id, ["exp1/run1"])


@running
async def test_a_name_with_slashes_is_no_path_of_the_hub(
    sqlite: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "sub/exp9/run83"
    places = [log(tmp_path / "runs" / parts, 1) for parts in ("exp9/run83", name)]
    Catalog(sqlite)
    with sqlite.begin() as connection:
        run = FoundRun(str(places[1]), str(places[1]), "sub")
        (number,) = add_found(connection, 1, None, [run], time.time()).values()
    log(tmp_path / "elsewhere" / name / "other", 1)
    monkeypatch.chdir(tmp_path / "elsewhere")
    async with Conducted(sqlite, tmp_path) as hub:
        conductor = hub.conductor
        board = await hub.create(ADMIN, runs=name)
        assert (board.trials, board.uris, board.sources) == ([number], [], [name])
        config = await conductor.config(ADMIN, board.id)
        for change in ({"reuse": True}, {"name": "again"}):
            again = await hub.create(ADMIN, **{**config, **change})
            assert (again.trials, again.uris) == ([number], [])
            assert (again.id == board.id) == ("reuse" in change)
        with sqlite.begin() as connection:
            more = [FoundRun(str(place), str(place), "runs") for place in places[:1]]
            (other,) = add_found(connection, 1, None, more, time.time()).values()
        conductor.runs_changed([other])
        mixed = await hub.create(ADMIN, trials=[other], follow=True)
        assert await hub.names(mixed.id) == ["runs/exp9/run83"]
        added = await conductor.add_runs(ADMIN, mixed.id, BoardRuns(runs=name))
        assert (added.trials, added.uris) == ([other, number], [])
        removed = await conductor.remove_runs(ADMIN, mixed.id, BoardRuns(runs=name))
        assert (removed.trials, removed.uris, removed.sources) == ([other], [], ["trial:2"])
        await conductor.restart(ADMIN, board.id)
        await hub.until(board.id, State.RUNNING)
        assert (await conductor.get(ADMIN, board.id)).uris == []
        assert len(await hub.names(board.id)) == 1


@running
async def test_a_name_with_slashes_grows_on_boards(sqlite: Database, tmp_path: Path) -> None:
    places = [log(tmp_path / parts / "b/c/run1", 1) for parts in ("x", "y")]
    first, second = [FoundRun(str(place), str(place), "c") for place in places]
    Catalog(sqlite)
    with sqlite.begin() as connection:
        add_found(connection, 1, None, [first], time.time())
    async with Conducted(sqlite, tmp_path) as hub:
        board = await hub.create(ADMIN, runs="b/c/run1")
        with sqlite.begin() as connection:
            (b,) = add_found(connection, 1, None, [second], time.time()).values()
        hub.conductor.runs_changed([b])
        await hub.shows(board.id, ["x/b/c/run1"])
        assert (await hub.conductor.get(ADMIN, board.id)).sources == ["x/b/c/run1"]
        assert (await hub.create(ADMIN, runs="x/b/c/run1", reuse=True)).id == board.id


@running
async def test_templates_know_every_column_and_have_defaults(
    sqlite: Database, tmp_path: Path
) -> None:
    catalog = Catalog(sqlite)
    ada = catalog.user("ada", default="member")
    a = catalog.run(log(tmp_path / "1", 1), "e", name="a")
    with sqlite.begin() as connection:
        values = {"owner_id": ada.user_id, "machine": "node7", "created": 86400.0}
        connection.execute(runs.update().where(runs.c.id == a), values)

    def set_default(table: Table, template: str | None) -> None:
        with sqlite.begin() as connection:
            connection.execute(table.update(), {"name_template": template})

    async with Conducted(sqlite, tmp_path, name_template="hub {run}") as hub:
        options = {"template": "{owner} {status} {machine} {created} {attempt}"}
        board = await hub.create(ADMIN, trials=[a], options=options)
        assert await hub.names(board.id) == ["ada running node7 1970-01-02T00:00 1"]
        expected = {"hub": "hub a", "workspace": "ws a", "user": "mine a"}
        found = {}
        for kind, table, template in (
            ("hub", users, None),
            ("workspace", workspaces, "ws {run}"),
            ("user", users, "mine {run}"),
        ):
            set_default(table, template)
            board = await hub.create(ADMIN, trials=[a])
            found[kind] = (await hub.names(board.id))[0]
        assert found == expected
        board = await hub.create(ADMIN, trials=[a], options={"template": "{run}!"})
        assert await hub.names(board.id) == ["a!"]  # what is given counts before all defaults


@running
async def test_places_are_shown_to_those_who_may(sqlite: Database, tmp_path: Path) -> None:
    catalog = Catalog(sqlite)
    ada = catalog.user("ada", default="member")
    log(tmp_path / "logs" / "x", 1)
    async with Conducted(sqlite, tmp_path) as hub:
        board = await hub.create(ADMIN, uris=[str(tmp_path / "logs")])
        assert (board.state, board.uris) == (State.RUNNING, [str(tmp_path / "logs")])
        assert await hub.names(board.id) == ["x"]
        by_uri = await hub.create(ADMIN, uris=[f"file://{tmp_path}/logs"])
        assert await hub.names(by_uri.id) == ["x"]
        with pytest.raises(NotFound):
            await hub.create(ada, uris=[str(tmp_path / "logs")])
        with pytest.raises(BadRequest, match="whole path"):
            await hub.create(ADMIN, uris=["logs"])


@running
async def test_a_place_that_cannot_be_read_fails_with_the_reason(
    sqlite: Database, tmp_path: Path
) -> None:
    Catalog(sqlite)
    async with Conducted(sqlite, tmp_path) as hub:
        board = await hub.create(ADMIN, uris=["gopher://old/logs"])
        assert (board.state, board.reason) == (State.FAILED, Reason.START_FAILED)
        assert (board.exit_code, board.host) == (1, None)
        assert "gopher://" in board.message
        lines = (await hub.conductor.logs(ADMIN, board.id)).lines
        assert "gopher://" in lines[-1].text
        assert lines[-1].level == "error"
        with pytest.raises(Conflict, match="gopher"):
            await hub.conductor.wake(board.id)


@running
async def test_what_is_not_there_is_named(sqlite: Database, tmp_path: Path) -> None:
    two_experiments(sqlite, tmp_path)
    async with Conducted(sqlite, tmp_path) as hub:
        for fields, text in (
            ({"experiments": [99]}, "99"),
            ({"runs": "exp:nothing"}, "nothing"),
            ({"runs": "where lr < 0"}, "No run matches"),
            ({"trials": [1], "workspace": "elsewhere"}, "elsewhere"),
        ):
            with pytest.raises(NotFound, match=text):
                await hub.create(ADMIN, **fields)
        with pytest.raises(BadRequest) as caught:
            await hub.create(ADMIN, runs="exp:one where (")
        assert caught.value.details["position"] > 0
        with pytest.raises(BadRequest, match="Nothing to show"):
            await hub.create(ADMIN)
        assert (await hub.conductor.list(ADMIN)).total == 0


@running
async def test_runs_are_added_and_taken_out(database: Database, tmp_path: Path) -> None:
    runs = two_experiments(database, tmp_path)
    async with Conducted(database, tmp_path) as hub:
        board = await hub.create(ADMIN, runs="exp:one")
        more = await hub.conductor.add_runs(ADMIN, board.id, BoardRuns(runs="c"))
        assert (more.runs, more.trials) == (3, [runs["c"]])
        assert await hub.names(board.id) == ["a", "b", "c"]
        less = await hub.conductor.remove_runs(ADMIN, board.id, BoardRuns(runs="a c"))
        assert (less.runs, less.trials) == (1, [])
        assert await hub.names(board.id) == ["b"]
        await hub.conductor.add_runs(ADMIN, board.id, BoardRuns(runs="exp:one"))
        assert await hub.names(board.id) == ["a", "b"]
        await hub.conductor.remove_runs(ADMIN, board.id, BoardRuns(runs="c"))
        texts = [line.text for line in (await hub.conductor.logs(ADMIN, board.id)).lines]
        assert [text for text in texts if "run" in text and ("added" in text or "out" in text)] == [
            "1 run added",
            "2 runs taken out",
            "1 run added",
            "0 runs taken out",
        ]


@running
async def test_sources_are_what_a_board_shows_now(database: Database, tmp_path: Path) -> None:
    two_experiments(database, tmp_path)
    async with Conducted(database, tmp_path) as hub:
        conductor = hub.conductor

        async def sources_after(change: Any, text: str) -> list[str]:
            await change(ADMIN, board.id, BoardRuns(runs=text))
            config = await conductor.config(ADMIN, board.id)
            found = (await conductor.get(ADMIN, board.id)).sources
            assert ", ".join(filter(None, (config["runs"], *config["added"]))) == ", ".join(found)
            return found

        board = await hub.create(ADMIN, runs="exp:one, c")
        assert await sources_after(conductor.remove_runs, "exp:one") == ["c"]
        where = "where name = a"
        assert await sources_after(conductor.add_runs, where) == ["c", where]
        config = await conductor.config(ADMIN, board.id)
        assert config["added"] == [where]
        again = await hub.create(ADMIN, **{**config, "name": None})
        assert await hub.names(again.id) == ["a", "c"]
        assert await sources_after(conductor.add_runs, "exp:one") == ["exp:one, c", where]
        # Of what is taken out by other names nothing is left, either.
        assert await sources_after(conductor.remove_runs, "a") == ["exp:one, c"]
        assert await sources_after(conductor.remove_runs, "b") == ["c"]
        assert await sources_after(conductor.add_runs, "b") == ["c", "b"]
        assert (await conductor.config(ADMIN, board.id))["runs"] == "c, b"


@running
async def test_a_configuration_leaves_out_what_was_taken_out(
    database: Database, tmp_path: Path
) -> None:
    runs = two_experiments(database, tmp_path)
    async with Conducted(database, tmp_path) as hub:
        conductor = hub.conductor
        for text, follow in (
            ("exp:one", False),
            ("exp:one", True),
            ("where name in (a, b)", True),
            ("a, b*", False),
            (f"exp:one, trial:{runs['c']}", False),
            (str(tmp_path), False),
        ):
            board = await hub.create(ADMIN, runs=text, follow=follow)
            less = await conductor.remove_runs(ADMIN, board.id, BoardRuns(runs="b"))
            config = await conductor.config(ADMIN, board.id)
            again = await hub.create(ADMIN, **{**config, "name": None})
            names = await hub.names(board.id)
            assert await hub.names(again.id) == names
            assert (again.sources, again.removed) == (less.sources, less.removed), text
            if text != "a, b*":  # of which nothing but the source is left
                assert (again.removed, config["removed"]) == (["b"], [f"trial:{runs['b']}"])
            reused = await hub.create(ADMIN, **{**config, "name": None, "reuse": True})
            assert reused.id in (board.id, again.id)
            whole = await hub.create(ADMIN, **{**config, "removed": [], "reuse": True})
            assert (whole.id in (board.id, again.id)) == (text == "a, b*")
            await conductor.restart(ADMIN, again.id)
            await hub.until(again.id, State.RUNNING)
            assert await hub.names(again.id) == names
        with pytest.raises(NotFound, match="There is no run nothing"):
            await hub.create(ADMIN, runs="exp:one", removed=["nothing"])


@running
async def test_runs_of_a_source_that_was_taken_out_are_not_listed_as_left_out(
    sqlite: Database, tmp_path: Path
) -> None:
    runs = two_experiments(sqlite, tmp_path)
    async with Conducted(sqlite, tmp_path) as hub:
        board = await hub.create(ADMIN, runs="exp:one, exp:two")
        await hub.conductor.remove_runs(ADMIN, board.id, BoardRuns(runs="a"))
        less = await hub.conductor.remove_runs(ADMIN, board.id, BoardRuns(runs="exp:one"))
        assert (less.sources, less.removed) == (["exp:two"], [])
        back = await hub.conductor.add_runs(ADMIN, board.id, BoardRuns(runs="exp:one"))
        assert (back.sources, back.removed) == (["exp:one, exp:two"], [])
        assert await hub.names(board.id) == ["a", "b", "c"]
        assert (await hub.create(ADMIN, runs="exp:one, exp:two", reuse=True)).id == board.id
        one = await hub.conductor.remove_runs(ADMIN, board.id, BoardRuns(runs="a"))
        assert one.removed == ["a"]
        delete(sqlite, hub, "runs", runs["a"])
        assert (await hub.conductor.get(ADMIN, board.id)).removed == []
        assert (await hub.conductor.config(ADMIN, board.id))["removed"] == []


@running
async def test_places_that_were_taken_out_are_not_listed(sqlite: Database, tmp_path: Path) -> None:
    Catalog(sqlite)
    one, other = log(tmp_path / "one" / "a", 1).parent, log(tmp_path / "other" / "b", 1).parent
    async with Conducted(sqlite, tmp_path) as hub:
        board = await hub.create(ADMIN, runs=f"{one} {other}")
        config = await hub.conductor.config(ADMIN, board.id)
        again = await hub.create(ADMIN, **{**config, "name": None})
        assert (config["uris"], again.sources) == ([], board.sources)
        less = await hub.conductor.remove_runs(ADMIN, board.id, BoardRuns(runs=str(one)))
        assert (less.sources, less.selector, less.uris) == ([str(other)], str(other), [str(other)])
        assert (await hub.conductor.config(ADMIN, board.id))["runs"] == str(other)
        more = await hub.conductor.add_runs(ADMIN, board.id, BoardRuns(runs=str(one)))
        assert more.sources == [f"{one} {other}"]  # as it was typed


@running
async def test_a_source_that_was_taken_out_is_not_followed(
    sqlite: Database, tmp_path: Path
) -> None:
    catalog = Catalog(sqlite)
    for name, experiment in (("a", "one"), ("b", "two")):
        catalog.run(log(tmp_path / name, 1), experiment, name=name)
    async with Conducted(sqlite, tmp_path) as hub:
        board = await hub.create(ADMIN, runs="exp:one, exp:two", follow=True)
        await hub.conductor.remove_runs(ADMIN, board.id, BoardRuns(runs="a"))
        less = await hub.conductor.remove_runs(ADMIN, board.id, BoardRuns(runs="exp:two"))
        assert less.sources == ["exp:one"]  # of which a run may come
        names = (("c", "two"), ("d", "one"))
        new = [catalog.run(log(tmp_path / name, 1), of, name=name) for name, of in names]
        hub.conductor.runs_changed(new)
        await hub.shows(board.id, ["d"])


@running
async def test_a_board_that_follows_shows_what_comes(sqlite: Database, tmp_path: Path) -> None:
    catalog = Catalog(sqlite)
    async with Conducted(sqlite, tmp_path) as hub:
        board = await hub.create(ADMIN, runs="where experiment = later", follow=True)
        fixed = await hub.create(ADMIN, uris=[str(tmp_path / "nowhere")])
        assert (board.state, board.runs) == (State.WAITING, 0)
        first = catalog.run(log(tmp_path / "a", 1), "later", name="a")
        hub.conductor.runs_changed([first])
        await hub.until(board.id, State.RUNNING)
        await hub.shows(board.id, ["a"])
        second = catalog.run(log(tmp_path / "b", 1), "later", name="b")
        hub.conductor.runs_changed([second])
        await hub.shows(board.id, ["a", "b"])
        await hub.conductor.remove_runs(ADMIN, board.id, BoardRuns(runs="a"))
        third = catalog.run(log(tmp_path / "c", 1), "later", name="c")
        hub.conductor.runs_changed([third])
        await hub.shows(board.id, ["b", "c"])
        assert (await hub.conductor.get(ADMIN, fixed.id)).state == State.WAITING


@running
async def test_a_deleted_run_leaves_the_boards_it_was_in(sqlite: Database, tmp_path: Path) -> None:
    runs = two_experiments(sqlite, tmp_path)
    async with Conducted(sqlite, tmp_path) as hub:
        board = await hub.create(ADMIN, experiments=[1])
        with sqlite.begin() as connection:
            connection.exec_driver_sql(f"DELETE FROM runs WHERE id = {runs['a']}")
        hub.conductor.runs_changed([runs["a"]])
        await hub.shows(board.id, ["b"])


@running
async def test_a_board_whose_runs_were_all_deleted_says_so(
    sqlite: Database, tmp_path: Path
) -> None:
    runs = two_experiments(sqlite, tmp_path)
    async with Conducted(sqlite, tmp_path) as hub:
        board = await hub.create(ADMIN, trials=[runs["a"]])
        with sqlite.begin() as connection:
            connection.exec_driver_sql(f"DELETE FROM runs WHERE id = {runs['a']}")
        hub.conductor.runs_changed([runs["a"]])
        waiting = await hub.until(board.id, State.WAITING)
        assert waiting.message == NOTHING_LEFT
        await hub.conductor.restart(ADMIN, board.id)
        again = await hub.until(board.id, State.WAITING)
        assert again.message == NOTHING_LEFT
        log = await hub.conductor.logs(ADMIN, board.id)
        assert log.lines[-1].text == f"is up without data. {NOTHING_LEFT}"
        assert not any("waits for the first data" in line.text for line in log.lines)


def delete(database: Database, hub: Conducted, table: str, number: int) -> None:
    """Delete a run or an experiment, as the API does."""
    with database.begin() as connection:
        connection.exec_driver_sql(f"DELETE FROM {table} WHERE id = {number}")
    hub.conductor.runs_deleted([number])


@running
async def test_a_board_follows_although_a_named_run_was_deleted(
    sqlite: Database, tmp_path: Path
) -> None:
    catalog = Catalog(sqlite)
    named, other = (catalog.run(log(tmp_path / n, 1), "one", name=n) for n in ("a", "b"))
    catalog.run(log(tmp_path / "c", 1), "two", name="c")
    async with Conducted(sqlite, tmp_path) as hub:
        conductor = hub.conductor
        texts = (f"exp:two trial:{named} b", "exp:two, a, b", "exp:two where id > 0, limit 9")
        boards = [await hub.create(ADMIN, runs=text, follow=True) for text in texts[:2]]
        boards.append(await hub.create(ADMIN, runs="exp:two", trials=[named, other], follow=True))
        boards.append(await hub.create(ADMIN, runs="exp:two, a limit 5", follow=True))
        delete(sqlite, hub, "runs", named)
        new = catalog.run(log(tmp_path / "d", 1), "two", name="d")
        again = catalog.run(log(tmp_path / "e", 1), "three", name="a")
        conductor.runs_changed([new, again])
        for board in boards[:3]:
            await hub.shows(board.id, ["b", "c", "d"])
        await hub.shows(boards[3].id, ["c", "d"])
        for board, word in zip(boards, (f"trial:{named}", "a", f"trial:{named}", "a"), strict=True):
            found = await conductor.get(ADMIN, board.id)
            assert named not in found.trials
            assert not any(word in each.split(", ") for each in found.sources), found.sources
            left = await conductor.remove_runs(ADMIN, board.id, BoardRuns(runs=word))
            assert left.runs == found.runs
        with pytest.raises(NotFound, match="There is no run trial:77"):
            await conductor.remove_runs(ADMIN, boards[0].id, BoardRuns(runs="trial:77"))
        added = await conductor.add_runs(ADMIN, boards[1].id, BoardRuns(runs="a"))
        assert added.sources == ["exp:two, b", "a"]
        await hub.shows(boards[1].id, ["a", "b", "c", "d"])
        taken = await conductor.remove_runs(ADMIN, boards[1].id, BoardRuns(runs="a"))
        assert taken.runs == 3
        delete(sqlite, hub, "runs", other)
        conductor.runs_changed([catalog.run(log(tmp_path / "f", 1), "two", name="b")])
        await hub.shows(boards[0].id, ["b", "c", "d"])  # the experiment has another b
        await conductor.remove_runs(ADMIN, boards[0].id, BoardRuns(runs="b"))
        await hub.shows(boards[0].id, ["c", "d"])


@running
async def test_a_board_follows_although_a_range_or_wildcard_names_nothing_now(
    sqlite: Database, tmp_path: Path
) -> None:
    catalog = Catalog(sqlite)
    numbers = [catalog.run(log(tmp_path / n, 1), "one", name=n) for n in ("r1", "r2", "x9", "b")]
    async with Conducted(sqlite, tmp_path) as hub:
        board = await hub.create(ADMIN, runs="r1-r2, x*, b", follow=True)
        for number in numbers[:3]:
            delete(sqlite, hub, "runs", number)
        await hub.shows(board.id, ["b"])
        for name in ("x7", "r2"):
            hub.conductor.runs_changed([catalog.run(log(tmp_path / "2" / name, 1), name=name)])
            await hub.shows(board.id, ["b", "x7"] if name == "x7" else ["b", "r2", "x7"])
        assert (await hub.conductor.get(ADMIN, board.id)).sources == ["r1-r2, x*, b"]


@running
async def test_what_was_deleted_is_not_listed(database: Database, tmp_path: Path) -> None:
    runs = two_experiments(database, tmp_path)
    async with Conducted(database, tmp_path) as hub:
        conductor = hub.conductor
        board = await hub.create(ADMIN, runs="exp:two, a", trials=[runs["b"], runs["a"]])
        stopped = await hub.create(ADMIN, runs="a, b")
        filtered = await hub.create(ADMIN, runs="a where id > 0")
        ended = await hub.create(ADMIN, experiments=[2, 1])
        await conductor.kill(ADMIN, ended.id)
        await conductor.stop(ADMIN, stopped.id)
        await conductor.list(ADMIN)
        delete(database, hub, "runs", runs["a"])
        delete(database, hub, "experiments", 2)
        found = {each.id: each for each in (await conductor.list(ADMIN)).boards}
        assert found[board.id].sources == [f"trial:{runs['b']}"]
        assert (found[board.id].trials, found[board.id].experiments) == ([runs["b"]], [])
        assert found[stopped.id].sources == ["b"]
        assert found[filtered.id].sources == []  # not all runs
        assert (found[ended.id].sources, found[ended.id].experiments) == (["exp:1"], [1])
        config = await conductor.config(ADMIN, board.id)
        assert (config["runs"], config["trials"]) == ("", [runs["b"]])
        assert (await conductor.config(ADMIN, ended.id))["experiments"] == [1]
        again = await hub.create(ADMIN, **{**config, "name": None})
        assert await hub.names(again.id) == ["b"]


@running
async def test_a_name_never_means_a_later_run_on_a_board(sqlite: Database, tmp_path: Path) -> None:
    catalog = Catalog(sqlite)
    first = catalog.run(log(tmp_path / "1", 1), "one", name="a")
    other = catalog.run(log(tmp_path / "2", 1), "one", name="b")
    async with Conducted(sqlite, tmp_path) as hub:
        conductor = hub.conductor
        boards = [
            await hub.create(ADMIN, runs=text, follow=follow)
            for text, follow in (("a, b", True), ("a, b", False), ("exp:one", True))
        ]
        for board in boards:
            await conductor.stop(ADMIN, board.id)
        delete(sqlite, hub, "runs", first)
        later = catalog.run(log(tmp_path / "3", 1), "two", name="a")
        conductor.runs_changed([later])
        for board in boards[:2]:
            reused = await conductor.create(ADMIN, NewBoard(runs="a, b", reuse=True))
            assert reused.id != board.id
            await conductor.start_board(ADMIN, board.id)
            found = await hub.until(board.id, State.RUNNING)
            assert found.sources == ["b"]
            assert await hub.names(board.id) == ["b"]
            assert (await conductor.config(ADMIN, board.id))["runs"] == "b"
        delete(sqlite, hub, "runs", other)
        delete(sqlite, hub, "experiments", 1)
        new = catalog.run(log(tmp_path / "4", 1), "one", name="c")
        conductor.runs_changed([new])
        await conductor.start_board(ADMIN, boards[2].id)
        found = await hub.until(boards[2].id, State.WAITING)
        assert (found.sources, found.experiments, found.runs) == ([], [], 0)


@running
async def test_a_renamed_run_is_listed_by_its_new_name(sqlite: Database, tmp_path: Path) -> None:
    runs = two_experiments(sqlite, tmp_path)
    async with Conducted(sqlite, tmp_path) as hub:
        board = await hub.create(ADMIN, runs="a, c", follow=True)
        with sqlite.begin() as connection:
            connection.exec_driver_sql(f"UPDATE runs SET name = 'x' WHERE id = {runs['a']}")
        await hub.conductor.run_renamed(runs["a"])
        await hub.shows(board.id, ["c", "x"])
        assert (await hub.conductor.get(ADMIN, board.id)).sources == ["x, c"]


@running
async def test_a_run_that_is_deleted_after_the_hub_was_restarted_leaves_its_boards(
    sqlite: Database, tmp_path: Path
) -> None:
    runs = two_experiments(sqlite, tmp_path)
    before = Conducted(sqlite, tmp_path)
    await before.start()
    board = await before.create(ADMIN, experiments=[1])
    await before.close(stop_hosts=False)
    async with Conducted(sqlite, tmp_path) as hub:
        await hub.shows(board.id, ["a", "b"])
        with sqlite.begin() as connection:
            connection.exec_driver_sql(f"DELETE FROM runs WHERE id = {runs['a']}")
        hub.conductor.runs_changed([runs["a"]])
        await hub.shows(board.id, ["b"])


# ------------------------------------------------------------------------------- waiting and ends


@running
async def test_a_board_waits_for_the_first_event(sqlite: Database, tmp_path: Path) -> None:
    catalog = Catalog(sqlite)
    run = catalog.run(tmp_path / "empty", name="r")
    async with Conducted(sqlite, tmp_path) as hub:
        board = await hub.create(ADMIN, trials=[run])
        assert board.state == State.WAITING
        with SummaryWriter(tmp_path / "empty") as writer:
            writer.add_scalar("loss", 1.0, 1)
            writer.flush()
            await hub.until(board.id, State.RUNNING)
        limited = await hub.create(ADMIN, uris=[str(tmp_path / "no")], no_data_timeout=0.2)
        ended = await hub.until(limited.id, State.TERMINATED)
        assert (ended.reason, ended.exit_code) == (Reason.NO_DATA, 1)
        assert "0.2 seconds" in ended.message


@running
async def test_an_idle_board_stops_and_wakes_when_visited(sqlite: Database, tmp_path: Path) -> None:
    runs = two_experiments(sqlite, tmp_path)
    async with Conducted(sqlite, tmp_path) as hub:
        watched = await hub.create(ADMIN, trials=[runs["b"]], idle_timeout=2)
        hub.conductor.streams(watched.id, +1)  # an open page
        used = await hub.create(ADMIN, trials=[runs["c"]], idle_timeout=2)

        async def look() -> None:
            while True:
                hub.conductor.note_request(used.id, 100)
                await asyncio.sleep(0.05)

        looking = asyncio.create_task(look())
        board = await hub.create(ADMIN, trials=[runs["a"]], idle_timeout=2)
        stopped = await hub.until(board.id, State.STOPPED)
        assert stopped.reason == Reason.IDLE
        for each in (watched, used):
            assert (await hub.conductor.get(ADMIN, each.id)).state == State.RUNNING
        looking.cancel()
        hub.conductor.streams(watched.id, -1)
        for each in (watched, used):
            assert (await hub.until(each.id, State.STOPPED)).reason == Reason.IDLE
        assert (await hub.conductor.get(ADMIN, used.id)).requests > 1
        route = await hub.conductor.wake(board.id[:8])
        assert route.is_ready
        assert await hub.names(board.id) == ["a"]


@running
async def test_the_maximum_run_time_and_its_extension(sqlite: Database, tmp_path: Path) -> None:
    runs = two_experiments(sqlite, tmp_path)
    async with Conducted(sqlite, tmp_path) as hub:
        longer = await hub.create(ADMIN, trials=[runs["b"]], max_runtime=4)
        changed = await hub.conductor.change(ADMIN, longer.id, BoardChange(extend=3600))
        assert longer.deadline is not None
        assert changed.deadline is not None
        assert (changed.deadline - longer.deadline).total_seconds() == 3600
        board = await hub.create(ADMIN, trials=[runs["a"]], max_runtime=0.3)
        ended = await hub.until(board.id, State.TERMINATED)
        assert (ended.reason, ended.exit_code) == (Reason.MAX_RUNTIME, 0)
        first_end = longer.deadline.timestamp()
        await asyncio.sleep(max(0, first_end - time.time()) + 0.2)
        assert (await hub.conductor.get(ADMIN, longer.id)).state == State.RUNNING
        free = await hub.create(ADMIN, trials=[runs["c"]], max_runtime=0)
        with pytest.raises(Conflict):
            await hub.conductor.change(ADMIN, free.id, BoardChange(extend=1))


@running
async def test_stop_start_restart_delete(sqlite: Database, tmp_path: Path) -> None:
    runs = two_experiments(sqlite, tmp_path)
    async with Conducted(sqlite, tmp_path) as hub:
        board = await hub.create(ADMIN, trials=[runs["a"]])
        stopped = await hub.conductor.stop(ADMIN, board.id)
        assert (stopped.state, stopped.reason) == (State.STOPPED, Reason.USER_STOPPED)
        assert hub.conductor.route(board.id).address is None  # type: ignore[union-attr]
        started = await hub.conductor.start_board(ADMIN, board.id)
        assert (started.id, started.reason) == (board.id, None)
        await hub.until(board.id, State.RUNNING)
        for _ in range(20):  # at once, again and again
            stopping = asyncio.create_task(hub.conductor.stop(ADMIN, board.id))
            await asyncio.sleep(0)
            await asyncio.gather(stopping, hub.conductor.start_board(ADMIN, board.id))
        await hub.conductor.start_board(ADMIN, board.id)
        await hub.until(board.id, State.RUNNING)
        assert await hub.names(board.id) == ["a"]
        await hub.conductor.restart(ADMIN, board.id)
        await hub.until(board.id, State.RUNNING)
        await hub.conductor.delete(ADMIN, board.id)
        assert hub.conductor.route(board.id) is None
        for ask in (hub.conductor.get, hub.conductor.kill, hub.conductor.delete):
            with pytest.raises(NotFound):
                await ask(ADMIN, board.id)


@running
async def test_everything_at_once_ends_somewhere_definite(sqlite: Database, tmp_path: Path) -> None:
    runs = two_experiments(sqlite, tmp_path)
    async with Conducted(sqlite, tmp_path) as hub:
        made = [
            await hub.conductor.create(ADMIN, NewBoard(trials=[runs["a"]], name=f"b{number}"))
            for number in range(12)
        ]
        conductor = hub.conductor
        work = []
        for number, board in enumerate(made):
            asked = [
                [conductor.kill, conductor.kill],
                [conductor.stop, conductor.start_board],
                [conductor.delete, conductor.stop],
                [conductor.restart, conductor.kill, conductor.start_board],
            ][number % 4]
            work += [ask(ADMIN, board.id) for ask in asked]
        results = await asyncio.gather(*work, return_exceptions=True)
        unexpected = [
            each
            for each in results
            if isinstance(each, BaseException) and not isinstance(each, NotFound | Conflict)
        ]
        assert unexpected == []
        for number, board in enumerate(made):
            if number % 4 == 2:
                assert conductor.route(board.id) is None
            else:
                await hub.until(board.id, *UP_OR_ENDED)
        up = [
            entry.id
            for entry in conductor.registry
            if entry.life.state in (State.RUNNING, State.WAITING)
        ]
        link = await conductor._keeper.hosts.ready()
        async with asyncio.timeout(PATIENCE):
            while (await link.health())["boards"] != len(up):
                await asyncio.sleep(0.02)


# ------------------------------------------------------------------------------- restarts, deaths


@running
async def test_a_hub_that_comes_back_finds_everything(database: Database, tmp_path: Path) -> None:
    runs = two_experiments(database, tmp_path)
    first = Conducted(database, tmp_path)
    await first.start()
    live = await first.create(ADMIN, trials=[runs["a"]])
    ended = await first.create(ADMIN, trials=[runs["b"]])
    await first.conductor.kill(ADMIN, ended.id)
    route = first.conductor.route(live.id)
    # As if killed: nothing is tidied up, and what was to be done is not.
    queued = await first.conductor.create(ADMIN, NewBoard(trials=[runs["c"]], name="queued"))
    await first.close(stop_hosts=False)
    async with Conducted(database, tmp_path) as second:
        found = second.conductor.route(live.id)
        assert found == route  # at once, before the host has been heard
        assert await second.names(live.id) == ["a"]
        again = await second.conductor.get(ADMIN, ended.id)
        assert (again.state, again.reason) == (State.TERMINATED, Reason.USER_KILLED)
        await second.until(queued.id, State.RUNNING)
        assert await second.names(queued.id) == ["c"]


_UNFINISHED = {
    "queued": ({"state": "QUEUED", "host_id": None, "started": None}, State.RUNNING, None),
    "starting": ({"state": "STARTING", "ready": None}, State.RUNNING, None),
    "stopping": (
        {"state": "STOPPING", "reason": "IDLE", "message": "Nobody."},
        State.STOPPED,
        Reason.IDLE,
    ),
    "killed": (
        {"state": "TERMINATED", "reason": "USER_KILLED", "host_id": None, "ended": 1.0},
        State.TERMINATED,
        Reason.USER_KILLED,
    ),
    "running": ({}, State.RUNNING, None),
}


@running
async def test_a_hub_killed_between_any_two_steps_is_taken_up(
    sqlite: Database, tmp_path: Path
) -> None:
    """The rows are what a hub leaves that dies after the step; the host still has the boards."""
    runs = two_experiments(sqlite, tmp_path)
    first = Conducted(sqlite, tmp_path)
    await first.start()
    made = {name: await first.create(ADMIN, trials=[runs["a"]]) for name in _UNFINISHED}
    forgotten = await first.create(ADMIN, trials=[runs["a"]])
    await first.close(stop_hosts=False)
    with sqlite.begin() as connection:
        for name, board in made.items():
            values = _UNFINISHED[name][0]
            if values:
                connection.execute(boards.update().where(boards.c.id == board.id), values)
        connection.execute(boards.delete().where(boards.c.id == forgotten.id))
    async with Conducted(sqlite, tmp_path) as hub:
        for name, board in made.items():
            _, state, reason = _UNFINISHED[name]
            found = await hub.until(board.id, state)
            assert (name, found.reason) == (name, reason)
        link = await hub.conductor._keeper.hosts.ready()
        assert link.id == "local-1"
        async with asyncio.timeout(PATIENCE):
            while (await link.health())["boards"] != 3:  # what it should not have is taken back
                await asyncio.sleep(0.02)


@running
async def test_boards_come_back_after_the_hub_was_stopped_with_its_hosts(
    sqlite: Database, tmp_path: Path
) -> None:
    runs = two_experiments(sqlite, tmp_path)
    async with Conducted(sqlite, tmp_path) as first:
        board = await first.create(ADMIN, trials=[runs["a"]], max_runtime=3600)
    async with Conducted(sqlite, tmp_path) as second:
        again = await second.until(board.id, State.RUNNING)
        assert again.host == "local-2"
        assert again.deadline == board.deadline


@running
async def test_boards_of_a_killed_host_restart_by_themselves(
    database: Database, tmp_path: Path
) -> None:
    runs = two_experiments(database, tmp_path)
    async with Conducted(database, tmp_path) as hub:
        board = await hub.create(ADMIN, trials=[runs["a"]], max_runtime=3600)
        stopped = await hub.create(ADMIN, trials=[runs["b"]])
        await hub.conductor.stop(ADMIN, stopped.id)
        await ended_host(hub)
        async with asyncio.timeout(PATIENCE):
            while (again := await hub.until(board.id, State.RUNNING)).host == board.host:
                await asyncio.sleep(0.01)
        assert (again.host, again.url, again.deadline) == ("local-2", board.url, board.deadline)
        assert (again.reason, again.message) == (None, "")
        assert await hub.names(board.id) == ["a"]
        assert (await hub.conductor.get(ADMIN, stopped.id)).reason == Reason.USER_STOPPED
        said = [each.text for each in (await hub.conductor.logs(ADMIN, board.id)).lines]
        assert (
            "Host local-1 crashed: it ended by signal SIGKILL (exit code 137). "
            "The board restarts by itself."
        ) in said


@running
async def test_boards_of_a_terminated_host_restart_and_are_not_blamed(
    sqlite: Database, tmp_path: Path
) -> None:
    runs = two_experiments(sqlite, tmp_path)
    async with Conducted(sqlite, tmp_path) as hub:
        board = await hub.create(ADMIN, trials=[runs["a"]])
        keeper = hub.conductor._keeper
        for number in range(1, 5):  # more often than a board may crash
            host = f"local-{number}"
            link = keeper.hosts.get(host)
            assert link is not None
            os.kill((await link.health())["pid"], signal.SIGTERM)
            async with asyncio.timeout(PATIENCE):
                while (again := await hub.until(board.id, State.RUNNING)).host == host:
                    await asyncio.sleep(0.01)
        entry = keeper.registry.get(board.id)
        assert entry is not None
        assert not entry.record.crashes
        said = [each.text for each in (await hub.conductor.logs(ADMIN, board.id)).lines]
        assert (
            "Host local-1 was terminated: it ended by signal SIGTERM (exit code 143). "
            "The board restarts by itself."
        ) in said
        assert await hub.names(again.id) == ["a"]


@running
async def test_only_the_board_that_takes_its_process_down_fails(
    sqlite: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are served all along, by a process that the bad board is not in."""
    monkeypatch.setattr("tbhub.boards.suspicion._FIRST_PAUSE_SECONDS", 0.01)
    runs = two_experiments(sqlite, tmp_path)
    async with Conducted(sqlite, tmp_path) as hub:
        good = await hub.create(ADMIN, trials=[runs["a"]])
        bad = await hub.create(ADMIN, trials=[runs["b"]])
        keeper = hub.conductor._keeper
        hosts: list[set[str]] = []
        async with asyncio.timeout(PATIENCE):
            while (found := await hub.conductor.get(ADMIN, bad.id)).state != State.FAILED:
                link = keeper.hosts.get(found.host) if found.state == State.RUNNING else None
                if link is not None:
                    beside = {e.name for e in keeper.registry if e.life.host == link.id}
                    if not hosts or link.id not in hosts[-1]:
                        # Whoever crashes it has just asked it for something.
                        keeper.registry.get(good.id).touched = 0.0  # type: ignore[union-attr]
                        keeper.note_request(keeper.registry.get(bad.id), 0)  # type: ignore[arg-type]
                        hosts.append({link.id, *beside})
                        with suppress(HostGoneError):
                            os.kill((await link.health())["pid"], signal.SIGKILL)
                await asyncio.sleep(0.01)
        assert (found.reason, found.exit_code) == (Reason.CRASHED, 137)
        assert "in a process" not in found.message
        assert "crash 5 of the processes that served this board" in found.message
        assert "SIGKILL" in found.message
        # Two crashes of the shared process, then three alone.
        assert [good.name in each for each in hosts] == [True, True, False, False, False]
        assert (await hub.until(good.id, State.RUNNING)).host not in hosts[-1]
        assert await hub.names(good.id) == ["a"]
        await hub.conductor.start_board(ADMIN, bad.id)  # by hand it starts again, still alone
        again = await hub.until(bad.id, State.RUNNING)
        assert again.host != (await hub.conductor.get(ADMIN, good.id)).host


@running
async def test_a_host_that_died_while_no_hub_was_there(sqlite: Database, tmp_path: Path) -> None:
    runs = two_experiments(sqlite, tmp_path)
    first = Conducted(sqlite, tmp_path)
    await first.start()
    board = await first.create(ADMIN, trials=[runs["a"]])
    link = first.conductor._keeper.hosts.get("local-1")
    assert link is not None
    process = psutil.Process((await link.health())["pid"])
    await first.close(stop_hosts=False)
    process.kill()
    async with Conducted(sqlite, tmp_path) as second:
        async with asyncio.timeout(PATIENCE):
            while (again := await second.until(board.id, State.RUNNING)).host == board.host:
                await asyncio.sleep(0.01)
        assert (again.host, again.url) == ("local-2", board.url)
        assert await second.names(board.id) == ["a"]


class BrokenLauncher:
    """Starts hosts that end at once, or none at all."""

    name = "broken"
    shares = True

    def __init__(self, *, refuses: bool) -> None:
        self.refuses = refuses
        self.started = 0

    async def start(self, host_id: str, environment: object) -> Details:
        self.started += 1
        if self.refuses:
            raise LaunchError("no room on this machine")
        return {"host": host_id}

    async def find(self) -> dict[str, Details]:
        return {}

    async def poll(self, details: Details) -> Status:
        return Exited(9, "with exit code 9")

    async def stop(self, details: Details) -> None:
        pass

    async def logs(self, details: Details, tail: int) -> list[str]:
        return ["ImportError: no module named tbhub"]

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("refuses", "text"), [(True, "no room on this machine"), (False, "ImportError")]
)
@running
async def test_hosts_that_do_not_start_fail_boards_with_the_reason(
    sqlite: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuses: bool, text: str
) -> None:
    monkeypatch.setattr("tbhub.hub.hosts._LONGEST_PAUSE", 0.01)
    runs = two_experiments(sqlite, tmp_path)
    launcher = BrokenLauncher(refuses=refuses)
    async with Conducted(sqlite, tmp_path, launcher) as hub:
        board = await hub.create(ADMIN, trials=[runs["a"]])
        assert (board.state, board.reason) == (State.FAILED, Reason.START_FAILED)
        assert text in board.message
        assert launcher.started >= 3


@running
async def test_a_token_registers_one_host_once(sqlite: Database, tmp_path: Path) -> None:
    Catalog(sqlite)
    async with Conducted(sqlite, tmp_path) as hub:
        link = await hub.conductor._keeper.hosts.ready()
        for host, token in ((link.id, "guess"), ("local-9", "guess"), (link.id, "")):
            with pytest.raises(NotAuthenticated):
                await hub.conductor.register_host(host, token, "http://evil", 1)
        assert (await link.health())["host"] == link.id


# ------------------------------------------------------------------------------- one for many


@running
async def test_get_or_create_by_key_from_many_at_once(database: Database, tmp_path: Path) -> None:
    runs = two_experiments(database, tmp_path)
    async with Conducted(database, tmp_path) as hub:
        new = NewBoard(trials=[runs["a"]], key="mine")
        made = await asyncio.gather(*(hub.conductor.create(ADMIN, new) for _ in range(10)))
        assert len({board.id for board in made}) == 1
        board = await hub.until(made[0].id, State.RUNNING)
        await hub.conductor.stop(ADMIN, board.id)
        assert (await hub.conductor.create(ADMIN, new)).id == board.id  # and is started
        await hub.until(board.id, State.RUNNING)
        await hub.conductor.kill(ADMIN, board.id)
        fresh = await hub.conductor.create(ADMIN, new)
        assert fresh.id != board.id
        assert fresh.key == "mine"
        assert (await hub.conductor.get(ADMIN, board.id)).key is None


@running
async def test_a_board_of_the_same_sources_is_used_again(sqlite: Database, tmp_path: Path) -> None:
    runs = two_experiments(sqlite, tmp_path)
    async with Conducted(sqlite, tmp_path) as hub:
        board = await hub.create(ADMIN, runs="exp:one")
        same = await hub.create(ADMIN, runs=' exp:"one"', reuse=True)
        assert same.id == board.id
        other = await hub.create(ADMIN, runs="exp:two", reuse=True)
        assert other.id != board.id
        with sqlite.begin() as connection:  # a run comes to the experiment
            change = f"UPDATE runs SET experiment_id = 1 WHERE id = {runs['c']}"
            connection.exec_driver_sql(change)
        await hub.conductor.stop(ADMIN, board.id)
        again = await hub.create(ADMIN, runs="exp:one", reuse=True)
        assert again.id == board.id
        await hub.until(board.id, State.RUNNING)
        assert await hub.names(board.id) == ["a", "b", "c"]
        await hub.conductor.remove_runs(ADMIN, board.id, BoardRuns(runs="trial:1"))
        whole = await hub.create(ADMIN, runs="exp:one", reuse=True)
        assert whole.id != board.id  # which shows less by now
        assert await hub.names(whole.id) == ["a", "b", "c"]


@running
async def test_the_quota_names_the_boards_that_hold_the_places(
    database: Database, tmp_path: Path
) -> None:
    runs = two_experiments(database, tmp_path)
    async with Conducted(database, tmp_path, max_boards_per_user=5) as hub:
        conductor = hub.conductor
        new = NewBoard(trials=[runs["a"]])
        made = [await conductor.create(ADMIN, new) for _ in range(5)]
        with pytest.raises(TensorboardLimitExceeded) as caught:
            await conductor.create(ADMIN, new)
        held = caught.value.details["boards"]
        assert {each["id"] for each in held} == {board.id for board in made}
        assert held[0].keys() == {"id", "name", "owner", "state"}
        assert made[0].name in str(caught.value)
        assert conductor.places_held(ADMIN.user_id) == 5
        await conductor.stop(ADMIN, made[0].id)
        sixth = await conductor.create(ADMIN, new)
        for start in (conductor.start_board, conductor.restart):
            with pytest.raises(TensorboardLimitExceeded):
                await start(ADMIN, made[0].id)
        with pytest.raises(TensorboardLimitExceeded):
            await conductor.wake(made[0].id)
        await conductor.restart(ADMIN, sixth.id)  # which holds its own place
        with database.begin() as connection:
            connection.execute(users.update().values(max_boards=0))  # no limit
            connection.execute(workspaces.update().values(max_boards=5))
        with pytest.raises(TensorboardLimitExceeded, match="workspace"):
            await conductor.create(ADMIN, new)


# ------------------------------------------------------------------------------- who may


@running
async def test_boards_are_their_owners(sqlite: Database, tmp_path: Path) -> None:
    catalog = Catalog(sqlite)
    catalog.workspace("other")
    run = catalog.run(log(tmp_path / "a", 1))
    hidden = catalog.run(log(tmp_path / "b", 1), workspace="other")
    ada = catalog.user("ada", default="member")
    bob = catalog.user("bob", default="member", other="member")
    eve = catalog.user("eve", "viewer", default="viewer")
    async with Conducted(sqlite, tmp_path) as hub:
        conductor = hub.conductor
        board = await conductor.create(ada, NewBoard(trials=[run]))
        assert board.owner == "ada"
        with pytest.raises(NotFound):
            await conductor.create(ada, NewBoard(trials=[run, hidden]))
        both = await conductor.create(bob, NewBoard(trials=[run, hidden]))
        for ask in (conductor.get, conductor.kill, conductor.stop, conductor.delete):
            with pytest.raises(NotFound):
                await ask(bob, board.id)
        assert [each.id for each in (await conductor.list(bob, everyone=True)).boards] == [both.id]
        everyone = (await conductor.list(ADMIN, everyone=True)).boards
        assert [each.id for each in everyone] == [both.id, board.id]
        assert (await conductor.list(ADMIN)).boards == []
        with pytest.raises(Forbidden):
            await conductor.create(eve, NewBoard(trials=[run]))
        with pytest.raises(Forbidden):
            await conductor.kill(replace(ada, scope="read"), board.id)
        # An owner who may no longer see a source sees the board, and not what it shows.
        left = replace(bob, workspaces={})
        closed = await conductor.get(left, both.id)
        assert closed.closed
        assert "workspace default, other" in closed.problem
        for refused in (conductor.get_open, conductor.logs, conductor.start_board):
            with pytest.raises(Forbidden, match="default, other"):
                await refused(left, both.id)
        assert not (await conductor.get(bob, both.id)).closed
        assert (await conductor.get(replace(bob, share=board.id), board.id)).id == board.id
        # An owner who has become a viewer may end the board, and no more.
        viewer = replace(ada, role="viewer")
        with pytest.raises(Forbidden):
            await conductor.restart(viewer, board.id)
        assert (await conductor.stop(viewer, board.id)).state == State.STOPPED
        assert (await conductor.kill(ADMIN, board.id)).message == "It was killed by admin."
        await conductor.delete(viewer, board.id)


@running
async def test_boards_are_found_by_prefix_and_name(sqlite: Database, tmp_path: Path) -> None:
    runs = two_experiments(sqlite, tmp_path)
    async with Conducted(sqlite, tmp_path) as hub:
        conductor = hub.conductor
        new = NewBoard(trials=[runs["a"]])
        made = [await conductor.create(ADMIN, new) for _ in range(17)]
        one = made[0]
        for text in (one.id, one.id.upper(), one.id[:8], one.id[:12], one.name, f" {one.name} "):
            assert (await conductor.get(ADMIN, text)).id == one.id
        firsts = [board.id[0] for board in made]
        twice = next(each for each in firsts if firsts.count(each) > 1)
        with pytest.raises(Ambiguous) as caught:
            await conductor.get(ADMIN, twice)
        matches = {match["id"] for match in caught.value.details["matches"]}
        assert matches == {board.id for board in made if board.id.startswith(twice)}
        for text in ("", " ", "zzz", "%", "../x"):
            with pytest.raises(NotFound):
                await conductor.get(ADMIN, text)
        named = [
            await conductor.create(ADMIN, NewBoard(trials=[runs["a"]], name="same"))
            for _ in range(2)
        ]
        with pytest.raises(Ambiguous):
            await conductor.get(ADMIN, "same")
        await conductor.kill(ADMIN, named[0].id)
        assert (await conductor.get(ADMIN, "same")).id == named[1].id
        await conductor.kill(ADMIN, named[1].id)
        assert (await conductor.get(ADMIN, "same")).id == named[1].id  # the newest that has ended
        assert (await conductor.logs(ADMIN, "same")).lines
        with pytest.raises(Ambiguous):
            await conductor.get(ADMIN, "same", to_change=True)
        with pytest.raises(Ambiguous):
            await conductor.delete(ADMIN, "same")
        await conductor.change(ADMIN, named[1].id, BoardChange(name="'\"<b>%2f.."))
        assert (await conductor.get(ADMIN, "'\"<b>%2f..")).id == named[1].id


# ------------------------------------------------------------------------------- news


@running
async def test_every_step_is_told_and_in_the_log(sqlite: Database, tmp_path: Path) -> None:
    runs = two_experiments(sqlite, tmp_path)
    async with Conducted(sqlite, tmp_path) as hub:
        await hub.conductor._keeper.hosts.ready()
        async with aclosing(hub.bus.subscribe(ADMIN)) as news:
            assert (await anext(news)).kind == "hello"
            board = await hub.conductor.create(ADMIN, NewBoard(trials=[runs["a"]]))
            states: list[str] = []
            async with asyncio.timeout(PATIENCE):
                while "RUNNING" not in states:
                    event = await anext(news)
                    assert (event.kind, event.id) == ("board", board.id)
                    states.append(event.data["state"])
            assert list(dict.fromkeys(states)) == ["QUEUED", "STARTING", "RUNNING"]
        conductor = hub.conductor
        lines = (await conductor.logs(ADMIN, board.id)).lines
        assert [line.text for line in lines] == [
            "1 run; waiting for a host",
            "was placed on host local-1",
            "is running",
        ]
        assert (await conductor.logs(ADMIN, board.id, tail=1)).lines == lines[-1:]
        assert (await conductor.logs(ADMIN, board.id, head=1)).lines == lines[:1]
        assert (await conductor.logs(ADMIN, board.id, after_id=lines[0].id)).lines == lines[1:]
        assert (await conductor.logs(ADMIN, board.id, since=lines[2].time)).lines == lines[2:]


@running
async def test_damage_is_told_in_the_log_and_by_the_doctor(
    sqlite: Database, tmp_path: Path
) -> None:
    catalog = Catalog(sqlite)
    run = catalog.run(log(tmp_path / "a", 1, 2, 3), name="a")
    (file,) = (tmp_path / "a").iterdir()
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    async with Conducted(sqlite, tmp_path) as hub:
        board = await hub.create(ADMIN, trials=[run])

        async def warnings() -> list[str]:
            lines = (await hub.conductor.logs(ADMIN, board.id)).lines
            return [line.text for line in lines if line.level == "warning"]

        async with asyncio.timeout(PATIENCE):
            while not await warnings():
                await asyncio.sleep(0.02)
        assert ["damaged" in text for text in await warnings()] == [True]
        findings = (await examine(hub.conductor, ADMIN, board.id)).findings
        assert "damaged records" in [each.subject for each in findings]
