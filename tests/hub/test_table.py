"""The table of runs over HTTP, as the web page asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.hub import HubProcess, eventually
from tbhub import SummaryWriter


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    where: Path = tmp_path_factory.mktemp("table")
    for number in range(3):
        with SummaryWriter(where / "runs" / "exp" / f"r{number}") as writer:
            writer.add_scalar("loss", 1.0 - number / 4, 1)
    with HubProcess(where / "home", logdirs=where / "runs") as hub:
        hub.wait_for_runs(3)
        asked = {"q": "where metrics.loss.last>0"}
        table = "/api/v1/runs/table"
        eventually(lambda: hub.json("GET", table, params=asked)["total"] == 3, "they are not read")
        yield hub


def test_a_part_of_the_table(hub: HubProcess) -> None:
    asked = {"sort": "metrics.loss.last", "columns": "path,metrics.loss.last", "limit": "2"}
    found = hub.json("GET", "/api/v1/runs/table", params=asked)
    assert found["total"] == 3
    assert found["columns"]["path"] == ["exp/r2", "exp/r1"]
    assert found["columns"]["metrics.loss.last"] == [0.5, 0.75]
    again = hub.json("GET", "/api/v1/runs/table", params=asked)
    assert again["revision"] == found["revision"]


@pytest.mark.parametrize(
    ("path", "params", "position"),
    [
        ("table", {"q": "where lr <"}, 10),
        ("table", {"sort": "name,-tag"}, 6),
        ("table", {"columns": "name,<"}, 5),
        ("columns", {"q": "where"}, 5),
        ("groups", {"by": "lr lr"}, 3),
    ],
)
def test_what_cannot_be_read_says_where(
    hub: HubProcess, path: str, params: dict[str, str], position: int
) -> None:
    answer = hub.ask("GET", f"/api/v1/runs/{path}", params=params)
    assert answer.status_code == 422
    assert answer.json()["error"]["details"]["position"] == position


def test_many_are_changed_and_put_away_and_taken_back(hub: HubProcess) -> None:
    ids = hub.json("GET", "/api/v1/runs/table?sort=id")["columns"]["id"]

    def change(**change: object) -> int:
        return int(hub.json("POST", "/api/v1/runs/bulk", json=change)["changed"])

    assert change(q="exp:exp", add_tags=["a", "b"]) == 3
    assert change(ids=ids[:2], remove_tags=["b"], archived=True) == 2
    shown = hub.json("GET", "/api/v1/runs/table?columns=tags")
    assert (shown["columns"]["id"], shown["columns"]["tags"]) == ([ids[2]], [["a", "b"]])
    everything = hub.json("GET", "/api/v1/runs/table?columns=tags&archived=true&sort=id")
    assert everything["columns"]["tags"] == [["a"], ["a"], ["a", "b"]]
    assert change(ids=ids[:2], archived=False) == 2
    assert hub.json("GET", "/api/v1/runs/table")["total"] == 3


def test_nothing_changes_unless_every_run_is_there(hub: HubProcess) -> None:
    ids = hub.json("GET", "/api/v1/runs/table")["columns"]["id"]
    path = "/api/v1/runs/bulk"
    assert hub.ask("POST", path, json={"ids": [*ids, 999], "note": "x"}).status_code == 404
    assert hub.ask("POST", path, json={"note": "x"}).status_code == 422
    assert set(hub.json("GET", "/api/v1/runs/table?columns=note")["columns"]["note"]) == {""}
