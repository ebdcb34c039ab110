"""The code in the documents runs, from top to bottom, as a reader would run it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
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
            done = subprocess.run(
                command,
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=60,
                env={**os.environ, "PATH": path},
            )
            assert done.returncode == 0, (command, done.stdout, done.stderr)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
        assert (document.parent / target).exists(), target
