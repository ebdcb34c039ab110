"""Processes whose clock is wrong, and may be set while they run."""

from __future__ import annotations

import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


class ShiftedClock:
    """A clock for the processes that are started with its `environment`."""

    def __init__(self, library: Path, directory: Path) -> None:
        self._library = library
        self._file = directory / "clock"
        self.set(0)

    def set(self, seconds: int) -> None:
        """How far ahead it is from now on; negative where it is behind."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("=q", seconds))

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "SHIFTED_CLOCK": str(self._file)}


@pytest.fixture(scope="session")
def clock_library() -> Iterator[Path]:
    """Built with the compiler that the kernel is built with."""
    with tempfile.TemporaryDirectory() as name:
        library = Path(name) / "shifted_clock.so"
        source = Path(__file__).with_suffix(".c")
        command = ["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(source)]
        subprocess.run(command, check=True)
        yield library


@pytest.fixture
def clock(clock_library: Path, tmp_path: Path) -> ShiftedClock:
    """A clock that is right at first."""
    return ShiftedClock(clock_library, tmp_path)
