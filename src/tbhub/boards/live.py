"""News for open pages: a stream of server-sent events for each.

A page is told how the board stands when it connects and whenever that has changed; what is missed
in between (sleep, a lost connection) is thereby made up for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any

import orjson

from tbhub.boards.board import Board

_LEAST_SECONDS = 0.25  # between two messages
_PING_SECONDS = 20.0  # so that proxies keep the connection and a lost one is noticed
# Browsers connect again, and a hub asks again whether they may: a link that has expired would
# else keep what it once opened.
_LONGEST_SECONDS = 300.0


def state_of(board: Board) -> dict[str, Any]:
    """How a board stands, as its page is told."""
    done, total = board.loading
    return {
        "version": board.version,
        "runs": board.run_count,
        "loading": None if done >= total else {"done": done, "total": total},
        "notices": [{"id": notice.id, "text": notice.text} for notice in board.notices()],
        "traffic": {"requests": board.traffic.requests, "bytes_read": board.traffic.bytes_read},
    }


async def events(board: Board, closing: Callable[[], bool]) -> AsyncGenerator[bytes]:
    """The stream of one page, until it goes, its time is over or the host closes, of which the
    board tells too."""
    loop = asyncio.get_running_loop()
    end = loop.time() + _LONGEST_SECONDS

    def is_over() -> bool:
        return closing() or loop.time() > end

    news = asyncio.Event()

    def tell() -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(news.set)

    stop = board.listen(tell)
    try:
        yield b"retry: 1000\n\n"
        while not is_over():
            news.clear()
            state = await asyncio.to_thread(state_of, board)
            yield b"data: " + orjson.dumps(state) + b"\n\n"
            await asyncio.sleep(_LEAST_SECONDS)
            while not news.is_set() and not is_over():
                try:
                    async with asyncio.timeout(_PING_SECONDS):
                        await news.wait()
                except TimeoutError:
                    yield b": ping\n\n"
    finally:
        stop()
