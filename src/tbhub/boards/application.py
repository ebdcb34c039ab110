"""The one TensorBoard application of a process, which serves all its boards."""

from __future__ import annotations

import argparse
import warnings
from typing import Any

from tbhub.boards.provider import BoardProvider, Boards

# These read log directories themselves and know of no boards.
_LEFT_OUT = {"DebuggerV2Plugin", "ProjectorPlugin", "MetricsPlugin", "ScalarsPlugin"}


class Application:
    """TensorBoard's WSGI application on our provider."""

    def __init__(self, boards: Boards) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of libraries that TensorBoard brings along
            from tensorboard import default
            from tensorboard.backend import application
            from tensorboard.plugins import base_plugin
            from tensorboard.plugins.core import core_plugin

        from tbhub.boards.plugins import Fragments, MetricsPlugin, ScalarsPlugin
        from tbhub.boards.projector import ProjectorPlugin

        fragments = Fragments()
        projector: list[ProjectorPlugin] = []

        class Made(base_plugin.TBLoader):  # type: ignore[misc]
            """Makes a plugin that wants more than TensorBoard would give it."""

            def __init__(self, make: Any) -> None:
                self._make = make

            def load(self, context: Any) -> Any:
                return self._make(context)

        def make_projector(context: Any) -> ProjectorPlugin:
            projector.append(ProjectorPlugin(context))
            return projector[0]

        own = {
            "MetricsPlugin": Made(lambda context: MetricsPlugin(context, fragments)),
            "ScalarsPlugin": Made(lambda context: ScalarsPlugin(context, fragments)),
            "ProjectorPlugin": Made(make_projector),
            "CorePluginLoader": core_plugin.CorePluginLoader(include_debug_info=False),
        }
        plugins = []
        for plugin in default.get_plugins():
            name = plugin.__name__ if isinstance(plugin, type) else type(plugin).__name__
            if name in own:
                plugins.append(own[name])
            elif name not in _LEFT_OUT:
                plugins.append(plugin)
        flags = argparse.Namespace(
            logdir="",
            logdir_spec="",
            path_prefix="",
            window_title="",
            samples_per_plugin={},
            load_fast="false",
        )
        self.wsgi = application.TensorBoardWSGIApp(flags, plugins, BoardProvider(boards))
        self._projector = projector[0]

    def forget(self, board_id: str) -> None:
        """A board is gone."""
        self._projector.forget(board_id)
