"""A hub and its commands as people use them: real processes, from ``tbhub up`` to ``delete``.

The numbers of scenarios are those of the list of what users of other systems would try.
"""

from __future__ import annotations

import contextlib
import csv
import http.client
import io
import json
import os
import pty
import re
import select
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from support.commands import PATIENCE
from support.hub import HubProcess, eventually
from support.up import COMMAND, Up
from tbhub import SummaryWriter
from tbhub.api.models import NewBoard


def log(run: Path, **hparams: float) -> None:
    with SummaryWriter(run) as writer:
        for step in range(3):
            writer.add_scalar("loss", hparams.get("lr", 1.0) * step, step)
        if hparams:
            writer.add_hparams(hparams, {"hparam/loss": 0.5}, run_name=".")


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A hub over three experiments: a with three runs, b with two, c with one."""
    directory = tmp_path_factory.mktemp("up")
    for number, name in enumerate(("a/1", "a/2", "a/3", "b/1", "b/2", "c/1")):
        log(directory / "runs" / name, lr=10.0**-number)
    with Up(directory, "--logdir", directory / "runs") as up:
        up.wait_for_runs(6)
        yield up


@pytest.fixture(scope="module")
def experiments(up: Up) -> dict[str, int]:
    """The numbers of the experiments, by name."""
    return {each["name"]: each["id"] for each in up.json("experiments")}


@pytest.fixture
def trials(up: Up) -> dict[str, int]:
    """The numbers of the runs, by path."""
    return {each["path"]: each["id"] for each in up.json("runs")}


@pytest.fixture(autouse=True)
def no_boards(up: Up) -> Iterator[None]:
    """Each test begins and ends without boards."""
    yield
    if boards := up.done("list", "-q", "--all").split():
        up.done("delete", *boards, "--yes", "-f")


def start(up: Up, *arguments: object) -> str:
    """A board that is up; its id."""
    return up.done("start", *arguments, "-d", "--wait").strip()


def board(up: Up, which: str) -> dict[str, object]:
    found: dict[str, object] = next(
        each for each in up.json("list", "--all") if which in (each["id"], each["name"])
    )
    return found


def names_of_runs(up: Up, which: str) -> list[str]:
    """Return the runs of a board, as its page names them."""
    path = urlsplit(str(board(up, which)["url"])).path
    token = json.loads((up.directory / "home" / "connection.json").read_text())["token"]
    headers = {"Authorization": f"Bearer {token}"}
    found = httpx2.get(f"{up.url}{path}data/runs", headers=headers)
    assert found.status_code == 200, (path, found.text)
    return sorted(found.json())


def shown_runs(up: Up, which: str) -> int:
    number = board(up, which)["runs"]
    assert isinstance(number, int)
    return number


# --- up


def test_the_address_logs_a_browser_in(up: Up) -> None:
    parts = urlsplit(up.opened)
    connection = http.client.HTTPConnection(parts.netloc, timeout=PATIENCE)
    connection.request("GET", f"/?{parts.query}")
    response = connection.getresponse()
    assert response.status in (302, 303, 307)
    assert "HttpOnly" in (response.headers["set-cookie"] or "")
    assert "token" not in response.headers["location"]
    connection.close()


def test_nobody_else_can_read_the_home(up: Up) -> None:
    home = up.directory / "home"
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    for name in ("connection.json", "hub.db", "hub.db-wal"):
        assert stat.S_IMODE((home / name).stat().st_mode) == 0o600


def test_a_second_hub_is_refused(up: Up) -> None:
    said = up.failed(2, "up", "--no-browser", "--port", "0")
    assert str(up.process.pid) in said
    assert up.url in said


def test_users_with_passwords_are_not_locked_out_in_silence(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with HubProcess(home, auth="users") as hub:
        hub.create_user("ada", password="correct horse 1")
    words = ["up", "--home", str(home), "--port", "0", "--no-browser", "--logdir", str(tmp_path)]
    with subprocess.Popen([*COMMAND, *words], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = next(line for line in process.stderr if line.startswith("tbhub: "))
        process.terminate()
        process.communicate(timeout=60)
    assert "1 user cannot log in by password" in said
    assert "--auth users" in said


def test_a_port_that_is_taken(up: Up, tmp_path: Path) -> None:
    port = str(urlsplit(up.url).port)
    said = up.failed(2, "up", "--no-browser", "--port", port, "--home", str(tmp_path / "other"))
    assert port in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--host", "0.0.0.0", "--auth", "none"), "auth none"),
        (("--tls-cert", "c.pem"), "tls_key"),
        (("--public-url", "nowhere"), "http://"),
        (("--database", "mysql://x"), "postgresql://"),
    ],
)
def test_settings_that_cannot_be(
    up: Up, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    home = str(tmp_path / "other")
    said = up.failed(2, "up", "--no-browser", "--port", "0", "--home", home, *arguments)
    assert message in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_orderly_end_and_a_new_beginning(tmp_path: Path, how: signal.Signals) -> None:
    log(tmp_path / "runs" / "x" / "1")
    with Up(tmp_path, "--logdir", tmp_path / "runs") as up:
        up.wait_for_runs(1)
        ended = start(up, "all", "--name", "ended")
        up.done("kill", ended)
        assert up.end(how) == 0
        assert up.failed(5, "list").startswith("tbhub: no hub answers at")
        up.start()
        assert board(up, ended)["reason"] == "USER_KILLED"
        assert len(up.json("runs")) == 1


# --- start


def test_what_start_prints(up: Up, experiments: dict[str, int]) -> None:
    lines = up.done("start", experiments["a"], "--no-browser").splitlines()
    first = re.fullmatch(
        r"Scheduling TensorBoard \((\w+-\w+-\w+)\) \(id: ([0-9a-f-]{36})\)…", lines[0]
    )
    assert first, lines
    name, id_ = first.groups()
    assert f"TensorBoard ({name}) was placed on host local-1" in lines
    assert lines[-1] == f"TensorBoard is running at: {up.url}/boards/{id_[:8]}/"


def test_detached_it_prints_the_id_only(up: Up) -> None:
    assert re.fullmatch(r"[0-9a-f-]{36}\n", up.done("start", "all", "-d"))


def test_two_experiments_in_one_board(up: Up, experiments: dict[str, int]) -> None:
    """Scenario 1."""
    numbers = [experiments["a"], experiments["b"]]
    id_ = start(up, *numbers)
    found = board(up, id_)
    assert (found["experiments"], found["runs"], found["state"]) == (numbers, 5, "RUNNING")
    assert {"owner", "name", "reason", "exit_code", "trials", "url"} <= found.keys()
    table = up.done("list").splitlines()
    assert table[0].split("  ")[0] == "ID"
    for title in ("OWNER", "DESCRIPTION", "STATE", "EXPERIMENTS", "TRIALS", "CREATED", "IDLE"):
        assert title in table[0]
    assert table[0].endswith("EXIT STATUS")
    assert id_ in table[1]
    assert f"{numbers[0]}, {numbers[1]}" in table[1]
    assert up.done("kill", id_) == f"killed {found['name']} ({id_})\n"
    found = board(up, id_)
    assert (found["state"], found["reason"], found["exit_code"]) == ("TERMINATED", "USER_KILLED", 0)
    assert id_ not in up.done("list")
    assert "1 board not up" in up.run("list").stderr
    assert "USER_KILLED (0)" in up.done("list", "--all")
    up.done("kill", id_)


def test_runs_of_two_experiments(
    up: Up, experiments: dict[str, int], trials: dict[str, int]
) -> None:
    """Scenario 2."""
    one, other = trials["a/1"], trials["b/2"]
    found = board(up, start(up, "--trial-ids", one, other))
    assert (found["experiments"], found["trials"], found["runs"]) == ([], [one, other], 2)
    assert shown_runs(up, start(up, experiments["a"], "--trial-ids", one)) == 3
    assert shown_runs(up, start(up, experiments["a"], "--trial-ids", other)) == 4
    assert shown_runs(up, start(up, "--runs", "all", "where lr<.05")) == 4


def test_a_board_says_what_it_shows_whatever_that_is(up: Up) -> None:
    for what in ("./runs/a", "where lr<.5"):
        id_ = start(up, what)
        (line,) = [each for each in up.done("list").splitlines() if each.startswith(id_)]
        assert str(board(up, id_)["selector"]) in line
        assert board(up, id_)["selector"]


def test_a_board_is_listed_with_all_its_sources(up: Up, trials: dict[str, int]) -> None:
    one = trials["b/1"]
    id_ = start(up, "exp:a", "./elsewhere", "-t", one)
    up.done("add", id_, "exp:c")
    up.done("add", id_, "./more")
    sources = [
        f"exp:a, {up.directory}/elsewhere",
        f"trial:{one}",
        "exp:c",
        f"{up.directory}/more",
    ]
    assert board(up, id_)["sources"] == sources
    (row,) = csv.DictReader(io.StringIO(up.done("list", "--csv")))
    assert row["sources"] == " ".join(sources)
    # On a narrow terminal they are wrapped, not cut.
    table = terminal(up, "list", columns=80)
    text = "".join(line[table[0].index("SOURCES") :].split("  ")[0] for line in table)
    for word in ("exp:a", f"trial:{one}", "exp:c", "/more"):
        assert word in text.replace(" ", ""), table


def terminal(up: Up, *arguments: str, columns: int) -> list[str]:
    """The lines that a command prints on a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=theirs,
        cwd=up.directory,
        env={**up.environment, "COLUMNS": str(columns), "TERM": "dumb"},
    )
    os.close(theirs)
    read = b""
    with contextlib.suppress(OSError):  # as Linux says that nothing more will come
        while piece := os.read(ours, 65536):
            read += piece
    os.close(ours)
    assert process.wait(PATIENCE) == 0
    return read.decode().splitlines()


