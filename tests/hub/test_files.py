"""Files that the hub keeps: appended to, replaced, read; whatever a name or a client tries."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from support.hub import HubProcess, eventually

HOSTILE = [
    *("..", "../x", "a/../../x", "%2e%2e/x", "..%2fx", "%2fetc%2fx", "/etc/x", "a//b", "a/"),
    *("a%00b", "a%0ab", "a%5cb", "%1b", ".", "./a", ".tbhub-put-x", "a/.tbhub-x/b"),
    *("x" * 256, "/".join(["y" * 200] * 25)),
]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    with HubProcess(tmp_path_factory.mktemp("files") / "home") as hub:
        yield hub


@pytest.fixture
def files(hub: HubProcess) -> str:
    run = hub.json("POST", "/api/v1/runs", json={})["run"]["id"]
    return f"/api/v1/runs/{run}/files"


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_leads_elsewhere(hub: HubProcess, files: str, name: str) -> None:
    before = {path for path in hub.home.parent.rglob("*") if "hosts" not in path.parts}
    # As it is on the wire: a client would tidy it up.
    where = urlsplit(hub.url)
    for rest in ("?offset=0", "?whole=true"):
        request = (
            f"PUT {files}/{name}{rest} HTTP/1.1\r\nhost: {where.netloc}\r\n"
            f"authorization: Bearer {hub.token}\r\ncontent-length: 1\r\nconnection: close\r\n\r\nx"
        )
        with socket.create_connection((where.hostname or "", where.port or 0)) as client:
            client.sendall(request.encode())
            answer = b"".join(iter(lambda: client.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 4"), answer[:200]
    after = {path for path in hub.home.parent.rglob("*") if "hosts" not in path.parts}
    run = files.split("/")[4]
    new = {path for path in after - before if hub.home / "files" / run not in (path, *path.parents)}
    assert not {path for path in new if path.is_file() and "hub.db" not in path.name}
    assert hub.json("GET", files)["files"] == []


def test_ranges_and_versions(hub: HubProcess, files: str) -> None:
    made = hub.json("PUT", f"{files}/a b/ü?whole=true", content=b"0123456789")
    (entry,) = hub.json("GET", files)["files"]
    assert (entry["path"], entry["size"], entry["version"]) == ("a b/ü", 10, made["version"])
    with hub.client() as client:
        for header, status, content in (
            ("", 200, b"0123456789"),
            ("bytes=2-4", 206, b"234"),
            ("bytes=8-", 206, b"89"),
            ("bytes=-3", 206, b"789"),
            ("bytes=5-100", 206, b"56789"),
            ("lines=1-2", 200, b"0123456789"),
        ):
            answer = client.get(f"{files}/a b/ü", headers={"range": header} if header else {})
            assert (answer.status_code, answer.content) == (status, content), header
            assert answer.headers["etag"] == f'"{made["version"]}"'
        past = client.get(f"{files}/a b/ü", headers={"range": "bytes=10-"})
        assert past.status_code == 416
        old = client.put(f"{files}/a b/ü?whole=true", content=b"", headers={"if-match": '"x"'})
        assert old.status_code == 412
        new = client.put(f"{files}/a b/ü?whole=true", content=b"", headers={"if-none-match": "*"})
        assert new.status_code == 412
    assert hub.json("DELETE", f"{files}/a b/ü")["deleted"] == 1
    assert hub.json("DELETE", f"{files}/a b/ü")["deleted"] == 0


def test_bodies_are_bounded(hub: HubProcess, files: str) -> None:
    large = bytes((16 << 20) + 1)
    assert hub.ask("PUT", f"{files}/a?offset=0", content=large).status_code == 413
    assert hub.ask("PUT", f"{files}/a?offset=0", content=iter([large])).status_code == 413
    assert hub.ask("PUT", f"{files}/a", content=b"x").status_code == 422
    assert hub.json("PUT", f"{files}/a?whole=true", content=large)["size"] == len(large)
    assert hub.ask("GET", f"{files}/a").content == large


def test_an_upload_that_is_cut_leaves_nothing(hub: HubProcess, files: str) -> None:
    where = urlsplit(hub.url)
    for rest in ("a?offset=0", "b?whole=true"):
        with socket.create_connection((where.hostname or "", where.port or 0)) as client:
            head = (
                f"PUT {files}/{rest} HTTP/1.1\r\nhost: {where.netloc}\r\n"
                f"authorization: Bearer {hub.token}\r\ncontent-length: 1000000\r\n\r\n"
            )
            client.sendall(head.encode() + bytes(500_000))
    hub.json("PUT", f"{files}/c?offset=0", content=b"x")
    assert [entry["path"] for entry in hub.json("GET", files)["files"]] == ["c"]


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    with HubProcess(tmp_path / "home") as hub:
        runs = [hub.json("POST", "/api/v1/runs", json={})["run"]["id"] for _ in range(4)]
        acknowledged: dict[int, bytes] = dict.fromkeys(runs, b"")

        def work(run: int) -> None:
            with hub.client() as client:
                while len(acknowledged[run]) < 200 << 20:
                    piece = os.urandom(50_000)
                    done = acknowledged[run]
                    path = f"/api/v1/runs/{run}/files/log?offset={len(done)}"
                    try:
                        answer = client.put(path, content=piece)
                    except httpx2.TransportError:
                        return
                    assert answer.is_success, answer.text
                    acknowledged[run] = done + piece

        with ThreadPoolExecutor(4) as threads:
            working = [threads.submit(work, run) for run in runs]
            while sum(map(len, acknowledged.values())) < 5 << 20:
                pass
            hub.kill()
            for each in working:
                each.result()
        hub.restart()
        for run, expected in acknowledged.items():
            found = hub.ask("GET", f"/api/v1/runs/{run}/files/log").content
            assert found.startswith(expected)


def test_a_run_elsewhere_can_be_read_and_not_written(hub: HubProcess, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "notes").write_bytes(b"here")
    new = {"location": str(tmp_path)}
    run = hub.json("POST", "/api/v1/runs", json=new)["run"]["id"]
    files = f"/api/v1/runs/{run}/files"
    assert [entry["path"] for entry in hub.json("GET", files)["files"]] == ["sub/notes"]
    assert hub.ask("GET", f"{files}/sub/notes").content == b"here"
    for method, rest in (("PUT", "a?offset=0"), ("DELETE", "sub/notes")):
        answer = hub.ask(method, f"{files}/{rest}")
        assert answer.status_code == 409
        assert str(tmp_path) in answer.json()["error"]["message"]


def test_what_is_replaced_while_it_is_read_is_not_mixed(hub: HubProcess, files: str) -> None:
    size = 32 << 20  # more than the buffers between here and there
    hub.json("PUT", f"{files}/big?whole=true", content=b"a" * size)
    with hub.client() as client, client.stream("GET", f"{files}/big") as answer:
        pieces = answer.iter_raw()
        read = [next(pieces)]
        hub.json("PUT", f"{files}/big?whole=true", content=b"b" * size)
        read += pieces
    data = b"".join(read)
    assert len(data) == size
    assert data.count(b"a") == size


@pytest.mark.root
def test_a_full_disk_is_said_and_what_was_there_stays(tmp_path: Path) -> None:
    disk = tmp_path / "home" / "files"
    disk.mkdir(parents=True)
    assert os.system(f"mount -t tmpfs -o size=256k tmpfs {disk}") == 0
    try:
        with HubProcess(tmp_path / "home") as hub:
            run = hub.json("POST", "/api/v1/runs", json={})["run"]["id"]
            files = f"/api/v1/runs/{run}/files"
            hub.json("PUT", f"{files}/a?offset=0", content=b"x" * 1000)
            for query in ("a?offset=1000", "b?whole=true"):
                answer = hub.ask("PUT", f"{files}/{query}", content=b"y" * 500_000)
                assert answer.status_code == 507, answer.text
            assert hub.ask("GET", f"{files}/a").content == b"x" * 1000
            hub.json("PUT", f"{files}/a?offset=1000", content=b"z")
            assert [each["path"] for each in hub.json("GET", files)["files"]] == ["a"]
    finally:
        os.system(f"umount {disk}")


def test_more_than_fits_has_to_come_again(hub: HubProcess, files: str) -> None:
    """Bodies that are announced and do not come take up the room there is."""
    where = urlsplit(hub.url)
    head = (
        f"PUT {files}/slow%d?offset=0 HTTP/1.1\r\nhost: {where.netloc}\r\n"
        f"authorization: Bearer {hub.token}\r\ncontent-length: {16 << 20}\r\n\r\n"
    )
    with ExitStack() as stack:
        for number in range(16):
            client = socket.create_connection((where.hostname or "", where.port or 0))
            stack.enter_context(client).sendall((head % number).encode())

        def is_refused() -> httpx2.Response | None:
            answer = hub.ask("PUT", f"{files}/small?whole=true", content=b"x")
            return answer if answer.status_code == 503 else None

        refused = eventually(is_refused)
        assert int(refused.headers["retry-after"]) > 0
        assert "come again" in refused.text
    eventually(lambda: hub.ask("PUT", f"{files}/small?whole=true", content=b"x").is_success)
