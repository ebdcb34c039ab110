"""Copies of adopted files are complete, live, and never rewritten."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from tbhub.publisher.adopted import Adopted, Copies, catch_up, locked, read_record

NAME = "events.out.tfevents.1.host"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "user" / NAME
    path.parent.mkdir()
    path.write_bytes(b"first")
    return path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "run"
    path.mkdir()
    return path


def content(run: Path) -> dict[str, bytes]:
    files = (file for file in run.rglob("*") if file.is_file())
    return {str(file.relative_to(run)): file.read_bytes() for file in files}


def test_a_growing_file_is_copied_as_it_grows_also_when_it_is_deleted(
    source: Path, run: Path
) -> None:
    copies = Copies(run, None)
    copies.add(Adopted(str(source), f"sub/{NAME}"))
    copies.update()
    assert content(run) == {f"sub/{NAME}": b"first"}
    with source.open("ab") as file:
        file.write(b" second")
    source.unlink()
    copies.update()
    copies.update()
    copies.close()
    assert content(run) == {f"sub/{NAME}": b"first second"}
    assert copies.failures == {}


def test_a_full_disk_is_waited_for(
    source: Path, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    record = tmp_path / "adopted.json"
    copies = Copies(run, record)
    with monkeypatch.context() as full:
        full.setattr(Path, "write_text", no_room)
        full.setattr(os, "pwrite", no_room)
        copies.add(Adopted(str(source), NAME))
        copies.update()
    assert copies.failures == {str(source): "No space left on device"}
    assert not record.exists()
    source.unlink()
    copies.update()
    copies.close()
    assert content(run) == {NAME: b"first"}
    assert read_record(record) == [Adopted(str(source), NAME)]
    assert copies.failures == {}


def test_a_file_that_was_deleted_before_is_copied_from_its_descriptor(
    source: Path, run: Path
) -> None:
    opened = os.open(source, os.O_RDONLY)
    source.unlink()
    copies = Copies(run, None)
    copies.add(Adopted(str(source), NAME), opened={str(source): opened})
    source.write_bytes(b"other")
    other = os.open(source, os.O_RDONLY)
    source.unlink()
    copies.replace(str(source), other)
    copies.update()
    copies.close()
    assert content(run) == {NAME: b"first", f"{NAME}.again1": b"other"}
    assert copies.failures == {}


def test_a_file_that_is_gone_before_it_is_copied_is_a_failure(source: Path, run: Path) -> None:
    copies = Copies(run, None)
    copies.add(Adopted(str(source), NAME))
    source.unlink()
    copies.update()
    assert copies.failures == {str(source): "it was deleted before it could be copied"}


def test_a_replaced_file_is_copied_under_another_name(source: Path, run: Path) -> None:
    copies = Copies(run, None)
    copies.add(Adopted(str(source), NAME))
    copies.update()
    other = source.with_name("other")
    other.write_bytes(b"another")
    other.replace(source)
    copies.update()
    source.write_bytes(b"cut")
    copies.update()
    copies.close()
    assert content(run) == {NAME: b"first", f"{NAME}.again1": b"another", f"{NAME}.again2": b"cut"}


def test_other_files_are_copied_whole_when_they_change(tmp_path: Path, run: Path) -> None:
    config = tmp_path / "projector_config.pbtxt"
    config.write_text("one")
    copies = Copies(run, None)
    copies.add(Adopted(str(config), config.name))
    copies.update()
    config.write_text("changed")
    copies.update()
    assert content(run) == {config.name: b"changed"}


def test_no_link_is_followed(tmp_path: Path, run: Path) -> None:
    secret, link = tmp_path / "secret", tmp_path / NAME
    secret.write_text("secret")
    link.symlink_to(secret)
    copies = Copies(run, None)
    copies.add(Adopted(str(link), NAME))
    copies.update()
    assert content(run) == {}
    assert list(copies.failures) == [str(link)]


def test_what_a_killed_process_has_left_is_caught_up_with(
    source: Path, run: Path, tmp_path: Path
) -> None:
    record = tmp_path / "adopted.json"
    copies = Copies(run, record)
    copies.add(Adopted(str(source), NAME))
    assert json.loads(record.read_bytes()) == [{"source": str(source), "name": NAME}]
    copies.update()
    copies.close()
    source.write_bytes(b"first second")
    with locked(record) as is_ours:
        assert is_ours
        catch_up(run, record)  # another process still copies
        assert content(run) == {NAME: b"first"}
    catch_up(run, record)
    assert content(run) == {NAME: b"first second"}
    source.unlink()
    catch_up(run, record)
    assert content(run) == {NAME: b"first second"}
