"""A board: a named, live selection of runs.

Runs come from sources, which are followed; the board gives them names and an order, adds the
virtual runs of groups, and tells its listeners when there is news. Any number of boards share one
follower and thereby one copy of the data.
"""

from __future__ import annotations

import functools
import operator
import os
import threading
import time
import weakref
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, cast

from tbhub.boards.grouping import Group, group_runs
from tbhub.boards.kinds import RunIndex
from tbhub.catalog.names import STAGES
from tbhub.catalog.templates import Namer, RunFields, clean_name, missing_warning
from tbhub.events.names import SESSION_START_TAG, is_event_file
from tbhub.series.cache import CacheLostError
from tbhub.series.column import Column, Part
from tbhub.series.file_content import Blob
from tbhub.series.follower import Follower, Root
from tbhub.series.run_log import RunLog, RunView
from tbhub.series.traffic import Traffic

if TYPE_CHECKING:
    from tbhub.series.bucket import RemoteFiles
    from tbhub.series.group import GroupBy

_SHOWN_NOTICES = 20
_SHOWN_TROUBLES = 5
_CHECKED_SOURCES = 1000


@dataclass(frozen=True)
class KnownRun:
    """What the hub knows of a directory below a source.

    Attributes:
        columns: What names and groups are made of.
        hparams: Given with the run.
        alone: It is about the directory itself; what lies below are others.
        hidden: It is not shown, and what lies below it is not, unless something nearer says so.
    """

    columns: Mapping[str, object] = field(default_factory=dict)
    hparams: Mapping[str, object] = field(default_factory=dict)
    alone: bool = False
    hidden: bool = False


_UNKNOWN = KnownRun()


@dataclass(frozen=True)
class Source:
    """Runs to show: a tree of runs or a single event file, of this machine or in a store."""

    path: str  # or a URI
    name: str = ""  # goes before the names of its runs
    columns: Mapping[str, object] = field(default_factory=dict)  # what is known of the run
    hparams: Mapping[str, object] = field(default_factory=dict)  # given with the run
    alone: bool = False  # one run: what lies below its directory are others
    # A place without a name of its own: what another source shows, or a place above, is not shown
    # again.
    place: bool = False
    # For the store of a URI; those of the environment if there are none. Shown to nobody.
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    # What is known of runs in a tree, by their paths relative to it; "." is the root.
    known: Mapping[str, KnownRun] = field(default_factory=dict, repr=False)

    def known_of(self, path: str) -> tuple[str, KnownRun]:
        """Return the entry nearest to a directory, at it or above it, and where that is."""
        if self.known:
            found = self.known.get(path)
            if found is not None:
                return path, found
            for each in _above(path):
                found = self.known.get(each)
                if found is not None and not found.alone:
                    return each, found
        return path, _UNKNOWN


@dataclass(frozen=True)
class BoardOptions:
    """How a board shows its runs."""

    title: str = ""
    template: str = ""
    group_by: str = ""
    hide_grouped: bool = False
    samples: int | None = None  # points of a series; TensorBoard's own number unless given
    requests_per_minute: int | None = None  # to stores, beyond which they are listed more seldom


@dataclass(frozen=True)
class Notice:
    """Something whoever looks at the board should know."""

    id: str
    text: str


@dataclass(frozen=True)
class Trouble:
    """A source that is missing or cannot be read.

    Attributes:
        problem: Why it cannot be read; empty for a path that does not exist, and may yet.
        place: It was named itself, and is not a run of the catalog.
        shown: It could be read before, and what was read is still shown.
    """

    path: str
    problem: str = ""
    place: bool = True
    shown: bool = False


class ShownRun(Protocol):
    """A run as a board shows it: one that was logged, or a line of a group."""

    name: str
    order: int

    @property
    def view(self) -> RunView: ...
    @property
    def tags(self) -> Collection[str]: ...
    @property
    def index(self) -> RunIndex: ...
    @property
    def stamp(self) -> Hashable: ...
    def points(self, tag: str) -> Part | None: ...
    def extent(self, tag: str) -> tuple[int, float]: ...
    def last(self, tag: str) -> tuple[int, float, float] | None: ...
    def longest(self, tag: str, blobs: Sequence[Blob], size_of: Callable[[Blob], int]) -> int: ...


