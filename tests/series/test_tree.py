"""Directories followed one by one come to the same as a walk from the beginning."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tbhub.series.tree import Folders, find_runs


def make(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)
    (path / "events.out.tfevents.1").touch()


def test_links_do_not_change_a_name(tmp_path: Path) -> None:
    """The real path goes before one through a link, whichever is found first."""
    for name in ("b/run", "m/run"):
        make(tmp_path / name)
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "z").symlink_to("m")
    (tmp_path / "latest").symlink_to("m/run")
    assert list(find_runs(str(tmp_path)).runs) == ["b/run", "m/run"]


def test_what_lies_elsewhere_goes_by_the_shortest_path(tmp_path: Path) -> None:
    make(tmp_path / "elsewhere" / "deep")
    root = tmp_path / "root"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "link").symlink_to(tmp_path / "elsewhere")
    (root / "y").symlink_to(tmp_path / "elsewhere")
    (root / "x").symlink_to(tmp_path / "elsewhere")
    assert list(find_runs(str(root)).runs) == ["x/deep"]


def test_the_same_in_every_process(tmp_path: Path) -> None:
    make(tmp_path / "elsewhere")
    root = tmp_path / "root"
    root.mkdir()
    for name in "abcdefgh":
        (root / name).symlink_to(tmp_path / "elsewhere")
    code = (
        "import sys; from tbhub.series.tree import find_runs; print(*find_runs(sys.argv[1]).runs)"
    )
    for seed in "123":
        found = subprocess.check_output(
            [sys.executable, "-c", code, root],
            env={**os.environ, "PYTHONHASHSEED": seed},
            text=True,
        )
        assert found.split() == ["a"]


def test_links_in_circles(tmp_path: Path) -> None:
    make(tmp_path / "run")
    (tmp_path / "run" / "up").symlink_to("..")
    (tmp_path / "run" / "self").symlink_to("self")  # leads to itself
    (tmp_path / "run" / "nowhere").symlink_to("nothing")
    tree = find_runs(str(tmp_path))
    assert list(tree.runs) == ["run"]
    assert tree.unreadable == {}


@pytest.mark.parametrize("root", ["runs", "runs/", "./runs", "runs//", "."])
def test_however_the_root_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str
) -> None:
    make(tmp_path / "runs" / "a" / "b")
    make(tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    expected = [".", "a/b"] if root != "." else ["runs", "runs/a/b"]
    assert list(find_runs(root).runs) == expected


def test_a_directory_is_watched_before_it_is_listed(tmp_path: Path) -> None:
    make(tmp_path / "a")
    told: list[str] = []

    def entered(path: str) -> None:
        told.append(f"+{os.path.relpath(path, tmp_path)}")
        if path.endswith("/a"):
            make(tmp_path / "a" / "just now")

    folders = Folders(
        str(tmp_path), entered, lambda path: told.append(f"-{os.path.relpath(path, tmp_path)}")
    )
    folders.scan(str(tmp_path))
    assert told == ["+.", "+a", "+a/just now"]
    told.clear()
    shutil.rmtree(tmp_path / "a")
    folders.scan(str(tmp_path))
    assert sorted(told) == ["-a", "-a/just now"]


def test_a_directory_that_came_back_before_its_parent_was_looked_at(tmp_path: Path) -> None:
    make(tmp_path / "a")
    folders = Folders(str(tmp_path))
    folders.scan(str(tmp_path))
    shutil.rmtree(tmp_path / "a")
    folders.scan(str(tmp_path / "a"))
    assert str(tmp_path / "a") not in folders.known
    make(tmp_path / "a")
    folders.scan(str(tmp_path))
    assert folders.known[str(tmp_path / "a")].files


def test_an_unreadable_directory(tmp_path: Path) -> None:
    """Told by a user who may not look: root may look everywhere."""
    for name in ("good", "bad"):
        make(tmp_path / name)
    (tmp_path / "good" / "link").symlink_to(tmp_path / "bad" / "further")
    (tmp_path / "bad").chmod(0)
    code = """if True:
        import os, sys
        from tbhub.series.tree import Folders
        folders = Folders(sys.argv[1])
        if os.getuid() == 0:
            os.setgroups([]); os.setgid(65534); os.setuid(65534)
        folders.scan(sys.argv[1])
        print([f.name for f in folders.known.values() if f.files], list(folders.unreadable))
    """
    above = tmp_path
    while above != Path("/tmp") and above != above.parent:
        above.chmod(0o755)
        above = above.parent
    found = subprocess.check_output([sys.executable, "-c", code, tmp_path], text=True)
    (tmp_path / "bad").chmod(0o700)
    assert found.strip() == f"['good'] ['{tmp_path / 'bad'}']"


NAMES = ["a", "b", "c", "a/a", "a/b", "b/a", "b/c", "c/a/b", "a/b/c"]
PATHS = st.sampled_from(NAMES)


class Trees(RuleBasedStateMachine):
    """Directories, links and files come and go; those that changed are looked at again."""

    def __init__(self) -> None:
        super().__init__()
        self.top = Path(tempfile.mkdtemp(prefix="tbhub-tree"))
        self.root = self.top / "root"
        self.root.mkdir()
        (self.top / "elsewhere" / "a").mkdir(parents=True)
        make(self.top / "elsewhere")
        self.folders = Folders(str(self.root))

    def teardown(self) -> None:
        shutil.rmtree(self.top)

    @rule(path=PATHS)
    def make_directory(self, path: str) -> None:
        with contextlib.suppress(OSError):
            (self.root / path).mkdir(parents=True)

    @rule(path=PATHS)
    def remove(self, path: str) -> None:
        place = self.root / path
        if place.is_symlink():
            place.unlink()
        elif place.is_dir() and place.resolve().is_relative_to(self.root):
            shutil.rmtree(place)

    @rule(path=PATHS, to=st.sampled_from([".", "../elsewhere", "../elsewhere/a", *NAMES]))
    def link(self, path: str, to: str) -> None:
        with contextlib.suppress(OSError):
            (self.root / path).symlink_to(self.root / to)

    @rule(path=PATHS, to=PATHS)
    def rename(self, path: str, to: str) -> None:
        with contextlib.suppress(OSError):
            (self.root / path).rename(self.root / to)

    @rule(path=PATHS)
    def log(self, path: str) -> None:
        if (self.root / path).is_dir():
            make(self.root / path)

    @rule(path=PATHS)
    def unlog(self, path: str) -> None:
        with contextlib.suppress(OSError):
            (self.root / path / "events.out.tfevents.1").unlink()

    @invariant()
    def is_what_a_walk_finds(self) -> None:
        expected = find_runs(str(self.root))
        self.folders.scan_all()
        found = {f.name: sorted(f.files) for f in self.folders.known.values() if f.files}
        assert dict(sorted(found.items())) == expected.runs
        assert self.folders.unreadable == {}
        fresh = Folders(str(self.root))
        fresh.scan_all()
        assert fresh.known.keys() == self.folders.known.keys()


Trees.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestTrees = Trees.TestCase
