"""From what a selector says to the runs there are.

A term that names nothing is an error, and so is a name that two workspaces know; but a board may
be of a place that holds no run yet. What the caller may not see does not exist: not for numbers,
not for names, and not for paths, which would otherwise be a way around. Archived runs stay out
unless they are named one by one, by number, name or location, or the filter speaks of ``archived``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    and_,
    exists,
    false,
    not_,
    or_,
    select,
    true,
)

from tbhub.api.problems import Ambiguous, BadRequest, NotFound
from tbhub.catalog.names import tail_of_suffix
from tbhub.catalog.query import Clause, begins_with, ids_of, job_numbered, named_like
from tbhub.catalog.run_lookup import (
    Asked,
    Directory,
    Match,
    RunLookup,
    described,
    numbers_of,
    oss_spellings,
    several,
    several_directories,
)
from tbhub.catalog.selection import (
    All,
    Column,
    ExperimentGlob,
    ExperimentName,
    ExperimentNumber,
    Job,
    JobName,
    Location,
    RunGlob,
    RunName,
    RunNumber,
    RunRange,
    Selection,
    Term,
    is_uri,
    quote,
)
from tbhub.catalog.selectors import MAX_RANGE, SelectorError, parse
from tbhub.database.rows import among
from tbhub.database.tables import experiments, jobs, logdirs, runs, workspaces

_MAX_PATTERNS = 200
_LISTED = 10
_NOUNS = {"experiments": "experiment", "runs": "run", "jobs": "job"}
_DEFAULT_NAME = re.compile(r"run([0-9]{1,18})")


@dataclass(frozen=True)
class Resolved:
    """What a selection comes to.

    Attributes:
        run_ids: In the selection's order, or by number where it has none.
        experiments: Those that were named.
        trials: Runs that were named one by one, without those of the experiments.
        uris: Places that hold no run of the catalog, absolute.
        meant: The number of the run or experiment that each name means, by the term as typed.
    """

    run_ids: tuple[int, ...] = ()
    experiments: tuple[int, ...] = ()
    trials: tuple[int, ...] = ()
    uris: tuple[str, ...] = ()
    meant: Mapping[str, int] = field(default_factory=dict)


def resolve(
    connection: Connection,
    selection: Selection,
    visible: frozenset[int] | None,
    experiments: Sequence[int] = (),
    trials: Sequence[int] = (),
    *,
    parts: bool = True,
) -> Resolved:
    """Finds the runs of a selection and of experiments and runs by number: the union of all.

    The filter, the order and the limit apply to all of them. An empty selection adds nothing.

    Args:
        visible: The workspaces that the caller may see; None for all.
        parts: The name of a directory that holds only the stages of a training, ``run1`` of
            ``run1/train`` and ``run1/test``, selects these. Otherwise it is an error.

    Raises:
        NotFound: Something that was named does not exist, or not for this caller.
        Ambiguous: A name belongs to several workspaces.
    """
    numbers: tuple[Term, ...] = (
        *(ExperimentNumber(number, typed=str(number)) for number in experiments),
        *(RunNumber(number, typed=str(number)) for number in trials),
    )
    if not selection and not numbers:
        return Resolved()
    scope = find_scope(connection, selection, visible, numbers, empty_places=True, parts=parts)
    wanted = ids_of(selection, scope.clause, wide=scope.wide).limit(selection.limit)
    found: tuple[int, ...] = tuple(connection.scalars(wanted))
    there = set(found)
    return Resolved(
        found if selection.order else tuple(sorted(found)),
        scope.experiments,
        tuple(number for number in scope.trials if number in there),
        scope.uris,
        scope.meant,
    )


def find_runs(
    connection: Connection, names: Collection[RunName], visible: frozenset[int] | None
) -> dict[RunName, list[Match]]:
    """Return all runs that each name may mean, of those that the caller may see."""
    return _Lookup(connection, visible, empty_places=True, parts=False).runs_of(names)


@dataclass(frozen=True)
class Scope:
    """What the terms of a selection name, before its filter; see `Resolved`.

    Attributes:
        wide: These are all runs there are, but for those put away.
    """

    clause: Clause
    experiments: tuple[int, ...]
    trials: tuple[int, ...]
    uris: tuple[str, ...]
    wide: bool
    meant: Mapping[str, int] = field(default_factory=dict)


def find_scope(
    connection: Connection,
    selection: Selection,
    visible: frozenset[int] | None,
    more: Iterable[Term] = (),
    *,
    archived: bool = False,
    empty_places: bool = False,
    parts: bool = True,
) -> Scope:
    """Looks up every term; the clause is about `runs` and holds for what the caller may see.

    Args:
        archived: With runs that were put away, even if the filter does not speak of them.
        empty_places: A place may be named that holds no run: a board waits for one.
        parts: See `resolve`.
    """
    numbers = tuple(more)
    archived = archived or Column("archived") in selection.fields()

    def scope_of(terms: tuple[Term, ...], phrase: str = "") -> Scope:
        lookup = _Lookup(connection, visible, empty_places, parts, phrase)
        return lookup.scope((*terms, *numbers) or (All(),), archived)

    if not selection.phrase:
        return scope_of(selection.terms)
    called = _Lookup(connection, visible, empty_places, parts).called(selection.phrase)
    try:
        scope = scope_of(selection.terms, selection.phrase)
    except NotFound:
        if not called:
            raise
    else:
        if not called:
            return scope
        raise _name_or_list(selection, called)
    return scope_of((RunName(selection.phrase, typed=selection.phrase),))


@dataclass
class _Lookup:
    connection: Connection
    visible: frozenset[int] | None
    empty_places: bool
    parts: bool
    phrase: str = ""  # the text of the terms, if it might be one name
    # Clauses of runs named one by one, and of all others.
    named: list[Clause] = field(default_factory=list)
    wide: list[Clause] = field(default_factory=list)
    unknown: list[tuple[str, Term]] = field(default_factory=list)  # with the noun for it
    meant: dict[str, int] = field(default_factory=dict)

    def called(self, name: str) -> list[Match]:
        """Return the runs that a name means."""
        return self.runs_of([RunName(name)])[RunName(name)]

    def runs_of(self, names: Collection[RunName]) -> dict[RunName, list[Match]]:
        """Return the runs that each name means."""
        self._workspaces()
        asked = {name: Asked(name.name, name.workspace) for name in names}
        found = self._lookup.find(asked.values())
        return {name: found[each] for name, each in asked.items()}

    def scope(self, terms: Collection[Term], archived: bool) -> Scope:
        _bound(terms)
        self._workspaces()
        terms = [self._as_path(term) for term in terms]
        self._all(terms)
        found_experiments = self._experiments(terms)
        trials = self._runs(terms)
        ranges = self._ranges(terms)
        self._jobs(terms)
        self._globs(terms)
        uris = self._locations(terms)
        if self.unknown:
            raise self._not_found()
        wide = or_(false(), *self.wide)
        if not archived:
            wide = and_(not_(runs.c.archived), wide)
        return Scope(
            and_(self._seen(runs), or_(wide, *self.named)),
            tuple(found_experiments),
            tuple(self._without(dict.fromkeys((*trials, *ranges)), found_experiments)),
            uris,
            self.visible is None and All() in terms,
            self.meant,
        )

    def _seen(self, table: Table) -> Clause:
        return true() if self.visible is None else table.c.workspace_id.in_(self.visible)

    def _workspaces(self) -> None:
        rows = self.connection.execute(select(workspaces.c.id, workspaces.c.name))
        self._names = {row.id: row.name for row in rows}
        if self.visible is not None and self.visible.issuperset(self._names):
            self.visible = None  # these are all there are
        if self.visible is not None:
            self._names = {
                number: self._names[number] for number in self._names if number in self.visible
            }
        self._ids = {name: number for number, name in self._names.items()}
        self._lookup = RunLookup(self.connection, self._names)

    def _all(self, terms: Collection[Term]) -> None:
        for term in terms:
            if isinstance(term, All):
                is_everywhere = term.workspace is None
                self.wide.append(true() if is_everywhere else self._at_home(runs, term))

    def _at_home(self, table: Table, term: Term | None = None) -> Clause:
        """In the workspaces that may be seen, or the one of them that a term names.

        They are listed even if they are all there are: names are indexed by workspace.
        """
        if term is None or term.workspace is None:
            return table.c.workspace_id.in_(self._names)
        return table.c.workspace_id.in_([self._ids.get(term.workspace, -1)])

    # --- things by number and by name

    def _experiments(self, terms: Collection[Term]) -> dict[int, None]:
        found = self._by_number(
            experiments, [term for term in terms if isinstance(term, ExperimentNumber)]
        )
        found |= self._by_name(
            experiments, [term for term in terms if isinstance(term, ExperimentName)]
        )
        for term in terms:
            if isinstance(term, ExperimentGlob):
                wanted = select(experiments.c.id).where(
                    self._at_home(experiments, term), named_like(experiments.c.name, term.pattern)
                )
                matches = self.connection.scalars(wanted).all()
                found |= dict.fromkeys(matches)
                if not matches:
                    self.unknown.append(("experiment", term))
        if found:
            self.wide.append(among(self.connection, runs.c.experiment_id, found))
        return found

    def _runs(self, terms: Collection[Term]) -> dict[int, None]:
        found = self._by_number(runs, [term for term in terms if isinstance(term, RunNumber)])
        asked = {
            term: Asked(term.name, term.workspace) for term in terms if isinstance(term, RunName)
        }
        matches = self._lookup.find(asked.values())
        for term, name in asked.items():
            fitting = matches[name]
            if len(fitting) > 1:
                raise several(_typed(term), fitting)
            if fitting:
                self.meant[_typed(term)] = fitting[0].id
            fitting = fitting or self._stages(term, name)
            found |= dict.fromkeys(match.id for match in fitting)
            if not fitting:
                self.unknown.append(("run", term))
        if found:
            self.named.append(among(self.connection, runs.c.id, found))
        return found

    def _stages(self, term: RunName, asked: Asked) -> list[Match]:
        """Return the runs of the one directory of this name, if these are stages of a training."""
        directories = self._lookup.parts_of(asked) if self.parts else {}
        if len(directories) > 1:
            raise several_directories(_typed(term), list(directories))
        for directory, stages in directories.items():
            below = location_below(runs.c.location, directory)
            others = runs.c.id.not_in([stage.id for stage in stages])
            if not self._any(and_(self._seen(runs), below, others)):
                return stages
        return []

    def _jobs(self, terms: Collection[Term]) -> None:
        """Jobs by number or name; ``job1`` may also be what a run's directory is called."""
        asked = {
            term: Asked(str(replace(term, workspace=None)), term.workspace)
            for term in terms
            if isinstance(term, Job) and not term.only
        }
        called = self._lookup.find(asked.values())
        found: dict[int, None] = {}
        for term in terms:
            if not isinstance(term, Job | JobName):
                continue
            matches = self._jobs_of(term)
            same = called[asked[term]] if isinstance(term, Job) and not term.only else []
            if not matches and len(same) == 1:
                self.named.append(runs.c.id == same[0].id)
            elif not matches and same:
                raise several(_typed(term), same)
            elif len(matches) + len(same) > 1:
                listed = [*(job for _, job in matches), *(f"trial:{run.id}" for run in same)]
                raise _several_jobs(term, listed)
            elif matches:
                found[matches[0][0]] = None
            else:
                self.unknown.append(("job", term))
        if found:
            self.wide.append(among(self.connection, runs.c.job_id, found))

    def _jobs_of(self, term: Job | JobName) -> list[tuple[int, str]]:
        """Return the numbers of the jobs that a term may mean, and a selector for each alone."""
        if isinstance(term, JobName):
            fits = jobs.c.name == term.name
        else:
            fits = or_(jobs.c.name == str(term.number), job_numbered(term.number))
        columns = (jobs.c.id, jobs.c.name, jobs.c.workspace_id)
        rows = select(*columns).where(self._at_home(jobs, term), fits).order_by(jobs.c.id)
        return [
            (row.id, _job_selector(row.id, row.name, self._names[row.workspace_id]))
            for row in self.connection.execute(rows)
        ]

    def _as_path(self, term: Term) -> Term:
        """The end of a run's path, where a term can be nothing else: ``exp8/run82``."""
        if isinstance(term, Location):
            return term if term.is_path else RunName(term.uri, typed=term.typed)
        home = term.workspace
        if home is None or home in self._ids or ":" in term.typed:
            return term
        if isinstance(term, ExperimentNumber):
            return RunName(f"{home}/{term.typed.rpartition('/')[2]}", typed=term.typed)
        if isinstance(term, All):
            return RunGlob(f"{home}/*", typed=_typed(term))
        if isinstance(term, RunGlob):
            return replace(term, pattern=f"{home}/{term.pattern}", workspace=None)
        if isinstance(term, RunRange):
            return replace(term, prefix=f"{home}/{term.prefix}", workspace=None)
        return term

    def _by_number(
        self, table: Table, terms: Sequence[ExperimentNumber | RunNumber]
    ) -> dict[int, None]:
        if not terms:
            return {}
        wanted = among(self.connection, table.c.id, {term.number for term in terms})
        rows = select(table.c.id, table.c.workspace_id).where(self._seen(table), wanted)
        there = {row.id: row.workspace_id for row in self.connection.execute(rows)}
        found: dict[int, None] = {}
        for term in terms:
            home = there.get(term.number)
            if home is None or term.workspace not in (None, self._names[home]):
                self.unknown.append((_NOUNS[table.name], term))
            else:
                found[term.number] = None
        return found

    def _by_name(self, table: Table, terms: Sequence[ExperimentName]) -> dict[int, None]:
        if not terms:
            return {}
        there: dict[str, list[tuple[int, int]]] = {}
        wanted = among(self.connection, table.c.name, {term.name for term in terms})
        rows = select(table.c.name, table.c.workspace_id, table.c.id)
        for name, home, number in self.connection.execute(rows.where(self._at_home(table), wanted)):
            there.setdefault(name, []).append((home, number))
        found: dict[int, None] = {}
        for term in terms:
            matches = [
                (self._names[home], number)
                for home, number in there.get(term.name, ())
                if term.workspace in (None, self._names[home])
            ]
            if not matches:
                self.unknown.append((_NOUNS[table.name], term))
            elif len(matches) > 1:
                raise _ambiguous(term, [home for home, _ in matches])
            else:
                found[matches[0][1]] = None
                self.meant[_typed(term)] = matches[0][1]
        return found

    # --- things that may be many

    def _ranges(self, terms: Collection[Term]) -> list[int]:
        found: list[int] = []
        for term in terms:
            if isinstance(term, RunRange):
                matches = self._in_range(term)
                self._insist_on_range(term, matches)
                found += sorted(matches)
                self.wide.append(among(self.connection, runs.c.id, matches))
                if not matches:
                    self.unknown.append(("run", term))
        return found

    def _in_range(self, term: RunRange) -> list[int]:
        """The runs whose names, or the ends of whose paths, are in a range."""
        names = [term.name(number) for number in range(term.first, term.last + 1)]
        above, slash, _ = term.prefix.rpartition("/")
        last = [name.rpartition("/")[2] for name in names] if slash else names
        wanted = select(runs.c.id, runs.c.name, runs.c.tail).where(
            self._at_home(runs, term),
            or_(
                among(self.connection, runs.c.name, names),
                among(self.connection, Directory(runs.c.tail), last),
            ),
        )
        rows = self.connection.execute(wanted).all()
        if not slash:
            return [row.id for row in rows]
        called, below = set(names), tail_of_suffix(above) or ""
        return [
            row.id
            for row in rows
            if row.name in called or (row.tail or "").partition("/")[2].startswith(below)
        ]

    def _insist_on_range(self, term: RunRange, matches: Collection[int]) -> None:
        """Refuses a range that is also the name of a run: which is meant is not guessed."""
        asked = Asked(str(replace(term, workspace=None)), term.workspace)
        for match in self._lookup.find([asked])[asked]:
            raise Ambiguous(
                f"{_typed(term)} is a range of {len(matches):,} runs, and also the name of"
                f" {match.name} (#{match.id}). hint: write trial:{match.id} for that run, or name"
                " the runs of the range one by one.",
                matches=[{"id": match.id, "name": match.name, "workspace": match.workspace}],
            )

    def _globs(self, terms: Collection[Term]) -> None:
        for term in terms:
            if isinstance(term, RunGlob):
                fits = and_(self._at_home(runs, term), _named_or_ending_like(term.pattern))
                home, slash, rest = term.pattern.partition("/")
                if slash and home in self._ids:
                    inside = runs.c.workspace_id == self._ids[home]
                    fits = or_(fits, and_(inside, _named_or_ending_like(rest)))
                self.wide.append(fits)
                if not self._any(fits):
                    is_all = slash and rest == "*"
                    self.unknown.append(("workspace or directory" if is_all else "run", term))

    def _locations(self, terms: Collection[Term]) -> tuple[str, ...]:
        uris: dict[str, None] = {}
        for term in terms:
            if isinstance(term, Location):
                places = known_spellings(self.connection, term.uri)
                at = runs.c.location.in_([*places, *(f"{place}/" for place in places)])
                below = or_(*(location_below(runs.c.location, place) for place in places))
                if self._any(and_(self._seen(runs), or_(at, below))):
                    self.named.append(at)
                    self.wide.append(below)
                elif not self.empty_places or self._is_hidden(places):
                    self.unknown.append(("run at or below", term))
                else:
                    uris[places[0]] = None
        return tuple(uris)

    def _is_hidden(self, places: Sequence[str]) -> bool:
        """Whether a place has to do with what others log and the caller may not see."""
        if self.visible is None:
            return False
        above = [upper for place in places for upper in location_above(place)]
        for column, home in (
            (runs.c.location, runs.c.workspace_id),
            (logdirs.c.path, logdirs.c.workspace_id),
        ):
            near = or_(column.in_(above), *(location_below(column, place) for place in places))
            if self._any(and_(home.not_in(self.visible), near)):
                return True
        return False

    def _any(self, fits: Clause) -> bool:
        return bool(self.connection.scalar(select(exists().where(fits))))

    def _without(self, trials: Collection[int], named: Collection[int]) -> list[int]:
        """Those of the runs that are not of the experiments."""
        if not trials or not named:
            return list(trials)
        wanted = select(runs.c.id).where(
            among(self.connection, runs.c.id, trials),
            among(self.connection, runs.c.experiment_id, named),
        )
        found = set(self.connection.scalars(wanted))
        return [number for number in trials if number not in found]

    # --- errors

    def _not_found(self) -> NotFound:
        listed = [f"{noun} {_typed(term)}" for noun, term in self.unknown[:_LISTED]]
        text = f"There is no {', no '.join(listed)}"
        more = len(self.unknown) - len(listed)
        text += f", and {more} more are unknown." if more else "."
        advice = self._advice(self.unknown[0][1])
        if not advice and self.phrase and self._is_found(quoted := _quoted(self.phrase)):
            advice = f"hint: put quotes around a name with blanks: '{quoted}'."
        return NotFound(
            f"{text} {advice}" if advice else text,
            terms=[_typed(term) for _, term in self.unknown],
        )

    def _is_found(self, text: str) -> bool:
        """Return whether each term of a text names something."""
        try:
            terms = parse(text).terms
            _Lookup(self.connection, self.visible, self.empty_places, self.parts).scope(terms, True)
        except (NotFound, Ambiguous, SelectorError):
            return False
        return True

    def _advice(self, term: Term) -> str:
        """What may have been meant."""
        if isinstance(term, ExperimentNumber):
            if self._any(and_(self._seen(runs), runs.c.id == term.number)):
                return f"A run has this number: trial:{term.number}."
        elif isinstance(term, RunName):
            directories = self._lookup.parts_of(Asked(term.name, term.workspace))
            if parts := [each for stages in directories.values() for each in stages]:
                listed = ", ".join(f"{each.name} (#{each.id})" for each in parts[:_LISTED])
                return f"hint: it has the parts {listed}."
            number = _DEFAULT_NAME.fullmatch(term.name)
            if number is not None and term.workspace is None:
                chosen = select(runs.c.name).where(self._seen(runs), runs.c.id == int(number[1]))
                name = self.connection.scalar(chosen)
                if name is not None:
                    return f"hint: #{number[1]} is called {name}: write trial:{number[1]}."
            same = ExperimentName(term.name, workspace=term.workspace)
            called = and_(self._seen(experiments), experiments.c.name == term.name)
            if term.workspace is not None:
                home = select(workspaces.c.id).where(workspaces.c.name == term.workspace)
                called = and_(called, experiments.c.workspace_id.in_(home))
            if self._any(called):
                return f"An experiment is called so: {same}."
        elif isinstance(term, Job) and term.only:
            asked = Asked(f"job{term.number}", term.workspace)
            for match in self._lookup.find([asked])[asked]:
                return f"hint: a run is called {asked.name}: write trial:{match.id}."
        return ""


