"""Runs and tags of any name are shown by every dashboard, under a name that can be asked for."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from support.endpoints import compare, requests_for
from support.live import VERSION, append, record
from support.ours import Ours
from support.records import frame
from support.stock import Stock
from tbhub import SummaryWriter
from tbhub.boards.board import Source

# Good names of directories as they are, and of runs.
PLAIN = [
    "with blanks",
    "läufe η=0.1",
    'it\'s "quoted" `so`',
    "<script>alert(1)<",  # with a slash it would be two directories
    "a..b",
    "..hidden",
    "%2f%2e%2e%00",
    "#hash",
    "a&b=c?d",
    "🙂 👩‍👩‍👧",
    "C:colon:path",
    "back\\slash",
    "a+b",
    "${x} {run} %s {}",
    "null",
    "__proto__",
    "constructor",
    "-rf",
    "data",
    "experiment",
    "عربي",
    "x" * 255,
]
# Names that are changed so that they can be shown, and what they are then.
CHANGED = {
    b"new\nline": "new%0Aline",
    b"tab\tbell\x07": "tab%09bell%07",
    b" blanks ": "%20blanks%20",
    b"ends in dots...": "ends in dots%2E%2E%2E",
    b"undecodable \xff\xfe": "undecodable %FF%FE",
    b"latin-1 l\xe4ufe": "latin-1 l%E4ufe",
    "right to left \u202e".encode(): "right to left %E2%80%AE",
    "line\u2028separator".encode(): "line%E2%80%A8separator",
}
TAGS = [*PLAIN, "a/b//c", "/", "..", "../../etc", "new\nline", "nul\0", " blank ", "t" * 5000, "."]


def log(directory: Path, tag: str) -> None:
    """Data of the kinds whose tags are chosen freely."""
    with SummaryWriter(directory) as writer:
        at = {"global_step": 1, "walltime": 10.0}
        writer.add_scalar(tag, 1, **at)
        writer.add_image(f"image {tag}", np.zeros((3, 2, 2)), **at)
        writer.add_histogram(f"histogram {tag}", np.arange(3), **at)
        writer.add_text(f"text {tag}", tag, **at)
        writer.add_hparams({tag: tag}, {tag: 1.0}, run_name="session")


def test_runs_of_any_name_are_shown_as_by_stock(tmp_path: Path) -> None:
    for name in PLAIN:
        log(tmp_path / name, "loss")
    with Ours(tmp_path, single=True) as ours:
        assert set(ours.json("/data/runs")) >= set(PLAIN)
        told = compare(ours, Stock(tmp_path))
    assert [line for line in told if "/data/notifications" not in line] == []


def test_tags_of_any_name_are_shown_as_by_stock(tmp_path: Path) -> None:
    for number, tag in enumerate(TAGS):
        with SummaryWriter(tmp_path / str(number)) as writer:
            writer.add_scalar(tag, 1, 1, 10.0)
            writer.add_image(f"image {tag}", np.zeros((3, 2, 2)), 1, 10.0)
            writer.add_histogram(f"histogram {tag}", np.arange(3), 1, walltime=10.0)
            writer.add_text(f"text {tag}", tag, 1, 10.0)
    with Ours(tmp_path, single=True) as ours:
        told = compare(ours, Stock(tmp_path))
        assert [line for line in told if "/data/notifications" not in line] == []
        for number, tag in enumerate(TAGS):
            (point,) = ours.series(tag)[str(number)]
            assert point["value"] == 1
            assert ours.json("/tbhub/scalars", run=str(number), tag=tag) == [[10, 1, 1]]


def test_names_that_cannot_be_shown_are_escaped(tmp_path: Path) -> None:
    for name in CHANGED:
        log(Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)), "loss")
    with Ours(tmp_path) as ours:
        runs = ours.json("/data/runs")
        assert set(CHANGED.values()) <= set(runs)
        assert len(runs) == 2 * len(CHANGED)
        assert ours.series("loss").keys() == set(runs)
        for request in requests_for(ours):
            status, _, body = request.send(ours)
            assert status < 500, request
            if status == 200 and "loss" in str(request):
                assert body


def test_names_that_become_alike_are_told_apart(tmp_path: Path) -> None:
    for name in ("new\nline", "new%0Aline"):
        with SummaryWriter(tmp_path / name) as writer:
            writer.add_scalar("loss", len(name), 1)
    with Ours(tmp_path) as ours:
        points = ours.series("loss")
        assert points.keys() == {"new%0Aline", "new%0Aline_2"}
        assert sorted(point["value"] for (point,) in points.values()) == [8, 10]


def test_a_place_of_any_name(tmp_path: Path) -> None:
    place = os.fsencode(tmp_path) + b"/undecodable \xff\n\"'<b>"
    log(Path(os.fsdecode(place)) / "run", "loss")
    with Ours(os.fsdecode(place)) as ours:
        assert set(ours.json("/data/runs")) == {"run", "run/session"}
        assert "undecodable \ufffd" in ours.json("/data/environment")["data_location"]
        assert ours.get("/data/logdir")[0] == 200
        assert ours.get("/")[0] == 200


@pytest.mark.parametrize("name", ["../up", "/absolute", "a/../../b", ".", "a//b", " ", "x\0y"])
def test_a_name_given_to_a_source_leads_nowhere(name: str, tmp_path: Path) -> None:
    log(tmp_path / "run", "loss")
    with Ours() as ours:
        ours.create("two", Source(str(tmp_path), name=name))
        _, _, body = ours.request("GET", "/data/runs", board="two")
        runs = json.loads(body)
        assert len(runs) == 2
        for run in runs:
            assert not run.startswith(("/", "../"))
            assert "/../" not in run
            query = {"run": run, "tag": "loss"}
            status, _, _ = ours.request("GET", "/tbhub/scalars", query=query, board="two")
            assert status == 200


def test_bytes_that_are_no_text_in_a_tag(tmp_path: Path) -> None:
    file = tmp_path / "run" / "events.out.tfevents.1"
    file.parent.mkdir()
    good = record(step=1, summary={"value": [{"tag": "abcdef", "simple_value": 2.5}]})
    bad = bytearray(good)
    at = bad.index(b"abcdef")
    bad[at : at + 6] = b"ab\xff\xfeef"
    append(file, VERSION + good + frame(bytes(bad[12:-4])))
    with Ours(tmp_path) as ours:
        for request in requests_for(ours):
            assert request.send(ours)[0] < 500, request
        (point,) = ours.series("abcdef")["run"]
        assert point["value"] == 2.5
