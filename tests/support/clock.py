"""A process whose clock is wrong: a library that comes before the system's, built on the spot."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_SOURCE = """
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
    long result = syscall(SYS_clock_gettime, clock, now);
    const char *skew = getenv("TEST_CLOCK_SKEW");
    if (result == 0 && clock == CLOCK_REALTIME && skew) now->tv_sec += atol(skew);
    return (int)result;
}
"""


def environment(directory: Path, skew: int) -> dict[str, str]:
    """The environment for a process that is so many seconds ahead."""
    source, library = directory / "skew.c", directory / "skew.so"
    source.write_text(_SOURCE)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    return {**os.environ, "LD_PRELOAD": str(library), "TEST_CLOCK_SKEW": str(skew)}