_PATTERNS = (ExperimentGlob, RunGlob, RunRange, Location)


def _bound(terms: Collection[Term]) -> None:
    """Refuses what would keep the database busy for long."""
    patterns = sum(isinstance(term, _PATTERNS) for term in terms)
    if patterns > _MAX_PATTERNS:
        raise BadRequest(
            f"The selector has {patterns} ranges, wildcards and paths; at most {_MAX_PATTERNS} are"
            " allowed."
        )
    names = sum(term.last - term.first + 1 for term in terms if isinstance(term, RunRange))
    if names > MAX_RANGE:
        raise BadRequest(
            f"The selector's ranges have {names:,} names; at most {MAX_RANGE:,} are allowed."
        )


def _named_or_ending_like(pattern: str) -> Clause:
    """Runs whose names, or the ends of whose paths, fit a pattern with wildcards."""
    ends = (
        named_like(runs.c.location, f"*/{pattern}")
        if "/" in pattern
        else named_like(Directory(runs.c.tail), pattern)
    )
    return or_(named_like(runs.c.name, pattern), and_(runs.c.tail.is_not(None), ends))


def _name_or_list(selection: Selection, called: Sequence[Match]) -> Ambiguous:
    """Return the error for text that is the name of a run and also several terms."""
    text = selection.phrase
    listed = ", ".join(f"{quote(match.name)} (#{match.id})" for match in called[:_LISTED])
    noun = "a run" if len(called) == 1 else f"{len(called):,} runs"
    as_list = ", ".join(map(_typed, selection.terms))
    return Ambiguous(
        f"{text} is the name of {noun}, {listed}, and also a list of {len(selection.terms)} terms."
        f" hint: write {numbers_of(called)}, or {as_list}.",
        matches=described(called),
    )


