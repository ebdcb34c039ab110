"""The command as a person runs it: a process of its own, its output and its exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.oracle import event_files, read_scalars
from tbhub import SummaryWriter


def run(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from tbhub.cli.main import main; main()", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=cwd,
    )


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Two runs; the second one is damaged."""
    for name in ("good", "damaged"):
        with SummaryWriter(tmp_path / "logs" / name) as writer:
            for step in range(100):
                writer.add_scalar("loss", step, step)
    path = Path(event_files(tmp_path / "logs" / "damaged")[0])
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data[:-5])
    return tmp_path / "logs"


def test_check_of_good_files(logs: Path) -> None:
    done = run("check", logs / "good")
    assert done.returncode == 0
    assert "1 file good: 101 good events" in done.stdout


def test_check_lists_damage_with_offsets(logs: Path) -> None:
    done = run("check", logs)
    assert done.returncode == 1
    assert "bad data crc" in done.stdout
    assert "truncated" in done.stdout
    assert "1 of 2 files damaged" in done.stdout
    assert done.stderr == ""


def test_check_as_json(logs: Path) -> None:
    done = run("check", "--json", logs / "damaged", logs / "good")
    assert done.returncode == 1
    damaged, good = json.loads(done.stdout)
    assert good["good"] is True
    assert good["damages"] == []
    assert damaged["good_events"] == 99
    assert [each["kind"] for each in damaged["damages"]] == ["bad data crc", "truncated"]
    assert damaged["damages"][0]["offset"] < 1000 < damaged["damages"][0]["offset"] + 100


def test_repair_of_a_tree(logs: Path, tmp_path: Path) -> None:
    done = run("repair", logs, "-o", tmp_path / "new")
    assert done.returncode == 0, done.stderr
    assert "200 events written" in done.stdout
    assert run("check", tmp_path / "new").returncode == 0
    points = read_scalars(tmp_path / "new" / "damaged")["loss"]
    assert len(points) == 98
    assert all(step == value for step, value in points)


def test_repair_goes_on_past_a_file_that_cannot_be_read(logs: Path, tmp_path: Path) -> None:
    (logs / "good" / "events.out.tfevents.0").symlink_to(tmp_path / "missing")
    done = run("repair", logs, "-o", tmp_path / "new")
    assert done.returncode == 1
    assert "No such file" in done.stderr
    assert "200 events written" in done.stdout
    assert run("check", tmp_path / "new").returncode == 0


def test_repair_of_a_file(logs: Path, tmp_path: Path) -> None:
    file = event_files(logs / "damaged")[0]
    done = run("repair", file, "--out", tmp_path / "fixed.tfevents", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)[0]["out"] == str(tmp_path / "fixed.tfevents")
    assert run("check", tmp_path / "fixed.tfevents").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "nowhere"), "tbhub: nowhere does not exist"),
        (("check", "."), "tbhub: no event files below ."),
        (("repair", "a.tfevents", "-o", "a.tfevents"), "a.tfevents: File exists"),
        (("repair", "run", "-o", "run/new"), "give a directory outside of it"),
    ],
)
def test_errors_are_one_line(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    (tmp_path / "a.tfevents").touch()
    if arguments[0] == "check":
        (tmp_path / "a.tfevents").unlink()
    else:
        with SummaryWriter(tmp_path / "run"):
            pass
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_names_that_look_like_markup(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path / "[red]run[/]") as writer:
        writer.add_scalar("a", 1, 1)
    path = Path(event_files(tmp_path / "[red]run[/]")[0])
    path.write_bytes(path.read_bytes()[:-1])
    done = run("check", tmp_path)
    assert "[red]run[/]" in done.stdout
    assert run("repair", tmp_path, "-o", f"{tmp_path}-[bold]new").returncode == 0


def test_version_and_help() -> None:
    import tbhub

    assert run("--version").stdout.strip() == f"tbhub {tbhub.__version__}"
    done = run("check", "--help")
    assert "bad length crc" in done.stdout
    assert run().returncode == 2
