"""Whatever happens in a bucket between two looks, what is shown is what stands there."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from support.live import PATIENCE, VERSION, loaded, scalar, session_start, shown
from support.stale_store import StaleStore
from tbhub.events.segments import group_segments, segment_name
from tbhub.series import objects
from tbhub.series.follower import Follower
from tbhub.storage.uri import Uri

RUNS = st.sampled_from(["", "a", "a/b", "c d"])
FILES = st.sampled_from(["events.out.tfevents.1", "events.out.tfevents.2"])


class RemoteFollowing(RuleBasedStateMachine):
    """Publishers, and whoever else has a hand in a bucket."""

    use_cache = False

    def __init__(self) -> None:
        super().__init__()
        self.store = StaleStore()
        self.count = 0
        self.top = tempfile.TemporaryDirectory(prefix="tbhub-remote")
        self.patches = [
            patch("tbhub.storage.open.open_store", self.open_store),
            patch.object(objects, "GRACE_SECONDS", 0.0),
        ]
        for each in self.patches:
            each.start()
        self.open()

    def open_store(self, uri: Uri, *_: object, **__: object) -> tuple[StaleStore, str]:
        return self.store, uri.path

    def open(self) -> None:
        cache = Path(self.top.name) / "cache" if self.use_cache else None
        self.follower = Follower(cache_dir=cache, use_cache=self.use_cache, budget=600)
        self.root = self.follower.follow("s3://double/root")

    def teardown(self) -> None:
        self.follower.close()
        for each in self.patches:
            each.stop()
        self.top.cleanup()

    def path(self, run: str, name: str) -> str:
        return "/".join(filter(None, ("root", run, name)))

    def record(self) -> bytes:
        self.count += 1
        return scalar("ab"[self.count % 3 == 0], self.count // 2, self.count, 1000 + self.count)

    def segments(self, run: str, file: str) -> list[str]:
        folder = f"{self.path(run, file)}."
        return sorted(path for path in self.store.objects if path.startswith(folder))

    def extend(self, path: str, data: bytes) -> None:
        before = self.store.objects[path][1] if path in self.store.objects else b""
        self.store.put(path, before + data)

    @rule(run=RUNS, file=FILES, count=st.integers(1, 20))
    def grow(self, run: str, file: str, count: int) -> None:
        """The last segment is replaced by a longer one."""
        known = self.segments(run, file)
        last = known[-1] if known else self.path(run, segment_name(file, 1))
        data = b"".join(self.record() for _ in range(count))
        self.extend(last, data if known else VERSION + data)

    @rule(run=RUNS, file=FILES, more=st.integers(0, 5))
    def seal(self, run: str, file: str, more: int) -> None:
        """The last segment grows once more, and another begins."""
        known = self.segments(run, file)
        if known:
            self.extend(known[-1], b"".join(self.record() for _ in range(more)))
            name = segment_name(file, len(known) + 1)
            self.store.put(self.path(run, name), self.record())

    @rule(run=RUNS, part=st.floats(0.0, 1.0))
    def grow_whole(self, run: str, part: float) -> None:
        """A file that others upload as it is, with a record cut in two."""
        path = self.path(run, "events.out.tfevents.0")
        data = self.record()
        self.extend(path, VERSION if path not in self.store.objects else b"")
        self.extend(path, self.record() + data[: int(len(data) * part)])

    @rule(run=RUNS, file=FILES)
    def restart(self, run: str, file: str) -> None:
        known = self.segments(run, file)
        if known:
            self.extend(known[-1], session_start(max(0, self.count // 2 - 5)))

    @rule(run=RUNS, file=FILES, count=st.integers(0, 9))
    def replace(self, run: str, file: str, count: int) -> None:
        """Written anew by somebody who knows nothing of segments that only grow."""
        known = self.segments(run, file)
        if known:
            self.store.put(known[0], VERSION + b"".join(self.record() for _ in range(count)))

    @rule(run=RUNS, file=FILES)
    def delete(self, run: str, file: str) -> None:
        for path in self.segments(run, file):
            self.store.delete(path)

    @rule(run=RUNS)
    def delete_run(self, run: str) -> None:
        self.store.delete_below(self.path(run, "").rstrip("/"))

    @rule()
    def go_down_for_a_while(self) -> None:
        self.store.is_down = True
        assert self.follower.look(PATIENCE)
        self.store.is_down = False

    @rule()
    def list_stale(self) -> None:
        """What an old listing shows may be shown; afterwards it is not."""
        self.store.become_stale()
        with patch.object(objects, "GRACE_SECONDS", 3600.0):
            self.grow("a", "events.out.tfevents.1", 3)
            assert self.follower.look(PATIENCE)
        self.store.become_fresh()

    @invariant()
    def what_is_shown_is_what_stands_there(self) -> None:
        assert self.follower.look(PATIENCE)
        assert self.follower.look(PATIENCE)  # what could not be read is read with the next listing
        with tempfile.TemporaryDirectory() as copy:
            self.copy_to(Path(copy))
            expected = loaded(copy)
        assert {name: shown(log.view) for name, log in self.root.runs.items()} == expected

    def copy_to(self, directory: Path) -> None:
        """Each file in one piece, as the training wrote it."""
        folders: dict[str, list[str]] = {}
        for path in self.store.objects:
            above, _, name = path.rpartition("/")
            folders.setdefault(above, []).append(name)
        for above, names in folders.items():
            target = directory / above.removeprefix("root").lstrip("/")
            target.mkdir(parents=True, exist_ok=True)
            for name, parts in group_segments(names).items():
                data = b"".join(self.store.objects[f"{above}/{part}"][1] for part in parts)
                (target / name).write_bytes(data)


class RemoteFollowingWithCache(RemoteFollowing):
    """The same, closed and opened again from the cache now and then."""

    use_cache = True

    @rule()
    def reopen(self) -> None:
        for log in self.root.runs.values():
            log.store()
        self.follower.close()
        self.open()


TestRemoteFollowing = RemoteFollowing.TestCase
TestRemoteFollowing.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
TestRemoteFollowingWithCache = RemoteFollowingWithCache.TestCase
TestRemoteFollowingWithCache.settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None
)