def test_ending_all_of_none_is_no_error(up: Up) -> None:
    id_ = start(up, "all")
    assert up.done("kill", *up.done("list", "-q").split()).startswith("killed ")
    assert up.done("list", "-q") == ""
    assert up.done("list", "-q", "--all").split() == [id_]
    for command in ("kill", "stop", "restart", "delete"):
        assert up.done(command, *up.done("list", "-q").split()) == f"Nothing to {command}.\n"
    assert "no boards are up" in up.run("list").stderr


def test_paths_are_those_of_the_current_directory(up: Up) -> None:
    log(up.directory / "my other, runs" / "x")
    assert shown_runs(up, start(up, "runs/a/")) == 3
    found = board(up, start(up, "./my other, runs"))
    assert found["uris"] == [str(up.directory / "my other, runs")]


def test_a_word_with_a_slash_is_a_path_if_there_is_such_a_directory(
    up: Up, trials: dict[str, int]
) -> None:
    assert {each["path"] for each in up.json("runs", "runs/a")} == {"a/1", "a/2", "a/3"}
    assert up.json("runs", "show", "runs/a/1")["id"] == trials["a/1"]
    id_ = start(up, "runs/a")
    assert shown_runs(up, id_) == 3
    assert up.done("add", id_, "runs/b").endswith(" shows 5 runs\n")
    assert "would delete 3 runs" in up.done("runs", "delete", "runs/a", "--dry-run")
    up.done("view", "runs/a", "exp:b")
    assert [each["runs"] for each in up.json("list")].count(5) == 2
    # The directory counts, although a run's path ends so.
    (up.directory / "a" / "1").mkdir(parents=True)
    try:
        said = up.failed(3, "runs", "a/1")
        assert said.startswith(f"tbhub: There is no run at or below {up.directory}/a/1")
    finally:
        (up.directory / "a" / "1").rmdir()
        (up.directory / "a").rmdir()
    assert [each["id"] for each in up.json("runs", "a/1")] == [trials["a/1"]]


def test_a_run_is_shown_by_its_directory_although_runs_lie_below_it(up: Up) -> None:
    for name in ("nest/outer", "nest/outer/inner"):
        log(up.directory / "runs" / name)
    try:
        eventually(lambda: up.run("runs", "./runs/nest", "-q").stdout.count("\n") == 2)
        assert up.json("runs", "show", "runs/nest/outer")["path"] == "nest/outer"
        assert "names 2 runs" in up.failed(3, "runs", "show", "runs/nest")
    finally:
        up.done("runs", "delete", "./runs/nest", "--files", "--yes")


def test_options_of_a_board(up: Up) -> None:
    id_ = start(
        up, "all", "--name", "mine", "--name-template", "{run}-{hparams.lr}", "--group-by", "lr",
        "--hide-grouped", "--samples", "50", "--requests-per-minute", "90", "--idle-timeout", "2h",
        "--max-runtime", "1d",
        "--follow",
    )  # fmt: skip
    config = json.loads(up.done("config", "mine"))
    assert config["options"] == {
        "template": "{run}-{hparams.lr}",
        "group_by": "lr",
        "hide_grouped": True,
        "samples": 50,
        "requests_per_minute": 90,
    }
    assert (config["idle_timeout"], config["max_runtime"], config["follow"]) == (7200, 86400, True)
    before = board(up, id_)["deadline"]
    assert up.done("extend", id_, "2h").startswith("TensorBoard (mine) ends at ")
    assert str(board(up, id_)["deadline"]) > str(before)


def test_the_same_board_again(up: Up) -> None:
    one = start(up, "all", "--key", "mine")
    assert start(up, "all", "--key", "mine") == one
    other = start(up, "all", "--reuse")
    up.done("stop", other)
    assert start(up, "all", "--reuse") in (one, other)


@pytest.mark.parametrize("options", [["--key", "again"], ["--reuse"]])
def test_lines_of_an_earlier_start_are_not_printed_again(up: Up, options: list[str]) -> None:
    given = ["start", "exp:b", *options, "--no-browser"]
    first = up.done(*given)
    assert "was placed on host" in first
    found = first.splitlines()[0].replace("Scheduling", "Found").removesuffix("…")
    assert up.done(*given).splitlines()[:2] == [found, first.splitlines()[-1]]
    up.done("stop", found.partition("(id: ")[2].removesuffix(")"))
    again = up.done(*given).splitlines()
    assert again[0] == first.splitlines()[0]
    assert any("was placed on host" in line for line in again)


def test_a_key_that_has_another_board_says_so(up: Up) -> None:
    first = up.run("start", "exp:a", "--key", "K", "-d")
    again = up.run("start", "exp:a", "--key", "K", "-d")
    assert (first.stderr, again.stderr) == ("", "")
    for words in (("exp:b",), ("exp:a", "--group-by", "lr")):
        other = up.run("start", *words, "--key", "K", "-d")
        assert other.stdout == first.stdout
        assert other.stderr.startswith("tbhub: the board of the key K was there already: it shows")
        assert "exp:a" in other.stderr
        assert other.stderr.count("\n") == 1


def test_numbers_of_runs_with_commas_and_before_a_selector(up: Up, trials: dict[str, int]) -> None:
    one, other = trials["a/1"], trials["b/2"]
    assert board(up, start(up, "-t", f"{one},{other}"))["trials"] == [one, other]
    found = board(up, start(up, "-t", one, other, "exp:c"))
    assert (found["trials"], found["runs"]) == ([one, other], 3)
    assert "tbhub start exp:vgg -t 3 4" in up.failed(2, "start", "-t", "exp:c")


