"""What a board was asked to show, and what that comes to.

A board keeps what it was asked for beside the runs it came to: with `follow` it is asked again
whenever runs come and go, and a board that is to be used again shows what the same words mean now.
Runs that were added later stay, runs that were taken out stay out.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any, TypeGuard, TypeVar
from urllib.parse import unquote

import orjson
from sqlalchemy import Column, Connection, select

from tbhub.api.models import BoardOptions, NewBoard
from tbhub.api.problems import Ambiguous, BadRequest, NotFound
from tbhub.catalog.resolve import location_above, location_spellings, not_absolute, resolve
from tbhub.catalog.selection import (
    ExperimentNumber,
    Location,
    RunNumber,
    Selection,
    Term,
    is_uri,
)
from tbhub.catalog.selectors import SelectorError, parse
from tbhub.database.rows import chunks
from tbhub.database.tables import runs
from tbhub.hub.board_access import may_open
from tbhub.hub.bound_names import bound, resolve_existing
from tbhub.hub.name_templates import check_template
from tbhub.hub.places import Visible, ids_below, open_places, spelled

_NO: frozenset[int] = frozenset()
T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)
class Asked:
    """What was named, when the board was made and since."""

    selector: str = ""
    experiments: tuple[int, ...] = ()
    trials: tuple[int, ...] = ()
    uris: tuple[str, ...] = ()
    added: tuple[str, ...] = ()  # selectors
    added_uris: tuple[str, ...] = ()
    removed: tuple[int, ...] = ()  # numbers of runs
    removed_uris: tuple[str, ...] = ()
    removed_words: tuple[str, ...] = ()  # sources of which nothing is left, see `_units`
    deleted_words: tuple[str, ...] = ()  # sources that were deleted from the catalog
    # The run or experiment that each name in a selector meant when it was given. A later one of
    # that name is another.
    meant: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As it is kept; the selector has a column of its own."""
        return {name: value for name, value in asdict(self).items() if value and name != "selector"}

    @classmethod
    def from_json(cls, selector: str, kept: Mapping[str, Any]) -> Asked:
        """As it was kept."""
        names = cls.__dataclass_fields__.keys() - {"selector", "meant"}
        found = {name: tuple(value) for name, value in kept.items() if name in names}
        return cls(selector, **found, meant=kept.get("meant", {}))

    def words(self) -> list[str]:
        """Return every source that is shown, as selectors name it, added ones last."""
        now = self.current()
        found = [
            now.selector,
            *map(experiment_word, now.experiments),
            *map(run_word, now.trials),
            *map(_place_word, now.uris),
            *now.added,
            *map(_place_word, now.added_uris),
        ]
        return [word for word in dict.fromkeys(found) if word]

    def current(self) -> Asked:
        """Return this without the sources that were taken out as a whole."""
        gone = {*self.removed_words, *map(_place_word, self.removed_uris)}
        if not gone:
            return self
        selector, *added = (without_units(each, gone) for each in (self.selector, *self.added))
        return replace(
            self,
            selector=selector,
            experiments=tuple(n for n in self.experiments if experiment_word(n) not in gone),
            trials=tuple(n for n in self.trials if run_word(n) not in gone),
            uris=tuple(uri for uri in self.uris if _place_word(uri) not in gone),
            added=tuple(filter(None, added)),
            added_uris=tuple(uri for uri in self.added_uris if _place_word(uri) not in gone),
        )

    def selectors(self) -> tuple[str, tuple[str, ...]]:
        """Return the selectors that are shown: one for all that can be joined, and the others."""
        now = self.current()
        plain = [each for each in now.added if _is_joinable(parse(each))]
        if not _is_joinable(parse(now.selector)):
            return now.selector, now.added
        others = tuple(each for each in now.added if each not in plain)
        if not plain:
            return now.selector, others
        words = chain.from_iterable(_units(parse(each)) for each in (now.selector, *plain))
        return ", ".join(dict.fromkeys(words)), others

    def places_left_out(self) -> list[str]:
        """Return the places that were taken out of others that are shown."""
        if not self.removed_uris:
            return []
        now = self.current()
        selections = map(parse, (now.selector, *now.added))
        shown = {location_spellings(each.uri)[-1] for each in _places(now, selections)}
        return [
            uri
            for uri in self.removed_uris
            if not shown.isdisjoint(location_above(location_spellings(uri)[-1])[1:])
        ]

    def key(self, options: BoardOptions, follow: bool) -> str:
        """Return what is alike for boards that show the same."""
        now = self.current()
        selector, added = self.selectors()
        named = frozenset(_units(parse(selector)))
        left_out = [sorted(self.removed), sorted(self.places_left_out())]
        fields = [
            selector,
            sorted({n for n in now.experiments if experiment_word(n) not in named}),
            sorted({n for n in now.trials if run_word(n) not in named}),
            sorted({u for u in (*now.uris, *now.added_uris) if _place_word(u) not in named}),
            options.model_dump(),
            follow,
            *([added] if added else []),
            *([left_out] if any(left_out) else []),
        ]
        return hashlib.sha256(orjson.dumps(fields)).hexdigest()


