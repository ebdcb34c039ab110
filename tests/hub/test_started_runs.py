"""Runs that workers start, go on with and end, through a real hub on both databases."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support.hub import HubProcess, eventually
from tbhub import SummaryWriter


@pytest.fixture
def hub(database_url: str, tmp_path: Path) -> Iterator[HubProcess]:
    with HubProcess(tmp_path / "home", database=database_url, auth="users") as hub:
        yield hub


@pytest.fixture
def hasty(database_url: str, tmp_path: Path) -> Iterator[HubProcess]:
    """A hub that gives workers a second to be heard of."""
    with HubProcess(tmp_path / "home", database=database_url, heartbeat_timeout=1) as hub:
        yield hub


def start(hub: HubProcess, token: str | None = None, **new: Any) -> dict[str, Any]:
    found: dict[str, Any] = hub.json("POST", "/api/v1/runs", token, json=new)
    return found


def refused(hub: HubProcess, token: str | None = None, **new: Any) -> tuple[int, str]:
    answer = hub.ask("POST", "/api/v1/runs", token, json=new)
    error = answer.json()["error"]
    return answer.status_code, f"{error['code']}: {error['message']}"


def say(hub: HubProcess, run: int, what: str, **told: Any) -> tuple[int, Any]:
    answer = hub.ask("POST", f"/api/v1/runs/{run}/{what}", json=told)
    return answer.status_code, answer.json()


def status(hub: HubProcess, run: int) -> str:
    return str(hub.json("GET", f"/api/v1/runs/{run}")["status"])


def test_a_run_is_started_once_and_ends(hub: HubProcess) -> None:
    details = {"git": {"commit": "abc", "dirty": True}, "packages": ["a==1"]}
    new = {
        "experiment": "res/net",
        "hparams": {"lr": 0.1, "layers": 3, "on": True},
        "tags": ["a", "b"],
        "note": "hello",
        "command": "python train.py",
        "machine": "box",
        "details": details,
        "job": "new",
        "key": "k1",
    }
    made = start(hub, **new)
    run = made["run"]
    assert made["target"] == f"hub://runs/{run['id']}"
    assert made["attempt"] == run["attempt"] == 1
    assert (run["experiment"], run["status"], run["tags"]) == ("res/net", "running", ["a", "b"])
    assert run["hparams"] == new["hparams"]
    assert start(hub, **new)["run"]["id"] == run["id"]
    assert hub.json("GET", f"/api/v1/runs/{run['id']}/details")["details"] == details
    changed = {"hparams": {"lr": 0.2, "more": "x"}}
    found = hub.json("PATCH", f"/api/v1/runs/{run['id']}", json=changed)
    assert found["hparams"] == {"lr": 0.2, "layers": 3, "on": True, "more": "x"}
    assert say(hub, run["id"], "heartbeat", attempt=1, progress=0.5)[0] == 200
    for _ in range(2):
        ended = say(hub, run["id"], "finish", attempt=1, status="failed", exit_code=3)
        assert ended == (200, {"run": run["id"], "attempt": 1, "status": "failed"})
    found = hub.json("GET", f"/api/v1/runs/{run['id']}")
    assert (found["status"], found["exit_code"], found["progress"]) == ("failed", 3, 0.5)
    assert found["ended"] is not None
    # Whoever is late does not bring it back.
    assert say(hub, run["id"], "heartbeat", attempt=1)[1]["status"] == "failed"


def test_what_is_written_right_after_the_end_is_in_the_metrics(
    hub: HubProcess, tmp_path: Path
) -> None:
    run = start(hub)["run"]["id"]

    def write(tag: str) -> None:
        with SummaryWriter(tmp_path / tag) as writer:
            writer.add_scalar(tag, 1.0, 1)
        (file,) = (tmp_path / tag).iterdir()
        path = f"/api/v1/runs/{run}/files/{tag}/{file.name}?offset=0&attempt=1"
        hub.json("PUT", path, content=file.read_bytes())

    def tags() -> list[str]:
        return sorted(hub.json("GET", f"/api/v1/runs/{run}")["metrics"])

    write("early")
    assert say(hub, run, "finish", attempt=1, status="finished")[0] == 200
    eventually(lambda: tags() == ["early/early"])
    write("late")
    eventually(lambda: tags() == ["early/early", "late/late"])


def test_many_who_ask_with_one_key_get_one_run(hub: HubProcess) -> None:
    together = threading.Barrier(8)

    def ask(_: int) -> int:
        together.wait()
        return int(start(hub, experiment="x", key="same")["run"]["id"])

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(ask, range(8)))) == 1


def test_jobs_and_names(hub: HubProcess) -> None:
    jobs = [start(hub, job=job)["run"]["job"] for job in ("new", "new", "sweep", "sweep")]
    assert jobs[0] != jobs[1] != jobs[2] == jobs[3]
    assert start(hub, job=jobs[0])["run"]["job"] == jobs[0]
    assert refused(hub, job=12345)[0] == 404
    start(hub, name="mine")
    code, text = refused(hub, name="mine")
    assert code == 409
    assert "taken" in text


def test_a_job_called_by_a_number_stays_usable(hub: HubProcess) -> None:
    first = start(hub, job="new")["run"]["job"]
    name = f"job{first + 2}"  # the number that the next job but one would get
    named = start(hub, job=name)["run"]
    sweep = start(hub, job="sweepA")["run"]
    assert f"job{sweep['job']}" != name
    again = start(hub, job=name)["run"]
    assert again["job"] == named["job"]
    for select in (name, f"job:{name}", f"where job = {name}"):
        found = hub.json("GET", "/api/v1/runs", params={"select": select})["runs"]
        assert {run["id"] for run in found} == {named["id"], again["id"]}, select


def test_places_below_a_storage_are_safe_and_unlike(hub: HubProcess, tmp_path: Path) -> None:
    def place(**new: Any) -> str:
        return str(start(hub, storage="s3://bucket/top", **new)["target"])

    assert place(experiment="a b/../c", name="x/y") == "s3://bucket/top/default/a_b/_/c/x_y"
    again = place(experiment="a_b/../c", name="x_y")
    assert again.startswith("s3://bucket/top/default/a_b/_/c/x_y-")
    # What lies below a run is its own.
    assert place(experiment="e", name="r") == "s3://bucket/top/default/e/r"
    assert place(experiment="e/r", name="s").startswith("s3://bucket/top/default/e/r/s-")
    assert start(hub, location=str(tmp_path / "logs"))["target"] == str(tmp_path / "logs")
    for bad in ("relative", "hub://runs/1", "ftp://x", "s3://b/../c"):
        assert refused(hub, location=bad)[0] == 422
    assert refused(hub, location="/a", storage="/b")[0] == 422


def test_a_directory_with_older_files_is_not_given_to_a_new_run(
    hub: HubProcess, tmp_path: Path
) -> None:
    older = tmp_path / "top/default/default/mine"
    older.mkdir(parents=True)
    (older / "events.out.tfevents.1.old").touch()
    started = start(hub, name="mine", storage=str(tmp_path / "top"))
    assert started["target"] == f"{older}-{started['run']['id']}"


def test_places_are_not_anybodys_to_choose(hub: HubProcess, tmp_path: Path) -> None:
    token = hub.create_user("maria")
    hub.json("PUT", "/api/v1/workspaces/default/members/maria", json={"role": "member"})
    logs = tmp_path / "logs"
    logs.mkdir()
    hub.json("POST", "/api/v1/logdirs", json={"path": str(logs)})
    (logs / "out").symlink_to("/etc")
    for place in ("/etc", f"{logs}/../x", f"{logs}x", f"{logs}/out", "s3://b/xy", "s3://b"):
        assert refused(hub, token, location=place)[0] == 403, place
        assert refused(hub, token, storage=place)[0] == 403, place
    start(hub, token, location=f"{logs}/mine")
    new = {"name": "b", "uri": "s3://b/x", "settings": {"access_key_id": "a"}}
    hub.json("POST", "/api/v1/storage", json=new)
    assert start(hub, token, storage="s3://b/x")["target"].startswith("s3://b/x/default/")
    assert start(hub, token)["target"].startswith("hub://runs/")


def test_who_goes_on_fences_off_who_was_before(hub: HubProcess) -> None:
    run = start(hub, name="mine", machine="box")["run"]["id"]
    path = f"/api/v1/runs/{run}/files/a"
    hub.json("PUT", f"{path}?offset=0&attempt=1", content=b"one")
    code, text = refused(hub, resume="mine")
    assert code == 409
    assert "on box was heard of" in text
    second = start(hub, resume="mine", force=True, key="k2", machine="other")
    assert (second["run"]["id"], second["attempt"]) == (run, 2)
    assert start(hub, resume="mine", key="k2")["attempt"] == 2
    for told in (
        say(hub, run, "heartbeat", attempt=1),
        say(hub, run, "finish", attempt=1, status="killed"),
    ):
        assert told[0] == 409
        assert told[1]["error"]["code"] == "fenced"
    late = hub.ask("PUT", f"{path}?offset=3&attempt=1", content=b"two")
    assert (late.status_code, late.json()["error"]["code"]) == (409, "fenced")
    hub.json("PUT", f"{path}?offset=3&attempt=2", content=b"2")
    assert hub.ask("GET", path).content == b"one2"
    assert say(hub, run, "finish", attempt=2, status="finished")[0] == 200
    third = start(hub, resume=str(run))
    assert third["attempt"] == 3
    assert third["run"]["status"] == "running"
    assert third["run"]["exit_code"] is None
    assert refused(hub, resume="none")[0] == 404
    assert refused(hub, resume="all")[0] in (404, 409)


def test_who_is_silent_is_lost_until_heard_of(hasty: HubProcess) -> None:
    hub = hasty
    lost, alive = (start(hub)["run"]["id"] for _ in range(2))

    def is_lost() -> bool:
        assert say(hub, alive, "heartbeat", attempt=1)[1]["status"] == "running"
        return status(hub, lost) == "lost"

    eventually(is_lost)
    assert say(hub, lost, "heartbeat", attempt=1)[1]["status"] == "running"
    eventually(lambda: status(hub, lost) == "lost")
    assert start(hub, resume=str(lost))["attempt"] == 2


def test_what_a_lost_run_has_logged_is_known_when_it_comes(
    hasty: HubProcess, tmp_path: Path
) -> None:
    """Its worker is gone; what publishes for it goes on."""
    run = start(hasty)["run"]["id"]
    eventually(lambda: status(hasty, run) == "lost")
    with SummaryWriter(tmp_path / "log") as writer:
        writer.add_scalar("loss", 2.0, 7)
    (file,) = (tmp_path / "log").iterdir()
    time.sleep(3)  # by then nobody looks at it of their own accord
    hasty.json("PUT", f"/api/v1/runs/{run}/files/{file.name}?offset=0", content=file.read_bytes())
    eventually(lambda: "loss" in hasty.json("GET", f"/api/v1/runs/{run}")["metrics"])
    assert status(hasty, run) == "lost"


def test_a_hub_that_was_away_knows_who_is_lost(hasty: HubProcess) -> None:
    run = start(hasty)["run"]["id"]
    hasty.kill()
    hasty.restart()
    eventually(lambda: status(hasty, run) == "lost")


def test_what_a_run_logs_is_in_the_catalog(hub: HubProcess, tmp_path: Path) -> None:
    run = start(hub, hparams={"lr": 0.5})["run"]["id"]
    for stage in ("train", "test"):
        with SummaryWriter(tmp_path / stage) as writer:
            writer.add_scalar("loss", 2.0, 7)
        (file,) = (tmp_path / stage).iterdir()
        path = f"/api/v1/runs/{run}/files/{stage}/{file.name}?offset=0"
        hub.json("PUT", path, content=file.read_bytes())

    def metrics() -> Any:
        return hub.json("GET", f"/api/v1/runs/{run}")["metrics"]

    eventually(lambda: len(metrics()) == 2)
    assert {tag: each["last"] for tag, each in metrics().items()} == {
        "train/loss": 2.0,
        "test/loss": 2.0,
    }
    board = hub.create_board(trials=[run])
    runs = hub.ask("GET", f"/boards/{board['id'][:8]}/data/runs").json()
    assert len(runs) == 2
    deleted = hub.json("DELETE", f"/api/v1/runs/{run}?files=true")
    assert deleted["files"] == 2
    assert list((hub.home / "files" / str(run)).glob("*")) == []
    assert hub.ask("GET", f"/api/v1/runs/{run}/files").status_code == 404


def test_existing_logs_are_registered_where_they_are(hub: HubProcess, tmp_path: Path) -> None:
    for name in ("a/1", "a/2"):
        with SummaryWriter(tmp_path / "old" / name) as writer:
            writer.add_scalar("loss", 1.0, 1)
    asked = {"uri": str(tmp_path / "old")}
    found = hub.json("POST", "/api/v1/runs/found", json=asked)
    assert (found["runs"], found["new"], found["logdir"]) == (2, 2, None)
    assert hub.json("POST", "/api/v1/runs/found", json=asked)["new"] == 0
    runs = hub.json("GET", "/api/v1/runs")["runs"]
    assert {run["experiment"] for run in runs} == {"a"}
    eventually(lambda: all(r["metrics"] for r in hub.json("GET", "/api/v1/runs")["runs"]))
    hub.json("DELETE", f"/api/v1/runs/{runs[0]['id']}")  # and its files stay: asked for, it is back
    assert hub.json("POST", "/api/v1/runs/found", json=asked)["new"] == 1
    watched = hub.json("POST", "/api/v1/runs/found", json={**asked, "watch": True})
    assert (watched["new"], watched["runs"]) == (0, 2)
    with SummaryWriter(tmp_path / "old" / "b" / "3") as writer:
        writer.add_scalar("loss", 1.0, 1)
    hub.wait_for_runs(3)
    assert hub.ask("POST", "/api/v1/runs/found", json={"uri": "/no/such"}).status_code == 404


def start_with_copies(hub: HubProcess, *directories: Path) -> int:
    """Start a run, and end it once the catalog knows its copies of the directories' event files."""
    run = int(start(hub)["run"]["id"])
    for directory in directories:
        (file,) = directory.iterdir()
        path = f"/api/v1/runs/{run}/files/{directory.name}/{file.name}?offset=0"
        hub.json("PUT", path, content=file.read_bytes())
    eventually(lambda: len(hub.json("GET", f"/api/v1/runs/{run}")["metrics"]) == len(directories))
    say(hub, run, "finish", attempt=1, status="finished")
    return run