def test_boards_are_sorted_and_chosen_by_state(up: Up) -> None:
    ids = {name: start(up, "all", "--name", name) for name in ("b", "a", "c")}
    up.done("kill", ids["b"])

    def listed(*options: str) -> list[str]:
        found = up.done("list", "-q", *options).split()
        names = [each["name"] for each in up.json("list", *options)]
        rows = csv.DictReader(io.StringIO(up.done("list", "--csv", *options)))
        assert [row["description"] for row in rows] == names
        assert [ids[name] for name in names] == found
        table = up.done("list", *options).splitlines()[1:]
        assert [line.split()[0] for line in table] == found
        return names

    assert listed("--sort-by", "description") == ["a", "c"]
    assert listed("--all", "--sort-by", "description") == ["a", "b", "c"]
    assert listed("--all", "--sort-by", "DESCRIPTION", "--order-by", "desc") == ["c", "b", "a"]
    assert listed("--all", "--sort-by", "created", "--limit", "2") == ["b", "a"]
    assert listed("--all", "--sort-by", "idle")[0] == "b"
    assert listed("--state", "running", "--sort-by", "created") == ["a", "c"]
    assert listed("--state", "TERMINATED", "--state", "failed") == ["b"]
    assert "exit_status" in up.failed(2, "list", "--sort-by", "colour")
    assert "RUNNING" in up.failed(2, "list", "--state", "asleep")


def follow_link(url: str) -> str:
    """The page that a login link opens, in a browser of its own."""
    address, _, code = url.partition("#")
    with httpx2.Client(verify=False, timeout=PATIENCE) as client:
        answer = client.post(address, data={"code": code})
        assert answer.status_code == 303, answer.text
        page = str(httpx2.URL(address).join(answer.headers["location"]))
        assert client.get(page).status_code == 200
    return page


def test_every_start_opens_its_own_board_logged_in(up: Up, tmp_path: Path) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/opened\n')
    browser.chmod(0o755)
    names = ("one", "two", "three")
    for name in names:
        up.done("start", "all", "--name", name, BROWSER=str(browser))
    up.done("open", "one", BROWSER=str(browser))

    def opened() -> list[str]:
        path = tmp_path / "opened"
        return path.read_text().splitlines() if path.exists() else []

    eventually(lambda: len(opened()) == 4)
    pages = [Path(urlsplit(each).path) for each in opened()]
    assert not any("tbh_" in each for each in opened())  # others see the arguments of processes
    assert {stat.S_IMODE(page.stat().st_mode) for page in pages} == {0o600}
    links = [re.findall(r'"(http[^"]*)"', page.read_text())[0] for page in pages]
    assert not any("token" in link for link in links)
    urls = {each["name"]: each["url"] for each in up.json("list")}
    assert [follow_link(link) for link in links] == [urls[name] for name in (*names, "one")]


def test_a_browser_that_is_a_snap_can_read_the_page_it_opens(up: Up, tmp_path: Path) -> None:
    tools, home = tmp_path / "tools", tmp_path / "home"
    (home / "snap/firefox/common").mkdir(parents=True)
    tools.mkdir()
    for name, line in (
        ("xdg-settings", "echo firefox_firefox.desktop"),
        ("xdg-open", f'echo "$@" >> {tmp_path}/opened'),
    ):
        (tools / name).write_text(f"#!/bin/sh\n{line}\n")
        (tools / name).chmod(0o755)
    environment = {"PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(home), "DISPLAY": ":9"}
    up.done("start", "all", "--name", "mine", BROWSER="", **environment)
    opened = tmp_path / "opened"
    eventually(lambda: opened.exists() and opened.read_text())
    page = Path(urlsplit(opened.read_text().strip()).path)
    assert page.parent == home / "snap/firefox/common"
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    (link,) = re.findall(r'"(http[^"]*)"', page.read_text())
    assert follow_link(link) == board(up, "mine")["url"]


def test_without_a_browser_a_link_is_printed_that_logs_in_once(up: Up) -> None:
    started = up.run("start", "all", "--name", "mine")
    assert started.returncode == 0
    for done in (started, up.run("open", "mine", "--no-browser")):
        (link,) = re.findall(r"works once\): (http\S+)", done.stderr)
        assert follow_link(link) == board(up, "mine")["url"]
        address, _, code = link.partition("#")
        assert httpx2.post(address, data={"code": code}, verify=False).status_code == 410
    assert "tbh_" not in up.run("start", "all", "-d").stderr


# --- as other systems have it


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (("{run1}",), [1]),
        (("tensorboard", "{run1}"), [1]),
        (("{run1},", "{run2}"), [1, 2]),
        (("{run1}", "--experiment", "b"), [1, 4, 5]),
        (("--experiment", "b", "--workspace", "default", "--template", "{run}_x"), [4, 5]),
    ],
)
def test_view_opens_runs_of_the_hub(
    up: Up, trials: dict[str, int], words: tuple[str, ...], numbers: list[int]
) -> None:
    """XT's ``view``: runs by name, with and without commas."""
    names = {run["id"]: run["name"] for run in up.json("runs")}
    paths = ["a/1", "a/2", "a/3", "b/1", "b/2", "c/1"]
    given = [
        word.replace("{run1}", names[trials["a/1"]]).replace("{run2}", names[trials["a/2"]])
        for word in words
    ]
    said = up.done("view", *given)
    (found,) = up.json("list")
    assert f"TensorBoard is running at: {found['url']}" in said
    assert found["runs"] == len(numbers), (found, [paths[number - 1] for number in numbers])
    # Again it is the same board.
    assert found["url"] in up.done("view", *given)
    assert len(up.json("list")) == 1


