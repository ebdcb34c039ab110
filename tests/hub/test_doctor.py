"""Why a board is empty, stale or slow: each cause is found, and nothing else is."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support.conducted import log
from tbhub import SummaryWriter
from tbhub.api.models import Board, Finding, Findings, Metric, Reason, Run, State
from tbhub.hub import doctor
from tbhub.hub.doctor import Place, look_at
from tbhub.hub.language import language, translate_findings

NOW = 1_800_000_000.0
WELL = Place(files=1, size=10_000, written=NOW - 5)
UP = {"runs": 1, "loading": None, "has_data": True, "notices": []}


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(NOW + seconds, UTC)


def board(**more: Any) -> Board:
    fields = {
        "id": "aab49ba5-0000",
        "name": "rarely-cute-otter",
        "owner": "ada",
        "state": State.RUNNING,
        "selector": "exp:1",
        "url": "http://hub/boards/aab49ba5/",
        "created": moment(-100),
        "active": moment(0),
        "runs": 1,
    }
    return Board.model_validate(fields | more)


def metric(**more: Any) -> Metric:
    fields = {"count": 3, "last": 1.0, "last_step": 10, "last_time": moment(-5)}
    return Metric.model_validate(fields | more)


def run(**more: Any) -> Run:
    fields = {
        "id": 1,
        "name": "run1",
        "path": "a",
        "workspace": "default",
        "experiment": "e",
        "experiment_id": 1,
        "location": "/logs/a",
        "status": "running",
        "created": moment(-100),
        "updated": moment(-5),
        "metrics": {"loss": metric()},
    }
    return Run.model_validate(fields | more)


def diagnose(*known: Any, **more: Any) -> list[Finding]:
    """Return what is found, all of which is known in Chinese."""
    findings = doctor.diagnose(*known, **more)
    token = language.set("zh")
    try:
        chinese = translate_findings(Findings(findings=findings)).findings
    finally:
        language.reset(token)
    for each, other in zip(findings, chinese, strict=True):
        assert (each.level, each.subject) == (other.level, other.subject)
        if each.subject not in ("notice", "damaged records"):  # in the words of its host
            assert each.text != other.text, each.text
        assert not each.advice or each.advice != other.advice, each.advice
    return findings


def found(
    shown: Board | None = None,
    *runs: Run,
    stands: dict[str, Any] | None = UP,
    place: Place = WELL,
    trouble: str | None = None,
) -> list[Finding]:
    runs = runs or (run(),)
    return diagnose(shown or board(), runs, stands, trouble, now=NOW, look=lambda _: place)


def subjects(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(each.level, each.subject) for each in findings]


def test_nothing_wrong() -> None:
    assert subjects(found()) == [("ok", "board")]


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (Place(exists=False), ("error", "location missing")),
        (Place(problem="Permission denied"), ("error", "permission")),
        (Place(), ("warning", "no files")),
        (replace(WELL, written=NOW - 1000), None),  # the last event is recent enough
    ],
)
def test_what_the_place_of_a_run_tells(place: Place, expected: tuple[str, str] | None) -> None:
    findings = subjects(found(place=place))
    assert findings == ([("ok", "board")] if expected is None else [expected])


def test_a_file_that_does_not_grow_is_buffered() -> None:
    quiet = run(updated=moment(-1000))
    (finding,) = found(None, quiet, place=replace(WELL, written=NOW - 1000))
    assert (finding.level, finding.subject) == ("warning", "buffered")
    assert "flush" in finding.advice
    done = run(updated=moment(-1000), status="finished")
    assert subjects(found(None, done, place=replace(WELL, written=NOW - 1000)))[0][0] == "ok"
    opened = run(metrics={}, updated=None)
    assert subjects(found(None, opened, place=replace(WELL, size=88))) == [("warning", "buffered")]


def test_steps_that_go_back() -> None:
    rewound = run(metrics={"loss": metric(max=9.0, max_step=11)})
    assert subjects(found(None, rewound)) == [("warning", "step rewinds")]


def test_events_of_the_future() -> None:
    (finding,) = found(None, run(updated=moment(3600)))
    assert finding.subject == "clock"
    assert "ahead" in finding.advice


def test_damaged_records_and_other_notices() -> None:
    notices = [
        {"id": "damaged a 3", "text": "a: 3 damaged places skipped"},
        {"id": "template", "text": "fields without a value"},
    ]
    findings = found(stands={**UP, "notices": notices})
    assert subjects(findings) == [("warning", "damaged records"), ("warning", "notice")]
    assert "tbhub check" in findings[0].advice


def test_what_stores_have_been_asked() -> None:
    stands = {**UP, "traffic": {"requests": 1234, "bytes_read": 5_000_000}}
    good, found = diagnose(board(), [run()], stands, now=NOW, look=lambda _: WELL)
    assert (good.level, found.level, found.subject) == ("ok", "info", "requests")
    assert "asked 1,234 times for 5,000,000 bytes" in found.text
    bounded = board(options={"requests_per_minute": 60})
    _, found = diagnose(bounded, [run()], stands, now=NOW, look=lambda _: WELL)
    assert "may ask 60 times a minute" in found.text


def test_a_board_whose_runs_were_deleted() -> None:
    empty = board(runs=0, selector="trial:3")
    (finding,) = diagnose(empty, [], UP, now=NOW)
    assert (finding.level, finding.subject) == ("error", "runs")
    assert finding.text == "All runs that it showed were deleted or taken out."


def test_nothing_matches() -> None:
    empty = board(runs=0, selector="where lr < 0", follow=True)
    (finding,) = diagnose(empty, [], UP, now=NOW)
    assert (finding.level, finding.subject) == ("error", "selector")
    assert "where lr < 0" in finding.text


def test_still_loading() -> None:
    findings = found(stands={**UP, "loading": {"done": 3, "total": 1000}})
    assert ("info", "loading") in subjects(findings)


@pytest.mark.parametrize("stands", [None, UP])
def test_a_dead_host(stands: dict[str, Any] | None) -> None:
    findings = found(stands=None if stands is None else UP, trouble="connection refused")
    assert subjects(findings) == [("error", "host")]
    assert "connection refused" in findings[0].text


@pytest.mark.parametrize(
    ("state", "level"),
    [
        (State.FAILED, "error"),
        (State.TERMINATED, "error"),
        (State.STOPPED, "warning"),
        (State.QUEUED, "info"),
    ],
)
def test_a_board_that_is_not_up(state: State, level: str) -> None:
    reason = None if state == State.QUEUED else Reason.CRASHED
    findings = found(board(state=state, reason=reason, message="Why."), stands=None)
    assert (level, "board") in subjects(findings)


def test_many_with_the_same_trouble_are_one_finding() -> None:
    runs = [run(id=number, name=f"run{number}") for number in range(1, 50)]
    (finding,) = found(board(runs=49), *runs, place=Place(exists=False))
    assert "run5 (/logs/a) and 44 more" in finding.text


def test_runs_that_cannot_be_read_have_their_own_advice() -> None:
    runs = [run(), run(id=2, name="run2", location="s3://bucket/b")]
    here, there = found(board(runs=2), *runs, place=Place(problem="Permission denied"))
    assert "run1" in here.text
    assert "another user" in here.advice
    assert "run2" in there.text
    assert "tbhub storage add" in there.advice


SENT = "sent by the hub (access_key_id, secret_access_key)"


def seen(path: str, problem: str, credentials: str) -> dict[str, Any]:
    """Return what a host says that it sees of a place in a bucket."""
    source = {"path": path, "runs": 0, "files": 0, "problem": problem, "listed": True}
    return {
        "host": "local-1",
        "pid": 1,
        "tensorboard": {"error": "", "version": "2"},
        "sources": [{**source, "credentials": credentials}],
    }


def refused(problem: str, credentials: str, connections: dict[str, str]) -> list[Finding]:
    """Return the errors of a board over a place, and of one with a run, that cannot be read."""
    place = "s3://bucket/b"
    shown = seen(place, problem, credentials)
    uri = board(uris=[place], runs=0)
    over_place = diagnose(uri, [], UP, None, shown, connections, now=NOW)
    over_run = diagnose(board(), [run(location=place)], UP, None, shown, connections, now=NOW)
    return [each for each in (*over_place, *over_run) if each.level == "error"]


def test_a_place_that_cannot_be_read_names_the_connection_that_is_used() -> None:
    findings = refused("not accepted", SENT, {"s3://bucket/b": "old", "s3://bucket/c": "c"})
    assert len(findings) == 2
    for each in findings:
        assert (
            f"cannot be read: not accepted. Credentials: {SENT} from connection old." in each.text
        )
        assert "`tbhub storage test old --for boards`" in each.advice
        assert "`tbhub storage add NAME s3://bucket/b`" in each.advice


@pytest.mark.parametrize(
    ("credentials", "expected"),
    [
        (SENT, f"{SENT} from the hub's environment"),
        ("of the backend's environment (X)", "of the backend's environment (X)"),
        ("none: the identity", "none: the identity"),
    ],
)
def test_a_place_that_cannot_be_read_without_a_connection_says_what_is_used(
    credentials: str, expected: str
) -> None:
    findings = refused("not accepted", credentials, {})
    assert len(findings) == 2
    for each in findings:
        assert f"Credentials: {expected}." in each.text
        assert "`tbhub storage test s3://bucket/b`" in each.advice


def test_a_missing_bucket_is_not_advised_to_have_other_credentials() -> None:
    for each in refused("there is no such bucket", SENT, {"s3://bucket/b": "old"}):
        assert each.advice == "Check the name of the bucket, or create it."


def test_a_place_that_is_read_names_the_connection_that_is_used() -> None:
    place = "s3://bucket/b"
    shown = seen(place, "", SENT)
    findings = diagnose(board(uris=[place], runs=0), [], UP, None, shown, {place: "new"}, now=NOW)
    (source,) = [each.text for each in findings if each.subject == "source"]
    assert source.endswith(f"credentials: {SENT} from connection new.")


@pytest.mark.parametrize("connection", ["old", ""])
def test_a_place_that_can_no_longer_be_read_is_an_error_and_says_what_is_used(
    connection: str,
) -> None:
    place = "s3://bucket/b"
    shown = seen(place, "no connection", SENT)
    shown["sources"][0] |= {"runs": 2, "files": 3}  # which stay shown
    used = {place: connection}
    findings = diagnose(board(uris=[place], runs=2), [], UP, None, shown, used, now=NOW)
    (error,) = [each for each in findings if each.level == "error"]
    assert error.text.startswith(f"{place} cannot be read: no connection. Credentials: {SENT} from")
    (source,) = [each.text for each in findings if each.subject == "source"]
    by = f"connection {connection}" if connection else "the hub's environment"
    assert source == (
        f"Host local-1 cannot read {place}; it shows 2 runs in 3 event files that it has read "
        f"before, credentials: {SENT} from {by}."
    )


def test_runs_below_a_place_count_as_looked_at() -> None:
    place = "s3://bucket/b"
    shown = seen(place, "", SENT)
    shown["sources"][0] |= {"runs": 2, "files": 2}
    findings = diagnose(board(uris=[place], runs=2), [], UP, None, shown, {}, now=NOW)
    assert findings[0].text == "Nothing wrong was found: 2 runs looked at."
    assert not any("of which" in each.text for each in findings)


def test_runs_that_were_not_looked_at_are_not_counted_as_such() -> None:
    runs = [run(id=number) for number in range(1, 1001)]
    good, more = found(board(runs=1500), *runs)
    assert good.text == "Nothing wrong was found: 1,000 runs looked at."
    assert more.text == "It has 1,500 runs, of which 1,000 were looked at."


def test_a_path_that_is_a_loop_of_links_is_not_advised_to_have_other_rights() -> None:
    problem = "Too many levels of symbolic links"
    shown = seen("/loop", problem, "")
    del shown["sources"][0]["credentials"]
    shown["sources"][0] |= {"exists": False, "readable": False, "user": "ada on here"}
    findings = diagnose(board(uris=["/loop"], runs=0), [], UP, None, shown, now=NOW)
    (error,) = [each for each in findings if each.level == "error"]
    assert (error.text, error.advice) == (f"/loop cannot be read: {problem}.", "")
    (error,) = found(None, run(), place=Place(problem=problem))
    assert error.advice == ""


# ------------------------------------------------------------------------------- real places


def test_places_as_they_are(tmp_path: Path) -> None:
    assert look_at(str(tmp_path / "no")) == Place(exists=False)
    assert look_at(str(tmp_path)).files == 0
    log(tmp_path / "a", 1, 2)
    seen = look_at(str(tmp_path / "a"))
    assert (seen.exists, seen.problem, seen.files) == (True, None, 1)
    assert seen.written is not None
    assert abs(seen.written - time.time()) < 60
    (file,) = (tmp_path / "a").iterdir()
    assert look_at(str(file)).size == file.stat().st_size
    assert look_at(f"file://{file}") == look_at(str(file))
    assert look_at("s3://bucket/x").files == 1


def test_a_file_with_nothing_but_its_beginning_is_small(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.flush()
    place = look_at(str(tmp_path))
    findings = found(None, run(metrics={}, updated=None, status="unknown"), place=place)
    assert place.files == 0 or subjects(findings) == [("warning", "buffered")]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_place_without_rights(tmp_path: Path) -> None:
    log(tmp_path / "a", 1)
    (tmp_path / "a").chmod(0)
    try:
        assert look_at(str(tmp_path / "a")).problem == "Permission denied"
    finally:
        (tmp_path / "a").chmod(0o700)


@pytest.mark.parametrize("launcher", ["docker", "local"])
def test_a_path_that_is_not_mounted_for_the_host_is_told_from_a_missing_one(
    tmp_path: Path, launcher: str
) -> None:
    place = str(tmp_path)
    shown = seen(place, "", "")
    shown["sources"][0] |= {"exists": False, "readable": False, "user": "root on c1"}
    uri = board(uris=[place], runs=0)
    over_place = diagnose(uri, [], UP, None, shown, {}, launcher, now=NOW)
    over_run = diagnose(board(), [run(location=place)], UP, None, shown, {}, launcher, now=NOW)
    findings = [each for each in (*over_place, *over_run) if each.level == "error"]
    assert len(findings) == 2
    for each in findings:
        is_said = "exists on the hub's machine but not where the board is served." in each.text
        assert is_said == (launcher == "docker")
        assert ("Mount it for hosts of the launcher docker" in each.advice) == is_said
