"""Fixtures for tests of launchers: the engines they start hosts on."""

from __future__ import annotations

from support.database import sqlite_template
from support.kubernetes_cluster import cluster, own_cluster
from support.podman import podman
from support.ray import ray_cluster
from support.slurm import slurm

__all__ = ["cluster", "own_cluster", "podman", "ray_cluster", "slurm", "sqlite_template"]