class LoggedRun:
    """A run that was logged, under its name in a board."""

    def __init__(self, name: str, order: int, log: RunLog) -> None:
        self.name = name
        self.order = order
        self.log = log
        self._longest: dict[str, tuple[int, Blob, int]] = {}

    @property
    def view(self) -> RunView:
        """What the run holds now."""
        return self.log.view

    @property
    def tags(self) -> Collection[str]:
        """The tags with scalars."""
        return self.log.view.tags

    @property
    def index(self) -> RunIndex:
        """Its tags by what they are."""
        from tbhub.boards.run_index import index_of  # brings TensorBoard along

        return index_of(self.log.view)

    @property
    def stamp(self) -> Hashable:
        """Differs whenever its points do."""
        # Not an id, which is given again: what is kept by stamp may outlive the run.
        return (weakref.ref(self.log), self.log.view.version)

    def points(self, tag: str) -> Part | None:
        """Every point of a tag."""
        return self.log.view.points(tag)

    def extent(self, tag: str) -> tuple[int, float]:
        """The largest step and the latest wall time."""
        columns = self.log.view.columns(tag)
        return (
            max((column.max_step for column in columns), default=0),
            max((column.max_wall_time for column in columns), default=0.0),
        )

    def last(self, tag: str) -> tuple[int, float, float] | None:
        """The point logged last."""
        columns = self.log.view.columns(tag)
        if not columns:
            return None
        try:
            return _last_of(columns[-1])
        except CacheLostError:
            points = self.log.view.points(tag)  # which reads the run again
            return None if points is None else _last_of(points)

    def longest(self, tag: str, blobs: Sequence[Blob], size_of: Callable[[Blob], int]) -> int:
        """How many blobs its longest sequence has; only those that are new are looked into."""
        seen, last, longest = self._longest.get(tag, (0, None, 0))
        if seen and (seen > len(blobs) or blobs[seen - 1] != last):
            seen, longest = 0, 0  # the run was logged anew
        longest = max([longest, *map(size_of, blobs[seen:])])
        if blobs:
            self._longest[tag] = (len(blobs), blobs[-1], longest)
        return longest


def _last_of(column: Column) -> tuple[int, float, float]:
    _, _, step, wall_time = column.ends
    return step, wall_time, float(column.values[-1])


def _logged_hparams(log: RunLog) -> Mapping[str, object]:
    _, metadata = log.view.plugins.get(SESSION_START_TAG, ("", b""))
    return _hparams(metadata) if metadata else {}


@functools.lru_cache(maxsize=65536)
def _hparams(metadata: bytes) -> Mapping[str, object]:
    from tbhub.series.decode import hparams_from  # brings protobuf along

    try:
        return hparams_from(metadata)
    except Exception:  # protobuf's own DecodeError, by any implementation
        return {}


def _group_by(text: str) -> GroupBy | None:
    if not text:
        return None
    from tbhub.series.group import parse_group_by  # brings numpy along

    return parse_group_by(text)


@dataclass(eq=False)
class _Followed:
    source: Source
    number: int
    root: Root | None = None
    _shown: tuple[Source, Mapping[str, RunLog], Mapping[str, RunLog]] | None = None

    @property
    def runs(self) -> Mapping[str, RunLog]:
        """The runs of the source that are shown, by their paths."""
        if self.root is None:
            return {}
        source, runs, kept = self.source, self.root.runs, self._shown
        if not source.known:
            return runs
        if kept is None or kept[0] is not source or kept[1] is not runs:
            shown = {path: log for path, log in runs.items() if not source.known_of(path)[1].hidden}
            kept = self._shown = (source, runs, shown)
        return kept[2]

    def shows(self, place: str) -> bool:
        """Return whether a directory or URI of the source is not hidden."""
        inside = place[len(self.source.path.rstrip("/")) + 1 :]
        return not self.source.known_of(inside or ".")[1].hidden


