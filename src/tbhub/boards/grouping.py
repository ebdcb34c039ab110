"""Groups of runs as virtual runs: their mean, spread and extremes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tbhub.boards.kinds import About, RunIndex
from tbhub.catalog.templates import RunFields, clean_name, printable
from tbhub.series.column import Part
from tbhub.series.file_content import Blob
from tbhub.series.run_log import RunView

if TYPE_CHECKING:
    from tbhub.boards.board import LoggedRun
    from tbhub.series.group import Band, GroupBy, Key

LINES = ("mean", "+std", "-std", "min", "max")
_KEPT_BANDS = 64  # tags of a group whose statistics are remembered
_MAX_LISTED = 12  # fields in a warning
_HPARAMS = "hparams."


class Group:
    """Runs that belong together; their statistics are made when looked at and kept until news."""

    def __init__(self, members: Sequence[LoggedRun]) -> None:
        self.members = tuple(members)
        self._bands: dict[str, tuple[Hashable, Band]] = {}
        self._lock = threading.Lock()

    @property
    def stamp(self) -> Hashable:
        """Differs whenever the points of a member do."""
        return tuple(member.stamp for member in self.members)

    def tags(self) -> set[str]:
        """The tags at least one member has."""
        return set().union(*(member.view.tags for member in self.members))

    def band(self, tag: str) -> Band | None:
        """The statistics of a tag."""
        stamp = self.stamp
        with self._lock:
            known = self._bands.get(tag)
            if known is not None and known[0] == stamp:
                return known[1]
        series = [points for member in self.members if (points := member.points(tag)) is not None]
        if not series:
            return None
        from tbhub.series.group import aggregate  # brings numpy along

        band = aggregate([(part.steps, part.wall_times, part.values) for part in series])
        with self._lock:
            self._bands.pop(tag, None)
            self._bands[tag] = (stamp, band)
            while len(self._bands) > _KEPT_BANDS:
                del self._bands[next(iter(self._bands))]
        return band


class GroupedRun:
    """One line of a group, shown like a run."""

    def __init__(self, name: str, order: int, group: Group, line: str) -> None:
        self.name = name
        self.order = order
        self._group = group
        self._line = line
        self._index: tuple[Hashable, RunIndex] | None = None

    @property
    def view(self) -> RunView:
        """Of a member: a group has nothing but scalars."""
        return self._group.members[0].view

    @property
    def tags(self) -> Collection[str]:
        """The tags of its members."""
        return self.index.scalars

    @property
    def index(self) -> RunIndex:
        """The tags of its members."""
        stamp = self._group.stamp
        if self._index is None or self._index[0] != stamp:
            tags = self._group.tags()
            index = self._index[1] if self._index else RunIndex()
            if tags != index.scalars.keys():
                scalars = {tag: About(display_name=tag) for tag in sorted(tags)}
                index = RunIndex(scalars, {}, frozenset({"scalars"} if tags else ()))
            self._index = (stamp, index)
        return self._index[1]

    @property
    def stamp(self) -> Hashable:
        """Differs whenever its points do."""
        return (self._line, self._group.stamp)

    def points(self, tag: str) -> Part | None:
        """The line for a tag."""
        band = self._group.band(tag)
        if band is None or len(band.steps) == 0:
            return None
        return Part(band.steps, band.wall_times, band.lines()[self._line])

    def extent(self, tag: str) -> tuple[int, float]:
        """The largest step and the latest wall time."""
        extents = [member.extent(tag) for member in self._group.members]
        return max(step for step, _ in extents), max(time for _, time in extents)

    def last(self, tag: str) -> tuple[int, float, float] | None:
        """The last point of the line."""
        points = self.points(tag)
        if points is None:
            return None
        _, _, step, wall_time = points.ends
        return step, wall_time, float(points.values[-1])

    def longest(self, tag: str, blobs: Sequence[Blob], size_of: Callable[[Blob], int]) -> int:
        """A group has no blobs."""
        return 0


@dataclass(frozen=True)
class Grouped:
    """Virtual runs by name, and the runs that belong to no group.

    Attributes:
        unknown: The fields of ``--group-by`` that no run has; empty if there are no runs.
        known: The fields that runs have.
    """

    runs: dict[str, GroupedRun]
    left_out: list[LoggedRun]
    unknown: tuple[str, ...] = ()
    known: tuple[str, ...] = ()

    def warning(self) -> str | None:
        """Return one line about the fields that no run has, or None if there are none."""
        if not self.unknown:
            return None
        fields = f"field{'s' * (len(self.unknown) > 1)}"
        listed = ", ".join(self.known[:_MAX_LISTED]) or "none"
        more = ", …" if len(self.known) > _MAX_LISTED else ""
        return printable(
            f"no run has the {fields} {', '.join(self.unknown)} of --group-by"
            f" (there are {listed}{more})"
        )


def group_runs(
    by: GroupBy,
    members: Iterable[tuple[RunFields, LoggedRun]],
    taken: set[str],
    order: Callable[[str], int],
    known: dict[Hashable, Group],
) -> Grouped:
    """Puts runs into groups; a run's sub-directories (train, test) are grouped apart.

    Names that are taken are numbered. `order` gives a group its place, the same one every time.
    `known` remembers groups, whose statistics are kept as long as their members are the same.
    """
    groups: dict[tuple[Key, str], list[LoggedRun]] = {}
    left_out: list[LoggedRun] = []
    hparams: dict[str, None] = {}
    columns: dict[str, None] = {}
    for fields, run in members:
        hparams.update(dict.fromkeys(fields.hparams))
        columns.update(dict.fromkeys(() if by.all_except else fields.columns))
        key = by.key(fields.hparams, fields.columns)
        if key is None:
            left_out.append(run)
            continue
        logdir = str(fields.columns.get("logdir", ""))
        groups.setdefault((key, logdir), []).append(run)
    for gone in known.keys() - groups.keys():
        del known[gone]
    runs: dict[str, GroupedRun] = {}
    for (key, logdir), group_members in groups.items():
        group = known.get((key, logdir))
        if group is None or group.members != tuple(group_members):
            group = known[key, logdir] = Group(group_members)
        label = clean_name("/".join(filter(None, (by.label(key), logdir))))
        base, number = label, 1
        while any(f"{base}/{line}" in taken or f"{base}/{line}" in runs for line in LINES):
            number += 1
            base = f"{label}_{number}"
        for line in LINES:
            name = f"{base}/{line}"
            runs[name] = GroupedRun(name, order(name), group, line)
    has_runs = bool(groups or left_out)
    unknown = [name for name in by.names if has_runs and not _is_known(name, hparams, columns)]
    return Grouped(runs, left_out, tuple(unknown), tuple({**hparams, **columns}))


def _is_known(name: str, hparams: Collection[str], columns: Collection[str]) -> bool:
    return name.removeprefix(_HPARAMS) in hparams or name in columns
