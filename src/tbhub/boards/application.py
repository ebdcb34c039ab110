"""The one TensorBoard application of a process, which serves all its boards."""

from __future__ import annotations

import argparse
import logging
import re
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from google.protobuf.message import DecodeError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of libraries that TensorBoard brings along
    from tensorboard import default
    from tensorboard.backend import application
    from tensorboard.plugins import base_plugin
    from tensorboard.plugins.core import core_plugin
    from tensorboard.plugins.profile_redirect import profile_redirect_plugin

    from tbhub.boards.charts import Fragments
    from tbhub.boards.per_board import PerBoard
    from tbhub.boards.plugins import MetricsPlugin, ScalarsPlugin
    from tbhub.boards.profile import make_profile
    from tbhub.boards.projector import make_projector
    from tbhub.boards.provider import BoardProvider, Boards

# It warns of its own answers and of paths there are not: nothing for whoever runs a host.
logging.getLogger("tensorboard").setLevel(logging.ERROR)

# What TensorBoard's plugins raise over requests, and sometimes data, they did not expect.
_NOT_FORESEEN = (
    AttributeError,
    DecodeError,
    LookupError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
    re.error,
)

logger = logging.getLogger("tbhub")

# Reads a log directory of its own, which no board has.
_LEFT_OUT = {"DebuggerV2Plugin"}


class Application:
    """TensorBoard's WSGI application on our provider."""

    def __init__(self, boards: Boards, fragments: Fragments) -> None:
        self._per_board: list[PerBoard] = []
        own: dict[str, Any] = {
            "CorePluginLoader": core_plugin.CorePluginLoader(include_debug_info=False),
            "MetricsPlugin": _Made(lambda context: MetricsPlugin(context, fragments)),
            "ScalarsPlugin": _Made(lambda context: ScalarsPlugin(context, fragments)),
            "ProfileRedirectPluginLoader": _Made(self._profile),
        }
        plugins = []
        for plugin in default.get_static_plugins():
            name = plugin.__name__ if isinstance(plugin, type) else type(plugin).__name__
            if name not in _LEFT_OUT:
                plugins.append(own.pop(name, plugin))
        plugins.append(_Made(lambda context: self._keep(make_projector(context))))
        flags = argparse.Namespace(
            logdir="", logdir_spec="", path_prefix="", window_title="", samples_per_plugin={}
        )
        self._tensorboard = application.TensorBoardWSGIApp(flags, plugins, BoardProvider(boards))

    def wsgi(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answers a request, with a reason where a plugin only raises."""
        try:
            answer: Iterable[bytes] = self._tensorboard(environ, start_response)
            try:
                return list(answer)  # some plugins begin only now
            finally:
                if hasattr(answer, "close"):
                    answer.close()
        except _NOT_FORESEEN as error:
            path = environ["PATH_INFO"]
            logger.debug("%s %r failed", environ["REQUEST_METHOD"], path, exc_info=True)
            headers = [
                ("Content-Type", "text/plain; charset=utf-8"),
                ("X-Content-Type-Options", "nosniff"),
            ]
            start_response("400 Bad Request", headers)
            kind = type(error).__name__
            return [f"this cannot be answered: is a parameter wrong? ({kind})".encode()]

    def _profile(self, context: Any) -> Any:
        """The profile plugin, or TensorBoard's page that says how to install it."""
        plugin = self._keep(make_profile(context))
        return plugin or profile_redirect_plugin.ProfileRedirectPluginLoader().load(context)

    def _keep(self, plugin: PerBoard | None) -> PerBoard | None:
        if plugin is not None:
            self._per_board.append(plugin)
        return plugin

    def forget(self, board_id: str) -> None:
        """A board is gone."""
        for plugin in self._per_board:
            plugin.forget(board_id)


class _Made(base_plugin.TBLoader):  # type: ignore[misc]
    """Makes a plugin that wants more than TensorBoard would give it."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._make = make

    def load(self, context: Any) -> Any:
        return self._make(context)
