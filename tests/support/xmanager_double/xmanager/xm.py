"""Jobs, executables and what they need."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class JobRequirements:
    """What a job asks for: ``JobRequirements(t4=2)``."""

    resources: dict[str, int]

    def __init__(self, **resources: int) -> None:
        self.resources = resources


@dataclass
class ModuleName:
    module_name: str


@dataclass
class PythonContainer:
    entrypoint: ModuleName
    path: str = "."
    base_image: str = ""


@dataclass
class Packageable:
    executable_spec: PythonContainer
    executor_spec: object
    args: dict[str, Any] = field(default_factory=dict)


@dataclass
class Job:
    executable: PythonContainer
    executor: Any
    args: dict[str, Any] = field(default_factory=dict)
    name: str | None = None
