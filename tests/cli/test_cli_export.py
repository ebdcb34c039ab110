"""``tbhub export`` as a person runs it, read back by the programs it is for."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import tbhub
from support import seaweedfs as weed
from support.oracle import event_files, read_scalars, same_points
from support.seaweedfs import SeaweedFS, seaweedfs
from tbhub import SummaryWriter
from tbhub.cli import main
from tbhub.storage.open import open_store

__all__ = ["seaweedfs"]

PROGRAM = "from tbhub.cli.main import main; main()"


class Done(NamedTuple):
    status: int
    out: bytes
    err: str

    @property
    def rows(self) -> list[list[str]]:
        return read_csv(self.out)


Export = Callable[..., Done]


def read_csv(data: bytes) -> list[list[str]]:
    header, *rows = csv.reader(io.StringIO(data.decode(), newline=""))
    assert header == ["run", "tag", "step", "wall_time", "value"]
    return rows


def points(rows: list[list[str]], run: str, tag: str) -> list[tuple[int, float]]:
    return [(int(row[2]), float(row[4])) for row in rows if row[:2] == [run, tag]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Export:
    """Runs the command in this process, up to the exit code."""

    def run_export(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["tbhub", "export", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main.main()
        captured = capfdbinary.readouterr()
        return Done(int(end.value.code or 0), captured.out, captured.err.decode())

    return run_export


def start(*arguments: object, program: str = PROGRAM, **options: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", program, "export", *map(str, arguments)],
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},  # type: ignore[call-overload]
    )


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Three runs of two tags with some thousand points, some of them not finite."""
    random = np.random.default_rng(0)
    for name in ("a", "b/train", "b/test"):
        with SummaryWriter(tmp_path / "logs" / name) as writer:
            for tag in ("loss", "lr/group 0"):
                values = random.standard_normal(3000)
                values[[5, 17, 99]] = np.nan, np.inf, -np.inf
                writer.add_scalars_batch(tag, values, np.arange(3000) * 10)
            writer.add_text("notes", "not a number")
    return tmp_path / "logs"


def assert_is_whole(rows: list[list[str]], logs: Path) -> None:
    """Every point TensorBoard reads, run by run."""
    assert len(rows) == 18_000
    for name in ("a", "b/train", "b/test"):
        expected = read_scalars(logs / name)
        assert len(expected) == 2
        for tag, each in expected.items():
            assert same_points(points(rows, name, tag), each)


def test_csv_to_stdout_is_what_tensorboard_reads(logs: Path, run: Export) -> None:
    done = run(logs)
    assert (done.status, done.err) == (0, "")
    assert_is_whole(done.rows, logs)
    series = tbhub.load(logs)["a"].scalars["loss"]
    times = [float(row[3]) for row in done.rows if row[:2] == ["a", "loss"]]
    assert times == series.wall_times.tolist()
    assert run(logs, "-o", "-").out == done.out


def test_runs_of_a_bucket(
    logs: Path, run: Export, seaweedfs: SeaweedFS, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", seaweedfs.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "everything")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", weed.SECRET)
    uri = f"s3://{weed.BUCKET}/{logs.parent.name}"
    store, top = open_store(uri)
    for file in logs.rglob("*tfevents*"):
        store.put(f"{top}/{file.relative_to(logs)}", file.read_bytes())
    store.close()
    done = run(uri)
    assert (done.status, done.err) == (0, "")
    assert_is_whole(done.rows, logs)
    both = run(f"far:{uri}/a/", logs / "a")
    assert both.status == 0
    assert {row[0] for row in both.rows} == {"far", "."}
    nothing = run(f"{uri}/nothing")
    assert nothing.status == 2
    assert "no event files below" in nothing.err


def test_pandas_reads_the_csv(logs: Path, tmp_path: Path, run: Export) -> None:
    out = tmp_path / "out.csv"
    done = run(logs, "-o", out)
    assert (done.status, done.out) == (0, b"")
    assert done.err == f"wrote 18,000 points of 6 series to {out}\n"
    expected = tbhub.load(logs).to_pandas().astype({"value": np.float64})
    pd.testing.assert_frame_equal(pd.read_csv(out), expected, check_dtype=False, check_exact=True)


