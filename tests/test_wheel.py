"""What `pip install .` installs, built from the files that the image's Dockerfile is given."""

from __future__ import annotations

import fnmatch
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def copied() -> list[str]:
    """What the Dockerfile copies of the repository."""
    found = []
    for line in (ROOT / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            found += line.split()[1:-1]
    return found


def test_the_image_is_given_what_it_copies() -> None:
    rules = (ROOT / ".dockerignore").read_text().split()
    given = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    assert set(copied()) == given
    assert all((ROOT / each).exists() for each in given)
    for built in ("web/node_modules", "src/tbhub/hub/web"):  # of another machine
        assert any(fnmatch.fnmatch(built, rule) for rule in rules[1:])


def test_a_wheel_has_the_kernel_the_page_and_all_that_is_read_at_run_time(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    built = shutil.ignore_patterns("node_modules", "__pycache__", "*.so")
    for name in copied():
        source, target = ROOT / name, tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=built)
        else:
            shutil.copy(source, target)
    shutil.rmtree(tree / "src/tbhub/hub/web", ignore_errors=True)
    (tree / "web/node_modules").symlink_to(ROOT / "web/node_modules")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "-w", tmp_path, tree], check=True, timeout=600)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert any(re.fullmatch(r"tbhub/_kernel\..*\.so", name) for name in names)
    assert "tbhub/hub/web/index.html" in names
    assert any(name.startswith("tbhub/hub/web/assets/") for name in names)
    kept = ROOT / "src/tbhub"
    for each in kept.rglob("*"):
        inside = each.relative_to(kept)
        if each.is_file() and not {"web", "__pycache__"} & set(inside.parts):
            assert each.suffix == ".so" or f"tbhub/{inside}" in names, inside
    assert not any("node_modules" in name for name in names)
