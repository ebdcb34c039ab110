"""Options of a board as keys and values."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tbhub.cli.board_config import read_board_config


@pytest.mark.parametrize(
    ("pair", "values"),
    [
        ("description=a=b", {"name": "a=b"}),
        ("name=7", {"name": "7"}),
        ("idle_timeout=1h30m", {"idle_timeout": 5400.0}),
        ("max_runtime=0", {"max_runtime": 0.0}),
        ("follow=yes", {"follow": True}),
        ("options.samples=100", {"samples": 100}),
        ("name_template={run}", {"template": "{run}"}),
        ("trials=[3, 4]", {"trials": [3, 4]}),
        ("added=exp:a where lr<.1, limit 2", {"added": ["exp:a where lr<.1, limit 2"]}),
        ('removed=["trial:3", "/a/b"]', {"removed": ["trial:3", "/a/b"]}),
        ('options={"group_by": "lr"}', {"group_by": "lr"}),
        ("workspace=null", {}),
    ],
)
def test_pairs_are_read_by_the_type_of_their_key(pair: str, values: dict[str, Any]) -> None:
    assert read_board_config([pair], None).values == values


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "description: mnist\nidle_timeout: 30m\nresources:\n  slots: 1\n"),
        ("a.toml", 'description = "mnist"\nidle_timeout = "30m"\n[resources]\nslots = 1\n'),
        ("a.json", '{"description": "mnist", "idle_timeout": 1800, "resources": {"slots": 1}}'),
        ("a.conf", '{"description": "mnist", "idle_timeout": 1800, "resources": {"slots": 1}}'),
    ],
)
def test_files_of_each_kind(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    found = read_board_config([], str(tmp_path / name))
    assert found.values == {"name": "mnist", "idle_timeout": 1800.0}
    assert found.ignored == ("resources.slots",)


def test_empty_list_is_known(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"name": "x", "added": []}')
    found = read_board_config([], str(tmp_path / "a.json"))
    assert (found.values, found.ignored) == ({"name": "x", "added": []}, ())


def test_pairs_override_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"name": "file", "samples": 5, "debug": true}')
    found = read_board_config(["name=pair", "debug=false"], str(tmp_path / "a.json"))
    assert found.values == {"name": "pair", "samples": 5}
    assert found.ignored == ("debug",)


@pytest.mark.parametrize(
    ("pair", "error"),
    [
        ("name", "hint: write KEY=VALUE"),
        ("=x", "hint: write KEY=VALUE"),
        ("idle_timeout=soon", "idle_timeout: expected a time, got 'soon'. hint: write 90, 15m"),
        ("follow=maybe", "follow: expected true or false, got 'maybe'"),
        ("samples=1.5", "samples: expected a whole number"),
        ("trials=[1, true]", "trials: expected whole numbers"),
        ("added=[[1]]", "added: expected selectors"),
        ("name=[1]", "name: expected text"),
    ],
)
def test_bad_pair_is_an_error(pair: str, error: str) -> None:
    with pytest.raises(ValueError, match=error.replace("[", r"\[")):
        read_board_config([pair], None)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", "name: x"),
        ("a.toml", "name: x"),
        ("a.yaml", "a: [1"),
        ("a.yaml", "- 1"),
        ("a.json", "\udcff"),
    ],
)
def test_bad_file_is_an_error_that_names_it(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, errors="surrogateescape")
    with pytest.raises(ValueError, match=f"{name}: "):
        read_board_config([], str(tmp_path / name))
    with pytest.raises(FileNotFoundError):
        read_board_config([], str(tmp_path / "none.json"))


def test_empty_file_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("")
    assert read_board_config([], str(tmp_path / "a.yaml")).values == {}


def test_missing_yaml_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    (tmp_path / "a.yaml").write_text("name: x\n")
    with pytest.raises(ValueError, match="PyYAML"):
        read_board_config([], str(tmp_path / "a.yaml"))
    (tmp_path / "a.yaml").write_text(json.dumps({"name": "x"}))
    assert read_board_config([], str(tmp_path / "a.yaml")).values == {"name": "x"}
