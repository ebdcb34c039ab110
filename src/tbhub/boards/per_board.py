"""Plugins that read files of their own, one instance for each board.

Such a plugin was made for one log directory. It is given the directories of one board's runs
instead, and asked only for that board.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tensorboard import plugin_util
from tensorboard.plugins import base_plugin

from tbhub.boards.board import Board
from tbhub.boards.provider import BoardProvider, current_board

Make = Callable[[Board], Any]  # the plugin of a board, itself a TBPlugin


class PerBoard(base_plugin.TBPlugin):  # type: ignore[misc]
    """Answers for a plugin by the instance of the board that is asked for."""

    def __init__(
        self, provider: BoardProvider, template: Any, make: Make, refused: dict[str, str]
    ) -> None:
        """`template` is an instance that knows no runs; `refused` are routes, with the reason."""
        self.plugin_name = template.plugin_name
        self._provider = provider
        self._template = template
        self._make = make
        self._refused = refused
        self._plugins: dict[str, tuple[Board, Any, dict[str, Any]]] = {}
        self._lock = threading.Lock()

    def get_plugin_apps(self) -> dict[str, Any]:
        return {route: self._app(route) for route in self._template.get_plugin_apps()}

    def _app(self, route: str) -> Callable[[dict[str, Any], Any], Any]:
        def serve(environ: dict[str, Any], start_response: Any) -> Any:
            _, apps = self._of(plugin_util.experiment_id(environ))
            return apps[route](environ, start_response)

        def refuse(environ: dict[str, Any], start_response: Any) -> Any:
            headers = [
                ("Content-Type", "text/plain; charset=utf-8"),
                ("X-Content-Type-Options", "nosniff"),
            ]
            start_response("403 Forbidden", headers)
            return [self._refused[route].encode()]

        return refuse if route in self._refused else serve

    def _of(self, board_id: str) -> tuple[Any, dict[str, Any]]:
        board = self._provider.board(board_id)
        with self._lock:
            known = self._plugins.get(board_id)
            if known is None or known[0] is not board:
                plugin = self._make(board)
                known = self._plugins[board_id] = (board, plugin, plugin.get_plugin_apps())
            return known[1], known[2]

    def forget(self, board_id: str) -> None:
        """A board is gone."""
        with self._lock:
            self._plugins.pop(board_id, None)

    def is_active(self) -> bool:
        plugin, _ = self._of(current_board.get())
        return bool(plugin.is_active())

    def data_plugin_names(self) -> tuple[str, ...]:
        return ()  # is_active() says it

    def frontend_metadata(self) -> Any:
        return self._template.frontend_metadata()
