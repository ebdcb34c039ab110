"""What is answered without TensorBoard is what TensorBoard's plugin would have answered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.test import EnvironBuilder

from support.ours import Ours
from tbhub import SummaryWriter
from tbhub.boards import charts
from tbhub.boards.board import BoardOptions
from tbhub.boards.charts import Fragments, field_of


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Ours]:
    for run in ("a", "b"):
        with SummaryWriter(tmp_path / run) as writer:
            writer.add_scalars_batch("loss", [3.0, 2.0, 1.0], wall_times=[1.0, 2.0, 3.0])
            if run == "b":
                writer.add_scalar("only b", 1, 1, 4.0)
    ours = Ours(tmp_path)
    yield ours
    ours.close()


def test_plain_runs_need_no_tensorboard(plain: Ours) -> None:
    for path in (charts.RUNS, charts.TAGS):
        assert plain.get(f"/{path}")[0] == 200
    wanted = json.dumps([{"plugin": "scalars", "tag": "loss"}])
    status, _, body = plain.post(f"/{charts.CHARTS}", {"requests": wanted})
    assert status == 200
    points = json.loads(body)[0]["runToSeries"]["a"]
    assert [point["value"] for point in points] == [3.0, 2.0, 1.0]
    assert not plain.host._application.done()


def test_both_ways_answer_alike(plain: Ours, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [
        {"plugin": "scalars", "tag": "loss"},
        {"plugin": "scalars", "tag": "only b"},
        {"plugin": "scalars", "tag": "loss", "run": "b"},
        {"plugin": "scalars", "tag": "loss", "run": ""},
        {"plugin": "scalars", "tag": "no such tag"},
    ]

    def ask() -> list[object]:
        answers = [plain.get(f"/{charts.RUNS}"), plain.get(f"/{charts.TAGS}")]
        answers += [
            plain.post(f"/{charts.CHARTS}", {"requests": json.dumps(some)})
            for some in (wanted, wanted[:1], [])
        ]
        return [(status, kind, json.loads(body)) for status, kind, body in answers]

    quickly = ask()
    monkeypatch.setattr(charts, "answer", lambda *_: None)
    assert ask() == quickly
    assert plain.host._application.done()


@pytest.mark.parametrize(("runs", "drawn"), [(3, 1000), (31, 500), (61, 250)])
def test_many_lines_are_drawn_with_fewer_points_and_keep_their_spikes(
    tmp_path: Path, runs: int, drawn: int
) -> None:
    for run in range(runs):
        with SummaryWriter(tmp_path / f"run{run}") as writer:
            values = [float(step % 7) for step in range(3000)]
            values[1234 + run] = 1e6
            writer.add_scalars_batch("loss", values)
    ours = Ours(tmp_path, options=BoardOptions())
    wanted = json.dumps([{"plugin": "scalars", "tag": "loss"}])
    _, _, body = ours.post(f"/{charts.CHARTS}", {"requests": wanted})
    ours.close()
    series = json.loads(body)[0]["runToSeries"]
    assert len(series) == runs
    for run in range(runs):
        points = series[f"run{run}"]
        assert drawn - 4 <= len(points) <= drawn
        assert {"step": 1234 + run, "value": 1e6}.items() <= max(
            points, key=lambda point: point["value"]
        ).items()


def test_every_answer_says_how_new_it_is(plain: Ours) -> None:
    before = plain.board.version
    plain.get(f"/{charts.RUNS}")
    assert int(plain.headers[b"x-tbhub-version"]) == before


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_field_is_found_as_browsers_send_it(text: str) -> None:
    environ = EnvironBuilder(method="POST", data={"requests": text, "other": "x"}).get_environ()
    body = environ["wsgi.input"].read()
    found = field_of(body, environ["CONTENT_TYPE"], "requests")
    assert found == (text or None) or (text == "" and found in ("", None))
    multipart = EnvironBuilder(
        method="POST", data={"requests": text}, content_type="multipart/form-data"
    ).get_environ()
    body = multipart["wsgi.input"].read()
    assert field_of(body, multipart["CONTENT_TYPE"], "requests") == text


@given(st.binary(), st.sampled_from(["", "text/plain", "multipart/form-data; boundary=x"]))
def test_any_other_body_has_no_field(body: bytes, kind: str) -> None:
    field_of(body, kind, "requests")
    assert field_of(urlencode({"a": "b"}).encode(), "application/json", "a") is None


def test_the_least_recently_used_fragments_go_first() -> None:
    fragments = Fragments(10)
    made: list[str] = []

    def get(name: str, size: int) -> bytes:
        def make() -> bytes:
            made.append(name)
            return b"x" * size

        return fragments.get(name, make)

    for name in "abab":
        get(name, 4)
    assert made == ["a", "b"]
    get("c", 4)  # and a goes
    get("b", 4)
    get("a", 4)
    assert made == ["a", "b", "c", "a"]
    assert len(get("large", 100)) == 100
