"""What a run has printed, on a terminal and beside one."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.hub import eventually
from support.up import COMMAND, Up
from tbhub.cli.run_logs import TerminalFilter

RED = "\x1b[1;31mred\x1b[0m"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"a {RED}\tb\r\n", f"a {RED}\tb\r\n"),
        ("\x1b[2J\x1b[Hgone", "gone"),
        ("\x1b]0;title\x07a\x1b]52;c;eA==\x1b\\b", "ab"),
        ("\x1bP1$r\x1b\\a\x1bcb\x1b(0c\x07", "abc"),
        ("\x1b[?1049h\x1b[6na", "a"),
        ("\x9b2Ja\x9d0;x\x9cb", "2Ja0;xb"),
        ("\x1b[31;\x1b[1mx", "[31;\x1b[1mx"),
    ],
)
def test_terminal_filter_keeps_colours_only(text: str, shown: str) -> None:
    assert TerminalFilter().feed(text) == shown
    letter_by_letter = TerminalFilter()
    assert "".join(map(letter_by_letter.feed, text)) == shown


def test_escape_sequence_without_an_end_holds_back_a_bounded_text() -> None:
    shown = TerminalFilter()
    assert shown.feed("\x1b]0;" + "x" * 100) == ""
    assert shown.feed("x" * 5000) == "]0;" + "x" * 5100


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    directory = tmp_path_factory.mktemp("up")
    with Up(directory) as up:
        up.environment["TBHUB_SPOOL_DIR"] = str(directory / "spool")
        yield up


def popen(up: Up, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *arguments],
        env=up.environment,
        cwd=up.directory,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_logs_of_a_run(up: Up) -> None:
    script = "for i in 1 2 3 4 5; do echo line $i; done; printf '\\033[2J\\033[31mred'"
    up.done("run", "--name", "printer", "--", "sh", "-c", script)
    every = "".join(f"line {n}\n" for n in range(1, 6))
    assert up.done("runs", "logs", "printer") == every + "\x1b[2J\x1b[31mred"
    assert up.done("runs", "logs", "printer", "--head", "2") == "line 1\nline 2\n"
    assert up.done("runs", "logs", "printer", "--tail", "2") == "line 5\n\x1b[2J\x1b[31mred"
    assert up.done("runs", "logs", "printer", "-f") == every + "\x1b[2J\x1b[31mred"
    lines = up.done("runs", "logs", "printer", "--json", "--head", "1").splitlines()
    assert [json.loads(line) for line in lines] == [{"file": "console.log", "text": "line 1"}]
    assert "no console log other" in up.failed(3, "runs", "logs", "printer", "--file", "other")
    assert "--head goes neither" in up.failed(2, "runs", "logs", "printer", "--head", "1", "-f")
    reader, terminal = pty.openpty()
    command = [*COMMAND, "runs", "logs", "printer", "--tail", "1"]
    subprocess.run(command, env=up.environment, stdout=terminal, check=True, timeout=60)
    os.close(terminal)
    assert os.read(reader, 1000) == b"\x1b[31mred\x1b[0m"
    os.close(reader)


def test_logs_follow_a_live_run(up: Up, tmp_path: Path) -> None:
    (tmp_path / "gate").touch()
    script = f"echo first; while [ -e {tmp_path}/gate ]; do sleep .05; done; echo last"
    training = popen(up, "run", "--name", "live", "--", "sh", "-c", script)
    try:
        eventually(lambda: up.run("runs", "logs", "live").stdout == "first\n")
        following = popen(up, "runs", "logs", "live", "-f")
        assert following.stdout is not None
        assert following.stdout.readline() == "first\n"
        (tmp_path / "gate").unlink()
        assert following.communicate(timeout=60)[0] == "last\n"
        assert following.returncode == 0
    finally:
        (tmp_path / "gate").unlink(missing_ok=True)
        training.communicate(timeout=60)
