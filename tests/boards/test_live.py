"""An open page is told what is new, over a real server; and a server ends though pages are open."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.live import append, eventually, scalar
from support.view import Page, View
from tbhub import SummaryWriter
from tbhub.boards import live
from tbhub.boards.board import Board, BoardOptions, Source
from tbhub.boards.host import Host
from tbhub.boards.server import make_server
from tbhub.boards.sockets import listen
from tbhub.series.follower import Follower


def log(run: Path) -> Path:
    with SummaryWriter(run) as writer:
        writer.add_scalar("loss", 1.0, 1)
    (file,) = run.iterdir()
    return file


class Served:
    """A host with one board, served from a thread."""

    def __init__(self, logdir: Path, options: BoardOptions) -> None:
        self.follower = Follower(use_cache=False)
        self.host = Host(self.follower)
        self.board: Board = self.host.create("one", options)
        self.board.add(Source(str(logdir)))
        assert self.follower.wait_until_loaded(60)
        self.socket = listen("localhost", 0)
        self.server = make_server(self.host)
        self.thread = threading.Thread(target=self.server.run, args=([self.socket],))
        self.thread.start()

    @property
    def listeners(self) -> int:
        return len(self.board._listeners)

    def open(self, board: str = "one") -> Page:
        return Page(f"http://localhost:{self.socket.getsockname()[1]}/b/{board}/")

    def close(self) -> None:
        self.server.should_exit = True
        self.thread.join()
        self.follower.close()
        self.socket.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    log(tmp_path / "run")
    served = Served(tmp_path, BoardOptions())
    yield served
    served.close()


def test_a_page_is_told_how_things_stand_when_it_connects(served: Served) -> None:
    page = served.open()
    assert page.response.status == 200
    assert page.response.headers["Content-Type"] == "text/event-stream"
    assert page.response.headers["Cache-Control"] == "no-store"
    assert page.response.headers["X-Accel-Buffering"] == "no"
    assert page.lines() == ["retry: 1000"]
    assert page.message() == {
        "version": served.board.version,
        "runs": 1,
        "loading": None,
        "notices": [],
        "traffic": {"requests": 0, "bytes_read": 0},
    }
    page.close()


def test_every_page_is_told_of_new_points_and_runs(served: Served, tmp_path: Path) -> None:
    pages = [served.open(), served.open()]
    versions = [page.message()["version"] for page in pages]
    (file,) = (tmp_path / "run").iterdir()
    append(file, scalar("loss", 2, 2.0))
    for number, page in enumerate(pages):
        message = page.message()
        assert message["version"] > versions[number]
        assert message["runs"] == 1
    log(tmp_path / "new")
    for page in pages:
        while page.message()["runs"] != 2:
            pass
    for page in pages:
        page.close()


def test_a_page_is_told_what_is_wrong(served: Served, tmp_path: Path) -> None:
    page = served.open()
    assert page.message()["notices"] == []
    (tmp_path / "run" / "events.out.tfevents.9").symlink_to(tmp_path / "nowhere")
    while not (notices := page.message()["notices"]):
        pass
    assert notices[0]["text"].startswith("run: events.out.tfevents.9 cannot be read")
    page.close()


def test_a_page_is_told_how_loading_goes(served: Served, tmp_path: Path) -> None:
    log(tmp_path / "another")
    served.follower.look(60)
    next(iter(served.board.runs.values())).view.log.version = 0  # as if it were being read
    page = served.open()
    assert page.message()["loading"] == {"done": 1, "total": 2}
    page.close()


def test_a_page_that_goes_is_let_go(served: Served) -> None:
    pages = [served.open() for _ in range(5)]
    for page in pages:
        page.message()
    assert served.listeners == 5
    for page in pages:
        page.close()
    eventually(lambda: served.listeners == 0)


def test_a_stream_has_an_end_so_that_it_is_asked_for_again(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_LONGEST_SECONDS", 0.0)
    monkeypatch.setattr(live, "_PING_SECONDS", 0.05)
    page = served.open()
    while page.lines():
        pass
    eventually(lambda: served.listeners == 0)
    page.close()


def test_no_stream_of_a_board_there_is_not(served: Served) -> None:
    page = served.open("none")
    assert page.response.status == 404
    page.close()


def test_open_pages_do_not_hold_up_the_end(served: Served) -> None:
    pages = [served.open() for _ in range(3)]
    for page in pages:
        page.message()
    served.close()
    for page in pages:
        while page.lines():  # what was under way; then it has ended
            pass
        page.close()
    assert served.listeners == 0


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_command_with_open_pages_ends_well(how: signal.Signals, tmp_path: Path) -> None:
    log(tmp_path / "run")
    with View("--json", tmp_path) as view:
        view.wait_until_loaded()
        pages = [Page(view.url) for _ in range(2)]
        for page in pages:
            assert page.message()["runs"] == 1
        start = time.monotonic()
        code, out, err = view.end(how)
        assert (code, out, err) == (0, "", "")
        assert time.monotonic() - start < 30  # it ends by itself, and is not killed
        for page in pages:
            page.close()
