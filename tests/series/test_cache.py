"""What the cache gives back is what the event file says, whatever has happened to either."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.live import (
    VERSION,
    append,
    cache_at,
    content_of,
    descriptors,
    every_kind,
    loaded,
    read,
    scalar,
    shown,
)
from tbhub.series import tail as tail_module
from tbhub.series.cache import CacheLostError, StoredColumn, default_cache_dir
from tbhub.series.growing_file import LocalFile
from tbhub.series.run_log import RunLog
from tbhub.series.tail import Change, Tail


def many_points(tag: str = "a", size: int = 30_000) -> bytes:
    """More than a column that is read and not mapped."""
    return VERSION + b"".join(scalar(tag, step, step / 3, step) for step in range(size))


def store(path: Path, directory: Path) -> Tail:
    tail = Tail(LocalFile(str(path)), cache_at(directory))
    tail.advance()
    assert tail.store()
    return tail


def open_again(path: Path, directory: Path) -> Tail:
    tail = Tail(LocalFile(str(path)), cache_at(directory))
    tail.advance()
    return tail


def is_from_cache(tail: Tail) -> bool:
    columns = [column for group in tail.content.columns.values() for column in group]
    return any(isinstance(column, StoredColumn) for column in columns)


def cache_files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.out.tfevents.1"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def offsets(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where decoders have begun."""
    begun: list[int] = []

    def decoder_at(offset: int, *others: Any) -> Any:
        begun.append(offset)
        return Decoder(offset, *others)

    Decoder = tail_module.Decoder  # noqa: N806
    monkeypatch.setattr(tail_module, "Decoder", decoder_at)
    return begun


# ------------------------------------------------------------------ what is given back


def test_every_kind_comes_back(path: Path, directory: Path, offsets: list[int]) -> None:
    path.write_bytes(every_kind())
    expected = content_of(read(path))
    written = store(path, directory)
    assert content_of(written.content) == expected
    assert written.heap == 0
    assert offsets == [0]
    again = open_again(path, directory)
    assert is_from_cache(again)
    assert content_of(again.content) == expected
    assert offsets == [0]
    for tag, (column,) in again.content.columns.items():
        points = read(path).columns[tag][0]
        assert column.even_steps == points.even_steps
        assert column.values.dtype == points.values.dtype
        assert column.max_step == points.max_step
        assert column.nbytes == points.nbytes
        assert repr((column.ends, column.max_wall_time)) == repr(
            (points.ends, points.max_wall_time)
        )
        with pytest.raises(ValueError, match="read-only"):
            column.values[0] = 1


def test_large_columns_are_mapped(path: Path, directory: Path) -> None:
    path.write_bytes(many_points() + scalar("uneven", 1, 1) + scalar("uneven", 5, 1) * 40_000)
    before = descriptors()
    store(path, directory)
    again = open_again(path, directory)
    assert content_of(again.content) == content_of(read(path))
    assert descriptors() == before


def test_a_file_without_scalars(path: Path, directory: Path, offsets: list[int]) -> None:
    path.write_bytes(VERSION)
    store(path, directory)
    again = open_again(path, directory)
    assert again.content.events == 1
    assert offsets == [0]


def test_a_grown_file_goes_on_from_the_cache(
    path: Path, directory: Path, offsets: list[int]
) -> None:
    data = every_kind()
    cut = len(data) // 2
    path.write_bytes(data[:cut])
    first = store(path, directory)
    whole = first.content.size - first.content.pending
    append(path, data[cut:])
    again = open_again(path, directory)
    assert content_of(again.content) == content_of(read(path))
    assert offsets == [0, whole]
    assert 0 < again.heap < first.stored * 3
    assert again.fresh == len(data) - cut
    # It is stored once more, and that is read by a third.
    assert again.store()
    assert again.heap == again.fresh == 0
    third = open_again(path, directory)
    assert content_of(third.content) == content_of(read(path))
    assert offsets == [0, whole]


