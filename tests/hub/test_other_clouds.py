"""Google's and Alibaba's stores from end to end: published, read, in the catalog and in a board."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tbhub
from storage.conftest import no_environment
from support import seaweedfs as weed
from support.buckets import Place, fresh_name
from support.hub import HubProcess, eventually
from support.seaweedfs import SeaweedFS, open_seaweedfs, seaweedfs
from tbhub import SummaryWriter
from tbhub.publisher.publisher import Backlog, Publisher

__all__ = ["no_environment", "open_seaweedfs", "seaweedfs"]


@pytest.fixture(params=["gs", "oss"])
def place(
    request: pytest.FixtureRequest, no_environment: None, monkeypatch: pytest.MonkeyPatch
) -> Place:
    if request.param == "gs":
        server: SeaweedFS = request.getfixturevalue("open_seaweedfs")
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        credentials = {"endpoint": server.url, "token": "anything"}
        return Place("gs", f"gs://{weed.BUCKET}/{fresh_name()}", credentials)
    # The bucket is a part of the host's name, which leads here as if by a proxy.
    server = request.getfixturevalue("seaweedfs")
    for name, value in (("HTTP_PROXY", server.url), ("NO_PROXY", "127.0.0.1")):
        monkeypatch.setenv(name, value)
        monkeypatch.setenv(name.lower(), value)
    credentials = {
        "endpoint": f"http://{weed.DOMAIN}",
        "region": "cn-hangzhou",
        "access_key_id": "everything",
        "secret_access_key": weed.SECRET,
    }
    variables = ("OSS_ENDPOINT", "OSS_REGION", "OSS_ACCESS_KEY_ID", "OSS_ACCESS_KEY_SECRET")
    for name, value in zip(variables, credentials.values(), strict=True):
        monkeypatch.setenv(name, value)
    return Place("oss", f"oss://{weed.BUCKET}/{fresh_name()}", credentials)


@pytest.fixture
def hub(place: Place, tmp_path: Path) -> Iterator[HubProcess]:
    with HubProcess(tmp_path / "home", cache_dir=tmp_path / "cache") as running:
        yield running


def test_a_run_there_from_end_to_end(place: Place, hub: HubProcess, tmp_path: Path) -> None:
    store, prefix = place.open()
    publisher = Publisher(tmp_path / "logs", store, prefix, state=tmp_path / "state.json")
    writer = SummaryWriter(tmp_path / "logs")
    for step in range(2000):
        writer.add_scalar("loss", 1 / (step + 1), step)
        if step % 500 == 0:
            writer.flush()
            assert publisher.publish().problem == ""
    writer.close()
    (tmp_path / "logs" / "console.log").write_text("hello\n")
    assert publisher.close(60) == Backlog()
    assert len(tbhub.load(place.uri)["."].scalars["loss"].steps) == 2000
    new: dict[str, Any] = {"name": "cloud", "uri": place.uri, "settings": place.credentials}
    hub.json("POST", "/api/v1/storage", json=new)
    run = hub.json("POST", "/api/v1/runs", json={"location": place.uri})["run"]["id"]

    def known() -> Any:
        return hub.json("GET", f"/api/v1/runs/{run}")["metrics"].get("loss")

    assert eventually(known)["count"] == 2000
    assert hub.json("GET", f"/api/v1/runs/{run}/log")["text"] == "hello\n"
    board = hub.create_board(trials=[run])
    path = f"/boards/{board['id'][:8]}/data/plugin/scalars/tags"
    eventually(lambda: "loss" in hub.ask("GET", path).text)
    store.close()
