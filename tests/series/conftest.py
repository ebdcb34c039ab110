"""Fixtures for tests of series: disks that fill up, and buckets."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.azurite import azurite
from support.buckets import azure_place, no_environment, proxy, s3
from support.seaweedfs import seaweedfs

__all__ = ["azure_place", "azurite", "no_environment", "proxy", "s3", "seaweedfs"]


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts file systems of a given size."""
    mounted: list[Path] = []

    def mount(size: str) -> Path:
        directory = tmp_path / f"disk{len(mounted)}"
        directory.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tbhub-test", str(directory)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"cannot mount a file system here: {done.stderr.strip()}")
        mounted.append(directory)
        return directory

    yield mount
    for directory in mounted:
        subprocess.run(["umount", "-l", str(directory)], check=True)
