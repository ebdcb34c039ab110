"""What reading logs costs, every point kept."""

from __future__ import annotations

import mmap
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.corpus import corpus
from benchmarks.measure import Row, in_process, in_turns, time_text


def read_with_tbhub(logdir: str) -> dict[str, float]:
    """tbhub.load, crc checked; CPU time of the second of two loads, peak and held memory.

    The first load also pays for memory that the machine itself has never touched.
    """
    import tbhub

    before = _resident()
    for _ in range(2):
        wall, cpu = time.perf_counter(), time.process_time()
        runs = tbhub.load(logdir)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        points = sum(len(series) for run in runs.values() for series in run.scalars.values())
        held = _resident() - before
        del runs
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"cpu": cpu, "wall": wall, "points": points, "peak": peak, "held": held}


def read_with_rust(logdir: str) -> dict[str, float]:
    """TensorBoard's data server, told to keep every point, until its first load is done."""
    import tensorboard_data_server

    with tempfile.TemporaryDirectory() as directory:
        begin = time.perf_counter()
        server = subprocess.Popen(
            [
                tensorboard_data_server.server_binary(),
                f"--logdir={logdir}",
                "--port=0",
                f"--port-file={directory}/port",
                "--reload=once",
                "--samples-per-plugin=scalars=all",
                "--verbose",
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert server.stderr is not None
        for line in server.stderr:
            if "Finished load cycle" in line:
                break
        wall = time.perf_counter() - begin
        server.kill()
        _, _, usage = os.wait4(server.pid, 0)
    return {
        "cpu": usage.ru_utime + usage.ru_stime,
        "wall": wall,
        "peak": usage.ru_maxrss * 1024,
    }


def read_with_python(logdir: str) -> dict[str, float]:
    """TensorBoard's Python reader, told to keep every point."""
    from tensorboard.backend.event_processing import event_accumulator

    everything = dict.fromkeys(event_accumulator.DEFAULT_SIZE_GUIDANCE, 0)
    start = time.process_time()
    kept = []
    for run in sorted(os.listdir(logdir)):
        reader = event_accumulator.EventAccumulator(f"{logdir}/{run}", size_guidance=everything)
        reader.Reload()
        kept.append(reader)
    return {"cpu": time.process_time() - start}


def decode_bytes(logdir: str) -> dict[str, float]:
    """CPU time to read() every byte of a tree, and to load it, on one thread: the best of three.

    The best, because the row compares with what the machine can do, with the files in memory.
    """
    from tbhub._kernel import Decoder

    files = [str(path) for path in Path(logdir).rglob("*tfevents*")]
    size = sum(map(os.path.getsize, files))
    buffer = mmap.mmap(-1, 256 << 10)  # page-aligned: elsewhere read() may be four times slower
    best_read = best_decoded = float("inf")
    for _ in range(3):
        start = time.process_time()
        for path in files:
            with open(path, "rb", buffering=0) as file:
                while file.readinto(buffer):
                    pass
        best_read = min(best_read, time.process_time() - start)
        start = time.process_time()
        kept = []
        for path in files:
            decoder = Decoder()
            decoder.read_file(path)
            kept.append(decoder.drain())
        best_decoded = min(best_decoded, time.process_time() - start)
        del kept
    return {"read": size / best_read, "decode": size / best_decoded}


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def _say_about(say: Callable[[str], None], name: str, text: str) -> None:
    say(f"{name}: {text}")


def rows(repeats: int, slow_repeats: int, say: Callable[[str], None]) -> Iterator[Row]:
    """The reading half of the table."""
    sizes = {
        "100 runs × 5 tags × 50 k": (100, 5, 50_000),
        "1,000 runs × 10 tags × 2 k": (1000, 10, 2000),
    }
    goals = {("simple", 100): 15, ("tf2", 100): 25, ("simple", 1000): 10, ("tf2", 1000): 10}
    styles = {"simple": "`simple_value`", "tf2": "TF2 tensors"}
    for size_text, (runs, tags, points) in sizes.items():
        for style, style_text in styles.items():
            logdir = str(corpus(style, runs, tags, points, say))
            name = f"{style} {size_text}"
            work = f"load {size_text}, {style_text}"
            say_about = partial(_say_about, say, name)
            mine = in_turns(
                {"tbhub": partial(in_process, read_with_tbhub, logdir)},
                repeats,
                say_about,
            )["tbhub"]
            rust = in_turns(
                {"Rust server": partial(read_with_rust, logdir)},
                slow_repeats,
                say_about,
            )["Rust server"]
            goal = goals[style, runs]
            ratio = rust["cpu"] / mine["cpu"]
            yield Row(
                work,
                f"{time_text(mine['cpu'])} CPU, {time_text(mine['wall'])}",
                "Rust data server",
                f"{time_text(rust['cpu'])} CPU, {time_text(rust['wall'])}",
                f"{ratio:.0f}×",
                f"≥ {goal}×",
                ratio >= goal,
            )
            per_point = mine["held"] / mine["points"]
            yield Row(
                f"memory held, {size_text}, {style_text}",
                f"{per_point:.1f} bytes/point, peak {mine['peak'] / 1e6:.0f} MB",
                "Rust data server",
                f"peak {rust['peak'] / 1e6:.0f} MB",
                f"{rust['peak'] / mine['peak']:.1f}×",
                "≤ 24 bytes/point",
                per_point <= 24,
            )
            if runs == 100:
                tenth = str(corpus(style, 10, tags, points, say))
                say(f"{name}: Python reader on a tenth (takes minutes)")
                python_reader = in_process(read_with_python, tenth)
                ratio = python_reader["cpu"] * 10 / mine["cpu"]
                yield Row(
                    work,
                    f"{time_text(mine['cpu'])} CPU",
                    "Python `EventAccumulator` (a tenth × 10)",
                    f"{time_text(python_reader['cpu'] * 10)} CPU",
                    f"{ratio:.0f}×",
                    "≥ 300×",
                    ratio >= 300,
                )


def speed_rows(repeats: int, say: Callable[[str], None]) -> Iterator[Row]:
    """How far decoding is from the physical limit."""
    logdir = str(corpus("simple", 100, 5, 50_000, say))
    speeds = in_turns({"bytes/s": partial(in_process, decode_bytes, logdir)}, repeats, say)[
        "bytes/s"
    ]
    share = speeds["decode"] / speeds["read"]
    yield Row(
        "bytes/s of one core, decoded and crc checked",
        f"{speeds['decode'] / 1e9:.2f} GB/s",
        "`read()` into a reused buffer",
        f"{speeds['read'] / 1e9:.2f} GB/s",
        f"1/{1 / share:.1f}",
        "≥ 1/5",
        share >= 0.2,
    )
