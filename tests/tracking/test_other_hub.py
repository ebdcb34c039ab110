"""Files of a run of one hub never become those of another hub's run of the same number."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tbhub
from support.hub import HubProcess
from support.ports import free_port
from tbhub.publisher.spool import all_spools
from tracking.test_command import known, python, run
from tracking.test_resume import CLOSE, TRAIN, WAIT, killed, steps


@pytest.fixture
def other_hub(tmp_path: Path) -> Iterator[HubProcess]:
    with HubProcess(tmp_path / "other-hub", port=free_port()) as hub:
        yield hub


def use(hub: HubProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TBHUB_URL", hub.url)
    monkeypatch.setenv("TBHUB_TOKEN", hub.token)


def test_sync_publishes_to_the_hub_of_the_run_only(
    hub: HubProcess, other_hub: HubProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed("run", "--name", "mine", *python(TRAIN + WAIT))
    (spool,) = all_spools()
    with tbhub.SummaryWriter(spool.directory / "late") as writer:
        writer.add_scalar("late", 1.0, 1)
    for number in (0, 1):  # without a run of that number, and with one
        use(other_hub, monkeypatch)
        if number:
            assert run("run", "--name", "theirs", *python(TRAIN + CLOSE)).returncode == 0
        for options in ((), ("--discard", "--yes")):
            refused = run("sync", *options)
            assert refused.returncode == 1
            assert f"files of run 1 of another hub, {hub.url}" in refused.stdout
            assert f"hint: TBHUB_URL={hub.url} tbhub sync" in refused.stdout
            assert [each.name for each in all_spools()] == [spool.name]
    assert (known(other_hub)["name"], steps(other_hub)) == ("theirs", list(range(5)))
    use(hub, monkeypatch)
    assert run("sync").returncode == 0
    assert tbhub.load(hub.home / "files" / "1")["late"].scalars["late"].steps.tolist() == [1]


def test_a_new_hub_at_the_same_address_does_not_get_the_files_of_the_old_one(
    hub: HubProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed("run", "--name", "mine", *python(TRAIN + WAIT))
    (spool,) = all_spools()
    hub.stop()
    with HubProcess(tmp_path / "new-hub", port=hub.settings["port"]) as new:
        use(new, monkeypatch)
        assert new.url == hub.url
        assert run("run", "--name", "theirs", *python(TRAIN + CLOSE)).stdout == "from 0\n"
        again = run("run", "--resume", "theirs", *python(TRAIN + CLOSE))
        assert again.stdout == "from 5\n", again.stderr
        assert steps(new) == list(range(10))
        refused = run("sync")
        assert refused.returncode == 1
        assert "of the hub that was at" in refused.stdout
        assert [each.name for each in all_spools()] == [spool.name]