def test_view_does_not_wait_for_a_name_that_nothing_has(up: Up, tmp_path: Path) -> None:
    said = up.failed(3, "view", "run343434")
    assert "run343434" in said
    assert "hint: for a directory that is yet to come write ./run343434" in said
    nowhere = {"TBHUB_HOME": str(tmp_path)}
    said = up.failed(5, "view", "run343434", **nowhere)
    assert said.startswith("tbhub: run343434 is no directory here, and no hub is known")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("view", "run343434", "runs/a"),
            "no run run343434. hint: for a directory that is yet to come write ./run343434\n",
        ),
        (("view", "runs/a", "run343434"), "no run run343434; `tbhub runs` lists those there are\n"),
        (("view", "exp:none", "runs/a"), "no experiment exp:none; `tbhub experiments` lists"),
        (("start", "run343434", "runs/a"), "no run run343434; `tbhub runs` lists those there are"),
        (
            ("start", "run343434", "runs"),
            "no run run343434, no run runs; for the directory write ./runs\n",
        ),
        (
            ("view", "run343434", "runs"),
            "no run run343434, no run runs; for the directory write ./runs. hint: for a directory "
            "that is yet to come write ./run343434\n",
        ),
        (
            ("view", "runs", "run343434"),
            "no run runs, no run run343434; for the directory write ./runs\n",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_hints_at_directories_name_unknown_words_only(
    up: Up, words: tuple[str, ...], said: str
) -> None:
    assert up.failed(3, *words).startswith(f"tbhub: There is {said}")


def test_view_without_a_hub_names_a_word_that_is_no_directory(up: Up, tmp_path: Path) -> None:
    nowhere = {"TBHUB_HOME": str(tmp_path)}
    for words in (("runs/a", "run343434"), ("exp:none",), ("where lr<1",)):
        assert up.failed(5, "view", *words, **nowhere).startswith("tbhub: no hub is known")


def test_export_takes_runs_of_the_hub_by_their_names(up: Up, trials: dict[str, int]) -> None:
    names = {run["id"]: run["name"] for run in up.json("runs")}
    said = up.done("export", names[trials["a/2"]], "exp:c", "--tag", "^loss$")
    rows = list(csv.DictReader(io.StringIO(said)))
    assert {row["run"] for row in rows} == {names[trials["a/2"]], names[trials["c/1"]]}
    points = [
        (int(row["step"]), float(row["value"]))
        for row in rows
        if row["run"] == names[trials["a/2"]]
    ]
    assert points == [(0, 0.0), (1, pytest.approx(0.1)), (2, pytest.approx(0.2))]


def test_export_has_a_run_inside_another_once(tmp_path: Path) -> None:
    for name in ("outer", "outer/inner"):
        log(tmp_path / "runs" / name)
    with Up(tmp_path, "--logdir", tmp_path / "runs") as up:
        up.wait_for_runs(2)
        rows = list(csv.DictReader(io.StringIO(up.done("export", "all"))))
        assert sorted(row["run"] for row in rows) == ["inner"] * 3 + ["outer"] * 3
        assert "no run with event files matches" in up.failed(2, "export", "where lr<0")


def test_export_names_what_no_hub_knows(up: Up, tmp_path: Path) -> None:
    assert "run343434" in up.failed(3, "export", "run343434")
    said = up.failed(2, "export", "run343434", TBHUB_HOME=str(tmp_path))
    assert said.startswith("tbhub: run343434 does not exist, and no hub is known")


def test_determineds_commands(up: Up, trials: dict[str, int]) -> None:
    one, other = trials["a/1"], trials["b/2"]
    tensorboard = "tensorboard"
    id_ = up.done(tensorboard, "start", "--trial-ids", one, other, "-d").strip()
    assert up.done(tensorboard, "list", "-a", "-q").split() == [id_]
    assert up.done(tensorboard, "ls", "-q").split() == [id_]
    assert up.done(tensorboard, "open", id_, "--no-browser").strip() == board(up, id_)["url"]
    assert json.loads(up.done(tensorboard, "config", id_))["trials"] == [one, other]
    assert "was placed on host" in up.done(tensorboard, "logs", id_, "--timestamp-after", "1h")
    assert up.done(tensorboard, "kill", id_, "-f").startswith("killed ")


# --- which


def test_prefixes_and_names(up: Up) -> None:
    """Scenario 7."""
    ids = [start(up, "all", "--name", name) for name in ("one", "two", "two")]
    assert up.done("open", ids[0][:8], "--no-browser").strip() == board(up, ids[0])["url"]
    assert up.done("open", "one", "--no-browser").strip() == board(up, ids[0])["url"]
    said = up.failed(3, "kill", "two")
    assert ids[1] in said
    assert ids[2] in said
    assert "nothing-like-it" in up.failed(3, "open", "nothing-like-it")


def test_a_beginning_that_fits_several(up: Up) -> None:
    """Scenario 7."""
    ids: list[str] = []
    with up.hub() as hub:
        while len({id_[0] for id_ in ids}) == len(ids):
            ids.append(hub.create_board(NewBoard(runs="all")).id)
    both = [id_ for id_ in ids if id_[0] == ids[-1][0]]
    said = up.failed(3, "open", ids[-1][0], "--no-browser")
    assert len(both) == 2
    assert all(id_ in said for id_ in both)


def test_killing_some_of_which_one_is_not_there(up: Up) -> None:
    """Scenario 7."""
    good, good2 = start(up, "all"), start(up, "all")
    said = up.run("kill", good, "nope", good2)
    assert said.returncode == 3
    assert "nope" in said.stderr
    assert board(up, good)["state"] == "TERMINATED"
    assert board(up, good2)["state"] == "RUNNING"
    said = up.run("kill", good, "nope", good2, "-f")
    assert said.returncode == 3
    assert said.stderr.count("\n") == 1
    assert said.stdout.count("killed") == 2
    assert board(up, good2)["state"] == "TERMINATED"


@pytest.mark.parametrize(
    "name", ["two words", 'it\'s "quoted"', "漢字 é", "..", "a/b", "a%2fb", "-x", "<b>&", "x/logs"]
)
def test_any_name(up: Up, name: str) -> None:
    """Scenario 20."""
    id_ = start(up, "all", f"--name={name}")
    assert board(up, id_)["name"] == name
    assert name in up.done("list")
    assert next(csv.DictReader(io.StringIO(up.done("list", "--csv"))))["description"] == name
    assert up.done("stop", "--", name).startswith(f"stopped {name} ({id_})")
    assert up.done("kill", "--", name).startswith(f"killed {name} ({id_})")


@pytest.mark.parametrize("name", ["again", "again/b", "again/logs"])
def test_live_board_goes_before_ended_ones_of_its_name(up: Up, name: str) -> None:
    first = start(up, "all", f"--name={name}")
    up.done("kill", name)
    second = start(up, "all", f"--name={name}")
    assert second[:8] in up.done("open", name, "--no-browser")
    assert up.done("kill", name).startswith(f"killed {name} ({second})")
    assert "USER_KILLED" in up.failed(2, "open", name)
    assert json.loads(up.done("config", name))["name"] == name
    said = up.failed(3, "delete", name, "--yes")
    assert first in said
    assert second in said


def test_runs_of_any_name(up: Up) -> None:
    """Scenario 20."""
    names = ["two words", 'it\'s "quoted", é', "%2f", "\x1b[31mred", "漢\u202e字"]
    for name in names:
        log(up.directory / "runs" / "odd" / name)
    try:
        eventually(lambda: len(up.json("runs", "exp:odd")) == len(names))
        assert {each["path"] for each in up.json("runs", "exp:odd")} == {f"odd/{n}" for n in names}
        table = up.done("runs", "exp:odd")
        assert "\x1b" not in table
        assert "%1B[31mred" in table
        assert shown_runs(up, start(up, "./runs/odd/two words")) == 1
    finally:
        up.done("runs", "delete", "exp:odd", "--files", "--yes")
    assert not (up.directory / "runs" / "odd" / "%2f").exists()
    assert len(list((up.directory / "runs").glob("[abc]/*/"))) == 6


# --- lives


def test_stop_and_start(up: Up) -> None:
    """Scenario 16."""
    id_ = start(up, "all")
    up.done("stop", id_)
    found = eventually(lambda: (b := board(up, id_))["state"] == "STOPPED" and b)
    assert found["reason"] == "USER_STOPPED"
    up.done("restart", id_)
    eventually(lambda: board(up, id_)["state"] == "RUNNING")
    up.done("stop", id_)
    up.done("restart", id_)
    eventually(lambda: board(up, id_)["state"] == "RUNNING")
    up.done("delete", id_, "--yes")
    for command in ("open", "logs", "stop", "config"):
        assert id_ in up.failed(3, command, id_)


def test_a_board_that_has_ended_is_not_opened(up: Up) -> None:
    id_ = start(up, "all", "--name", "mine")
    up.done("stop", id_)
    eventually(lambda: board(up, id_)["state"] == "STOPPED")
    assert up.done("open", id_, "--no-browser").strip() == board(up, id_)["url"]
    up.done("kill", id_)
    said = up.failed(2, "open", id_, "--no-browser")
    assert said.startswith("tbhub: TensorBoard (mine) is TERMINATED (USER_KILLED)")
    assert said.endswith("; `tbhub start` makes another\n")


def test_a_killed_board_does_not_start(up: Up) -> None:
    id_ = start(up, "all")
    up.done("kill", id_)
    assert "ended for good" in up.failed(2, "restart", id_)


def test_runs_are_not_added_to_a_killed_board(up: Up) -> None:
    id_ = start(up, "exp:a")
    up.done("kill", id_)
    for command in ("add", "remove"):
        assert "ended for good (USER_KILLED)" in up.failed(2, command, id_, "exp:b")


def test_a_path_that_cannot_be_resolved_is_no_failure_of_the_hub(up: Up) -> None:
    place = "/proc/1/root"  # a link that only the owner of the process may read
    assert "no run at or below /proc/1/root" in up.failed(3, "runs", place)
    id_ = up.done("start", place, "-d").strip()
    assert board(up, id_)["sources"] == [place]


def test_start_takes_options_from_a_configuration(up: Up) -> None:
    file = up.directory / "board.yaml"
    file.write_text("description: mine\nidle_timeout: 30m\nfollow: true\nresources: {slots: 0}\n")
    options = ("--config-file", file, "--config", "idle_timeout=1h", "--config", "max_runtime=2h")
    done = up.run("tensorboard", "start", "all", "-d", *options, "--max-runtime", "3h")
    assert done.returncode == 0
    assert done.stderr == "tbhub: warning: resources.slots has no meaning here and is ignored\n"
    config = up.done("tensorboard", "config", "mine")
    found = json.loads(config)
    assert (found["idle_timeout"], found["max_runtime"], found["follow"]) == (3600, 10800, True)
    (up.directory / "again.json").write_text(config)
    up.done("start", "-d", "--config-file", up.directory / "again.json", "--name", "again")
    assert json.loads(up.done("config", "again")) == {**found, "name": "again"}
    assert "hint: write 90" in up.failed(2, "start", "all", "--config", "idle_timeout=soon")
    assert "No such file" in up.failed(2, "start", "all", "--config-file", "/nonexistent.yaml")


def test_configuration_of_a_board_makes_one_that_shows_the_same(up: Up) -> None:
    id_ = start(up, "exp:a", "--name", "mine")
    again = up.directory / "again.json"

    def starts_again(name: str) -> None:
        config = up.done("config", id_)
        again.write_text(config)
        done = up.run("start", "-d", "--wait", "--config-file", again, "--name", name)
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(up.done("config", name)) == {**json.loads(config), "name": name}
        assert names_of_runs(up, done.stdout.strip()) == names_of_runs(up, id_)

    starts_again("plain")
    up.done("add", id_, "exp:b where lr<.0005 limit 1")
    up.done("add", id_, "./runs/c limit 1")
    assert names_of_runs(up, id_) == ["a/1", "a/2", "a/3", "b/2", "c/1"]
    starts_again("grown")
    up.done("remove", id_, "a/2")
    starts_again("less")
    assert names_of_runs(up, id_) == ["a/1", "a/3", "b/2", "c/1"]
    table = up.done("list", "--csv")
    assert table.count("without a/2") == 2, table
    path = start(up, "./runs/a", "./runs/b")
    up.done("remove", path, "./runs/a/3")
    again.write_text(up.done("config", path))
    copy = start(up, "--config-file", again)
    assert names_of_runs(up, copy) == ["a/1", "a/2", "b/1", "b/2"]
    left_out = [f"{up.directory}/runs/a/3"]
    assert (board(up, copy)["sources"], board(up, copy)["removed"]) == (
        board(up, path)["sources"],
        left_out,
    )
    assert start(up, "--config-file", again, "--reuse") in (path, copy)
    assert "removed" not in up.failed(3, "start", "nothing-here", "--config-file", again)


def test_found_by_another_process(up: Up) -> None:
    """Scenario 19: every command here is a process of its own; and by address and token."""
    id_ = start(up, "all")
    token = json.loads((up.directory / "home" / "connection.json").read_text())["token"]
    elsewhere = {"TBHUB_HOME": "/nonexistent", "TBHUB_URL": up.url, "TBHUB_TOKEN": token}
    assert up.done("list", "-q", **elsewhere) == f"{id_}\n"
    up.done("stop", id_, **elsewhere)
    unknown = {**elsewhere, "TBHUB_TOKEN": "tbh_" + "x" * 32}
    for words in (("list",), ("run", "--resume", "1", "--", "true"), ("logs", id_, "-f")):
        said = up.failed(4, *words, **unknown)
        assert "rejects the token in the environment variable TBHUB_TOKEN" in said
        assert "hint: set TBHUB_TOKEN to a valid token" in said
        assert "xxx" not in said
    assert "tbhub login" in up.failed(4, "list", **{**elsewhere, "TBHUB_TOKEN": ""})
    up.done("list", **{**elsewhere, "TBHUB_TOKEN": f" {token}\n"})


def test_more_and_fewer_runs(up: Up, experiments: dict[str, int], trials: dict[str, int]) -> None:
    id_ = start(up, experiments["a"], "--name", "mine")
    assert up.done("add", id_, f"exp:{experiments['b']}") == "TensorBoard (mine) shows 5 runs\n"
    assert up.done("remove", id_, f"trial:{trials['a/1']}") == "TensorBoard (mine) shows 4 runs\n"
    assert board(up, id_)["experiments"] == [experiments["a"], experiments["b"]]
    assert up.done("remove", id_, "exp:b") == "TensorBoard (mine) shows 2 runs\n"
    assert board(up, id_)["experiments"] == [experiments["a"]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("kill", "none"), "There is no board 'none'; `tbhub list` lists those there are"),
        (("start", "99"), "There is no experiment exp:99; `tbhub experiments` lists those"),
        (("start", "runs"), "There is no run runs; for the directory write ./runs\n"),
        (("start", "a"), "There is no run a. An experiment is called so: exp:a.\n"),
        (("tokens", "revoke", "99"), "There is no token 99; `tbhub tokens` lists those there are"),
    ],
)
def test_what_is_not_there_says_where_to_look(
    up: Up, arguments: tuple[str, ...], said: str
) -> None:
    assert up.failed(3, *arguments).startswith(f"tbhub: {said}")