@dataclass(frozen=True)
class Shown:
    """What that comes to: runs of the catalog, other places, and what was named one by one.

    Attributes:
        meant: See `Asked`.
    """

    run_ids: tuple[int, ...]
    uris: tuple[str, ...]
    experiments: tuple[int, ...]
    trials: tuple[int, ...]
    workspaces: frozenset[int]
    meant: Mapping[str, int] = field(default_factory=dict, compare=False)

    def to_json(self) -> dict[str, Any]:
        """What is kept of it beside the runs."""
        return {
            "experiments": list(self.experiments),
            "trials": list(self.trials),
            "workspaces": sorted(self.workspaces),
        }


def asked_of(new: NewBoard) -> Asked:
    """What a request asks for.

    Raises:
        BadRequest: The selector cannot be understood; says where. Or nothing is asked for.
    """
    selection = parsed(new.runs)
    asked = Asked(
        selector=str(selection) if new.runs.strip() else "",
        experiments=tuple(dict.fromkeys(new.experiments)),
        trials=tuple(dict.fromkeys(new.trials)),
        uris=tuple(dict.fromkeys(map(_whole, new.uris))),
        added=tuple(str(parsed(each)) for each in dict.fromkeys(new.added) if each.strip()),
    )
    if asked == Asked():
        raise BadRequest("Nothing to show: give a selector, experiments, runs or places.")
    return asked


def parsed(text: str) -> Selection:
    """A selector, with places that mean the same in every process, each in one spelling."""
    try:
        selection = parse(text)
    except SelectorError as error:
        position = getattr(error, "position", None)
        raise BadRequest(str(error), position=position, text=text) from None
    terms = (
        replace(term, uri=_whole(term.uri)) if _is_place(term) else term for term in selection.terms
    )
    return replace(selection, terms=tuple(dict.fromkeys(terms)))


def _whole(uri: str) -> str:
    """Return a place as boards keep it: a path of this machine is no URI, and ends in no slash.

    Raises:
        BadRequest: It is a path that depends on the current directory.
    """
    is_file = uri.lower().startswith("file://")
    path = unquote(uri[len("file://") :]) if is_file else uri
    if is_uri(path):
        return spelled(path)
    if not os.path.isabs(path) or "\0" in path:
        raise not_absolute(uri)
    return os.path.normpath(path)


def leave_out(
    connection: Connection, asked: Asked, removed: Sequence[str], visible: Visible
) -> Asked:
    """Return what a board is asked for without some runs and places.

    Args:
        removed: Selectors.

    Raises:
        NotFound, Ambiguous: See `show`.
    """
    selections = [parsed(each) for each in removed if each.strip()]
    joinable = [str(each) for each in selections if _is_joinable(each)]
    others = [str(each) for each in selections if not _is_joinable(each)]
    found = [
        named_runs(connection, Asked(selector), visible)
        for selector in filter(None, (", ".join(joinable), *others))
    ]
    return replace(
        asked,
        removed=_union([each.run_ids for each in found]),
        removed_uris=_union([each.uris for each in found]),
    )


