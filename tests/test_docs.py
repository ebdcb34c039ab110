"""The code in the documents runs, from top to bottom, as a reader would run it.

What ``tbhub up`` starts runs until the end of its document, in a home of its own.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tbhub.cli.failures import EXIT_CODES
from tbhub.hub.settings import Settings

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Lightning would have a machine with Slurm use it.
WARNINGS = ["-W", "error", "-W", "ignore:The `srun` command is available"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_code_blocks_run(document: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"^```(python|console)\n(.*?)^```", document.read_text(), re.S | re.M)
    if document.name != "benchmarks.md":
        assert blocks
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("TBHUB_")},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "TBHUB_HOME": str(tmp_path / "home"),
        "TBHUB_CACHE_DIR": str(tmp_path / "cache"),
        "TBHUB_SPOOL_DIR": str(tmp_path / "spool"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
    }
    with ExitStack() as running:
        for language, code in blocks:
            if language == "python":
                commands = [[sys.executable, *WARNINGS, "-c", code]]
            else:
                commands = [
                    shlex.split(line[2:]) for line in code.splitlines() if line.startswith("$ ")
                ]
            for command in commands:
                if command[:2] == ["tbhub", "view"]:
                    view(command, tmp_path, environment)
                elif command[:2] == ["tbhub", "up"]:
                    running.enter_context(hub(command, tmp_path, environment))
                else:
                    done = subprocess.run(
                        command,
                        cwd=tmp_path,
                        capture_output=True,
                        text=True,
                        timeout=240,
                        env=environment,
                    )
                    assert done.returncode == 0, (command, done.stdout, done.stderr)


@contextmanager
def hub(command: list[str], directory: Path, environment: dict[str, str]) -> Iterator[None]:
    """A hub that has found the runs there are, and ends when it is interrupted."""
    process = subprocess.Popen(
        [*command, "--port", "0", "--no-browser"],
        cwd=directory,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("tbhub is running at: http://127.0.0.1:")
        while not (line := process.stdout.readline()).endswith(" runs known\n"):
            assert line
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 0


def view(command: list[str], directory: Path, environment: dict[str, str]) -> None:
    """A board runs until it is interrupted, and serves a page meanwhile."""
    process = subprocess.Popen(
        [*command, "--port", "0", "--json"],
        cwd=directory,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        assert json.loads(process.stdout.readline())["loaded"] > 0
        with urllib.request.urlopen(url, timeout=30) as page:
            assert b"tb-relative-root" in page.read()
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 0


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
        assert (document.parent / target).exists(), target


def test_exit_codes_are_documented() -> None:
    assert EXIT_CODES.strip() in (ROOT / "docs" / "hub.md").read_text()


def test_every_setting_of_the_hub_is_documented() -> None:
    text = (ROOT / "docs" / "hub.md").read_text()
    for name in Settings.model_fields:
        assert f"`TBHUB_{name.upper()}`" in text, name