def test_logs(up: Up) -> None:
    id_ = start(up, "all", "--name", "mine")
    lines = up.done("logs", "mine").splitlines()
    assert any("was placed on host local-1" in line for line in lines)
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  ", lines[0])
    assert up.done("logs", id_, "--head", "1").splitlines() == lines[:1]
    assert up.done("logs", id_, "--tail", "1").splitlines() == lines[-1:]
    assert up.done("logs", id_, "--since", "1h").splitlines() == lines
    assert up.done("logs", id_, "--since", "2100-01-01") == ""
    assert up.done("logs", id_, "--timestamp-before", "2100-01-01").splitlines() == lines
    assert up.done("logs", id_, "--timestamp-before", "1h") == ""
    assert up.done("logs", id_, "--level", "info", "--tail", "1").splitlines() == lines[-1:]
    assert up.done("logs", id_, "--level", "error") == ""
    assert up.done("logs", id_, "--level", "DEBUG", "--tail", "1").splitlines() == lines[-1:]
    assert up.done("logs", id_, "--level", "critical") == ""
    objects = [json.loads(line) for line in up.done("logs", id_, "--json").splitlines()]
    assert [each["id"] for each in objects] == sorted(each["id"] for each in objects)
    assert objects[0].keys() == {"id", "time", "level", "text"}


def test_logs_are_followed_until_the_board_ends(up: Up) -> None:
    id_ = start(up, "all")
    following = subprocess.Popen(
        [*COMMAND, "logs", id_, "-f"], stdout=subprocess.PIPE, text=True, env=up.environment
    )
    assert following.stdout is not None
    assert following.stdout.readline()
    up.done("kill", id_)
    rest, _ = following.communicate(timeout=PATIENCE)
    assert following.returncode == 0
    assert "killed" in rest


