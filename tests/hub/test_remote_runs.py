"""Runs in buckets, in the catalog of a real hub: found, read, followed, in trouble, gone."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from support import seaweedfs as weed
from support.buckets import proxy
from support.fault_proxy import FaultProxy, Slow
from support.hub import HubProcess, clean_environment, eventually
from support.seaweedfs import SeaweedFS, seaweedfs
from support.up import COMMAND
from tbhub import SourceUnreadable, SummaryWriter, TensorBoard
from tbhub.api.models import BoardOptions, NewBoard
from tbhub.api.problems import BadRequest
from tbhub.hub.sources import asked_of
from tbhub.storage.open import open_store
from tbhub.storage.store import Store

__all__ = ["proxy", "seaweedfs"]


class Place:
    """A prefix of a bucket, with what is there."""

    def __init__(self, server: SeaweedFS, name: str, directory: Path) -> None:
        self.settings = {
            "endpoint": server.url,
            "access_key_id": "everything",
            "secret_access_key": weed.SECRET,
        }
        self.uri = f"s3://{weed.BUCKET}/{name}"
        self.directory = directory
        store, self.top = open_store(self.uri, self.settings)
        self.store: Store = store

    def writer(self, run: str, **hparams: float) -> SummaryWriter:
        """Logs on this machine, to what `send` sends."""
        writer = SummaryWriter(self.directory / run)
        if hparams:
            writer.add_hparams(hparams, {}, run_name=".")
        return writer

    def send(self, run: str) -> None:
        """Puts each event file as one segment; a longer one takes its place."""
        for file in (self.directory / run).iterdir():
            self.store.put(f"{self.top}/{run}/{file.name}.000001", file.read_bytes())

    def connect(self, hub: HubProcess, **other: str) -> None:
        new = {"name": "weed", "uri": self.uri, "settings": {**self.settings, **other}}
        hub.json("POST", "/api/v1/storage", json=new)

    def disconnect(self, hub: HubProcess) -> None:
        hub.json("DELETE", "/api/v1/storage/weed")


@pytest.fixture
def place(tmp_path: Path, seaweedfs: SeaweedFS) -> Iterator[Place]:
    made = Place(seaweedfs, tmp_path.name, tmp_path / "logs")
    yield made
    made.store.close()


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubProcess]:
    with HubProcess(tmp_path / "home", cache_dir=tmp_path / "cache") as running:
        yield running


def tbhub(hub: HubProcess, *arguments: str, stdin: str = "", code: int = 0) -> str:
    """What a command prints."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        env=clean_environment(TBHUB_URL=hub.url, TBHUB_TOKEN=hub.token),
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert weed.SECRET not in done.stdout + done.stderr
    return done.stdout


def runs(hub: HubProcess) -> dict[str, dict[str, Any]]:
    found = hub.json("GET", "/api/v1/runs?limit=1000")["runs"]
    return {run["path"]: run for run in found}


def last(hub: HubProcess, run: str, tag: str = "loss") -> float | None:
    metrics = runs(hub).get(run, {}).get("metrics") or {}
    found: float | None = metrics.get(tag, {}).get("last")
    return found


def test_metrics_and_hparams_are_in_the_catalog_and_move(hub: HubProcess, place: Place) -> None:
    for number, run in enumerate(("a", "b/c")):
        with place.writer(run, lr=0.5 + number) as writer:
            writer.add_scalar("loss", 3.0, 1)
        place.send(run)
    place.connect(hub)
    tbhub(hub, "add", place.uri)
    eventually(lambda: last(hub, "a") == last(hub, "b/c") == 3.0)
    shown = {run["path"]: run for run in json.loads(tbhub(hub, "runs", "--json"))}
    assert shown["a"]["metrics"]["loss"]["last_step"] == 1
    assert shown["a"]["hparams"] == {"lr": 0.5}
    assert shown["b/c"]["hparams"] == {"lr": 1.5}
    with place.writer("a") as writer:
        for step in (2, 3):
            writer.add_scalar("loss", 1.0 / step, step)
            writer.flush()
            place.send("a")
            eventually(lambda step=step: last(hub, "a") == pytest.approx(1.0 / step))
    assert last(hub, "b/c") == 3.0
    for child in psutil.Process(hub.pid).children(recursive=True):
        assert weed.SECRET not in f"{child.cmdline()} {child.environ()}"