def check_options(options: BoardOptions) -> None:
    """Raises `BadRequest` where names or groups cannot be made as asked."""
    from tbhub.series.group import GroupByError, parse_group_by

    check_template(options.template)
    try:
        if options.group_by:
            parse_group_by(options.group_by)
    except GroupByError as error:
        raise BadRequest(str(error)) from None


def show(
    connection: Connection, asked: Asked, visible: Visible, *, skip_missing: bool = False
) -> Shown:
    """What is asked for, as far as it may be seen.

    Places are shown whole, see `places`; a selector with a filter, an order or a limit names known
    runs only.

    Args:
        skip_missing: Show the rest where something that was named does not exist any more.

    Raises:
        NotFound: Something that was named is not there, or may not be seen.
        Ambiguous: A name stands for several.
    """
    removed, removed_uris = asked.removed, asked.removed_uris
    asked = asked.current()
    selections = [bound(parse(each), asked.meant) for each in (asked.selector, *asked.added)]
    look_up = resolve_existing if skip_missing else resolve
    parts = [
        look_up(connection, _without_places(each), visible, *named)
        for each, named in zip(
            selections,
            ((asked.experiments, asked.trials), *[((), ())] * len(asked.added)),
            strict=True,
        )
    ]
    uris, below = open_places(connection, _places(asked, selections), visible)
    out, out_uris = frozenset(removed), frozenset(removed_uris)
    run_ids = _union([*(part.run_ids for part in parts), below], out)
    named = _union([part.experiments for part in parts])
    return Shown(
        run_ids,
        _union([uris], out_uris),
        _union([named], _emptied(connection, removed, run_ids)),
        _union([part.trials for part in parts], out),
        _of_runs(connection, runs.c.workspace_id, run_ids),
        {word: number for part in parts for word, number in part.meant.items()},
    )


def show_places(connection: Connection, asked: Asked, before: Shown, visible: Visible) -> Shown:
    """What a board that does not follow shows now: places may be seen differently by now."""
    asked = asked.current()
    selections = [parse(asked.selector), *map(parse, asked.added)]
    uris, below = open_places(connection, _places(asked, selections), visible)
    run_ids = _union([before.run_ids, below], frozenset(asked.removed))
    return replace(
        before,
        run_ids=run_ids,
        uris=_union([uris], frozenset(asked.removed_uris)),
        workspaces=_of_runs(connection, runs.c.workspace_id, run_ids),
    )


def has_places(asked: Asked) -> bool:
    """Return whether a board is over any place."""
    asked = asked.current()
    return any(True for _ in _places(asked, [parse(asked.selector), *map(parse, asked.added)]))


def _is_plain(selection: Selection) -> bool:
    return selection.where is None and not selection.order and selection.limit is None


def _units(selection: Selection) -> list[str]:
    """Return the parts of a selector that can be taken out by themselves: its terms.

    A selector with a filter, an order or a limit is one part.
    """
    if not selection:
        return []
    return [str(term) for term in selection.terms] if _is_plain(selection) else [str(selection)]


def _is_joinable(selection: Selection) -> bool:
    """Return whether other terms may follow: not after what may be one name with blanks."""
    return _is_plain(selection) and not selection.phrase


def without_units(selector: str, gone: Collection[str]) -> str:
    selection = parse(selector)
    units = _units(selection)
    left = [unit for unit in units if unit not in gone]
    return selector if left == units else ", ".join(left)


def _is_place(term: Term) -> TypeGuard[Location]:
    """Return whether a term is a place; ``a/b/c`` is the end of a run's path."""
    return isinstance(term, Location) and term.is_path


def experiment_word(number: int) -> str:
    return str(ExperimentNumber(number=number))


def run_word(number: int) -> str:
    return str(RunNumber(number=number))


