"""``tbhub view`` as a person runs it: a process of its own, its output, and what it serves."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.live import PATIENCE, append, eventually, scalar
from support.view import COMMAND, Page, View
from tbhub import SummaryWriter
from tbhub.boards import sockets
from tbhub.cli.named_paths import name_and_path, tell_apart
from tbhub.cli.view import _port, _samples_of, _size


def log(run: Path, points: int = 1) -> None:
    with SummaryWriter(run) as writer:
        for step in range(points):
            writer.add_scalar("loss", step, step)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two directories with runs."""
    directory = tmp_path_factory.mktemp("logs")
    log(directory / "x" / "a", 3000)
    log(directory / "y" / "runs" / "b")
    return directory


def failed(*arguments: object) -> str:
    """The one line that says why a command was not carried out."""
    done = subprocess.run(
        [*COMMAND, "--no-browser", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def view(logs: Path) -> Iterator[View]:
    """One that most is asked of."""
    with View("--json", "--path_prefix", "/some/where/", "--samples", "500", logs / "x") as view:
        assert view.wait_until_loaded()["loaded"] == 1
        yield view


# -------------------------------------------------------------------------------- what it says


def test_what_it_prints(logs: Path) -> None:
    with View(logs / "x") as view:
        pattern = r"TensorBoard is running at: http://localhost:\d+/  \(Ctrl-C ends it\)\n"
        assert re.fullmatch(pattern, view.first_line)
        assert re.fullmatch(r"1 run read in \d+\.\d s\n", view.told())
        assert view.json("data/runs") == ["a"]
        assert view.end() == (0, "", "")


def test_lines_of_json(logs: Path) -> None:
    with View("--json", logs / "x", logs / "y") as view:
        assert json.loads(view.first_line) == {"url": view.url}
        loaded = view.wait_until_loaded()
        assert loaded.keys() == {"loaded", "seconds"}
        assert loaded["loaded"] == 2
        assert set(view.json("data/runs")) == {"x/a", "y/runs/b"}
        assert view.end() == (0, "", "")


def test_what_does_not_exist_yet_appears_later(tmp_path: Path) -> None:
    with View(tmp_path / "later" / "logs") as view:
        logs = tmp_path / "later" / "logs"
        assert view.told() == f"tbhub: {logs} does not exist yet; waiting for it\n"
        assert view.told() == "no runs yet; they are shown as soon as there are any\n"
        assert view.json("data/runs") == []
        page = Page(view.url)
        assert page.message()["runs"] == 0
        log(logs / "run")
        while page.message()["runs"] != 1:
            pass
        page.close()
        assert view.json("data/runs") == ["run"]


def test_new_points_appear(tmp_path: Path) -> None:
    log(tmp_path / "run")
    (file,) = (tmp_path / "run").iterdir()
    with View("--json", tmp_path) as view:
        view.wait_until_loaded()
        append(file, scalar("loss", 5, 2.5, 100.0))
        query = "tbhub/scalars?run=run&tag=loss"
        eventually(lambda: view.json(query)[-1] == [100, 5, 2.5])


def test_notices_are_told(tmp_path: Path) -> None:
    log(tmp_path / "run")
    with View("--name-template", "{run} {lr}", tmp_path) as view:
        assert view.told().startswith("1 run read in ")
        notice = "tbhub: fields without a value are named NA: {lr} in every run"
        assert view.told().startswith(notice)
        assert view.json("data/runs") == ["run NA"]


def test_groups(tmp_path: Path) -> None:
    for seed in range(2):
        with SummaryWriter(tmp_path / str(seed)) as writer:
            writer.add_hparams({"lr": 1, "seed": seed}, {}, run_name=".")
            writer.add_scalar("loss", seed, 1)
    with View("--json", "--group-by", "all except seed", "--hide-grouped", tmp_path) as view:
        view.wait_until_loaded()
        runs = view.json("data/runs")
        assert runs == [f"lr=1/{line}" for line in ("mean", "+std", "-std", "min", "max")]


# ------------------------------------------------------------------------------ what it serves


def test_everything_is_below_the_prefix(view: View) -> None:
    assert view.url.endswith("/some/where/")
    assert view.json("data/runs") == ["a"]
    status, headers, page = view.get()
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    script = re.search(rb'src="(static/[^"]*index.js)"', page)
    assert script is not None
    status, headers, _ = view.get(script[1].decode())
    assert (status, headers["Content-Type"]) == (200, "text/javascript; charset=utf-8")
    assert "immutable" in headers["Cache-Control"]


@pytest.mark.parametrize("path", ["/", "/data/runs", "/some/", "/some/wherever/", "/index.js"])
def test_nothing_is_outside_the_prefix(view: View, path: str) -> None:
    status, _, body = view.get(path)
    assert (status, body) == (404, b"not below /some/where/")


def test_the_prefix_without_its_slash_leads_there(view: View) -> None:
    status, headers, _ = view.get("/some/where")
    assert (status, headers["Location"]) == (301, "/some/where/")


@pytest.mark.parametrize("path", ["//evil.example/..", "/%2f%2fevil.example", "/\\evil.example"])
def test_nobody_is_led_elsewhere(view: View, path: str) -> None:
    status, headers, _ = view.get(path)
    assert status == 404
    assert "Location" not in headers


def test_as_many_points_as_were_wanted(view: View) -> None:
    points = view.json("data/plugin/scalars/scalars?run=a&tag=loss")
    assert 450 < len(points) <= 500
    assert len(view.json("tbhub/scalars?run=a&tag=loss&points=10000")) == 3000


def test_a_page_that_has_not_changed_is_not_sent_again(view: View) -> None:
    status, headers, _ = view.get("index.js", "HEAD")
    assert status == 200
    assert int(headers["Content-Length"]) > 100_000


def test_requests_that_are_none(view: View) -> None:
    host, port = re.findall(r"http://(.*):(\d+)", view.url)[0]
    for raw in (
        b"\x00\x01\x02\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /some/where/%ff%00%0d%0a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"GET /some/where/data/runs HTTP/1.1\r\nConnection: close\r\n\r\n",
        b"POST /some/where/data/runs HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
    ):
        with socket.create_connection((host, int(port)), PATIENCE) as connection:
            connection.sendall(raw)
            connection.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := connection.recv(65536):
                answer += piece
        assert not answer.startswith(b"HTTP/1.1 5"), raw
    assert view.json("data/runs") == ["a"]  # and it goes on


def test_chunked_bodies(view: View) -> None:
    host, port = re.findall(r"http://(.*):(\d+)", view.url)[0]
    body = b'requests=[{"plugin":"scalars","tag":"loss","run":"a"}]'
    pieces = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in (body[:7], body[7:])) + b"0\r\n\r\n"
    head = (
        b"POST /some/where/data/plugin/timeseries/timeSeries HTTP/1.1\r\nHost: x\r\n"
        b"Content-Type: application/x-www-form-urlencoded\r\n"
        b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection((host, int(port)), PATIENCE) as connection:
        connection.sendall(head + pieces)
        answer = b""
        while piece := connection.recv(1 << 16):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b'"runToSeries":{"a":[{' in answer


# --------------------------------------------------------------------------- paths and names


def test_paths_with_names(logs: Path) -> None:
    spec = f"three:{logs}/x,four:{logs}/y/runs"
    with View("--json", f"one:{logs}/x", "--logdir", logs / "y", "--logdir_spec", spec) as view:
        view.wait_until_loaded()
        assert set(view.json("data/runs")) == {"one/a", "y/runs/b", "three/a", "four/b"}


def test_a_directory_below_two_places_is_shown_once(tmp_path: Path) -> None:
    for name in ("0", "1"):
        with SummaryWriter(tmp_path / "mix" / name) as writer:
            writer.add_scalar("loss", 1.0, 1)
    with View(tmp_path / "mix", tmp_path / "mix" / "0") as view:
        assert sorted(view.json("data/runs")) == ["mix/0", "mix/1"]
    with View(tmp_path / "mix", f"mine:{tmp_path}/mix/0") as view:
        assert sorted(view.json("data/runs")) == ["mine", "mix/0", "mix/1"]


def test_what_tensorboards_users_type(logs: Path) -> None:
    options = [
        *("--samples_per_plugin", "images=5,scalars=7", "--reload_interval", "5"),
        *("--load_fast", "false", "--reload_multifile", "true", "--window_title", "<mine>"),
        *("--port", "0", "--host", "127.0.0.1"),
    ]
    with View("--logdir", "x", *options, cwd=logs, port="") as view:
        assert re.match(r"http://127.0.0.1:\d+/$", view.url)
        eventually(lambda: view.json("data/runs") == ["a"])
        assert len(view.json("data/plugin/scalars/scalars?run=a&tag=loss")) <= 7
        assert b"<title>&lt;mine&gt;</title>" in view.get()[2]


def test_without_a_port_the_next_free_one_is_taken(logs: Path) -> None:
    # Whether or not another test has the default one just now.
    with View("--json", logs / "x", port="") as one, View("--json", logs / "x", port="") as two:
        ports = [int(re.findall(r":(\d+)/", view.url)[0]) for view in (one, two)]
        assert ports[0] != ports[1]
        assert all(6006 <= port < 6106 for port in ports)


def test_on_all_addresses(logs: Path) -> None:
    with View("--json", "--bind_all", logs / "x") as view:
        view.wait_until_loaded()
        host, port = re.findall(r"http://(.*):(\d+)/", view.url)[0]
        assert host == socket.gethostname()
        for address in ("127.0.0.1", socket.gethostbyname(host)):
            socket.create_connection((address, int(port)), PATIENCE).close()


@pytest.mark.parametrize(
    ("text", "name", "path"),
    [
        ("runs", None, "runs"),
        ("a:runs", "a", "runs"),
        ("a:/x:y", "a", "/x:y"),
        ("/x:y", None, "/x:y"),
        (":runs", None, ":runs"),
        ("a:", None, "a:"),
    ],
)
def test_names_before_paths(text: str, name: str | None, path: str) -> None:
    assert name_and_path(text) == (name, path)


def test_a_path_with_a_colon_that_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a:b").mkdir()
    monkeypatch.chdir(tmp_path)
    assert name_and_path("a:b") == (None, "a:b")


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["/x/a", "/x/b"], ["a", "b"]),
        (["/x/a", "/y/a"], ["x/a", "y/a"]),
        (["/x/a/runs", "/x/b/runs", "/z"], ["a/runs", "b/runs", "z"]),
        (["/a", "/x/a"], ["a", "x/a"]),
        (["/x/a/"], ["a"]),
    ],
)
def test_paths_are_told_apart_by_as_little_as_possible(paths: list[str], names: list[str]) -> None:
    assert tell_apart(paths) == names


