"""A tree that is followed shows what `load` finds in it, whatever happens to it meanwhile."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from support.live import (
    PATIENCE,
    VERSION,
    append,
    descriptors,
    eventually,
    loaded,
    scalar,
    session_start,
    shown,
)
from tbhub.series import follower as follower_module
from tbhub.series.follower import Follower, Root
from tbhub.series.tree import find_runs
from tbhub.series.watch import Changes, Watcher

MakeFollower = Callable[..., Follower]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeFollower]:
    """Makes followers, without a cache unless one is named.

    They do not look everywhere just to be safe: what the kernel tells has to be enough.
    """
    monkeypatch.setattr(follower_module, "_SAFETY_SECONDS", 3600.0)
    made: list[Follower] = []

    def make_follower(cache: Path | None = None, budget: int | None = None) -> Follower:
        made.append(Follower(budget=budget, cache_dir=cache, use_cache=cache is not None))
        return made[-1]

    yield make_follower
    for follower in made:
        follower.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    path.mkdir()
    return path


def write(run: Path, *steps: int, name: str = "events.out.tfevents.1") -> Path:
    run.mkdir(parents=True, exist_ok=True)
    (run / name).write_bytes(VERSION + b"".join(scalar("a", step, step) for step in steps))
    return run / name


def shows(root: Root) -> bool:
    """Whether a root shows what there is."""
    return {name: shown(log.view) for name, log in root.runs.items()} == loaded(root.path)


def check(root: Root) -> None:
    assert list(root.runs) == list(find_runs(root.path).runs)
    assert {name: shown(log.view) for name, log in root.runs.items()} == loaded(root.path)


# ------------------------------------------------------------------ told by the kernel


def test_what_is_there_is_read(make: MakeFollower, root: Path) -> None:
    for name in (".", "a", "a/b", "c/d/e"):
        write(root / name, 1, 2, 3)
    news = threading.Event()
    follower = make()
    followed = follower.follow(str(root), news.set)
    assert follower.wait_until_loaded(PATIENCE)
    assert list(followed.runs) == [".", "a", "a/b", "c/d/e"]
    check(followed)
    eventually(news.is_set)
    loading = follower.loading
    assert loading.finished
    assert loading.runs_done == loading.runs_total == 4
    assert loading.bytes_done == loading.bytes_total > 0


def test_an_empty_directory_is_read_at_once(make: MakeFollower, root: Path) -> None:
    follower = make()
    assert follower.wait_until_loaded(PATIENCE)
    assert follower.follow(str(root)).runs == {}
    assert follower.wait_until_loaded(PATIENCE)
    assert follower.loading.finished


def test_growth_is_seen(make: MakeFollower, root: Path) -> None:
    path = write(root / "run", 0)
    follower = make()
    followed = follower.follow(str(root))
    follower.wait_until_loaded(PATIENCE)
    for step in range(1, 5):
        append(path, scalar("a", step, step))
        eventually(lambda: shows(followed))
    assert followed.runs["run"].version > 1


def test_runs_come_and_go(make: MakeFollower, root: Path) -> None:
    follower = make()
    news: list[int] = []
    followed = follower.follow(str(root), lambda: news.append(1))
    write(root / "a", 1)
    eventually(lambda: "a" in followed.runs and shows(followed))
    write(root / "deep" / "er" / "run", 1)
    eventually(lambda: "deep/er/run" in followed.runs and shows(followed))
    write(root / "a", 5, name="events.out.tfevents.2")
    eventually(lambda: shows(followed))
    (root / "a").rename(root / "b")
    eventually(lambda: "b" in followed.runs and shows(followed))
    assert "a" not in followed.runs
    shutil.rmtree(root / "deep")
    eventually(lambda: list(followed.runs) == ["b"])
    for path in (root / "b").iterdir():
        path.unlink()
    eventually(lambda: not followed.runs)
    assert news
    eventually(lambda: follower.memory.used == 0)


def test_a_directory_made_anew_is_followed(make: MakeFollower, root: Path) -> None:
    """Under another inode or, as likely, the same."""
    follower = make()
    followed = follower.follow(str(root))
    for round_ in range(10):
        path = write(root / "run" / "below", round_)
        eventually(lambda: "run/below" in followed.runs and shows(followed))
        append(path, scalar("a", 100, round_))
        eventually(lambda: shows(followed))
        if round_ % 2:
            shutil.rmtree(root / "run")
        else:
            (root / "run").rename(root / f"was{round_}")
    eventually(lambda: len(followed.runs) == 5)
    check(followed)


def test_a_root_that_goes_and_comes_back(make: MakeFollower, root: Path) -> None:
    follower = make()
    followed = follower.follow(str(root))
    for round_ in range(3):
        path = write(root / "run", round_)
        eventually(lambda: bool(followed.runs) and shows(followed))
        append(path, scalar("a", 100, round_))
        eventually(lambda: shows(followed))
        shutil.rmtree(root)
        eventually(lambda: not followed.runs)


def test_a_root_that_is_not_there_yet(
    make: MakeFollower, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_module, "_POLL_SECONDS", 0.02)
    follower = make()
    followed = follower.follow(str(root / "a" / "b"))
    assert followed.runs == {}
    write(root / "a" / "b" / "run", 1)
    eventually(lambda: "run" in followed.runs and shows(followed))
    file = follower.follow(str(root / "later" / "x.tfevents"))
    write(root / "later", 1, name="x.tfevents")
    eventually(lambda: "." in file.runs and shows(file))


def test_a_single_file(make: MakeFollower, root: Path) -> None:
    path = write(root, 1, name="any name")
    write(root, 7, name="another.tfevents")
    follower = make()
    followed = follower.follow(str(path))
    follower.wait_until_loaded(PATIENCE)
    assert list(followed.runs) == ["."]
    assert shows(followed)
    append(path, scalar("a", 2, 2))
    eventually(lambda: shows(followed))
    path.unlink()
    eventually(lambda: not followed.runs)
    write(root, 3, 4, name="any name")
    eventually(lambda: bool(followed.runs) and shows(followed))
    append(path, scalar("a", 5, 2))
    eventually(lambda: shows(followed))


def test_a_path_through_a_link(make: MakeFollower, root: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        write(tmp_path / name / f"run {name}", 1)
    link = root / "link"
    link.symlink_to(tmp_path / "one")
    follower = make()
    followed = follower.follow(str(link))
    follower.wait_until_loaded(PATIENCE)
    assert list(followed.runs) == ["run one"]
    append(tmp_path / "one" / "run one" / "events.out.tfevents.1", scalar("a", 2, 2))
    eventually(lambda: shows(followed))
    link.unlink()
    link.symlink_to(tmp_path / "two")
    follower.look(PATIENCE)
    assert list(followed.runs) == ["run two"]
    check(followed)


def test_very_many_small_runs(make: MakeFollower, root: Path) -> None:
    for number in range(1000):
        write(root / f"group{number % 10}" / f"run{number}", number)
    follower = make()
    followed = follower.follow(str(root))
    assert follower.wait_until_loaded(PATIENCE)
    assert len(followed.runs) == 1000
    check(followed)


# ------------------------------------------------------------------ where the kernel tells nothing


@pytest.fixture
def untold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watcher, "add", lambda *_: False)
    monkeypatch.setattr(follower_module, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(follower_module, "_POLL_SHARE", 1.0)


@pytest.mark.usefixtures("untold")
def test_without_inotify(make: MakeFollower, root: Path) -> None:
    path = write(root / "a", 1)
    follower = make()
    followed = follower.follow(str(root))
    eventually(lambda: shows(followed))
    append(path, scalar("a", 2, 2))
    eventually(lambda: shows(followed))
    write(root / "b" / "c", 2)
    eventually(lambda: "b/c" in followed.runs and shows(followed))
    shutil.rmtree(root / "b")
    eventually(lambda: list(followed.runs) == ["a"])


def test_a_directory_that_cannot_be_watched_is_polled_soon(
    make: MakeFollower, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the next look everywhere was a long time off."""
    monkeypatch.setattr(follower_module, "_POLL_SECONDS", 0.02)
    follower = make()
    follower.follow(str(root))
    follower.look(PATIENCE)
    assert follower._next_poll > 30
    monkeypatch.setattr(Watcher, "add", lambda *_: False)
    path = write(root / "a", 1)
    followed = follower.follow(str(root / "a"))
    append(path, scalar("a", 2, 2))
    eventually(lambda: shows(followed))


