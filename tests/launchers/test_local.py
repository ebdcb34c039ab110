"""Hosts as processes: started, found again by another hub, ended, and their ends known."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from support.conducted import PATIENCE, running
from tbhub.boards.life import Cause
from tbhub.launchers import local
from tbhub.launchers.base import Details, Exited, LaunchError, Running
from tbhub.launchers.local import LocalLauncher


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module that is run in the place of a host's; a test writes it."""
    monkeypatch.setattr(local, "_MODULE", "stand_in_host")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path / "stand_in_host.py"


async def until_ended(launcher: LocalLauncher, details: Details) -> Exited:
    async with asyncio.timeout(PATIENCE):
        while not isinstance(status := await launcher.poll(details), Exited):
            await asyncio.sleep(0.01)
    return status


async def until_printed(launcher: LocalLauncher, details: Details, text: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while text not in await launcher.logs(details, 10):
            await asyncio.sleep(0.01)


async def start(launcher: LocalLauncher, host: str = "local-1", **environment: str) -> Details:
    return await launcher.start(host, {"TBHUB_HOST_ID": host, **environment})


@running
async def test_the_exit_code_and_the_last_lines_are_known(tmp_path: Path, script: Path) -> None:
    script.write_text("import sys\nfor n in range(9): print('line', n)\nsys.exit(7)")
    launcher = LocalLauncher(tmp_path / "hosts")
    details = await start(launcher)
    assert await until_ended(launcher, details) == Exited(7, "with exit code 7")
    assert await launcher.logs(details, 2) == ["line 7", "line 8"]
    assert await launcher.logs(details, 0) == []
    # By another hub, later.
    again = LocalLauncher(tmp_path / "hosts")
    assert await again.poll(details) == Exited(7, "with exit code 7")


@running
async def test_a_host_gets_its_environment_and_no_secret_in_its_arguments(
    tmp_path: Path, script: Path
) -> None:
    script.write_text(
        "import os, sys\n"
        "print(os.environ['TBHUB_HOST_TOKEN'])\n"
        "print(open(f'/proc/{os.getppid()}/cmdline').read().count('hidden'), len(sys.argv))\n"
        "print(os.getcwd(), os.getsid(0) == os.getppid())"
    )
    launcher = LocalLauncher(tmp_path / "hosts")
    details = await start(launcher, TBHUB_HOST_TOKEN="hidden")
    await until_ended(launcher, details)
    assert await launcher.logs(details, 9) == ["hidden", "0 1", "/ True"]
    assert (tmp_path / "hosts" / "local-1.log").stat().st_mode & 0o77 == 0
    assert "hidden" not in str(details)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
@running
async def test_a_killed_host_is_known_by_its_signal(
    tmp_path: Path, script: Path, number: signal.Signals
) -> None:
    script.write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)")
    launcher = LocalLauncher(tmp_path / "hosts")
    details = await start(launcher)
    async with asyncio.timeout(PATIENCE):
        while not (lines := await launcher.logs(details, 1)):
            await asyncio.sleep(0.01)
    assert await launcher.poll(details) == Running()
    os.kill(int(lines[0]), number)
    status = await until_ended(launcher, details)
    assert status.code == 128 + number
    assert number.name in status.reason
    assert status.taken == (number is signal.SIGTERM)


@running
async def test_stopping_asks_first_and_then_kills(
    tmp_path: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_STOP_SECONDS", 0.3)
    launcher = LocalLauncher(tmp_path / "hosts")
    polite = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))"
    stubborn = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    for host, line, code in (("local-1", polite, 3), ("local-2", stubborn, 137)):
        script.write_text(
            f"import signal, sys, time\n{line}\nprint('up', flush=True)\ntime.sleep(600)"
        )
        details = await start(launcher, host)
        await until_printed(launcher, details, "up")
        await launcher.stop(details)
        status = await launcher.poll(details)
        assert isinstance(status, Exited)
        assert status.code == code
        await launcher.stop(details)  # which is no matter


@running
async def test_another_process_of_the_same_number_is_not_the_host(
    tmp_path: Path, script: Path
) -> None:
    script.write_text("")
    launcher = LocalLauncher(tmp_path / "hosts")
    details = await start(launcher)
    await until_ended(launcher, details)
    other = {**details, "pid": os.getpid()}  # which started at another time
    assert isinstance(await launcher.poll(other), Exited)
    await launcher.stop(other)  # and is still there to say so


@running
async def test_a_host_of_an_earlier_boot_is_gone(tmp_path: Path, script: Path) -> None:
    script.write_text("")
    launcher = LocalLauncher(tmp_path / "hosts")
    details = {"host": "local-9", "pid": os.getpid(), "started": 1, "boot": "another"}
    assert await launcher.poll(details) == Exited(
        None, "when the machine was restarted", Cause.NODE_LOST
    )
    await launcher.stop(details)


@running
async def test_a_host_whose_details_were_lost_is_found(tmp_path: Path, script: Path) -> None:
    script.write_text("import time\nprint('up', flush=True)\ntime.sleep(600)")
    launcher = LocalLauncher(tmp_path / "hosts")
    details = await start(launcher)
    await until_printed(launcher, details, "up")
    again = LocalLauncher(tmp_path / "hosts")
    assert await again.find() == {"local-1": details}
    await again.stop(details)
    assert await again.find() == {}
    assert isinstance(await again.poll(details), Exited)


@running
async def test_a_host_whose_shell_was_killed_does_not_live_on(tmp_path: Path, script: Path) -> None:
    script.write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)")
    launcher = LocalLauncher(tmp_path / "hosts")
    details = await start(launcher)
    async with asyncio.timeout(PATIENCE):
        while not (lines := await launcher.logs(details, 1)):
            await asyncio.sleep(0.01)
    os.kill(details["pid"], signal.SIGKILL)
    status = await until_ended(launcher, details)
    assert status.code is None
    async with asyncio.timeout(PATIENCE):
        while local._started(int(lines[0])) is not None:
            await asyncio.sleep(0.01)


@running
async def test_what_cannot_be_started_says_why(tmp_path: Path, script: Path) -> None:
    (tmp_path / "hosts").write_text("a file in its way")
    with pytest.raises(LaunchError, match="cannot be started"):
        await start(LocalLauncher(tmp_path / "hosts"))


@running
async def test_files_of_hosts_long_gone_are_deleted(tmp_path: Path, script: Path) -> None:
    script.write_text("")
    hosts = tmp_path / "hosts"
    hosts.mkdir()
    for number in range(100):
        for kind in ("log", "pid", "exit"):
            (hosts / f"old-{number}.{kind}").write_text("0")
        (hosts / f"killed-{number}.log").write_text("with its shell: it could not say so")
        (hosts / f"killed-{number}.pid").write_text(str(os.getpid()))  # another has its number
    (hosts / "young.log").write_text("just being started")
    os.utime(hosts / "young.log", (0, 0))
    launcher = LocalLauncher(hosts)
    await until_ended(launcher, await start(launcher))
    left = [*hosts.glob("old-*.log"), *hosts.glob("killed-*.log")]
    assert len(left) == len([*hosts.glob("old-*.pid"), *hosts.glob("killed-*.pid")]) == 20
    assert (hosts / "young.log").exists()