def _job_selector(number: int, name: str, home: str) -> str:
    """Return the selector of one job; a job with a name may not go by its number."""
    return str(JobName(name, workspace=home) if name else Job(number, True, workspace=home))


def _several_jobs(term: Job | JobName, listed: Sequence[str]) -> Ambiguous:
    return Ambiguous(
        f"{_typed(term)} can mean {len(listed)} things: {', '.join(listed[:_LISTED])}."
        " hint: write one of these.",
        matches=list(listed),
    )


def _ambiguous(term: ExperimentName, homes: Sequence[str]) -> Ambiguous:
    matches = [str(ExperimentName(term.name, workspace=home)) for home in sorted(homes)]
    shown = ", ".join(matches[:_LISTED]) + (", …" if len(matches) > _LISTED else "")
    return Ambiguous(
        f"{_typed(term)} is in {len(matches)} workspaces; say which: {shown}.", matches=matches
    )


def _typed(term: Term) -> str:
    return term.typed or str(term)


def _quoted(phrase: str) -> str:
    """Return a name with blanks in quotes, behind the prefix that says what it names."""
    prefix = re.match(r"(?:[^/\s]+/)?(?:exp|job):|", phrase, re.IGNORECASE)
    behind = prefix.end() if prefix else 0
    return f"{phrase[:behind]}{quote(phrase[behind:])}"


