"""The kernel tells of changes, and we are told where it would not."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.live import PATIENCE, append, descriptors
from tbhub.series.watch import Changes, Watcher, file_system_of, is_remote


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    before = descriptors()
    made = Watcher()
    yield made
    made.close()
    assert descriptors() == before


def told(watcher: Watcher) -> Changes:
    return watcher.wait(PATIENCE)


def nothing(watcher: Watcher) -> bool:
    return watcher.wait(0) == Changes()


def test_a_file_that_grows(watcher: Watcher, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert watcher.add(str(tmp_path))
    append(tmp_path / "file", b"x")
    assert told(watcher) == Changes(grown={str(tmp_path)})
    assert nothing(watcher)


@pytest.mark.parametrize("what", ["file", "directory", "rename", "delete", "permissions"])
def test_something_that_comes_or_goes(watcher: Watcher, tmp_path: Path, what: str) -> None:
    (tmp_path / "here").mkdir()
    assert watcher.add(str(tmp_path))
    if what == "file":
        (tmp_path / "new").symlink_to("nowhere")
    elif what == "directory":
        (tmp_path / "new").mkdir()
    elif what == "rename":
        (tmp_path / "here").rename(tmp_path / "there")
    elif what == "delete":
        (tmp_path / "here").rmdir()
    else:
        (tmp_path / "here").chmod(0o700)
    assert told(watcher).listed == {str(tmp_path)}


def test_what_is_below_is_watched_when_it_is_added(watcher: Watcher, tmp_path: Path) -> None:
    below = tmp_path / "below"
    assert watcher.add(str(tmp_path))
    below.mkdir()
    assert told(watcher).listed == {str(tmp_path)}
    (below / "file").write_text("x")
    assert nothing(watcher)
    assert watcher.add(str(below))
    (below / "file").write_text("y")
    assert told(watcher).grown == {str(below)}


def test_a_directory_that_is_removed_and_made_anew(watcher: Watcher, tmp_path: Path) -> None:
    place = tmp_path / "place"
    for _ in range(5):
        place.mkdir()
        assert watcher.add(str(place))
        (place / "file").touch()
        assert told(watcher).listed == {str(place)}
        shutil.rmtree(place)
        assert told(watcher).listed == {str(place)}
    assert not watcher.add(str(place))
    assert not watcher._paths
    assert not watcher._numbers


def test_a_directory_renamed_and_another_in_its_place(watcher: Watcher, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    assert watcher.add(str(old))
    old.rename(new)
    old.mkdir()
    assert told(watcher).listed == {str(old)}
    assert watcher.add(str(old))
    assert watcher.add(str(new))
    (old / "file").touch()
    assert told(watcher).listed == {str(old)}
    (new / "file").touch()
    assert told(watcher).listed == {str(new)}


def test_several_paths_to_one_directory(watcher: Watcher, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    paths = {str(tmp_path / "real"), str(tmp_path / "link")}
    for path in paths:
        assert watcher.add(path)
    (tmp_path / "real" / "file").touch()
    assert told(watcher).listed == paths
    watcher.remove(str(tmp_path / "real"))
    (tmp_path / "real" / "other").touch()
    assert told(watcher).listed == {str(tmp_path / "link")}
    watcher.remove(str(tmp_path / "link"))
    (tmp_path / "real" / "third").touch()
    assert nothing(watcher)
    watcher.remove(str(tmp_path / "link"))


def test_only_directories_that_are_there(watcher: Watcher, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert not watcher.add(str(tmp_path / "file"))
    assert not watcher.add(str(tmp_path / "nowhere"))


def test_waking(watcher: Watcher) -> None:
    thread = threading.Timer(0.05, watcher.wake)
    thread.start()
    assert watcher.wait(None) == Changes()
    thread.join()
    for _ in range(100_000):  # more than the pipe holds
        watcher.wake()
    assert watcher.wait(None) == Changes()


def test_descriptors_beyond_those_select_can_take(tmp_path: Path) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 1200:
        pytest.skip("too few descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(1100)]
    try:
        watcher = Watcher()
        assert watcher.add(str(tmp_path))
        (tmp_path / "file").touch()
        assert told(watcher).listed == {str(tmp_path)}
        watcher.close()
    finally:
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_more_than_the_kernel_can_tell(watcher: Watcher, tmp_path: Path) -> None:
    """Renaming back and forth makes two different events each time."""
    bound = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if bound > 100_000:
        pytest.skip("the queue is too long to fill")
    one, other = tmp_path / "one", tmp_path / "other"
    one.touch()
    assert watcher.add(str(tmp_path))
    for _ in range(bound // 4 + 10):
        os.rename(one, other)
        os.rename(other, one)
    assert told(watcher).lost


def test_after_the_end(tmp_path: Path) -> None:
    before = descriptors()
    watcher = Watcher()
    assert watcher.add(str(tmp_path))
    watcher.close()
    watcher.close()
    assert not watcher.add(str(tmp_path))
    watcher.remove(str(tmp_path))
    assert descriptors() == before


def test_without_inotify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watcher = Watcher()
    os.close(watcher._inotify)
    watcher._inotify = -1  # as where no more instances are to be had
    assert not watcher.add(str(tmp_path))
    watcher.wake()
    assert watcher.wait(PATIENCE) == Changes()
    watcher.close()


def test_where_others_write(
    watcher: Watcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not is_remote(str(tmp_path))
    monkeypatch.setattr("tbhub.series.watch.is_remote", lambda _: True)
    assert not watcher.add(str(tmp_path))


MOUNTS = b"""\
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb1 /home/local xfs rw 0 0
//host/share /mnt/my\\040share cifs rw 0 0
bucket /mnt/b\xc3\xbccket fuse.s3fs rw 0 0
tmpfs /over tmpfs rw 0 0
host0 /over virtiofs rw 0 0
odd /back\\134slash 9p rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/homeless", "ext4"),
        ("/home", "nfs4"),
        ("/home/me/runs", "nfs4"),
        ("/home/local/runs", "xfs"),
        ("/mnt/my share/x", "cifs"),
        ("/mnt/bücket", "fuse.s3fs"),
        ("/over", "virtiofs"),  # the later one hides the earlier
        ("/back\\slash/x", "9p"),
    ],
)
def test_file_systems(path: str, kind: str) -> None:
    assert file_system_of(os.fsencode(path), MOUNTS) == kind


def test_no_mounts_to_be_read() -> None:
    assert file_system_of(b"/", b"") == ""


def test_woken_too_late_it_writes_to_nobody_else(tmp_path: Path) -> None:
    watcher = Watcher()
    watcher.close()
    with ExitStack() as stack:
        # These have the descriptors that were the watcher's.
        opened = [stack.enter_context((tmp_path / f"{n}").open("wb")) for n in range(8)]
        watcher.wake()
        watcher.close()
        assert [os.fstat(each.fileno()).st_size for each in opened] == [0] * 8