def test_a_hub_that_is_started_again_reads_nothing_again(hub: HubProcess, place: Place) -> None:
    with place.writer("a") as writer:
        writer.add_scalar("loss", 3.0, 1, walltime=1000.0)
    place.send("a")
    place.connect(hub)
    tbhub(hub, "add", place.uri)
    eventually(lambda: last(hub, "a") == 3.0)
    hub.stop()
    # Were it read again, its catalog would say what is there now.
    with sqlite3.connect(hub.home / "hub.db") as connection:
        connection.execute("UPDATE metrics SET last = 7.0")
    hub.restart()
    with place.writer("b") as writer:
        writer.add_scalar("loss", 4.0, 1)
    place.send("b")
    tbhub(hub, "add", place.uri)
    eventually(lambda: last(hub, "b") == 4.0)
    assert last(hub, "a") == 7.0


def test_wrong_credentials_are_told_and_got_over(hub: HubProcess, place: Place) -> None:
    with place.writer("a") as writer:
        writer.add_scalar("loss", 3.0, 1)
    place.send("a")
    place.connect(hub)
    tbhub(hub, "add", place.uri)
    eventually(lambda: last(hub, "a") == 3.0)
    place.disconnect(hub)
    place.connect(hub, secret_access_key="mistaken")
    problem = eventually(lambda: runs(hub)["a"]["problem"])
    assert "cannot be read" in problem
    assert last(hub, "a") == 3.0
    hub.stop()
    hub.restart()
    eventually(lambda: hub.json("GET", "/api/v1/status")["indexing"].get("runs") == 1)
    assert last(hub, "a") == 3.0
    place.disconnect(hub)
    place.connect(hub)
    eventually(lambda: runs(hub)["a"]["problem"] is None)
    assert last(hub, "a") == 3.0
    for text in (problem, hub.log, hub.ask("GET", "/api/v1/status").text):
        assert "mistaken" not in text
        assert weed.SECRET not in text


def test_a_started_run_keeps_its_status_and_shows_what_is_below(
    hub: HubProcess, place: Place
) -> None:
    place.connect(hub)
    new = {"experiment": "e", "location": f"{place.uri}/started", "hparams": {"lr": 1.0}}
    run = hub.json("POST", "/api/v1/runs", json=new)["run"]
    for part in ("started", "started/eval"):
        with place.writer(part) as writer:
            writer.add_scalar("loss", 2.0, 1, walltime=1000.0)
    for part in ("started/eval", "started"):
        for file in (place.directory / part).glob("events*"):
            place.store.put(f"{place.top}/{part}/{file.name}.000001", file.read_bytes())

    def shown() -> dict[str, Any]:
        found: dict[str, Any] = hub.json("GET", f"/api/v1/runs/{run['id']}")
        return found

    eventually(lambda: set(shown()["metrics"]) == {"loss", "eval/loss"})
    assert shown()["status"] == "running"
    assert shown()["hparams"] == {"lr": 1.0}


def test_watched_runs_come_and_go_and_belong_to_what_was_said(
    hub: HubProcess, place: Place
) -> None:
    for run in ("a", "b", "kept"):
        with place.writer(run) as writer:
            writer.add_scalar("loss", 3.0, 1)
    place.send("a")
    place.send("kept")
    place.connect(hub)
    tbhub(hub, "add", place.uri, "--watch", "--experiment", "mine")
    eventually(lambda: last(hub, "a") == last(hub, "kept") == 3.0)
    kept = runs(hub)["kept"]["id"]
    hub.json("PATCH", f"/api/v1/runs/{kept}", json={"note": "the best"})
    place.send("b")
    eventually(lambda: last(hub, "b") == 3.0)
    assert {run["experiment"] for run in runs(hub).values()} == {"mine"}
    place.store.delete_below(f"{place.top}/a")
    place.store.delete_below(f"{place.top}/kept")
    eventually(lambda: "a" not in runs(hub) and runs(hub)["kept"]["status"] == "lost")
    place.send("kept")
    eventually(lambda: runs(hub)["kept"]["status"] != "lost")
    assert runs(hub)["kept"]["id"] == kept


