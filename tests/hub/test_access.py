"""Who may do what: every route of the API, asked by everybody.

A route that is not in the matrix fails the test: whoever adds one says who may use it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.hub import HubProcess
from tbhub import SummaryWriter
from tbhub.hub.access import Caller

CALLERS = ("nobody", "viewer", "member", "admin", "other", "read", "expired", "revoked", "share")
STRANGERS = ("nobody", "expired", "revoked", "share")

numbers = itertools.count()


@dataclass
class World:
    """A hub with a workspace ``team``: a viewer and a member of it, and a member who is not.

    The board, the tokens and the read-only token are the member's.
    """

    hub: HubProcess
    tokens: dict[str, str]
    run: int
    kept: int  # a run whose files the hub keeps
    experiment: int
    board: str
    logdir: Path
    cookie: str

    def ask(self, caller: str, method: str, path: str, json: Any = None) -> int:
        """The status of an answer."""
        headers = {"cookie": self.cookie} if caller == "share" else {}
        with (
            self.hub.client(self.tokens[caller], headers=headers) as client,
            client.stream(method, path, json=json) as answer,
        ):
            return int(answer.status_code)

    def create_board(self) -> str:
        new = {"trials": [self.run]}
        return str(self.hub.json("POST", "/api/v1/boards", self.tokens["member"], json=new)["id"])

    def create(self, what: str, token: str = "admin", **new: Any) -> Any:
        return self.hub.json("POST", f"/api/v1/{what}", self.tokens[token], json=new)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    where = tmp_path_factory.mktemp("access")
    logdir = where / "runs"
    with SummaryWriter(logdir / "exp" / "a") as writer:
        writer.add_scalar("loss", 1.0, 1)
    with HubProcess(
        where / "home",
        storage=where / "files",
        auth="users",
        login_attempts=10_000,
        max_boards_per_user=0,
    ) as hub:
        hub.json("POST", "/api/v1/workspaces", json={"name": "team"})
        tokens = {"nobody": "", "share": "", "admin": hub.token}
        for caller, role in (("viewer", "viewer"), ("member", "member"), ("other", "member")):
            tokens[caller] = hub.create_user(caller, role)
        for caller in ("viewer", "member"):
            member = f"/api/v1/workspaces/team/members/{caller}"
            hub.json("PUT", member, json={"role": caller})
        hub.json("POST", "/api/v1/logdirs", json={"path": str(logdir), "workspace": "team"})
        (run,) = hub.wait_for_runs(1)
        for name, more in (
            ("read", {"scope": "read"}),
            ("expired", {"expires_in": 1e-3}),
            ("revoked", {}),
        ):
            new = {"name": name, **more}
            made = hub.json("POST", "/api/v1/tokens", tokens["member"], json=new)
            tokens[name] = made["token"]
            if name == "revoked":
                hub.json("DELETE", f"/api/v1/tokens/{made['id']}", tokens["member"])
        board = hub.create_board(tokens["member"], trials=[run["id"]])
        path = f"/api/v1/boards/{board['id']}/shares"
        share = hub.json("POST", path, tokens["member"], json={})["url"]
        with hub.client("") as client:
            opened = client.get(share)
            assert opened.status_code == 303
            cookie = opened.headers["set-cookie"].split(";")[0]
        new = {"workspace": "team", "experiment": "kept"}
        kept = hub.json("POST", "/api/v1/runs", tokens["member"], json=new)["run"]["id"]
        hub.json("PUT", f"/api/v1/runs/{kept}/files/console.log?whole=true", content=b"hello\n")
        run_id, experiment = run["id"], run["experiment_id"]
        yield World(hub, tokens, run_id, kept, experiment, board["id"], logdir, cookie)


Made = tuple[str, Any]
Make = Callable[[World], Made]
Row = tuple[Make | str, Mapping[str, int]]


def all_who(viewer: int, member: int, admin: int, other: int, read: int) -> dict[str, int]:
    known = {"viewer": viewer, "member": member, "admin": admin, "other": other, "read": read}
    return {**dict.fromkeys(STRANGERS, 401), **known}


PUBLIC = dict.fromkeys(CALLERS, 200)
KNOWN = all_who(200, 200, 200, 200, 200)
TEAM = all_who(200, 200, 200, 404, 200)  # may see what is in the workspace
TEAM_CHANGE = all_who(403, 200, 200, 404, 403)
MANAGE = all_who(403, 403, 200, 404, 403)
OWN = all_who(404, 200, 200, 404, 200)  # may see the member's board
OWN_CHANGE = all_who(403, 200, 200, 404, 403)
OWN_END = all_who(404, 200, 200, 404, 403)  # with any role, so that a viewer's old boards can end
ADMINS = all_who(403, 403, 200, 403, 403)


def a_board(action: str = "", body: Any = None) -> Make:
    return lambda world: (f"/api/v1/boards/{world.create_board()}{action}", body)


def the_board(rest: str = "") -> Make:
    return lambda world: (f"/api/v1/boards/{world.board}{rest}", None)


def run_path(world: World, query: str = "") -> str:
    return f"/api/v1/runs/{world.run}{query}"


def kept(rest: str, body: Any = None) -> Make:
    return lambda world: (f"/api/v1/runs/{world.kept}{rest}", body)


def an_upload(world: World) -> Made:
    path = f"/api/v1/runs/{world.kept}/files/large?upload={next(numbers):032x}"
    world.hub.json("PUT", f"{path}&offset=0", content=b"part")
    return f"{path}&size=4", None


def a_connection(workspace: str | None, rest: str = "") -> Make:
    def make(world: World) -> Made:
        # Nothing answers there: what is asked is who may.
        place = {"uri": "s3://bucket", "settings": {"endpoint": "http://127.0.0.1:1"}}
        name = f"c{next(numbers)}"
        world.create("storage", name=name, workspace=workspace, **place)
        return f"/api/v1/storage/{name}{rest}", None

    return make


def a_share(world: World) -> Made:
    made = world.create(f"boards/{world.board}/shares", "member")
    return f"/api/v1/boards/{world.board}/shares/{made['id']}", None


def a_member(world: World) -> Made:
    name = f"user {next(numbers)}"
    world.create("users", name=name)
    path = f"/api/v1/workspaces/team/members/{name}"
    world.hub.json("PUT", path, json={"role": "viewer"})
    return path, {"role": "viewer"}


def a_logdir(world: World) -> Made:
    path = str(world.logdir / f"sub {next(numbers)}")
    made = world.create("logdirs", path=path, workspace="team")
    return f"/api/v1/logdirs/{made['id']}", None


def a_user(world: World) -> Made:
    name = f"user {next(numbers)}"
    world.create("users", name=name)
    return f"/api/v1/users/{name}", None


def a_workspace(world: World) -> Made:
    name = f"ws{next(numbers)}"
    world.create("workspaces", name=name)
    return f"/api/v1/workspaces/{name}", None


def a_token(world: World) -> Made:
    return f"/api/v1/tokens/{world.create('tokens', 'member')['id']}", None


def series(below: str = "") -> Callable[[World], Made]:
    return lambda world: (f"/api/v1/series{below}", {"runs": [world.run]})


MATRIX: dict[str, Row] = {
    "GET /healthz": ("/healthz", PUBLIC),
    "GET /metrics": ("/metrics", KNOWN),
    "GET /api/v1/version": ("/api/v1/version", PUBLIC),
    "GET /api/v1/me": ("/api/v1/me", KNOWN),
    "GET /api/v1/status": ("/api/v1/status", KNOWN),
    "GET /api/v1/hosts": ("/api/v1/hosts", ADMINS),
    "GET /api/v1/doctor": ("/api/v1/doctor", ADMINS),
    "POST /api/v1/hosts/{host}/drain": (
        "/api/v1/hosts/none/drain",
        all_who(403, 403, 404, 403, 403),
    ),
    "GET /api/v1/events": ("/api/v1/events", KNOWN),
    "POST /api/v1/login": (
        lambda _: ("/api/v1/login", {"name": "admin", "password": "wrong"}),
        dict.fromkeys(CALLERS, 401),
    ),
    "POST /api/v1/logout": ("/api/v1/logout", KNOWN),
    "POST /api/v1/login-links": (lambda _: ("/api/v1/login-links", {}), KNOWN),
    # workspaces
    "GET /api/v1/workspaces": ("/api/v1/workspaces", KNOWN),
    "POST /api/v1/workspaces": (
        lambda _: ("/api/v1/workspaces", {"name": f"ws{next(numbers)}"}),
        ADMINS,
    ),
    "PATCH /api/v1/workspaces/{name}": (
        lambda _: ("/api/v1/workspaces/team", {"note": "x"}),
        MANAGE,
    ),
    "DELETE /api/v1/workspaces/{name}": (a_workspace, ADMINS),
    "GET /api/v1/workspaces/{name}/members": ("/api/v1/workspaces/team/members", TEAM),
    "PUT /api/v1/workspaces/{name}/members/{user}": (a_member, MANAGE),
    "DELETE /api/v1/workspaces/{name}/members/{user}": (a_member, MANAGE),
    "GET /api/v1/logdirs": ("/api/v1/logdirs", KNOWN),
    "POST /api/v1/logdirs": (
        lambda world: (
            "/api/v1/logdirs",
            {"path": str(world.logdir / f"n{next(numbers)}"), "workspace": "team"},
        ),
        ADMINS,
    ),
    "DELETE /api/v1/logdirs/{logdir}": (a_logdir, ADMINS),
    # runs
    "GET /api/v1/experiments": ("/api/v1/experiments", KNOWN),
    "GET /api/v1/experiments/{experiment}": (
        lambda world: (f"/api/v1/experiments/{world.experiment}", None),
        TEAM,
    ),
    "PATCH /api/v1/experiments/{experiment}": (
        lambda world: (f"/api/v1/experiments/{world.experiment}", {"note": "x"}),
        TEAM_CHANGE,
    ),
    "DELETE /api/v1/experiments/{experiment}": (
        lambda world: (f"/api/v1/experiments/{world.experiment}?dry_run=true", None),
        TEAM_CHANGE,
    ),
    "GET /api/v1/runs": ("/api/v1/runs", KNOWN),
    "DELETE /api/v1/runs": (
        lambda world: (f"/api/v1/runs?select=trial:{world.run}&dry_run=true", None),
        TEAM_CHANGE,
    ),
    "GET /api/v1/runs/table": ("/api/v1/runs/table?q=exp:exp", TEAM),
    "GET /api/v1/runs/columns": ("/api/v1/runs/columns?q=exp:exp", TEAM),
    "GET /api/v1/runs/groups": ("/api/v1/runs/groups?by=status&q=exp:exp", TEAM),
    "POST /api/v1/runs/bulk": (
        lambda world: ("/api/v1/runs/bulk", {"ids": [world.run], "note": "x"}),
        TEAM_CHANGE,
    ),
    "GET /api/v1/runs/{run}": (lambda world: (run_path(world), None), TEAM),
    "PATCH /api/v1/runs/{run}": (lambda world: (run_path(world), {"note": "x"}), TEAM_CHANGE),
    "DELETE /api/v1/runs/{run}": (
        lambda world: (run_path(world, "?dry_run=true"), None),
        TEAM_CHANGE,
    ),
    "POST /api/v1/runs": (
        lambda _: ("/api/v1/runs", {"workspace": "team", "experiment": "new"}),
        TEAM_CHANGE,
    ),
    "POST /api/v1/runs/{run}/heartbeat": (kept("/heartbeat", {"attempt": 1}), TEAM_CHANGE),
    "POST /api/v1/runs/{run}/finish": (
        kept("/finish", {"attempt": 1, "status": "finished"}),
        TEAM_CHANGE,
    ),
    "GET /api/v1/runs/{run}/details": (kept("/details"), TEAM),
    "GET /api/v1/runs/{run}/log": (kept("/log"), TEAM),
    "GET /api/v1/runs/{run}/files": (kept("/files"), TEAM),
    "DELETE /api/v1/runs/{run}/files": (kept("/files?below=none"), TEAM_CHANGE),
    "GET /api/v1/runs/{run}/files/{path}": (kept("/files/console.log"), TEAM),
    "PUT /api/v1/runs/{run}/files/{path}": (kept("/files/a?whole=true", {}), TEAM_CHANGE),
    "POST /api/v1/runs/{run}/files/{path}": (an_upload, TEAM_CHANGE),
    "DELETE /api/v1/runs/{run}/files/{path}": (kept("/files/a"), TEAM_CHANGE),
    "POST /api/v1/runs/found": (
        lambda world: (
            "/api/v1/runs/found",
            {"uri": str(world.logdir), "workspace": "team", "experiment": "again"},
        ),
        TEAM_CHANGE,
    ),
    # series
    "POST /api/v1/series": (series(), TEAM),
    "POST /api/v1/series/tags": (series("/tags"), TEAM),
    "POST /api/v1/series/images": (series("/images"), TEAM),
    "POST /api/v1/series/news": (series("/news"), TEAM),
    "GET /api/v1/series/image": (
        lambda world: (
            f"/api/v1/series/image?run={world.run}&tag=none&step=0&wall_time=0",
            None,
        ),
        all_who(404, 404, 404, 404, 404),  # there is none
    ),
    # storage
    "GET /api/v1/storage": ("/api/v1/storage", KNOWN),
    "POST /api/v1/storage": (
        lambda _: ("/api/v1/storage", {"name": f"c{next(numbers)}", "uri": "s3://bucket"}),
        ADMINS,
    ),
    "DELETE /api/v1/storage/{name}": (a_connection("team"), MANAGE),
    "POST /api/v1/storage/{name}/test": (a_connection("team", "/test"), MANAGE),
    # boards
    "GET /api/v1/boards": ("/api/v1/boards?all=true", KNOWN),
    "POST /api/v1/boards": (
        lambda world: ("/api/v1/boards", {"trials": [world.run]}),
        TEAM_CHANGE,
    ),
    "GET /api/v1/boards/{board}": (the_board(), OWN),
    "PATCH /api/v1/boards/{board}": (a_board("", {"idle_timeout": 7}), OWN_CHANGE),
    "DELETE /api/v1/boards/{board}": (a_board(), OWN_END),
    "POST /api/v1/boards/{board}/start": (a_board("/start"), OWN_CHANGE),
    "POST /api/v1/boards/{board}/stop": (a_board("/stop"), OWN_END),
    "POST /api/v1/boards/{board}/kill": (a_board("/kill"), OWN_END),
    "POST /api/v1/boards/{board}/restart": (a_board("/restart"), OWN_CHANGE),
    "GET /api/v1/boards/{board}/runs": (the_board("/runs"), OWN),
    "POST /api/v1/boards/{board}/runs": (
        lambda world: a_board("/runs", {"runs": f"trial:{world.run}"})(world),
        OWN_CHANGE,
    ),
    "DELETE /api/v1/boards/{board}/runs": (
        lambda world: a_board("/runs", {"runs": f"trial:{world.run}"})(world),
        OWN_CHANGE,
    ),
    "GET /api/v1/boards/{board}/logs": (the_board("/logs"), OWN),
    "GET /api/v1/boards/{board}/config": (the_board("/config"), OWN),
    "GET /api/v1/boards/{board}/doctor": (the_board("/doctor"), OWN),
    "GET /api/v1/boards/{board}/shares": (the_board("/shares"), OWN),
    "POST /api/v1/boards/{board}/shares": (
        lambda world: (f"/api/v1/boards/{world.board}/shares", {}),
        OWN_CHANGE,
    ),
    "DELETE /api/v1/boards/{board}/shares/{share}": (a_share, OWN_END),
    # people
    "GET /api/v1/users": ("/api/v1/users", ADMINS),
    "POST /api/v1/users": (lambda _: ("/api/v1/users", {"name": f"u{next(numbers)}"}), ADMINS),
    "PATCH /api/v1/users/{name}": (
        lambda _: ("/api/v1/users/member", {"email": "m@example.com"}),
        all_who(403, 200, 200, 403, 403),
    ),
    "DELETE /api/v1/users/{name}": (a_user, ADMINS),
    "POST /api/v1/invitations": (lambda _: ("/api/v1/invitations", {"user": "member"}), ADMINS),
    "DELETE /api/v1/invitations/{name}": ("/api/v1/invitations/member", ADMINS),
    "GET /api/v1/quotas": ("/api/v1/quotas", KNOWN),
    "GET /api/v1/tokens": ("/api/v1/tokens", KNOWN),
    "POST /api/v1/tokens": (lambda _: ("/api/v1/tokens", {}), all_who(200, 200, 200, 200, 403)),
    "DELETE /api/v1/tokens/{token}": (a_token, all_who(404, 200, 200, 404, 403)),
}


def test_every_route_is_in_the_matrix(world: World) -> None:
    schema = world.hub.json("GET", "/api/v1/openapi.json", "")
    routes = {
        f"{method.upper()} {path}"
        for path, methods in schema["paths"].items()
        for method in methods
    }
    assert routes == set(MATRIX)


@pytest.mark.parametrize("route", MATRIX)
def test_who_may(world: World, route: str) -> None:
    make, expected = MATRIX[route]
    method = route.split(" ")[0]
    found = {}
    for caller in CALLERS:
        path, body = (make, None) if isinstance(make, str) else make(world)
        status = world.ask(caller, method, path, body)
        found[caller] = 200 if 200 <= status < 300 else status
    assert found == expected


BOARD = {**all_who(404, 200, 200, 404, 200), "share": 200}


@pytest.mark.parametrize("path", ["", "data/runs", "data/plugin/scalars/tags", "tbhub/events"])
def test_who_may_look_at_a_board(world: World, path: str) -> None:
    page = f"/boards/{world.board[:8]}/{path}"
    assert {caller: world.ask(caller, "GET", page) for caller in CALLERS} == BOARD


def test_a_board_that_is_not_there_looks_like_one_that_may_not_be_seen(world: World) -> None:
    with world.hub.client(world.tokens["other"]) as client:
        hidden = client.get(f"/boards/{world.board[:8]}/")
        missing = client.get("/boards/00000000/")
        assert hidden.status_code == missing.status_code == 404
        assert hidden.text == missing.text
        texts = {
            client.get(f"/api/v1/boards/{name}").text.replace(name, "x")
            for name in (world.board, "00000000-0000-4000-8000-000000000000")
        }
    assert len(texts) == 1


def test_lists_show_what_may_be_seen(world: World) -> None:
    def totals(caller: str) -> list[int]:
        token = world.tokens[caller]
        paths = ("experiments", "runs", "boards?all=true")
        return [world.hub.json("GET", f"/api/v1/{path}", token)["total"] for path in paths]

    assert totals("other") == [0, 0, 0]
    seen = totals("viewer")
    assert min(seen[:2]) >= 2
    assert seen[2] == 0
    assert totals("member")[:2] == seen[:2]
    assert totals("member")[2] >= 1
    for path in ("table", "groups?by=experiment"):
        assert world.hub.json("GET", f"/api/v1/runs/{path}", world.tokens["other"])["total"] == 0
    columns = world.hub.json("GET", "/api/v1/runs/columns", world.tokens["other"])
    assert "metrics.loss.last" not in {column["name"] for column in columns}
    names = world.hub.json("GET", "/api/v1/workspaces", world.tokens["other"])
    assert [each["name"] for each in names] == ["default"]


def test_quotas_tell_of_oneself_and_admins_of_all(world: World) -> None:
    def quotas(caller: str) -> Any:
        return world.hub.json("GET", "/api/v1/quotas", world.tokens[caller])

    assert [each["name"] for each in quotas("other")["users"]] == ["other"]
    assert [each["name"] for each in quotas("other")["workspaces"]] == ["default"]
    mine = quotas("member")["users"]
    assert [each["name"] for each in mine] == ["member"]
    assert mine[0]["used"] >= 1
    assert mine[0]["allowed"] is None
    world.hub.json("PATCH", "/api/v1/users/other", json={"max_boards": 7})
    everybody = {each["name"]: each for each in quotas("admin")["users"]}
    assert {"viewer", "member", "other"} <= set(everybody)
    assert (everybody["other"]["own"], everybody["other"]["allowed"]) == (7, 7)
    world.hub.json("PATCH", "/api/v1/users/other", json={"max_boards": None})
    assert quotas("other")["users"][0]["own"] is None


def test_a_board_tells_its_runs(world: World) -> None:
    found = world.hub.json("GET", f"/api/v1/boards/{world.board}/runs", world.tokens["member"])
    assert (found["total"], [run["id"] for run in found["runs"]]) == (1, [world.run])


# What the owner of a board may do who lost the right to one of its sources; others get 404.
CLOSED: dict[str, tuple[str, Any, int]] = {
    "GET /api/v1/boards/{board}": ("", None, 200),
    "PATCH /api/v1/boards/{board}": ("", {"idle_timeout": 7}, 403),
    "POST /api/v1/boards/{board}/start": ("/start", None, 403),
    "POST /api/v1/boards/{board}/restart": ("/restart", None, 403),
    "GET /api/v1/boards/{board}/runs": ("/runs", None, 403),
    "POST /api/v1/boards/{board}/runs": ("/runs", {"runs": "all"}, 403),
    "DELETE /api/v1/boards/{board}/runs": ("/runs", {"runs": "all"}, 403),
    "GET /api/v1/boards/{board}/logs": ("/logs", None, 403),
    "GET /api/v1/boards/{board}/config": ("/config", None, 200),
    "GET /api/v1/boards/{board}/doctor": ("/doctor", None, 403),
    "GET /api/v1/boards/{board}/shares": ("/shares", None, 200),
    "POST /api/v1/boards/{board}/shares": ("/shares", {}, 403),
    "DELETE /api/v1/boards/{board}/shares/{share}": ("/shares/{share}", None, 200),
    "POST /api/v1/boards/{board}/stop": ("/stop", None, 200),
    "POST /api/v1/boards/{board}/kill": ("/kill", None, 200),
    "DELETE /api/v1/boards/{board}": ("", None, 200),
}


def lose_membership(world: World, owner: str, sub: str) -> tuple[dict[str, Any], Callable[[], Any]]:
    """Return what a board shows, and what takes the right to it away from its owner."""
    member = f"/api/v1/workspaces/team/members/{owner}"
    world.hub.json("PUT", member, json={"role": "member"})
    return {"trials": [world.run]}, lambda: world.hub.json("DELETE", member)


def lose_logdir(world: World, owner: str, sub: str) -> tuple[dict[str, Any], Callable[[], Any]]:
    """Likewise, with a place in a logdir that is removed."""
    where = world.logdir.parent / sub
    with SummaryWriter(where / "run") as writer:
        writer.add_scalar("loss", 1.0, 1)
    world.create("workspaces", name=sub)
    world.hub.json("PUT", f"/api/v1/workspaces/{sub}/members/{owner}", json={"role": "member"})
    logdir = world.create("logdirs", path=str(where), workspace=sub)["id"]
    path = f"/api/v1/logdirs/{logdir}"
    return {"uris": [str(where)]}, lambda: world.hub.json("DELETE", path)


@pytest.mark.parametrize("lose", [lose_membership, lose_logdir])
def test_owner_of_a_closed_board_may_only_look_at_its_state_and_end_it(
    world: World, lose: Callable[[World, str, str], tuple[dict[str, Any], Callable[[], Any]]]
) -> None:
    assert set(CLOSED) == {route for route in MATRIX if " /api/v1/boards/{" in route}
    hub, owner = world.hub, f"owner{next(numbers)}"
    token = hub.create_user(owner)
    new, take_away = lose(world, owner, f"sub{next(numbers)}")
    board = hub.create_board(token, **new)
    hub.json("POST", "/api/v1/boards", token, json={**new, "key": "k"})
    api, page = f"/api/v1/boards/{board['id']}", f"/boards/{board['id'][:8]}/"
    links = {}
    for maker in (token, hub.token):  # also one that an admin has made shows no more
        share = hub.json("POST", f"{api}/shares", maker, json={})
        with hub.client("") as client:
            assert client.get(share["url"]).status_code == 303
            cookie = client.get(share["url"]).headers["set-cookie"].split(";")[0]
        links[cookie] = share

    def look(path: str, cookie: str) -> int:
        with hub.client("", headers={"cookie": cookie}) as client:
            return client.get(path).status_code

    assert hub.ask("GET", f"{page}data/runs", token).status_code == 200
    assert {look(f"{page}data/runs", cookie) for cookie in links} == {200}
    take_away()
    # At once, whatever was remembered before.
    assert {look(f"{page}data/runs", cookie) for cookie in links} == {401}
    for path in ("", "data/runs", "data/plugin/scalars/tags", "tbhub/events"):
        answer = hub.ask("GET", page + path, token)
        assert answer.status_code == 403, path
        assert world.ask("admin", "GET", page + path) == 200
        assert world.ask("other", "GET", page + path) == 404
    reason = hub.ask("GET", f"{page}data/runs", token).json()["error"]["message"]
    expected = "workspace team" if "trials" in new else new["uris"][0]
    assert expected in reason
    listed = hub.json("GET", "/api/v1/boards", token)["boards"]
    assert board["id"] in {each["id"] for each in listed}
    assert all(each["closed"] and each["problem"] == reason for each in listed)
    assert not any(each["message"] for each in listed)
    assert hub.json("GET", api)["closed"] is False  # to an admin
    again = hub.ask("POST", "/api/v1/boards", token, json={**new, "key": "k"})
    assert again.status_code in (403, 404)
    for route, (rest, body, status) in CLOSED.items():
        path = api + rest.format(share=next(iter(links.values()))["id"])
        if status == 403:
            answer = hub.ask(route.split()[0], path, token, json=body)
            assert (answer.status_code, answer.json()["error"]["message"]) == (403, reason), route
    for route, (rest, body, status) in CLOSED.items():
        path = api + rest.format(share=next(iter(links.values()))["id"])
        assert world.ask("other", route.split()[0], path, body) == 404, route
        if status == 200:
            assert hub.ask(route.split()[0], path, token, json=body).is_success, route
    assert board["id"] not in {
        each["id"] for each in hub.json("GET", "/api/v1/boards", token)["boards"]
    }


def test_owner_who_has_become_a_viewer_can_end_boards_and_links_and_no_more(world: World) -> None:
    hub, owner = world.hub, f"owner{next(numbers)}"
    token = hub.create_user(owner)
    hub.json("PUT", f"/api/v1/workspaces/team/members/{owner}", json={"role": "member"})
    boards = [hub.create_board(token, trials=[world.run])["id"] for _ in range(3)]
    share = hub.json("POST", f"/api/v1/boards/{boards[0]}/shares", token, json={})["id"]
    hub.json("PATCH", f"/api/v1/users/{owner}", json={"role": "viewer"})
    for method, path in (
        ("POST", "/api/v1/boards"),
        ("POST", f"/api/v1/boards/{boards[0]}/restart"),
        ("POST", f"/api/v1/boards/{boards[0]}/shares"),
    ):
        assert hub.ask(method, path, token, json={}).status_code == 403, path
    for method, path in (
        ("DELETE", f"/api/v1/boards/{boards[0]}/shares/{share}"),
        ("POST", f"/api/v1/boards/{boards[0]}/stop"),
        ("POST", f"/api/v1/boards/{boards[1]}/kill"),
        ("DELETE", f"/api/v1/boards/{boards[2]}"),
    ):
        assert hub.ask(method, path, token).is_success, path


@pytest.mark.parametrize("lose", [lose_membership, lose_logdir])
def test_owner_is_notified_when_a_board_is_closed(
    world: World, lose: Callable[[World, str, str], tuple[dict[str, Any], Callable[[], Any]]]
) -> None:
    hub, owner = world.hub, f"owner{next(numbers)}"
    token = hub.create_user(owner)
    new, take_away = lose(world, owner, f"sub{next(numbers)}")
    board = hub.create_board(token, **new)
    with hub.client(token) as client, client.stream("GET", "/api/v1/events") as answer:
        lines = answer.iter_lines()
        assert any(line == "event: hello" for line in lines)
        take_away()
        # A client whose rights have changed is sent to connect again, and reads everything anew.
        came = [next((line for line in lines if board["id"] in line or "ping" in line), "ended")]
    assert "ping" not in came[0]
    assert (came == ["ended"]) == (lose is lose_membership)


def test_killing_a_closed_board_frees_its_place(world: World) -> None:
    hub, owner = world.hub, f"owner{next(numbers)}"
    token = hub.create_user(owner)
    hub.json("PATCH", f"/api/v1/users/{owner}", json={"max_boards": 1})
    new, take_away = lose_membership(world, owner, "")
    board = hub.create_board(token, **new)
    take_away()
    own = lose_logdir(world, owner, f"sub{next(numbers)}")[0]
    full = hub.ask("POST", "/api/v1/boards", token, json=own)
    assert (full.status_code, full.json()["error"]["code"]) == (409, "limit_exceeded")
    hub.json("POST", f"/api/v1/boards/{board['id']}/kill", token)
    assert hub.ask("POST", "/api/v1/boards", token, json=own).status_code == 201


@pytest.mark.parametrize("path", ["/etc", "{logdir}/../home", "file:///etc", "{home}"])
def test_paths_outside_the_logdirs_are_for_admins(world: World, path: str) -> None:
    uri = path.format(logdir=world.logdir, home=world.hub.home)
    answer = world.hub.ask("POST", "/api/v1/boards", world.tokens["member"], json={"uris": [uri]})
    assert answer.status_code == 404
    inside = {"uris": [str(world.logdir / "new")], "follow": True}
    answer = world.hub.ask("POST", "/api/v1/boards", world.tokens["member"], json=inside)
    assert answer.status_code == 201
    other = world.hub.ask("POST", "/api/v1/boards", world.tokens["other"], json=inside)
    assert other.status_code == 404


# --- the rules themselves


def test_role_scope_and_workspace_must_all_allow_it() -> None:
    member = Caller(1, "ada", "member", "write", {7: "member", 8: "viewer"})
    assert member.visible == {7, 8}
    assert member.may_write(7)
    assert not member.may_write(8)
    assert not member.may_write(9)
    assert not Caller(1, "ada", "member", "read", {7: "member"}).may_write(7)
    assert not Caller(1, "ada", "viewer", "write", {7: "member"}).may_write(7)
    admin = Caller(2, "root", "admin", "read")
    assert admin.visible is None
    assert not admin.may_write(7)
    assert not admin.is_admin


def test_a_share_link_opens_one_board_and_nothing_else() -> None:
    shared = Caller(1, "a share link", "viewer", "read", {7: "admin"}, share="board")
    assert shared.may_see_board("board", 99)
    assert not shared.may_see_board("another", 1)
    assert shared.visible == frozenset()
    assert not shared.may("read")
