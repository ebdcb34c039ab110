"""Boards over runs in buckets: they answer what boards over the same files answer."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from boards.test_control import Asked
from support import every_kind
from support.buckets import Place
from support.endpoints import PLUGIN, compare
from support.fault_proxy import FaultProxy, Silent, Slow, Status
from support.live import PATIENCE, VERSION, cache_at, eventually, scalar
from support.ours import Ours
from tbhub import SummaryWriter
from tbhub.boards.board import BoardOptions, Source, Trouble
from tbhub.series.run_log import RunLog
from tbhub.series.tree import find_runs

pytestmark = pytest.mark.usefixtures("no_environment")

FILE = "events.out.tfevents.1700000000.host"
MakePlace = Callable[..., Place]


def source(at: Place, **more: Any) -> Source:
    return Source(at.uri, credentials=at.credentials, **more)


def name_by_start(directory: Path) -> None:
    """Has the names of event files tell which began first: in a bucket runs are ordered by them.

    All of these have begun in the same second.
    """
    found = find_runs(str(directory)).runs
    started = {
        run: RunLog(os.path.dirname(files[0]), cache_at(None)).started
        for run, files in found.items()
    }
    for rank, run in enumerate(sorted(found, key=lambda run: (started[run], run))):
        for number, path in enumerate(found[run]):
            name = f"events.out.tfevents.{1_700_000_000 + 10 * rank + number}.host"
            os.rename(path, os.path.join(os.path.dirname(path), name))


def test_every_answer_is_that_of_the_same_files_here(tmp_path: Path, s3: MakePlace) -> None:
    every_kind.write_with_tbhub(tmp_path)
    name_by_start(tmp_path)
    place = s3()
    place.upload(tmp_path)
    with Ours(tmp_path, single=True) as here, Ours(single=True) as there:
        there.board.add(source(place))
        assert there.follower.wait_until_loaded(PATIENCE)
        assert compare(there, here) == []


def test_places_of_a_bucket_show_a_directory_once(s3: MakePlace) -> None:
    outer = s3()
    store, prefix = outer.open()
    for run in "01":
        store.put(f"{prefix}/{run}/{FILE}", VERSION + scalar("loss", 1, 1))
    inner = Place("s3", f"{outer.uri}/0", outer.credentials)
    with Ours(single=True) as ours:
        ours.board.add(source(inner, name="inner", place=True))
        ours.board.add(source(outer, name="outer", place=True))
        assert ours.follower.wait_until_loaded(PATIENCE)
        assert set(ours.series("loss")) == {"outer/0", "outer/1"}


def test_here_and_there_in_one_board(tmp_path: Path, s3: MakePlace, azure_place: Place) -> None:
    """Each with credentials of its own."""
    with SummaryWriter(tmp_path / "local") as writer:
        writer.add_scalar("loss", 1, 1)
    places = {"amazon": s3("reads"), "azure": azure_place}
    writable = Place("s3", places["amazon"].uri, s3().credentials)
    for number, place in enumerate((writable, azure_place)):
        store, prefix = place.open()
        store.put(f"{prefix}/run/{FILE}", VERSION + scalar("loss", 1, number))
    with Ours(single=True) as ours:
        ours.board.add(Source(str(tmp_path), "here"))
        for name, place in places.items():
            ours.board.add(source(place, name=name))
        assert ours.follower.wait_until_loaded(PATIENCE)
        assert set(ours.series("loss")) == {"here/local", "amazon/run", "azure/run"}
        store, prefix = writable.open()
        store.put(f"{prefix}/run/{FILE}", VERSION + scalar("loss", 1, 0) + scalar("loss", 2, 5))
        eventually(lambda: len(ours.series("loss")["amazon/run"]) == 2)
        told = [repr(ours.board.sources), ours.board.location]
        told += [ours.get("/data/environment")[2].decode(), json.dumps(ours.json("/data/runs"))]
        for place in places.values():
            for name, value in place.credentials.items():
                if name != "endpoint":
                    assert not any(value in text for text in told)


def test_a_store_that_answers_late_keeps_nobody_waiting(
    tmp_path: Path, s3: MakePlace, proxy: FaultProxy
) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", 1, 1)
    place = s3(endpoint=proxy.url)
    proxy.add(Slow(3600))
    with Ours(tmp_path, single=True) as ours:
        ours.board.add(source(place, name="late"))
        assert set(ours.series("loss")) == {"."}
        assert ours.json(f"{PLUGIN}/timeseries/tags")["scalars"]["runTagInfo"] == {".": ["loss"]}
        assert ours.json("/data/plugins_listing")["projector"]["enabled"] is False


def test_a_board_with_data_reports_a_source_that_has_not_answered_without_waiting_for_it(
    tmp_path: Path, s3: MakePlace, proxy: FaultProxy
) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", 1, 1)
    place = s3(endpoint=proxy.url)
    proxy.add(Silent())

    async def main() -> None:
        host = Asked()
        try:
            _, state = await put(host, Source(str(tmp_path)), source(place))
            assert (state["has_data"], state["unanswered"], state["troubles"]) == (
                True,
                place.uri,
                [],
            )
        finally:
            host.control.close()
            host.follower.close()

    asyncio.run(main())


def test_a_source_that_can_no_longer_be_read_is_in_trouble_and_stays_shown(
    s3: MakePlace, proxy: FaultProxy
) -> None:
    place = s3(endpoint=proxy.url)
    store, prefix = place.open()
    store.put(f"{prefix}/run/{FILE}", VERSION + scalar("loss", 1, 1))
    with Ours(single=True) as ours:
        ours.board.add(source(place))
        assert ours.follower.wait_until_loaded(PATIENCE)
        assert ours.board.troubles() == []
        proxy.refuse()
        eventually(lambda: bool(ours.board.troubles()))
        (trouble,) = ours.board.troubles()
        assert (trouble.path, trouble.shown) == (place.uri, True)
        assert "no connection" in trouble.problem
        assert set(ours.series("loss")) == {"run"}
        proxy.heal()
        eventually(lambda: ours.board.troubles() == [])


def test_a_source_that_cannot_be_read_is_reported_before_many_that_are_missing(
    tmp_path: Path,
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with Ours(single=True) as ours:
        for name in (*"abcdefgh", "loop"):
            ours.board.add(Source(str(tmp_path / name), name))
        assert ours.board.troubles()[0].path == str(tmp_path / "loop")


def test_a_single_listing_that_fails_is_no_trouble(s3: MakePlace, proxy: FaultProxy) -> None:
    place = s3()
    store, prefix = place.open()
    store.put(f"{prefix}/run/{FILE}", VERSION + scalar("loss", 1, 1))
    behind = Place("s3", place.uri, {**place.credentials, "endpoint": proxy.url})
    with Ours(single=True) as ours:
        ours.board.add(source(behind))
        assert ours.follower.wait_until_loaded(PATIENCE)
        told: list[Trouble] = []
        ours.board.listen(lambda: told.extend(ours.board.troubles()))
        before = len(proxy.requests)
        proxy.add(Status(403, "InvalidAccessKeyId"), times=1)
        eventually(lambda: len(proxy.requests) > before)
        store.put(f"{prefix}/later/{FILE}", VERSION + scalar("loss", 1, 1))
        eventually(lambda: set(ours.series("loss")) == {"run", "later"})
        assert told == []


def test_a_source_that_has_failed_has_answered_and_is_in_trouble(
    tmp_path: Path, s3: MakePlace
) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", 1, 1)
    wrong = s3(secret_access_key="wrong")

    async def main() -> None:
        host = Asked()
        try:
            _, state = await put(host, Source(str(tmp_path)), source(wrong))
            while state["unanswered"]:
                _, state = await host.ask("GET", "/control/boards/b")
                await asyncio.sleep(0.01)
            assert [each["path"] for each in state["troubles"]] == [wrong.uri]
        finally:
            host.control.close()
            host.follower.close()

    asyncio.run(main())


async def put(host: Asked, *sources: Source) -> tuple[int, Any]:
    given = [
        {"path": each.path, "name": each.name, "credentials": dict(each.credentials)}
        for each in sources
    ]
    return await host.ask("PUT", "/control/boards/b", {"sources": given, "options": {}})


def test_a_hub_hands_over_credentials_and_is_told_what_is_wrong(s3: MakePlace) -> None:
    place = s3()
    store, prefix = place.open()
    store.put(f"{prefix}/run/{FILE}", VERSION + scalar("loss", 1, 1))
    wrong = Source(place.uri, credentials={**place.credentials, "secret_access_key": "expired"})

    async def main() -> None:
        host = Asked()
        try:
            status, _ = await put(host, wrong)
            assert status == 200
            state: dict[str, Any] = {}
            while not state.get("notices"):
                _, state = await host.ask("GET", "/control/boards/b")
                await asyncio.sleep(0.01)
            assert place.uri in state["notices"][0]["text"]
            assert "expired-secret" not in json.dumps(state)
            status, _ = await put(host, source(place))  # new ones
            assert status == 200
            while state["notices"] or not state["has_data"]:
                _, state = await host.ask("GET", "/control/boards/b")
                await asyncio.sleep(0.01)
            assert await host.runs("b") == ["run"]
            assert state["traffic"]["requests"] >= 2
        finally:
            host.control.close()
            host.follower.close()

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_what_is_no_place_is_refused() -> None:
    async def main() -> None:
        host = Asked()
        for path in ("ftp://host/x", "s3://user:password@bucket/x"):
            status, answer = await host.put("b", path)
            assert status == 422
            assert "password" not in answer["error"]
        host.control.close()
        host.follower.close()

    asyncio.run(main())


def test_an_allowance_is_an_option_of_the_board(s3: MakePlace) -> None:
    with Ours(options=BoardOptions(requests_per_minute=7)) as ours:
        assert ours.board.traffic.requests_per_minute == 7