@pytest.mark.parametrize("files", [False, True])
def test_a_deleted_run_comes_back_from_a_watched_bucket_only_if_added(
    hub: HubProcess, place: Place, files: bool
) -> None:
    for run in ("a", "b", "c"):
        with place.writer(run) as writer:
            writer.add_scalar("loss", 3.0, 1)
    place.send("a")
    place.send("b")
    place.connect(hub)
    tbhub(hub, "add", place.uri, "--watch")
    eventually(lambda: last(hub, "a") == last(hub, "b") == 3.0)
    deleted = f"trial:{runs(hub)['a']['id']}"
    tbhub(hub, "runs", "delete", deleted, "--yes", *["--files"] * files, code=2 * files)
    hub.stop()
    hub.restart()
    place.send("c")
    eventually(lambda: last(hub, "c") == 3.0)
    assert runs(hub).keys() == {"b", "c"}
    tbhub(hub, "add", f"{place.uri}/c")
    assert "a" not in runs(hub)
    tbhub(hub, "add", place.uri)
    eventually(lambda: last(hub, "a") == 3.0)


def test_a_board_shows_runs_from_here_and_behind_two_connections(
    tmp_path: Path, place: Place, seaweedfs: SeaweedFS
) -> None:
    """Scenario 3. Each connection is for its prefix alone, and neither key is the hub's."""
    other = Place(seaweedfs, f"{tmp_path.name}-other", tmp_path / "other-logs")
    with SummaryWriter(tmp_path / "runs" / "here") as writer:
        writer.add_scalar("loss", 0.0, 1)
    with HubProcess(tmp_path / "home", logdirs=tmp_path / "runs") as hub:
        for number, (each, key) in enumerate(((place, "everything"), (other, "reads"))):
            with each.writer(f"there{number}") as writer:
                writer.add_scalar("loss", 1.0 + number, 1)
            each.send(f"there{number}")
            settings = {**each.settings, "access_key_id": key}
            new = {"name": f"c{number}", "uri": each.uri, "settings": settings}
            hub.json("POST", "/api/v1/storage", json=new)
            tbhub(hub, "add", each.uri)
        hub.wait_for_runs(3)
        board = hub.create_board(trials=[run["id"] for run in runs(hub).values()])
        root = f"/boards/{board['id'][:8]}"
        names = {"here", "there0", "there1"}
        eventually(lambda: set(hub.ask("GET", f"{root}/data/runs").json()) == names)

        def tags() -> dict[str, Any]:
            found: dict[str, Any] = hub.ask("GET", f"{root}/data/plugin/scalars/tags").json()
            return found

        eventually(lambda: {run for run, each in tags().items() if "loss" in each} == names)
        shown = [hub.ask("GET", path).text for path in (f"/api/v1/boards/{board['id']}", "/")]
    other.store.close()
    for text in (*shown, hub.log):
        assert weed.SECRET not in text


@pytest.mark.parametrize(
    ("spellings", "place"),
    [
        (("s3://box/mix", "s3://box/mix/", "s3://box/mix//"), "s3://box/mix"),
        (("/d/mix", "/d/mix/", "/d//x/../mix", "file:///d/mix", "FILE:///d/mix/"), "/d/mix"),
        (("/d/a b", "/d/a b/", "file:///d/a%20b"), "/d/a b"),
        (("/", "file:///"), "/"),
    ],
)
def test_a_board_is_the_same_for_every_spelling_of_its_place(
    spellings: tuple[str, ...], place: str
) -> None:
    by_uri = [asked_of(NewBoard(uris=[each])) for each in spellings]
    assert {asked.uris for asked in by_uri} == {(place,)}
    by_selector = [asked_of(NewBoard(runs=f'"{each}" run7')) for each in spellings]
    for each in (by_uri, by_selector):
        assert len({asked.key(BoardOptions(), follow=True) for asked in each}) == 1
    assert asked_of(NewBoard(uris=list(spellings))) == by_uri[0]


@pytest.mark.parametrize("uri", ["mix", "file://mix", "/d/\0", "file:///d/%00"])
def test_a_board_needs_whole_paths(uri: str) -> None:
    with pytest.raises(BadRequest, match="the hub needs the whole path"):
        asked_of(NewBoard(uris=[uri]))