@pytest.mark.parametrize("name", ["out.csv.gz", "out.json", "out.JSON", "out.json.gz"])
def test_formats_by_the_name_of_the_file(
    logs: Path, tmp_path: Path, run: Export, name: str
) -> None:
    assert run(logs, "-o", tmp_path / name).status == 0
    data = (tmp_path / name).read_bytes()
    if name.endswith(".gz"):
        data = gzip.decompress(data)
    if "csv" in name:
        return assert_is_whole(read_csv(data), logs)
    rows = [
        [each["run"], each["tag"], str(step), str(time), str(value)]
        for each in json.loads(data)
        for step, time, value in zip(*each["points"].values(), strict=True)
    ]
    return assert_is_whole(rows, logs)


def test_parquet(logs: Path, tmp_path: Path, run: Export) -> None:
    assert run(logs, "-o", tmp_path / "out.parquet").status == 0
    table = pq.read_table(tmp_path / "out.parquet")
    columns = [[str(each) for each in column.to_pylist()] for column in table.columns]
    assert_is_whole([list(row) for row in zip(*columns, strict=True)], logs)
    piped = run(logs, "--format", "parquet")
    assert piped.out == (tmp_path / "out.parquet").read_bytes()


def test_format_goes_before_the_name(logs: Path, tmp_path: Path, run: Export) -> None:
    assert run(logs / "a", "-o", tmp_path / "out.csv", "--format", "json").status == 0
    assert len(json.loads((tmp_path / "out.csv").read_bytes())) == 2


def test_filters_are_searched_for(logs: Path, run: Export) -> None:
    rows = run(logs, "--run", "^b/", "--tag", "l(r|x)/").rows
    assert {(row[0], row[1]) for row in rows} == {
        ("b/test", "lr/group 0"),
        ("b/train", "lr/group 0"),
    }
    assert len(rows) == 6000


def test_downsampled_series_keep_their_extremes(logs: Path, run: Export) -> None:
    rows = run(logs, "--run", "a", "--tag", "loss", "--downsample", "100").rows
    assert 50 < len(rows) <= 100
    whole = [value for _, value in read_scalars(logs / "a")["loss"] if np.isfinite(value)]
    some = [value for _, value in points(rows, "a", "loss") if np.isfinite(value)]
    assert (min(some), max(some)) == (min(whole), max(whole))
    assert run(logs, "--downsample", "0").status == 2


def test_several_paths(logs: Path, run: Export, monkeypatch: pytest.MonkeyPatch) -> None:
    def names(*paths: object) -> list[str]:
        return list(dict.fromkeys(row[0] for row in run(*paths).rows))

    monkeypatch.chdir(logs)
    assert names("a") == ["."]
    assert names("a", "b") == [".", "test", "train"]
    assert names("a", "b/test") == ["a", "test"]
    assert names("a", "a/", "./a") == ["."]
    assert names("new:a", "b") == ["new", "test", "train"]
    assert names("x/y:b", "z:b") == ["x/y/test", "x/y/train", "z/test", "z/train"]
    shutil.copytree("b", "c/b")
    assert names("b", "c/b") == ["logs/b/test", "logs/b/train", "c/b/test", "c/b/train"]
    Path("latest").symlink_to("a")
    assert names("latest", "b/test") == ["latest", "test"]
    Path("latest").unlink()
    # A path that exists wins over a name.
    os.rename("a", "name:a")
    assert names("name:a") == ["."]
    assert names("x:name:a") == ["x"]
    assert names(event_files("name:a")[0]) == ["."]


def test_the_same_name_twice_is_an_error(logs: Path, run: Export) -> None:
    done = run(f"x:{logs / 'a'}", f"x:{logs / 'b' / 'test'}")
    assert done.status == 2
    assert "name their paths apart" in done.err


@pytest.mark.parametrize("name", ["run,1", 'say "hi"', "two\nlines", "naïve", "[red]run[/]"])
def test_hostile_names(tmp_path: Path, run: Export, name: str) -> None:
    with SummaryWriter(tmp_path / name) as writer:
        writer.add_scalar(name, 1, 2)
    assert [row[:3] for row in run(tmp_path).rows] == [[name, name, "2"]]
    done = run(tmp_path, "--tag", "nope")
    assert done.status == 1
    assert done.err.count("\n") == 1


