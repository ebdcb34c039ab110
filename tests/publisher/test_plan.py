"""What is sent next: whole records, the last short segment again, everything else once."""

from __future__ import annotations

import math
import os
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.records import frame
from tbhub.events.names import is_event_file
from tbhub.events.segments import split_segment
from tbhub.publisher import plan
from tbhub.publisher.exclusion import checked_patterns, excluding, patterns_of_environment
from tbhub.publisher.files import all_files, files_below
from tbhub.publisher.plan import Due, Openness
from tbhub.publisher.records import boundary_before, whole_end
from tbhub.publisher.throttle import parse_rate

NAME = "events.out.tfevents.1.host"


@given(st.lists(st.integers(1, 300_000), max_size=40), st.integers(0, 6000))
def test_segments_follow_one_another(growth: list[int], before: int) -> None:
    begun = before * plan.FULL
    ends = [number * plan.FULL for number in range(1, before + 1)]
    whole = begun
    sent = 0
    for more in growth:
        whole += more
        piece = plan.next_segment(ends, whole)
        assert piece is not None
        assert piece.end == whole
        assert piece.number == len(ends) + piece.is_new
        sealed = [*ends, piece.end] if piece.is_new else [*ends[:-1], piece.end]
        assert piece.start == ([0, *sealed])[piece.number - 1]
        # What was sent before is sent again only while the segment was short.
        assert piece.is_new or ends[-1] - piece.start < plan.seal(len(ends))
        sent += piece.end - piece.start
        ends = sealed
        assert plan.next_segment(ends, whole) is None
    sizes = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    assert all(size >= plan.seal(number) for number, size in enumerate(sizes[:-1], 1))
    assert sent <= whole - begun + plan.FULL * len(growth)


class Logged:
    """A file that is looked at every second, and what was sent of it."""

    def __init__(self) -> None:
        self.ends: list[int] = []
        self.whole = self.sent = self.waited = self.longest = 0

    def second(self, more: int) -> None:
        self.whole += more
        self.waited += 1
        if not plan.is_worth_sending(self.ends, self.whole, self.waited):
            return
        piece = plan.next_segment(self.ends, self.whole)
        if piece is not None:
            self.ends[piece.number - 1 :] = [piece.end]
            self.sent += piece.end - piece.start
            self.longest = max(self.longest, self.waited)
            self.waited = 0


@settings(max_examples=30, deadline=None)
@given(rate=st.integers(plan.RATE, 100_000), jitter=st.floats(0, 0.5), seed=st.integers(0, 1000))
def test_what_is_logged_by_the_second_is_sent_once(rate: int, jitter: float, seed: int) -> None:
    logged = Logged()
    uneven = random.Random(seed)
    seconds = 0
    while logged.whole < 100 << 20:
        seconds += 1
        logged.second(int(rate * (1 + jitter * uneven.random())))
        assert logged.sent <= 1.3 * logged.whole or seconds > 3 * 3600
    assert len(logged.ends) <= 4000 + logged.whole / plan.FULL
    assert logged.longest <= 4


@settings(max_examples=30, deadline=None)
@given(
    growth=st.lists(st.integers(0, 2 * plan.RATE), min_size=10, max_size=300),
    again=st.integers(1, 50),
)
def test_whatever_is_logged_costs_little(growth: list[int], again: int) -> None:
    logged = Logged()
    for more in growth * again:
        logged.second(more)
    assert logged.sent <= logged.whole + plan.FULL / 4 * len(growth) * again
    assert len(logged.ends) <= 4000 + logged.whole / plan.FULL


def test_a_file_far_ahead_goes_in_large_segments(tmp_path: Path) -> None:
    record = frame(b"x" * 100_000)
    file = tmp_path / NAME
    file.write_bytes(record * 200 + record[:50_000])
    ends: list[int] = []
    with file.open("rb") as opened:
        while True:
            whole = whole_end(opened.fileno(), ends[-1] if ends else 0, plan.segment_limit(ends))
            piece = plan.next_segment(ends, whole)
            if piece is None:
                break
            assert piece.is_new
            ends.append(piece.end)
        assert boundary_before(opened.fileno(), file.stat().st_size) == ends[-1]
    assert ends[-1] == 200 * len(record)
    assert len(ends) == 3
    assert all(end % len(record) == 0 for end in ends)


