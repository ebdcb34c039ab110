"""A file that is followed shows at every moment what reading it at once would."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.live import (
    VERSION,
    VERSION_1,
    append,
    cache_at,
    content_of,
    descriptors,
    every_kind,
    read,
    scalar,
    session_start,
    tensor,
)
from tbhub.series.column import concatenate
from tbhub.series.growing_file import LocalFile
from tbhub.series.tail import Change, Tail


def follow(path: Path) -> Tail:
    return Tail(LocalFile(str(path)), cache_at(None))


def check(tail: Tail) -> None:
    assert content_of(tail.content) == content_of(read(tail.file.path))
    heap = sum(column.nbytes for group in tail.content.columns.values() for column in group)
    assert tail.heap == heap


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.out.tfevents.1"


@pytest.fixture(autouse=True)
def _no_descriptor_stays_open() -> Iterator[None]:
    before = descriptors()
    yield
    assert descriptors() == before


def later(path: Path, seconds: float) -> None:
    """Makes a file look as if it had been written to at another time."""
    status = path.stat()
    when = status.st_mtime_ns + int(seconds * 1e9)
    os.utime(path, ns=(when, when))


def test_growth_byte_by_byte(path: Path) -> None:
    data = VERSION + scalar("a", 1, 1) + session_start(1) + scalar("a", 1, 2) + scalar("b", 2, 3)
    path.touch()
    tail = follow(path)
    for byte in data:
        append(path, bytes([byte]))
        assert tail.advance() is Change.MORE
        check(tail)
    assert tail.advance() is Change.NOTHING
    assert tail.content.events == 5


@pytest.mark.parametrize("idle", [False, True])
@pytest.mark.parametrize("size", [100, 1009, 20_011])
def test_growth_of_every_kind(path: Path, size: int, idle: bool) -> None:
    data = every_kind()
    path.touch()
    tail = follow(path)
    for start in range(0, len(data), size):
        append(path, data[start : start + size])
        if idle:
            later(path, -1000)  # the decoder is let go
        tail.advance()
        if start % (size * 10) == 0:
            check(tail)
        assert (tail._decoder is None) == idle
    check(tail)


def test_bytes_are_told_of_once(path: Path) -> None:
    path.write_bytes(every_kind())
    told: list[int] = []
    tail = follow(path)
    tail.advance(told.append)
    assert sum(told) == path.stat().st_size
    append(path, b"x" * 10)
    tail.advance(told.append)
    assert sum(told) == path.stat().st_size


def test_a_file_that_is_cut_short(path: Path) -> None:
    path.write_bytes(VERSION + scalar("a", 1, 1) + scalar("a", 2, 2))
    tail = follow(path)
    tail.advance()
    os.truncate(path, len(VERSION + scalar("a", 1, 1)))
    assert tail.advance() is Change.ANEW
    check(tail)
    os.truncate(path, 0)
    assert tail.advance() is Change.ANEW
    check(tail)
    assert tail.content.columns == {}
    append(path, VERSION + scalar("b", 1, 1))
    assert tail.advance() is Change.MORE
    check(tail)


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_file_renamed_over_it(path: Path, more: int) -> None:
    path.write_bytes(VERSION + scalar("a", 1, 1) * 5)
    tail = follow(path)
    tail.advance()
    other = path.with_name("other")
    other.write_bytes(VERSION + scalar("b", 1, 1) * (5 + more))
    os.rename(other, path)
    assert tail.advance() is Change.ANEW
    assert list(tail.content.columns) == ["b"]
    check(tail)


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_file_written_anew_in_its_place(path: Path, more: int) -> None:
    path.write_bytes(VERSION + scalar("a", 1, 1) * 5)
    later(path, -10)
    tail = follow(path)
    tail.advance()
    with path.open("r+b") as file:
        file.write(VERSION + scalar("b", 1, 1) * (5 + more))
        file.truncate()
    assert tail.advance() is Change.ANEW
    assert list(tail.content.columns) == ["b"]
    check(tail)


def test_a_torn_record_that_is_completed(path: Path) -> None:
    whole, torn = VERSION + scalar("a", 1, 1), scalar("a", 2, 2)
    for cut in range(1, len(torn)):
        path.write_bytes(whole + torn[:cut])
        tail = follow(path)
        tail.advance()
        assert tail.content.pending == cut
        append(path, torn[cut:])
        assert tail.advance() is Change.MORE
        assert tail.content.pending == 0
        check(tail)


def test_a_torn_record_that_is_cut_off_and_written_anew(path: Path) -> None:
    whole, torn = VERSION + scalar("a", 1, 1), scalar("a", 2, 2)
    path.write_bytes(whole + torn[:-3])
    tail = follow(path)
    tail.advance()
    os.truncate(path, len(whole))
    append(path, scalar("b", 2, 3) * 2)
    assert tail.advance() is Change.MORE  # the whole records before it are what they were
    check(tail)


def test_zeros_that_become_records_are_read_again(path: Path) -> None:
    """As a network file system shows a file whose size has arrived before its bytes."""
    whole = VERSION + scalar("a", 1, 1)
    rest = b"".join(scalar("a", step, step) for step in range(2, 50))
    path.write_bytes(whole + bytes(len(rest)))
    tail = follow(path)
    tail.advance()
    assert tail.content.pending == len(rest)
    with path.open("r+b") as file:
        file.write(whole + rest + scalar("a", 50, 50))
    assert tail.advance() is Change.MORE
    assert tail.content.damage_counts == {}
    check(tail)


def test_records_behind_damage_are_seen_when_they_come(path: Path) -> None:
    """What begins no record is read again each time, and with it all that has come."""
    path.write_bytes(VERSION + scalar("a", 1, 1) + b"noise" * 200)
    tail = follow(path)
    tail.advance()
    assert tail.content.pending == 1000
    append(path, scalar("a", 2, 2))
    assert tail.advance() is Change.MORE
    assert tail.content.size == path.stat().st_size
    check(tail)


def test_metadata_of_the_first_record_holds_for_the_later_ones(path: Path) -> None:
    path.write_bytes(VERSION + tensor("s", 0, np.float32(1), "scalars") + tensor("t", 0, 1, "text"))
    tail = follow(path)
    for step in range(1, 10):
        later(path, -1000)
        tail.advance()
        append(path, tensor("s", step, np.float32(step)) + tensor("t", step, np.float32(step)))
    tail.advance()
    check(tail)
    assert len(concatenate(tail.content.columns["s"])) == 10
    assert len(tail.content.blobs["t"]) == 10


@pytest.mark.parametrize("idle", [False, True])
def test_old_files_purge_by_steps_that_go_back(path: Path, idle: bool) -> None:
    path.write_bytes(VERSION_1)
    tail = follow(path)
    for step in (5, 6, 7, 6, 2, 9, 1, 1, 3):
        append(path, scalar("a", step, step) + tensor("b", step, b"x", "text"))
        if idle:
            later(path, -1000)
        tail.advance()
        check(tail)
    assert tail.content.file_version == 1


def test_the_start_of_a_session_takes_back_what_was_read_before(path: Path) -> None:
    path.write_bytes(VERSION)
    tail = follow(path)
    for step in range(20):
        append(path, scalar("a", step, step) + scalar("late", 100 + step, 1))
        tail.advance()
    append(path, session_start(7))
    tail.advance()
    check(tail)
    assert list(tail.content.columns) == ["a"]
    append(path, scalar("a", 7, -7))
    tail.advance()
    check(tail)


def test_what_the_decoder_went_on_from_is_not_held(path: Path) -> None:
    """Columns that have been moved to the cache must be gone from memory."""
    path.write_bytes(VERSION + b"".join(scalar("a", step, 1) for step in range(100)))
    later(path, -1000)
    tail = Tail(LocalFile(str(path)), cache_at(path.parent / "cache"))
    tail.advance()
    append(path, scalar("a", 100, 1))
    tail.advance()
    assert tail._decoder is not None
    column = tail.content.columns["a"][0]
    assert tail.store()
    assert sys.getrefcount(column) == 2  # ours, and the question's
    assert tail.heap == 0
    append(path, scalar("a", 101, 1))
    tail.advance()
    assert tail.content.events == 103
    assert content_of(tail.content) == content_of(read(path))


def test_a_file_that_is_not_there_or_cannot_be_read(path: Path) -> None:
    tail = follow(path)
    with pytest.raises(FileNotFoundError):
        tail.advance()
    os.mkfifo(path)
    assert tail.advance() is Change.NOTHING
    path.unlink()
    path.write_bytes(VERSION + scalar("a", 1, 1))
    assert tail.advance() is not Change.NOTHING  # it may well have the pipe's inode
    check(tail)


OPERATIONS = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 200)),
    st.tuples(st.just("truncate"), st.integers(0, 400)),
    st.tuples(st.just("idle"), st.just(0)),
    st.tuples(st.just("start"), st.integers(0, 20)),
    st.tuples(st.just("noise"), st.integers(1, 40)),
    st.tuples(st.just("look"), st.just(0)),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(OPERATIONS, max_size=25))
def test_whatever_happens_to_a_file(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[str, int]]
) -> None:
    """The next bytes of a long file are appended; others cut it off, add noise or wait."""
    path = tmp_path_factory.mktemp("tail") / "tfevents"
    source = b"".join(scalar("ab"[step % 2], step // 2, step) for step in range(200))
    path.write_bytes(VERSION)
    tail = follow(path)
    at, now = 0, time.time_ns() - int(600e9)
    for operation, number in operations:
        if operation == "append":
            append(path, source[at : at + number])
            at += number
        elif operation == "truncate":
            os.truncate(path, max(0, path.stat().st_size - number))
        elif operation == "start":
            append(path, session_start(number))
        elif operation == "noise":
            append(path, b"~" * number)
        elif operation == "idle":
            tail._decoder = None
        else:
            now += int(1e9)  # every look finds another time
            os.utime(path, ns=(now, now))
            tail.advance()
            assert tail.content.size == path.stat().st_size
            mine, all_at_once = content_of(tail.content), content_of(read(path))
            # Garbage in one piece may be counted by two decoders.
            del mine["damages"], all_at_once["damages"]
            assert mine == all_at_once