class Board:
    """Shows the runs of its sources. May be used from any thread."""

    def __init__(self, board_id: str, follower: Follower, options: BoardOptions) -> None:
        self.id = board_id
        self.options = options
        self.samples = options.samples
        self.version = int(time.time() * 1000)  # grows, also from one start of the host to the next
        self.traffic = Traffic(options.requests_per_minute)
        self._follower = follower
        self._sources: list[_Followed] = []
        self._numbers = 0
        self._namer = Namer(options.template or "{path}")
        self._group_by = _group_by(options.group_by)
        self._listeners: set[Callable[[], None]] = set()
        self._lock = threading.RLock()
        self._version_lock = threading.Lock()
        self._orders: dict[str, int] = {}  # by key
        self._group_orders: dict[str, int] = {}  # by name
        self._shown: dict[str, LoggedRun] = {}  # by key
        self._runs: Mapping[str, ShownRun] = {}
        self._groups: dict[Hashable, Group] = {}
        self._group_warning: str | None = None
        self._built_from: _State | None = None
        self._unique: tuple[_State, list[tuple[_Followed, Mapping[str, RunLog]]]] | None = None
        self.given_hparams: Mapping[str, bytes] = {}

    # --- what the hub calls

    def add(self, source: Source) -> None:
        """Shows the runs of a source from now on."""
        with self._lock:
            followed = _Followed(source, self._numbers)
            self._numbers += 1
            self._sources.append(followed)
        root = self._follow(source)
        with self._lock:
            followed.root = root
            removed = followed not in self._sources
        if removed:  # while its tree was being listed
            self._follower.unfollow(root)
        self.changed()

    def _follow(self, source: Source) -> Root:
        return self._follower.follow(
            source.path,
            self.changed,
            alone=source.alone,
            credentials=source.credentials,
            traffic=self.traffic,
        )

    def remove(self, source: Source) -> bool:
        """Shows the runs of a source no longer; False if there is no such source."""
        with self._lock:
            found = next((each for each in self._sources if each.source == source), None)
            if found is None:
                return False
            self._sources.remove(found)
            root = found.root
        if root is not None:
            self._follower.unfollow(root)
        self.changed()
        return True

    def update(self, source: Source, now: Source) -> bool:
        """Knows something else of a source, which stays where it is; False if there is none."""
        with self._lock:
            found = next((each for each in self._sources if each.source == source), None)
            if found is None:
                return False
            found.source = now
            self._built_from = None
            if (now.name, now.columns) != (source.name, source.columns):
                self._rename(found.number)
            left = None
            if now.credentials != source.credentials:
                left, found.root = found.root, self._follow(now)
        if left is not None:
            self._follower.unfollow(left)
        self.changed()
        return True

    def _rename(self, number: int) -> None:
        """Names the runs of a source by what is known of it now."""
        for key in [key for key in self._shown if key.startswith(f"{number}:")]:
            del self._shown[key]
            self._namer.forget(key)

    def close(self) -> None:
        """Lets go of everything."""
        for followed in list(self._sources):
            self.remove(followed.source)

    @property
    def sources(self) -> list[Source]:
        """What it shows."""
        return [followed.source for followed in self._sources]

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls a listener, from any thread, when there is news; returns how to stop that."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def changed(self) -> None:
        """There is news."""
        with self._version_lock:
            self.version += 1
        self.tell()

    def tell(self) -> None:
        """Calls the listeners."""
        for listener in list(self._listeners):
            listener()

    # --- what is shown

    @property
    def title(self) -> str:
        """What the window is called."""
        return self.options.title

    @property
    def location(self) -> str:
        """Where the runs are."""
        return _text(", ".join(source.path for source in self.sources))

    @property
    def _logs(self) -> list[RunLog]:
        return [log for _, runs in self._shown_runs() for log in runs.values()]

    def _shown_runs(self) -> list[tuple[_Followed, Mapping[str, RunLog]]]:
        """Return the runs that are shown of each source, by their paths: each directory once."""
        sources = [each for each in list(self._sources) if each.root is not None]
        state = _State([each.runs for each in sources], 0)
        kept = self._unique
        if kept is None or not state.is_like(kept[0]):
            kept = self._unique = (state, _without_repeated(sources))
        return kept[1]

    @property
    def run_count(self) -> int:
        """How many runs were found, read or not."""
        return len(self._logs)

    @property
    def loading(self) -> tuple[int, int]:
        """How many runs have been read, of how many; a place that is not listed yet is one."""
        logs = self._logs
        roots = [each.root for each in list(self._sources)]
        unlisted = sum(root is None or not root.is_listed for root in roots)
        return sum(log.version > 0 for log in logs), len(logs) + unlisted

    @property
    def unanswered(self) -> str:
        """Return a source that was neither listed nor failed to be; empty if there is none."""
        for each in list(self._sources):
            if each.root is None or not each.root.is_listed:
                return _text(each.source.path)
        return ""

    @property
    def has_data(self) -> bool:
        """Whether anything has been logged; the record every file begins with is nothing."""
        return any(
            content.columns or content.blobs for log in self._logs for content in log.view.contents
        )

    @property
    def runs(self) -> Mapping[str, ShownRun]:
        """The runs by name, in the order they were added."""
        if not self._state().is_like(self._built_from):
            with self._lock:
                state = self._state()
                if not state.is_like(self._built_from):
                    self._build()
                    self._built_from = state
        return self._runs

    def directories(self) -> dict[str, str]:
        """Where the files of runs of this machine are, for plugins that read some of their own."""
        found = {}
        for name, run in self.runs.items():
            if isinstance(run, LoggedRun) and not run.log.files.is_remote:
                path = run.log.path
                found[name] = path if os.path.isdir(path) else os.path.dirname(path)
        return found

    def remote_runs(self) -> dict[str, RemoteFiles]:
        """The runs whose files are in a store."""
        found = {}
        for name, run in self.runs.items():
            if isinstance(run, LoggedRun) and run.log.files.is_remote:
                found[name] = cast("RemoteFiles", run.log.files)
        return found

    @property
    def _wants_hparams(self) -> bool:
        """Whether names or groups need what comes with the data only."""
        return bool(self.options.template) or self._group_by is not None

    def _state(self) -> _State:
        roots = [each.runs for each in list(self._sources) if each.root is not None]
        return _State(roots, self.version if self._wants_hparams else 0)

    def _build(self) -> None:
        entries = self._entries()
        whole = not self.options.template
        keys = {entry.key for entry in entries}
        for key in [key for key in self._orders if key not in keys]:
            del self._orders[key]
            self._shown.pop(key, None)
            self._namer.forget(key)
        # All have their place at once, so that it does not depend on which is read first.
        fresh = [entry for entry in entries if entry.key not in self._orders]
        for entry in sorted(fresh, key=lambda entry: (entry.log.started, entry.whole_path)):
            self._orders[entry.key] = self._next_order()
        entries.sort(key=lambda entry: self._orders[entry.key])
        if self._wants_hparams:
            entries = [entry for entry in entries if entry.log.version > 0]
        for entry in entries:
            shown = self._shown.get(entry.key)
            if shown is None or shown.log is not entry.log:  # deleted and logged anew
                name = self._namer.name(entry.fields(whole))
                self._shown[entry.key] = LoggedRun(name, self._orders[entry.key], entry.log)
        runs: dict[str, ShownRun] = {}
        if self._group_by is None or not self.options.hide_grouped:
            runs.update((self._shown[entry.key].name, self._shown[entry.key]) for entry in entries)
        if self._group_by is not None:
            members = [(entry.fields(whole), self._shown[entry.key]) for entry in entries]
            taken = {run.name for run in self._shown.values()}
            grouped = group_runs(self._group_by, members, taken, self._group_order, self._groups)
            self._group_warning = grouped.warning()
            runs.update(grouped.runs)
            if self.options.hide_grouped:
                runs.update((run.name, run) for run in grouped.left_out)
        self._runs = dict(sorted(runs.items(), key=lambda item: item[1].order))
        self.given_hparams = self._given()

    def _entries(self) -> list[_Entry]:
        found: list[_Entry] = []
        for each, runs in self._shown_runs():
            siblings = _Siblings(each.runs)
            found += (_Entry(each, path, log, siblings) for path, log in runs.items())
        return found

    def _next_order(self) -> int:
        self._numbers += 1
        return self._numbers

    def _group_order(self, name: str) -> int:
        if name not in self._group_orders:
            self._group_orders[name] = self._next_order()
        return self._group_orders[name]

    def _given(self) -> Mapping[str, bytes]:
        """Sessions of hyperparameters given with a source, under the name its runs begin with."""
        found: dict[str, bytes] = {}
        for each in self._sources:
            if not each.source.hparams and not each.source.known:
                continue
            from tbhub.boards.hparams import session_start  # brings TensorBoard along

            if each.source.known:
                for path, log in each.runs.items():
                    hparams = each.source.known_of(path)[1].hparams
                    run = self._shown.get(f"{each.number}:{log.path}") if hparams else None
                    if run is not None:
                        found[run.name] = session_start(hparams)
                continue
            content = session_start(each.source.hparams)
            if each.source.name and not self.options.template:
                found[clean_name(each.source.name)] = content
                continue
            for key, run in self._shown.items():
                if key.startswith(f"{each.number}:"):
                    found[run.name] = content
        return found

    # --- what whoever looks should know

    def roots(self) -> list[tuple[Source, Root | None]]:
        """Return the sources and what is followed for each."""
        return [(each.source, each.root) for each in list(self._sources)]

    def troubles(self) -> list[Trouble]:
        """Return the first few sources that cannot be read as a whole, then those missing."""
        found: list[Trouble] = []
        for source, root in self.roots()[:_CHECKED_SOURCES]:
            if root is None:
                continue
            problem = root.problems.get(root.path, "")
            if problem or root.is_missing:
                place = "run" not in source.columns
                found.append(Trouble(_text(source.path), problem, place, bool(root.runs)))
        return sorted(found, key=lambda each: not each.problem)[:_SHOWN_TROUBLES]

    def notices(self) -> list[Notice]:
        """What was skipped, cannot be read or is missing."""
        found: list[Notice] = []
        for each in list(self._sources):
            if each.root is None:
                continue
            for path, reason in each.root.problems.items():
                if not each.shows(path):
                    continue
                found.append(Notice(f"unreadable {path}", f"{path} cannot be read: {reason}"))
        with self._lock:
            _ = self.runs
            shown = list(self._shown.values())
            named = self._namer.named() if self.options.template else None
            group_warning = self._group_warning
        for run in shown:
            view = run.view
            damages = sum(view.damage_counts.values())
            if damages:
                text = f"{run.name}: {damages:,} damaged place{'s' * (damages > 1)} skipped"
                found.append(Notice(f"damaged {run.name} {damages}", f"{text} (see tbhub check)"))
            for path, reason in view.problems.items():
                text = f"{run.name}: {os.path.basename(path)} cannot be read: {reason}"
                found.append(Notice(f"unreadable {path}", text))
        if named is not None:
            paths = {
                name: tuple(key.partition(":")[2] for key in keys)
                for name, keys in named.missing.items()
            }
            warning = missing_warning(replace(named, missing=paths))
            if warning:
                found.append(Notice("template", warning))
        done, total = self.loading
        if group_warning and done == total:  # a run that is not read yet may have the field
            found.append(Notice("group_by", group_warning))
        problem = self._follower.cache.problem
        if problem is not None:
            text = f"the cache of columns cannot be written: {problem.strerror or problem}"
            found.append(Notice("cache", text))
        if len(found) > _SHOWN_NOTICES:
            more = len(found) - _SHOWN_NOTICES
            found = [*found[:_SHOWN_NOTICES], Notice(f"more {more}", f"… and {more:,} more")]
        return [Notice(_text(notice.id), _text(notice.text)) for notice in found]


