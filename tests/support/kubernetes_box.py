"""A box for a cluster: namespaces of processes, mounts and network that end with the first process.

Whatever a cluster starts, mounts or routes is in there, so that the kernel clears it away, even if
the tests are killed. This machine is at one end of a wire into the box, and reaches what is inside.
"""

from __future__ import annotations

import re
import secrets
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

CGROUPS = Path("/sys/fs/cgroup")
_PATIENCE = 60.0
# What its programs write to whatever they are told; a box has its own.
_OWN = ("/run", "/var/log", "/var/lib")


class Box:
    """Somewhere to run daemons.

    Attributes:
        outside: The address of this machine, as the box has it.
        inside: The address of the box, as this machine has it.
        pods: The network of what runs in it.
        services: A network that is nowhere but in its rules.
        cgroup: The name of its group of processes.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.cgroup = f"tbhub-{secrets.token_hex(4)}"
        net = _free_network()
        self.outside, self.inside = f"{net}.0.1", f"{net}.0.2"
        self.pods, self.services = f"{net}.1.0/24", f"{net}.128.0/24"
        # Who ignores the end of children has no dead ones; those of all others come to the first.
        first = ("env", "--ignore-signal=CHLD", "sleep", "infinity")
        spaces = ("--net", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child")
        self._outer = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", *spaces, *first]
        )
        self._first = self._inner()
        self._wire(net)
        for place in _OWN:
            self.run("mount", "-t", "tmpfs", "tmpfs", place)
        for root in _cgroups():
            (root / self.cgroup).mkdir()
            for name in ("cpuset.cpus", "cpuset.mems"):
                if (root / name).exists():
                    (root / self.cgroup / name).write_text((root / name).read_text())

    def run(self, *command: str) -> str:
        """What a command prints that is run inside."""
        done = subprocess.run(
            [*self._enter, *command], capture_output=True, text=True, timeout=_PATIENCE
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def start(self, name: str, *command: str) -> None:
        """Starts a daemon inside; what it says is in a file by its name."""
        with (self.directory / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [*self._enter, "setpriv", "--pdeathsig", "KILL", *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
            )

    def stop(self, name: str) -> None:
        """Ends a daemon as a crash would."""
        process = self.processes.pop(name)
        process.kill()  # and with it what it has started
        process.wait()

    def close(self) -> None:
        """Ends everything inside."""
        self._outer.kill()
        self._outer.wait()
        for process in self.processes.values():
            process.wait(_PATIENCE)
        deadline = time.monotonic() + _PATIENCE
        for root in _cgroups():
            while (root / self.cgroup).exists() and time.monotonic() < deadline:
                below = [each for each in (root / self.cgroup).rglob("*") if each.is_dir()]
                for each in (*sorted(below, reverse=True), root / self.cgroup):
                    with suppress(OSError):  # its processes are just about to end
                        each.rmdir()
                time.sleep(0.02)

    @property
    def _enter(self) -> list[str]:
        return ["nsenter", f"--target={self._first}", "--net", "--mount", "--pid", "--"]

    def _inner(self) -> int:
        children = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children")
        deadline = time.monotonic() + _PATIENCE
        while self._outer.poll() is None and time.monotonic() < deadline:
            for pid in children.read_text().split():
                if Path(f"/proc/{pid}/comm").read_text().strip() == "sleep":
                    return int(pid)
            time.sleep(0.01)
        pytest.fail("no namespaces can be made here: root is needed, and util-linux")

    def _wire(self, net: str) -> None:
        wire = f"tb-{self.cgroup.removeprefix('tbhub-')}"
        peer = ("peer", "name", "node", "netns", str(self._first))
        _ip("link", "add", wire, "type", "veth", *peer)
        _ip("address", "add", f"{self.outside}/30", "dev", wire)
        _ip("link", "set", wire, "up")
        _ip("route", "add", self.pods, "via", self.inside)
        for command in (
            f"address add {self.inside}/30 dev node",
            "link set node up",
            "link set lo up",
            f"route add default via {self.outside}",
        ):
            self.run("ip", *command.split())
        self.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=_PATIENCE)
    assert done.returncode == 0, f"ip {arguments}: {done.stderr}"
    return done.stdout


def _free_network() -> str:
    """The first half of addresses that nobody has here."""
    routes = _ip("route", "show", "table", "all")
    for number in secrets.SystemRandom().sample(range(100, 250), 150):
        if not re.search(rf"\b10\.{number}\.", routes):
            return f"10.{number}"
    pytest.fail("no network is free")


def _cgroups() -> list[Path]:
    """Where groups of processes are made: one place for each controller, or one for all."""
    found = [each for each in CGROUPS.iterdir() if (each / "cgroup.clone_children").exists()]
    return found or [CGROUPS]