def test_a_record_longer_than_a_segment(tmp_path: Path) -> None:
    small, large = frame(b"x"), frame(b"y" * (20 << 20))
    file = tmp_path / NAME
    file.write_bytes(small + large[:-1])
    with file.open("rb") as opened:
        assert whole_end(opened.fileno(), 0, plan.SEGMENT) == len(small)
        assert whole_end(opened.fileno(), len(small), plan.SEGMENT) == len(small)
        file.write_bytes(small + large + small)
        end = whole_end(opened.fileno(), len(small), plan.SEGMENT)
        assert end >= len(small) + len(large)


@given(
    records=st.lists(st.binary(max_size=60), max_size=20),
    torn=st.integers(0, 200),
    limit=st.integers(1, 3000),
)
def test_whole_records_only(records: list[bytes], torn: int, limit: int) -> None:
    framed = [frame(record) for record in records]
    boundaries = {0}
    for record in framed:
        boundaries.add(max(boundaries) + len(record))
    data = b"".join(framed) + frame(b"z" * 200)[:torn]
    descriptor = os.memfd_create("events")
    try:
        os.write(descriptor, data)
        end = whole_end(descriptor, 0, limit)
        assert end in boundaries
        within = max(each for each in boundaries if each <= limit)
        # Where the first record goes beyond the limit it is taken, and what was read with it.
        assert end == (within or max(boundaries))
        assert boundary_before(descriptor, len(data)) == max(boundaries)
    finally:
        os.close(descriptor)


def test_another_name_is_an_event_file_behind_the_first() -> None:
    for number in (1, 2, 12):
        name = plan.again_name(NAME, number)
        assert is_event_file(name)
        assert split_segment(name) is None
        assert split_segment(f"{name}.000001") == (name, 1)
        assert name > f"{NAME}.999999"
    assert plan.again_name(NAME, 0) == NAME


def test_a_name_behind_those_of_others() -> None:
    def name(began: int, rest: str = "a.1.0", folder: str = "") -> str:
        return f"{folder}events.out.tfevents.{began}.{rest}"

    now = 1_700_000_000
    earlier, ahead = name(now - 5, "b.2.0"), name(now + 3600, "b.2.0")
    assert plan.names_behind(name(now), []) == ([], name(now))
    assert plan.names_behind(name(now), [earlier, name(now, "b.2.0")]) == ([], name(now))
    assert plan.names_behind(name(now), [earlier, ahead]) == ([], name(now + 3601))
    # Published before, and not known any more.
    again = plan.names_behind(name(now), [ahead, name(now + 3601)])
    assert again == ([name(now + 3601)], name(now + 3602))
    elsewhere = [name(now + 3600, "b.2.0", "train/"), "console.log", "tfevents"]
    assert plan.names_behind(name(now), elsewhere) == ([], name(now))
    below = plan.names_behind(name(now, folder="train/"), elsewhere)
    assert below == ([], name(now + 3601, folder="train/"))
    assert plan.names_behind(NAME, [ahead]) == ([], NAME)


def test_when_a_file_is_sent_whole() -> None:
    def due(size: int, seen_for: float, changed_for: float, since_sent: float) -> plan.Due:
        return plan.due(size, seen_for, changed_for, since_sent, quiet=1)

    assert due(1000, seen_for=1, changed_for=1, since_sent=100) is Due.FINISHED
    assert due(1000, seen_for=0, changed_for=5, since_sent=100) is Due.NO
    assert due(1000, seen_for=0, changed_for=11, since_sent=11) is Due.UNFINISHED
    assert due(1000, seen_for=0, changed_for=11, since_sent=9) is Due.NO
    assert due(100 << 20, seen_for=1, changed_for=11, since_sent=99) is Due.NO


@pytest.mark.parametrize(
    ("uploads", "since_sent", "expected"),
    [(0, math.inf, True), (1, 1.1, True), (1, 0.9, False), (60, 9.0, False), (60, 10.0, True)],
)
def test_a_file_that_is_closed_each_time_is_sent_less_often_in_the_end(
    uploads: int, since_sent: float, expected: bool
) -> None:
    def due(size: int, since_sent: float, openness: Openness) -> plan.Due:
        return plan.due(size, 0.0, 0.5, since_sent, 1.0, uploads=uploads, openness=openness)

    closed = due(1000, since_sent, Openness.CLOSED)
    assert closed is (Due.FINISHED if expected else Due.NO)
    assert due(1000, since_sent, Openness.UNKNOWN) is Due.NO
    assert due(100 << 20, 99.0, Openness.CLOSED) is Due.NO


