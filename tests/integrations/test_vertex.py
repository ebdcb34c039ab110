"""Managed TensorBoards: one for a name whoever asks, and runs that arrive there once."""

from __future__ import annotations

import math
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tbhub
from support.hub import PATIENCE, clean_environment, eventually
from support.vertex_server import VertexServer, vertex_server
from tbhub import SummaryWriter
from tbhub.integrations.vertex import TensorboardCapability, VertexError, connect, slug
from tbhub.integrations.vertex_upload import Uploader, chunks, upload
from tbhub.series.column import Part

__all__ = ["vertex_server"]
WHOLE = "projects/team/locations/us-central1/tensorboards/7"


def capability(tmp_path: Path, name: str = "ours") -> TensorboardCapability:
    return TensorboardCapability(name, str(tmp_path / "out"))


def log(directory: Path, *values: float, start: int = 0, tag: str = "loss") -> None:
    with SummaryWriter(directory) as writer:
        for step, value in enumerate(values, start):
            writer.add_scalar(tag, value, step)


def test_a_tensorboard_is_made_once_and_found_again(
    vertex_server: VertexServer, tmp_path: Path
) -> None:
    first = capability(tmp_path).get_or_create()
    assert re.fullmatch(r"projects/team/locations/us-central1/tensorboards/\d+", first)
    assert capability(tmp_path).get_or_create() == first
    assert capability(tmp_path, "another").get_or_create() != first
    assert capability(tmp_path, WHOLE).get_or_create() == WHOLE
    assert len(vertex_server.tensorboards) == 2


def test_all_who_start_together_get_one(vertex_server: VertexServer, tmp_path: Path) -> None:
    barrier = threading.Barrier(8)

    def ask(_: int) -> str:
        barrier.wait()
        return capability(tmp_path).get_or_create()

    with ThreadPoolExecutor(8) as threads:
        found = set(threads.map(ask, range(8)))
    assert found == set(vertex_server.tensorboards)
    assert len(found) == 1


def test_one_that_there_was_before_is_taken_the_oldest_first(
    vertex_server: VertexServer, tmp_path: Path
) -> None:
    client = connect()
    parent = "projects/team/locations/us-central1"
    made = [
        client.create_tensorboard(
            request={"parent": parent, "tensorboard": {"display_name": "ours"}}
        )
        .result()
        .name
        for _ in range(2)
    ]
    assert capability(tmp_path).get_or_create() == made[0]


def test_one_that_was_deleted_is_made_anew(vertex_server: VertexServer, tmp_path: Path) -> None:
    first = capability(tmp_path).get_or_create()
    del vertex_server.tensorboards[first]
    second = capability(tmp_path).get_or_create()
    assert second != first
    assert capability(tmp_path).get_or_create() == second


def test_jobs_are_told_where_to_log(tmp_path: Path) -> None:
    made = TensorboardCapability("ours", "gs://bucket/out/")
    assert made.environment("run1") == {"AIP_TENSORBOARD_LOG_DIR": "gs://bucket/out/run1/logs"}


