"""The hub as a process: where it listens, when it refuses, how it ends."""

from __future__ import annotations

import json
import signal
import socket
import stat
import subprocess
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from support.hub import COMMAND, PATIENCE, HubProcess, clean_environment, eventually
from tbhub import SummaryWriter


def fails(home: Path, **settings: object) -> str:
    """What a hub says that does not start."""
    given = {f"TBHUB_{name.upper()}": str(value) for name, value in settings.items()}
    result = subprocess.run(
        COMMAND,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=clean_environment(TBHUB_HOME=str(home), **given),
    )
    assert result.returncode == 1, result
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    return result.stderr


def certificate(where: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    cert_path, key_path = where / "cert.pem", where / "key.pem"
    cert_path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return cert_path, key_path


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        text = fails(tmp_path / "home", port=port)
    assert f"port {port}" in text
    assert "in use" in text
    assert "--port" in text


def test_a_second_hub_on_the_same_home(tmp_path: Path) -> None:
    with HubProcess(tmp_path / "home") as hub:
        text = fails(tmp_path / "home", port=0)
        assert str(hub.pid) in text
        assert hub.url in text
        assert hub.token not in text
        assert hub.ask("GET", "/healthz", "").json() == {"status": "ok"}
        head = hub.ask("HEAD", "/healthz", "")  # as those ask who watch
        assert (head.status_code, head.content) == (200, b"")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.7.7"])
def test_without_authentication_nobody_else_may_connect(tmp_path: Path, host: str) -> None:
    text = fails(tmp_path / "home", port=0, host=host, auth="none")
    assert "auth token or users" in text
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"port": 70000}, "port"),
        ({"auth": "magic"}, "auth"),
        ({"tls_cert": "/nowhere"}, "tls_key"),
        ({"tls_cert": "/nowhere", "tls_key": "/nowhere"}, "/nowhere"),
        ({"database": "mysql://x"}, "postgresql://"),
        ({"database": "sqlite:////nowhere/hub.db"}, "cannot be opened"),
        ({"host": "203.0.113.7"}, "cannot listen"),
        ({"base_path": "/a b"}, "base_path"),
        ({"trusted_proxies": "everybody"}, "trusted_proxies"),
        ({"launcher": "slrum"}, "there is no launcher 'slrum'"),
        ({"launcher_options": "{"}, "launcher_options: it is to be JSON"),
        ({"launcher_options": "[]"}, "launcher_options: it is to be an object"),
        ({"launcher_options": '{"x": 1}'}, "launcher local has no option 'x'; it has none"),
        ({"hosts_url": "here"}, "hosts_url"),
        ({"min_hosts": 3, "max_hosts": 2}, "min_hosts is 3, more than max_hosts 2"),
        ({"config": "/nowhere.toml"}, "cannot read /nowhere.toml"),
    ],
)
def test_settings_that_cannot_be(tmp_path: Path, settings: dict[str, object], said: str) -> None:
    assert said in fails(tmp_path / "home", **{"port": 0, **settings})


def test_a_file_with_settings(tmp_path: Path) -> None:
    config = tmp_path / "hub.toml"
    config.write_text(
        'launcher = "local"\nport = 1\nidle_timeout = 7\nmax_runtime = 9\n[launcher_options]\n'
    )
    with HubProcess(tmp_path / "home", config=config, max_runtime=30) as hub:  # and port 0
        made = hub.json("POST", "/api/v1/boards", json={"runs": "all", "follow": True})
        assert made["idle_timeout"] == 7.0
        assert made["max_runtime"] == 30.0
    for content, said in (
        ("port =", "is to be TOML"),
        ("prot = 1", "sets prot, which a hub does not have"),
        ("[launcher_options]\nx = 1", "launcher local has no option 'x'"),
    ):
        config.write_text(content)
        assert said in fails(tmp_path / "home", port=0, config=config)