# ---------------------------------------------------------------------------- what is refused


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert failed(tmp_path, "--port", port) == (
            f"tbhub: port {port} of localhost is in use; "
            "leave --port out to take the next free one\n"
        )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "give a directory of runs: tbhub view runs/"),
        ([""], "give a directory of runs: tbhub view runs/"),
        (["./x", "--bind_all", "--host", "y"], "--host and --bind_all exclude one another"),
        (["./x", "--port", "many"], "--port many: a port is a number from 0 to 65535"),
        (["./x", "--memory", "lots"], "--memory lots: write for example 512M or 4G"),
        (["./x", "--name-template", "{run"], "template '{run', column 1: a { is not closed"),
        (["./x", "--group-by", "lr,"], "--group-by 'lr,' lacks a name"),
        *(
            (
                ["run7", *options],
                f"{options[0]} is for paths, and runs of a hub were named: the hub serves their"
                f" board. hint: leave {options[0]} out\n",
            )
            for options in (
                ["--host", "127.0.0.1"],
                ["--bind_all"],
                ["--path_prefix", "/x"],
                ["--port", "23127"],
                ["--memory", "1GB"],
                ["--no-cache"],
                ["--logdir_spec", "a:b"],
            )
        ),
        (["./x", "--host", "192.0.2.1"], "cannot listen on 192.0.2.1 port "),
    ],
)
def test_what_is_wrong_is_told_in_one_line(arguments: list[str], told: str) -> None:
    err = failed(*arguments)
    assert err.startswith(f"tbhub: {told}")
    assert err.count("\n") == 1


