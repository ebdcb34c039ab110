"""The process that talks to Ray, where it fails; in its place are some that fail in a named way."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from support.conducted import PATIENCE, running
from support.ports import free_port
from tbhub.launchers import ray_link
from tbhub.launchers.base import LaunchError, Site
from tbhub.launchers.ray import RayLauncher
from tbhub.launchers.ray_link import Link
from tbhub.launchers.ray_options import Ray

HEAD = "import json, os, sys, time\nsys.stdin.readline()\n"
SAY = "def say(it): print(json.dumps(it), flush=True)\n"
CONNECTED = f"{HEAD}{SAY}say({{'connected': True}})\n"
ECHO = "for line in sys.stdin:\n    it = json.loads(line)\n    "
ANSWERING = f"{CONNECTED}{ECHO}say({{'id': it['id'], 'answer': it['with']}})\n"
REFUSING = f"{CONNECTED}{ECHO}say({{'id': it['id'], 'error': 'no'}})\n"
HANGING = f"{CONNECTED}time.sleep(600)\n"
UNREACHED = f"{HEAD}{SAY}say({{'failed': 'nobody there'}})\nsys.exit(1)\n"
CRASHING = f"{CONNECTED}sys.stdin.readline()\nos._exit(9)\n"
BLOCKED = f"{CONNECTED}import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + (
    f"{ECHO}say({{'id': it['id'], 'answer': os.getpid()}})\ntime.sleep(600)\n"
)

Make = Callable[[str], Link]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Links to a stand-in."""
    links: list[Link] = []
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("TBHUB_SECRET", "hidden")
    monkeypatch.setattr(ray_link, "_MODULE", "stand_in_agent")

    def made(script: str) -> Link:
        (tmp_path / "stand_in_agent.py").write_text(script)
        links.append(Link("10.0.0.1:6379", {}, tmp_path / "hosts" / "ray.log"))
        return links[-1]

    yield made
    for each in links:
        asyncio.run(each.close())


async def refusal(ask: Awaitable[object]) -> str:
    """What is said instead of an answer."""
    try:
        await ask
    except LaunchError as error:
        return str(error)
    raise AssertionError("it was answered")


@running
async def test_answers_come_to_who_asked(make: Make) -> None:
    link = make(ANSWERING)
    asked = [link.ask("poll", name=str(number)) for number in range(20)]
    assert await asyncio.gather(*asked) == [{"name": str(number)} for number in range(20)]


def test_it_may_be_asked_from_one_event_loop_after_the_other(make: Make) -> None:
    link = make(ANSWERING)
    for _ in range(2):
        assert asyncio.run(link.ask("find", prefix="x")) == {"prefix": "x"}


@running
async def test_what_ray_refuses_is_said(make: Make) -> None:
    assert await refusal(make(REFUSING).ask("start")) == "Ray at 10.0.0.1:6379: no"


@running
async def test_a_cluster_that_hangs_holds_up_who_asks_and_not_for_long(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_link, "_ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(ray_link, "_CONNECT_SECONDS", 0.3)
    link = make(HANGING)
    said = await refusal(link.ask("poll"))
    assert said == "Ray at 10.0.0.1:6379 did not answer within 0.3 s"


@running
async def test_who_does_not_wait_any_more_is_no_matter(make: Make) -> None:
    link = make(ANSWERING)
    asked = asyncio.ensure_future(link.ask("poll"))
    await asyncio.sleep(0)
    asked.cancel()
    assert await link.ask("poll", a=1) == {"a": 1}


@running
async def test_a_cluster_that_cannot_be_reached_is_not_tried_all_the_time(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    link = make(UNREACHED)
    expected = "Ray at 10.0.0.1:6379 cannot be reached: nobody there"
    monkeypatch.setattr(ray_link, "_PAUSE_SECONDS", 600)
    assert await refusal(link.ask("poll")) == expected
    (tmp_path / "stand_in_agent.py").write_text(ANSWERING)
    assert await refusal(link.ask("poll")) == expected
    monkeypatch.setattr(ray_link, "_PAUSE_SECONDS", 0)
    assert await link.ask("poll", a=1) == {"a": 1}


@running
async def test_one_that_crashes_is_replaced(make: Make, tmp_path: Path) -> None:
    link = make(CRASHING)
    said = await refusal(link.ask("poll"))
    assert said.endswith("cannot be reached: the process that talks to it ended with code 9")
    (tmp_path / "stand_in_agent.py").write_text(ANSWERING)
    assert await link.ask("poll", a=1) == {"a": 1}


@running
async def test_one_that_does_not_end_is_killed(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_link, "_END_SECONDS", 0.2)
    link = make(BLOCKED)
    pid = await link.ask("poll")
    environment = Path(f"/proc/{pid}/environ").read_bytes()
    assert b"hidden" not in environment  # nothing of the hub's settings
    await link.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    await link.close()  # which is no matter


@running
async def test_it_ends_with_its_hub(make: Make, tmp_path: Path) -> None:
    code = (
        "import asyncio, os, sys\nfrom pathlib import Path\nfrom tbhub.launchers import ray_link\n"
        "ray_link._MODULE = 'stand_in_agent'\n"
        "link = ray_link.Link('10.0.0.1:6379', {}, Path(sys.argv[1]))\n"
        "print(asyncio.run(link.ask('pid')), flush=True)\nimport time; time.sleep(600)\n"
    )
    make(f"{CONNECTED}{ECHO}say({{'id': it['id'], 'answer': os.getpid()}})\n")
    hub = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, str(tmp_path / "ray.log"), stdout=asyncio.subprocess.PIPE
    )
    assert hub.stdout is not None
    agent = int(await hub.stdout.readline())
    hub.send_signal(signal.SIGKILL)
    await hub.wait()
    async with asyncio.timeout(PATIENCE):
        while Path(f"/proc/{agent}").exists() and "Z" not in state(agent):
            await asyncio.sleep(0.02)


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


@running
async def test_where_nobody_listens_that_is_said_soon(tmp_path: Path) -> None:
    for scheme in ("", "ray://"):
        address = f"{scheme}127.0.0.1:{free_port()}"
        launcher = RayLauncher(Site("0123456789ab", tmp_path), Ray(address=address))
        try:
            for ask in (launcher.find(), launcher.poll({"host": "ray-1", "actor": "0" * 32})):
                said = await refusal(ask)
                assert said == f"Ray at {address} cannot be reached: [Errno 111] Connection refused"
        finally:
            await launcher.close()
