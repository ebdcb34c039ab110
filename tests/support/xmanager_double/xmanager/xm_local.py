"""Executors, and experiments whose jobs run on this machine, one after the other."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from xmanager import xm


@dataclass
class Spec:
    push_image_tag: str | None = None


@dataclass
class DockerOptions:
    ports: dict[int, int] | None = None
    volumes: dict[str, str] | None = None
    mount_gcs_path: bool = True
    interactive: bool = False


@dataclass
class Local:
    requirements: xm.JobRequirements = field(default_factory=xm.JobRequirements)
    docker_options: DockerOptions | None = None
    experimental_stream_output: bool = True
    Spec = Spec


@dataclass
class Kubernetes:
    requirements: xm.JobRequirements = field(default_factory=xm.JobRequirements)
    cloud_provider: str = "GOOGLE_KUBERNETES_ENGINE"
    tpu_capability: object | None = None
    Spec = Spec


@dataclass
class TensorboardCapability:
    name: str
    base_output_directory: str | None = None


@dataclass
class Vertex:
    requirements: xm.JobRequirements = field(default_factory=xm.JobRequirements)
    tensorboard: TensorboardCapability | None = None
    Spec = Spec


class Experiment:
    """Runs its jobs when it ends, as launch scripts wait there."""

    experiment_id = 7

    def __init__(self, experiment_title: str) -> None:
        self.experiment_title = experiment_title
        self._jobs: list[xm.Job] = []

    def package(self, packageables: list[xm.Packageable]) -> list[xm.PythonContainer]:
        return [each.executable_spec for each in packageables]

    def add(self, job: xm.Job) -> None:
        self._jobs.append(job)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for job in self._jobs if error is None else []:
            _run(job)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *ending: Any) -> None:
        self.__exit__(*ending)


def create_experiment(experiment_title: str) -> Experiment:
    return Experiment(experiment_title)


def _run(job: xm.Job) -> None:
    environment = dict(os.environ)
    capability = getattr(job.executor, "tensorboard", None)
    if capability is not None:
        environment["AIP_TENSORBOARD_LOG_DIR"] = f"{capability.base_output_directory}/logs"
    flags = [f"--{name}={value}" for name, value in job.args.items()]
    entry = Path(job.executable.path, f"{job.executable.entrypoint.module_name}.py")
    subprocess.run([sys.executable, str(entry), *flags], env=environment, check=True)