def _without_repeated(sources: list[_Followed]) -> list[tuple[_Followed, Mapping[str, RunLog]]]:
    """Return the runs of each source, a directory that is below several places only once.

    What a source that is no place shows is not shown by places; of several places the outermost
    shows a directory.
    """
    found = {each: each.runs for each in sources}
    places = [each for each in sources if each.source.place]
    if not places or len(sources) == 1:
        return list(found.items())
    real = _RealPaths()
    shown = {
        real.of(log) for each in sources if not each.source.place for log in each.runs.values()
    }
    for each in sorted(places, key=lambda each: (real.depth(each.source.path), each.number)):
        mine = {path: real.of(log) for path, log in each.runs.items()}
        # An event file may be a place, and is part of the run that is its directory.
        found[each] = {
            path: log
            for path, log in each.runs.items()
            if mine[path] not in shown
            and not (is_event_file(mine[path]) and os.path.dirname(mine[path]) in shown)
        }
        shown.update(mine.values())
    return list(found.items())


class _RealPaths:
    """Where runs are, without links. Directories above them are looked at once."""

    def __init__(self) -> None:
        self._directories: dict[str, str] = {}

    def of(self, log: RunLog) -> str:
        """Return the real path of a run of this machine; the URI of one in a store."""
        if log.files.is_remote:
            return log.path
        if os.path.islink(log.path):
            return _real_path(log.path)
        above, name = os.path.split(log.path)
        if above not in self._directories:
            self._directories[above] = _real_path(above)
        return os.path.join(self._directories[above], name)

    def depth(self, path: str) -> int:
        """Return how many directories the real path of a place has."""
        return path.count("/") if "://" in path else _real_path(path).count("/")


