"""What people ask of boards: to be made, found, changed, started and ended.

Every answer is given after what it says has been committed; what is still to be done for it is the
keeper's, and would be done by the next hub if this one were killed now.
"""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, delete, select, update
from sqlalchemy.exc import IntegrityError

from tbhub.api.models import (
    Board,
    BoardChange,
    BoardRuns,
    Boards,
    Host,
    LogLines,
    NewBoard,
    Runs,
    State,
)
from tbhub.api.problems import BadRequest, Conflict, Forbidden, NotFound, Unavailable
from tbhub.boards import life as lives
from tbhub.boards.life import READY, Life, Say
from tbhub.boards.pet_names import pet_name
from tbhub.catalog.runs import load_runs
from tbhub.catalog.selection import Location, RunNumber
from tbhub.database.engine import Database
from tbhub.database.tables import board_runs, boards
from tbhub.errors import TbhubError
from tbhub.hub import board_store as store
from tbhub.hub import sources
from tbhub.hub.access import Caller
from tbhub.hub.board_access import missing_rights
from tbhub.hub.bus import Bus
from tbhub.hub.deleted_sources import existing
from tbhub.hub.followed import Followed
from tbhub.hub.gate import asked_at
from tbhub.hub.grown_names import with_current_names
from tbhub.hub.host_link import HostLink
from tbhub.hub.host_payload import Credentials, no_credentials
from tbhub.hub.keeper import Keeper
from tbhub.hub.language import translate, translate_log
from tbhub.hub.name_templates import with_default
from tbhub.hub.places import ids_below, workspaces_below
from tbhub.hub.quotas import take_place
from tbhub.hub.registry import Entry, Registry, Route, live
from tbhub.hub.settings import Settings
from tbhub.hub.sources import Asked, Shown
from tbhub.launchers.base import Launcher
from tbhub.texts import Message

_SETTLE_SECONDS = 3.0  # an answer waits so long for what it has asked of a host
_WAKE_SECONDS = 60.0
_TRIAL = re.compile(r"trial:([0-9]+)")  # a run that was named by number
_DOCTOR_TIMEOUT = 5.0  # for the first answer of a host
_TRIES = 5  # where the catalog changes under a new board


