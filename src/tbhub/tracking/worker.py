"""The process that works on a run: what identifies it, and how its death is proven.

A worker's record is stored with its attempt. A client that wants to resume the run reads the record
and states that the attempt has ended only where one of these holds:

- Slurm: the same job has been restarted since, or Slurm reports that the job has ended.
- torchrun: the same elastic job has restarted its workers since.
- This machine: the process is gone (process ids are compared together with start times and within
  one PID namespace), no process of the attempt is left, and no spool of it is being written to.
- This machine has been rebooted since, and has the attempt's spool on its disk.

Everything else proves nothing: hosts with equal names, containers that cannot see each other,
processes of a distributed job on other machines. There the hub's heartbeat timeout decides.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tbhub.publisher.spool import Spool, find_spool, spool_root
from tbhub.tracking.details import hostname
from tbhub.tracking.environment import ATTEMPT, RUN_ID, URL, rank, world_size
from tbhub.tracking.owed import read_known
from tbhub.tracking.process_table import start_time

_PROC = Path("/proc")
_MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_BOOT_ID = _PROC / "sys/kernel/random/boot_id"
_SLURM_TIMEOUT = 10.0  # seconds
# A job in one of these states has processes, or may have.
_SLURM_ALIVE = frozenset(
    {
        *("CONFIGURING", "RUNNING", "SUSPENDED", "STOPPED"),
        *("SIGNALING", "RESIZING", "STAGE_OUT", "COMPLETING"),
    }
)


def this_worker(environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Return the record of this process, as JSON."""
    pid = os.getpid()
    record: dict[str, Any] = {
        "host": hostname(),
        "machine": _machine_id(),
        "boot": _text(_BOOT_ID),
        "namespace": _namespace(),
        "pid": pid,
        "started": start_time(pid),
        "spool": str(spool_root()),
        "processes": world_size(environ),
        "rank": rank(environ),
    }
    if job := environ.get("SLURM_JOB_ID"):
        record["slurm"] = {
            "job": job,
            "cluster": environ.get("SLURM_CLUSTER_NAME", ""),
            "restarts": _number(environ.get("SLURM_RESTART_COUNT", "0")),
        }
    if (elastic := environ.get("TORCHELASTIC_RUN_ID", "none")) != "none":
        record["elastic"] = {
            "run": elastic,
            "restarts": _number(environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
        }
    return record


class Attempt(NamedTuple):
    """An attempt of a run of a hub."""

    url: str
    run: int
    number: int


def death_of(
    worker: Mapping[str, Any], attempt: Attempt, environ: Mapping[str, str] = os.environ
) -> str:
    """Return why the worker of an attempt is known to be dead; empty if it may be alive."""
    try:
        mine = this_worker(environ)
        return (
            _ended_in_slurm(worker.get("slurm") or {}, mine.get("slurm") or {})
            or _ended_by_torchrun(worker.get("elastic") or {}, mine.get("elastic") or {})
            or _ended_here(worker, mine, attempt)
        )
    except (TypeError, ValueError, KeyError, AttributeError, OSError):  # nothing is proven
        return ""


# ------------------------------------------------------------------ Slurm and torchrun


def _ended_in_slurm(worker: Mapping[str, Any], mine: Mapping[str, Any]) -> str:
    if not worker or not mine or worker["cluster"] != mine["cluster"]:
        return ""
    job, restarts = str(worker["job"]), int(worker["restarts"])
    if job == mine["job"]:
        return f"Slurm has requeued job {job}" if mine["restarts"] > restarts else ""
    return _slurm_says(job, restarts)


def _slurm_says(job: str, restarts: int) -> str:
    """Ask Slurm for the state of a job."""
    if not re.fullmatch(r"\d{1,12}", job):
        return ""
    try:
        asked = subprocess.run(
            ["scontrol", "--oneliner", "show", "job", job],
            capture_output=True,
            text=True,
            timeout=_SLURM_TIMEOUT,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    if asked.returncode != 0:
        is_unknown = "invalid job id" in asked.stderr.lower()
        return f"Slurm has no job {job} any more" if is_unknown else ""
    state = re.search(r"\bJobState=([A-Z_]+)", asked.stdout)
    count = re.search(r"\bRestarts=(\d+)", asked.stdout)
    if state is None or count is None:
        return ""
    if int(count[1]) > restarts:
        return f"Slurm has requeued job {job}"
    if state[1] in _SLURM_ALIVE:
        return ""
    return f"Slurm says that job {job} is {state[1].lower()}"


def _ended_by_torchrun(worker: Mapping[str, Any], mine: Mapping[str, Any]) -> str:
    if not worker or not mine or worker["run"] != mine["run"]:
        return ""
    is_later = mine["restarts"] > int(worker["restarts"])
    return f"torchrun has restarted the workers of {mine['run']}" if is_later else ""


# ------------------------------------------------------------------ this machine


def _ended_here(worker: Mapping[str, Any], mine: Mapping[str, Any], attempt: Attempt) -> str:
    if int(worker["processes"]) > 1 or not worker["boot"]:
        return ""
    if (worker["host"], worker["machine"]) != (mine["host"], mine["machine"]):
        return ""
    spools = list(_spools_of(Path(worker["spool"]), attempt))
    if any(spool.is_held() for spool in spools):
        return ""
    if worker["boot"] != mine["boot"]:
        return f"{mine['host']} has been rebooted since" if worker["machine"] and spools else ""
    if worker["namespace"] != mine["namespace"] or not mine["namespace"]:
        return ""
    pid, started = int(worker["pid"]), worker["started"]
    if started is None or start_time(pid) == started or _has_processes(attempt):
        return ""
    return f"its process {pid} on this machine is gone"


def _spools_of(root: Path, attempt: Attempt) -> Iterable[Spool]:
    """List the spools of an attempt; whatever address the hub is known by there."""
    with suppress(FileNotFoundError, NotADirectoryError):
        for path in root.iterdir():
            spool = find_spool(path)
            known = read_known(spool) if spool is not None else None
            if spool and known and (known.run, known.attempt) == (attempt.run, attempt.number):
                yield spool


def _has_processes(attempt: Attempt) -> bool:
    """Whether a command of the attempt is left on this machine, by the environment it was given."""
    given = {URL: attempt.url, RUN_ID: attempt.run, ATTEMPT: attempt.number}
    wanted = {f"{name}={value}".encode() for name, value in given.items()}
    for entry in _PROC.iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if wanted <= set((entry / "environ").read_bytes().split(b"\0")):
                    return True
    return False


def _machine_id() -> str:
    """Return a digest of the machine's id, which is not to be shown."""
    for path in _MACHINE_IDS:
        if found := _text(path):
            return hashlib.sha256(f"tbhub {found}".encode()).hexdigest()[:32]
    return ""


def _namespace() -> int:
    try:
        return os.stat(_PROC / "self/ns/pid").st_ino
    except OSError:
        return 0


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0
