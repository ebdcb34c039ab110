"""Boards whose runs come and go: what they were asked to show is looked up again.

However many boards follow, and however often runs change, looking takes a small share of the time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace

from sqlalchemy import Connection

from tbhub.api.models import State
from tbhub.api.problems import Problem
from tbhub.boards.life import READY, Say
from tbhub.hub import board_store as store
from tbhub.hub import sources
from tbhub.hub.grown_names import with_current_names
from tbhub.hub.keeper import Keeper
from tbhub.hub.registry import Entry, live
from tbhub.hub.sources import Asked, Shown

_SOON = 0.2  # changes are taken together for so long
_SHARE = 0.02  # of the time may be spent looking

logger = logging.getLogger("tbhub.boards")


class Followed:
    """Keeps boards up to date with the catalog."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._task: asyncio.Task[None] | None = None
        self._news = False
        self._next = 0.0

    def look_soon(self) -> None:
        """Runs have changed."""
        self._news = True
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look())

    def close(self) -> None:
        """Looks no more."""
        if self._task is not None:
            self._task.cancel()

    async def change(self, entry: Entry, change: Callable[[Connection], Shown]) -> None:
        """Makes a board show something else; its host is told."""

        def save(connection: Connection) -> tuple[Shown, str]:
            return change(connection), store.renew_key(connection, entry.id)

        async with entry.lock:
            shown, entry.sources_key = await self._keeper.write(save)
            entry.workspaces = shown.workspaces
            entry.has_places |= bool(shown.uris)
            entry.stale = True
        self._keeper.publish(entry)
        self._keeper.poke(entry)

    async def refresh(self, entry: Entry, *, whole: bool = True) -> None:
        """Look up again what a board was asked to show, without what was deleted.

        Nothing changes if a source may not be seen any more.

        `whole`: all of it, and not only places.
        """
        if whole:
            await self.rename_sources(entry)
        try:
            changed = await self._keeper.surely(self._refresh(entry, whole))
        except Problem as error:
            logger.debug("board %s shows what it did: %s", entry.id, error)
            return
        if changed:
            self._keeper.publish(entry)
            self._keeper.poke(entry)

    async def rename_sources(self, entry: Entry) -> None:
        """Name the sources of a board by the names that its runs have now; not deleted ones."""
        await self._keeper.surely(self._rename_sources(entry))

    async def _rename_sources(self, entry: Entry) -> None:
        def look_up(connection: Connection) -> tuple[Asked, Asked, str]:
            asked, shown = store.asked_of(connection, entry.id), store.run_ids(connection, entry.id)
            visible = store.visible_to(connection, entry.owner_id)
            now = with_current_names(connection, asked, shown, visible)
            return asked, now, now.key(store.options_of(connection, entry.id), entry.follow)

        async with entry.lock:
            if entry.deleted:
                return
            asked, now, key = await self._keeper.read(look_up)
            if now != asked:
                await self._keeper.write(
                    lambda connection: store.set_asked(connection, entry.id, now, key)
                )
                entry.sources_key = key

    async def _refresh(self, entry: Entry, whole: bool) -> bool:
        async with entry.lock:
            if entry.deleted:
                return False
            asked, before, shown = await self._keeper.read(
                lambda connection: _look_up(connection, entry, whole)
            )
            if shown == before:
                return False

            def save(connection: Connection) -> None:
                store.set_shown(connection, entry.id, asked, shown)
                text = f"now shows {sources.described(shown)}, before {sources.described(before)}"
                store.add_lines(connection, entry.id, [Say(text)])

            await self._keeper.write(save)
            entry.workspaces = shown.workspaces
            entry.stale = True
            return True

    async def _look(self) -> None:
        while self._news:
            await asyncio.sleep(max(_SOON, self._next - time.monotonic()))
            self._news = False
            start = time.monotonic()
            try:
                await self._look_at_all()
            except Problem as error:
                logger.warning("boards that follow could not look: %s", error)
                self._news = True
            self._next = time.monotonic() + (time.monotonic() - start) / _SHARE

    async def _look_at_all(self) -> None:
        up = live(self._keeper.registry)
        # Runs that were deleted have left the boards they were in, and names of runs have grown.
        # What an earlier hub has sent to the host of a board is not known: it is sent again.
        placed = [entry for entry in up if entry.life.state in (State.STARTING, *READY)]
        ids = [entry.id for entry in placed]
        found = await self._keeper.read(lambda connection: store.name_lengths(connection, ids))
        changed = [
            entry
            for entry in placed
            if found.get(entry.id, (0, 0)) != (entry.seen_runs, entry.seen_names)
        ]
        for entry in changed:
            if not entry.follow:
                await self.rename_sources(entry)
            entry.stale = True
        for entry in up:
            if entry.follow or entry.has_places:
                await self.refresh(entry, whole=entry.follow)
                if entry.has_places:  # what the catalog knows below them may be another
                    await self._keeper.check_payload(entry)
        for entry in changed:
            self._keeper.publish(entry)
            self._keeper.poke(entry)


def _look_up(connection: Connection, entry: Entry, whole: bool) -> tuple[Asked, Shown, Shown]:
    """What a board was asked to show, what it shows, and what it should show."""
    asked, before = store.asked_of(connection, entry.id), store.shown_by(connection, entry.id)
    visible = store.visible_to(connection, entry.owner_id)
    if whole:
        shown = sources.show(connection, asked, visible, skip_missing=True)
    elif sources.has_places(asked):
        shown = sources.show_places(connection, asked, before, visible)
    else:
        shown = before
    return asked, before, replace(shown, run_ids=tuple(sorted(shown.run_ids)))
