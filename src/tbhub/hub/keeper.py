"""Keeps boards where they belong: what happens to each is written down, then carried out.

A board has a worker only while there is something to do for it. The worker looks at where the board
should be and at where it is, does the next step and looks again; so it does not matter what was
asked in which order, or at which step an earlier hub was killed. Changes of one board follow one
after the other under its lock; nobody holds the lock while a host is asked.

Nothing is polled: hosts tell of news in one stream each, and all limits share one timer.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import time
from asyncio import FIRST_COMPLETED
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

import orjson
from sqlalchemy import Connection

from tbhub.api.models import Event as News
from tbhub.api.models import State
from tbhub.api.problems import NotFound, Problem
from tbhub.boards import life as lives
from tbhub.boards.life import READY, Cause, Event, Instruction, Life, Say, Verdict, handle
from tbhub.boards.suspicion import Judged, judge
from tbhub.database.engine import Database
from tbhub.hub import board_store as store
from tbhub.hub import troubles
from tbhub.hub.bus import Bus
from tbhub.hub.connections import connections_used
from tbhub.hub.host_link import HostGoneError, HostRefusedError
from tbhub.hub.host_payload import Credentials, payload
from tbhub.hub.host_store import shown_by
from tbhub.hub.hosts import Death, Hosts, NoHostError
from tbhub.hub.registry import Entry, Registry
from tbhub.hub.settings import Settings
from tbhub.hub.timers import Timers
from tbhub.launchers.base import Launcher

_AT_ONCE = 8  # boards that are given to hosts at the same time
_PAUSE = 0.2  # before a host or a database that did not answer is asked again
_DRAIN_PAUSE = 5.0  # before boards that could not leave a host are tried again
_FLUSH_SECONDS = 3.0
_ACTIVE_SECONDS = 5.0  # a board that was asked for something so recently is busy

logger = logging.getLogger("tbhub.boards")

Extra = Callable[[Connection], None]
T = TypeVar("T")


class Keeper:
    """Boards and hosts brought together. Belongs to one event loop."""

    def __init__(
        self,
        database: Database,
        launcher: Launcher,
        bus: Bus,
        settings: Settings,
        credentials: Credentials,
    ) -> None:
        self.registry = Registry()
        self.hosts = Hosts(database, launcher, settings, self)
        self._database = database
        self._bus = bus
        self._launcher = launcher.name
        self._credentials = credentials
        self._timers = Timers(self._due)
        self._placing = asyncio.Semaphore(_AT_ONCE)
        self._used: set[Entry] = set()  # looked at since that was last written down
        self._flushing: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._changes: set[asyncio.Task[Any]] = set()
        self._closing = False

    async def start(self, hub_url: str) -> None:
        """Takes up what an earlier hub has left, wherever it was killed."""
        now = asyncio.get_running_loop().time()
        for entry in await self.read(lambda c: store.load_entries(c, now)):
            self.registry.add(entry)
        deaths = await self.hosts.start(hub_url)
        # Hosts that ended while no hub was there to see it.
        for host in {entry.life.host for entry in self.registry if entry.is_live}:
            if host is not None and self.hosts.get(host) is None:
                await self.host_died(deaths.get(host) or Death(host, None, "", ()))
        for entry in self.registry:
            if entry.is_live:
                self._set_timer(entry)
                self.poke(entry)
        for host in self.hosts.draining:
            self._later(self._move_from(host))

    async def close(self, *, stop_hosts: bool) -> None:
        """Ends all work. Boards whose hosts are stopped will be there again with the next hub."""
        self._closing = True
        self._timers.close()
        workers = [entry.worker for entry in self.registry if entry.worker is not None]
        for task in (*workers, *self._tasks):
            task.cancel()
        await asyncio.gather(*workers, *self._tasks, *self._changes, return_exceptions=True)
        if self._flushing is not None:
            self._flushing.cancel()
        await self.hosts.close(stop=stop_hosts)
        if stop_hosts:
            for entry in self.registry:
                if entry.is_live:
                    await self.apply(entry, lives.Requeued("the hub was stopped"))
        await self._flush()

    # --- what happens

    async def apply(self, entry: Entry, event: Event, extra: Extra | None = None) -> None:
        """Something happens to a board: it is written down, told, and seen to.

        `extra` is done in the same transaction, if anything changes.

        Raises:
            NotFound: It was deleted.
        """
        await self.surely(self._apply_locked(entry, event, extra))

    async def _apply_locked(self, entry: Entry, event: Event, extra: Extra | None) -> None:
        async with entry.lock:
            await self._apply(entry, event, extra)

    async def surely(self, work: Coroutine[Any, Any, T]) -> T:
        """Carries a change through, also if whoever asked for it does not wait for it any more."""
        task = asyncio.create_task(work)
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(task)

    async def _apply(self, entry: Entry, event: Event, extra: Extra | None = None) -> None:
        if entry.deleted:
            raise NotFound("The board was deleted.")
        life, instructions = handle(entry.life, event, time.time())
        if life == entry.life:
            return
        said = [each for each in instructions if isinstance(each, Say)]

        def save(connection: Connection) -> None:
            if extra is not None:
                extra(connection)
            store.save_life(connection, entry.id, life, said)

        await self.write(save)
        self._became(entry, life, instructions)

    def _became(self, entry: Entry, life: Life, instructions: Sequence[Instruction]) -> None:
        started = life.state in READY and entry.life.state not in READY
        if life.generation != entry.life.generation:  # a user starts it again
            entry.record, entry.resume_at = replace(entry.record, alone=()), 0.0
        entry.life = life
        entry.set_clock(asyncio.get_running_loop().time())
        if started:
            self._touch(entry)
        self.publish(entry)
        self._set_timer(entry)
        if any(not isinstance(each, Say) for each in instructions):
            self.poke(entry)

    async def restart(self, entry: Entry, extra: Extra) -> None:
        """Stops a board and starts it; nothing can come between."""
        await self.surely(self._restart(entry, extra))

    async def _restart(self, entry: Entry, extra: Extra) -> None:
        async with entry.lock:
            if entry.life.state != State.TERMINATED:
                await self._apply(entry, lives.Stop())
            await self._apply(entry, lives.Start(), extra)

    def publish(self, entry: Entry, **more: Any) -> None:
        """Tells whoever listens that a board has changed."""
        entry.changed()
        life = entry.life
        data = {
            "state": life.state,
            "reason": life.reason,
            "exit_code": life.exit_code,
            "name": entry.name,
            "host": life.host,
            **more,
        }
        self._bus.publish(News(kind="board", id=entry.id, data=data), owner=entry.owner_id)

    async def forget(self, entry: Entry, delete: Callable[[Connection], None]) -> None:
        """A board is deleted; its host lets it go."""
        await self.surely(self._forget(entry, delete))

    async def _forget(self, entry: Entry, delete: Callable[[Connection], None]) -> None:
        async with entry.lock:
            if entry.deleted:
                raise NotFound("The board was deleted.")
            await self.write(delete)
            entry.deleted = True
            self.registry.remove(entry)
        self.publish(entry, deleted=True)
        self.poke(entry)

    # --- carrying it out

    def poke(self, entry: Entry) -> None:
        """There may be something to do for a board."""
        entry.again = True
        if (entry.worker is None or entry.worker.done()) and not self._closing:
            entry.worker = asyncio.create_task(self._work(entry))

    async def settled(self, entry: Entry, seconds: float) -> None:
        """Waits until nothing is left to do for a board, but not for long."""
        if entry.worker is not None:
            await asyncio.wait({entry.worker}, timeout=seconds)

    async def _work(self, entry: Entry) -> None:
        while entry.again:
            entry.again = False
            try:
                while await self._step(entry):
                    pass
            except (Problem, HostGoneError) as error:
                logger.warning("board %s: %s", entry.id, error)
                entry.again = not entry.deleted or entry.held is not None
                await asyncio.sleep(_PAUSE)
            except Exception:
                logger.exception("board %s", entry.id)
                with suppress(Problem):
                    text = "the hub made a mistake; see its log"
                    await self.apply(entry, lives.StartFailed(text))

    async def _step(self, entry: Entry) -> bool:
        """Does the next thing; False if there is none."""
        life = entry.life
        if entry.held is not None and (
            entry.deleted or entry.held != life.host or life.state == State.STOPPING
        ):
            await self._release(entry)
        elif entry.deleted:
            return False
        elif life.state == State.STOPPING:
            await self.apply(entry, lives.Released())
        elif life.state == State.QUEUED:
            await self._place(entry)
        elif life.state == State.STARTING or (life.state in READY and entry.stale):
            await self._give(entry)
        else:
            return False
        return True

    async def _release(self, entry: Entry) -> None:
        link = self.hosts.get(entry.held)
        if link is not None:
            try:
                await link.delete(entry.id)
            except HostRefusedError as error:
                logger.error("board %s: %s", entry.id, error)
            except HostGoneError:
                if not self.hosts.abandon(link.id, entry.id):
                    raise
        self._lets_go(entry)

    def _lets_go(self, entry: Entry) -> None:
        """Its host has it no longer, which makes room for others."""
        if entry.held is not None:
            self.hosts.let_go(entry.held, entry.id)
        entry.held = None

    async def _place(self, entry: Entry) -> None:
        generation, since = entry.life.generation, time.monotonic()
        while (pause := entry.resume_at - time.monotonic()) > 0:
            change = entry.next_change()
            await asyncio.wait([change], timeout=pause)
            if entry.deleted or entry.life.state != State.QUEUED:
                return
        data = await self.read(lambda connection: shown_by(connection, entry.id))
        alone = entry.record.at(time.monotonic()).isolated
        placing = self.hosts.place(entry.id, data, since, alone=alone)
        try:
            while not placing.done():  # nor killed or stopped meanwhile
                if entry.deleted or entry.life.state != State.QUEUED:
                    return
                change = entry.next_change()
                both: list[asyncio.Future[Any]] = [placing, change]
                await asyncio.wait(both, return_when=FIRST_COMPLETED)
            link = placing.result()
        except NoHostError as error:
            if entry.life.generation == generation and not entry.deleted:
                await self.apply(entry, lives.StartFailed(str(error)))
            return
        finally:
            placing.cancel()
        entry.held, entry.given = link.id, None
        if not entry.deleted:
            await self.apply(entry, lives.Placed(link.id))

    async def _give(self, entry: Entry) -> None:
        """Gives a board to its host, or makes what the host has of it what it should be."""
        link = self.hosts.get(entry.life.host)
        if link is None:  # it has died; that is about to be told
            await asyncio.sleep(_PAUSE)
            return
        generation = entry.life.generation
        async with self._placing:
            told, connections = await self.read(
                lambda c: (payload(c, entry.id, self._credentials), connections_used(c, entry.id))
            )
            if told is None or entry.life.host != link.id:
                return
            entry.connections = connections
            digest = _digest(told)
            entry.held = link.id
            entry.stale = False
            if entry.life.state in READY and entry.given == digest:
                return
            try:
                state = await link.put(entry.id, told)
            except HostRefusedError as error:
                await self._refused(entry, generation, str(error))
                return
            except HostGoneError:
                entry.stale = True
                raise
            entry.given = digest
        names = [each["columns"]["run"] for each in told["sources"] if "columns" in each]
        entry.seen_runs, entry.seen_names = len(names), sum(map(len, names))
        if self._note(entry, state):
            self.publish(entry)
        if entry.life.generation == generation and not entry.deleted:
            pending = troubles.waits_for_answer(state.get("unanswered", ""))
            nothing = troubles.NOTHING_LEFT if entry.has_nothing_left else ""
            await self.apply(entry, lives.HostReady(state["has_data"], pending, nothing))
            await self.board_stands(link.id, entry.id, state)

    async def check_payload(self, entry: Entry) -> None:
        """Send a board to its host again if what the host should know of it has changed."""
        if entry.life.state in READY and entry.given is not None:
            told = await self.read(lambda c: payload(c, entry.id, self._credentials))
            if told is not None and _digest(told) != entry.given:
                entry.stale = True
                self.poke(entry)

    async def _refused(self, entry: Entry, generation: int, why: str) -> None:
        if entry.deleted or entry.life.generation != generation:
            return
        if entry.life.state in READY:
            await self.say(entry, Say(f"cannot be changed: {why}", "error"))
        else:
            await self.apply(entry, lives.StartFailed(why))

    async def say(self, entry: Entry, *said: Say) -> None:
        """Lines for a board's log."""
        await self.write(lambda connection: store.add_lines(connection, entry.id, said))
        self.publish(entry)

    # --- hosts that are to end

    async def drain(self, host: str) -> None:
        """A host is given no more boards, those it has are moved, and then it ends.

        Raises:
            NotFound: There is no such host.
        """
        await self.hosts.drain(host)
        self._later(self._move_from(host))

    async def _move_from(self, host: str) -> None:
        try:
            await self.hosts.ready()  # so that nobody waits for a host to start
            leaving = [entry for entry in self.registry if entry.life.host == host]
            await asyncio.gather(*(self._move(entry, host) for entry in leaving))
        except (NoHostError, Problem) as error:
            logger.error("host %s keeps its boards: %s", host, error)
            await asyncio.sleep(_DRAIN_PAUSE)
            if self.hosts.get(host) is not None:
                self._later(self._move_from(host))

    async def _move(self, entry: Entry, host: str) -> None:
        with suppress(NotFound):
            if entry.life.host == host:
                await self.apply(entry, lives.Requeued(f"host {host} is drained"))

    # --- what hosts tell (see hosts.Listener)

    async def host_has(self, host: str, boards: set[str]) -> None:
        """Takes back from a host what it should not have, and gives it what it should."""
        for board_id in boards:
            entry = self.registry.get(board_id)
            if entry is None:
                self._later(self._take_back(host, board_id))
            elif entry.life.host != host:
                entry.held = host
                self.hosts.take(host, board_id)
                self.poke(entry)
        for entry in self.registry:
            if entry.life.host == host and entry.id not in boards:
                entry.stale, entry.given = True, None
                self.poke(entry)

    async def _take_back(self, host: str, board_id: str) -> None:
        link = self.hosts.get(host)
        if link is not None and self.registry.get(board_id) is None:
            try:
                await link.delete(board_id)
            except (HostGoneError, HostRefusedError) as error:
                logger.warning("board %s: %s", board_id, error)

    async def board_stands(self, host: str, board: str, state: dict[str, Any]) -> None:
        """Take up what a host reports: a board has data or none, or something cannot be read."""
        entry = self.registry.get(board)
        if entry is None or entry.life.host != host:
            return
        if self._note(entry, state):
            self.publish(entry)
        await self._note_trouble(entry)
        pending = troubles.waits_for_answer(state.get("unanswered", ""))
        if entry.life.state in READY and bool(pending) != bool(entry.life.message):
            await self.apply(entry, lives.AnswersPending(pending))
        if state["has_data"] and entry.life.state == State.WAITING:
            await self.apply(entry, lives.Data())
        fresh = [
            each
            for each in state["notices"]
            if each["id"] not in entry.told and not entry.problem.startswith(each["text"])
        ]
        if fresh:
            entry.told.update(each["id"] for each in fresh)
            texts = [each["text"] for each in fresh]
            await self.write(lambda connection: _warn(connection, entry.id, texts))
            self.publish(entry)

    async def _note_trouble(self, entry: Entry) -> None:
        """Log that something cannot be read, or can be again; a board without data is WAITING."""
        if entry.is_loading:  # what will be known of it is not known yet
            return
        before, entry.logged_problem = entry.logged_problem, entry.problem
        if entry.waits_for and entry.life.state == State.RUNNING:
            why = entry.problem or entry.waits_for
            await self.apply(entry, lives.DataGone(why))
        elif entry.problem and entry.problem != before:
            await self.say(entry, Say(entry.problem, "warning"))
        elif before and not entry.problem:
            await self.say(entry, Say("what it shows can be read now"))

    def _note(self, entry: Entry, state: dict[str, Any]) -> bool:
        """Keep what a host reports of a board; return whether something that is shown differs."""
        before = (entry.problem, entry.waits_for, entry.has_places and entry.reported_runs)
        entry.is_loading = state["loading"] is not None
        entry.reported_runs = state["runs"]
        entry.problem = troubles.unreadable(
            state["troubles"],
            has_data=state["has_data"],
            on_hub=os.path.exists,
            launcher=self._launcher,
            connections=entry.connections,
        )
        is_waiting = not entry.is_loading and not state["has_data"]
        entry.waits_for = troubles.waits_for(state["troubles"]) if is_waiting else ""
        if is_waiting and entry.has_nothing_left:
            entry.waits_for = troubles.NOTHING_LEFT
        return before != (entry.problem, entry.waits_for, entry.has_places and entry.reported_runs)

    def host_silence_changed(self, host: str) -> None:
        """Report that the boards of a host have another message: see `Hosts.silence`."""
        for entry in self.registry:
            if entry.life.host == host:
                self.publish(entry)

    async def host_died(self, death: Death) -> None:
        """Restart the boards of a host that is gone; see `suspicion` for those that are not."""
        on = [entry for entry in self.registry if entry.life.host == death.host]
        judged = self._judge(on, death)
        for entry in self.registry:
            if entry.held == death.host:
                entry.held = None
        for entry in on:
            verdict: Verdict = "give up" if death.cause is Cause.CANCELLED else "restart"
            if entry.id in judged:
                verdict, entry.record = judged[entry.id].verdict, judged[entry.id].record
                entry.resume_at = time.monotonic() + entry.record.pause
            event = lives.HostDied(
                death.exit_code,
                death.reason,
                death.last_lines,
                death.cause,
                verdict,
                len(entry.record.crashes),
            )
            entry.is_loading = False
            await self.apply(entry, event)

    def _judge(self, on: Sequence[Entry], death: Death) -> dict[str, Judged]:
        """Decide which boards of a crashed host restart, and where; none of one taken away."""
        up = [entry for entry in on if entry.life.state in (State.STARTING, *READY)]
        if death.cause.taken or death.cause is Cause.CANCELLED or not up:
            return {}
        recently = asyncio.get_running_loop().time() - _ACTIVE_SECONDS
        return judge(
            {entry.id: entry.record for entry in up},
            {entry.id: entry.touched for entry in up},
            {
                entry.id
                for entry in up
                if entry.is_loading
                or entry.life.state == State.STARTING
                or entry.streams
                or entry.touched > recently
            },
            time.monotonic(),
            self.hosts.room,
        )

    async def boards_wait(self, boards: Collection[str], why: str) -> None:
        """What is to happen before a host takes them is in their log."""
        for board_id in boards:
            entry = self.registry.get(board_id)
            if entry is not None and entry.life.state == State.QUEUED:
                await self.say(entry, Say(why))

    # --- limits

    def _touch(self, entry: Entry) -> None:
        entry.active = time.time()
        entry.touched = asyncio.get_running_loop().time()
        self._used.add(entry)
        if self._flushing is None and not self._closing:
            loop = asyncio.get_running_loop()
            self._flushing = loop.call_later(_FLUSH_SECONDS, self._flush_now)

    def note_request(self, entry: Entry, size: int) -> None:
        """Somebody has looked at a board and got so many bytes."""
        entry.requests += 1
        entry.bytes += size
        self._touch(entry)

    def streams(self, entry: Entry, change: int) -> None:
        """A page has been opened or closed: a board with open pages is not idle."""
        entry.streams = max(0, entry.streams + change)
        self._touch(entry)
        if not entry.streams:
            self._set_timer(entry)

    def _limits(self, entry: Entry) -> list[tuple[float, Event]]:
        """When which limit is reached, on the event loop's clock."""
        state, found = entry.life.state, list[tuple[float, Event]]()
        if entry.is_live and entry.expires is not None:
            found.append((entry.expires, lives.Expired()))
        if state in READY and entry.idle_timeout and not entry.streams:
            found.append((entry.touched + entry.idle_timeout, lives.Idle(entry.idle_timeout)))
        if state == State.WAITING and entry.no_data_timeout:
            at = entry.up_since + entry.no_data_timeout
            found.append((at, lives.NoData(entry.no_data_timeout)))
        return found

    def _over(self, entry: Entry) -> list[Event]:
        clock = asyncio.get_running_loop().time()
        return [event for at, event in sorted(self._limits(entry), key=_when) if at <= clock]

    def _set_timer(self, entry: Entry) -> None:
        limits = [at for at, _ in self._limits(entry)]
        if limits and not self._closing and not entry.deleted:
            self._timers.set(entry.id, min(limits))

    def limits_changed(self, entry: Entry) -> None:
        """A limit is another one now."""
        entry.set_clock(asyncio.get_running_loop().time())
        self._set_timer(entry)

    def _due(self, board_id: str) -> None:
        entry = self.registry.get(board_id)
        if entry is None:
            return
        if self._over(entry):
            self._later(self.surely(self._end(entry)))
        else:
            self._set_timer(entry)

    async def _end(self, entry: Entry) -> None:
        """A limit is over, unless somebody has looked or extended it meanwhile."""
        try:
            async with entry.lock:
                over = self._over(entry)
                if over and not entry.deleted:
                    await self._apply(entry, over[0])
        except Problem as error:
            logger.warning("board %s: %s", entry.id, error)
            await asyncio.sleep(1.0)
        self._set_timer(entry)

    # --- the database

    async def read(self, ask: Callable[[Connection], Any]) -> Any:
        """Something the database knows, asked in a thread."""

        def work() -> Any:
            with self._database.read() as connection:
                return ask(connection)

        return await asyncio.to_thread(work)

    async def write(self, work: Callable[[Connection], Any]) -> Any:
        """One transaction, in a thread."""

        def transaction() -> Any:
            with self._database.begin() as connection:
                return work(connection)

        return await asyncio.to_thread(transaction)

    def _flush_now(self) -> None:
        self._flushing = None
        self._later(self._flush())

    async def _flush(self) -> None:
        """Writes down when boards were looked at."""
        used, self._used = self._used, set()
        rows = [
            {
                "board": entry.id,
                "new_active": entry.active,
                "new_requests": entry.requests,
                "new_bytes": entry.bytes,
            }
            for entry in used
        ]
        if not rows:
            return
        try:
            await self.write(lambda connection: store.save_activity(connection, rows))
        except Problem as error:
            logger.warning("activity could not be written: %s", error)
            self._used |= used

    def _later(self, work: Any) -> None:
        if self._closing:
            work.close()
            return
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _digest(told: dict[str, Any]) -> str:
    return hashlib.sha256(orjson.dumps(told)).hexdigest()


def _when(limit: tuple[float, Event]) -> float:
    return limit[0]


def _warn(connection: Connection, board_id: str, texts: list[str]) -> None:
    fresh = store.new_warnings(connection, board_id, texts)
    store.add_lines(connection, board_id, [Say(text, "warning") for text in fresh])