def test_a_board_that_waits_for_credentials_runs_once_they_are_added(
    hub: HubProcess, place: Place
) -> None:
    for run in ("a", "b/train"):
        with place.writer(run) as writer:
            writer.add_scalar("loss", 1.0, 1)
        place.send(run)
    place.connect(hub, secret_access_key="wrong")
    new = hub.json("POST", "/api/v1/boards", json={"uris": [place.uri]})

    def problem() -> str:
        found = hub.json("GET", f"/api/v1/boards/{new['id']}")
        return str(found["problem"]) if found["state"] == "WAITING" else ""

    said = eventually(problem, "it does not say what is wrong")
    assert said.startswith(f"{place.uri} cannot be read: ")
    assert "hint: `tbhub storage test weed --for boards`" in said
    assert "tbhub storage add NAME" in said
    findings = hub.json("GET", f"/api/v1/boards/{new['id']}/doctor")["findings"]
    (refused,) = [each for each in findings if each["subject"] == "permission"]
    assert (refused["level"], place.uri in refused["text"]) == ("error", True)
    printed = tbhub(hub, "start", place.uri, "--no-browser", code=2)
    assert "is running at" not in printed
    assert "is running at" in tbhub(hub, "start", place.uri, "--no-browser", "--no-strict")
    place.disconnect(hub)
    place.connect(hub)
    up = hub.wait_for(new["id"], "RUNNING")
    assert (up["problem"], up["message"]) == ("", "")
    root = f"/boards/{new['id'][:8]}"
    eventually(lambda: set(hub.json("GET", f"{root}/data/runs")) == {"a", "b/train"})
    findings = hub.json("GET", f"/api/v1/boards/{new['id']}/doctor")["findings"]
    (source,) = [each["text"] for each in findings if each["subject"] == "source"]
    assert "credentials: sent by the hub (access_key_id, endpoint, secret_access_key)" in source
    assert weed.SECRET not in json.dumps(findings)


def test_a_board_whose_credentials_are_removed_waits_and_logs_why(
    hub: HubProcess, place: Place
) -> None:
    with place.writer("a") as writer:
        writer.add_scalar("loss", 1.0, 1)
    place.send("a")
    place.connect(hub)
    board = hub.create_board(uris=[place.uri])["id"]
    hub.wait_for(board, "RUNNING")

    def logged() -> list[str]:
        lines = hub.json("GET", f"/api/v1/boards/{board}/logs")["lines"]
        return [
            line["text"] for line in lines if place.uri in line["text"] or "data" in line["text"]
        ]

    place.disconnect(hub)
    waits = hub.wait_for(board, "WAITING")
    assert waits["message"].startswith(f"{place.uri} cannot be read: ")
    (gone,) = logged()[-1:]
    assert gone.startswith(f"there is no data any more. {place.uri} cannot be read: ")
    place.connect(hub, secret_access_key="wrong")
    refused = f"{place.uri} cannot be read: the credentials are not accepted"
    eventually(lambda: logged()[-1].startswith(refused))
    place.disconnect(hub)
    place.connect(hub)
    hub.wait_for(board, "RUNNING")
    eventually(lambda: logged()[-1] == "data is there; is running")


def test_a_running_board_reports_that_its_bucket_cannot_be_read_at_the_moment(
    hub: HubProcess, place: Place, proxy: FaultProxy
) -> None:
    with place.writer("a") as writer:
        writer.add_scalar("loss", 1.0, 1)
    place.send("a")
    place.connect(hub, endpoint=proxy.url)
    board = hub.create_board(uris=[place.uri])["id"]
    hub.wait_for(board, "RUNNING")

    def problem() -> str:
        return str(hub.json("GET", f"/api/v1/boards/{board}")["problem"])

    def last_line() -> tuple[str, str]:
        line = hub.json("GET", f"/api/v1/boards/{board}/logs")["lines"][-1]
        return line["level"], line["text"]

    proxy.refuse()
    said = eventually(problem)
    assert said.startswith(f"{place.uri} cannot be read: no connection")
    assert "what was read before stays shown. hint: `tbhub storage test weed" in said
    eventually(lambda: last_line() == ("warning", problem()))
    assert hub.json("GET", f"/boards/{board[:8]}/data/runs") == ["a"]
    assert hub.json("GET", f"/api/v1/boards/{board}")["state"] == "RUNNING"
    findings = hub.json("GET", f"/api/v1/boards/{board}/doctor")["findings"]
    levels = {each["subject"]: each["level"] for each in findings}
    assert levels["permission"] == "error"
    (source,) = [each["text"] for each in findings if each["subject"] == "source"]
    assert source.startswith(f"Host local-1 cannot read {place.uri}; it shows 1 run ")
    assert source.endswith(" from connection weed.")
    proxy.heal()
    eventually(lambda: not problem())
    eventually(lambda: last_line() == ("info", "what it shows can be read now"))