def _place_word(uri: str) -> str:
    return str(Location(uri))


def _without_places(selection: Selection) -> Selection:
    if not _is_plain(selection):
        return selection
    others = (each for each in selection.terms if not _is_place(each))
    return replace(selection, terms=tuple(others))


def _places(asked: Asked, selections: Iterable[Selection]) -> Iterator[Location]:
    """The places that a board is over."""
    for selection in selections:
        if _is_plain(selection):
            yield from filter(_is_place, selection.terms)
    for uri in (*asked.uris, *asked.added_uris):
        yield Location(uri, typed=uri)


def named_runs(
    connection: Connection, asked: Asked, visible: Visible, deleted: Collection[str] = ()
) -> Shown:
    """Return what is to be taken out: places, and every known run they and selectors name.

    Args:
        deleted: Sources of the board that were deleted, which may be named although they are gone.
    """
    try:
        return _named_runs(connection, asked, visible)
    except NotFound:
        left = without_units(asked.selector, deleted)
        if left == asked.selector:
            raise
        return _named_runs(connection, replace(asked, selector=left), visible)


def _named_runs(connection: Connection, asked: Asked, visible: Visible) -> Shown:
    selections = [parse(asked.selector)]
    places = [each.uri for each in _places(asked, selections)]
    others = replace(asked, uris=(), selector=str(_without_places(selections[0])))
    found = show(connection, others, visible) if others != Asked() else Shown((), (), (), (), _NO)
    below = ids_below(connection, places, visible)
    if places and not below and not may_open(connection, visible, places):
        raise NotFound(f"There is nothing at {places[0]}, or nothing you may see.")
    uris = _union([map(spelled, places)])
    return replace(found, run_ids=_union([found.run_ids, below]), uris=uris)


def described(shown: Shown) -> str:
    """Return what a board shows in a few words: "3 runs and 1 place"."""
    runs, places = len(shown.run_ids), len(shown.uris)
    texts = [f"{runs:,} run{'s' * (runs != 1)}"] if runs or not places else []
    texts += [f"{places:,} place{'s' * (places != 1)}"] if places else []
    return " and ".join(texts)


def joined(shown: Shown, more: Shown) -> Shown:
    """Both together."""
    return Shown(
        _union([shown.run_ids, more.run_ids]),
        _union([shown.uris, more.uris]),
        _union([shown.experiments, more.experiments]),
        _union([shown.trials, more.trials]),
        shown.workspaces | more.workspaces,
    )


def without(connection: Connection, shown: Shown, less: Shown) -> Shown:
    """The one without the other; an experiment that was named stays so while a run of it does."""
    gone = frozenset(less.run_ids)
    run_ids = _union([shown.run_ids], gone)
    return Shown(
        run_ids,
        _union([shown.uris], frozenset(less.uris)),
        _union([shown.experiments], _emptied(connection, less.run_ids, run_ids)),
        _union([shown.trials], gone),
        _of_runs(connection, runs.c.workspace_id, run_ids),
    )


def add(asked: Asked, more: Asked, found: Shown, below: Sequence[int] = ()) -> Asked:
    """With more added, which is now found to be so much; `below` are the known runs of places."""
    units = frozenset(_all_units(more))
    places = frozenset(map(_place_uri, _places(more, [parse(more.selector)])))
    given = {*units, *map(str, bound(parse(more.selector), found.meant).terms)}
    back = replace(
        asked,
        meant={**asked.meant, **found.meant},
        deleted_words=_union([asked.deleted_words], frozenset(given)),
        removed=_union([asked.removed], frozenset((*found.run_ids, *below))),
        removed_uris=_union([asked.removed_uris], places | frozenset(found.uris)),
        removed_words=_union([asked.removed_words], units),
    )
    if units <= frozenset(_all_units(back.current())):  # all of it had been taken out
        return back
    return replace(
        back,
        added=_union([asked.added, (more.selector,) if more.selector else ()]),
        added_uris=_union([asked.added_uris, more.uris]),
    )