def test_following_is_interrupted(up: Up) -> None:
    id_ = start(up, "all")
    following = subprocess.Popen(
        [*COMMAND, "logs", id_, "-f"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=up.environment,
    )
    assert following.stdout is not None
    assert following.stdout.readline()
    following.send_signal(signal.SIGINT)
    _, said = following.communicate(timeout=PATIENCE)
    assert following.returncode == 130
    assert "Traceback" not in said


def test_too_many_boards(tmp_path: Path) -> None:
    """Scenario 17."""
    log(tmp_path / "runs" / "x" / "1")
    with Up(tmp_path, "--logdir", tmp_path / "runs", TBHUB_MAX_BOARDS_PER_USER="5") as up:
        up.wait_for_runs(1)
        ids = [start(up, "all") for _ in range(5)]
        said = up.failed(6, "start", "all", "--no-browser")
        assert all(id_ in said for id_ in ids)
        up.done("stop", ids[2])
        eventually(lambda: board(up, ids[2])["state"] == "STOPPED")
        start(up, "all")


def test_not_in_time(up: Up) -> None:
    """Scenario 18."""
    said = up.run("start", "all", "--no-browser", "--timeout", "0")
    assert said.returncode in (0, 7)  # a warm hub may be quicker than no time at all
    assert "Traceback" not in said.stderr


def test_a_place_that_is_not_there(up: Up) -> None:
    """Scenario 18."""
    done = up.run("start", "/nowhere/at/all", "--no-browser", "--no-data-timeout", "1s")
    assert "Traceback" not in done.stderr
    assert "nowhere" in up.failed(3, "start", "nowhere", "--no-browser")
    assert "./runs" in up.failed(3, "start", "runs", "--no-browser")


def test_a_bucket_that_cannot_be_read_beside_runs_that_can(up: Up) -> None:
    lines = "access_key_id=k\nsecret_access_key=s\nendpoint=http://127.0.0.1:1\n"
    place = "s3://bucket/runs"
    up.done("storage", "add", "away", place, "--stdin", "--no-test", stdin=lines)
    try:
        said = up.failed(2, "start", "all", place, "--no-browser")
        assert f"{place} cannot be read: " in said
        warned = up.run("start", "all", place, "--no-browser", "--no-strict")
        assert (warned.returncode, "Traceback" in warned.stderr) == (0, False)
        assert warned.stderr.startswith("tbhub: warning: ")
        assert f"{place} cannot be read: " in warned.stderr
    finally:
        up.done("storage", "remove", "away")


def test_a_link_for_somebody_else(up: Up) -> None:
    id_ = start(up, "all")
    link = up.done("share", id_, "--expires", "1h").strip()
    assert link.startswith(f"{up.url}/boards/{id_[:8]}/?share=")
    for words in (("share", id_), ("tokens", "create")):
        assert up.failed(2, *words, "--expires", "0").startswith("tbhub: --expires: input should")
    (number,) = up.done("share", id_, "--list", "-q").split()
    assert up.done("share", id_, "--revoke", number) == f"revoked {number}\n"
    assert up.json("share", id_, "--list") == []


# --- runs


def test_runs_are_listed(up: Up, experiments: dict[str, int]) -> None:
    assert len(up.json("runs")) == 6
    best = up.json("runs", "where lr<.05 order by lr limit 2")
    assert [each["path"] for each in best] == ["c/1", "b/2"]
    assert best[0]["hparams"]["lr"] == pytest.approx(1e-5)
    table = up.done("runs", experiments["a"])
    assert table.startswith("ID")
    assert "loss=" in table
    assert up.done("runs", "exp:c", "-q").split() == [str(best[0]["id"])]
    assert "6 of" not in up.run("runs").stderr
    assert "2 of 6" in up.run("runs", "--limit", "2").stderr
    assert len(list(csv.DictReader(io.StringIO(up.done("runs", "--csv"))))) == 6


def test_many_and_long_hyperparameters_are_cut_short_in_a_table(up: Up, tmp_path: Path) -> None:
    hparams = {f"h{number:02}": number for number in range(100)} | {"h01": "x" * 200}
    with SummaryWriter(tmp_path / "wide" / "1") as writer:
        writer.add_hparams(hparams, {"hparam/loss": 0.5}, run_name=".")
    up.done("add", tmp_path / "wide", "--experiment", "wide")
    eventually(lambda: len(up.json("runs", "exp:wide")[0]["hparams"]) == 100)
    try:
        assert f" h00=0 h01={'x' * 23}… h02=2 +97 " in up.done("runs", "exp:wide")
        (row,) = csv.DictReader(io.StringIO(up.done("runs", "exp:wide", "--csv")))
        assert f"h01={'x' * 200} " in row["hparams"]
        assert row["hparams"].endswith("h99=99")
    finally:
        up.done("runs", "delete", "exp:wide", "--files", "--yes")


def test_a_selector_that_cannot_be_understood(up: Up) -> None:
    said = up.failed(2, "runs", "where lr <").splitlines()
    assert said[1] == "  where lr <"
    assert said[2].strip() == "^"
    said = up.failed(2, "start", "all", "where", "lr <", "--no-browser").splitlines()
    assert said[1] == "  all where lr <"


def test_a_run_is_changed(up: Up, trials: dict[str, int]) -> None:
    number = trials["b/1"]
    up.done(
        "runs", "edit", number, "--name", "base line", "--note", "n", "--tag", "x", "--tag", "y"
    )
    found = up.json("runs", "show", number)
    assert (found["name"], found["note"], sorted(found["tags"])) == ("base line", "n", ["x", "y"])
    assert "base line" in up.done("runs", "show", '"base line"')
    assert re.search(r"hparam/loss: .* 1 point$", up.done("runs", "show", number), re.M)
    up.done("runs", "edit", number, "--name", f"run{number}", "--archive")
    assert number not in up.done("runs", "-q").split()
    assert str(number) in up.done("runs", "-q", "--archived").split()
    up.done("runs", "edit", number, "--unarchive")


def test_a_run_that_is_called_by_a_number_is_shown_unless_another_has_the_number(
    up: Up, trials: dict[str, int]
) -> None:
    taken = trials["c/1"]
    for name in ("30303", "9" * 25, str(taken)):
        log(up.directory / "runs" / "digits" / name)
    try:
        eventually(lambda: len(up.json("runs", "exp:digits")) == 3)
        assert up.json("runs", "show", "30303")["path"] == "digits/30303"
        assert up.json("runs", "show", "9" * 25)["path"] == f"digits/{'9' * 25}"
        said = up.failed(3, "runs", "show", taken)
        assert f"{taken} is the number of a run and the name of another. hint: write #" in said
        assert up.failed(3, "runs", "show", "30304").startswith("tbhub: There is no run 30304")
    finally:
        up.done("runs", "delete", "exp:digits", "--files", "--yes")


def test_deleting_asks_first(up: Up) -> None:
    """Scenario 9, from the command line."""
    for number in range(1, 12):
        log(up.directory / "runs" / f"del{number}" / "1")
    eventually(lambda: len(up.json("experiments", "del")) == 11)
    numbers = {each["name"]: each["id"] for each in up.json("experiments", "del")}
    said = up.failed(2, "experiments", "delete", numbers["del1"], "--files")
    assert "1 run" in said
    assert "--yes" in said
    assert "would delete" in up.done("experiments", "delete", numbers["del1"], "--dry-run")
    up.done("experiments", "delete", numbers["del1"], "--files", "--yes")
    assert not (up.directory / "runs" / "del1" / "1").exists()
    assert (up.directory / "runs" / "del10" / "1").exists()
    assert len(up.json("experiments", "del")) == 10
    planned = up.json("runs", "delete", "exp:del*", "--dry-run")
    assert (planned["runs"], planned["dry_run"]) == (10, True)
    up.done("runs", "delete", "exp:del*", "--files", "--yes")
    assert list((up.directory / "runs").glob("del*/1")) == []


def test_a_number_alone_is_not_deleted(up: Up, trials: dict[str, int]) -> None:
    number = trials["a/1"]
    for words in ((number,), ("all,", f"{number}"), (f"default/{number}",)):
        said = up.failed(2, "runs", "delete", *words, "--files", "--yes")
        assert f"trial:{number}" in said
        assert f"exp:{number}" in said
    planned = up.done("runs", "delete", f"trial:{number}", "--dry-run").splitlines()
    assert planned == ["would delete 1 run", f"  runs: a/1 (#{number})"]
    assert len(up.json("runs")) == 6


def test_deleting_names_what_goes(up: Up) -> None:
    for number in range(7):
        log(up.directory / "runs" / "named" / str(number))
        (up.directory / "runs" / "named" / str(number) / "model.ckpt").write_text("weights")
    try:
        eventually(lambda: len(up.json("runs", "exp:named")) == 7)
        newest = max(up.json("runs", "exp:named"), key=lambda run: run["id"])
        for words in (("runs", "delete", "exp:named"), ("experiments", "delete", "named")):
            for said in (
                up.done(*words, "--files", "--dry-run"),
                up.failed(2, *words, "--files"),
            ):
                assert f"runs: {newest['name']} (#{newest['id']}), " in said
                assert re.search(r"no event files: .*/model\.ckpt, .* and 2 more$", said, re.M)
                assert said.count(" and 2 more\n") == 2
            assert "model.ckpt" not in up.done(*words, "--dry-run")
    finally:
        up.done("runs", "delete", "exp:named", "--files", "--yes")


def test_deleting_says_where_files_stay(up: Up) -> None:
    for number in range(7):
        log(up.directory / "runs" / "kept" / str(number))
    eventually(lambda: len(up.json("runs", "exp:kept")) == 7)
    said = up.done("runs", "delete", "exp:kept", "--yes").splitlines()
    assert said[0] == "deleted 7 runs"
    assert f"stay in {up.directory}/runs/kept/" in said[1]
    assert said[-1] == "  and those of 2 more runs"


def test_places_without_runs_are_not_there(up: Up) -> None:
    place = str(up.directory / "nosuch")
    for words in (("runs", "./nosuch"), ("runs", "all", "./nosuch"), ("runs", "s3://no/such")):
        said = up.failed(3, *words)
        assert said.startswith("tbhub: There is no run at or below ")
        assert (place in said) == ("./nosuch" in words)
    assert place in up.failed(3, "runs", "delete", "./nosuch", "--yes")
    assert len(up.json("runs", "./runs/a")) == 3


def test_what_is_forgotten_is_said_to_be(up: Up) -> None:
    for group in ("runs", "experiments"):
        said = " ".join(up.done(group, "delete", "--help").split())
        assert "until tbhub add PATH" in said
        assert "checkpoints too" in said


def test_an_experiment_goes_by_its_name(up: Up) -> None:
    for name in ("gone", "gone2"):
        log(up.directory / "runs" / name / "1")
    eventually(lambda: len(up.json("experiments", "gone")) == 2)
    up.done("experiments", "edit", "gone", "--note", "old")
    assert [each["note"] for each in up.json("experiments", "gone")].count("old") == 1
    up.done("experiments", "delete", "gone", "--files", "--yes")
    assert [each["name"] for each in up.json("experiments", "gone")] == ["gone2"]
    up.done("experiments", "delete", "exp:gone2", "--files", "--yes")
    assert "There is no experiment gone;" in up.failed(3, "experiments", "delete", "gone", "--yes")


def test_a_question_is_asked_on_a_terminal(up: Up) -> None:
    id_ = start(up, "all", "--name", "mine")
    for answer, code in ((b"n\n", 1), (b"y\n", 0)):
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [*COMMAND, "delete", id_],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=up.environment,
        )
        os.close(theirs)
        said = b""
        while b"[y/N]" not in said:
            assert select.select([ours], [], [], PATIENCE)[0]
            said += os.read(ours, 4096)
        assert b"Delete 1 board: mine (RUNNING)?" in said
        os.write(ours, answer)
        assert process.wait(PATIENCE) == code
        os.close(ours)
    up.failed(3, "open", id_)