def location_spellings(uri: str) -> list[str]:
    """Return a place as locations are written, first as it was named and then without links.

    Raises:
        BadRequest: It is a path that depends on the current directory.
    """
    if uri.lower().startswith("file://"):
        uri = unquote(uri[len("file://") :])
    elif is_uri(uri):
        scheme, _, rest = uri.partition("://")
        return [f"{scheme}://{rest.rstrip('/')}"]
    path = os.path.expanduser(uri)
    if not os.path.isabs(path):
        raise not_absolute(uri)
    path = os.path.normpath(path)
    return list(dict.fromkeys([path, _real_path(path)]))


def not_absolute(path: str) -> BadRequest:
    """Return the error for a path that depends on the current directory."""
    return BadRequest(f"{path}: the hub needs the whole path, beginning with /.")


def known_spellings(connection: Connection, uri: str) -> list[str]:
    """Return a place as locations are written, also with the hosts that runs in OSS have."""
    places = location_spellings(uri)
    return list(dict.fromkeys([*places, *oss_spellings(connection, places[0])]))


def _real_path(path: str) -> str:
    """Return a path without links, or the path as it is written if it cannot be resolved."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # a link that may not be read, as /proc/1/root; a NUL
        return path


def location_below(column: ColumnElement[str], place: str) -> Clause:
    return begins_with(column, place if place.endswith("/") else f"{place}/")


def location_above(place: str) -> list[str]:
    """The place and every directory it lies in."""
    found = [place]
    while (upper := os.path.dirname(place)) not in (place, ""):
        found.append(upper)
        place = upper
    return found