def _real_path(path: str) -> str:
    """Return a path without links, or the path as it is written if it cannot be resolved."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # a link that may not be read, as /proc/1/root
        return path


def _text(text: str) -> str:
    """Without what stands for the bytes of undecodable file names, which JSON refuses."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


@dataclass(frozen=True)
class _State:
    """What names and groups of runs were made from."""

    roots: list[Mapping[str, RunLog]]  # themselves, not their ids, which would be given again
    version: int

    def is_like(self, other: _State | None) -> bool:
        return (
            other is not None
            and self.version == other.version
            and len(self.roots) == len(other.roots)
            and all(map(operator.is_, self.roots, other.roots))
        )


class _Entry:
    """A run of a source, about to be named."""

    def __init__(self, followed: _Followed, path: str, log: RunLog, siblings: _Siblings) -> None:
        self.source = followed.source
        self.path = path
        self.log = log
        self.key = f"{followed.number}:{log.path}"
        self._followed = followed
        self._siblings = siblings

    @property
    def whole_path(self) -> str:
        """Its path with the name of its source."""
        plain = "" if self.path == "." else self.path
        return "/".join(filter(None, (self.source.name, plain))) or "."

    def fields(self, whole: bool) -> RunFields:
        """What its name can be made of; `{run}` is the whole path where there is no template."""
        source = self.source
        plain = "" if self.path == "." else self.path
        columns: dict[str, object] = {
            "workspace": os.path.basename(os.path.abspath(source.path)) or "/"
        }
        at, known = source.known_of(self.path)
        given, is_alone = source.columns, source.alone
        if known.columns:
            given, is_alone = known.columns, known.alone
        if "run" in given:  # known to be one run; what lies below are its parts
            place = source.path.rstrip("/")
            if not known.columns or at == ".":
                columns["logdir"], owner = plain, place
            else:
                columns["logdir"], owner = plain[len(at) + 1 :], f"{place}/{at}"
        else:
            run, logdir = split_logdir(plain, self._siblings.runs)
            prefix = f"{source.name}/" if source.name else ""
            columns["run"], columns["logdir"] = (prefix + run).rstrip("/") or ".", logdir
            owner = f"{self._followed.number}:{run}"
        columns["path"] = self.whole_path
        columns.update(given)
        above, _, last = str(given.get("run", "")).rpartition("/")
        if is_alone and above and last in STAGES:  # a part that is known as a run of its own
            columns["run"], columns["logdir"] = above, last
            owner = os.path.dirname(owner)
        if whole:
            columns["run"] = columns["path"]
        hparams = {**self._siblings.hparams_of(self.path), **source.hparams, **known.hparams}
        return RunFields(columns, hparams, self.key, owner)


