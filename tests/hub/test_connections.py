"""Named connections: their secrets are used and never seen again."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import seaweedfs as weed
from support.conducted import Catalog
from support.hub import HubProcess, eventually
from support.seaweedfs import SeaweedFS, seaweedfs
from tbhub import SummaryWriter
from tbhub.api.models import NewStorageConnection
from tbhub.api.problems import BadRequest, Forbidden
from tbhub.database.engine import Database
from tbhub.database.tables import runs
from tbhub.hub.board_access import may_open
from tbhub.hub.connections import Connections
from tbhub.storage.open import open_store

__all__ = ["seaweedfs"]

SECRET = b"s" * 32


def add(database: Database, connections: Connections, name: str, uri: str, **settings: str) -> None:
    new = NewStorageConnection(name=name, uri=uri, settings=settings)
    with database.begin() as connection:
        connections.add(connection, new, None, None, trusted=True)  # type: ignore[arg-type]
    connections.forget()


def test_the_longest_prefix_counts_and_ends_at_a_slash(database: Database) -> None:
    known = Connections(database, SECRET)
    for name, uri in (("b", "s3://b"), ("x", "s3://b/x"), ("xy", "s3://b/x/y"), ("g", "gs://b")):
        settings = {"token": name} if name == "g" else {"access_key_id": name}
        add(database, known, name, uri, **settings)

    def name(place: str) -> str | None:
        found = known.find(place, None)
        return None if found is None else found.name

    assert name("s3://b") == name("s3://b/xy") == name("s3://b/z/x") == "b"
    assert name("s3://b/x") == name("s3://b/x/yz") == name("s3://b/x/z") == "x"
    assert name("s3://b/x/y") == name("s3://b/x/y/z") == "xy"
    assert name("gs://b/x") == "g"
    for place in ("s3://bb/x", "oss://b/x", "/b/x", "not a place", "s3://"):
        assert name(place) is None


def test_the_newest_of_the_same_prefix_counts_for_the_hub_and_its_indexer(
    database: Database,
) -> None:
    known = Connections(database, SECRET)
    for name in ("old", "new", "a"):
        add(database, known, name, "s3://b/x", access_key_id=name)
    assert known.credentials("s3://b/x/y", None) == {"access_key_id": "a"}
    assert [each["name"] for each in known.told()] == ["old", "new", "a"]
    with database.begin() as connection:
        known.remove(connection, "a")
    known.forget()
    assert known.credentials("s3://b/x/y", None) == {"access_key_id": "new"}


def test_secrets_are_kept_encrypted(database: Database) -> None:
    add(database, Connections(database, SECRET), "a", "s3://b", secret_access_key="hidden")
    with database.read() as connection:
        (row,) = connection.exec_driver_sql("SELECT * FROM connections").mappings().all()
    assert "hidden" not in str(dict(row))
    again = Connections(database, SECRET)
    assert again.credentials("s3://b/x", None) == {"secret_access_key": "hidden"}
    assert "hidden" not in repr(again.find("s3://b/x", None))
    assert Connections(database, b"o" * 32).credentials("s3://b/x", None) == {}


@pytest.mark.parametrize(
    ("uri", "settings"),
    [
        ("/data", {}),
        ("hub://runs/1", {}),
        ("ftp://x", {}),
        ("s3://b", {"password": "x"}),
        ("gs://b", {"service_account": "/etc/passwd"}),
    ],
)
def test_what_cannot_be_a_connection(
    database: Database, uri: str, settings: dict[str, str]
) -> None:
    with pytest.raises(BadRequest) as raised:
        add(database, Connections(database, SECRET), "a", uri, **settings)
    assert "/etc/passwd" not in str(raised.value)


@pytest.mark.parametrize(
    ("uri", "settings"),
    [
        ("s3://b", {"access_key_id": "k", "endpoint": "http://169.254.169.254"}),
        ("s3://b", {"access_key_id": "k", "endpoint": "https://example.com"}),
        ("s3://b", {"access_key_id": "k", "region": "x.example.com/"}),
        ("gs://b", {"token": "t", "endpoint": "http://127.0.0.1:1"}),
        ("gs://b", {"service_account_key": '{"gcs_base_url": "http://127.0.0.1:1"}'}),
        ("az://b@10.0.0.1/x", {"account_key": "k"}),
        ("az://b", {"connection_string": "BlobEndpoint=http://127.0.0.1:1"}),
        ("az://b", {"account_key": "k", "account_name": "localhost:1/"}),
        ("s3://b", {}),
    ],
)
def test_addresses_are_said_by_admins_of_the_hub(
    database: Database, uri: str, settings: dict[str, str]
) -> None:
    known = Connections(database, SECRET)
    new = NewStorageConnection(name="a", uri=uri, settings=settings)
    with pytest.raises(Forbidden), database.begin() as connection:
        known.add(connection, new, None, 1, trusted=False)
    add(database, known, "a", uri, **settings)


def test_an_admin_of_a_workspace_brings_keys_and_no_address(tmp_path: Path) -> None:
    with HubProcess(tmp_path / "home", auth="users") as hub:
        token = hub.create_user("ann")
        hub.json("POST", "/api/v1/workspaces", json={"name": "hers"})
        hub.json("PUT", "/api/v1/workspaces/hers/members/ann", json={"role": "admin"})
        new = {"name": "x", "uri": "s3://b", "workspace": "hers"}
        keys = {"access_key_id": "k", "secret_access_key": "s"}
        bad = {**new, "settings": {**keys, "endpoint": "http://127.0.0.1:1"}}
        assert hub.ask("POST", "/api/v1/storage", token, json=bad).status_code == 403
        hub.json("POST", "/api/v1/storage", token, json={**new, "settings": keys})
        hub.json("DELETE", "/api/v1/storage/x", token)
        hub.json("POST", "/api/v1/storage", json=bad)


def test_members_may_open_what_is_read_by_connections_of_their_workspaces(
    database: Database,
) -> None:
    catalog, known = Catalog(database), Connections(database, SECRET)
    team, other = catalog.workspace("team"), catalog.workspace("other")
    prefixes: dict[str, int | None] = {
        "s3://b/runs": team,
        "s3://b/runs/deep/all": None,
        "s3://b/all": None,
        "s3://b/other": other,
        "s3://kept": team,
    }
    with database.begin() as connection:
        for number, (uri, workspace_id) in enumerate(prefixes.items()):
            new = NewStorageConnection(name=f"c{number}", uri=uri)
            known.add(connection, new, workspace_id, None, trusted=True)  # type: ignore[arg-type]

    def opens(uri: str, *visible: int) -> bool:
        with database.read() as connection:
            return may_open(connection, frozenset(visible), [uri])

    inside = ("s3://b/runs", "s3://b/runs/", "s3://b/runs/deep/x", "s3://b/runs/%2e%2e/all")
    assert [uri for uri in inside if not opens(uri, team)] == []
    assert not any(opens(uri, other) or opens(uri) for uri in inside)
    outside = [
        *("s3://b", "s3://b/runs2", "s3://b/run", "s3://b/all/x", "s3://b/other/x", "gs://b/runs"),
        *("s3://b/runs/../all", "s3://b/runs/./x", "s3://b/runs//x", "s3://b/%72uns", "/b/runs"),
        # The keys for all would be used there, not those of the workspace.
        *("s3://b/runs/deep/all", "s3://b/runs/deep/all/x"),
    ]
    assert [uri for uri in outside if opens(uri, team)] == []
    assert opens("s3://kept/hub/1", team)
    run = catalog.run("s3://kept/hub/1", workspace="other")  # type: ignore[arg-type]
    with database.begin() as connection:
        connection.execute(runs.update().where(runs.c.id == run), {"kept": True})
    assert not any(opens(uri, team) for uri in ("s3://kept", "s3://kept/hub", "s3://kept/hub/1/x"))
    assert opens("s3://kept/mine", team)


def test_members_see_the_connections_of_their_workspaces_and_no_settings(tmp_path: Path) -> None:
    with HubProcess(tmp_path / "home", auth="users") as hub:
        tokens = {name: hub.create_user(name) for name in ("maria", "vera", "ann", "otto")}
        hub.json("POST", "/api/v1/workspaces", json={"name": "team"})
        for name, role in (("maria", "member"), ("vera", "viewer"), ("ann", "admin")):
            hub.json("PUT", f"/api/v1/workspaces/team/members/{name}", json={"role": role})
        settings = {"endpoint": "http://127.0.0.1:1", "access_key_id": "k"}
        for name, uri, workspace in (("x", "s3://b/runs", "team"), ("y", "s3://b", None)):
            new = {"name": name, "uri": uri, "workspace": workspace, "settings": settings}
            hub.json("POST", "/api/v1/storage", json=new)

        def seen(name: str) -> list[tuple[str, str, str | None, int, bool]]:
            return [
                (
                    each["name"],
                    each["uri"],
                    each["workspace"],
                    len(each["settings"]),
                    each["manageable"],
                )
                for each in hub.json("GET", "/api/v1/storage", tokens[name])
            ]

        assert seen("maria") == seen("vera") == [("x", "s3://b/runs", "team", 0, False)]
        assert seen("ann") == [("x", "s3://b/runs", "team", 2, True)]
        assert seen("otto") == []
        tokens["admin"] = hub.token
        assert [each[0] for each in seen("admin")] == ["x", "y"]

        def create(name: str, uri: str) -> int:
            new = {"uris": [uri]}
            return hub.ask("POST", "/api/v1/boards", tokens[name], json=new).status_code

        assert create("otto", "s3://b/runs/a") == create("maria", "s3://b/other") == 404
        assert create("vera", "s3://b/runs/a") == create("maria", "s3://b/runs/a") == 201
        hub.json("DELETE", "/api/v1/storage/x")
        (board,) = hub.json("GET", "/api/v1/boards", tokens["maria"])["boards"]
        assert board["closed"]
        assert "s3://b/runs/a" in board["problem"]


def test_keys_go_to_no_host_that_only_a_place_names(database: Database) -> None:
    known = Connections(database, SECRET)
    add(database, known, "a", "az://b", account_key="k")
    assert known.find("az://b@account/x", None) is not None
    assert known.find("az://b@storage.example.com/x", None) is None


def test_a_bucket_is_listed_watched_and_read_with_a_connection(
    tmp_path: Path, seaweedfs: SeaweedFS
) -> None:
    settings = {
        "endpoint": seaweedfs.url,
        "access_key_id": "everything",
        "secret_access_key": weed.SECRET,
    }
    top = f"s3://{weed.BUCKET}/{tmp_path.name}"
    with SummaryWriter(tmp_path / "run") as writer:
        writer.add_scalar("loss", 1.0, 1)
    (file,) = (tmp_path / "run").iterdir()
    store, path = open_store(top, settings)
    for run in ("exp/a", "exp/b", "c"):
        store.put(f"{path}/{run}/{file.name}.000001", file.read_bytes())
    store.put(f"{path}/c/console.log", b"hello\n")
    store.put(f"{path}/nothing/notes.txt", b"")
    store.close()
    with HubProcess(tmp_path / "home") as hub:
        assert hub.ask("POST", "/api/v1/runs/found", json={"uri": top}).status_code == 503
        bad = {**settings, "secret_access_key": "wrong"}
        for name, values in (("bad", bad), ("good", settings)):
            new = {"name": name, "uri": top, "settings": values}
            shown = hub.json("POST", "/api/v1/storage", json=new)
            assert shown["settings"] == sorted(settings)
            tested = hub.json("POST", f"/api/v1/storage/{name}/test")
            assert tested["good"] is (name == "good")
            if name == "bad":
                assert [each["check"] for each in tested["findings"] if each["good"] is False] == [
                    "credentials"
                ]
                hub.json("DELETE", f"/api/v1/storage/{name}")
        found = hub.json("POST", "/api/v1/runs/found", json={"uri": top, "watch": True})
        assert (found["runs"], found["new"]) == (3, 3)
        runs = {run["location"]: run for run in hub.json("GET", "/api/v1/runs")["runs"]}
        assert runs[f"{top}/exp/a"]["experiment"] == "exp"
        run = runs[f"{top}/c"]["id"]
        assert hub.json("GET", f"/api/v1/runs/{run}/log")["text"] == "hello\n"
        assert hub.ask("GET", f"/api/v1/runs/{run}/files/console.log").content == b"hello\n"
        eventually(lambda: hub.json("GET", "/api/v1/logdirs")[0]["path"] == top)
        shown = [hub.ask("GET", path).text for path in ("/api/v1/storage", "/api/v1/logdirs")]
    for text in (*shown, hub.log):
        assert weed.SECRET not in text
        assert "wrong" not in text


def test_a_board_uses_a_newer_connection_of_the_same_prefix_and_doctor_names_it(
    tmp_path: Path, seaweedfs: SeaweedFS
) -> None:
    settings = {
        "endpoint": seaweedfs.url,
        "access_key_id": "everything",
        "secret_access_key": weed.SECRET,
    }
    top = f"s3://{weed.BUCKET}/{tmp_path.name}"
    with SummaryWriter(tmp_path / "run") as writer:
        writer.add_scalar("loss", 1.0, 1)
    (file,) = (tmp_path / "run").iterdir()
    store, path = open_store(top, settings)
    store.put(f"{path}/a/{file.name}.000001", file.read_bytes())
    store.close()
    with HubProcess(tmp_path / "home") as hub:

        def connect(name: str, **other: str) -> None:
            new = {"name": name, "uri": top, "settings": {**settings, **other}}
            hub.json("POST", "/api/v1/storage", json=new)

        def findings(board: str, subject: str) -> list[dict[str, str]]:
            found = hub.json("GET", f"/api/v1/boards/{board}/doctor")["findings"]
            return [each for each in found if each["subject"] == subject]

        connect("old", secret_access_key="wrong")
        board = hub.json("POST", "/api/v1/boards", json={"uris": [top]})["id"]
        (refused,) = eventually(lambda: findings(board, "permission"))
        assert "from connection old." in refused["text"]
        assert "`tbhub storage test old --for boards`" in refused["advice"]
        connect("new")
        hub.wait_for(board, "RUNNING")
        (source,) = eventually(lambda: findings(board, "source"))
        assert "from connection new." in source["text"]
        hub.json("POST", "/api/v1/runs/found", json={"uri": top})
        (run,) = hub.json("GET", "/api/v1/runs")["runs"]
        of_run = hub.create_board(trials=[run["id"]])["id"]
        (source,) = eventually(lambda: findings(of_run, "source"))
        assert "from connection new." in source["text"]
