"""Whether a board answers: its host asks it what a page would ask first.

A board that is up answers its page. A host whose TensorBoard cannot be imported serves nothing but
errors, and says so here with the reason.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tbhub.boards.host import Host

_QUESTIONS = ("data/environment", "data/plugins_listing")
_MAX_DETAIL = 300  # characters of an answer that are told


class NotReadyError(Exception):
    """A board does not answer; says why."""


async def check_board(host: Host, board_id: str) -> None:
    """Ask a board what its page asks first, through the whole host.

    Raises:
        NotReadyError: It does not answer.
    """
    await _import(host)
    for question in _QUESTIONS:
        status, body = await host.ask(board_id, question)
        if status != 200:
            text = body[:_MAX_DETAIL].decode("utf-8", "replace").strip()
            raise NotReadyError(f"TensorBoard answers {question} with {status}: {text}")


async def describe_tensorboard(host: Host) -> dict[str, Any]:
    """Return the version of TensorBoard, or why it cannot be imported."""
    try:
        await _import(host)
    except NotReadyError as error:
        return {"version": None, "error": str(error)}
    from tensorboard import version

    return {"version": version.VERSION, "error": None}


async def _import(host: Host) -> None:
    try:
        await asyncio.to_thread(lambda: (host.application, host.assets))
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise NotReadyError(
            f"TensorBoard cannot be imported where the board is served: {reason}. "
            "hint: install it there again: python -m pip install --force-reinstall tensorboard"
        ) from error
