"""What is found below a logdir, and what a second look shows."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tbhub.catalog import discovery
from tbhub.catalog.discovery import Discovery, Scan
from tbhub.series.tree import find_runs

EVENTS = "events.out.tfevents.1.host"


def make(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / EVENTS).write_bytes(b"")
    return directory


def old(root: Path) -> None:
    """Makes every directory look as if it had not been touched for long."""
    for folder, _, _ in os.walk(root):
        os.utime(folder, (1_000_000_000, 1_000_000_000))


def names(paths: list[str], root: Path) -> list[str]:
    return sorted(os.path.relpath(path, root) for path in paths)


@pytest.fixture(params=["scan", "look"])
def again(request: pytest.FixtureRequest) -> Callable[[Discovery], Scan]:
    """Looks a second time: everywhere, or where the kernel would say that something has changed."""

    def look(found: Discovery) -> Scan:
        if request.param == "scan":
            return found.scan()
        return found.look(list(found.folders)) or found.scan()

    return look


Again = Callable[[Discovery], Scan]


def test_runs_are_named_by_their_path_and_lie_in_an_experiment(tmp_path: Path) -> None:
    root = tmp_path / "my runs"
    for each in ("", "a", "exp/a", "x/y/z", "x/y/z/train"):
        make(root / each)
    found = Discovery(str(root))
    named = [found.found(path) for path in found.scan().new]
    assert sorted((run.path, run.experiment) for run in named) == [
        ("a", "my runs"),
        ("exp/a", "exp"),
        ("my runs", "my runs"),
        ("x/y/z", "x/y"),
        ("x/y/z/train", "x/y/z"),
    ]
    assert {run.location for run in named} == {
        str(root / each) for each in ("", "a", "exp/a", "x/y/z", "x/y/z/train")
    }


def test_nothing_new(tmp_path: Path, again: Again) -> None:
    make(tmp_path / "a")
    old(tmp_path)
    found = Discovery(str(tmp_path))
    found.scan()
    assert again(found) == Scan()


def test_unchanged_directories_are_not_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "a/b")
    old(tmp_path)
    found = Discovery(str(tmp_path))
    found.scan()
    listed: list[str] = []
    monkeypatch.setattr(
        discovery.os, "scandir", lambda path: listed.append(path) or pytest.fail("listed")
    )
    assert found.scan() == Scan()
    assert listed == []


def test_what_came_within_the_same_tick_is_seen(tmp_path: Path) -> None:
    folder = make(tmp_path / "a")
    found = Discovery(str(tmp_path))
    found.scan()
    times = os.stat(folder)
    (folder / "sub").mkdir()
    make(folder / "sub")
    os.utime(folder, ns=(times.st_atime_ns, times.st_mtime_ns))  # as if no time had passed
    assert names(found.scan().new, tmp_path) == ["a/sub"]


def test_new_directories_and_files(tmp_path: Path, again: Again) -> None:
    make(tmp_path / "a")
    (tmp_path / "empty").mkdir()
    old(tmp_path)
    found = Discovery(str(tmp_path))
    assert names(found.scan().new, tmp_path) == ["a"]
    make(tmp_path / "b/c")
    make(tmp_path / "empty")
    (tmp_path / "a" / f"{EVENTS}.2").write_bytes(b"")
    scan = again(found)
    assert names(scan.new, tmp_path) == ["b/c", "empty"]
    assert names(scan.touched, tmp_path) == ["a"]
    assert names(scan.entered, tmp_path) == ["b", "b/c"]
    assert scan.gone == scan.left == []


def test_removed_and_renamed(tmp_path: Path, again: Again) -> None:
    for each in ("a", "b/c", "b/d", "keep"):
        make(tmp_path / each)
    old(tmp_path)
    found = Discovery(str(tmp_path))
    found.scan()
    shutil.rmtree(tmp_path / "a")
    (tmp_path / "b").rename(tmp_path / "z")
    (tmp_path / "keep" / EVENTS).rename(tmp_path / "keep" / "other")
    scan = again(found)
    assert names(scan.gone, tmp_path) == ["a", "b/c", "b/d", "keep"]
    assert names(scan.new, tmp_path) == ["z/c", "z/d"]
    assert names(scan.left, tmp_path) == ["a", "b", "b/c", "b/d"]
    again(found)
    assert names(list(found.runs), tmp_path) == ["z/c", "z/d"]


def test_another_directory_of_the_same_name(tmp_path: Path, again: Again) -> None:
    make(tmp_path / "a")
    make(tmp_path / "a/gone")
    old(tmp_path)
    found = Discovery(str(tmp_path))
    found.scan()
    (tmp_path / "a").rename(tmp_path.parent / f"{tmp_path.name}-aside")
    make(tmp_path / "a")
    make(tmp_path / "a/new")
    old(tmp_path)
    scan = again(found)
    assert names(scan.new, tmp_path) == ["a/new"]
    assert names(scan.gone, tmp_path) == ["a/gone"]
    assert names(scan.touched, tmp_path) == ["a"]
    assert names(scan.entered, tmp_path) == ["a", "a/new"]


def test_replaced_by_a_link(tmp_path: Path, again: Again) -> None:
    root = tmp_path / "root"
    make(root / "a/b")
    elsewhere = make(tmp_path / "elsewhere")
    make(elsewhere / "deep")
    old(root)
    found = Discovery(str(root))
    found.scan()
    shutil.rmtree(root / "a")
    (root / "a").symlink_to(elsewhere)
    scan = again(found)
    assert names(scan.gone, root) == ["a/b"]
    assert names(scan.new, root) == ["a", "a/deep"]


def test_a_circle_of_links_ends(tmp_path: Path) -> None:
    make(tmp_path / "a/b")
    (tmp_path / "a/b/up").symlink_to(tmp_path / "a")
    (tmp_path / "self").symlink_to("self")
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    (tmp_path / "nowhere").symlink_to("does not exist")
    found = Discovery(str(tmp_path))
    scan = found.scan()
    assert names(scan.new, tmp_path) == ["a/b"]
    assert scan.problems == {}
    assert found.scan().new == []


def test_a_link_that_leads_somewhere_only_later(tmp_path: Path, again: Again) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(tmp_path / "later")
    old(root)
    found = Discovery(str(root))
    assert found.scan() == Scan(entered=[str(root)])
    make(tmp_path / "later/a")
    assert names(again(found).new, root) == ["link/a"]


def test_a_link_to_a_run_is_the_run(tmp_path: Path) -> None:
    make(tmp_path / "z/run")
    (tmp_path / "latest").symlink_to("z/run")
    assert names(Discovery(str(tmp_path)).scan().new, tmp_path) == ["z/run"]


def test_a_linked_run_takes_the_name_of_what_is_left(tmp_path: Path, again: Again) -> None:
    root = tmp_path / "root"
    elsewhere = make(tmp_path / "elsewhere/run")
    root.mkdir()
    (root / "b").symlink_to(elsewhere)
    (root / "a").symlink_to(elsewhere)
    found = Discovery(str(root))
    assert names(found.scan().new, root) == ["a"]
    (root / "a").unlink()
    scan = again(found)
    assert (names(scan.gone, root), names(scan.new, root)) == (["a"], ["b"])


def test_a_logdir_that_comes_goes_and_comes_back(tmp_path: Path, again: Again) -> None:
    root = tmp_path / "later"
    found = Discovery(str(root))
    scan = found.scan()
    assert (scan.new, scan.problems) == ([], {str(root): "The logdir is not there"})
    assert not found.is_there
    make(root / "a")
    scan = found.scan()
    assert (names(scan.new, root), scan.problems) == (["a"], {})
    assert found.is_there
    root.rename(tmp_path / "aside")
    scan = again(found)
    assert (scan.gone, scan.problems) == ([], {str(root): "The logdir is not there"})
    assert not found.is_there
    (tmp_path / "aside").rename(root)
    make(root / "b")
    scan = found.scan()
    assert (names(scan.new, root), scan.gone, scan.problems) == (["b"], [], {})


@pytest.mark.root
def test_a_disk_that_is_not_mounted(tmp_path: Path, again: Again) -> None:
    root = tmp_path / "disk"
    root.mkdir()
    command = ["mount", "-t", "tmpfs", "tbhub-test", str(root)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot mount a file system here: {done.stderr.strip()}")
    make(root / "a")
    found = Discovery(str(root))
    found.scan()
    subprocess.run(["umount", "-l", str(root)], check=True)
    scan = again(found)
    assert (scan.gone, list(scan.problems)) == ([], [str(root)])
    assert names(list(found.runs), root) == ["a"]


def test_a_logdir_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    scan = Discovery(str(tmp_path / "file")).scan()
    assert scan.problems == {str(tmp_path / "file"): "The logdir is not a directory"}


@pytest.mark.parametrize("where", ["scandir", "stat"])
def test_what_may_not_be_listed_is_not_gone(
    tmp_path: Path, again: Again, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Root may list everything: the refusal itself has to be played."""
    make(tmp_path / "secret/a")
    make(tmp_path / "secret")
    make(tmp_path / "open")
    found = Discovery(str(tmp_path))
    found.scan()
    real = getattr(os, where)

    def refused(path: str, **options: object) -> object:
        if path == str(tmp_path / "secret"):
            raise PermissionError(13, "Permission denied")
        return real(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(discovery.os, where, refused)
        scan = again(found)
        assert scan.problems == {str(tmp_path / "secret"): "Permission denied"}
        assert scan.gone == []
    scan = found.scan()
    assert (scan.new, scan.gone, scan.problems) == ([], [], {})
    assert names(list(found.runs), tmp_path) == ["open", "secret", "secret/a"]


def test_names_that_no_database_takes_are_a_problem(tmp_path: Path) -> None:
    make(tmp_path / "fine")
    odd = os.fsencode(tmp_path) + b"/b\xff"
    os.mkdir(odd)
    (Path(os.fsdecode(odd)) / EVENTS).write_bytes(b"")
    scan = Discovery(str(tmp_path)).scan()
    assert names(scan.new, tmp_path) == ["fine"]
    (problem,) = scan.problems.values()
    assert "UTF-8" in problem
    assert "�" in next(iter(scan.problems))


def test_what_was_known_before(tmp_path: Path) -> None:
    make(tmp_path / "a")
    make(tmp_path / "b")
    scan = Discovery(str(tmp_path), [str(tmp_path / "a"), str(tmp_path / "z")]).scan()
    assert names(scan.new, tmp_path) == ["b"]
    assert names(scan.gone, tmp_path) == ["z"]


def test_a_place_that_takes_too_long(tmp_path: Path) -> None:
    make(tmp_path / "a")
    with pytest.raises(TimeoutError, match="directories"):
        Discovery(str(tmp_path), patience=-1.0).scan()


def test_what_others_say_is_known(tmp_path: Path) -> None:
    make(tmp_path / "a")
    make(tmp_path / "b")
    old(tmp_path)
    found = Discovery(str(tmp_path))
    found.scan()
    found.know([str(tmp_path / "b"), str(tmp_path / "c")])
    scan = found.scan()
    assert (names(scan.new, tmp_path), names(scan.gone, tmp_path)) == (["a"], ["c"])


_NAMES = st.sampled_from(["a", "b", "c"])
_PATHS = st.lists(_NAMES, min_size=1, max_size=3).map("/".join)
_CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("make"), _PATHS, _PATHS),
        st.tuples(st.just("remove"), _PATHS, _PATHS),
        st.tuples(st.just("link"), _PATHS, _PATHS),
        st.tuples(st.just("rename"), _PATHS, _PATHS),
    ),
    max_size=12,
)


def _change(root: Path, kind: str, path: Path, other: Path) -> None:
    try:
        if kind == "make":
            make(path)
        elif kind == "remove":
            path.unlink() if path.is_symlink() else shutil.rmtree(path)
        elif kind == "link":
            path.symlink_to(other)
        else:
            path.rename(other)
    except OSError:
        pass


@settings(max_examples=150, deadline=None)
@given(rounds=st.lists(_CHANGES, min_size=1, max_size=4), partly=st.booleans())
def test_whatever_happens_the_same_is_found_as_by_a_walk(
    tmp_path_factory: pytest.TempPathFactory,
    rounds: list[list[tuple[str, str, str]]],
    partly: bool,
) -> None:
    root = tmp_path_factory.mktemp("tree")
    found = Discovery(str(root))
    known = set(found.scan().new)
    for changes in rounds:
        for kind, path, other in changes:
            _change(root, kind, root / path, root / other)
        scan = (found.look(list(found.folders)) if partly else None) or found.scan()
        known = (known | set(scan.new)) - set(scan.gone)
        tree = find_runs(str(root))
        expected = {str(root) if name == "." else f"{root}/{name}" for name in tree.runs}
        assert known == expected == found.runs
    shutil.rmtree(root)
