"""``check`` and ``repair``: every kind of damage, at every place."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorboard.compat.proto.event_pb2 import Event

from support.oracle import read_events
from support.records import frame, write_events
from tbhub.events.check import Damage, check
from tbhub.events.repair import repair

EVENTS = [Event(wall_time=1, file_version="brain.Event:2").SerializeToString()] + [
    Event(wall_time=step, step=step, graph_def=b"graph" * step).SerializeToString()
    for step in range(1, 20)
]
RECORDS = [frame(event) for event in EVENTS]
STARTS = [sum(map(len, RECORDS[:number])) for number in range(len(RECORDS))]
WHOLE = b"".join(RECORDS)


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def changed(position: int, by: int = 1) -> bytes:
    data = bytearray(WHOLE)
    data[position] ^= by
    return bytes(data)


def test_a_good_file(tmp_path: Path) -> None:
    report = check(write(tmp_path / "f", WHOLE))
    assert report.is_good
    assert (report.size, report.good_events, report.damages) == (len(WHOLE), 20, [])


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (changed(STARTS[5] + 8), Damage(STARTS[5], len(RECORDS[5]), "bad length crc")),
        (changed(STARTS[5]), Damage(STARTS[5], len(RECORDS[5]), "bad length crc")),
        (changed(STARTS[5] + 6), Damage(STARTS[5], len(RECORDS[5]), "bad length crc")),
        (changed(STARTS[5] + 20), Damage(STARTS[5], len(RECORDS[5]), "bad data crc")),
        (changed(STARTS[6] - 1), Damage(STARTS[5], len(RECORDS[5]), "bad data crc")),
        (WHOLE[:-1], Damage(STARTS[19], len(RECORDS[19]) - 1, "truncated")),
        (WHOLE[: STARTS[19] + 3], Damage(STARTS[19], 3, "truncated")),
        (WHOLE[: STARTS[9]] + b"junk!" + WHOLE[STARTS[9] :], Damage(STARTS[9], 5, "garbage")),
        (b"junk" * 9 + WHOLE, Damage(0, 36, "garbage")),
        (WHOLE + bytes(4096), Damage(len(WHOLE), 4096, "garbage")),
        (WHOLE[: STARTS[3]] + WHOLE[STARTS[3] + 4 :], Damage(STARTS[3], 29 + 1, "garbage")),
        (WHOLE + frame(b"\xff\xff\xff"), Damage(len(WHOLE), 19, "not an event")),
    ],
)
def test_kinds_of_damage(tmp_path: Path, data: bytes, expected: Damage) -> None:
    report = check(write(tmp_path / "f", data))
    assert not report.is_good
    assert [(each.offset, each.kind) for each in report.damages] == [
        (expected.offset, expected.kind)
    ]
    if expected.offset != STARTS[3]:
        assert report.damages[0].size == expected.size
    assert sum(report.damage_counts.values()) == 1
    assert report.good_events + report.saved_events >= 19


def test_an_enormous_length_with_a_right_crc(tmp_path: Path) -> None:
    import struct

    from tbhub._kernel import masked_crc32c

    header = struct.pack("<Q", 2**62)
    report = check(
        write(tmp_path / "f", WHOLE + header + struct.pack("<I", masked_crc32c(header)) + WHOLE)
    )
    assert report.good_events == 40
    assert report.damages == [Damage(len(WHOLE), 12, "garbage")]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "No such file"),
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: path.write_bytes(b"hello world, this is text"), "not an event file"),
    ],
)
def test_what_cannot_be_checked(tmp_path: Path, make: object, message: str) -> None:
    path = tmp_path / "f"
    make(path)  # type: ignore[operator]
    report = check(path)
    assert message in report.error
    assert not report.is_good


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("flip"), st.integers(0, len(WHOLE) - 1), st.integers(1, 255)),
            st.tuples(st.just("cut"), st.integers(0, len(WHOLE) - 1), st.integers(1, 30)),
            st.tuples(st.just("add"), st.integers(0, len(WHOLE) - 1), st.integers(1, 30)),
            st.tuples(st.just("zero"), st.integers(0, len(WHOLE) - 1), st.integers(1, 60)),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_repair_keeps_every_whole_record_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, damages: list[tuple[str, int, int]]
) -> None:
    data = bytearray(WHOLE)
    for kind, position, amount in damages:
        position %= max(len(data), 1)
        if kind == "flip":
            data[position : position + 1] = bytes([(data[position] ^ amount) & 0xFF])
        elif kind == "cut":
            del data[position : position + amount]
        elif kind == "add":
            data[position:position] = b"\x07" * amount
        else:
            data[position : position + amount] = bytes(len(data[position : position + amount]))
    directory = tmp_path_factory.mktemp("repair")
    report = repair(write(directory / "damaged", bytes(data)), directory / "good")
    repaired = check(directory / "good")
    kept = [event.SerializeToString() for event in read_events(directory / "good")]
    assert repaired.is_good
    assert repaired.good_events == report.good_events + report.saved_events == len(kept)
    # What is kept was there, in order; what still stands whole in the damaged file is kept.
    remaining = iter(EVENTS)
    assert all(any(event == each for each in remaining) for event in kept)
    untouched = [event for event, record in zip(EVENTS, RECORDS, strict=True) if record in data]
    missing = [event for event in untouched if event not in kept]
    assert missing == []


def test_repair_overwrites_nothing_and_leaves_nothing_behind(tmp_path: Path) -> None:
    source = write(tmp_path / "damaged", WHOLE[:-1])
    target = write(tmp_path / "taken", b"precious")
    with pytest.raises(FileExistsError):
        repair(source, target)
    assert target.read_bytes() == b"precious"
    with pytest.raises(FileNotFoundError):
        repair(tmp_path / "missing", tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["damaged", "taken"]


def test_a_large_file_is_checked_in_pieces(tmp_path: Path) -> None:
    big = Event(step=1, graph_def=b"x" * 5_000_000).SerializeToString()
    path = write_events(tmp_path / "f", *EVENTS, big, *EVENTS)
    data = bytearray(path.read_bytes())
    data[len(WHOLE) + 1_000_000] ^= 1
    report = check(write(path, bytes(data)))
    assert report.good_events == 40
    assert report.damages == [Damage(len(WHOLE), len(frame(big)), "bad data crc")]
