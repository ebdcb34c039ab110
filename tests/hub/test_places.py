"""Boards over places: everything below a path is shown and followed, but what may not be seen."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from sqlalchemy import insert, update

from support.conducted import ADMIN, PATIENCE, Catalog, Conducted, log, running
from tbhub.api.models import BoardRuns, State
from tbhub.api.problems import NotFound
from tbhub.catalog.adopted_dirs import identify, write_adopted, write_event_files
from tbhub.database.engine import Database, open_database
from tbhub.database.tables import hparams, logdirs, runs
from tbhub.hub.places import name_places, name_root
from tbhub.series.run_files import LocalFiles


@pytest.fixture
def sqlite(tmp_path: Path, sqlite_template: Path) -> Iterator[Database]:
    path = tmp_path / "hub.db"
    path.write_bytes(sqlite_template.read_bytes())
    opened = open_database(f"sqlite:///{path}")
    yield opened
    opened.close()


def add_logdir(database: Database, workspace: int, path: Path) -> None:
    with database.begin() as connection:
        values = {"workspace_id": workspace, "path": str(path), "created": 1.0}
        connection.execute(insert(logdirs), values)


@pytest.mark.parametrize(
    ("uris", "taken", "names"),
    [
        (["/w/mix"], [], [""]),
        (["/w/mix"], ["run1"], ["mix"]),
        (["/w/a", "/w/b"], [], ["a", "b"]),
        (["/w/c1/logs", "/w/c2/logs", "/w/x"], [], ["c1/logs", "c2/logs", "x"]),
        (["/logs", "/w/logs"], [], ["logs", "w/logs"]),
        (["/w/mix"], ["mix"], ["w/mix"]),
        (["s3://one/sweep", "s3://two/sweep"], [], ["one/sweep", "two/sweep"]),
        # Inside another place: named below it.
        (["/w/mix", "/w/mix/1"], [], ["", "1"]),
        (["/w/mix/1", "/w/mix", "/w/mix/1/deep"], [], ["1", "", "1/deep"]),
        (["/w/mix", "/w/mix/1", "/w/more"], [], ["mix", "mix/1", "more"]),
        (["/w/mix", "/w/mix1"], [], ["mix", "mix1"]),
        (["s3://tests/sweep", "s3://tests/sweep/0"], [], ["", "0"]),
    ],
)
def test_places_are_named_by_what_tells_them_apart(
    uris: list[str], taken: list[str], names: list[str]
) -> None:
    assert name_places(uris, taken) == names


def test_a_link_to_a_place_is_named_like_it(tmp_path: Path) -> None:
    (tmp_path / "mix" / "0").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "mix")
    mix, link = str(tmp_path / "mix"), str(tmp_path / "link")
    assert name_places([mix, link, f"{link}/0"], []) == ["", "", "0"]


@running
async def test_places_that_overlap_show_their_union(sqlite: Database, tmp_path: Path) -> None:
    Catalog(sqlite)
    for name in "012":
        log(tmp_path / "mix" / name, 1)
    (tmp_path / "link").symlink_to(tmp_path / "mix")
    mix = str(tmp_path / "mix")
    async with Conducted(sqlite, tmp_path) as hub:
        board = await hub.create(ADMIN, uris=[f"{mix}/0", mix, str(tmp_path / "link")])
        await hub.shows(board.id, ["0", "1", "2"])
        assert (await hub.conductor.get(ADMIN, board.id)).runs == 3
        # Adding a part of what is there changes nothing.
        grown = await hub.create(ADMIN, uris=[mix])
        await hub.conductor.add_runs(ADMIN, grown.id, BoardRuns(uris=[f"{mix}/1"]))
        await hub.shows(grown.id, ["0", "1", "2"])


@running
async def test_a_place_shows_runs_that_the_catalog_does_not_know(
    database: Database, tmp_path: Path
) -> None:
    catalog = Catalog(database)
    for name in "012":
        log(tmp_path / "mix" / name, 1)
    catalog.run(tmp_path / "mix" / "0", name="zero")
    async with Conducted(database, tmp_path) as hub:
        board = await hub.create(ADMIN, uris=[str(tmp_path / "mix")])
        await hub.shows(board.id, ["0", "1", "2"])
        named = await hub.create(ADMIN, runs=f"{tmp_path}/mix")
        await hub.shows(named.id, ["0", "1", "2"])
        found = await hub.conductor.get(ADMIN, board.id)
        assert (found.uris, found.runs, found.follow) == ([str(tmp_path / "mix")], 3, False)
        # What is logged later is shown, whether the catalog learns of it or not.
        log(tmp_path / "mix" / "later", 1)
        catalog.run(log(tmp_path / "mix" / "known", 1), name="known")
        for each in (board, named):
            await hub.shows(each.id, ["0", "1", "2", "known", "later"])


@running
async def test_a_directory_that_a_shown_run_has_copied_is_shown_once(
    database: Database, tmp_path: Path
) -> None:
    catalog = Catalog(database)
    for name in ("a", "b"):
        log(tmp_path / "logs" / name, 1)
    shutil.copytree(tmp_path / "logs" / "a", tmp_path / "kept")
    run = catalog.run(tmp_path / "kept", name="tracked")
    file = identify(next(iter(LocalFiles(str(tmp_path / "kept")).open({}, {}).values())))
    assert file is not None
    with database.begin() as connection:
        write_event_files(connection, run, [file])
        write_adopted(connection, catalog.workspaces["default"], [str(tmp_path / "logs" / "a")])
    async with Conducted(database, tmp_path) as hub:
        both = await hub.create(ADMIN, runs=f"trial:{run}", uris=[str(tmp_path / "logs")])
        await hub.shows(both.id, ["logs/b", "tracked"])
        alone = await hub.create(ADMIN, uris=[str(tmp_path / "logs")])
        await hub.shows(alone.id, ["a", "b"])


@running
async def test_known_run_at_the_root_of_a_place_has_its_own_name(
    database: Database, tmp_path: Path
) -> None:
    catalog = Catalog(database)
    run41, run42 = (log(tmp_path / "exp4" / name, 1) for name in ("run41", "run42"))
    catalog.run(run41, "exp4", name="best")
    log(run41 / "train", 1)
    log(run42 / "train", 1)
    (tmp_path / "latest").symlink_to(run41)
    async with Conducted(database, tmp_path) as hub:
        for where in ({"uris": [str(run41)]}, {"runs": str(tmp_path / "latest")}):
            known = await hub.create(ADMIN, **where)
            await hub.shows(known.id, ["best", "best/train"])
        unknown = await hub.create(ADMIN, uris=[str(run42)])
        await hub.shows(unknown.id, [".", "train"])
        log(run41 / "test", 1)
        await hub.shows(known.id, ["best", "best/test", "best/train"])


def test_root_of_a_place_is_named_by_a_run_that_its_owner_may_see(
    sqlite: Database, tmp_path: Path
) -> None:
    catalog = Catalog(sqlite)
    run = str(log(tmp_path / "run1", 1))
    catalog.workspace("other")
    catalog.run(tmp_path / "run1", workspace="other", name="secret")
    own = frozenset({catalog.workspaces["default"]})
    with sqlite.begin() as connection:
        assert name_root(connection, run, None) == name_root(connection, f"{run}/", None)
        assert name_root(connection, run, None) == "secret"
        assert name_root(connection, run, own) == ""
        assert name_root(connection, str(tmp_path), None) == ""
    catalog.run(tmp_path / "run1", name="mine")
    with sqlite.begin() as connection:
        assert name_root(connection, run, own) == "mine"


@running
async def test_the_catalog_adds_hparams_and_columns(sqlite: Database, tmp_path: Path) -> None:
    catalog = Catalog(sqlite)
    for name in ("a", "b/train"):
        log(tmp_path / "mix" / name, 1)
    number = catalog.run(tmp_path / "mix" / "a", "sweep", name="best")
    with sqlite.begin() as connection:
        row = {"run_id": number, "name": "lr", "number": 0.5, "text": "0.5", "kind": "float"}
        connection.execute(insert(hparams), row)
    async with Conducted(sqlite, tmp_path) as hub:
        plain = await hub.create(ADMIN, uris=[str(tmp_path / "mix")])
        await hub.shows(plain.id, ["a", "b/train"])
        query = quote(json.dumps({"experimentName": ""}))
        found = await hub.ask(plain.id, f"data/plugin/hparams/experiment?request={query}")
        assert [each["name"] for each in found["hparamInfos"]] == ["lr"]
        template = {"template": "{experiment}_{run}_{hparams.lr}"}
        named = await hub.create(ADMIN, uris=[str(tmp_path / "mix")], options=template)
        async with asyncio.timeout(PATIENCE):
            while len(names := await hub.names(named.id)) < 2:
                await asyncio.sleep(0.01)
        assert "sweep_best_.5" in names


@running
async def test_runs_of_other_workspaces_are_left_out(sqlite: Database, tmp_path: Path) -> None:
    catalog = Catalog(sqlite)
    other = catalog.workspace("other")
    ada = catalog.user("ada", default="member")
    for name in ("mine", "unknown", "secret", "secret/part", "team/x"):
        log(tmp_path / "logs" / name, 1)
    add_logdir(sqlite, catalog.workspaces["default"], tmp_path / "logs")
    add_logdir(sqlite, other, tmp_path / "logs" / "team")
    catalog.run(tmp_path / "logs" / "mine", name="mine")
    hidden = catalog.run(tmp_path / "logs" / "secret", workspace="other", name="secret")
    with sqlite.begin() as connection:
        connection.execute(update(runs).where(runs.c.id == hidden), {"attempt": 1})
    async with Conducted(sqlite, tmp_path) as hub:
        board = await hub.create(ada, uris=[str(tmp_path / "logs")])
        await hub.shows(board.id, ["mine", "unknown"])
        everything = await hub.create(ADMIN, uris=[str(tmp_path / "logs")])
        await hub.shows(everything.id, ["mine", "secret", "secret/part", "team/x", "unknown"])
        for place in ("secret", "secret/part", "team", "team/x"):
            with pytest.raises(NotFound):
                await hub.create(ada, uris=[str(tmp_path / "logs" / place)])
        # What becomes known to belong to others leaves boards that are up.
        catalog.run(tmp_path / "logs" / "unknown", workspace="other", name="theirs")
        hub.conductor.runs_changed([hidden])
        await hub.shows(board.id, ["mine"])


@running
async def test_a_place_outside_the_logdirs_shows_the_known_runs_below_it(
    sqlite: Database, tmp_path: Path
) -> None:
    catalog = Catalog(sqlite)
    ada = catalog.user("ada", default="member")
    for name in ("known", "unknown"):
        log(tmp_path / "logs" / name, 1)
    catalog.run(tmp_path / "logs" / "known", name="known")
    async with Conducted(sqlite, tmp_path) as hub:
        board = await hub.create(ada, uris=[str(tmp_path / "logs")])
        await hub.shows(board.id, ["known"])
        later = catalog.run(log(tmp_path / "logs" / "later", 1), name="later")
        hub.conductor.runs_changed([later])
        await hub.shows(board.id, ["known", "later"])


@running
async def test_archived_and_removed_runs_are_left_out_of_a_place(
    sqlite: Database, tmp_path: Path
) -> None:
    catalog = Catalog(sqlite)
    for name in ("a", "b", "c", "old"):
        log(tmp_path / "logs" / name, 1)
    numbers = {name: catalog.run(tmp_path / "logs" / name, name=name) for name in ("a", "b", "old")}
    with sqlite.begin() as connection:
        old = runs.c.id == numbers["old"]
        connection.execute(update(runs).where(old), {"archived": True})
    async with Conducted(sqlite, tmp_path) as hub:
        board = await hub.create(ADMIN, uris=[str(tmp_path / "logs")])
        await hub.shows(board.id, ["a", "b", "c"])
        await hub.conductor.remove_runs(ADMIN, board.id, BoardRuns(runs="a"))
        await hub.conductor.remove_runs(
            ADMIN, board.id, BoardRuns(uris=[str(tmp_path / "logs" / "c")])
        )
        await hub.shows(board.id, ["b"])
        await hub.conductor.add_runs(ADMIN, board.id, BoardRuns(uris=[str(tmp_path / "logs")]))
        await hub.shows(board.id, ["a", "b"])
        named = await hub.create(ADMIN, uris=[str(tmp_path / "logs" / "old")])
        assert (named.state, await hub.names(named.id)) == (State.RUNNING, ["old"])
        # A run that is on the board already is not there twice.
        both = await hub.create(ADMIN, trials=[numbers["a"]], uris=[str(tmp_path / "logs")])
        await hub.shows(both.id, ["a", "logs/b", "logs/c"])


@running
async def test_the_boards_of_a_run_include_those_over_its_place(
    sqlite: Database, tmp_path: Path
) -> None:
    number = Catalog(sqlite).run(log(tmp_path / "logs" / "a", 1), name="a")
    async with Conducted(sqlite, tmp_path) as hub:
        board = await hub.create(ADMIN, uris=[str(tmp_path / "logs")])
        found = await hub.conductor.list(ADMIN, run=number)
        assert [each.id for each in found.boards] == [board.id]