class Conductor:
    """All boards of a hub. Belongs to one event loop."""

    def __init__(
        self,
        database: Database,
        launcher: Launcher,
        bus: Bus,
        settings: Settings,
        credentials: Credentials = no_credentials,
    ) -> None:
        self._settings = settings
        self._launcher = launcher.name
        self._keeper = Keeper(database, launcher, bus, settings, credentials)
        self._followed = Followed(self._keeper)
        self._making: dict[int, asyncio.Lock] = {}  # by owner
        self._url = ""

    @property
    def launcher(self) -> str:
        """The name of the launcher that boards are served by."""
        return self._launcher

    @property
    def registry(self) -> Registry:
        """What is known of boards without asking the database."""
        return self._keeper.registry

    async def start(self, *, internal_url: str, public_url: str) -> None:
        """Takes up what an earlier hub has left.

        Args:
            internal_url: Where hosts register; with the base path.
            public_url: What the addresses of boards begin with, unless whoever asks has come by
                another; with the base path.
        """
        self._url = public_url.rstrip("/")
        await self._keeper.start(internal_url)

    async def close(self, *, stop_hosts: bool) -> None:
        """Ends all work; with its hosts, or leaving them to the next hub."""
        self._followed.close()
        await self._keeper.close(stop_hosts=stop_hosts)

    # --- finding

    async def get(self, caller: Caller, board: str, *, to_change: bool = False) -> Board:
        """Return a board by its id, the beginning of it, or its name.

        Raises:
            NotFound, Ambiguous: See `Registry.find`.
        """
        return await self._answer(caller, self.registry.find(caller, board, to_change=to_change))

    async def get_open(self, caller: Caller, board: str, *, to_change: bool = False) -> Board:
        """Return a board whose data the caller may see.

        Raises:
            NotFound, Ambiguous: See `Registry.find`.
            Forbidden: The caller lacks the right to one of its sources.
        """
        entry = await self._find_open(caller, board, to_change=to_change)
        return await self._answer(caller, entry)

    async def config(self, caller: Caller, board: str) -> dict[str, Any]:
        """Return what a board shows and how, as it can be given to make another.

        Raises:
            NotFound, Ambiguous: See `Registry.find`.
        """
        found = await self.get(caller, board)

        def look(connection: Connection) -> tuple[Asked, list[str]]:
            asked = existing(connection, store.asked_of(connection, found.id))
            return asked, asked.places_left_out()

        asked, places = await self._keeper.read(look)
        runs, added = asked.selectors()
        now = asked.current()
        named = [_TRIAL.fullmatch(source) for source in found.sources]
        return {
            "name": found.name,
            "key": found.key,
            "runs": runs,
            "added": list(added),
            "experiments": list(now.experiments),
            "trials": sorted({*now.trials, *(int(each[1]) for each in named if each)}),
            "uris": [*now.uris, *now.added_uris],
            "removed": [
                *(str(RunNumber(each)) for each in asked.removed),
                *(str(Location(each)) for each in places),
            ],
            "follow": found.follow,
            "workspace": found.workspace,
            "options": found.options.model_dump(),
            "idle_timeout": found.idle_timeout,
            "no_data_timeout": found.no_data_timeout,
            "max_runtime": found.max_runtime,
        }

    async def _find_open(self, caller: Caller, board: str, *, to_change: bool) -> Entry:
        entry = self.registry.find(caller, board, to_change=to_change)
        missing = (await self._missing(caller, [entry])).get(entry.id)
        if missing is not None:
            raise Forbidden(missing)
        return entry

    async def _missing(self, caller: Caller, entries: Sequence[Entry]) -> Mapping[str, Message]:
        """Return the right that the caller lacks for each board whose data they may not see."""
        ids = [each.id for each in entries if each.may_be_closed_to(caller)]
        if not ids:
            return {}
        found: Mapping[str, Message] = await self._keeper.read(
            lambda connection: missing_rights(connection, caller, ids)
        )
        return found

    async def list(
        self,
        caller: Caller,
        *,
        everyone: bool = False,
        live_only: bool = False,
        run: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> Boards:
        """Return the caller's boards, or all that they may see.

        Args:
            run: Only those that show this run, of those whose data the caller may see.
        """
        among: frozenset[str] | None = None
        if run is not None:
            among = await self._keeper.read(lambda connection: store.boards_with(connection, run))
        chosen = [
            each
            for each in self.registry
            if (everyone or each.owner_id == caller.user_id)
            and (among is None or each.id in among)
            and (each.is_live or not live_only)
            and each.may_be_seen_by(caller)
        ]
        if run is not None:
            missing = await self._missing(caller, chosen)
            chosen = [each for each in chosen if each.id not in missing]
        chosen.sort(key=attrgetter("created", "id"), reverse=True)
        page = await self._answers(caller, chosen[offset : offset + limit])
        return Boards.model_construct(total=len(chosen), offset=offset, boards=page)

    async def _answer(self, caller: Caller, entry: Entry) -> Board:
        found = await self._answers(caller, [entry])
        if not found:
            raise NotFound("The board was deleted.")
        return found[0]

    async def _answers(self, caller: Caller, entries: Sequence[Entry]) -> Sequence[Board]:
        """Boards as people are shown them. What has not changed is not looked up again."""
        kept = {each.id: (each.shown, each.version) for each in entries}  # may change meanwhile
        unknown = [board_id for board_id, (shown, _) in kept.items() if shown is None]

        def look(connection: Connection) -> tuple[dict[str, Board], dict[str, int]]:
            found = store.boards_of(connection, unknown) if unknown else {}
            return found, store.run_counts(connection, kept)

        found, counts = await self._keeper.read(look)
        missing = await self._missing(caller, entries)
        answers = []
        url = asked_at.get() or self._url
        for entry in entries:
            shown, version = kept[entry.id]
            board = found.get(entry.id) or shown
            if board is None:
                continue
            if entry.version == version:
                entry.shown = board
            count = counts.get(entry.id, 0)
            if entry.id in missing:
                answers.append(_closed(board, entry, count, url, missing[entry.id]))
            else:
                silence = self._keeper.hosts.silence(entry.life.host)
                answers.append(_counted(board, entry, count, url, silence))
        return answers

    async def _to_change(self, caller: Caller, board: str) -> Entry:
        caller.require("write", "member")
        return await self._find_open(caller, board, to_change=True)

    def _to_end(self, caller: Caller, board: str) -> Entry:
        """Find a board that is to end.

        Its owner may always end it: also after losing the right to its data, or as a viewer now.
        """
        caller.require("write")
        return self.registry.find(caller, board)

    async def runs(self, caller: Caller, board: str, *, limit: int, offset: int) -> Runs:
        """The runs that a board shows, by number."""
        entry = await self._find_open(caller, board, to_change=False)

        def look(connection: Connection) -> Runs:
            uris = store.shown_by(connection, entry.id).uris
            below = ids_below(connection, uris, caller.visible)
            gone = store.asked_of(connection, entry.id).removed if below else ()
            there = {*store.run_ids(connection, entry.id), *below}.difference(gone)
            ids = sorted(there)
            page = load_runs(connection, ids[offset : offset + limit], metrics=False)
            return Runs(total=len(ids), offset=offset, runs=page)

        found: Runs = await self._keeper.read(look)
        return found

    async def logs(
        self,
        caller: Caller,
        board: str,
        *,
        tail: int | None = None,
        head: int | None = None,
        since: datetime | None = None,
        after_id: int | None = None,
    ) -> LogLines:
        """What has happened to a board, oldest first."""
        entry = await self._find_open(caller, board, to_change=False)
        found = await self._keeper.read(
            lambda connection: store.lines(
                connection,
                entry.id,
                tail=tail,
                head=head,
                since=None if since is None else since.timestamp(),
                after_id=after_id,
            )
        )
        return LogLines(
            lines=[each.model_copy(update={"text": translate_log(each.text)}) for each in found]
        )

    def counts(self) -> Mapping[State, int]:
        """How many boards there are in each state."""
        return Counter(entry.life.state for entry in self.registry)

    def places_held(self, user_id: int) -> int:
        """How many boards of somebody's are live."""
        return sum(entry.owner_id == user_id for entry in live(self.registry))

    def hosts(self) -> Sequence[Host]:
        """The hosts there are, for people."""
        return self._keeper.hosts.describe()

    async def drain(self, host: str) -> Host:
        """Has a host end when its boards have gone to others, which they now do.

        Raises:
            NotFound: There is no such host.
        """
        await self._keeper.drain(host)
        return next(each for each in self.hosts() if each.id == host)

    # --- making

    async def create(self, caller: Caller, new: NewBoard) -> Board:
        """Makes a board, or answers the one that is meant; it is being started.

        Raises:
            BadRequest: The selector, the template or the groups cannot be understood, or it is
                meant for another launcher.
            NotFound, Ambiguous: What it names is not there, or may be several things.
            TensorboardLimitExceeded: No more boards may run at once.
            Forbidden: The caller has a board with this key, but may not see its data any more.
        """
        caller.require("write", "member")
        sources.check_options(new.options)
        asked = sources.asked_of(new)
        if new.removed:
            whole = asked
            asked = await self._keeper.read(
                lambda connection: sources.leave_out(connection, whole, new.removed, caller.visible)
            )
        if new.launcher not in (None, self._launcher):
            raise BadRequest(
                f"This hub serves boards by the launcher {self._launcher}, not by {new.launcher}; "
                f"one that does is started with --launcher {new.launcher}.",
                launcher=self._launcher,
            )
        new = await self._keeper.read(
            lambda connection: with_default(
                connection,
                new,
                caller.user_id,
                self._settings.name_template,
                lambda: self._look_up(connection, caller, new, asked)[1],
            )
        )
        if new.key is None and not new.reuse:
            entry = await self._keeper.surely(self._create(caller, new, asked))
        else:
            lock = self._making.setdefault(caller.user_id, asyncio.Lock())
            entry = await self._keeper.surely(self._get_or_create(lock, caller, new, asked))
        return await self._answer(caller, entry)

    async def _get_or_create(
        self, lock: asyncio.Lock, caller: Caller, new: NewBoard, asked: Asked
    ) -> Entry:
        async with lock:
            mine = [
                each
                for each in self.registry
                if each.owner_id == caller.user_id and each.life.state != State.TERMINATED
            ]
            if new.key is not None:
                mine = [each for each in mine if each.key == new.key]
            else:
                key = asked.key(new.options, new.follow)
                for each in [each for each in mine if each.sources_key == key]:
                    await self._followed.rename_sources(each)  # to what they mean now
                alike = [each for each in mine if each.sources_key == key]
                missing = await self._missing(caller, alike)
                mine = [each for each in alike if each.id not in missing]
            there = max(mine, key=lambda each: (each.is_live, each.created), default=None)
            if there is None:
                return await self._create(caller, new, asked)
            reason = (await self._missing(caller, [there])).get(there.id)
            if reason is not None:
                raise Forbidden(reason)
            if new.key is None:  # a name may mean several runs by now
                await self._keeper.read(
                    lambda connection: self._look_up(connection, caller, new, asked)
                )
            if new.reuse:
                await self._followed.refresh(there)
            await self._start(there)
            return there

    async def _create(self, caller: Caller, new: NewBoard, asked: Asked) -> Entry:
        for _ in range(_TRIES):
            try:
                return await self._try_to_create(caller, new, asked)
            except IntegrityError:  # a run was deleted meanwhile, or an id is taken
                continue
        raise Unavailable("What the board is to show changes too quickly. Try again.")

    async def _try_to_create(self, caller: Caller, new: NewBoard, asked: Asked) -> Entry:
        shown, workspace_id = await self._keeper.read(
            lambda connection: self._look_up(connection, caller, new, asked)
        )
        if workspace_id is not None and not caller.may_write(workspace_id):
            workspace_id = None
        board_id = str(uuid.uuid4())
        now = time.time()
        life = Life(max_runtime=_limit(new.max_runtime, self._settings.max_runtime))
        values = {
            "id": board_id,
            "short": board_id[:8],
            "name": new.name or pet_name(self.registry.has_name),
            "key": new.key,
            "owner_id": caller.user_id,
            "workspace_id": workspace_id,  # none for a viewer of it: places there are its members'
            "follow": new.follow,
            "sources_key": asked.key(new.options, new.follow),
            "options": new.options.model_dump(),
            "created": now,
            "active": now,
            "idle_timeout": _limit(new.idle_timeout, self._settings.idle_timeout),
            "no_data_timeout": _limit(new.no_data_timeout, self._settings.no_data_timeout),
            **store.life_columns(life),
        }
        clock = asyncio.get_running_loop().time()

        def insert(connection: Connection) -> Entry:
            take_place(connection, self._settings, caller.user_id, workspace_id)
            if new.key is not None:  # which a board that has ended for good gives up
                held = (boards.c.owner_id == caller.user_id) & (boards.c.key == new.key)
                ended = held & (boards.c.state == State.TERMINATED.value)
                connection.execute(update(boards).where(ended), {"key": None})
            store.insert_board(connection, values, replace(asked, meant=shown.meant), shown)
            store.add_lines(
                connection, board_id, [Say(f"{sources.described(shown)}; waiting for a host")]
            )
            return store.load_entry(connection, board_id, clock)

        entry: Entry = await self._keeper.write(insert)
        for each in self.registry:
            if new.key is not None and each.key == new.key and each.owner_id == entry.owner_id:
                each.key = None
                each.changed()
        self.registry.add(entry)
        self._keeper.publish(entry)
        self._keeper.poke(entry)
        return entry

    def _look_up(
        self, connection: Connection, caller: Caller, new: NewBoard, asked: Asked
    ) -> tuple[Shown, int | None]:
        """Return what a new board would show, and the workspace it belongs to.

        Raises:
            NotFound: What it names, or the workspace, is not there or may not be seen.
            Forbidden: The workspace is named, and the caller is only a viewer of it.
        """
        shown = sources.show(connection, asked, caller.visible)
        if not shown.run_ids and not shown.uris and not new.follow:
            text = asked.selector or "what was named"
            raise NotFound(f"No run matches {text}. A board that follows waits for some.")
        if new.workspace is not None:
            workspace_id = store.workspace_named(connection, new.workspace)
            if workspace_id is None or not caller.may_see(workspace_id):
                raise NotFound(f"There is no workspace {new.workspace!r}.")
            caller.require_write(workspace_id)
            return shown, workspace_id
        homes = shown.workspaces | workspaces_below(connection, shown.uris, caller.visible)
        return shown, next(iter(homes)) if len(homes) == 1 else None

    # --- changing

    async def change(self, caller: Caller, board: str, change: BoardChange) -> Board:
        """Changes a board's name, options or limits."""
        entry = await self._to_change(caller, board)
        if change.options is not None:
            sources.check_options(change.options)
        await self._keeper.surely(self._change(entry, change))
        if change.name is not None or change.options is not None:  # its host shows them
            await self._keeper.settled(entry, _SETTLE_SECONDS)
        return await self._answer(caller, entry)

    async def _change(self, entry: Entry, change: BoardChange) -> None:
        async with entry.lock:
            values: dict[str, Any] = {}
            life = entry.life
            if change.name is not None:
                values["name"] = change.name
            if change.options is not None:
                values["options"] = change.options.model_dump()
            if change.idle_timeout is not None:
                values["idle_timeout"] = change.idle_timeout or None
            if change.extend is not None:
                if life.deadline is None:
                    raise Conflict("The board has no end that could be put off.")
                life = replace(life, deadline=life.deadline + change.extend)
                values["deadline"] = life.deadline
            if change.max_runtime is not None:
                most = change.max_runtime or None
                runs = entry.is_live and life.started is not None
                end = time.time() + most if most is not None and runs else None
                life = replace(life, max_runtime=most, deadline=end)
                values |= {"max_runtime": most, "deadline": end}
            if change.ends_in is not None and entry.is_live:
                life = replace(life, deadline=time.time() + change.ends_in)
                values["deadline"] = life.deadline

            def save(connection: Connection) -> str:
                if change.options is not None:
                    asked = store.asked_of(connection, entry.id)
                    values["sources_key"] = asked.key(change.options, entry.follow)
                mine = update(boards).where(boards.c.id == entry.id)
                if values and not connection.execute(mine, values).rowcount:
                    raise NotFound("The board was deleted.")
                return str(values.get("sources_key", entry.sources_key))

            entry.sources_key = await self._keeper.write(save)
            entry.life = life
            if change.name is not None:
                self.registry.rename(entry, change.name)
            if change.idle_timeout is not None:
                entry.idle_timeout = change.idle_timeout or None
            entry.stale |= change.name is not None or change.options is not None
        self._keeper.limits_changed(entry)
        self._keeper.publish(entry)
        self._keeper.poke(entry)

    async def add_runs(self, caller: Caller, board: str, more: BoardRuns) -> Board:
        """Adds runs to a board; open pages show them.

        Raises:
            Conflict: The board has ended for good.
        """
        entry, asked = await self._to_change_runs(caller, board), _asked(more)

        def add(connection: Connection) -> Shown:
            found = sources.show(connection, asked, caller.visible)
            was = store.shown_by(connection, entry.id)
            shown = sources.joined(was, found)
            below = ids_below(connection, found.uris, caller.visible)
            visible = store.visible_to(connection, entry.owner_id)
            before = store.asked_of(connection, entry.id)
            before = with_current_names(connection, before, was.run_ids, visible)
            now = sources.add(before, asked, found, below)
            store.set_shown(connection, entry.id, now, shown)
            more = sources.without(connection, shown, was)
            store.add_lines(connection, entry.id, [Say(f"{sources.described(more)} added")])
            return shown

        return await self._show(caller, entry, add)

    async def remove_runs(self, caller: Caller, board: str, less: BoardRuns) -> Board:
        """Takes runs out of a board; their logs stay.

        Raises:
            Conflict: The board has ended for good.
        """
        entry, asked = await self._to_change_runs(caller, board), _asked(less)

        def remove(connection: Connection) -> Shown:
            before = existing(connection, store.asked_of(connection, entry.id))
            found = sources.named_runs(connection, asked, caller.visible, before.deleted_words)
            was = store.shown_by(connection, entry.id)
            shown = sources.without(connection, was, found)
            now = sources.remove(
                connection,
                before,
                asked,
                found,
                was,
                shown,
                caller.visible,
                follow=entry.follow,
            )
            store.set_shown(connection, entry.id, now, shown)
            less = sources.without(connection, was, shown)
            store.add_lines(connection, entry.id, [Say(f"{sources.described(less)} taken out")])
            return shown

        return await self._show(caller, entry, remove)

    async def _to_change_runs(self, caller: Caller, board: str) -> Entry:
        entry = await self._to_change(caller, board)
        if entry.life.state == State.TERMINATED:
            raise Conflict(
                f"The board has ended for good ({entry.life.reason}): {entry.life.message} "
                "Create another one with the same runs."
            )
        return entry

    async def _show(self, caller: Caller, entry: Entry, change: Any) -> Board:
        await self._keeper.surely(self._followed.change(entry, change))
        await self._keeper.settled(entry, _SETTLE_SECONDS)
        return await self._answer(caller, entry)

    # --- starting and ending

    async def start_board(self, caller: Caller, board: str) -> Board:
        """Starts a board that has stopped or failed; one that lives is left alone."""
        entry = await self._to_change(caller, board)
        await self._start(entry)
        return await self._answer(caller, entry)

    async def _start(self, entry: Entry) -> None:
        if not entry.is_live:
            await self._followed.rename_sources(entry)
            if entry.follow or entry.has_places:
                await self._followed.refresh(entry, whole=entry.follow)
        await self._keeper.apply(entry, lives.Start(), self._place_for(entry))

    def _place_for(self, entry: Entry) -> Any:
        def take(connection: Connection) -> None:
            if not entry.is_live:
                take_place(connection, self._settings, entry.owner_id, entry.workspace_id)

        return take

    async def stop(self, caller: Caller, board: str) -> Board:
        """Stops a board; it can be started again."""
        entry = self._to_end(caller, board)
        await self._keeper.apply(entry, lives.Stop(caller.name))
        await self._keeper.settled(entry, _SETTLE_SECONDS)
        return await self._answer(caller, entry)

    async def kill(self, caller: Caller, board: str) -> Board:
        """Ends a board for good; a second time changes nothing."""
        entry = self._to_end(caller, board)
        await self._keeper.apply(entry, lives.Kill(caller.name))
        return await self._answer(caller, entry)

    async def restart(self, caller: Caller, board: str) -> Board:
        """Stops a board and starts it again."""
        entry = await self._to_change(caller, board)
        await self._followed.rename_sources(entry)
        await self._keeper.restart(entry, self._place_for(entry))
        return await self._answer(caller, entry)

    async def delete(self, caller: Caller, board: str) -> None:
        """Ends a board if it lives, and forgets it."""
        entry = self._to_end(caller, board)
        entry.deleted_by = caller.name
        await self._keeper.forget(entry, lambda connection: _delete(connection, entry.id))

    # --- visits

    async def ready_host(self) -> HostLink:
        """A host that takes requests; waits until there is one.

        Raises:
            NoHostError: Hosts do not start.
        """
        return await self._keeper.hosts.ready()

    def route(self, board: str) -> Route | None:
        """Where a board is served, by its short or whole id; without asking anybody."""
        entry = self.registry.get(board)
        if entry is None:
            return None
        link = self._keeper.hosts.get(entry.life.host) if entry.life.state in READY else None
        return Route(
            entry.id,
            entry.short,
            entry.name,
            entry.owner_id,
            entry.life.state,
            None if link is None else link.address,
            None if link is None else link.secret,
            None if link is None else link.handover,
        )

    def deleted_by(self, caller: Caller, short: str) -> str | None:
        """Return who deleted a board that the caller could see; none if that is not known."""
        entry = self.registry.deleted(short)
        return entry.deleted_by if entry is not None and entry.may_be_seen_by(caller) else None

    def note_request(self, board_id: str, size: int) -> None:
        """Somebody who may has looked at a board, and got so many bytes."""
        entry = self.registry.get(board_id)
        if entry is not None:
            self._keeper.note_request(entry, size)

    def streams(self, board_id: str, change: int) -> None:
        """A page of a board was opened (+1) or closed (-1)."""
        entry = self.registry.get(board_id)
        if entry is not None:
            self._keeper.streams(entry, change)

    async def wake(self, board_id: str, timeout: float = _WAKE_SECONDS) -> Route:
        """Starts a board that has stopped, and waits until it can be looked at.

        Raises:
            Conflict: It has ended otherwise, or failed to start; says why.
            Unavailable: It takes too long.
        """
        entry = self.registry.get(board_id)
        if entry is None:
            raise NotFound("no such board")
        if entry.life.state in (State.STOPPED, State.STOPPING):
            await self._start(entry)
        try:
            async with asyncio.timeout(timeout):
                while entry.life.state not in READY:
                    if not entry.is_live or entry.deleted:
                        raise Conflict(f"The board is {entry.life.state}: {entry.life.message}")
                    await entry.next_change()
        except TimeoutError:
            raise Unavailable("The board is still being started. Try again.") from None
        route = self.route(board_id)
        assert route is not None
        return route

    # --- hosts and runs

    async def register_host(self, host: str, token: str, address: str, pid: int) -> str:
        """A host that was started registers; answers the secret by which it will know us."""
        return await self._keeper.hosts.register(host, token, address, pid)

    def runs_changed(self, run_ids: Collection[int]) -> None:
        """Runs have come, gone or changed: boards that follow look again."""
        self._followed.look_soon()

    def runs_deleted(self, run_ids: Collection[int]) -> None:
        """Runs or experiments were deleted: boards list and show them no more."""
        for entry in self.registry:
            entry.changed()
        self.runs_changed(run_ids)

    def rights_changed(self, owner_id: int | None = None) -> None:
        """Notify owners of boards: what they may see of them may have changed.

        Args:
            owner_id: The user whose rights have changed; none: any user may have lost or gained
                the right to a path or URI.
        """
        for entry in self.registry:
            is_concerned = entry.has_places if owner_id is None else entry.owner_id == owner_id
            if is_concerned:
                self._keeper.publish(entry)

    async def run_renamed(self, run: int) -> None:
        """Send hosts the boards that show a run, or may show it below a place, again."""
        chosen = select(board_runs.c.board_id).where(board_runs.c.run_id == run)
        showing: set[str] = await self._keeper.read(lambda c: set(c.scalars(chosen)))
        for entry in live(self.registry):
            if entry.id in showing:
                await self._followed.rename_sources(entry)
                self._keeper.publish(entry)
            if entry.id in showing or entry.has_places:
                await self._keeper.check_payload(entry)

    async def connections_changed(self) -> None:
        """Send hosts the credentials of their boards, after storage connections have changed."""
        for entry in live(self.registry):
            await self._keeper.check_payload(entry)

    async def stands(self, board_id: str) -> dict[str, Any] | None:
        """How a board stands on its host, for the doctor; none if nobody serves it."""
        entry = self.registry.get(board_id)
        link = None if entry is None else self._keeper.hosts.get(entry.life.host)
        if link is None:
            return None
        await link.health(_DOCTOR_TIMEOUT)  # one that hangs is not waited for
        return await link.get(board_id)

    async def check(self, board_id: str) -> dict[str, Any] | None:
        """Return what the host of a board sees of it, for the doctor; none if it has no host."""
        entry = self.registry.get(board_id)
        link = None if entry is None else self._keeper.hosts.get(entry.life.host)
        return None if link is None else await link.check(board_id)

    async def check_hosts(self) -> dict[str, dict[str, Any] | TbhubError]:
        """Return what each host says of itself, or why it does not."""

        async def check(link: HostLink) -> dict[str, Any] | TbhubError:
            try:
                await link.health(_DOCTOR_TIMEOUT)  # one that hangs is not waited for
                return await link.check()
            except TbhubError as error:
                return error

        links = [self._keeper.hosts.get(host.id) for host in self._keeper.hosts.describe()]
        there = [link for link in links if link is not None and link.address is not None]
        found = await asyncio.gather(*map(check, there))
        return {link.id: seen for link, seen in zip(there, found, strict=True)}

    async def read(self, ask: Any) -> Any:
        """Something the database knows, asked in a thread."""
        return await self._keeper.read(ask)


def _counted(board: Board, entry: Entry, runs: int, url: str, silence: str) -> Board:
    """With what is counted all the time, and its address below that of the hub.

    Args:
        silence: For how long its host has not answered; empty if it answers.
    """
    active = time.time() if entry.streams else entry.active
    if board.uris and entry.reported_runs is not None:
        runs = entry.reported_runs
    update = {
        "runs": runs,
        "url": f"{url}/boards/{entry.id[:8]}/",
        "message": translate_log(board.message),
        "active": datetime.fromtimestamp(active, UTC),
        "requests": entry.requests,
        "bytes": entry.bytes,
    }
    if board.state in READY:
        update["problem"] = translate_log(entry.problem)
    if board.state == State.WAITING:
        update["message"] = translate_log(entry.problem or entry.waits_for)
    if silence:
        update["message"] = translate_log(silence)
    return board.model_copy(update=update)


def _closed(board: Board, entry: Entry, runs: int, url: str, missing: Message) -> Board:
    """Return a board whose data the caller may not see: without what its backend has found."""
    update = {
        "runs": runs,
        "url": f"{url}/boards/{entry.id[:8]}/",
        "message": "",
        "problem": translate(missing),
        "closed": True,
        "active": datetime.fromtimestamp(entry.active, UTC),
    }
    return board.model_copy(update=update)


def _limit(given: float | None, default: float) -> float | None:
    """Seconds, or none for no limit."""
    return (default if given is None else given) or None


def _asked(change: BoardRuns) -> Asked:
    options = NewBoard(runs=change.runs, uris=change.uris)
    return sources.asked_of(options)


def _delete(connection: Connection, board_id: str) -> None:
    connection.execute(delete(boards).where(boards.c.id == board_id))
