"""The profile plugin (``pip install tensorboard-plugin-profile``), where it is installed.

It would open any directory named in a request, and write to the log directory. Here it sees the
profiles of its board's runs, and nothing else.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from importlib.metadata import entry_points
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tbhub.boards.board import Board
from tbhub.boards.copies import copies, profiles
from tbhub.boards.per_board import PerBoard

if TYPE_CHECKING:
    from tbhub.series.bucket import RemoteFiles

_REFUSED = {
    "/capture_profile": "a board shows profiles and takes none: it would have to write to the logs",
    "/generate_cache": "a board writes nothing to the logs",
}
_PROFILES = os.path.join("plugins", "profile")

logger = logging.getLogger("tbhub")


def make_profile(context: Any) -> PerBoard | None:
    """The installed profile plugin, one for each board; None where there is none that works."""
    loader = _installed()
    if loader is None:
        return None
    for talkative in ("tensorboard.plugins.profile", "tensorboard-plugin-profile"):
        logging.getLogger(talkative).setLevel(logging.WARNING)
    alone = _alone(context)
    template = loader.load(alone)
    if template is None or not hasattr(template, "generate_runs"):
        return None
    kind = _for_boards(type(template))
    refused = {route: why for route, why in _REFUSED.items() if route in template.get_plugin_apps()}
    return PerBoard(context.data_provider, template, lambda board: kind(alone, board), refused)


def _installed() -> Any:
    for entry in entry_points(group="tensorboard_plugins", name="profile"):
        try:
            return entry.load()()
        except Exception as error:  # a plugin that does not fit must not take the boards down
            logger.warning("the profile plugin cannot be loaded: %s", error)
    return None


def _alone(context: Any) -> Any:
    """A context without a log directory, and with the flag that the plugin wants."""
    flags = SimpleNamespace(**vars(context.flags), master_tpu_unsecure_channel="")
    return SimpleNamespace(
        logdir="",
        data_provider=context.data_provider,
        flags=flags,
        multiplexer=None,
        hide_capture_profile_button=True,
    )


def _for_boards(plugin: type[Any]) -> type[Any]:
    class BoardProfiles(plugin):  # type: ignore[misc]
        """Finds profiles in the directories of one board's runs."""

        def __init__(self, context: Any, board: Board) -> None:
            super().__init__(context)
            self._board = board
            self._remote: dict[str, tuple[RemoteFiles, str]] = {}

        def generate_runs(self) -> Iterator[str]:
            for run, directory in self._board.directories().items():
                for name in _profiles_in(directory):
                    shown = name if run == "." else f"{run}/{name}"
                    self._run_to_profile_run_dir[shown] = os.path.join(directory, _PROFILES, name)
                    yield shown
            for run, files in self._board.remote_runs().items():
                for name in profiles(files):
                    shown = name if run == "." else f"{run}/{name}"
                    self._remote[shown] = (files, name)
                    yield shown

        def _run_dir(self, run: str, request: Any = None) -> str:
            known: dict[str, str] = self._run_to_profile_run_dir
            if run not in known and run not in self._remote:
                list(self.generate_runs())
            if run in self._remote:
                return copies().profile(*self._remote[run])
            return known[run]

        def _session_dir_by_run_name_from_request(self, request: Any = None) -> None:
            """Never: a request may name no directory."""

    return BoardProfiles


def _profiles_in(directory: str) -> list[str]:
    try:
        with os.scandir(os.path.join(directory, _PROFILES)) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []
