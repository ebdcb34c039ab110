"""Files of runs in buckets that TensorBoard's plugins read themselves, copied to where they can.

Only what a plugin is about to read is copied: the embeddings that a config names, the profile that
is looked at. A copy is written beside its place and renamed, and written again when the object has
another version. All copies of a process lie below one temporary directory; when they take too much,
those of the run that was asked for longest ago go first.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import tempfile
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tbhub.series.parted_file import Part, Span
from tbhub.storage.errors import BadName
from tbhub.storage.uri import file_name

if TYPE_CHECKING:
    from tbhub.series.bucket import RemoteFiles

PROFILES = "plugins/profile"
_CONFIG = "projector_config.pbtxt"
_NAMED = re.compile(r'_path\s*:\s*"((?:[^"\\]|\\.)*)"')
_LIMIT = 2 << 30
_PIECE = 8 << 20
_LOOK_SECONDS = 30.0  # what a config names is listed again after so long


@functools.cache
def copies() -> Copies:
    """Those of this process."""
    return Copies(_LIMIT)


class Copies:
    """Copies of objects below a temporary directory, within a limit of bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._directory = tempfile.mkdtemp(prefix="tbhub-assets-")
        weakref.finalize(self, shutil.rmtree, self._directory, ignore_errors=True)
        self._runs: OrderedDict[str, dict[str, Part]] = OrderedDict()  # by directory: what is there
        self._looked: dict[str, tuple[Part, float, dict[str, Part]]] = {}
        self._lock = threading.Lock()

    def directory(self, run: RemoteFiles) -> str:
        """Where the copies of a run's files are, or would be."""
        name = hashlib.sha256(f"{id(run.bucket)} {run.directory}".encode()).hexdigest()[:32]
        return os.path.join(self._directory, name)

    def embeddings(self, run: RemoteFiles) -> str:
        """The directory of a run with its projector configs, and what these name.

        Raises:
            StoreError: They cannot be read.
        """
        with self._lock:
            for config in configs(run):
                self._bring(run, [config])
                text = self._text(run, config)
                above = config.name.rpartition("/")[0]
                named = {f"{above}/{each}".lstrip("/") for each in _NAMED.findall(text)}
                there = self._beside(run, config, above)
                self._bring(run, [part for name, part in there.items() if name in named])
        return self.directory(run)

    def profile(self, run: RemoteFiles, name: str) -> str:
        """The directory of one of a run's profiles.

        Raises:
            StoreError: It cannot be read.
        """
        below = _joined(run.directory, PROFILES, name)
        with self._lock:
            assets = dict(run.bucket.objects.assets)
            for directory in run.bucket.objects.below(below, assets):
                self._bring(run, assets[directory].values())
        return os.path.join(self.directory(run), PROFILES, name)

    def _text(self, run: RemoteFiles, config: Part) -> str:
        with open(self._place(run, config), encoding="utf-8", errors="replace") as file:
            return file.read()

    def _beside(self, run: RemoteFiles, config: Part, above: str) -> dict[str, Part]:
        """What lies in the directory of a config and below, listed every now and then."""
        known = self._looked.get(config.name)
        now = time.monotonic()
        if known is None or known[0] != config or now - known[1] > _LOOK_SECONDS:
            found = {entry.path: Part(*entry) for entry in run.bucket.list_once(run.key, above)}
            known = self._looked[config.name] = (config, now, found)
        return known[2]

    def _bring(self, run: RemoteFiles, parts: Iterable[Part]) -> None:
        directory = self.directory(run)
        there = self._runs.setdefault(directory, {})
        self._runs.move_to_end(directory)
        for part in parts:
            if there.get(part.name) == part:
                continue
            try:
                place = self._place(run, part)
            except BadName:
                continue  # no file can be called that
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(f"{place}.part", "wb") as file:
                spans = [
                    Span(part.name, at, min(_PIECE, part.size - at))
                    for at in range(0, part.size, _PIECE)
                ]
                file.writelines(run.bucket.read(run.key, spans))
            os.replace(f"{place}.part", place)
            there[part.name] = part
        self._shrink()

    def _place(self, run: RemoteFiles, part: Part) -> str:
        inside = part.name[len(run.directory) :].lstrip("/")
        return os.path.join(self.directory(run), file_name(inside))

    def _shrink(self) -> None:
        while self._bytes() > self._limit and len(self._runs) > 1:
            directory, _ = self._runs.popitem(last=False)
            shutil.rmtree(directory, ignore_errors=True)

    def _bytes(self) -> int:
        return sum(part.size for run in self._runs.values() for part in run.values())


def configs(run: RemoteFiles) -> list[Part]:
    """The projector configs of a run that have been listed."""
    assets = run.bucket.objects.assets
    places = (run.directory, _joined(run.directory, "plugins/org_tensorflow_tensorboard_projector"))
    return [assets[each][_CONFIG] for each in places if _CONFIG in assets.get(each, {})]


def profiles(run: RemoteFiles) -> list[str]:
    """The names of a run's profiles that have been listed."""
    above = _joined(run.directory, PROFILES)
    below = run.bucket.objects.below(above, dict(run.bucket.objects.assets))
    names = (directory[len(above) + 1 :].partition("/")[0] for directory in below)
    return sorted({name for name in names if name})


def _joined(*parts: str) -> str:
    return "/".join(filter(None, parts))
