"""The projector, for each board over the files of that board's runs."""

from __future__ import annotations

import functools
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tensorboard.plugins.projector import metadata, projector_plugin

from tbhub.boards.board import Board
from tbhub.boards.copies import configs, copies
from tbhub.boards.per_board import PerBoard

if TYPE_CHECKING:
    from tbhub.series.bucket import RemoteFiles

_LOOK_SECONDS = 5.0

logger = logging.getLogger("tbhub")


def make_projector(context: Any) -> PerBoard:
    """TensorBoard's projector, one for each board."""
    make = functools.partial(_Projector, context)
    return PerBoard(context.data_provider, make(None), make, {})


class _Projector(projector_plugin.ProjectorPlugin):  # type: ignore[misc]
    """TensorBoard's projector over the directories of one board's runs."""

    def __init__(self, context: Any, board: Board | None) -> None:
        super().__init__(context)
        self._board = board
        self._one_at_a_time = threading.Lock()  # as it was made
        self._looked_at = -_LOOK_SECONDS
        self._found = False

    def get_plugin_apps(self) -> dict[str, Any]:
        return {route: self._locked(app) for route, app in super().get_plugin_apps().items()}

    def _locked(self, app: Callable[..., Any]) -> Callable[..., Any]:
        def serve(environ: dict[str, Any], start_response: Any) -> Any:
            with self._one_at_a_time:
                return app(environ, start_response)

        return serve

    def is_active(self) -> bool:
        """Whether a run has embeddings; looked for every few seconds at most."""
        if not self._found and time.monotonic() - self._looked_at > _LOOK_SECONDS:
            self._found = any(map(_has_config, self._directories().values())) or any(
                map(configs, self._remote_runs().values())
            )
            self._looked_at = time.monotonic()
        return self._found

    def _directories(self) -> dict[str, str]:
        return self._board.directories() if self._board else {}

    def _remote_runs(self) -> dict[str, RemoteFiles]:
        return self._board.remote_runs() if self._board else {}

    def _copied(self) -> dict[str, str]:
        """Where the embeddings of runs in stores have been copied to."""
        found = {}
        for name, run in self._remote_runs().items():
            if configs(run):
                try:
                    found[name] = copies().embeddings(run)
                except OSError as error:
                    logger.warning("embeddings of %s cannot be shown: %s", name, error)
        return found

    def _update_configs(self) -> None:
        directories = {**self._directories(), **self._copied()}
        run_paths = {name: path for name, path in directories.items() if _has_config(path)}
        changed = run_paths != self._run_paths
        self._run_paths: dict[str, str] = run_paths
        pairs = list(run_paths.items())
        self._append_plugin_asset_directories(pairs)
        if changed or projector_plugin._latest_checkpoints_changed(self._configs, pairs):
            self._read_configs(pairs)

    def _read_configs(self, pairs: list[tuple[str, str]]) -> None:
        """Each by itself: a config that cannot be read hides no other's, and is tried again."""
        self.readers: dict[str, Any] = {}
        configs: dict[str, Any] = {}
        paths: dict[str, str] = {}
        for run, directory in pairs:
            try:
                self._configs, self.config_fpaths = self._read_latest_config_files(
                    [(run, directory)]
                )
                self._augment_configs_with_checkpoint_info()
            except Exception as error:  # of protobuf, numpy and TensorBoard's file system
                logger.warning("embeddings in %r cannot be shown: %s", directory, error)
                self._run_paths = {}
                continue
            configs.update(self._configs)
            paths.update(self.config_fpaths)
        self._configs, self.config_fpaths = configs, paths


def _has_config(directory: str) -> bool:
    name = metadata.PROJECTOR_FILENAME
    below = os.path.join(directory, metadata.PLUGINS_DIR, metadata.PLUGIN_ASSETS_NAME, name)
    return os.path.exists(os.path.join(directory, name)) or os.path.exists(below)
