"""The projector, which reads files of its own: for each board from that board's runs only."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

from tensorboard import plugin_util
from tensorboard.plugins import base_plugin
from tensorboard.plugins.projector import metadata, projector_plugin

from tbhub.boards.board import Board
from tbhub.boards.provider import BoardProvider, current_board

_LOOK_SECONDS = 5.0


class ProjectorPlugin(base_plugin.TBPlugin):  # type: ignore[misc]
    """TensorBoard's projector, one for each board."""

    plugin_name = metadata.PLUGIN_NAME

    def __init__(self, context: Any) -> None:
        self._context = context
        self._provider: BoardProvider = context.data_provider
        self._projectors: dict[str, _Projector] = {}
        self._lock = threading.Lock()

    def get_plugin_apps(self) -> dict[str, Any]:
        shared = _Projector(self._context, None)
        return {
            route: app if route.endswith((".js", ".html")) else self._of_board(route)
            for route, app in shared.get_plugin_apps().items()
        }

    def _of_board(self, route: str) -> Callable[[dict[str, Any], Any], Any]:
        def serve(environ: dict[str, Any], start_response: Any) -> Any:
            projector = self._projector(plugin_util.experiment_id(environ))
            with projector.lock:
                return projector.apps[route](environ, start_response)

        return serve

    def _projector(self, board_id: str) -> _Projector:
        board = self._provider.board(board_id)
        with self._lock:
            projector = self._projectors.get(board_id)
            if projector is None or projector.board is not board:
                projector = self._projectors[board_id] = _Projector(self._context, board)
            return projector

    def forget(self, board_id: str) -> None:
        """A board is gone."""
        with self._lock:
            self._projectors.pop(board_id, None)

    def is_active(self) -> bool:
        return self._projector(current_board.get()).has_embeddings()

    def frontend_metadata(self) -> Any:
        return base_plugin.FrontendMetadata(es_module_path="/index.js", disable_reload=True)


class _Projector(projector_plugin.ProjectorPlugin):  # type: ignore[misc]
    """TensorBoard's projector over the directories of one board's runs."""

    def __init__(self, context: Any, board: Board | None) -> None:
        super().__init__(context)
        self.board = board
        self.lock = threading.Lock()  # it was made for one request at a time
        self.apps = self.get_plugin_apps()
        self._looked_at = 0.0
        self._found = False

    def has_embeddings(self) -> bool:
        """Whether a run has embeddings; looked for every few seconds at most."""
        if not self._found and time.monotonic() - self._looked_at > _LOOK_SECONDS:
            self._found = any(map(_has_config, self._directories().values()))
            self._looked_at = time.monotonic()
        return self._found

    def _directories(self) -> dict[str, str]:
        return self.board.directories() if self.board else {}

    def _update_configs(self) -> None:
        run_paths = {name: path for name, path in self._directories().items() if _has_config(path)}
        changed = run_paths != self._run_paths
        self._run_paths: dict[str, str] = run_paths
        pairs = list(run_paths.items())
        self._append_plugin_asset_directories(pairs)
        if changed or projector_plugin._latest_checkpoints_changed(self._configs, pairs):
            self.readers: dict[str, Any] = {}
            self._configs: dict[str, Any]
            self._configs, self.config_fpaths = self._read_latest_config_files(pairs)
            self._augment_configs_with_checkpoint_info()


def _has_config(directory: str) -> bool:
    name = metadata.PROJECTOR_FILENAME
    below = os.path.join(directory, metadata.PLUGINS_DIR, metadata.PLUGIN_ASSETS_NAME, name)
    return os.path.exists(os.path.join(directory, name)) or os.path.exists(below)
