"""Runs in buckets beside those of this machine; how they are found and called."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.catalog import Watch, log
from support.live import eventually
from tbhub.catalog.discovery import RemoteDiscovery
from tbhub.catalog.run_records import FoundRun, add_found
from tbhub.storage.credentials import Known
from tbhub.storage.uri import parse

KEYS = {"access_key_id": "key", "secret_access_key": "hidden", "region": "x"}


def test_a_store_that_never_answers_holds_up_nothing(tmp_path: Path, watch: Watch) -> None:
    watched = watch(tmp_path / "runs")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = {**KEYS, "endpoint": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        found = [FoundRun(f"r{each}", f"s3://b/r{each}", "e") for each in range(50)]
        with watched.database.begin() as connection:
            add_found(connection, 1, None, found, 0.0)
        watched.indexer.connect([Known("silent", parse("s3://b"), None, settings)])
        thread = threading.Thread(target=watched.indexer.run)
        thread.start()
        try:
            log(tmp_path / "runs" / "here", 3.0)
            eventually(lambda: "here" in watched.runs() and watched.runs()["here"].metrics)
        finally:
            watched.indexer.stop()
            thread.join()
    assert watched.runs()["r0"].problem is None


def test_what_cannot_be_a_place_is_a_problem_of_its_run(tmp_path: Path, watch: Watch) -> None:
    watched = watch(tmp_path / "runs")
    places = ("ftp://b/x", "s3://", "az://no-account/x")
    found = [FoundRun(place, place, "e") for place in places]
    with watched.database.begin() as connection:
        add_found(connection, 1, None, found, 0.0)
    watched.indexer.connect([])
    log(tmp_path / "runs" / "here", 3.0)
    runs = watched.index()
    assert runs["here"].metrics["loss"].last == 3.0
    for place in places:
        problem = runs[place].problem
        assert problem is not None
        assert "cannot be read" in problem


@pytest.mark.parametrize(
    ("root", "experiment", "path", "called"),
    [
        ("s3://b/top", None, "s3://b/top/x/y/z", ("x/y/z", "x/y")),
        ("s3://b/top", None, "s3://b/top/x", ("x", "top")),
        ("s3://b/top", None, "s3://b/top", ("top", "top")),
        ("s3://b/top", "mine", "s3://b/top/x/y", ("x/y", "mine")),
        ("s3://b", None, "s3://b/x", ("x", "default")),
        ("s3://b", None, "s3://b", ("default", "default")),
        ("az://b@a/top", None, "az://b@a/top/x/y", ("x/y", "x")),
    ],
)
def test_names_are_those_below_a_logdir(
    root: str, experiment: str | None, path: str, called: tuple[str, str]
) -> None:
    found = RemoteDiscovery(root, experiment).found(path)
    assert (found.path, found.experiment) == called
    assert found.location == path


@given(st.lists(st.sets(st.sampled_from("abcdef")), max_size=8))
def test_what_came_and_went_adds_up(listings: list[set[str]]) -> None:
    discovery = RemoteDiscovery("s3://b")
    known: set[str] = set()
    for listing in listings:
        scan = discovery.compare(listing)
        assert not known & set(scan.new)
        assert known >= set(scan.gone)
        known = (known | set(scan.new)) - set(scan.gone)
        assert known == listing