def test_a_directory_whose_name_is_no_text(tmp_path: Path, run: Export) -> None:
    with SummaryWriter(tmp_path / "run") as writer:
        writer.add_scalar("a", 1, 1)
    os.rename(tmp_path / "run", os.fsencode(tmp_path) + b"/run\xff")
    for kind in ("csv", "json", "parquet"):
        assert run(tmp_path, "--format", kind).status == 0
    assert run(tmp_path).rows[0][0] == "run\\xff"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--run", "no run matches 'nope'; there are 3 runs: a, b/test, b/train\n"),
        ("--tag", "no tag matches 'nope'; there are 2 tags: loss, lr/group 0\n"),
    ],
)
def test_nothing_matched(
    logs: Path, tmp_path: Path, run: Export, option: str, message: str
) -> None:
    out = tmp_path / "new" / "out.csv"
    out.parent.mkdir()
    done = run(logs, option, "nope", "-o", out)
    assert (done.status, done.out, done.err) == (1, b"", f"tbhub: {message}")
    assert not any(out.parent.iterdir())
    assert run(logs, option, "nope").out == b""


def test_many_names_are_not_all_listed(tmp_path: Path, run: Export) -> None:
    with SummaryWriter(tmp_path) as writer:
        for number in range(9):
            writer.add_scalar(f"tag{number}", 1, 1)
    assert "9 tags: tag0, tag1, tag2, tag3, tag4, …\n" in run(tmp_path, "--tag", "nope").err


