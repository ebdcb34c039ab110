"""What is known of the objects of a bucket, from one listing to the next.

A listing may be stale: show an object as it was, or not yet. What is known to be longer or newer is
therefore kept for a while; only what later listings still say is believed. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tbhub.events.names import is_event_file
from tbhub.series.parted_file import Part
from tbhub.storage.store import Entry

GRACE_SECONDS = 10.0

Folder = dict[str, Part]  # event files by name


class Objects:
    """The event files of each directory, and the assets that dashboards read."""

    def __init__(self) -> None:
        self.folders: dict[str, Folder] = {}
        self.assets: dict[str, Folder] = {}
        self._doubts: dict[str, dict[str, float]] = {}  # by directory and name: since when

    @property
    def in_doubt(self) -> bool:
        """Whether another listing has to tell."""
        return bool(self._doubts)

    def take(self, prefix: str, entries: Iterable[Entry], now: float) -> set[str]:
        """What is below a prefix, as it was listed; returns the directories that have changed."""
        events: dict[str, Folder] = {}
        assets: dict[str, Folder] = {}
        for entry in entries:
            directory, _, name = entry.path.rpartition("/")
            if is_event_file(name):
                events.setdefault(directory, {})[name] = Part(*entry)
            elif is_asset(entry.path):
                assets.setdefault(directory, {})[name] = Part(*entry)
        for directory in list(self.below(prefix, self.assets)):
            if directory not in assets:
                del self.assets[directory]
        self.assets.update(assets)
        changed = set()
        for directory in {*self.below(prefix, self.folders), *events}:
            known, found = self.folders.get(directory, {}), events.get(directory, {})
            if known == found:
                self._doubts.pop(directory, None)
                continue
            believed = self._believed(directory, known, found, now)
            if believed == known:
                continue
            changed.add(directory)
            if believed:
                self.folders[directory] = believed
            else:
                del self.folders[directory]
        return changed

    def forget(self, prefix: str) -> None:
        """Nobody wants to know any more what is below a prefix."""
        for kept in (self.folders, self.assets):
            for directory in list(self.below(prefix, kept)):
                del kept[directory]
        for directory in [each for each in self._doubts if is_below(each, prefix)]:
            del self._doubts[directory]

    @staticmethod
    def below(prefix: str, folders: dict[str, Folder]) -> Iterator[str]:
        """The directories at and below a prefix."""
        return (directory for directory in folders if is_below(directory, prefix))

    def _believed(self, directory: str, known: Folder, found: Folder, now: float) -> Folder:
        believed = dict(found)
        doubts = self._doubts.pop(directory, {})
        still: dict[str, float] = {}
        for name, was in known.items():
            part = found.get(name)
            if part is None or _is_older(part, was):
                since = doubts.get(name, now)
                if now - since < GRACE_SECONDS:
                    believed[name] = was
                    still[name] = since
        if still:
            self._doubts[directory] = still
        return believed


def _is_older(part: Part, known: Part) -> bool:
    if (part.size, part.version) == (known.size, known.version):
        return False
    return part.modified < known.modified or (
        part.modified == known.modified and part.size < known.size
    )


def is_below(directory: str, prefix: str) -> bool:
    """Whether a directory is one, or lies in it."""
    return not prefix or directory == prefix or directory.startswith(f"{prefix}/")


def is_asset(path: str) -> bool:
    """Whether a dashboard reads the object itself: embeddings, profiles."""
    return path.endswith("projector_config.pbtxt") or "/plugins/profile/" in f"/{path}"
