"""The code in the documents runs, from top to bottom, as a reader would run it."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_code_blocks_run(document: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"^```(python|console)\n(.*?)^```", document.read_text(), re.S | re.M)
    if document.name != "benchmarks.md":
        assert blocks
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for language, code in blocks:
        if language == "python":
            commands = [[sys.executable, "-W", "error", "-c", code]]
        else:
            commands = [
                shlex.split(line[2:]) for line in code.splitlines() if line.startswith("$ ")
            ]
        for command in commands:
            if command[:2] == ["tbhub", "view"]:
                view(command, tmp_path, path)
                continue
            done = subprocess.run(
                command,
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=60,
                env={**os.environ, "PATH": path},
            )
            assert done.returncode == 0, (command, done.stdout, done.stderr)


def view(command: list[str], directory: Path, path: str) -> None:
    """A board runs until it is interrupted, and serves a page meanwhile."""
    cache = {"TBHUB_CACHE_DIR": str(directory / "cache")}
    process = subprocess.Popen(
        [*command, "--port", "0", "--json"],
        cwd=directory,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PATH": path, **cache},
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
