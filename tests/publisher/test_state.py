"""Whatever happens on the way, what is stored is a beginning of the file; at the end, all of it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from support.memory_buckets import KilledError, StumblingBucket
from support.records import frame
from tbhub.events.segments import group_segments
from tbhub.publisher import state as states
from tbhub.publisher.publisher import Publisher
from tbhub.publisher.state import Grown, State
from tbhub.storage.errors import Unreachable
from tbhub.storage.local import LocalStore

NAME = "run/events.out.tfevents.1.host"
RECORDS = st.lists(st.integers(0, 60_000), min_size=1, max_size=5)


class Unplugged(LocalStore):
    """A store that can grow objects, and loses requests and answers."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.how = ""

    def append(self, path: str, offset: int, data: bytes) -> int:
        how, self.how = self.how, ""
        if how == "request":
            raise Unreachable("write", path, "the request was lost")
        if how == "half":
            super().append(path, offset, data[: len(data) // 2])
            raise Unreachable("write", path, "the answer was lost")
        size = super().append(path, offset, data)
        if how == "answer":
            raise Unreachable("write", path, "the answer was lost")
        if how == "kill":
            raise KilledError
        return size


class Published(RuleBasedStateMachine):
    """A file that grows, a publisher that is killed and restarted, and a bucket that stumbles."""

    def __init__(self) -> None:
        super().__init__()
        self.scratch = tempfile.TemporaryDirectory()
        self.root = Path(self.scratch.name)
        self.file = self.root / "files" / NAME
        self.file.parent.mkdir(parents=True)
        self.file.touch()
        self.whole = b""  # the records that are complete
        self.torn = b""  # the rest of the record that is not
        self.written = 0
        self.bucket = StumblingBucket()
        self.begin()

    def begin(self) -> None:
        self.publisher = Publisher(
            self.root / "files", self.bucket, "place", state=self.root / "state.json"
        )

    def teardown(self) -> None:
        self.bucket.stumble = lambda: ""
        assert self.publisher.close() == type(self.publisher.backlog)()
        assert self.stored() == self.whole
        self.scratch.cleanup()

    def stored(self) -> bytes:
        names = [path.removeprefix("place/") for path in self.bucket.objects]
        files = group_segments(names)
        assert set(files) <= {NAME}
        # Nothing lies behind a gap.
        assert len(files.get(NAME, ())) == len(names)
        return b"".join(self.bucket.objects[f"place/{name}"] for name in files.get(NAME, ()))

    def add(self, data: bytes) -> None:
        with self.file.open("ab") as file:
            file.write(data)

    @rule(sizes=RECORDS)
    def write_records(self, sizes: list[int]) -> None:
        if self.torn:
            self.finish_record()
        for size in sizes:
            self.written += 1
            record = frame(self.written.to_bytes(8, "little") + b"x" * size)
            self.add(record)
            self.whole += record

    @rule(size=st.integers(0, 60_000), share=st.floats(0, 1))
    def write_half_a_record(self, size: int, share: float) -> None:
        if not self.torn:
            self.written += 1
            record = frame(self.written.to_bytes(8, "little") + b"y" * size)
            cut = min(len(record) - 1, int(len(record) * share))
            self.add(record[:cut])
            self.torn = record
            self.cut = cut

    @rule()
    def finish_record(self) -> None:
        if self.torn:
            self.add(self.torn[self.cut :])
            self.whole += self.torn
            self.torn = b""

    @rule(how=st.lists(st.sampled_from(["", "request", "answer", "kill"]), max_size=4))
    def publish(self, how: list[str]) -> None:
        left = list(how)
        self.bucket.stumble = lambda: left.pop(0) if left else ""
        try:
            backlog = self.publisher.publish()
        except KilledError:
            self.begin()
        else:
            assert bool(backlog.problem) == bool(
                {"request", "answer"} & set(how[: len(how) - len(left)])
            )

    @rule()
    def restart(self) -> None:
        self.begin()

    @rule()
    def lose_state(self) -> None:
        (self.root / "state.json").unlink(missing_ok=True)
        self.begin()

    @invariant()
    def is_a_beginning(self) -> None:
        assert self.whole.startswith(self.stored())


class Appended(Published):
    """The same where objects can grow."""

    def __init__(self) -> None:
        self.store = Unplugged(Path(tempfile.mkdtemp()))
        super().__init__()

    def begin(self) -> None:
        self.publisher = Publisher(
            self.root / "files", self.store, "place", state=self.root / "state.json"
        )

    def teardown(self) -> None:
        self.store.how = ""
        self.store_is_whole()
        super().teardown()
        self.store.delete_below("place")

    def store_is_whole(self) -> None:
        self.publisher.close()
        assert self.stored() == self.whole

    def stored(self) -> bytes:
        entries = list(self.store.list("place"))
        assert {entry.path for entry in entries} <= {f"place/{NAME}"}
        return self.store.read(f"place/{NAME}") if entries else b""

    @rule(how=st.sampled_from(["", "request", "answer", "half", "kill"]))
    def publish(self, how: str) -> None:  # type: ignore[override]
        self.store.how = how
        try:
            self.publisher.publish()
        except KilledError:
            self.begin()
        self.store.how = ""


TestPublished = Published.TestCase
TestAppended = Appended.TestCase
TestPublished.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestAppended.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def test_what_was_saved_is_read(tmp_path: Path) -> None:
    file = tmp_path / "events"
    file.write_bytes(b"0123456789" * 20)
    path = tmp_path / "state.json"
    state = State(path)
    assert not state.was_found
    grown = Grown("a\udcff")
    state.set_grown("a\udcff", grown)
    with file.open("rb") as opened:
        state.grow(grown, 1, 50, opened.fileno())
        state.grow(grown, 2, 100, opened.fileno())
        state.grow(grown, 2, 150, opened.fileno())
        state.save()
        again = State(path)
        assert again.was_found
        assert again.grown == {"a\udcff": grown}
        assert again.grown["a\udcff"].ends == [50, 150]
        assert again.grown["a\udcff"].is_of(opened.fileno())
    file.write_bytes(b"9876543210" * 20)
    with file.open("rb") as opened:
        assert not again.grown["a\udcff"].is_of(opened.fileno())


def test_a_state_that_cannot_be_trusted_is_not(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "state.json"
    state = State(path)
    state.set_grown("a", Grown("a"))
    state.save()
    assert State(path).was_found
    monkeypatch.setattr(states, "_boot", lambda: "another")
    assert not State(path).was_found  # the disk may have lost what was written last
    for damaged in (b"", b"{}", b"[]", b'{"format": 1, "grown": 3}', b"\xff"):
        path.write_bytes(damaged)
        assert not State(path).was_found