def remove(
    connection: Connection,
    asked: Asked,
    less: Asked,
    found: Shown,
    was: Shown,
    shown: Shown,
    visible: Visible,
    *,
    follow: bool,
) -> Asked:
    """Return what a board is asked for after something was taken out.

    A source is taken out as a whole if it was named, or if nothing of it is shown any more. In a
    board that follows, a source that was not named stays as long as other runs may come by it.

    Args:
        less: What was named.
        found: What that comes to.
        was, shown: What the board showed before, and what it shows now.
    """
    named = frozenset(_all_units(less))
    after = replace(
        asked,
        removed=_union([asked.removed, found.run_ids]),
        removed_uris=_union([asked.removed_uris, found.uris]),
    )
    gone, left, before = frozenset(found.run_ids), set(shown.run_ids), set(was.run_ids)

    def is_gone(unit: str) -> bool:
        selection = parse(unit)
        if any(_place_uri(each) in shown.uris for each in _places(Asked(), [selection])):
            return False
        try:
            here = resolve(connection, bound(selection, asked.meant), visible)
        except (NotFound, Ambiguous):  # it has been deleted, which is no reason to forget it
            return False
        ids = set(here.run_ids)
        if not follow:
            return not ids.isdisjoint(before) and ids.isdisjoint(left)
        if here.experiments and set(here.experiments) <= set(found.experiments):
            return True
        is_run = all(isinstance(term, RunNumber) for term in selection.terms)
        return is_run and bool(ids) and ids <= gone

    now = after.current()
    words = [unit for unit in _all_units(now) if unit in named or is_gone(unit)]
    for each in map(parse, (now.selector, *now.added)):
        if each.phrase and is_gone(each.phrase):  # one name with blanks
            words += _units(each)
    after = replace(after, removed_words=_union([asked.removed_words, words]))
    covered = _covered(connection, after.current(), was, visible)
    return replace(after, removed=_union([after.removed], gone - covered))


def _covered(connection: Connection, asked: Asked, was: Shown, visible: Visible) -> frozenset[int]:
    """Return the runs that a board shows by its sources if none is left out.

    Args:
        was: What it showed. By a filter, an order or a limit each of these runs may come again.
    """
    selections = [parse(each) for each in (asked.selector, *asked.added)]
    try:
        shown = show(connection, replace(asked, removed=()), visible, skip_missing=True)
    except (NotFound, Ambiguous):
        return frozenset(was.run_ids)
    below = ids_below(connection, shown.uris, visible)
    again = () if all(map(_is_plain, selections)) else was.run_ids
    return frozenset((*shown.run_ids, *below, *again))


def _all_units(asked: Asked) -> list[str]:
    """Return every source by itself, as selectors name it."""
    selectors = (_units(parse(each)) for each in (asked.selector, *asked.added))
    return [
        *chain.from_iterable(selectors),
        *map(experiment_word, asked.experiments),
        *map(run_word, asked.trials),
        *map(_place_word, (*asked.uris, *asked.added_uris)),
    ]


def _place_uri(place: Location) -> str:
    return spelled(place.uri)


def _union(parts: Iterable[Iterable[T]], without: frozenset[T] = frozenset()) -> tuple[T, ...]:
    """All of them once, in their order."""
    return tuple(each for each in dict.fromkeys(chain.from_iterable(parts)) if each not in without)


def _emptied(connection: Connection, gone: Sequence[int], run_ids: Sequence[int]) -> frozenset[int]:
    """The experiments of which runs were taken out, and none is left."""
    if not gone:
        return frozenset()
    column = runs.c.experiment_id
    return _of_runs(connection, column, gone) - _of_runs(connection, column, run_ids)


def _of_runs(connection: Connection, column: Column[int], run_ids: Sequence[int]) -> frozenset[int]:
    """What runs have in a column."""
    found: set[int] = set()
    for chunk in chunks(run_ids):
        where = select(column).where(runs.c.id.in_(chunk)).distinct()
        found.update(connection.execute(where).scalars())
    return frozenset(found)