class _Siblings:
    """The runs of a source, and which hyperparameters each goes by."""

    def __init__(self, runs: Mapping[str, RunLog]) -> None:
        self.runs = runs

    @functools.cached_property
    def _logged(self) -> dict[str, Mapping[str, object]]:
        """By the path of the run that has logged them."""
        found = {path: _logged_hparams(log) for path, log in self.runs.items()}
        return {path: hparams for path, hparams in found.items() if hparams}

    @functools.cached_property
    def _below(self) -> dict[str, list[Mapping[str, object]]]:
        """Of all runs below a path."""
        found: dict[str, list[Mapping[str, object]]] = {}
        for path, hparams in self._logged.items():
            for above in _above(path):
                found.setdefault(above, []).append(hparams)
        return found

    def hparams_of(self, path: str) -> Mapping[str, object]:
        """Logged by the run itself, by one above it, or by the only one below it."""
        for each in (path, *_above(path)):
            if each in self._logged:
                return self._logged[each]
        below = self._below.get(path, [])
        return below[0] if len(below) == 1 else {}


def _above(path: str) -> Iterator[str]:
    """What a path lies in, the nearest first, the root last."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
    if path != ".":
        yield "."


def split_logdir(path: str, runs: Mapping[str, object]) -> tuple[str, str]:
    """A run's path as the run and its sub-directory: ``exp/train`` is ``train`` of ``exp``.

    The last part is a sub-directory when it is one of the usual names, or when what it lies in is
    itself a run.
    """
    above, slash, last = path.rpartition("/")
    if slash and (last in STAGES or above in runs):
        return above, last
    return path, ""