@pytest.mark.parametrize("how", ["shorter", "longer", "as long", "touched", "its end"])
def test_an_event_file_that_was_changed(path: Path, directory: Path, how: str) -> None:
    data = many_points("a", 1000)
    path.write_bytes(data)
    store(path, directory)
    status = path.stat()
    if how == "shorter":
        path.write_bytes(data[: len(data) // 2])
    elif how == "longer":
        path.write_bytes(many_points("b", 1500))
    elif how == "as long":
        path.write_bytes(many_points("b", 1000))
    elif how == "its end":
        path.write_bytes(data[:-5] + b"hello" + data)
    when = status.st_mtime_ns + 1_000_000_000
    os.utime(path, ns=(when, when))
    again = open_again(path, directory)
    assert not is_from_cache(again)
    assert content_of(again.content) == content_of(read(path))


def test_a_file_replaced_before_it_was_stored(path: Path, directory: Path) -> None:
    """Columns of one file must not be stored as those of the next."""
    path.write_bytes(many_points("a", 100))
    tail = Tail(LocalFile(str(path)), cache_at(directory))
    tail.advance()
    other = path.with_name("other")
    other.write_bytes(many_points("b", 200))
    os.rename(other, path)
    assert not tail.store()
    assert tail._cache.problem is None
    assert not cache_files(directory)
    path.unlink()
    assert not tail.store()
    assert tail._cache.problem is None


# ------------------------------------------------------------------ what happens to the cache


def check_anyway(path: Path, directory: Path) -> None:
    again = open_again(path, directory)
    assert content_of(again.content) == content_of(read(path))


@pytest.fixture(scope="module")
def stored_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, bytes]:
    place = tmp_path_factory.mktemp("stored")
    path, directory = place / "tfevents", place / "cache"
    path.write_bytes(every_kind())
    store(path, directory)
    (file,) = cache_files(directory)
    return path, file, file.read_bytes()


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_damaged_front(stored_once: tuple[Path, Path, bytes], data: st.DataObject) -> None:
    path, file, good = stored_once
    front = len(good[: good.rindex(b"\x00" * 64)])
    at = data.draw(st.integers(0, min(front, len(good) - 1)))
    bit = data.draw(st.integers(0, 7))
    file.write_bytes(good[:at] + bytes([good[at] ^ 1 << bit]) + good[at + 1 :])
    tail = Tail(LocalFile(str(path)), cache_at(file.parents[1]))
    tail.advance()
    expected = content_of(read(path))
    try:
        assert content_of(tail.content) == expected
    except CacheLostError:  # a point: whoever looks reads again
        log = RunLog(str(path), cache_at(file.parents[1]))
        log.refresh()
        assert shown(log.view) == loaded(path)["."]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_cache_file_cut_short(stored_once: tuple[Path, Path, bytes], data: st.DataObject) -> None:
    path, file, good = stored_once
    file.write_bytes(good[: data.draw(st.integers(0, len(good) - 1))])
    again = open_again(path, file.parents[1])
    assert not is_from_cache(again)
    assert content_of(again.content) == content_of(read(path))


@pytest.mark.parametrize(
    "content", [b"", b"tbhub\0\0\1", b"tbhub\0\0\1" + b"\xff" * 100, b"x" * 50]
)
def test_a_cache_file_of_something_else(path: Path, directory: Path, content: bytes) -> None:
    path.write_bytes(every_kind())
    store(path, directory)
    (file,) = cache_files(directory)
    file.write_bytes(content)
    check_anyway(path, directory)
    file.unlink()
    file.mkdir()
    check_anyway(path, directory)
    shutil.rmtree(directory)
    check_anyway(path, directory)


@pytest.mark.parametrize("size", [100, 30_000])  # read and mapped
@pytest.mark.parametrize("what", ["delete", "cut", "point", "replace", "store again"])
def test_a_cache_that_is_lost_while_a_view_is_held(
    tmp_path: Path, directory: Path, size: int, what: str
) -> None:
    path = tmp_path / "run" / "tfevents"
    path.parent.mkdir()
    path.write_bytes(many_points("a", size) + many_points("b", size))
    log = RunLog(str(path.parent), cache_at(directory))
    log.refresh()
    log.store()
    view = log.view
    then = loaded(path)["."]
    (file,) = cache_files(directory)
    good = file.read_bytes()
    if what == "delete":
        shutil.rmtree(directory)
    elif what == "cut":
        os.truncate(file, 5000)
    elif what == "point":
        file.unlink()
        file.write_bytes(good[:-3] + b"x" + good[-2:])
    elif what == "replace":
        other = tmp_path / "other"
        other.write_bytes(os.urandom(len(good)))
        os.replace(other, file)
    else:
        append(path, scalar("0 comes first", 1, 1) + scalar("a", size, 1))
        log.refresh()
        log.store()
    now = loaded(path)["."]
    for tag, points in shown(view).items():  # as it was, or as it is by now
        assert points in (then[tag], now[tag])
    assert shown(log.view) == loaded(path)["."]
    assert log.memory.used <= log.memory.budget


def test_a_closed_run_whose_cache_is_lost(tmp_path: Path, directory: Path) -> None:
    path = tmp_path / "tfevents"
    path.write_bytes(many_points("a", 100))
    log = RunLog(str(path), cache_at(directory))
    log.refresh()
    log.store()
    view = log.view
    log.close()
    shutil.rmtree(directory)
    assert shown(view) == loaded(path)["."]
    assert log.memory.used == 0


def _store_often(path: str, directory: str) -> None:
    for _ in range(20):
        tail = Tail(LocalFile(path), cache_at(Path(directory)), trust_cache=False)
        tail.advance()
        assert tail.store()
        assert content_of(tail.content) == content_of(read(path))


def test_processes_and_threads_that_store_at_once(path: Path, directory: Path) -> None:
    path.write_bytes(every_kind())
    arguments = (str(path), str(directory))
    context = multiprocessing.get_context("spawn")
    workers: list[Any] = [context.Process(target=_store_often, args=arguments) for _ in range(2)]
    failures: list[BaseException] = []

    def in_thread() -> None:
        try:
            _store_often(*arguments)
        except BaseException as error:
            failures.append(error)

    workers += [threading.Thread(target=in_thread) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures
    assert [worker.exitcode for worker in workers[:2]] == [0, 0]
    assert len(cache_files(directory)) == 1
    check_anyway(path, directory)


# ------------------------------------------------------------------ where it cannot be written


def check_stays_in_memory(path: Path, directory: Path, code: int) -> None:
    tail = Tail(LocalFile(str(path)), cache_at(directory))
    tail.advance()
    heap = tail.heap
    assert not tail.store()
    assert tail.heap == heap > 0
    problem = tail._cache.problem
    assert problem is not None
    assert problem.errno == code
    assert content_of(tail.content) == content_of(read(path))


def test_a_directory_that_cannot_be_made(path: Path, tmp_path: Path) -> None:
    path.write_bytes(every_kind())
    (tmp_path / "file").touch()
    check_stays_in_memory(path, tmp_path / "file" / "cache", errno.ENOTDIR)


@pytest.mark.root
def test_a_full_disk(path: Path, tiny_disk: Callable[[str], Path]) -> None:
    path.write_bytes(many_points())
    disk = tiny_disk("64k")
    check_stays_in_memory(path, disk, errno.ENOSPC)
    assert not cache_files(disk)


def test_a_write_that_failed_is_tried_again_after_a_while(
    path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(every_kind())
    directory.touch()
    tail = Tail(LocalFile(str(path)), cache_at(directory))
    tail.advance()
    assert not tail.store()
    directory.unlink()
    assert not tail.store()  # not yet
    monkeypatch.setattr(tail._cache, "_retry_at", 0)
    assert tail.store()
    assert tail._cache.problem is None


def test_no_cache_at_all(path: Path) -> None:
    path.write_bytes(every_kind())
    tail = Tail(LocalFile(str(path)), cache_at(None))
    tail.advance()
    assert not tail.store()
    assert tail._cache.problem is None


def test_nobody_else_may_look(path: Path, directory: Path) -> None:
    path.write_bytes(every_kind())
    before = os.umask(0)
    try:
        store(path, directory / "columns")
    finally:
        os.umask(before)
    for place in (directory / "columns").rglob("*"):
        assert stat.S_IMODE(place.stat().st_mode) == (0o700 if place.is_dir() else 0o600)
    assert stat.S_IMODE((directory / "columns").stat().st_mode) == 0o700


def test_the_least_recently_used_are_pruned(tmp_path: Path, directory: Path) -> None:
    paths = [tmp_path / f"tfevents.{number}" for number in range(6)]
    for path in paths:
        path.write_bytes(every_kind())
        store(path, directory)
    files = cache_files(directory)
    size = files[0].stat().st_size
    for file in files:
        os.utime(file, (1000, 1000))
    for path in paths[2:4]:
        open_again(path, directory)
    cache_at(directory).prune(size * 2)
    assert len(cache_files(directory)) == 2
    assert [is_from_cache(open_again(path, directory)) for path in paths] == [
        *(False, False, True, True, False, False)
    ]
    cache_at(None).prune(0)


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TBHUB_CACHE_DIR", "/a/b")
    assert default_cache_dir() == Path("/a/b/columns")
    monkeypatch.delenv("TBHUB_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    assert default_cache_dir() == Path("/c/tbhub/columns")


def test_extreme_steps_come_back(path: Path, directory: Path) -> None:
    low, high = -(1 << 63), (1 << 63) - 1
    path.write_bytes(VERSION + scalar("a", low, 1))
    tail = store(path, directory)
    append(path, scalar("a", high, 2))
    tail.advance()
    assert tail.store()
    again = open_again(path, directory)
    assert again.advance() is Change.NOTHING
    assert again.content.columns["a"][0].steps.tolist() == [low, high]
    np.testing.assert_array_equal(again.content.columns["a"][0].values, np.float32([1, 2]))
