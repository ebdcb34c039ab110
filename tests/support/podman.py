"""A real container engine, podman behind Docker's interface: one for each process of tests.

No image is fetched and none is built of the package: the image has nothing but directories, and a
container sees this machine's programs and this environment, read-only, where they are here.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

IMAGE = "localhost/tbhub-test:1"
ROOT = Path(__file__).parents[2]
_CONFIG = """
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
"""
_LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
_DIRECTORIES = ("usr", "etc", "proc", "sys", "dev", "run", "tmp", "root", "var/tmp")
_FILES = {"etc/passwd": "root:x:0:0::/root:/bin/sh\n", "etc/group": "root:x:0:\n"}
_PATIENCE = 60


class Podman:
    """An engine in a directory of its own.

    Attributes:
        url: Where it is, as ``DOCKER_HOST``.
        volumes: What containers need of this machine to run the package.
    """

    def __init__(self) -> None:
        if shutil.which("podman") is None or shutil.which("runc") is None:
            pytest.fail("podman is not installed: apt-get install podman runc netavark")
        self.directory = Path(tempfile.mkdtemp(prefix="tbhub-podman-"))
        self.url = f"unix://{self.directory}/podman.sock"
        (self.directory / "containers.conf").write_text(_CONFIG)
        self._log = (self.directory / "log").open("w+")
        self.volumes = {path: path for path in _seen()}
        self._import()
        self.start()

    def start(self) -> None:
        """Starts the engine's service, where it has been stopped."""
        # The service ends with the tests even if they are killed.
        self.process = subprocess.Popen(
            [
                "setpriv",
                "--pdeathsig",
                "KILL",
                *self._podman("system", "service", "-t", "0"),
                self.url,
            ],
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env=self._environment,
            cwd=self.directory,  # where it leaves a file when memory ran out
        )
        deadline = time.monotonic() + _PATIENCE
        while not (self.directory / "podman.sock").exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self._log.seek(0)
                pytest.fail(f"podman did not start: {self._log.read()}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Stops the service; containers go on."""
        self.process.kill()
        self.process.wait()
        (self.directory / "podman.sock").unlink(missing_ok=True)

    def run(self, *arguments: str) -> str:
        """What a command of podman's answers."""
        done = subprocess.run(
            self._podman(*arguments),
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            env=self._environment,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def inspect(self, container: str) -> dict[str, object]:
        """All that is known of a container."""
        found: dict[str, object] = json.loads(self.run("inspect", container))[0]
        return found

    def close(self) -> None:
        self.run("rm", "--all", "--force", "--time", "0")
        self.stop()
        self._log.close()
        for mount in _mounts_below(self.directory):
            subprocess.run(["umount", "--lazy", mount], check=False)
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, "CONTAINERS_CONF": str(self.directory / "containers.conf")}

    def _podman(self, *arguments: str) -> list[str]:
        places = ("--root", f"{self.directory}/root", "--runroot", f"{self.directory}/run")
        return ["podman", "--log-level", "error", *places, *arguments]

    def _import(self) -> None:
        path = self.directory / "image.tar"
        with tarfile.open(path, "w") as tar:
            for name in _DIRECTORIES:
                entry = tarfile.TarInfo(name)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if "tmp" in name else 0o755
                tar.addfile(entry)
            for name, target in _LINKS.items():
                entry = tarfile.TarInfo(name)
                entry.type, entry.linkname = tarfile.SYMTYPE, target
                tar.addfile(entry)
            for name, text in _FILES.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(text)
                tar.addfile(entry, BytesIO(text.encode()))
        python = Path(sys.executable).parent
        change = f"ENV PATH={python}:/usr/bin:/bin"
        self.run("import", "--quiet", "--change", change, str(path), IMAGE)


def _seen() -> list[str]:
    """The programs of this machine, this environment, and what it is made of."""
    wanted = {"/usr", sys.prefix, sys.base_prefix, str(ROOT), *sys.path}
    found = sorted(each for each in wanted if os.path.isdir(each))
    return [
        each
        for each in found
        if not any(each != other and f"{each}/".startswith(f"{other}/") for other in found)
    ]


def _mounts_below(directory: Path) -> list[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    places = [line.split()[1] for line in lines]
    return sorted((each for each in places if each.startswith(f"{directory}/")), reverse=True)


@pytest.fixture(scope="session")
def podman() -> Iterator[Podman]:
    """An engine with the image of the tests."""
    engine = Podman()
    yield engine
    engine.close()
