"""A real Ray: one for each process of tests, and only if one of them asks for it.

Its nodes are processes of this machine. The head has two processors and the label ``zone=a``; tests
add what else they need. Everything is at addresses of loopback, on ports that nobody has, below a
directory of its own: other clusters may be here.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support.hub import PATIENCE
from support.launcher_contract import Engine
from support.ports import free_port
from tbhub.hub.home import Home
from tbhub.launchers.base import Launcher, Site
from tbhub.launchers.ray import RayLauncher
from tbhub.launchers.ray_link import Link
from tbhub.launchers.ray_options import Ray

_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_num_prestart_python_workers": "0",
    "RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S": "15",
    # A node that is lost is missed within five seconds instead of fifteen.
    "RAY_health_check_period_ms": "1000",
}


class RayCluster:
    """A cluster.

    Attributes:
        address, client: Where it is, for nodes and from outside.
        directory: As ``RAY_TMPDIR`` it makes it the one that ``auto`` finds.
        link: A connection that tests share: each takes seconds.
    """

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="tbhub-ray-"))
        port = free_port(1)
        self.client = f"ray://127.0.0.2:{port}"
        self._log = (self.directory / "nodes.log").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.ray_nodes", str(port), str(port + 1)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=Path(__file__).parents[1],
            env={**os.environ, **_SETTINGS, "RAY_TMPDIR": str(self.directory)},
        )
        self.address: str = self._answer()
        self.link = Link(self.address, {}, self.directory / "ray.log")

    def tell(self, what: str, given: Any) -> Any:
        """Something of `support.ray_nodes`."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({what: given}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            pytest.fail(f"Ray did not do it: {self._log.read()[-4000:]}")
        return json.loads(line)

    @contextmanager
    def node(self, **given: Any) -> Iterator[str]:
        """A node more, as long as nothing else has ended it; its id."""
        number: str = self.tell("add", given)
        yield number
        self.tell("remove", number)

    def close(self) -> None:
        """Ends all nodes."""
        asyncio.run(self.link.close())
        self._process.communicate(timeout=PATIENCE)
        self._log.close()
        shutil.rmtree(self.directory, ignore_errors=True)


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[RayCluster]:
    """The cluster."""
    cluster = RayCluster()
    yield cluster
    cluster.close()


@dataclass(frozen=True)
class RayEngine(Engine):
    """Asks by the connection that is there."""

    link: Link = field(kw_only=True)

    def ask(self, home: Path, ask: Callable[[Launcher], Any]) -> Any:
        async def answer() -> Any:
            secret = bytes.fromhex((home / "secret").read_text())
            site = Site(Home.id_of(secret), home / "hosts")
            launcher = RayLauncher(site, Ray(**self.options))
            launcher._link = self.link
            async with asyncio.timeout(PATIENCE):
                return await ask(launcher)

        return asyncio.run(answer())
