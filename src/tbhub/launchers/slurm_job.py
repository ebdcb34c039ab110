"""A host as a job of Slurm's: its command, its script, and what Slurm says of it. No input, no
output.

The script is handed to ``sbatch`` on its standard input. It holds the host's token: Slurm shows a
job's script to its owner and to Slurm's own operators alone, while arguments and comments of a job
can be seen by everybody.
"""

from __future__ import annotations

import json
import shlex
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tbhub.boards.life import Cause
from tbhub.launchers.base import Exited, Running, Starting, Status
from tbhub.launchers.endings import cause_of, exited

if TYPE_CHECKING:
    from tbhub.launchers.slurm import Slurm

_MODULE = "tbhub.boards.host_process"
_SCRIPT = """\
#!/bin/sh
export PATH="${{PATH:-/usr/local/bin:/usr/bin:/bin}}"
export HOME="${{HOME:-$(eval echo ~"$(id -un)")}}"
{exports}
{setup}
exec {python} -P -m {module}
"""
# Why a job waits, as a person would say it; Slurm's own word stands behind it.
_REASONS = {
    "Resources": "until nodes are free",
    "Priority": "behind jobs of higher priority",
    "Dependency": "for jobs it depends on",
    "PartitionDown": "because its partition is down",
    "PartitionInactive": "because its partition is not active",
    "PartitionNodeLimit": "for more nodes than its partition has",
    "PartitionTimeLimit": "for more time than its partition gives",
    "ReqNodeNotAvail": "for nodes that are down, drained or reserved",
    "JobHeldUser": "because it is held",
    "JobHeldAdmin": "because it is held by an administrator",
    "BadConstraints": "for what no node can give",
    "BeginTime": "for the time it is to begin at",
    "Reservation": "for its reservation",
}
_TAKEN = {
    "PREEMPTED": (
        Cause.PREEMPTION,
        "by being preempted: a job of higher priority took its place",
    ),
    "NODE_FAIL": (Cause.NODE_LOST, "because its node failed"),
    "BOOT_FAIL": (Cause.NODE_LOST, "because its node did not boot"),
    "TIMEOUT": (Cause.TIME_LIMIT, "at its job's time limit"),
    "DEADLINE": (Cause.TIME_LIMIT, "at its job's deadline"),
    "REVOKED": (Cause.PREEMPTION, "by being moved to another cluster"),
}
_ENDED = {*_TAKEN, "COMPLETED", "FAILED", "CANCELLED", "OUT_OF_MEMORY"}


@dataclass(frozen=True)
class Job:
    """What Slurm says of a job."""

    id: int
    name: str
    state: str
    reason: str = ""
    exit_code: int = 0
    signal: int = 0
    restarts: int = 0

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it runs or will."""
        return self.state in _ENDED


def job_name(hub: str, host: str) -> str:
    """What a host's job is called, by which it is told from all others."""
    return f"{_prefix(hub)}{host}"


def host_of(hub: str, name: str) -> str | None:
    """The host of a job of this name; none if it is not one of the hub's."""
    prefix = _prefix(hub)
    return name.removeprefix(prefix) if name.startswith(prefix) else None


def _prefix(hub: str) -> str:
    return f"tbhub-{hub}-"


def command(options: Slurm, hub: str, host: str, directory: Path) -> list[str]:
    """How the job is submitted; the script comes on standard input."""
    given = {
        "partition": options.partition,
        "account": options.account,
        "qos": options.qos,
        "time": options.time_limit,
        "mem": options.memory,
    }
    return [
        "sbatch",
        "--parsable",
        # A job that was put back would come up with a token that has been used: the hub starts
        # another one.
        "--no-requeue",
        # Of what sbatch is given, which is little; with less a login shell would be run first.
        "--export=ALL",
        "--gres=none",
        "--nodes=1",
        "--ntasks=1",
        f"--cpus-per-task={options.cpus}",
        f"--job-name={job_name(hub, host)}",
        f"--output={log_path(directory, host)}".replace("%", "%%"),
        "--open-mode=append",
        "--chdir=/",
        *(f"--{name}={value}" for name, value in given.items() if value),
        *options.extra,
    ]


def log_path(directory: Path, host: str) -> Path:
    """Where a host's log is."""
    return directory / f"{host}.log"


def script(options: Slurm, environment: Mapping[str, str]) -> str:
    """What the job runs."""
    variables = {**options.environment, **environment, "TBHUB_HOST_BIND": options.bind}
    if options.connect:
        variables["TBHUB_HOST_CONNECT"] = options.connect
    return _SCRIPT.format(
        exports="\n".join(f"export {name}={shlex.quote(it)}" for name, it in variables.items()),
        setup=options.setup,
        python=shlex.quote(options.python),
        module=_MODULE,
    )


def read_jobs(text: str) -> dict[int, Job]:
    """What ``squeue --json`` prints, by job; of any version of Slurm.

    Raises:
        ValueError: It is not what squeue prints.
    """
    try:
        return {int(each["job_id"]): _job(each) for each in json.loads(text)["jobs"]}
    except (KeyError, TypeError) as error:
        raise ValueError(f"it is not a list of jobs: {error!r}") from error


def _job(told: Mapping[str, Any]) -> Job:
    # Since 23.11 a state is a list (with what else is so: COMPLETING), a number an object.
    states = told["job_state"]
    state = str(states[0] if isinstance(states, list) else states).partition(" ")[0]
    code = told.get("exit_code", 0)
    if isinstance(code, Mapping):
        status, number = _number(code.get("return_code")), _number(code["signal"].get("id"))
    else:
        status, number = (_number(code) >> 8) & 0xFF, _number(code) & 0x7F
    return Job(
        id=int(told["job_id"]),
        name=str(told["name"]),
        state=state,
        reason=str(told.get("state_reason") or ""),
        exit_code=status,
        signal=number,
        restarts=_number(told.get("restart_cnt")),
    )


def _number(told: Any) -> int:
    return int((told.get("number") if isinstance(told, Mapping) else told) or 0)


def status_of(job: Job) -> Status:
    """How a host is whose job Slurm says this of."""
    if job.restarts or job.state in ("REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"):
        return Exited(None, "by being put back into Slurm's queue", Cause.PREEMPTION)
    if job.state == "PENDING":
        return Starting(f"job {job.id} {_waiting(job.reason)}", queued=True)
    if job.state == "CONFIGURING":
        return Starting(f"job {job.id}: its node is made ready", queued=True)
    if job.state in _TAKEN:
        cause, text = _TAKEN[job.state]
        return Exited(None, f"{text} (job {job.id}, {job.state})", cause)
    if job.state == "CANCELLED":
        text = f"by its job {job.id} being cancelled in Slurm (scancel)"
        return Exited(None, text, Cause.CANCELLED)
    if job.state == "OUT_OF_MEMORY":
        text = f"by using more memory than its job {job.id} has; raise the launcher's option memory"
        return Exited(137, text, Cause.OUT_OF_MEMORY)
    if job.has_ended:
        return _exited(job)
    return Running()


def _waiting(reason: str) -> str:
    if reason in ("", "None"):
        return "is in Slurm's queue"
    known = _REASONS.get(reason.partition(",")[0])
    return f"waits in Slurm's queue {known} ({reason})" if known else f"waits ({reason})"


def _exited(job: Job) -> Exited:
    if job.signal:
        name = f"{job.signal}"
        with suppress(ValueError):
            name = signal.Signals(job.signal).name
        code = 128 + job.signal
        return Exited(code, f"by signal {name}", cause_of(code))
    return exited(job.exit_code)
