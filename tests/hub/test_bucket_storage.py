"""A hub whose storage is a bucket: what it has acknowledged is there, once, whatever happens."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from storage.conftest import proxy
from support import seaweedfs as weed
from support.fault_proxy import FaultProxy
from support.hub import HubProcess, eventually
from support.records import frame
from support.seaweedfs import SeaweedFS, seaweedfs
from tbhub import SummaryWriter
from tbhub.events.segments import group_segments
from tbhub.hub.settings import Settings, SettingsError
from tbhub.publisher.publisher import Backlog, Publisher
from tbhub.storage.open import open_store
from tbhub.storage.source import FileSource
from tbhub.storage.store import Store

__all__ = ["proxy", "seaweedfs"]

EVENTS = "events.out.tfevents.1.host"


class Bucket:
    """The bucket that a hub keeps files in, as somebody else sees it."""

    def __init__(self, server: SeaweedFS, name: str) -> None:
        self.uri = f"s3://{weed.BUCKET}/{name}"
        self.settings = {
            "endpoint": server.url,
            "access_key_id": "everything",
            "secret_access_key": weed.SECRET,
        }
        opened: tuple[Store, str] = open_store(self.uri, self.settings)
        self.store, self.top = opened

    def files(self, run: int) -> dict[str, bytes]:
        """Files by name, those in segments put together."""
        top = f"{self.top}/{run}"
        names = [entry.path for entry in self.store.list(top)]
        return {
            name[len(top) + 1 :]: b"".join(map(self.store.read, parts))
            for name, parts in group_segments(names).items()
        }


@pytest.fixture
def bucket(seaweedfs: SeaweedFS, tmp_path: Path) -> Iterator[Bucket]:
    made = Bucket(seaweedfs, f"kept-{tmp_path.name}")
    yield made
    made.store.close()


@pytest.fixture
def hub(
    bucket: Bucket, proxy: FaultProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[HubProcess]:
    """Credentials come from the environment, the way to the bucket is through the proxy."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "everything")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", weed.SECRET)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
    settings = {"storage": bucket.uri, "cache_dir": tmp_path / "cache"}
    with HubProcess(tmp_path / "home", **settings) as running:
        yield running


def start_run(hub: HubProcess, **new: object) -> int:
    return int(hub.json("POST", "/api/v1/runs", json=new)["run"]["id"])


def finish(hub: HubProcess, run: int) -> None:
    told = {"attempt": 1, "status": "finished", "exit_code": 0}
    hub.json("POST", f"/api/v1/runs/{run}/finish", json=told)


def is_put_away(hub: HubProcess, run: int) -> bool:
    return not (hub.home / "files" / str(run)).exists()


def listed(hub: HubProcess, run: int) -> dict[str, int]:
    found = hub.json("GET", f"/api/v1/runs/{run}/files")["files"]
    return {entry["path"]: entry["size"] for entry in found}


def test_what_storage_may_be(tmp_path: Path) -> None:
    made = Settings.load(home=tmp_path, storage="s3://bucket/a b/")
    assert (made.bucket, made.files) == ("s3://bucket/a b", tmp_path / "files")
    made = Settings.load(home=tmp_path, storage="kept")
    assert (made.bucket, made.files) == ("", Path("kept").absolute())
    for wrong in ("hub://runs/1", "s3://", "ftp://host/x"):
        with pytest.raises(SettingsError, match="storage"):
            Settings.load(home=tmp_path, storage=wrong)


