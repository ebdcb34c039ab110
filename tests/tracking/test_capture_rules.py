"""Which event files are a run's, and what their directories are called: the pure rules."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tbhub.tracking.capture.capturer import Report
from tbhub.tracking.capture.naming import Names
from tbhub.tracking.capture.origins import (
    Evidence,
    Holder,
    NamedAfter,
    Verdict,
    judge,
    parse_name,
)
from tbhub.tracking.capture.search import Search
from tbhub.tracking.capture.summary import adopted_line, later_lines, missing_line

START = 1000.0


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("events.out.tfevents.1794956329.vm.20598.0", NamedAfter(1794956329, 20598)),
        ("events.out.tfevents.1794956329.vm.20598.0.v2", NamedAfter(1794956329, 20598)),
        ("events.out.tfevents.1794956329.vm", NamedAfter(1794956329)),
        ("events.out.tfevents.1794956329.vm.suffix", NamedAfter(1794956329)),
        ("events.out.tfevents.1794956329.vm2.7.0", NamedAfter(1794956329)),
        ("events.out.tfevents.1794956329.other", NamedAfter(1794956329)),
        ("my.tfevents", NamedAfter()),
    ],
)
def test_names_of_event_files(name: str, expected: NamedAfter) -> None:
    assert parse_name(f"/runs/a/{name}", "vm") == expected


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        (Evidence(START + 1, START + 1, Holder.OWN), Verdict.ADOPT),
        (Evidence(START + 1, START + 1, Holder.UNKNOWN), Verdict.UNSURE),
        (Evidence(START + 1, START + 1, Holder.UNKNOWN, is_named=True), Verdict.ADOPT),
        (Evidence(START + 1, START + 1, Holder.UNKNOWN, is_settled=False), Verdict.WAIT),
        (Evidence(None, START + 1, Holder.OWN), Verdict.WAIT),
        (Evidence(START + 1, START + 1, Holder.OTHER), Verdict.OTHERS),
        (Evidence(START + 1, START + 1, Holder.OWN, is_shared=True), Verdict.SHARED),
        (Evidence(START + 1, START + 1, Holder.UNKNOWN, is_vague_place=True), Verdict.OTHERS),
        (Evidence(START + 1, START + 1, Holder.OWN, is_vague_place=True), Verdict.ADOPT),
        (Evidence(START + 1, START - 1, Holder.UNKNOWN, is_named=True), Verdict.OTHERS),
        (Evidence(START - 1, START - 1, Holder.UNKNOWN), Verdict.OTHERS),
        (Evidence(START - 1, START + 1, Holder.UNKNOWN), Verdict.OTHERS),
        (Evidence(START - 1, START + 1, Holder.OWN), Verdict.OLDER),
    ],
)
def test_a_file_is_judged_by_its_beginning_and_its_processes(
    evidence: Evidence, expected: Verdict
) -> None:
    assert judge(evidence, START) is expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (["/w/runs/Nov17_12-00-00_vm"], [""]),
        (["/w/runs/a", "/w/runs/a/1794.5"], ["", "1794.5"]),
        (["/w/logs/train"], ["train"]),
        (["/w/logs/train", "/w/logs/validation"], ["train", "validation"]),
        (["/w/runs/gen", "/w/runs/disc"], ["gen", "disc"]),
        (["/w/a", "/tmp/tensorboard/b"], ["", "b"]),
        (["/tmp/tmp1/x", "/tmp/tmp2/x"], ["", "x"]),
    ],
)
def test_directories_found_together_are_named_from_their_common_top(
    found: list[str], expected: list[str]
) -> None:
    names = Names(places=["/w", "/tmp/tensorboard"])
    names.add(found)
    assert [names.name_of(each) for each in found] == expected


def test_directories_found_later_keep_their_names_and_never_collide() -> None:
    names = Names(places=["/w"])
    found = ["/w/runs/a", "/w/runs/b", "/w/other/b", "/w/runs/a/b", "/w/runs/c/train", "/x/other/b"]
    for each in found:
        names.add([each])
    called = [names.name_of(each) for each in found]
    assert called[:3] == ["", "b", "other/b"]
    assert called[4] == "c/train"
    assert len(set(called)) == len(found)


def test_named_directories_are_tops() -> None:
    one, two = Names(["/w/a"]), Names(["/w/a", "/w/b", "/x/b"])
    one.add(["/w/a/train"])
    two.add(["/w/a", "/w/b/train", "/x/b"])
    assert one.name_of("/w/a/train") == "train"
    assert [two.name_of(each) for each in ("/w/a", "/w/b/train", "/x/b")] == [
        "a",
        "b/train",
        "x/b",
    ]


def test_what_is_searched(tmp_path: Path) -> None:
    name = "events.out.tfevents.1.host"
    searched = ["a", "a/b", "made/later"]
    others = [".hidden", "node_modules/x", "env", "env/lib", "home", "home/files/1", "excluded"]
    others += ["store/1", "spool/1-3fa9/files"]
    (tmp_path / "linked").mkdir()
    for each in (*searched[:2], *others, "../outside"):
        (tmp_path / each).mkdir(parents=True, exist_ok=True)
        (tmp_path / each / name).touch()
    (tmp_path / "env" / "pyvenv.cfg").touch()
    (tmp_path / "home" / "hub.db").touch()
    (tmp_path / "store" / ".tbhub-storage").touch()
    for each in ("target.json", "writers"):
        (tmp_path / "spool" / "1-3fa9" / each).touch()
    (tmp_path / "link").symlink_to(tmp_path.parent / "outside")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "file-link.tfevents").symlink_to(tmp_path / "a" / name)
    search = Search([str(tmp_path / "excluded")])
    search.add(str(tmp_path))
    found = set(search.look(seconds=30))
    assert found == {str(tmp_path / each / name) for each in ("a", "a/b", "link")}
    (tmp_path / "made" / "later").mkdir(parents=True)
    (tmp_path / "made" / "later" / name).touch()
    assert str(tmp_path / "made" / "later" / name) in search.look(seconds=30, is_last=True)
    search.close()


def test_of_temporary_directories_only_new_ones_are_searched(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "a.tfevents").touch()
    since = os.stat(tmp_path / "old").st_ctime
    while time.time() < since + 0.05:
        time.sleep(0.01)
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "a.tfevents").touch()
    search = Search([])
    search.add_new_below(str(tmp_path), since + 0.02)
    assert search.look(seconds=30) == [str(tmp_path / "new" / "a.tfevents")]
    assert not search.is_searched(str(tmp_path / "new"))
    search.close()


def test_what_a_user_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    top = str(tmp_path / "runs" / "a")
    report = Report({top: 2, f"{top}/sub": 1, "/far/b": 1})
    assert adopted_line(report) == "adopted 4 event files from runs/a, /far/b"
    assert adopted_line(Report()) == ""
    assert missing_line(report, is_expected=True) == ""
    assert "hint" in missing_line(Report(), is_expected=True)
    assert missing_line(Report(), is_expected=False) == ""
    missed = {str(tmp_path / name): "too old" for name in "abcde"} | {"/z": "no space"}
    assert missing_line(Report(missed=missed, unused=[top]), is_expected=True) == (
        "not adopted: /z (no space); not adopted: a, b, c and 2 more (too old); "
        "no event files were written to runs/a, named by --logdir"
    )
    assert missing_line(Report({top: 1}, shared={f"{top}/x": 7}), is_expected=True) == (
        "values in runs/a/x may be mixed: process 7 of another run writes to it as well. "
        "hint: give each run a directory of its own"
    )
    assert missing_line(Report({top: 1}, {"/z": "old"}, error="EIO"), is_expected=True) == (
        "event files of runs/a may be incomplete: copying failed: EIO; not adopted: /z (old)"
    )
    killed = "may be incomplete: the process that copies them was killed"
    assert (
        missing_line(None, is_expected=False, recorded=[top]) == f"event files of runs/a {killed}"
    )
    assert missing_line(None, is_expected=False) == (
        f"event files outside of the run's directory {killed}"
    )


def test_only_what_an_earlier_report_has_not_is_reported_later() -> None:
    earlier = Report(adopted={"/a": 2}, missed={"/x": "old", "/y": "old"}, shared={"/a/1": 7})
    report = Report(
        adopted={"/a": 3, "/b": 1},
        missed={"/x": "old", "/y": "new", "/z": "new"},
        shared={"/a/1": 7},
        unused=["/c"],
        is_limited=True,
    )
    assert later_lines(report, earlier) == [
        "adopted 2 event files from /a, /b",
        "not adopted: /y, /z (new)",
    ]
    assert later_lines(report, report) == []
