"""Every call of the hub's API, as data: what is sent, and what comes back.

Nothing here talks to anybody. `tbhub.client.hub` sends calls and decodes answers, with and without
async, so that a call is written once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from tbhub.api import models
from tbhub.api.invalid import sentence
from tbhub.api.models import Board, Boards, Experiment, Experiments, Member, Run, Runs
from tbhub.api.problems import BadRequest

Answer = TypeVar("Answer")
Model = TypeVar("Model", bound=BaseModel)

Config = dict[str, Any]


@dataclass(frozen=True)
class Call(Generic[Answer]):
    """One request.

    Args:
        path: Below ``/api/v1/``, its parts quoted.
        answer: What the answer's JSON is read as; NoneType where nothing is wanted of it.
        repeatable: The hub knows it again if it comes twice.
    """

    method: str
    path: str
    answer: type[Answer]
    params: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    repeatable: bool = False

    @property
    def is_safe(self) -> bool:
        """Whether sending it twice is no more than sending it once."""
        return self.method == "GET" or self.repeatable


def build(model: type[Model], **fields: Any) -> Model:
    """A request's body; fields that are None are left out, and the hub's defaults count.

    Raises:
        BadRequest: A field cannot be; in one sentence.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    try:
        return model(**given)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        raise BadRequest(sentence(found)) from None


def _path(*parts: str | int) -> str:
    return "/".join(quote(str(part), safe="") for part in parts)


def _params(**values: object) -> dict[str, str]:
    """As they stand in the address; None and False are left out."""
    found = {}
    for name, value in values.items():
        if value is None or value is False:
            continue
        if value is True:
            found[name] = "true"
        elif isinstance(value, datetime):
            found[name] = value.isoformat()
        else:
            found[name] = str(value)
    return found


def _body(model: BaseModel) -> Any:
    return model.model_dump(mode="json", exclude_unset=True)


def _get(
    answer: type[Answer], *path: str | int, params: Mapping[str, str] | None = None
) -> Call[Answer]:
    return Call("GET", _path(*path), answer, params or {})


def _delete(
    answer: type[Answer], *path: str | int, params: Mapping[str, str] | None = None
) -> Call[Answer]:
    return Call("DELETE", _path(*path), answer, params or {})


def _send(
    method: str, answer: type[Answer], *path: str | int, body: BaseModel | None = None
) -> Call[Answer]:
    return Call(method, _path(*path), answer, json=None if body is None else _body(body))


# --- the hub and who asks


def version() -> Call[Config]:
    """The hub's version; needs no login."""
    return _get(Config, "version")


def me() -> Call[models.Me]:
    """Who asks, and what they may."""
    return _get(models.Me, "me")


def status() -> Call[models.Status]:
    """How the hub is."""
    return _get(models.Status, "status")


def login(name: str, password: str) -> Call[models.TokenWithSecret]:
    """Opens a session with a name and a password."""
    body = build(models.Login, name=name, password=password)
    return _send("POST", models.TokenWithSecret, "login", body=body)


def logout() -> Call[None]:
    """Ends the session of the token that is sent."""
    return _send("POST", type(None), "logout")


def login_link(path: str | None = None) -> Call[models.LoginLink]:
    """Create a link that logs a browser in as the caller, once, and opens a page of the hub."""
    body = build(models.NewLoginLink, path=path)
    return _send("POST", models.LoginLink, "login-links", body=body)


# --- workspaces


def workspaces() -> Call[list[models.Workspace]]:
    """The workspaces the caller may see."""
    return _get(list[models.Workspace], "workspaces")


def create_workspace(new: models.NewWorkspace) -> Call[models.Workspace]:
    """Makes a workspace."""
    return _send("POST", models.Workspace, "workspaces", body=new)


def change_workspace(name: str, change: models.WorkspaceChange) -> Call[models.Workspace]:
    """Changes a workspace's note or quota."""
    return _send("PATCH", models.Workspace, "workspaces", name, body=change)


def delete_workspace(name: str) -> Call[None]:
    """Deletes a workspace; files stay where they are."""
    return _delete(type(None), "workspaces", name)


def members(workspace: str) -> Call[list[Member]]:
    """The members of a workspace."""
    return _get(list[Member], "workspaces", workspace, "members")


def set_member(workspace: str, user: str, change: models.MemberChange) -> Call[Member]:
    """Makes a user a member of a workspace, or gives them another role there."""
    return _send("PUT", Member, "workspaces", workspace, "members", user, body=change)


def remove_member(workspace: str, user: str) -> Call[None]:
    """Takes a user out of a workspace."""
    return _delete(type(None), "workspaces", workspace, "members", user)


def logdirs() -> Call[list[models.Logdir]]:
    """The directories the hub looks for runs in."""
    return _get(list[models.Logdir], "logdirs")


def add_logdir(new: models.NewLogdir) -> Call[models.Logdir]:
    """Has the hub look for runs in a directory of its machine."""
    return _send("POST", models.Logdir, "logdirs", body=new)


def remove_logdir(logdir: int) -> Call[None]:
    """Has the hub no longer look there."""
    return _delete(type(None), "logdirs", logdir)


