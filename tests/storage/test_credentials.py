"""Which connection is used for a place."""

from __future__ import annotations

from tbhub.storage.credentials import Known, Workspaces, choose
from tbhub.storage.uri import parse


def known(name: str, uri: str = "s3://b/x", workspace_id: int | None = None) -> Known:
    return Known(name, parse(uri), workspace_id, {})


def chosen(*connections: Known, allowed: Workspaces = None) -> str | None:
    found = choose(connections, "s3://b/x/y", allowed)
    return None if found is None else found.name


def test_the_newest_of_equal_prefixes_is_used() -> None:
    assert chosen(known("old"), known("new")) == "new"
    assert chosen(known("new"), known("old")) == "old"
    assert chosen(known("old", workspace_id=1), known("new", workspace_id=1)) == "new"


def test_a_longer_prefix_is_used_before_a_newer_connection() -> None:
    assert chosen(known("old"), known("new", "s3://b")) == "old"


def test_a_connection_of_the_workspace_is_used_before_a_newer_one_for_all() -> None:
    connections = known("own", workspace_id=1), known("all")
    assert chosen(*connections, allowed={1}) == "own"
    assert chosen(*connections, allowed={2}) == "all"