def test_files_go_on_to_the_bucket_and_can_be_gone_on_with(hub: HubProcess, bucket: Bucket) -> None:
    run = start_run(hub)
    files = f"/api/v1/runs/{run}/files"
    record = frame(b"x" * 1000)
    hub.json("PUT", f"{files}/{EVENTS}?offset=0", content=record * 10)
    hub.json("PUT", f"{files}/console.log?offset=0", content=b"first\n")
    hub.json("PUT", f"{files}/a b/ü.pt?whole=true", content=b"weights")
    hub.json("PUT", f"{files}/.hidden?whole=true", content=b"hidden")
    expected = {
        EVENTS: record * 10,
        "console.log": b"first\n",
        "a b/ü.pt": b"weights",
        ".hidden": b"hidden",
    }
    eventually(lambda: bucket.files(run) == expected)
    finish(hub, run)
    eventually(lambda: is_put_away(hub, run))
    assert listed(hub, run) == {name: len(data) for name, data in expected.items()}
    for name, data in expected.items():
        assert hub.ask("GET", f"{files}/{name}").content == data
    assert hub.json("GET", f"/api/v1/runs/{run}/log")["text"] == "first\n"
    ranged = hub.ask("GET", f"{files}/{EVENTS}", headers={"range": "bytes=5000-5999"})
    assert ranged.content == (record * 10)[5000:6000]

    # Somebody goes on with it, or sends once more what was acknowledged long ago.
    assert hub.json("PUT", f"{files}/console.log?offset=0", content=b"first\n")["size"] == 6
    wrong = hub.ask("PUT", f"{files}/{EVENTS}?offset=7", content=b"x")
    assert wrong.status_code == 409
    size = hub.json("PUT", f"{files}/{EVENTS}?offset={10 * len(record)}", content=record)["size"]
    assert size == 11 * len(record)
    hub.json("PUT", f"{files}/new.txt?whole=true", content=b"new")
    expected |= {EVENTS: record * 11, "new.txt": b"new"}
    assert listed(hub, run) == {name: len(data) for name, data in expected.items()}
    eventually(lambda: is_put_away(hub, run))
    assert bucket.files(run) == expected

    assert hub.json("DELETE", f"{files}/{EVENTS}")["deleted"] == 1
    assert hub.json("DELETE", f"{files}?below=a b")["deleted"] == 1
    assert set(bucket.files(run)) == {"console.log", ".hidden", "new.txt"}
    assert hub.json("DELETE", files)["deleted"] == 3
    assert bucket.files(run) == {}


def test_large_files_go_on_to_the_bucket_in_parts(
    hub: HubProcess, bucket: Bucket, tmp_path: Path
) -> None:
    run = start_run(hub)
    known = {"url": hub.url, "token": hub.token, "attempt": "1"}
    store, path = open_store(f"hub://runs/{run}", known)
    file = tmp_path / "model.pt"
    for content in (os.urandom(20 << 20), os.urandom(17 << 20)):
        file.write_bytes(content)
        with FileSource(file) as source:
            store.put(f"{path}/checkpoint-1/model.pt", source)
        finish(hub, run)
        eventually(lambda: is_put_away(hub, run))
        assert bucket.files(run) == {"checkpoint-1/model.pt": content}
    store.close()


def test_runs_are_deleted_with_their_files(hub: HubProcess, bucket: Bucket) -> None:
    runs = [start_run(hub) for _ in range(2)]
    for run in runs:
        hub.json("PUT", f"/api/v1/runs/{run}/files/a.txt?whole=true", content=b"some")
    finish(hub, runs[0])
    eventually(lambda: is_put_away(hub, runs[0]) and bucket.files(runs[1]))
    path = f"/api/v1/runs?select=trial:{runs[0]} trial:{runs[1]}&files=true"
    planned = hub.json("DELETE", f"{path}&dry_run=true")
    assert (planned["files"], planned["bytes"], planned["problems"]) == (2, 8, [])
    assert all(map(bucket.files, runs))
    assert hub.json("DELETE", path) == planned | {"dry_run": False}
    assert not any(map(bucket.files, runs))
    assert all(is_put_away(hub, run) for run in runs)