def test_the_output_directory_is_optional(
    vertex_server: VertexServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_CLOUD_BUCKET_NAME", raising=False)
    made = tbhub.TensorboardCapability(name="ours")
    first = made.get_or_create()
    assert made.get_or_create() == first
    assert list(vertex_server.tensorboards) == [first]
    with pytest.raises(VertexError, match="set GOOGLE_CLOUD_BUCKET_NAME"):
        made.log_dir("run1")
    monkeypatch.setenv("GOOGLE_CLOUD_BUCKET_NAME", "team")
    assert made.log_dir("run1") == "gs://team/run1/logs"
    assert tbhub.TensorboardCapability("ours", "team/7/0").log_dir("a") == "gs://team/7/0/a/logs"


def test_several_made_at_once_without_a_directory_are_one(
    vertex_server: VertexServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_CLOUD_BUCKET_NAME", raising=False)
    barrier = threading.Barrier(4)

    def ask(_: int) -> str:
        barrier.wait()
        return TensorboardCapability("ours").get_or_create()

    with ThreadPoolExecutor(4) as threads:
        found = set(threads.map(ask, range(4)))
    assert found == set(vertex_server.tensorboards)
    assert len(found) == 1


def test_runs_arrive_once_however_often_they_are_sent(
    vertex_server: VertexServer, tmp_path: Path
) -> None:
    log(tmp_path / "runs" / "a", 3.0, 2.0)
    log(tmp_path / "runs" / "b", 1.0, tag="train/Loss")
    for _ in range(2):
        upload(Uploader(connect(), WHOLE, "My experiment"), str(tmp_path / "runs"))
    (experiment,) = vertex_server.experiments.values()
    assert experiment.display_name == "My experiment"
    assert sorted(each.display_name for each in vertex_server.runs.values()) == ["a", "b"]
    assert vertex_server.by_tag() == {"loss": [(0, 3.0), (1, 2.0)], "train/Loss": [(0, 1.0)]}
    # Another process goes on where the first has ended.
    log(tmp_path / "runs" / "a", 1.0, start=2)
    upload(Uploader(connect(), WHOLE, "My experiment"), str(tmp_path / "runs"))
    assert vertex_server.by_tag()["loss"] == [(0, 3.0), (1, 2.0), (2, 1.0)]


def test_vertex_may_be_away_for_a_moment(vertex_server: VertexServer, tmp_path: Path) -> None:
    log(tmp_path / "runs" / "a", 3.0)
    vertex_server.refusals = {"CreateTensorboardRun": 1, "WriteTensorboardExperimentData": 2}
    upload(Uploader(connect(), WHOLE, "e"), str(tmp_path / "runs"))
    assert list(vertex_server.points.values()) == [[(0, 3.0)]]


def test_what_vertex_refuses_is_said(vertex_server: VertexServer, tmp_path: Path) -> None:
    log(tmp_path / "runs" / "a", 3.0)
    uploader = Uploader(connect(), WHOLE, "e")
    upload(uploader, str(tmp_path / "runs"))
    vertex_server.series.clear()
    log(tmp_path / "runs" / "a", 2.0, start=1)
    with pytest.raises(VertexError, match=r"Vertex AI refuses: 404 .* is not there"):
        upload(uploader, str(tmp_path / "runs"))


def test_the_command_sends_what_is_logged_meanwhile(
    vertex_server: VertexServer, tmp_path: Path
) -> None:
    log(tmp_path / "runs" / "a", 3.0)
    command = [
        *(str(Path(sys.executable).with_name("tbhub")), "vertex", "upload", "runs"),
        *("--tensorboard", WHOLE, "--experiment", "live"),
    ]
    environment = clean_environment(TBHUB_VERTEX_EMULATOR=vertex_server.address)
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            eventually(lambda: list(vertex_server.points.values()) == [[(0, 3.0)]])
            log(tmp_path / "runs" / "a", 2.0, start=1)
            eventually(lambda: list(vertex_server.points.values()) == [[(0, 3.0), (1, 2.0)]])
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert process.returncode == 0
    assert out.splitlines() == [
        f"sending to {WHOLE}, experiment live",
        "a: 1 point",
        "a: 1 point",
    ]


@given(
    st.lists(st.tuples(st.integers(-9, 9), st.floats(width=32)), max_size=30),
    st.none() | st.integers(-9, 9),
)
def test_one_point_for_each_step_behind_the_last(
    points: list[tuple[int, float]], after: int | None
) -> None:
    steps = np.array([step for step, _ in points], np.int64)
    values = np.array([value for _, value in points], np.float32)
    part = Part(steps, np.arange(len(points), dtype=np.float64), values, 0, 0.0)
    sent = [
        (each["step"], each["scalar"]["value"]) for chunk in chunks(part, after) for each in chunk
    ]
    expected = {step: value for step, value in points if after is None or step > after}
    assert [step for step, _ in sent] == sorted(expected)
    for step, value in sent:
        assert value == expected[step] or (math.isnan(value) and math.isnan(expected[step]))


@given(st.text(min_size=1, max_size=200), st.text(min_size=1, max_size=200))
def test_ids_are_ones_that_vertex_takes_and_tell_names_apart(one: str, other: str) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9-]{0,126}[a-z0-9]|[a-z]", slug(one))
    assert (slug(one) == slug(other)) == (one == other)