@pytest.mark.parametrize("kind", ["is_rewritten", "is_bulk"])
def test_a_file_that_may_have_a_part_of_a_version_is_not_sent_while_it_is_open(kind: str) -> None:
    def due(seen_for: float, openness: Openness) -> plan.Due:
        return plan.due(1000, seen_for, 60.0, 60.0, 1.0, openness=openness, **{kind: True})

    assert due(9.0, Openness.OPEN) is Due.NO
    assert due(10.0, Openness.OPEN) is Due.FINISHED
    assert due(1.0, Openness.UNKNOWN) is Due.FINISHED


def test_everything_is_published_or_listed_as_left_out(tmp_path: Path) -> None:
    published = {
        *(NAME, "sub/notes.txt", "00000/default/tensors.tsv", "a b/ü.txt", "plugins/profile/x.pb"),
        *("checkpoints/" + NAME, "link", "model.pt", "checkpoint-5/config.json", ".hydra/x.yaml"),
        *(".hidden", "a.tmp", "notes.txt~", "__pycache__/a.pyc"),
    }
    left_out = {"elsewhere", "up", ".tbhub-own", "big.ckpt", "sub/cache/x", "latest.pt"}
    nothing_lost = {".nfs0001", ".tbhub-put-1", "dangling", "pipe", "latest"}
    top = tmp_path / "files"
    for path in [*published, *left_out, *nothing_lost]:
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_bytes(b"x")
    for link, to in [
        *(("link", NAME), ("dangling", "nowhere"), ("elsewhere", "/etc/passwd"), ("up", "..")),
        *(("latest", "checkpoint-5"), ("latest.pt", "big.ckpt")),
    ]:
        (top / link).unlink()
        (top / link).symlink_to(to)
    (top / "pipe").unlink()
    os.mkfifo(top / "pipe")
    exclude = ["*.ckpt", "sub/cache"]
    assert {path for path, _ in files_below(top, exclude)} == published | {"latest.tbhub-link"}
    assert {path for path, _ in files_below(top, [*exclude, "checkpoint-5"])} == {
        path for path in published if not path.startswith("checkpoint-5")
    }
    found = {each.path: each.left_out for each in all_files(top, exclude) if each.left_out}
    assert found.keys() == left_out
    assert found["elsewhere"] == "a link that leads out of the directory"
    assert found["latest.pt"] == "excluded by '*.ckpt'"
    assert list(files_below(tmp_path / "none")) == []


@pytest.mark.parametrize(
    ("path", "patterns", "by"),
    [
        ("model.ckpt", ["*.ckpt"], "*.ckpt"),
        ("a/b/model.ckpt", ["*.ckpt"], "*.ckpt"),
        ("a/checkpoint-10/state.bin", ["checkpoint-*"], "checkpoint-*"),
        ("a/state.bin", ["a/*"], "a/*"),
        ("a/b/state.bin", ["a/*.bin"], "a/*.bin"),
        ("b/a/state.bin", ["a/*"], ""),
        ("cache/x/y", ["x", "cache"], "x"),
        ("model.pt", ["*.ckpt", "model"], ""),
        ("Model.PT", ["*.pt"], ""),
    ],
)
def test_patterns(path: str, patterns: list[str], by: str) -> None:
    assert excluding(path, checked_patterns(patterns)) == by


@pytest.mark.parametrize("given", [[""], ["/abs/*"], ["x" * 1001], [f"*.{n}" for n in range(101)]])
def test_patterns_that_match_nothing_are_errors(given: list[str]) -> None:
    with pytest.raises(ValueError, match="--exclude"):
        checked_patterns(given)


def test_patterns_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TBHUB_EXCLUDE", " *.ckpt, ./cache/ ,")
    assert patterns_of_environment() == ("*.ckpt", "cache")


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        *(("20MB/s", 20e6), ("500k", 5e5), ("1.5 GiB/s", 1.5 * (1 << 30)), ("100000", 1e5)),
        *(("", None), ("0", None), ("unlimited", None)),
    ],
)
def test_rates(text: str, rate: float | None) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["fast", "20 apples", "-5MB/s", "1", "20MB/h"])
def test_rates_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="20MB/s"):
        parse_rate(text)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("model.pt", False),
        ("checkpoint-1/.metadata", False),  # of torch.distributed.checkpoint
        ("checkpoint-1/.metadata.tmp", True),
        (".cache/.metadata", True),
        (".hidden", True),
        ("checkpoint-1/tmp~/a", True),
    ],
)
def test_unfinished_files_are_known_by_their_names(path: str, expected: bool) -> None:
    assert plan.is_unfinished(path) is expected