def test_what_was_acknowledged_survives_a_kill_while_the_store_is_down(
    hub: HubProcess, bucket: Bucket, proxy: FaultProxy
) -> None:
    runs = [start_run(hub) for _ in range(3)]
    acknowledged: dict[int, bytes] = dict.fromkeys(runs, b"")

    def work(run: int, until: int) -> None:
        with hub.client() as client:
            while len(acknowledged[run]) < until:
                done = acknowledged[run]
                piece = frame(os.urandom(20_000))
                path = f"/api/v1/runs/{run}/files/{EVENTS}?offset={len(done)}"
                try:
                    answer = client.put(path, content=piece)
                except httpx2.TransportError:
                    return
                assert answer.is_success, answer.text
                acknowledged[run] = done + piece

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(work, runs, [1 << 20] * 3))
        eventually(lambda: bucket.files(runs[0]).get(EVENTS))
        proxy.refuse()
        working = [threads.submit(work, run, 200 << 20) for run in runs]
        eventually(lambda: sum(map(len, acknowledged.values())) > 6 << 20)
        hub.kill()
        for each in working:
            each.result()
    hub.restart()
    found = {}
    for run, expected in acknowledged.items():
        found[run] = hub.ask("GET", f"/api/v1/runs/{run}/files/{EVENTS}").content
        assert found[run].startswith(expected)
        finish(hub, run)
    eventually(lambda: "files of runs wait" in hub.log)
    assert not any(is_put_away(hub, run) for run in runs)
    proxy.heal()
    eventually(lambda: all(is_put_away(hub, run) for run in runs))
    for run in runs:
        # What was not acknowledged may end in the middle of a record, which is not an event yet.
        assert bucket.files(run)[EVENTS] == found[run]
        assert hub.ask("GET", f"/api/v1/runs/{run}/files/{EVENTS}").content == found[run]


def test_boards_and_the_catalog_read_such_runs(
    hub: HubProcess, bucket: Bucket, tmp_path: Path
) -> None:
    run = start_run(hub, name="one")
    with SummaryWriter(tmp_path / "logs") as writer:
        for step in range(100):
            writer.add_scalar("loss", 1 / (step + 1), step)
    credentials = {"url": hub.url, "token": hub.token}
    store, top = open_store(f"hub://runs/{run}", credentials)
    publisher = Publisher(tmp_path / "logs", store, top, state=tmp_path / "state.json")
    assert publisher.close(60) == Backlog()
    store.close()
    shown = hub.json("GET", f"/api/v1/runs/{run}")
    assert shown["location"] == f"{bucket.uri}/{run}"

    def metric() -> object:
        return hub.json("GET", f"/api/v1/runs/{run}").get("metrics", {}).get("loss")

    eventually(metric)
    board = hub.create_board(runs="one")
    path = f"/boards/{board['id'][:8]}/data/plugin/scalars/tags"
    eventually(lambda: "loss" in hub.ask("GET", path).text)


def test_nobody_registers_what_the_hub_keeps_for_others(bucket: Bucket, tmp_path: Path) -> None:
    with HubProcess(tmp_path / "home", storage=bucket.uri, auth="users") as hub:
        new = {"name": "weed", "uri": f"s3://{weed.BUCKET}", "settings": bucket.settings}
        hub.json("POST", "/api/v1/storage", json=new)
        run = start_run(hub)
        hub.json("PUT", f"/api/v1/runs/{run}/files/a.txt?whole=true", content=b"a")
        eventually(lambda: bucket.files(run))  # by the connection
        member = hub.create_user("member")
        hub.json("POST", "/api/v1/workspaces", json={"name": "theirs"})
        path = "/api/v1/workspaces/theirs/members/member"
        hub.json("PUT", path, json={"role": "admin"})
        for place in (f"{bucket.uri}/{run}", bucket.uri, f"s3://{weed.BUCKET}"):
            asked = {"workspace": "theirs", "location": place}
            answer = hub.ask("POST", "/api/v1/runs", member, json=asked)
            assert answer.status_code == 403, answer.text
