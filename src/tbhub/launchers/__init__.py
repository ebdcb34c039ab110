"""Where hosts run: each launcher starts, watches and stops the processes that serve boards.

    tbhub.launchers.Slurm(partition="cpu")

The names here are what can be set of each launcher; they are loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tbhub.launchers.docker_container import DockerOptions
    from tbhub.launchers.kubernetes_manifests import Kubernetes
    from tbhub.launchers.local import Local
    from tbhub.launchers.ray_options import Ray
    from tbhub.launchers.slurm import Slurm

_HOMES = {
    "DockerOptions": "tbhub.launchers.docker_container",
    "Kubernetes": "tbhub.launchers.kubernetes_manifests",
    "Local": "tbhub.launchers.local",
    "Ray": "tbhub.launchers.ray_options",
    "Slurm": "tbhub.launchers.slurm",
}

__all__ = ["DockerOptions", "Kubernetes", "Local", "Ray", "Slurm"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tbhub.launchers' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