def test_a_board_over_runs_reports_one_that_cannot_be_read_beside_others(
    tmp_path: Path, place: Place
) -> None:
    with SummaryWriter(tmp_path / "runs" / "here") as writer:
        writer.add_scalar("loss", 0.0, 1)
    with place.writer("there") as writer:
        writer.add_scalar("loss", 1.0, 1)
    place.send("there")
    with HubProcess(tmp_path / "home", logdirs=tmp_path / "runs") as hub:
        place.connect(hub)
        tbhub(hub, "add", place.uri)
        hub.wait_for_runs(2)
        place.disconnect(hub)
        place.connect(hub, secret_access_key="wrong")
        board = hub.create_board(trials=[run["id"] for run in runs(hub).values()])["id"]

        def problem() -> str:
            return str(hub.json("GET", f"/api/v1/boards/{board}")["problem"])

        said = eventually(problem)
        assert said.startswith(f"{place.uri}/there cannot be read: ")
        assert hub.wait_for(board, "RUNNING")["problem"] == said
        place.disconnect(hub)
        place.connect(hub)
        eventually(lambda: not problem())


def test_create_raises_for_a_bucket_that_answers_late_that_it_cannot_be_read(
    hub: HubProcess, place: Place, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place.writer("here") as writer:
        writer.add_scalar("loss", 1.0, 1)
    proxy.add(Slow(2), times=1)
    place.connect(hub, endpoint=proxy.url, secret_access_key="wrong")
    monkeypatch.setenv("TBHUB_URL", hub.url)
    monkeypatch.setenv("TBHUB_TOKEN", hub.token)
    uris = [place.uri, str(place.directory)]
    with pytest.raises(SourceUnreadable, match=f"{place.uri} cannot be read: "):
        TensorBoard.create(uri=uris)
    with pytest.warns(UserWarning, match="cannot be read"):
        board = TensorBoard.create(uri=uris, strict=False)
    assert board.status == "RUNNING"


def test_storage_by_the_command_line(hub: HubProcess, place: Place) -> None:
    lines = "".join(f"{name}={value}\n" for name, value in place.settings.items())
    said = tbhub(hub, "storage", "add", "team", place.uri, "--stdin", stdin=lines)
    assert said == f"added team for {place.uri}; `tbhub storage test team`\n"
    (listed,) = json.loads(tbhub(hub, "storage", "list", "--json"))
    assert (listed["name"], listed["uri"], listed["workspace"]) == ("team", place.uri, None)
    assert listed["settings"] == sorted(place.settings)
    assert "credentials" in tbhub(hub, "storage", "test", "team")
    wrong = lines.replace(weed.SECRET, "mistaken")
    bad = "storage", "add", "bad", place.uri, "--stdin"
    assert tbhub(hub, *bad, stdin=wrong, code=2) == ""
    assert tbhub(hub, "storage", "--quiet") == "team\n"
    tbhub(hub, *bad, "--no-test", stdin=wrong)
    tested = tbhub(hub, "storage", "test", "bad", code=1)
    assert "BAD" in tested
    assert tbhub(hub, "storage", "remove", "bad") == "removed bad\n"
    assert tbhub(hub, "storage", "remove", "bad", code=3) == ""
    assert tbhub(hub, "storage", "--quiet") == "team\n"
    for text in (said, tested, hub.log):
        assert weed.SECRET not in text
        assert "mistaken" not in text
