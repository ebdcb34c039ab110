"""A board shows its own runs: whatever is asked of it, it answers as if there were no other."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

from support.endpoints import PLUGIN, Fields, Request, requests_for
from support.ours import Answer, Ours
from support.small import log
from tbhub import SummaryWriter
from tbhub.boards.board import Source

SECRET = "secret"


class Asked:
    """A board of a host, asked like an application."""

    def __init__(self, ours: Ours, board: str) -> None:
        self.ours = ours
        self.board = board

    def get(self, path: str, /, **query: str | Sequence[str]) -> Answer:
        return self.ours.request("GET", path, query=query, board=self.board)

    def post(self, path: str, form: Fields | str, /) -> Answer:
        return self.ours.request("POST", path, form=form, board=self.board)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    directory = tmp_path_factory.mktemp("logs")
    log(directory / "mine", "mine", 1)
    log(directory / "theirs", SECRET, 7)
    return directory / "mine", directory / "theirs"


@pytest.fixture(scope="module")
def ours(places: tuple[Path, Path]) -> Iterator[Ours]:
    """Board "one" is mine, board "two" theirs."""
    mine, theirs = places
    with Ours(mine) as made:
        made.create("two", Source(str(theirs)))
        yield made


@pytest.fixture(scope="module")
def alone(places: tuple[Path, Path]) -> Iterator[Ours]:
    """Mine in a host where there is no other."""
    with Ours(places[0]) as made:
        yield made


def blob_requests(app: Asked) -> Iterator[Request]:
    """Every request for a blob, by the keys a board gives out."""
    for plugin, route in (("images", "individualImage"), ("audio", "individualAudio")):
        for run, tags in json.loads(app.get(f"{PLUGIN}/{plugin}/tags")[2]).items():
            for tag in tags:
                _, _, body = app.get(f"{PLUGIN}/{plugin}/{plugin}", run=run, tag=tag, sample="0")
                for item in json.loads(body):
                    key = dict(part.split("=") for part in item["query"].split("&"))["blob_key"]
                    yield Request(f"{PLUGIN}/{plugin}/{route}", {"blob_key": key})
                    yield Request(f"{PLUGIN}/timeseries/imageData", {"imageId": key})


def test_what_belongs_to_another_board_is_as_if_it_were_not_there(ours: Ours, alone: Ours) -> None:
    mine, theirs, without = Asked(ours, "one"), Asked(ours, "two"), Asked(alone, "one")
    requests = [*requests_for(theirs), *blob_requests(theirs)]
    assert len(requests) > 300
    named = 0
    for request in requests:
        answer = request.send(mine)
        assert answer == request.send(without), request
        assert answer[0] < 500, request
        if SECRET in str(request):
            assert answer[0] < 300 or answer[2], request  # with a reason
        named += SECRET.encode() in request.send(theirs)[2]
    assert named > 100  # there would have been something to see


def test_a_run_of_the_same_name_is_each_boards_own(ours: Ours) -> None:
    for board, value in (("one", 1), ("two", 7)):
        wanted = {"requests": '[{"plugin":"scalars","tag":"shared","run":"shared"}]'}
        _, _, body = Asked(ours, board).post(f"{PLUGIN}/timeseries/timeSeries", wanted)
        (point,) = json.loads(body)[0]["runToSeries"]["shared"]
        assert point["value"] == value


IDS = ["two", "TWO", "two/", "one,two", "", "../two", "two\0"]
NAMES = [
    b"tensorboard-experiment-id",
    b"Tensorboard-Experiment-Id",
    b"TENSORBOARD_EXPERIMENT_ID",
    b"tensorboard_experiment_id",
    b"x-forwarded-prefix",
    b"x-script-name",
    b"script_name",
    b"path_info",
    b"http_tensorboard_experiment_id",
    b"x-original-url",
    b"x-tensorboard-experiment-id",
]


@pytest.mark.parametrize("name", NAMES)
def test_no_header_chooses_a_board(ours: Ours, name: bytes) -> None:
    expected = ours.get("/data/runs")
    for value in [*IDS, "/b/two"]:
        for times in (1, 2):
            headers = [(name, value.encode())] * times
            assert ours.request("GET", "/data/runs", headers=headers) == expected


@pytest.mark.parametrize(
    "query",
    [
        b"experiment=two",
        b"experiment_id=two&experimentId=two&experimentIds=two&eid=two",
        b"board=two",
        b"tensorBoardFeatureFlags=%7B%22experiment%22%3A%22two%22%7D",
        b"run=../two&x=%00",
    ],
)
def test_no_parameter_chooses_a_board(ours: Ours, query: bytes) -> None:
    for path in ("/data/runs", "/data/environment", f"{PLUGIN}/scalars/tags"):
        assert ours.request("GET", path, query=query) == ours.get(path)


def test_an_experiment_named_in_a_body_chooses_no_board(ours: Ours, alone: Ours) -> None:
    for name in ("two", "one", ""):
        form = json.dumps({"experimentName": name, "allowedStatuses": ["STATUS_UNKNOWN"]})
        path = f"{PLUGIN}/hparams/session_groups"
        assert ours.post(path, form) == alone.post(path, form)


# As a server hands them over: percent signs are gone, but for those that were encoded twice.
BEFORE = [
    "/experiment/two",
    "/experiment/two/experiment/defaultExperimentId",
    "/experiment/defaultExperimentId/experiment/two",
    "/experiment/defaultExperimentId/../../two",
    "/..",
    "/../two",
    "/../../b/two",
    "/%2e%2e/two",
    "/..%2ftwo",
    "/%2e%2e%2ftwo",
    "/..\\two",
    "//two",
    "//b/two",
    "///",
    "/./../two",
    "/\0/../two",
    "/data/../../two",
    "/data/plugin/../../../two",
    "/static/../b/two",
    "/b/two",
    "/two",
    "/http://localhost/b/two",
]
BEHIND = ["/", "/data/runs", "/data/environment", f"{PLUGIN}/scalars/tags", "/tbhub/scalars"]


@pytest.mark.parametrize("before", BEFORE)
def test_no_path_leads_to_another_board(ours: Ours, before: str) -> None:
    for behind in BEHIND:
        status, _, body = ours.request("GET", before + behind, query={"run": "shared", "tag": "x"})
        assert 400 <= status < 500, (before, behind)
        assert body
        assert SECRET.encode() not in body


@pytest.mark.parametrize("path", ["/etc/passwd", "//etc/passwd", "/../../../../etc/passwd"])
def test_no_path_leads_to_a_file(ours: Ours, path: str) -> None:
    for before in ("", "/static", "/data", "/data/plugin/projector", "/static/x/.."):
        assert ours.get(before + path)[0] == 404


@pytest.mark.parametrize("board", ["", "none", "One", "one ", "..", "one\0", "one%2f..", "*"])
def test_a_board_there_is_not(ours: Ours, board: str) -> None:
    for path in ("/", "/data/runs", "/tbhub/events", "/tbhub/scalars"):
        status, _, body = ours.request("GET", path, board=board)
        assert (status, body) == (404, b"no such board")


def test_points_between_two_steps_are_the_boards_own(ours: Ours) -> None:
    for run, tag in itertools.product([f"{SECRET} run", "shared"], [f"{SECRET} tag", "shared"]):
        status, _, body = ours.get("/tbhub/scalars", run=run, tag=tag)
        if (run, tag) == ("shared", "shared"):
            assert json.loads(body) == [[10, 1, 1]]
        else:
            assert (status, json.loads(body)) == (404, {"error": "no such series in this board"})


def test_news_are_of_the_boards_own_runs(tmp_path: Path) -> None:
    for name in ("mine", "theirs"):
        with SummaryWriter(tmp_path / name / f"{name} run") as writer:
            for step in range(100):
                writer.add_scalar("loss", 1, step)
    (file,) = (tmp_path / "theirs" / "theirs run").iterdir()
    data = bytearray(file.read_bytes())
    data[1000] ^= 1
    file.write_bytes(data)
    with Ours(tmp_path / "mine") as ours:
        ours.create("two", Source(str(tmp_path / "theirs")))
        assert ours.run(first_news(ours, "one"))["notices"] == []
        (notice,) = ours.run(first_news(ours, "two"))["notices"]
        assert "theirs run" in notice["text"]


async def first_news(ours: Ours, board: str) -> Any:
    """What a page is told when it connects."""
    told: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def send(message: dict[str, Any]) -> None:
        if message.get("body", b"").startswith(b"data: ") and not told.done():
            told.set_result(message["body"])

    async def receive() -> dict[str, Any]:
        await told
        return {"type": "http.disconnect"}

    path = f"/b/{board}/tbhub/events"
    scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b""}
    await ours.host(scope, receive, send)
    return json.loads((await told).removeprefix(b"data: "))


def test_a_deleted_board_answers_no_more(places: tuple[Path, Path]) -> None:
    with Ours(places[0]) as ours:
        assert ours.get(f"{PLUGIN}/projector/runs")[0] == 200
        assert ours.host.delete("one")
        assert not ours.host.delete("one")
        assert ours.get("/data/runs")[0] == 404
        ours.create("one", Source(str(places[1])))
        assert f"{SECRET} run" in ours.json("/data/runs")
        assert f"{SECRET} run" in ours.json(f"{PLUGIN}/projector/runs")
        assert "mine run" not in ours.json(f"{PLUGIN}/projector/runs")


# ----------------------------------------------------------------------------- the projector


def outside(way: str, run: Path, theirs: Path) -> str:
    """A path in a config that leads out of its directory."""
    if way == "absolute":
        return str(theirs)
    if way == "dots":
        return os.path.relpath(theirs, run)
    if way == "dots behind a name":
        return f"{theirs.parent.name}/../{os.path.relpath(theirs, run)}"
    if way == "link to a directory":
        (run / "link").symlink_to(theirs.parent)
        return f"link/{theirs.name}"
    (run / "link").symlink_to(theirs)
    return "link"


@pytest.mark.parametrize(
    "way", ["absolute", "dots", "dots behind a name", "link to a directory", "link to a file"]
)
def test_a_projector_config_leads_nowhere_else(way: str, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs" / "file.tsv"
    theirs.parent.mkdir()
    theirs.write_text("7.0\t7.0\n7.0\t7.0\n")
    run = tmp_path / "mine" / "run"
    with SummaryWriter(run) as writer:
        writer.add_scalar("loss", 1, 1)
    path = outside(way, run, theirs)
    config = ProjectorConfig()
    embedding = config.embeddings.add(tensor_name="x", tensor_path=path, metadata_path=path)
    embedding.bookmarks_path = path
    embedding.sprite.image_path = path
    (run / "projector_config.pbtxt").write_text(text_format.MessageToString(config))
    with SummaryWriter(tmp_path / "mine" / "good") as writer:
        writer.add_embedding(np.ones((3, 2)), tag="good")
    with Ours(tmp_path / "mine") as ours:
        for route in ("tensor", "metadata", "bookmarks", "sprite_image"):
            status, _, body = ours.get(f"{PLUGIN}/projector/{route}", run="run", name="x")
            assert 400 <= status < 500
            assert body
            assert b"7.0" not in body
            assert np.float32(7).tobytes() not in body
        assert "good" in ours.json(f"{PLUGIN}/projector/runs")
        (name,) = [e["tensorName"] for e in projected(ours, "good")]
        _, _, body = ours.get(f"{PLUGIN}/projector/tensor", run="good", name=name)
        assert np.frombuffer(body, np.float32).tolist() == [1] * 6


@pytest.mark.parametrize(
    "config",
    [
        "not a config {{{",
        'embeddings { tensor_name: "x" tensor_path: "missing.tsv" }',
        'embeddings { tensor_name: "x" tensor_path: "empty.tsv" }',
        'embeddings { tensor_name: "x" tensor_path: "ragged.tsv" }',
        'embeddings { tensor_name: "x" tensor_path: "." }',
        "\0\xff",
    ],
)
def test_one_bad_projector_config_hides_no_other(config: str, tmp_path: Path) -> None:
    for run in ("bad", "good"):
        with SummaryWriter(tmp_path / run) as writer:
            writer.add_embedding(np.ones((3, 2)), tag="good")
    (tmp_path / "bad" / "empty.tsv").touch()
    (tmp_path / "bad" / "ragged.tsv").write_text("1\t2\n3\n")
    path = tmp_path / "bad" / "projector_config.pbtxt"
    good = path.read_text()
    path.write_text(config, encoding="latin-1")
    with Ours(tmp_path) as ours:
        assert "good" in ours.json(f"{PLUGIN}/projector/runs")
        assert len(projected(ours, "good")) == 1
        for route in ("info", "tensor", "metadata", "bookmarks", "sprite_image"):
            assert ours.get(f"{PLUGIN}/projector/{route}", run="bad", name="x")[0] in (200, 400)
        path.write_text(good)  # as one that was just being written
        if "." not in config:  # what could be read is read once
            assert len(projected(ours, "bad")) == 1


def projected(ours: Ours, run: str) -> list[Any]:
    found: list[Any] = ours.json(f"{PLUGIN}/projector/info", run=run)["embeddings"]
    return found