def add(hub: HubProcess, place: Path, *, watch: bool = False) -> tuple[int, int]:
    """Register the logs at a place; return how many runs have them, and how many are new."""
    asked = {"uri": str(place), "watch": watch}
    found = hub.json("POST", "/api/v1/runs/found", json=asked)
    return found["runs"], found["new"]


def listed(hub: HubProcess) -> set[int]:
    return {run["id"] for run in hub.json("GET", "/api/v1/runs")["runs"]}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A directory with three directories of event files."""
    for name in ("version_0", "version_1", "other"):
        with SummaryWriter(tmp_path / "logs" / name) as writer:
            writer.add_scalar("loss", 1.0, 1)
    return tmp_path / "logs"


def test_a_directory_that_a_started_run_has_copied_is_added_once_the_run_is_deleted(
    hub: HubProcess, logs: Path
) -> None:
    run = start_with_copies(hub, logs / "version_0", logs / "version_1")
    assert add(hub, logs / "version_0") == (1, 0)
    assert listed(hub) == {run}
    assert add(hub, logs) == (2, 1)
    assert add(hub, logs) == (2, 0)
    hub.json("DELETE", f"/api/v1/runs/{run}")
    assert add(hub, logs / "version_0") == (1, 1)
    assert add(hub, logs) == (3, 1)


def test_a_run_that_is_added_alone_is_in_the_experiment_of_its_siblings(
    hub: HubProcess, logs: Path
) -> None:
    for place in (logs / "version_0", logs):
        add(hub, place)
    found = hub.json("GET", "/api/v1/runs")["runs"]
    assert len(found) == 3
    assert {run["experiment"] for run in found} == {"logs"}


def test_a_deleted_run_comes_back_from_a_watched_directory_only_if_added(
    hub: HubProcess, logs: Path
) -> None:
    run = start_with_copies(hub, logs / "version_0", logs / "version_1")
    assert add(hub, logs, watch=True) == (2, 1)
    deleted = hub.json("DELETE", f"/api/v1/runs?select=trial:{run}&files=true")
    assert (deleted["runs"], deleted["files"]) == (1, 2)
    with SummaryWriter(logs / "new") as writer:
        writer.add_scalar("loss", 1.0, 1)
    assert len(hub.wait_for_runs(2)) == 2
    assert run not in listed(hub)
    assert add(hub, logs)[0] == 4
    assert len(listed(hub)) == 4


def test_the_console_log_is_read_from_its_end(hub: HubProcess) -> None:
    run = start(hub)["run"]["id"]
    log = f"/api/v1/runs/{run}/log"
    assert hub.ask("GET", log).status_code == 404
    text = "".join(f"line {number}\n" for number in range(5000))
    hub.json("PUT", f"/api/v1/runs/{run}/files/console.log?offset=0", content=text.encode())
    found = hub.json("GET", f"{log}?tail=2")
    assert found["text"] == "line 4998\nline 4999\n"
    assert found["offset"] + len(found["text"]) == found["size"] == len(text)
    assert hub.json("GET", f"{log}?tail=0")["text"] == ""
    assert hub.json("GET", f"{log}?tail=100000")["text"] == text


def test_a_job_resumes_or_starts_its_run(hub: HubProcess) -> None:
    job = {"resume_or_start": True, "identity": "slurm-c-7", "key": "start-1"}
    first = start(hub, **job)
    assert (first["attempt"], first["run"]["name"]) == (1, f"run{first['run']['id']}")
    assert start(hub, **job)["attempt"] == 1  # another process of the same start, or a repetition
    code, text = refused(hub, **{**job, "key": "start-2"})
    assert (code, "is running: attempt 1" in text) == (409, True)
    run = first["run"]["id"]
    assert say(hub, run, "finish", attempt=1, status="finished")[0] == 200
    second = start(hub, **{**job, "key": "start-2"})
    assert (second["run"]["id"], second["attempt"], second["run"]["status"]) == (run, 2, "running")
    other = start(hub, **{**job, "identity": "slurm-c-8", "key": "start-3"})
    assert other["run"]["id"] != run


def test_a_job_is_known_by_the_name_of_its_run(hub: HubProcess) -> None:
    run = start(hub, name="mine")["run"]["id"]
    assert say(hub, run, "finish", attempt=1, status="killed")[0] == 200
    found = start(hub, name="mine", resume_or_start=True, key="k")
    assert (found["run"]["id"], found["attempt"]) == (run, 2)
    assert start(hub, name="new", resume_or_start=True, key="l")["attempt"] == 1
    assert refused(hub, resume_or_start=True, key="m")[0] == 422
    assert refused(hub, resume_or_start=True, name="mine", resume="mine")[0] == 422


@pytest.mark.parametrize("job", [{"name": "baseline"}, {"identity": "baseline"}])
def test_a_job_does_not_continue_the_run_of_another_user(
    hub: HubProcess, job: dict[str, str]
) -> None:
    token = hub.create_user("bert")
    hub.json("PUT", "/api/v1/workspaces/default/members/bert", json={"role": "member"})
    run = start(hub, resume_or_start=True, key="k", **job)["run"]["id"]
    assert say(hub, run, "finish", attempt=1, status="killed")[0] == 200
    code, text = refused(hub, token, resume_or_start=True, key="l", **job)
    assert (code, "belongs to" in text, f"--resume '#{run}'" in text) == (409, True, True)
    assert start(hub, token, resume=f"#{run}")["attempt"] == 2


def test_a_job_does_not_continue_a_run_of_another_experiment(hub: HubProcess) -> None:
    run = start(hub, name="baseline", experiment="first")["run"]["id"]
    assert say(hub, run, "finish", attempt=1, status="killed")[0] == 200
    job = {"name": "baseline", "resume_or_start": True}
    code, text = refused(hub, experiment="second", key="k", **job)
    assert (code, "is in the experiment first, not in second" in text) == (409, True)
    assert start(hub, key="l", **job)["attempt"] == 2


@pytest.mark.parametrize("name", ["#5", "trial:5", "Trial:5"])
def test_a_run_is_not_called_by_the_number_of_another(hub: HubProcess, name: str) -> None:
    assert refused(hub, name=name) == (
        422,
        f"bad_request: {name} means the run of this number. hint: choose another name.",
    )
    run = start(hub)["run"]["id"]
    assert hub.ask("PATCH", f"/api/v1/runs/{run}", json={"name": name}).status_code == 422
    assert refused(hub, resume=name)[0] == 404


def test_jobs_that_start_at_the_same_moment_become_one_run(hub: HubProcess) -> None:
    together = threading.Barrier(8)

    def ask(number: int) -> tuple[int, int]:
        together.wait()
        new = {"name": "same", "resume_or_start": True, "key": f"process-{number}"}
        answer = hub.ask("POST", "/api/v1/runs", json=new)
        return answer.status_code, answer.json().get("attempt", 0)

    with ThreadPoolExecutor(8) as threads:
        answers = sorted(threads.map(ask, range(8)))
    assert answers == [(answers[0][0], 1), *[(409, 0)] * 7]
    assert len(hub.json("GET", "/api/v1/runs")["runs"]) == 1


def test_an_attempt_that_is_known_to_have_ended_is_not_waited_for(hub: HubProcess) -> None:
    worker = {"host": "box", "pid": 7}
    start(hub, name="mine", machine="box", details={"worker": worker})
    answer = hub.ask("POST", "/api/v1/runs", json={"resume": "mine"})
    details = answer.json()["error"]["details"]
    assert (answer.status_code, details["attempt"], details["worker"]) == (409, 1, worker)
    assert refused(hub, resume="mine", ended_attempt=2)[0] == 409
    assert start(hub, resume="mine", ended_attempt=1)["attempt"] == 2
    # What was known of the first process says nothing of the second.
    answer = hub.ask("POST", "/api/v1/runs", json={"resume": "mine", "ended_attempt": 1})
    assert answer.json()["error"]["details"]["worker"] is None
