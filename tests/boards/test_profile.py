"""The profile plugin, where it is installed: in a folder of its own, not for the other tests."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import seaweedfs as weed
from support.buckets import Place, fresh_name
from support.seaweedfs import SeaweedFS
from tbhub import SummaryWriter

PLUGIN = Path(__file__).parents[2] / ".venv-profile"

pytestmark = pytest.mark.profile

TRACE = """
import jax, jax.numpy as jnp, sys
with jax.profiler.trace(sys.argv[1]):
    (jnp.ones((50, 50)) @ jnp.ones((50, 50))).block_until_ready()
"""


@pytest.fixture(scope="module", params=["here", "bucket"])
def url(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, seaweedfs: SeaweedFS
) -> Iterator[str]:
    """A board over a run with a profile, beside one that it does not show."""
    logs = tmp_path_factory.mktemp("logs")
    with SummaryWriter(logs / "shown" / "run1") as writer:
        writer.add_scalar("loss", 1, 1)
    for run in ("shown/run1", "hidden/run2"):
        subprocess.run(
            [sys.executable, "-c", TRACE, str(logs / run)], check=True, capture_output=True
        )
    place, credentials = str(logs / "shown"), {}
    if request.param == "bucket":
        place = f"s3://{weed.BUCKET}/{fresh_name()}-profiles"
        known = {"access_key_id": "everything", "secret_access_key": weed.SECRET}
        Place("s3", place, {**known, "endpoint": seaweedfs.url}).upload(logs / "shown")
        credentials = {f"AWS_{name.upper()}": value for name, value in known.items()}
        credentials["AWS_ENDPOINT_URL"] = seaweedfs.url
    process = subprocess.Popen(
        [
            *(str(Path(sys.executable).parent / "tbhub"), "view", place),
            *("--port", "0", "--json", "--no-cache"),
        ],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **credentials, "PYTHONPATH": str(PLUGIN)},
    )
    assert process.stdout is not None
    yield json.loads(process.stdout.readline())["url"] + f"?{logs}"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)


def get(url: str, path: str) -> tuple[int, bytes]:
    base = url.partition("?")[0]
    try:
        with urllib.request.urlopen(base + "data/plugin/profile/" + path, timeout=60) as answer:
            data = answer.read()
            return answer.status, gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_profiles_of_the_board_are_shown(url: str) -> None:
    base = url.partition("?")[0]
    with urllib.request.urlopen(base + "data/plugins_listing", timeout=60) as answer:
        assert json.load(answer)["profile"]["enabled"]
    (session,) = json.loads(get(url, "runs")[1])
    assert session.startswith("run1/")
    tools = json.loads(get(url, f"run_tools?run={session}")[1])
    assert "overview_page" in tools
    (host,) = json.loads(get(url, f"hosts?run={session}&tag=overview_page")[1])
    status, data = get(url, f"data?run={session}&tag=overview_page&host={host['hostname']}")
    assert status == 200
    assert b"cols" in data


def test_a_request_names_no_directory(url: str) -> None:
    hidden = Path(url.partition("?")[2]) / "hidden" / "run2"
    sessions = list((hidden / "plugins" / "profile").iterdir())
    assert sessions  # there is something to be found
    for query in (f"run_path={hidden}", f"session_path={sessions[0]}"):
        assert all(run.startswith("run1/") for run in json.loads(get(url, f"runs?{query}")[1]))
        status, _ = get(url, f"run_tools?run={sessions[0].name}&{query}")
        assert 400 <= status < 500
    status, _ = get(url, f"run_tools?run=../hidden/run2/{sessions[0].name}")
    assert 400 <= status < 500


@pytest.mark.parametrize("route", ["capture_profile", "generate_cache"])
def test_nothing_is_written(url: str, route: str) -> None:
    status, reason = get(url, f"{route}?service_addr=localhost:1")
    assert status == 403
    assert b"board" in reason
