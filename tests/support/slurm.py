"""A real Slurm: one for each process of tests, and only if one of them asks for it.

Its two nodes are two daemons on this machine. It has no accounting, as many clusters have none.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from support.ports import free_port

_PATIENCE = 60
_CONF = """
ClusterName=two
SlurmctldHost={name}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CryptoType=crypto/munge
AuthInfo=socket={directory}/munge.sock
SlurmctldPort={controller}
StateSaveLocation={directory}/ctld
SlurmdSpoolDir={directory}/%n
SlurmctldPidFile={directory}/ctld.pid
SlurmdPidFile={directory}/%n.pid
SlurmctldLogFile={directory}/ctld.log
SlurmdLogFile={directory}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000,bf_interval=1
KillWait=3
OverTimeLimit=0
NodeName=DEFAULT CPUs=2 RealMemory=1000 State=UNKNOWN
NodeName=n1 NodeHostname={name} NodeAddr=127.0.0.1 Port={first}
NodeName=n2 NodeHostname={name} NodeAddr=127.0.0.1 Port={second}
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=9 PreemptMode=OFF
"""


class Slurm:
    """A controller and two nodes; `SLURM_CONF` of this process names it while it runs."""

    def __init__(self) -> None:
        for program in ("slurmctld", "slurmd", "munged"):
            if shutil.which(program) is None:
                pytest.fail("Slurm is not installed: apt-get install slurm-wlm munge")
        self.directory = Path(tempfile.mkdtemp(prefix="tbhub-slurm-"))
        self._processes: list[subprocess.Popen[bytes]] = []
        self.conf = self.directory / "slurm.conf"
        controller = free_port(1, 2)
        first, second = controller + 1, controller + 2
        name = socket.gethostname().partition(".")[0]
        self.conf.write_text(
            _CONF.format(
                name=name,
                directory=self.directory,
                controller=controller,
                first=first,
                second=second,
            )
        )
        for each in ("ctld", "n1", "n2"):
            (self.directory / each).mkdir()
        key = self.directory / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        files = {"key": key, "socket": "munge.sock", "pid": "munged.pid", "seed": "munge.seed"}
        named = [f"--{kind}-file={self.directory / file}" for kind, file in files.items()]
        named[1] = f"--socket={self.directory / 'munge.sock'}"
        self._start("munged", "--foreground", "--force", *named)
        self._until((self.directory / "munge.sock").exists, "munged")
        self.environment = {"SLURM_CONF": str(self.conf)}
        os.environ.update(self.environment)
        self._start("slurmctld", "-D", "-f", str(self.conf))
        self._until(lambda: self.run("scontrol", "ping", check=False) == 0, "slurmctld")
        for node in ("n1", "n2"):
            self._start("slurmd", "-D", "-f", str(self.conf), "-N", node)
        self._until(lambda: self.ask("sinfo", "-h", "-o", "%t", "-p", "debug") == "idle", "slurmd")

    def _start(self, *command: str) -> None:
        # They end with the tests even if these are killed.
        with (self.directory / f"{command[0]}.out").open("ab") as output:
            self._processes.append(
                subprocess.Popen(
                    ["setpriv", "--pdeathsig", "KILL", *command],
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=self.directory,
                )
            )

    def _until(self, ask: object, what: str) -> None:
        deadline = time.monotonic() + _PATIENCE
        assert callable(ask)
        while not ask():
            if time.monotonic() > deadline:
                said = "".join(
                    path.read_text(errors="replace")[-2000:]
                    for path in self.directory.glob("*.out")
                )
                pytest.fail(f"{what} did not start: {said}")
            time.sleep(0.05)

    def run(self, *command: str, check: bool = True) -> int:
        """A command of Slurm's; its exit code."""
        return subprocess.run(command, check=check, capture_output=True, timeout=60).returncode

    def ask(self, *command: str) -> str:
        """What a command of Slurm's prints."""
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return done.stdout.strip()

    def close(self) -> None:
        """Ends all jobs, then the daemons."""
        self.run("scancel", "--user=root", check=False)
        deadline = time.monotonic() + 10
        while self.ask("squeue", "-h") and time.monotonic() < deadline:
            time.sleep(0.1)
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
                continue
            process.kill()
            process.wait()
        del os.environ["SLURM_CONF"]
        shutil.rmtree(self.directory, ignore_errors=True)


_shared: list[Slurm] = []  # one entry for each fixture that uses the cluster of this process


@pytest.fixture(scope="session")
def slurm() -> Iterator[Slurm]:
    """The cluster, which all packages of tests share that import this fixture."""
    _shared.append(_shared[0] if _shared else Slurm())
    yield _shared[0]
    cluster = _shared.pop()
    if not _shared:
        cluster.close()