def test_more_than_the_kernel_could_tell(
    make: MakeFollower, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = Changes(lost=True)
    wait = Watcher.wait
    happened = threading.Event()

    def wait_and_lose(self: Watcher, timeout: float | None) -> Changes:
        wait(self, 0.05)
        return lost if happened.is_set() else Changes()

    monkeypatch.setattr(Watcher, "wait", wait_and_lose)
    follower = make()
    followed = follower.follow(str(root))
    write(root / "a", 1)
    happened.set()
    eventually(lambda: "a" in followed.runs and shows(followed))


# ------------------------------------------------------------------ what is shared and let go


def test_overlapping_roots_read_a_run_once(make: MakeFollower, root: Path) -> None:
    path = write(root / "a" / "run", 1)
    write(root / "b", 1)
    follower = make()
    whole, part = follower.follow(str(root)), follower.follow(str(root / "a"))
    follower.wait_until_loaded(PATIENCE)
    assert whole.runs["a/run"] is part.runs["run"]
    follower.unfollow(whole)
    assert whole.runs == {}
    append(path, scalar("a", 2, 2))  # it is still watched for the other
    eventually(lambda: shows(part))
    follower.unfollow(part)
    follower.unfollow(part)
    assert follower.memory.used == 0
    assert not follower._logs
    assert not follower._users
    assert not follower._watcher._numbers


def test_a_root_that_is_let_go_while_it_is_read(make: MakeFollower, root: Path) -> None:
    for number in range(50):
        write(root / f"run{number}", *range(200))
    follower = make()
    for _ in range(20):
        followed = follower.follow(str(root))
        follower.unfollow(followed)
        assert follower.wait_until_loaded(PATIENCE)
    follower.look(PATIENCE)
    assert follower.memory.used == 0
    followed = follower.follow(str(root))
    assert follower.wait_until_loaded(PATIENCE)
    check(followed)


def test_views_outlive_the_follower(make: MakeFollower, root: Path, tmp_path: Path) -> None:
    write(root / "run", *range(100))
    follower = make(tmp_path / "cache", budget=0)
    followed = follower.follow(str(root))
    follower.wait_until_loaded(PATIENCE)
    follower.look(PATIENCE)
    view = followed.runs["run"].view
    expected = loaded(root)["run"]
    follower.unfollow(followed)
    follower.close()
    assert shown(view) == expected
    follower.close()


def test_descriptors_and_threads_are_given_back(root: Path, tmp_path: Path) -> None:
    for number in range(20):
        write(root / f"run{number}", 1)
    files, threads = descriptors(), threading.active_count()
    for _ in range(5):
        follower = Follower(cache_dir=tmp_path / "cache", budget=0)
        followed = follower.follow(str(root))
        follower.wait_until_loaded(PATIENCE)
        eventually(lambda: descriptors() == files + 3)
        for number in range(20):
            append(root / f"run{number}" / "events.out.tfevents.1", scalar("a", 2, 2))
        follower.look(PATIENCE)
        check(followed)
        eventually(lambda: descriptors() == files + 3)
        follower.close()
    assert descriptors() == files
    assert threading.active_count() == threads


def test_a_run_that_is_let_go_is_not_held(make: MakeFollower, root: Path) -> None:
    write(root / "run", *range(1000))
    follower = make()
    followed = follower.follow(str(root))
    follower.wait_until_loaded(PATIENCE)
    gc.disable()  # by reference counting alone
    try:
        (column,) = followed.runs["run"].view.columns("a")
        held = sys.getrefcount(column)
        follower.unfollow(followed)
        assert sys.getrefcount(column) < held
    finally:
        gc.enable()


def test_reports_from_a_callback_that_asks_back(make: MakeFollower, root: Path) -> None:
    """Whoever is told may hold a lock that others hold while they ask: none of ours is held."""
    lock = threading.Lock()
    follower = make()

    def told() -> None:
        with lock:
            pass

    write(root / "run", 1)
    followed = follower.follow(str(root), told)
    for number in range(50):
        write(root / f"run{number}", 1)
        with lock:
            assert follower.loading.runs_total >= 0
    eventually(lambda: len(followed.runs) == 51)


# ------------------------------------------------------------------ problems


def test_an_unreadable_file_and_directory_are_told(root: Path) -> None:
    """By a user who may not look: root may look everywhere."""
    write(root / "good", 1)
    write(root / "bad file", 1).chmod(0)
    write(root / "bad", 1)
    (root / "bad").chmod(0)
    code = """if True:
        import os, sys
        from tbhub.series.follower import Follower
        follower = Follower(use_cache=False)
        if os.getuid() == 0:
            os.setgroups([]); os.setgid(65534); os.setuid(65534)
        root = follower.follow(sys.argv[1])
        assert follower.wait_until_loaded(60) and follower.look(60)
        version = root.runs["bad file"].version
        assert follower.look(60)
        assert version == root.runs["bad file"].version, "no news is told as news"
        assert list(root.runs) == ["bad file", "good"]
        assert root.runs["good"].view.tags == {"a"}
        print(root.problems, root.runs["bad file"].view.problems)
        follower.close()
    """
    above = root
    while above != Path("/tmp") and above != above.parent:
        above.chmod(0o755)
        above = above.parent
    found = subprocess.check_output([sys.executable, "-c", code, root], text=True)
    (root / "bad").chmod(0o700)
    denied = "Permission denied"
    file = str(root / "bad file" / "events.out.tfevents.1")
    assert found.strip() == f"{ {str(root / 'bad'): denied} } { {file: denied} }"


def test_a_link_that_leads_nowhere_is_told(make: MakeFollower, root: Path) -> None:
    path = write(root / "run", 1)
    link = root / "run" / "events.out.tfevents.2"
    link.symlink_to("nothing")
    follower = make()
    followed = follower.follow(str(root))
    follower.wait_until_loaded(PATIENCE)
    assert list(followed.runs["run"].view.problems) == [str(link)]
    assert set(shown(followed.runs["run"].view)) == {"a"}
    link.unlink()
    eventually(lambda: not followed.runs["run"].view.problems)
    assert path.exists()


def test_damage_behind_which_more_is_written(make: MakeFollower, root: Path) -> None:
    """What had been read well is still shown, or what a new reader would find."""
    path = write(root / "run", *range(100))
    follower = make()
    followed = follower.follow(str(root))
    follower.wait_until_loaded(PATIENCE)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    with path.open("r+b") as file:
        file.write(bytes(data) + scalar("a", 100, 100))
    follower.look(PATIENCE)
    steps = shown(followed.runs["run"].view)["a"][0]
    assert steps in (list(range(101)), loaded(root)["run"]["a"][0])


def test_the_cache_is_written_and_used(
    make: MakeFollower, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_module, "_STORE_FROM", 1)
    for number in range(5):
        write(root / f"run{number}", *range(100))
    first = make(tmp_path / "cache")
    first.follow(str(root))
    assert first.wait_until_loaded(PATIENCE)
    first._store_behind()
    eventually(lambda: all(log.heap == 0 for log in first._logs.values()))
    first.close()
    monkeypatch.setattr("tbhub.series.tail.Decoder", None)  # nothing may be decoded
    second = make(tmp_path / "cache")
    followed = second.follow(str(root))
    assert second.wait_until_loaded(PATIENCE)
    check(followed)
    assert second.loading.bytes_done == second.loading.bytes_total


def test_a_file_of_blobs_is_worth_a_cache_file(
    make: MakeFollower, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_module, "_STORE_FROM_READ", 10)
    write(root / "run")
    follower = make(tmp_path / "cache")
    follower.follow(str(root))
    follower.wait_until_loaded(PATIENCE)
    follower._store_behind()
    eventually(lambda: any(path.is_file() for path in (tmp_path / "cache").rglob("*")))


# ------------------------------------------------------------------ anything at all

RUNS = st.sampled_from([".", "a", "b", "a/b", "c/d/e"])
FILES = st.sampled_from(["events.out.tfevents.1", "events.out.tfevents.2"])


class Following(RuleBasedStateMachine):
    """Writers, and whoever else has a hand in a log directory, between two looks at it."""

    use_cache = False

    def __init__(self) -> None:
        super().__init__()
        self.top = Path(tempfile.mkdtemp(prefix="tbhub-follow"))
        self.path = self.top / "root"
        self.path.mkdir()
        self.torn: dict[Path, bytes] = {}  # what is missing of a record
        self.count = 0
        self.open()

    def open(self) -> None:
        cache = self.top / "cache" if self.use_cache else None
        self.follower = Follower(cache_dir=cache, use_cache=self.use_cache, budget=600)
        self.root = self.follower.follow(str(self.path))

    def teardown(self) -> None:
        self.follower.close()
        shutil.rmtree(self.top)

    @initialize()
    def first_run(self) -> None:
        self.add(".", "events.out.tfevents.1", 3)

    def add_bytes(self, path: Path, data: bytes) -> None:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                data = VERSION + data
            append(path, data)
            self.touch(path)

    def touch(self, path: Path) -> None:
        """No two writes at one time: clocks of file systems are coarse."""
        self.count += 1
        when = 1_000_000_000 * (1_700_000_000 + self.count)
        os.utime(path, ns=(when, when))

    def record(self) -> bytes:
        self.count += 1
        tag = "ab"[self.count % 3 == 0]
        return scalar(tag, self.count // 2, self.count, 1000 + self.count // 3)

    @rule(run=RUNS, file=FILES, count=st.integers(1, 20))
    def add(self, run: str, file: str, count: int) -> None:
        path = self.path / run / file
        rest = self.torn.pop(path, b"") if path.exists() else b""
        self.add_bytes(path, rest + b"".join(self.record() for _ in range(count)))

    @rule(run=RUNS, file=FILES, part=st.floats(0.01, 0.99))
    def tear(self, run: str, file: str, part: float) -> None:
        path = self.path / run / file
        data = self.torn.pop(path, b"") + self.record()
        cut = int(len(data) * part)
        self.add_bytes(path, data[:cut])
        self.torn[path] = data[cut:]

    @rule(run=RUNS, file=FILES, back=st.integers(0, 30))
    def restart(self, run: str, file: str, back: int) -> None:
        self.add_bytes(self.path / run / file, session_start(max(0, self.count // 2 - back)))

    @rule(run=RUNS, file=FILES, at=st.integers(0, 1000))
    def add_damage(self, run: str, file: str, at: int) -> None:
        data = bytearray(self.record() + self.record())
        data[at % len(data)] ^= 1 << at % 8
        self.add_bytes(self.path / run / file, bytes(data))

    @rule(run=RUNS, file=FILES, size=st.integers(0, 300))
    def truncate(self, run: str, file: str, size: int) -> None:
        path = self.path / run / file
        if path.exists():
            os.truncate(path, max(0, path.stat().st_size - size))
            self.touch(path)

    @rule(run=RUNS, file=FILES, in_place=st.booleans())
    def replace(self, run: str, file: str, in_place: bool) -> None:
        path = self.path / run / file
        if path.exists():
            data = VERSION + b"".join(self.record() for _ in range(self.count % 7))
            other = path if in_place else self.top / "other"
            other.write_bytes(data)
            self.touch(other)
            os.replace(other, path)

    @rule(run=RUNS, file=FILES, at=st.integers(0, 1000))
    def damage(self, run: str, file: str, at: int) -> None:
        """Where it has been read; nothing is added to it before the next look."""
        path = self.path / run / file
        if path.exists() and path.stat().st_size:
            data = bytearray(path.read_bytes())
            data[at % len(data)] ^= 1 << at % 8
            path.write_bytes(data)
            self.touch(path)

    @rule(run=RUNS, file=FILES)
    def delete(self, run: str, file: str) -> None:
        (self.path / run / file).unlink(missing_ok=True)

    @rule(run=RUNS)
    def delete_run(self, run: str) -> None:
        shutil.rmtree(self.path / run, ignore_errors=True)
        self.path.mkdir(exist_ok=True)

    @rule(run=RUNS, to=RUNS)
    def rename(self, run: str, to: str) -> None:
        if "." not in (run, to):
            with contextlib.suppress(OSError):
                os.rename(self.path / run, self.path / to)

    @rule()
    def open_again(self) -> None:
        self.follower.close()
        self.open()

    @invariant()
    def shows_what_there_is(self) -> None:
        assert self.follower.look(PATIENCE)
        check(self.root)
        heap = sum(log.heap for log in self.root.runs.values())
        assert self.follower.memory._heap_bytes == heap


class FollowingWithCache(Following):
    use_cache = True


for machine in (Following, FollowingWithCache):
    machine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestFollowing = Following.TestCase
TestFollowingWithCache = FollowingWithCache.TestCase