# --- hosts


def hosts() -> Call[list[models.Host]]:
    """The processes that serve boards; for the hub's admins."""
    return _get(list[models.Host], "hosts")


def drain_host(host: str) -> Call[models.Host]:
    """Has a host end when its boards have gone to others, which they now do."""
    return _send("POST", models.Host, "hosts", host, "drain")


# --- experiments and runs


def experiments(
    search: str = "", *, limit: int = 100, offset: int = 0, archived: bool = False
) -> Call[Experiments]:
    """Experiments whose name contains some text."""
    params = _params(search=search or None, limit=limit, offset=offset, archived=archived)
    return _get(Experiments, "experiments", params=params)


def experiment(number: int) -> Call[Experiment]:
    """One experiment."""
    return _get(Experiment, "experiments", number)


def change_experiment(number: int, change: models.NoteChange) -> Call[Experiment]:
    """Changes an experiment's note, or puts it away."""
    return _send("PATCH", Experiment, "experiments", number, body=change)


def delete_experiment(
    number: int, *, files: bool = False, dry_run: bool = False
) -> Call[models.Deleted]:
    """Deletes an experiment with its runs; with `dry_run` only tells how much that would be."""
    params = _params(files=files, dry_run=dry_run)
    return _delete(models.Deleted, "experiments", number, params=params)


def runs(
    select: str = "",
    *,
    limit: int = 100,
    offset: int = 0,
    metrics: bool = True,
    archived: bool = False,
) -> Call[Runs]:
    """The runs a selector names; all of them without one."""
    params = _params(select=select or None, limit=limit, offset=offset, archived=archived)
    return _get(Runs, "runs", params={**params, "metrics": "true" if metrics else "false"})


def run(number: int) -> Call[Run]:
    """One run."""
    return _get(Run, "runs", number)


def change_run(number: int, change: models.RunChange) -> Call[Run]:
    """Changes what a person may change of a run: its name, note, tags, or puts it away."""
    return _send("PATCH", Run, "runs", number, body=change)


def create_run(new: models.NewRun) -> Call[models.StartedRun]:
    """Starts a run, or goes on with one; with a key it may be sent again."""
    call = _send("POST", models.StartedRun, "runs", body=new)
    return replace(call, repeatable=new.key is not None)


def heartbeat(number: int, beat: models.Heartbeat) -> Call[models.Pulse]:
    """Says that a run is alive; `Fenced` if a newer attempt goes on with it."""
    call = _send("POST", models.Pulse, "runs", number, "heartbeat", body=beat)
    return replace(call, repeatable=True)


def finish_run(number: int, finish: models.Finish) -> Call[models.Pulse]:
    """Says how a run has ended; saying it again changes nothing."""
    call = _send("POST", models.Pulse, "runs", number, "finish", body=finish)
    return replace(call, repeatable=True)


def find_runs(logs: models.ExistingLogs) -> Call[models.FoundRuns]:
    """Has the hub know logs that are there already, once or from now on; nothing is copied."""
    return _send("POST", models.FoundRuns, "runs", "found", body=logs)


def run_details(number: int) -> Call[models.RunDetails]:
    """What a worker told of where it runs: commit, packages, machine."""
    return _get(models.RunDetails, "runs", number, "details")


def run_log(
    number: int, *, tail: int | None = None, after: int | None = None, file: str | None = None
) -> Call[models.RunLog]:
    """Read the last lines of what a run has printed, or what follows an offset."""
    params = _params(tail=tail, after=after, file=file)
    return _get(models.RunLog, "runs", number, "log", params=params)


def run_files(number: int, *, below: str = "") -> Call[models.FileEntries]:
    """The files of a run."""
    return _get(models.FileEntries, "runs", number, "files", params=_params(below=below or None))


def delete_runs(select: str, *, files: bool = False, dry_run: bool = False) -> Call[models.Deleted]:
    """Deletes the runs a selector names; with `dry_run` only tells how much that would be."""
    params = _params(select=select, files=files, dry_run=dry_run)
    return _delete(models.Deleted, "runs", params=params)


# --- storage


def connections() -> Call[list[models.StorageConnection]]:
    """The storage connections the caller may manage; without their secrets."""
    return _get(list[models.StorageConnection], "storage")


def add_connection(new: models.NewStorageConnection) -> Call[models.StorageConnection]:
    """Has the hub keep the credentials for what lies below a prefix."""
    return _send("POST", models.StorageConnection, "storage", body=new)


def remove_connection(name: str) -> Call[None]:
    """Has the hub forget a connection; nothing in the store changes."""
    return _delete(type(None), "storage", name)


def test_connection(
    name: str,
    purpose: models.StoragePurpose | None = None,  # noqa: PT028
) -> Call[models.StorageFindings]:
    """What is wrong with a connection, found out by using it for boards or runs, or for both."""
    call = _send("POST", models.StorageFindings, "storage", name, "test")
    return replace(call, params=_params(**{"for": purpose}))


# --- boards; `board` is an id, a unique prefix of one, or a name


