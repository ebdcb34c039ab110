from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support import seaweedfs as weed
from support.azurite import azurite
from support.buckets import QUICK, Place, azure_place, fresh_name, no_environment, proxy, s3
from support.hub import HubProcess
from support.seaweedfs import SeaweedFS, open_seaweedfs, seaweedfs
from tbhub.storage.open import open_store
from tbhub.storage.store import Store

__all__ = [
    "QUICK",
    "Place",
    "azure_place",
    "azurite",
    "no_environment",
    "open_seaweedfs",
    "proxy",
    "s3",
    "seaweedfs",
]


@pytest.fixture(autouse=True)
def _no_environment(no_environment: None) -> None:
    """Of the machine the tests run on."""


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    """A hub that keeps the files of runs."""
    with HubProcess(tmp_path_factory.mktemp("hub") / "home", log_level="warning") as hub:
        yield hub


@pytest.fixture
def kept(hub: HubProcess) -> Callable[..., Place]:
    """Places in a run of a hub's, which is a new one each time."""

    def make(**changed: str) -> Place:
        target = hub.json("POST", "/api/v1/runs", json={"experiment": "storage"})["target"]
        known = {"url": hub.url, "token": hub.token, "attempt": "1"}
        return Place("hub", f"{target}/{fresh_name()}", {**known, **changed})

    return make


@pytest.fixture(params=["local", "s3", "gs", "az", "oss", "hub"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """An empty place of every kind."""
    name = fresh_name()
    match request.param:
        case "local":
            return Place("local", str(tmp_path / "place"), {})
        case "s3":
            make: Callable[..., Place] = request.getfixturevalue("s3")
            return make()
        case "gs":
            server: SeaweedFS = request.getfixturevalue("open_seaweedfs")
            credentials = {"endpoint": server.url, "token": "anything"}
            return Place("gs", f"gs://{weed.BUCKET}/{name}", credentials)
        case "hub":
            keep: Callable[..., Place] = request.getfixturevalue("kept")
            return keep()
        case "az":
            found: Place = request.getfixturevalue("azure_place")
            return found
        case _:
            # The bucket is a part of the host's name, which leads here as if by a proxy.
            server = request.getfixturevalue("seaweedfs")
            monkeypatch.setenv("HTTP_PROXY", server.url)
            monkeypatch.setenv("http_proxy", server.url)
            monkeypatch.delenv("NO_PROXY", raising=False)
            monkeypatch.delenv("no_proxy", raising=False)
            credentials = {
                "endpoint": f"http://{weed.DOMAIN}",
                "region": "cn-hangzhou",
                "access_key_id": "everything",
                "secret_access_key": weed.SECRET,
            }
            return Place("oss", f"oss://{weed.BUCKET}/{name}", credentials)


@pytest.fixture
def store(place: Place) -> Iterator[Store]:
    """The store of a place."""
    opened, _ = place.open()
    yield opened
    opened.close()


@pytest.fixture
def path(place: Place) -> str:
    """The path of a place in its store."""
    return open_store(place.uri, place.credentials)[1]