def test_logdirs(up: Up, tmp_path: Path) -> None:
    log(tmp_path / "more" / "extra" / "1")
    up.done("logdirs", "add", tmp_path / "more")
    eventually(lambda: len(up.json("runs", "exp:extra")) == 1)
    (number,) = [
        each["id"] for each in up.json("logdirs") if each["path"] == str(tmp_path / "more")
    ]
    up.done("runs", "delete", "exp:extra", "--files", "--yes")
    up.done("logdirs", "remove", number)
    assert len(up.json("logdirs")) == 1


def test_a_log_directory_is_removed_by_its_path(up: Up, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    up.done("logdirs", "add", tmp_path / "more")
    assert up.failed(3, "logdirs", "remove", tmp_path / "less") == (
        f"tbhub: There is no log directory {tmp_path / 'less'}. hint: `tbhub logdirs` lists them.\n"
    )
    up.done("logdirs", "remove", f"{tmp_path}/more/")
    assert [each["path"] for each in up.json("logdirs")] == [str(up.directory / "runs")]


def test_a_log_directory_that_is_not_there_is_waited_for(up: Up, tmp_path: Path) -> None:
    done = up.run("logdirs", "add", tmp_path / "later")
    assert done.returncode == 0
    assert f"There is no directory {tmp_path / 'later'} on the hub's machine" in done.stderr
    log(tmp_path / "later" / "extra" / "1")
    eventually(lambda: len(up.json("runs", "exp:extra")) == 1)
    assert "waited" not in up.run("logdirs", "add", tmp_path).stderr
    for each in up.json("logdirs")[1:]:
        up.done("logdirs", "remove", each["id"])
    eventually(lambda: len(up.json("runs", "all")) == 6)


# --- the hub


def test_a_connection_for_the_same_prefix_names_those_it_replaces(up: Up) -> None:
    for workspace in ("first", "second"):
        up.done("workspaces", "add", workspace)

    def add(name: str, uri: str, *options: str) -> list[str]:
        added, *more = up.done(
            "storage", "add", name, uri, "--no-ask", "--no-test", *options
        ).splitlines()
        assert added == f"added {name} for {uri}; `tbhub storage test {name}`"
        return more

    try:
        assert add("own", "s3://b/x", "-w", "first") == []
        assert add("old", "s3://b/x") == [
            "own, which has the same prefix, is still used for workspace first. "
            "hint: `tbhub storage remove own`"
        ]
        assert add("new", "s3://b/x")[0] == (
            "new is used instead of old, which has the same prefix. "
            "hint: `tbhub storage remove old`"
        )
        assert add("longer", "s3://b/x/y") == add("second", "s3://b/x", "-w", "second") == []
    finally:
        for name in up.done("storage", "-q").split():
            up.done("storage", "remove", name)
        for workspace in ("first", "second"):
            up.done("workspaces", "delete", workspace, "--yes")


def test_a_test_from_here_names_the_connection_of_the_hub(up: Up) -> None:
    place = "s3://bucket/runs"
    keys = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_ACCESS_KEY_ID": "k",
        "AWS_SECRET_ACCESS_KEY": "s",
    }

    def hints(*more: str, **environment: str) -> list[str]:
        tested = up.run("storage", "test", place, *more, **keys, **environment)
        assert (tested.returncode, "Traceback" in tested.stderr) == (1, False)
        return [line for line in tested.stdout.splitlines() if line.startswith("hint:")]

    assert hints() == []
    up.done("storage", "add", "old", place, "--no-ask", "--no-test")
    up.done("storage", "add", "new", place, "--no-ask", "--no-test")
    try:
        named = "hint: the hub has connection new for this place: `tbhub storage test new"
        assert hints() == [f"{named}`"]
        assert hints("--for", "boards") == [f"{named} --for boards`"]
        assert hints(TBHUB_URL="http://127.0.0.1:1") == []
    finally:
        for name in ("old", "new"):
            up.done("storage", "remove", name)


def test_a_host_is_drained(up: Up) -> None:
    (before,) = up.json("hosts")
    assert before["state"] == "running"
    assert before["id"] in up.done("hosts")
    said = up.done("hosts", "drain", before["id"])
    assert f"{before['id']} has ended" in said
    eventually(lambda: [each["state"] for each in up.json("hosts")] == ["running"])
    assert up.json("hosts")[0]["id"] != before["id"]
    up.failed(3, "hosts", "drain", before["id"])


def test_status_and_doctor(up: Up) -> None:
    assert up.url in up.done("status")
    found = up.json("status")
    assert (found["runs"], found["url"]) == (6, up.url)
    assert up.done("doctor").startswith(f"· address: {up.url}")
    id_ = start(up, "all")
    assert {each["level"] for each in up.json("doctor", id_)} <= {"ok", "info", "warning"}