def test_tls(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    logdir = tmp_path / "runs"
    with SummaryWriter(logdir / "a") as writer:
        writer.add_scalar("x", 1.0, 1)
    with HubProcess(tmp_path / "home", tls_cert=cert, tls_key=key, logdirs=logdir) as hub:
        assert hub.url.startswith("https://127.0.0.1:")
        hub.wait_for_runs(1)
        board = hub.create_board(runs="all")  # its host registers with us over TLS
        with hub.client("") as client:
            answer = client.get(f"/?token={hub.token}")
            assert "; Secure" in answer.headers["set-cookie"]
            page = client.get(f"/boards/{board['id'][:8]}/")
            assert page.status_code == 200
    wrong = fails(tmp_path / "other", port=0, tls_cert=key, tls_key=cert)
    assert str(key) in wrong


def test_an_orderly_end_ends_streams_and_hosts(tmp_path: Path) -> None:
    logdir = tmp_path / "runs"
    with SummaryWriter(logdir / "a") as writer:
        writer.add_scalar("x", 1.0, 1)
    with HubProcess(tmp_path / "home", logdirs=logdir) as hub:
        hub.wait_for_runs(1)
        board = hub.create_board(runs="all")
        ended: dict[str, str] = {}
        begun = threading.Semaphore(0)

        def listen(path: str) -> None:
            with hub.client() as client, client.stream("GET", path) as stream:
                begun.release()
                ended[path] = "".join(stream.iter_text())

        root = f"/boards/{board['id'][:8]}/"
        logs = f"/api/v1/boards/{board['id']}/logs?follow=true"
        paths = ["/api/v1/events", f"{root}tbhub/events", logs]
        threads = [threading.Thread(target=listen, args=(path,)) for path in paths]
        for each in threads:
            each.start()
        for _ in threads:
            begun.acquire(timeout=PATIENCE)
        assert hub.stop(signal.SIGINT) == 0
        for each in threads:
            each.join(PATIENCE)
        assert set(ended) == set(paths)
        assert "hello" in ended["/api/v1/events"]
        assert "is running" in ended[logs]
        assert list((tmp_path / "home" / "hosts").glob("*.exit"))
        hub.restart()
        # What was up is up again.
        assert hub.wait_for(board["id"], "RUNNING")["id"] == board["id"]


def test_hosts_outlive_a_hub_that_is_told_to_keep_them(tmp_path: Path) -> None:
    logdir = tmp_path / "runs"
    with SummaryWriter(logdir / "a") as writer:
        writer.add_scalar("x", 1.0, 1)
    with HubProcess(tmp_path / "home", logdirs=logdir, keep_hosts=True) as hub:
        hub.wait_for_runs(1)
        board = hub.create_board(runs="all")
        (host,) = hub.json("GET", "/api/v1/status")["hosts"]
        assert hub.stop() == 0
        hub.restart()
        (again,) = hub.json("GET", "/api/v1/status")["hosts"]
        assert again["address"] == host["address"]
        assert hub.wait_for(board["id"], "RUNNING")["started"] == board["started"]
        page = hub.ask("GET", f"/boards/{board['id'][:8]}/data/runs")
        assert page.json() == ["a"]


def test_the_token_is_the_same_after_a_restart(tmp_path: Path) -> None:
    with HubProcess(tmp_path / "home") as hub:
        token = hub.token
        hub.kill()
        hub.restart()
        assert hub.token == token
        assert hub.json("GET", "/api/v1/me")["user"]["role"] == "admin"
        mode = stat.S_IMODE((tmp_path / "home" / "hub.db").stat().st_mode)
        assert (tmp_path / "home").stat().st_mode & 0o077 == 0, mode


def test_the_indexer_is_replaced_when_it_dies(tmp_path: Path) -> None:
    logdir = tmp_path / "runs"
    logdir.mkdir()
    with HubProcess(tmp_path / "home", logdirs=logdir) as hub:

        def indexer() -> int | None:
            children = Path(f"/proc/{hub.pid}/task/{hub.pid}/children").read_text().split()
            for each in children:
                if b"indexer_process" in Path(f"/proc/{each}/cmdline").read_bytes():
                    return int(each)
            return None

        first = eventually(indexer)
        subprocess.run(["kill", "-9", str(first)], check=True)
        eventually(lambda: indexer() not in (None, first))
        with SummaryWriter(logdir / "late") as writer:
            writer.add_scalar("x", 1.0, 1)
        (run,) = hub.wait_for_runs(1)
        assert run["path"] == "late"
    assert "the indexer ended with code -9" in hub.log


def test_addresses_are_those_that_were_asked(tmp_path: Path) -> None:
    """A hub that listens everywhere does not know by which name others reach it."""
    with HubProcess(tmp_path / "home", host="0.0.0.0") as hub:
        board = hub.create_board(uris=[str(tmp_path)])
        short, path = board["id"][:8], f"/api/v1/boards/{board['id']}"
        assert board["url"] == f"{hub.url}/boards/{short}/"
        with hub.client() as client:
            for host, seen in (
                ("gpu7.example:6060", "http://gpu7.example:6060"),
                ("[fe80::1]:80", "http://[fe80::1]"),
                ('x" onload="', hub.url),
                ("user@elsewhere", hub.url),
            ):
                there = {"host": host}
                assert client.get(path, headers=there).json()["url"] == f"{seen}/boards/{short}/"
                listed = client.get("/api/v1/boards", headers=there).json()["boards"]
                assert [each["url"] for each in listed] == [f"{seen}/boards/{short}/"]
                link = client.post(f"{path}/shares", json={}, headers=there).json()["url"]
                assert link.startswith(f"{seen}/boards/{short}/?share=")


def test_below_a_path(tmp_path: Path) -> None:
    logdir = tmp_path / "runs"
    with SummaryWriter(logdir / "a") as writer:
        writer.add_scalar("x", 1.0, 1)
    with HubProcess(tmp_path / "home", base_path="/team/tb/", logdirs=logdir) as hub:
        assert hub.url.endswith("/team/tb")
        hub.wait_for_runs(1)
        board = hub.create_board(runs="all")
        assert board["url"] == f"{hub.url}/boards/{board['id'][:8]}/"
        with hub.client("", headers={"accept": "text/html"}) as client:
            origin = hub.url.removesuffix("/team/tb")
            assert client.get(f"{origin}/").status_code == 404
            assert client.get(f"{origin}/team/tb").headers["location"] == "/team/tb/"
            login = client.get(board["url"])
            assert login.headers["location"].startswith("/team/tb/login?next=%2Fteam%2Ftb%2Fboards")
            opened = client.get(f"{board['url']}?token={hub.token}")
            assert "Path=/team/tb/;" in opened.headers["set-cookie"]
            page = client.get(origin + opened.headers["location"])
            assert page.status_code == 200
            start = page.text.index('src="../../static/') + len('src="../../')
            script = page.text[start : page.text.index('"', start)]
            assert client.get(f"/{script}").status_code == 200
            assert '<base href="/team/tb/">' in client.get("/").text


def test_behind_a_proxy_that_is_trusted(tmp_path: Path) -> None:
    forwarded = {"x-forwarded-proto": "https", "x-forwarded-host": "hub.example"}
    with HubProcess(
        tmp_path / "home", trusted_proxies="127.0.0.1", public_url="https://hub.example"
    ) as hub:
        with hub.client("") as client:
            client.base_url = _local(hub)
            answer = client.get(f"/?token={hub.token}", headers=forwarded)
            assert "; Secure" in answer.headers["set-cookie"]
        assert hub.url == "https://hub.example"


def _local(hub: HubProcess) -> str:
    """Where a hub with a public address is on this machine."""
    inodes = Path(f"/proc/{hub.pid}/net/tcp").read_text().splitlines()[1:]
    descriptors = Path(f"/proc/{hub.pid}/fd").iterdir()
    own = {str(each.readlink())[8:-1] for each in descriptors if each.is_symlink()}
    for line in inodes:
        fields = line.split()
        if fields[3] == "0A" and fields[9] in own:
            return f"http://127.0.0.1:{int(fields[1].split(':')[1], 16)}"
    raise AssertionError("it does not listen")


def test_json_logs_are_json(tmp_path: Path) -> None:
    with HubProcess(tmp_path / "home", log_format="json", log_level="debug") as hub:
        hub.ask("GET", f"/?token={hub.token}", "")
        hub.ask("GET", "/api/v1/me?token=tbh_abcdefghijklmnop")
    lines: list[dict[str, Any]] = [json.loads(line) for line in hub.log.splitlines()]
    asked = [line for line in lines if line.get("path") == "/api/v1/me"]
    assert asked[0]["status"] == 200
    assert asked[0]["user"]
    assert hub.token not in hub.log
    assert "tbh_abc" not in hub.log


def test_a_client_that_never_reads_does_not_keep_the_hub_from_ending(tmp_path: Path) -> None:
    with HubProcess(tmp_path / "home") as hub:
        host, port = hub.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as client:
            request = f"GET /api/v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {hub.token}"
            client.sendall(request.encode() + b"\r\n\r\n")
            began = time.monotonic()
            assert hub.stop() == 0
            assert time.monotonic() - began < PATIENCE