def test_too_few_samples() -> None:
    assert "--samples" in failed("./x", "--samples", "1")


@pytest.mark.parametrize("text", ["-1", "65536", "1.5", "", "x"])
def test_ports_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="a port is a number"):
        _port(text)


def test_ports() -> None:
    assert [_port(text) for text in ("0", "7000", "default", None)] == [0, 7000, None, None]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("100", 100),
        ("1K", 1024),
        ("1.5M", 3 << 19),
        ("4G", 4 << 30),
        ("2GiB", 2 << 30),
        ("1tb", 1 << 40),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert _size(text) == size


@pytest.mark.parametrize("text", ["x", "-1G", "infG", "nanG", "G", "1e400M", "1X"])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="write for example 512M or 4G"):
        _size(text)


def test_samples_as_tensorboard_has_them() -> None:
    texts = ("scalars=500,images=10", "images=10", "scalars=0", "scalars=x", "", None)
    assert [_samples_of(text) for text in texts] == [500, None, None, None, None, None]


def test_a_machine_without_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    bind = sockets._bind_one

    def without(host: str, port: int) -> socket.socket:
        if ":" in host:
            raise OSError(97, "Address family not supported by protocol")
        return bind(host, port)

    monkeypatch.setattr(sockets, "_bind_one", without)
    with sockets.listen(sockets.ALL, 0) as server:
        assert server.getsockname()[0] == "0.0.0.0"


def test_help_names_what_matters() -> None:
    done = subprocess.run([*COMMAND, "--help"], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0
    for option in (
        *("--logdir", "--logdir_spec", "--name-template", "--group-by", "--hide-grouped"),
        *("--samples", "--port", "--host", "--bind_all", "--path_prefix", "--title"),
        *("--no-browser", "--memory", "--no-cache", "--json"),
    ):
        assert option in done.stdout, option
    assert "--reload_interval" not in done.stdout