def test_no_scalars(tmp_path: Path, run: Export) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_text("notes", "hello")
    done = run(tmp_path)
    assert done.status == 1
    assert "no scalars in the 2 events of 1 run" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere",), "nowhere does not exist"),
        (("name:nowhere",), "nowhere does not exist"),
        (("./run82",), "./run82 does not exist"),
        (("empty",), "no event files below empty"),
        (("logs", "--tag", "("), "--tag '(' is not a regular expression: missing )"),
        (("logs", "--run", "*"), "--run '*' is not a regular expression: nothing to repeat"),
        (("logs", "-o", "out"), "out does not end in .csv, .json or .parquet; give --format"),
        (("logs", "-o", "out.parquet.gz"), "leave out the .gz"),
        (("logs", "-o", "exists.csv"), "exists.csv: exists already; --force replaces it"),
        (("logs", "-o", "missing/out.csv"), "No such file or directory"),
        (("logs", "-o", "empty", "--format", "csv"), "empty: Is a directory"),
        (("logs", "-o", "/dev/full", "--format", "csv"), "/dev/full: No space left on device"),
        (("logs", "-o", "/dev/full", "--format", "json"), "/dev/full: No space left on device"),
        (("logs", "-o", "/dev/full", "--format", "parquet"), "/dev/full: No space left on"),
    ],
)
def test_errors_are_one_line(
    logs: Path,
    run: Export,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(logs.parent)
    Path("empty").mkdir()
    Path("exists.csv").write_text("precious")
    done = run(*arguments)
    assert done.status == 2
    assert message in done.err
    assert done.err.startswith("tbhub: ")
    assert done.err.count("\n") == 1
    assert Path("exists.csv").read_text() == "precious"
    assert sorted(os.listdir()) == ["empty", "exists.csv", "logs"]


def test_force_replaces_what_a_link_leads_to(logs: Path, tmp_path: Path, run: Export) -> None:
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to("real.csv")
    assert run(logs, "-o", tmp_path / "link.csv").status == 2
    assert run(logs, "-o", tmp_path / "link.csv", "--force").status == 0
    assert (tmp_path / "link.csv").is_symlink()
    assert_is_whole(read_csv((tmp_path / "real.csv").read_bytes()), logs)


def test_parquet_without_pyarrow(
    logs: Path, tmp_path: Path, run: Export, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    done = run(logs, "-o", tmp_path / "out.parquet")
    assert done.status == 2
    assert done.err == "tbhub: parquet needs pyarrow: pip install 'tbhub[parquet]'\n"
    assert os.listdir(tmp_path) == ["logs"]


def test_damage_and_vanished_runs_are_warned_of_once(logs: Path, run: Export) -> None:
    path = Path(event_files(logs / "a")[0])
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    data[5000] ^= 1
    path.write_bytes(data)
    (logs / "gone").mkdir()
    (logs / "gone" / "events.out.tfevents.0").symlink_to("nowhere")
    done = run(logs)
    assert done.status == 0
    assert len(done.rows) == 18_000 - 2
    assert done.err == (
        "tbhub: warning: 2 damaged places in 1 run left out (`tbhub check` lists them); "
        f"1 path could not be read, first {logs}/gone/events.out.tfevents.0: "
        "No such file or directory\n"
    )
    only = run(logs / "gone")
    assert only.status == 2
    assert "No such file" in only.err


def test_files_of_a_run_are_joined_as_load_joins_them(tmp_path: Path, run: Export) -> None:
    for start_step in (0, 50):
        with SummaryWriter(tmp_path, purge_step=start_step) as writer:
            for step in range(start_step, start_step + 100):
                writer.add_scalar("loss", step, step)
    rows = run(tmp_path).rows
    assert points(rows, ".", "loss") == [(step, float(step)) for step in range(150)]


BLOCKED = """
import sys, time
from tbhub.series import file_content
read = file_content.read_content
def read_content(path, advance):
    if "b/train" in path.path:
        print("halfway", flush=True)
        time.sleep(60)
    return read(path, advance)
file_content.read_content = read_content
"""


@pytest.mark.parametrize("name", ["out.csv", "out.json.gz", "out.parquet"])
def test_an_interrupt_leaves_nothing_behind(logs: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "new" / name
    out.parent.mkdir()
    with start(logs, "-o", out, program=BLOCKED + PROGRAM) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            assert process.stdout.readline() == b"halfway\n"
            assert [path.suffix for path in out.parent.iterdir()] == [".tmp"]
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
        finally:
            process.kill()
        assert process.stderr.read() == b""
    assert not any(out.parent.iterdir())


def test_a_reader_that_has_enough_is_no_error(logs: Path) -> None:
    with start(logs) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"run,tag,step,wall_time,value\n"
        process.stdout.close()
        assert process.stderr.read() == b""


def test_stdout_on_a_full_disk(logs: Path) -> None:
    with open("/dev/full", "wb") as full, start(logs, stdout=full) as process:
        assert process.stderr is not None
        assert process.stderr.read() == b"tbhub: standard output: No space left on device\n"
        assert process.wait(60) == 2


def test_a_terminal_shows_progress_and_is_sent_no_parquet(logs: Path) -> None:
    terminal, theirs = os.openpty()
    try:
        with start(logs, stderr=theirs) as process:
            assert process.stdout is not None
            assert_is_whole(read_csv(process.stdout.read()), logs)
        assert b"exporting" in os.read(terminal, 1 << 16)
        with start(logs, "--format", "parquet", stdout=theirs) as process:
            assert process.stderr is not None
            assert b"give -o FILE" in process.stderr.read()
            assert process.wait(60) == 2
    finally:
        os.close(terminal)
        os.close(theirs)


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=32k", "tbhub-test", str(disk)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot mount a file system here: {done.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.root
@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz", "out.json", "out.parquet"])
def test_a_full_disk_is_one_line_and_is_left_as_it_was(
    logs: Path, tiny_disk: Path, run: Export, name: str
) -> None:
    done = run(logs, "-o", tiny_disk / name)
    assert done.status == 2
    assert done.err == f"tbhub: {tiny_disk / name}: No space left on device\n"
    assert not any(tiny_disk.iterdir())


def test_a_place_that_is_not_there_is_named_as_it_was_given(
    logs: Path, tmp_path: Path, run: Export
) -> None:
    done = run(logs, "-o", tmp_path / "nosuch" / "x.csv")
    assert done.status == 2
    assert done.err == f"tbhub: {tmp_path}/nosuch/x.csv: No such file or directory\n"


def test_help_has_examples(run: Export) -> None:
    done = run("--help")
    assert done.status == 0
    assert b"tbhub export runs -o points.parquet" in done.out
    assert b"csv|json|parquet" in done.out