def boards(
    *, everyone: bool = False, live: bool = False, limit: int = 100, offset: int = 0
) -> Call[Boards]:
    """The caller's boards, the newest first; with `everyone` all that the caller may see."""
    params = {
        **_params(live=live, limit=limit, offset=offset),
        **({"all": "true"} if everyone else {}),
    }
    return _get(Boards, "boards", params=params)


def find_board(board: str, *, to_change: bool) -> Call[Boards]:
    """Find the board with an id, a unique prefix of one, or a name; also one with slashes."""
    return _get(Boards, "boards", params={"board": board, **_params(change=to_change)})


def create_board(new: models.NewBoard) -> Call[Board]:
    """Makes a board and has it started; the answer comes before it runs."""
    return _send("POST", Board, "boards", body=new)


def board(board: str) -> Call[Board]:
    """How a board is."""
    return _get(Board, "boards", board)


def change_board(board: str, change: models.BoardChange) -> Call[Board]:
    """Changes a board's name, options or times."""
    return _send("PATCH", Board, "boards", board, body=change)


def delete_board(board: str) -> Call[None]:
    """Ends a board if it lives, and forgets it; runs and files stay."""
    return _delete(type(None), "boards", board)


def start_board(board: str) -> Call[Board]:
    """Starts a stopped or failed board again, under the same id."""
    return _send("POST", Board, "boards", board, "start")


def stop_board(board: str) -> Call[Board]:
    """Stops a board; it can be started again."""
    return _send("POST", Board, "boards", board, "stop")


def kill_board(board: str) -> Call[Board]:
    """Ends a board for good."""
    return _send("POST", Board, "boards", board, "kill")


def restart_board(board: str) -> Call[Board]:
    """Stops a board and starts it again."""
    return _send("POST", Board, "boards", board, "restart")


def add_runs(board: str, runs: models.BoardRuns) -> Call[Board]:
    """Adds runs to a board, open pages included."""
    return _send("POST", Board, "boards", board, "runs", body=runs)


def remove_runs(board: str, runs: models.BoardRuns) -> Call[Board]:
    """Takes runs out of a board."""
    return _send("DELETE", Board, "boards", board, "runs", body=runs)


def logs(
    board: str,
    *,
    tail: int | None = None,
    head: int | None = None,
    since: datetime | None = None,
    after: int | None = None,
) -> Call[models.LogLines]:
    """What has happened to a board: the last lines, the first, those since a time, after a line."""
    params = _params(tail=tail, head=head, since=since, after=after)
    return _get(models.LogLines, "boards", board, "logs", params=params)


def follow_logs(
    board: str, *, tail: int | None = None, since: datetime | None = None, after: int | None = None
) -> Call[models.LogLine]:
    """The same line by line, as they come, until the board has ended."""
    params = {**_params(tail=tail, since=since, after=after), "follow": "true"}
    return _get(models.LogLine, "boards", board, "logs", params=params)


def config(board: str) -> Call[Config]:
    """What a board was made with."""
    return _get(Config, "boards", board, "config")


def hosts_doctor() -> Call[models.Findings]:
    """Whether the hosts can serve boards; for admins."""
    return _get(models.Findings, "doctor")


def doctor(board: str) -> Call[models.Findings]:
    """Why a board is empty, stale or slow."""
    return _get(models.Findings, "boards", board, "doctor")


def shares(board: str) -> Call[list[models.Share]]:
    """The links by which a board is shared."""
    return _get(list[models.Share], "boards", board, "shares")


def share(board: str, new: models.NewShare) -> Call[models.Share]:
    """A link that shows a board to whoever has it, for a while."""
    return _send("POST", models.Share, "boards", board, "shares", body=new)


def revoke_share(board: str, share: int) -> Call[None]:
    """Makes a shared link worthless."""
    return _delete(type(None), "boards", board, "shares", share)


# --- people


def users() -> Call[list[models.User]]:
    """Everybody; for admins."""
    return _get(list[models.User], "users")


def create_user(new: models.NewUser) -> Call[models.User]:
    """Adds a user."""
    return _send("POST", models.User, "users", body=new)


def change_user(name: str, change: models.UserChange) -> Call[models.User]:
    """Changes a user: role, password, quota, or whether they may come in."""
    return _send("PATCH", models.User, "users", name, body=change)


def delete_user(name: str) -> Call[None]:
    """Deletes a user with their boards and tokens; runs stay."""
    return _delete(type(None), "users", name)


def invite(new: models.NewInvitation) -> Call[models.Invitation]:
    """Create a link by which a user chooses a password; it works once."""
    return _send("POST", models.Invitation, "invitations", body=new)


def revoke_invitation(name: str) -> Call[None]:
    """Revoke the invitation of a user."""
    return _delete(type(None), "invitations", name)


def tokens() -> Call[list[models.Token]]:
    """The caller's tokens."""
    return _get(list[models.Token], "tokens")


def create_token(new: models.NewToken) -> Call[models.TokenWithSecret]:
    """Makes a token, which is shown this once."""
    return _send("POST", models.TokenWithSecret, "tokens", body=new)


def revoke_token(token: int) -> Call[None]:
    """Makes a token worthless."""
    return _delete(type(None), "tokens", token)