def test_completion_of_boards(up: Up) -> None:
    id_ = start(up, "all", "--name", "rarely-cute-otter")
    for word, completed in (("rare", "rarely-cute-otter"), (id_[:4], id_)):
        said = up.done(
            _TBHUB_COMPLETE="complete_bash", COMP_WORDS=f"tbhub kill {word}", COMP_CWORD="2"
        )
        assert completed in said.splitlines()


def test_completion_offers_nothing_that_a_shell_would_carry_out(up: Up) -> None:
    ids = {start(up, "all", "--name", name) for name in ("otter $(date)", "o`t`ter", "otter;x")}
    said = up.done(_TBHUB_COMPLETE="complete_bash", COMP_WORDS="tbhub kill ", COMP_CWORD="2")
    assert set(said.splitlines()) == ids


def test_damaged_records_are_something_wrong(up: Up) -> None:
    damaged = up.directory / "damaged" / "x"
    log(damaged)
    (file,) = damaged.iterdir()
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)
    id_ = start(up, "./damaged")

    def found() -> list[str]:
        return [each["subject"] for each in json.loads(up.run("doctor", id_, "--json").stdout)]

    eventually(lambda: "damaged records" in found())
    up.failed(1, "doctor", id_)


@pytest.mark.usefixtures("trials")
def test_completion_of_experiments_and_runs(up: Up) -> None:
    def offered(*words: str) -> list[str]:
        said = up.done(
            _TBHUB_COMPLETE="complete_bash",
            COMP_WORDS="\n".join(("tbhub", *words)),
            COMP_CWORD=str(len(words)),
        )
        return said.split()

    for command in (("start",), ("runs",), ("runs", "delete"), ("add", "board"), ("runs", "list")):
        assert offered(*command, "exp:a") == ["exp:a"]
        assert offered(*command, "exp", ":", "a") == ["a"]  # as bash parts words
        assert {"exp:a", "exp:b", "exp:c"} <= set(offered(*command, "e"))
        assert "a/1" in offered(*command, "a/")
        assert offered(*command, "./ru") == []
    assert offered("experiments", "delete", "a") == ["a"]
    assert offered("runs", "sh") == ["show"]


def test_output_that_nobody_reads(up: Up) -> None:
    process = subprocess.Popen(
        [*COMMAND, "runs", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=up.environment,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    said = process.stderr.read()
    process.stderr.close()
    process.wait(PATIENCE)
    assert "Traceback" not in said


# --- people


def test_a_user_without_a_password_is_said_to_be_locked_out_and_is_invited(tmp_path: Path) -> None:
    with Up(tmp_path, "--auth", "users") as up:
        added = up.run("users", "add", "ada", "--no-password")
        assert added.stdout == "added ada, member\n"
        assert "ada cannot log in yet" in added.stderr
        assert "`tbhub users invite ada`" in added.stderr

        def ways() -> dict[str, str]:
            return {each["name"]: each["login_ways"] for each in up.json("users")}

        assert ways()["ada"] == []
        assert re.search(r"ada +member +cannot", up.done("users"))
        invited = up.run("users", "invite", "ada", "--expires", "2h")
        link = invited.stdout.strip()
        assert link.startswith(f"{up.url}/login/invitation#")
        assert "works once" in invited.stderr
        assert "--public-url" in invited.stderr
        assert ways()["ada"] == ["invitation"]
        where, _, code = link.partition("#")
        form = {"code": code, "password": "correct horse", "again": "correct horse"}
        assert httpx2.post(where, data=form).status_code == 303
        assert re.search(r"ada +member +password", up.done("users"))
        up.done("users", "invite", "ada")
        assert up.done("users", "invite", "ada", "--revoke").startswith("revoked")
        assert ways()["ada"] == ["password"]
        maria = up.run("users", "add", "maria", "--invite")
        assert maria.stdout.startswith(f"{up.url}/login/invitation#")
        up.failed(3, "users", "invite", "nobody")
        up.failed(2, "users", "invite", "ada", "--expires", "1000d")


def test_a_team(tmp_path: Path) -> None:
    """Scenario 6."""
    log(tmp_path / "runs" / "x" / "1")
    log(tmp_path / "secret" / "y" / "1")
    with Up(tmp_path, "--logdir", tmp_path / "runs", "--auth", "users") as up:
        up.wait_for_runs(1)
        added = up.done("users", "add", "maria", "--password-stdin", stdin="correct horse\n")
        assert added == "added maria, member\nmaria can log in with the password\n"
        up.done("workspaces", "add", "hidden")
        up.done("logdirs", "add", tmp_path / "secret", "-w", "hidden")
        eventually(lambda: len(up.json("runs")) == 2)
        theirs = start(up, "exp:x", "--name", "theirs")

        her = {"XDG_CONFIG_HOME": str(tmp_path / "her"), "TBHUB_HOME": str(tmp_path / "none")}
        wrong = up.failed(
            4, "login", up.url, "-u", "maria", "--password-stdin", stdin="wrong\n", **her
        )
        assert "wrong" in wrong
        assert up.done(
            "login", up.url, "-u", "maria", "--password-stdin", stdin="correct horse\n", **her
        ) == f"logged in to {up.url} as maria, member\n"  # fmt: skip
        stored = tmp_path / "her" / "tbhub" / "logins.json"
        assert stat.S_IMODE(stored.stat().st_mode) == 0o600
        assert "correct horse" not in stored.read_text()

        assert [each["path"] for each in json.loads(up.done("runs", "--json", **her))] == ["x/1"]
        assert "exp:y" in up.failed(3, "start", "exp:y", "--no-browser", **her)
        assert json.loads(up.done("list", "--all", "--json", **her)) == []
        up.failed(3, "open", theirs, "--no-browser", **her)
        up.failed(3, "kill", theirs, **her)
        up.failed(4, "users", **her)
        assert "admins only" in up.failed(4, "tokens", "create", "--scope", "admin", **her)
        assert "hosts" not in up.done("doctor", **her)
        assert json.loads(up.done("status", "--json", **her))["indexing"] == {}
        assert "hosts" in up.done("status")
        assert "hosts" not in up.done("status", **her)
        mine = up.done("start", "exp:x", "-d", "--wait", **her).strip()
        assert [each["owner"] for each in up.json("list", "--all") if each["id"] == mine] == [
            "maria"
        ]

        token = up.done("tokens", "create", "--scope", "read", "--name", "ci", **her).strip()
        reading = {**her, "TBHUB_URL": up.url, "TBHUB_TOKEN": token, "XDG_CONFIG_HOME": "/none"}
        assert up.done("list", "-q", **reading).split() == [mine]
        up.failed(4, "kill", mine, **reading)
        up.done(
            "login",
            up.url,
            "--token-stdin",
            stdin=f"{token}\n",
            XDG_CONFIG_HOME=str(tmp_path / "ci"),
        )
        (number,) = [
            each["id"]
            for each in json.loads(up.done("tokens", "--json", **her))
            if each["name"] == "ci"
        ]
        up.done("tokens", "revoke", number, **her)
        up.failed(4, "list", **reading)

        up.done("workspaces", "set-member", "hidden", "maria", "--role", "viewer")
        assert len(json.loads(up.done("runs", "--json", **her))) == 2
        up.done("workspaces", "remove-member", "hidden", "maria")
        up.done("users", "disable", "maria")
        up.failed(4, "list", **her)
        up.done("users", "enable", "maria")
        assert up.done("logout", **her).startswith("logged out of")
        assert up.failed(5, "list", **her).startswith("tbhub: no hub is known")
        up.done("users", "delete", "maria", "--yes")
        admin = board(up, theirs)["owner"]
        assert "only admin" in up.failed(2, "users", "delete", admin, "--yes")
        assert board(up, theirs)["state"] == "RUNNING"
        assert [each["id"] for each in up.json("list", "--all")] == [theirs]
