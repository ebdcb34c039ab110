"""TensorBoard's own application over a log directory, in this process: the oracle of boards.

Every point is kept and none is sampled, so that what it answers follows from the files alone.
"""

from __future__ import annotations

import argparse
import io
import os
import traceback
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tensorboard.backend.event_processing import data_provider, io_wrapper, tag_types
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from werkzeug.test import Client, TestResponse

with warnings.catch_warnings():  # its copy of html5lib is deprecated
    warnings.simplefilter("ignore", DeprecationWarning)
    from tensorboard import default
    from tensorboard.backend import application
    from tensorboard.plugins.debugger_v2.debugger_v2_plugin import DebuggerV2Plugin

Answer = tuple[int, str, bytes]
"""Status, content type and body."""
Fields = Mapping[str, str | Sequence[str]]

# 0 would keep everything in the reservoirs, but makes the plugins answer nothing.
NO_SAMPLING = dict.fromkeys(
    ["scalars", "images", "audio", "histograms", "pr_curves", "text", "mesh", "tensors"], 10**9
)


class Stock:
    """Stock TensorBoard with its default plugins but the debugger, loaded when it is made."""

    def __init__(self, logdir: Path | str) -> None:
        # Tensors are all there is: every kind of data is one when it has been read. 0: keep all.
        multiplexer = EventMultiplexer(size_guidance={tag_types.TENSORS: 0})
        # As AddRunsFromDirectory, but by name: the order of the file system shows in the HParams.
        for directory in sorted(io_wrapper.GetLogdirSubdirectories(str(logdir))):
            multiplexer.AddRun(directory, os.path.relpath(directory, logdir))
        multiplexer.Reload()
        flags = argparse.Namespace(
            logdir=str(logdir),
            logdir_spec="",
            path_prefix="",
            window_title="",
            samples_per_plugin=NO_SAMPLING,
        )
        self.application = application.TensorBoardWSGIApp(
            flags,
            [plugin for plugin in default.get_plugins() if plugin is not DebuggerV2Plugin],
            data_provider.MultiplexerDataProvider(multiplexer, str(logdir)),
            _no_assets,
        )
        self._client = Client(self.application)

    def get(self, path: str, /, **query: str | Sequence[str]) -> Answer:
        """What a GET is answered; a list sends its parameter several times."""
        return self._answer("GET", path, query_string=query)

    def post(self, path: str, form: Fields | str, /) -> Answer:
        """What a POST is answered: fields as a browser's FormData, or a body of JSON."""
        if isinstance(form, str):
            return self._answer("POST", path, data=form, content_type="application/json")
        return self._answer("POST", path, data=form, content_type="multipart/form-data")

    def _answer(self, method: str, path: str, **options: Any) -> Answer:
        try:
            response: TestResponse = self._client.open(path, method=method, **options)
        except Exception:  # what the plugins let through, its server would turn into a 500
            return 500, "text/plain", traceback.format_exc().encode()
        with response:
            return response.status_code, response.content_type or "", response.get_data()


def _no_assets() -> io.BytesIO:
    """The page without its scripts, which take a quarter of a second to compress."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as assets:
        assets.writestr("index.html", "")
    file.seek(0)
    return file
