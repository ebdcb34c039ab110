"""What a hub can ask of a host; and that nobody else can."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.conducted import PATIENCE, log, running
from support.ours import call
from tbhub import SummaryWriter
from tbhub.boards.control import Control
from tbhub.boards.host import Host
from tbhub.series.follower import Follower

SECRET = "the secret"


class Asked:
    """A host asked through its control, as a hub does it."""

    def __init__(self) -> None:
        self.follower = Follower(use_cache=False)
        self.ended = False
        self.control = Control(Host(self.follower), "local-7", shutdown=self._end)
        self.control.secret = SECRET

    def _end(self) -> None:
        self.ended = True

    async def ask(
        self, method: str, path: str, body: Any = None, secret: str | None = SECRET
    ) -> tuple[int, Any]:
        headers = [] if secret is None else [(b"authorization", f"Bearer {secret}".encode())]
        status, _, content = await call(
            self.control, scope(method, path, headers), json.dumps(body or {}).encode()
        )
        return status, json.loads(content) if content[:1] in (b"{", b"[") else content

    async def put(self, board: str, *paths: Path | str, **options: Any) -> tuple[int, Any]:
        sources = [{"path": str(path), "name": Path(path).name} for path in paths]
        return await self.ask(
            "PUT", f"/control/boards/{board}", {"sources": sources, "options": options}
        )

    async def runs(self, board: str) -> list[str]:
        status, found = await self.ask("GET", f"/b/{board}/data/runs")
        assert status == 200
        return sorted(found)

    @asynccontextmanager
    async def news(self) -> AsyncIterator[Callable[[], Any]]:
        """The stream of news, message by message."""
        queue: asyncio.Queue[Any] = asyncio.Queue()
        headers = [(b"authorization", f"Bearer {SECRET}".encode())]

        async def receive() -> dict[str, Any]:
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: Any) -> None:
            for line in message.get("body", b"").split(b"\n\n"):
                if line.startswith(b"data: "):
                    await queue.put(json.loads(line[6:]))

        streaming = asyncio.create_task(
            self.control(scope("GET", "/control/events", headers), receive, send)
        )

        async def following() -> Any:
            async with asyncio.timeout(PATIENCE):
                return await queue.get()

        try:
            yield following
        finally:
            streaming.cancel()
            await asyncio.gather(streaming, return_exceptions=True)


def scope(method: str, path: str, headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    return {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"",
        "http_version": "1.1",
        "headers": headers,
        "server": ("localhost", 80),
        "client": ("127.0.0.1", 1),
    }


@asynccontextmanager
async def asked() -> AsyncIterator[Asked]:
    made = Asked()
    try:
        yield made
    finally:
        made.control.close()
        await asyncio.to_thread(made.follower.close)


@pytest.mark.parametrize("secret", [None, "", "another", SECRET + "x", SECRET.upper()])
@running
async def test_without_the_secret_nothing_is_answered(tmp_path: Path, secret: str | None) -> None:
    async with asked() as host:
        await host.put("one", log(tmp_path / "a", 1))
        for method, path in (
            ("GET", "/control/health"),
            ("GET", "/control/events"),
            ("GET", "/control/boards/one"),
            ("PUT", "/control/boards/two"),
            ("DELETE", "/control/boards/one"),
            ("POST", "/control/shutdown"),
            ("GET", "/b/one/"),
            ("GET", "/b/one/data/runs"),
            ("GET", "/b/none/"),
            ("GET", "/static/x/index.js"),
        ):
            assert (await host.ask(method, path, secret=secret))[0] == 401
        assert await host.runs("one") == ["a"]
        assert not host.ended


@running
async def test_host_that_ends_answers_503_and_not_that_a_board_failed(tmp_path: Path) -> None:
    log(tmp_path / "a")
    async with asked() as host:
        host.control.close()
        assert await host.put("one", tmp_path / "a") == (503, {"error": "the host is ending"})


@running
async def test_before_it_has_registered_a_host_answers_nobody() -> None:
    async with asked() as host:
        host.control.secret = None
        assert (await host.ask("GET", "/control/health", secret="None"))[0] == 401


@running
async def test_a_board_is_what_was_put_last(tmp_path: Path) -> None:
    a, b = log(tmp_path / "a", 1), log(tmp_path / "b", 1)
    async with asked() as host:
        status, state = await host.put("one", a)
        assert (status, state["runs"], state["has_data"], state["loading"]) == (200, 1, True, None)
        await host.put("one", a, b)
        assert await host.runs("one") == ["a", "b"]
        await host.put("one", b)
        assert await host.runs("one") == ["b"]
        await host.put("one", b, template="{path}!")
        assert await host.runs("one") == ["b!"]
        assert (await host.ask("DELETE", "/control/boards/one"))[0] == 200
        assert (await host.ask("DELETE", "/control/boards/one"))[0] == 404
        assert (await host.ask("GET", "/control/boards/one"))[0] == 404
        assert (await host.ask("GET", "/b/one/data/runs"))[0] == 404


@running
async def test_what_becomes_known_of_a_run_leaves_it_where_it_is(tmp_path: Path) -> None:
    source = {"path": str(log(tmp_path / "a", 1)), "name": "a"}
    other = {"path": str(log(tmp_path / "b", 1)), "name": "b"}
    async with asked() as host:
        for hparams in ({}, {"lr": 0.1}):
            sources = [{**source, "hparams": hparams}, other]
            body = {"sources": sources, "options": {}}
            assert (await host.ask("PUT", "/control/boards/one", body))[0] == 200
            _, names = await host.ask("GET", "/b/one/data/runs")
            assert names == ["a", "b"]
        _, plugins = await host.ask("GET", "/b/one/data/plugins_listing")
        assert plugins["hparams"]["enabled"]


@running
async def test_a_run_alone_does_not_bring_those_below_it(tmp_path: Path) -> None:
    log(tmp_path, 1)
    log(tmp_path / "below", 1)
    async with asked() as host:
        for alone, names in ((True, ["top"]), (False, ["top", "top/below"])):
            source = {"path": str(tmp_path), "name": "top", "alone": alone}
            body = {"sources": [source], "options": {}}
            await host.ask("PUT", "/control/boards/one", body)
            assert await host.runs("one") == names


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"sources": [{"path": "ftp://bucket/x"}], "options": {}}, "ftp://"),
        ({"sources": [{"path": "relative"}], "options": {}}, "begins with /"),
        ({"sources": [{"path": "file://server/x"}], "options": {}}, "three slashes"),
        ({"sources": [], "options": {"template": "{"}}, "template"),
        ({"sources": [], "options": {"unknown": 1}}, "cannot be made"),
        ({"sources": [{}], "options": {}}, "cannot be made"),
        ({}, "cannot be made"),
        ([], "cannot be made"),
    ],
)
@running
async def test_what_cannot_be_shown_is_refused_with_the_reason(body: Any, text: str) -> None:
    async with asked() as host:
        status, answer = await host.ask("PUT", "/control/boards/one", body)
        assert status == 422
        assert text in answer["error"]
        assert (await host.ask("GET", "/control/boards/one"))[0] == 404


@running
async def test_the_hub_is_told_of_every_board_and_of_its_first_data(tmp_path: Path) -> None:
    async with asked() as host:
        await host.put("one", log(tmp_path / "a", 1))
        await host.put("two", tmp_path / "b")
        async with host.news() as following:
            assert await following() == {"boards": ["one", "two"]}
            told = [await following(), await following()]
            states = {message["board"]: message["state"] for message in told}
            assert states["one"]["has_data"]
            assert not states["two"]["has_data"]
            with SummaryWriter(tmp_path / "b") as writer:  # whose first record is no data
                writer.flush()
                writer.add_scalar("loss", 1.0, 1)
            while True:
                message = await following()
                assert message["board"] == "two"
                if message["state"]["has_data"]:
                    break


@running
async def test_a_board_with_options_of_its_own_goes_on_telling(tmp_path: Path) -> None:
    async with asked() as host, host.news() as following:
        assert await following() == {"boards": []}
        await host.put("one", tmp_path / "a")
        await host.put("one", tmp_path / "a", title="another")
        log(tmp_path / "a", 1)
        while not (await following())["state"]["has_data"]:
            pass


@running
async def test_health_and_shutdown() -> None:
    async with asked() as host:
        await host.put("one")
        status, health = await host.ask("GET", "/control/health")
        assert (status, health["host"], health["boards"]) == (200, "local-7", 1)
        assert health["rss"] > 1 << 20
        assert (await host.ask("GET", "/control/nothing"))[0] == 404
        assert (await host.ask("PATCH", "/control/health"))[0] == 404
        assert (await host.ask("POST", "/control/shutdown"))[0] == 200
        await asyncio.sleep(0)
        assert host.ended


@running
async def test_open_pages_are_let_go_when_their_board_is(tmp_path: Path) -> None:
    async with asked() as host:
        await host.put("one", log(tmp_path / "a", 1))
        connected = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: Any) -> None:
            if b"data: " in message.get("body", b""):
                connected.set()

        headers = [(b"authorization", f"Bearer {SECRET}".encode())]
        page = scope("GET", "/b/one/tbhub/events", headers)
        streaming = asyncio.create_task(host.control(page, receive, send))
        async with asyncio.timeout(PATIENCE):
            await connected.wait()
            await host.ask("DELETE", "/control/boards/one")
            await streaming
