"""Requests and answers of ``/api/v1``.

Answers may grow new fields; clients ignore what they do not know. Times are UTC.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Role = Literal["admin", "member", "viewer"]
Scope = Literal["read", "write", "admin"]
RunStatus = Literal["running", "finished", "failed", "killed", "lost", "unknown"]
RunEnding = Literal["finished", "failed", "killed"]

# What a person may call a thing: one line, no control characters; anything else is shown as it is.
_ONE_LINE = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"
Name = Annotated[
    str,
    StringConstraints(min_length=1, max_length=200, strip_whitespace=True, pattern=_ONE_LINE),
]
Text = Annotated[str, StringConstraints(max_length=65536, pattern=r"^[^\x00]*$")]
Selector = Annotated[str, StringConstraints(max_length=65536, pattern=r"^[^\x00]*$")]
NameTemplate = Annotated[str, StringConstraints(max_length=1000, pattern=_ONE_LINE)]
Seconds = Annotated[float, Field(gt=0, le=10 * 365 * 86400, allow_inf_nan=False)]
Id = Annotated[int, Field(ge=1, le=2**62)]
Attempt = Annotated[int, Field(ge=1, le=2**31 - 1)]
Place = Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=_ONE_LINE)]
HParam = (
    bool
    | Annotated[int, Field(ge=-(2**256), le=2**256)]
    | float
    | Annotated[str, StringConstraints(max_length=65536, pattern=r"^[^\x00]*$")]
)
HParams = Annotated[
    dict[
        Annotated[str, StringConstraints(min_length=1, max_length=400, pattern=r"^[^\x00]*$")],
        HParam,
    ],
    Field(max_length=10_000),
]


class State(StrEnum):
    """Where a board is in its life."""

    QUEUED = "QUEUED"
    STARTING = "STARTING"
    WAITING = "WAITING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    TERMINATED = "TERMINATED"
    FAILED = "FAILED"


class Reason(StrEnum):
    """Why a board ended."""

    USER_KILLED = "USER_KILLED"
    USER_STOPPED = "USER_STOPPED"
    IDLE = "IDLE"
    MAX_RUNTIME = "MAX_RUNTIME"
    NO_DATA = "NO_DATA"
    CRASHED = "CRASHED"
    CANCELLED = "CANCELLED"
    START_FAILED = "START_FAILED"


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore", defer_build=True)


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Page(_Model):
    """How many there are in all, and where this part of them begins."""

    total: int
    offset: int = 0


# --- people


LoginWay = Literal["password", "sso", "token", "invitation"]


class User(_Model):
    """A user.

    Args:
        login_ways: How they can log in; `invitation`: a link to choose a password is not used yet.
    """

    id: int
    name: str
    email: str | None = None
    role: Role
    disabled: bool = False
    max_boards: int | None = None
    name_template: str | None = None  # of their boards; none: the workspace's, then the hub's
    created: datetime
    login_ways: list[LoginWay] = []


class NewUser(_Request):
    name: Name
    role: Role = "member"
    email: Annotated[str, StringConstraints(max_length=320, pattern=_ONE_LINE)] | None = None
    password: Annotated[str, StringConstraints(min_length=8, max_length=1024)] | None = None
    max_boards: Annotated[int, Field(ge=0, le=1_000_000)] | None = None


class UserChange(_Request):
    role: Role | None = None
    email: Annotated[str, StringConstraints(max_length=320, pattern=_ONE_LINE)] | None = None
    password: Annotated[str, StringConstraints(min_length=8, max_length=1024)] | None = None
    disabled: bool | None = None
    max_boards: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    name_template: NameTemplate | None = None


class Login(_Request):
    name: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    password: Annotated[str, StringConstraints(min_length=1, max_length=1024)]


class NewLoginLink(_Request):
    """A link that logs a browser in as the caller.

    Args:
        path: The page it opens, below the hub's address, with the hub's base path.
    """

    path: Annotated[str, StringConstraints(max_length=2048)] | None = None


class LoginLink(_Model):
    """The only time the link is shown.

    Args:
        url: What to open.
        expires: Until when it works, once; None: no login is needed, and it works as ever.
    """

    url: str
    expires: datetime | None = None


class NewInvitation(_Request):
    """A link by which a user chooses a password; a new one revokes the one before."""

    user: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    expires_in: Annotated[float, Field(ge=60, le=30 * 86400, allow_inf_nan=False)] = 86400


class Invitation(_Model):
    """The only time the link is shown; it works once."""

    user: str
    url: str
    expires: datetime


class Token(_Model):
    id: int
    name: str
    scope: Scope
    user: str
    created: datetime
    expires: datetime | None = None
    used: datetime | None = None


class NewToken(_Request):
    name: Name = "api"
    scope: Scope = "write"
    expires_in: Seconds | None = None
    user: Annotated[str, StringConstraints(max_length=200)] | None = None  # admins: for another


class TokenWithSecret(Token):
    """The only time the token itself is shown."""

    token: str


class Me(_Model):
    user: User
    scope: Scope
    hub: str  # its version
    single_user: bool
    boards_used: int
    boards_allowed: int | None


class Quota(_Model):
    """How many boards may run at once.

    Args:
        name: Of a user or a workspace.
        used: How many run now.
        allowed: How many may; none: any number.
        own: What was set for this one; none: the hub's default counts, and 0 is any number.
    """

    name: str
    used: int
    allowed: int | None
    own: int | None


class Quotas(_Model):
    """Quotas of those whom the caller may know of; the defaults are settings of the hub."""

    user_default: int | None
    workspace_default: int | None
    users: list[Quota]
    workspaces: list[Quota]


# --- runs


class Workspace(_Model):
    id: int
    name: str
    note: str = ""
    max_boards: int | None = None
    name_template: str | None = None  # of its boards; none: the hub's
    created: datetime
    role: Role | None = None  # the caller's in it
    experiments: int = 0
    runs: int = 0


class NewWorkspace(_Request):
    name: Annotated[
        str,
        StringConstraints(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$"),
    ]
    note: Text = ""
    max_boards: Annotated[int, Field(ge=0, le=1_000_000)] | None = None


class WorkspaceChange(_Request):
    note: Text | None = None
    max_boards: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    name_template: NameTemplate | None = None


class Member(_Model):
    user: str
    role: Role


class MemberChange(_Request):
    role: Role


class Logdir(_Model):
    """A place the hub looks for runs in.

    Attributes:
        notice: Why it finds none there as yet, told when it is added.
    """

    id: int
    workspace: str
    path: str
    runs: int = 0
    created: datetime
    notice: str | None = None


class NewLogdir(_Request):
    """A directory of the hub's machine, or a prefix of a bucket, that is looked at ever after."""

    path: Annotated[str, StringConstraints(min_length=1, max_length=4096)]
    workspace: str = "default"
    experiment: Name | None = None


class Experiment(_Model):
    id: int
    workspace: str
    name: str
    note: str = ""
    owner: str | None = None
    archived: bool = False
    created: datetime
    runs: int = 0
    running: int = 0
    updated: datetime | None = None


class Experiments(Page):
    experiments: list[Experiment]


class NoteChange(_Request):
    """What may be changed of an experiment."""

    note: Text | None = None
    archived: bool | None = None


class Metric(_Model):
    """What is known of a series without reading it; None where a value is not a number."""

    count: int
    last: float | None
    last_step: int
    last_time: datetime
    min: float | None = None
    min_step: int | None = None
    max: float | None = None
    max_step: int | None = None


class Run(_Model):
    """A run.

    Attributes:
        name: As it is shown everywhere, unique in its workspace. A run that was found is called
            what its directory is called, with as much of its path as tells it from others.
        created: When it was started; of a run that was found, the time of its first event.
    """

    id: int
    name: str
    path: str
    workspace: str
    experiment: str
    experiment_id: int
    job: int | None = None
    job_name: str = ""  # empty: it goes by its number
    location: str
    status: RunStatus
    exit_code: int | None = None
    note: str = ""
    owner: str | None = None
    archived: bool = False
    machine: str | None = None
    command: str | None = None
    attempt: int = 0  # how often it was started; 0: it was found, and nobody told
    progress: float | None = None  # from 0 to 1
    created: datetime
    started: datetime | None = None
    updated: datetime | None = None
    ended: datetime | None = None
    heartbeat: datetime | None = None  # the last sign of who started it
    problem: str | None = None
    tags: list[str] = []
    hparams: dict[str, bool | int | float | str] = {}
    metrics: dict[str, Metric] = {}


class Runs(Page):
    runs: list[Run]


class RunChange(_Request):
    name: Name | None = None
    note: Text | None = None
    archived: bool | None = None
    tags: Annotated[list[Name], Field(max_length=100)] | None = None
    hparams: HParams | None = None  # beside those of other names


class RunsTable(Page):
    """A part of the table of runs, column by column; times are seconds since the epoch.

    Args:
        revision: The same as long as the answer is.
        columns: By the names that were asked for, each as long as there are runs; always with
            ``id`` and ``name``. None where a run has no value; ``"NaN"`` for a metric whose last
            value is no finite number.
    """

    revision: str
    columns: dict[str, list[Any]]


ColumnKind = Literal["text", "number", "bool", "time", "duration", "tags", "metric"]


class RunColumn(_Model):
    """A column that a table of runs can have.

    Args:
        name: As selectors have it: ``status``, ``hparams.lr``, ``metrics.loss.last``. The other
            aggregates of a metric are ``.min``, ``.max``, ``.step`` and ``.count``.
        runs: How many of the newest runs have a value, of at most 5,000.
    """

    name: str
    kind: ColumnKind
    runs: int


class GroupColumn(_Model):
    """A column of runs put together, one value for each group."""

    mean: list[float | None]
    min: list[float | None]
    max: list[float | None]


class RunGroups(Page):
    """Groups of runs, column by column.

    Args:
        keys: What the runs of each group have in common, by the names that were asked for.
        count: How many runs each group has.
        select: The selector of each group's runs.
    """

    keys: dict[str, list[bool | int | float | str | None]]
    count: list[int]
    select: list[str]
    columns: dict[str, GroupColumn]


class RunsChange(_Request):
    """A change of many runs: those of a selector, or by number.

    Args:
        q: A selector; all runs are ``all``.
        note: In the place of the note they have.
    """

    q: Selector = ""
    ids: Annotated[list[Id], Field(max_length=100_000)] = []
    add_tags: Annotated[list[Name], Field(max_length=100)] = []
    remove_tags: Annotated[list[Name], Field(max_length=100)] = []
    note: Text | None = None
    archived: bool | None = None


class ChangedRuns(_Model):
    changed: int


class NewRun(_Request):
    """A run that is being started, or gone on with.

    Args:
        name: ``run<number>`` without one.
        job: The number of a job, ``new``, or the name of a job that is made if there is none;
            ``job2300`` is also the job with the number 2300.
        storage: What its logs are kept below, a URI; without one the hub keeps them itself.
        location: Where its logs are, exactly, if they are somewhere already.
        details: Of the worker: commit, packages, machine; anything that is JSON.
        key: Made by the client: the same key again is the same run and attempt.
        resume: The run to go on with: its number, its name, or another selector of one run.
        force: Go on although the older attempt seems to be alive.
        resume_or_start: Resume the run of this name or identity if there is one, else start it.
        identity: What a job has in common with its own restarts, and with no other job.
        ended_attempt: The number of an attempt whose process the client knows to have ended.
        late: It has begun without the hub: a run that was found and has its name, perhaps because
            it logs there, gets a longer one.
    """

    workspace: Annotated[str, StringConstraints(min_length=1, max_length=200)] = "default"
    experiment: Name = "default"
    name: Name | None = None
    job: Id | Name | None = None
    storage: Place | None = None
    location: Place | None = None
    hparams: HParams = {}
    tags: Annotated[list[Name], Field(max_length=100)] = []
    note: Text = ""
    command: Text | None = None
    machine: Name | None = None
    details: dict[str, Any] = {}
    key: Name | None = None
    resume: Annotated[str, StringConstraints(min_length=1, max_length=4096)] | None = None
    force: bool = False
    resume_or_start: bool = False
    identity: Name | None = None
    ended_attempt: Attempt | None = None
    late: bool = False


class StartedRun(_Model):
    """A run that its worker may begin with.

    Args:
        target: What the worker writes to: ``hub://runs/<number>``, a URI, or a path.
        attempt: What the worker shows with everything it tells of the run.
    """

    run: Run
    target: str
    attempt: int


class Heartbeat(_Request):
    attempt: Attempt
    progress: Annotated[float, Field(ge=0, le=1)] | None = None


class Finish(_Request):
    attempt: Attempt
    status: RunEnding
    exit_code: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)] | None = None
    rank: Annotated[
        int,
        Field(ge=0, le=2**31 - 1, description="Of those that have come, the lowest ends the run."),
    ] = 0


class Pulse(_Model):
    """How a run stands, as its worker needs to know it."""

    run: int
    attempt: int
    status: RunStatus


class RunDetails(_Model):
    """What a worker told of where it runs."""

    run: int
    details: dict[str, Any]


class RunLog(_Model):
    """A part of what a run has printed.

    Args:
        size: Of all of it, in bytes.
        offset: Where `text` begins.
        end: Where `text` ends: a later request continues with `after=end`.
        file: Which console log this is, below the run's directory.
        files: All console logs of the run, the newest last: of its attempts and ranks.
    """

    text: str
    size: int
    offset: int
    end: int
    file: str
    files: list[str]


class ExistingLogs(_Request):
    """Logs that are there already; nothing is copied.

    Args:
        uri: A directory of the hub's machine, or a prefix of a bucket; each directory with event
            files at or below it is a run.
        experiment: What the runs belong to; without one, the directory above each.
        watch: Look again, ever after, for runs that come and go.
    """

    uri: Place
    workspace: Annotated[str, StringConstraints(min_length=1, max_length=200)] = "default"
    experiment: Name | None = None
    watch: bool = False


class FoundRuns(_Model):
    """What was found; `new` of the runs were not known."""

    uri: str
    runs: int
    new: int
    logdir: int | None = None


class FileEntry(_Model):
    """A file of a run; equal versions mean equal content."""

    path: str
    size: int
    version: str
    modified: float  # seconds since the epoch


class FileEntries(_Model):
    files: list[FileEntry]


class Written(_Model):
    """A file as it is now, on the disk."""

    size: int
    version: str


class DeletedFiles(_Model):
    deleted: int


# --- storage


class StorageConnection(_Model):
    """How the hub gets at what lies below a prefix; values are never told."""

    name: str
    uri: str
    workspace: str | None = None  # none: for all of them
    settings: list[str]  # those that are set; not told to who may not manage it
    manageable: bool = True  # the caller may test and remove it
    created: datetime


class NewStorageConnection(_Request):
    """A prefix and the settings for it, as ``docs/storage.md`` lists them."""

    name: Annotated[
        str,
        StringConstraints(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$"),
    ]
    uri: Place
    workspace: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    settings: Annotated[
        dict[
            Annotated[str, StringConstraints(max_length=64)],
            Annotated[str, StringConstraints(max_length=65536)],
        ],
        Field(max_length=32),
    ] = {}
    test: Annotated[
        bool,
        Field(description="List and read there first; what boards could not read is not added."),
    ] = False


StoragePurpose = Literal["boards", "runs"]


class StorageFinding(_Model):
    """One answer of a store; `good` is none where it is not known."""

    check: str
    good: bool | None
    text: str


class StorageFindings(_Model):
    """What a test of a place has found.

    Args:
        usable_for: ``boards``, which read, and ``runs``, which also write, as far as was tried.
        roles: By purpose, the role that grants what it needs and its permissions.
    """

    good: bool
    findings: list[StorageFinding]
    usable_for: list[StoragePurpose] = []
    roles: dict[StoragePurpose, str] = {}


class Deleted(_Model):
    """How much a deletion removed, or would remove."""

    experiments: int
    runs: int
    files: int
    bytes: int
    dry_run: bool
    problems: list[str] = []
    other_files: int = 0  # those of the files that are no event files
    others: list[str] = []  # the first of these


# --- boards


class BoardOptions(_Request):
    """How a board shows its runs; see `tbhub view --help`."""

    template: Annotated[str, StringConstraints(max_length=1000)] = ""
    group_by: Annotated[str, StringConstraints(max_length=1000)] = ""
    hide_grouped: bool = False
    samples: Annotated[int, Field(ge=2, le=1_000_000)] | None = None
    requests_per_minute: Annotated[int, Field(ge=1, le=1_000_000)] | None = None


class NewBoard(_Request):
    """What to show: a selector, or experiments and runs by number; together they are the union.

    Args:
        added: More selectors, each with a filter, an order and a limit of its own.
        removed: Selectors of runs and places to leave out of the rest.
        key: Get-or-create: with the same key the same board is answered, started if it was not.
        reuse: Answer a live board of the caller's with the same sources, or start a stopped one.
        launcher: What the hub must serve boards by; none: whatever it does.
    """

    runs: Selector = ""
    experiments: Annotated[list[Id], Field(max_length=10_000)] = []
    trials: Annotated[list[Id], Field(max_length=100_000)] = []
    uris: Annotated[
        list[Annotated[str, StringConstraints(min_length=1, max_length=4096)]],
        Field(max_length=1000),
    ] = []
    added: Annotated[list[Selector], Field(max_length=1000)] = []
    removed: Annotated[list[Selector], Field(max_length=100_000)] = []
    name: Name | None = None
    key: Name | None = None
    reuse: bool = False
    follow: bool = False
    workspace: str | None = None
    options: BoardOptions = BoardOptions()
    idle_timeout: Annotated[float, Field(ge=0, le=10 * 365 * 86400)] | None = None  # 0: none
    no_data_timeout: Annotated[float, Field(ge=0, le=10 * 365 * 86400)] | None = None
    max_runtime: Annotated[float, Field(ge=0, le=10 * 365 * 86400)] | None = None
    launcher: Name | None = None


class Board(_Model):
    id: str
    name: str
    key: str | None = None
    owner: str
    workspace: str | None = None
    state: State
    reason: Reason | None = None
    exit_code: int | None = None
    # How it ended; of a live board: what it waits for, that its host is silent, or why it restarts.
    message: str = ""
    problem: str = ""  # why what it was asked to show cannot be read, with the command that helps
    closed: bool = False  # its data may not be seen by the caller, for the reason in `problem`
    selector: str
    follow: bool = False
    experiments: list[int] = []
    trials: list[int] = []  # named one by one; the runs of named experiments are not repeated
    uris: list[str] = []
    sources: list[str] = []  # what was named, at the start and since, and not taken out since
    removed: list[str] = []  # runs and places of the sources that were taken out
    runs: int = 0
    options: BoardOptions = BoardOptions()
    host: str | None = None
    url: str
    created: datetime
    started: datetime | None = None
    ended: datetime | None = None
    active: datetime
    idle_timeout: float | None = None
    no_data_timeout: float | None = None
    max_runtime: float | None = None
    deadline: datetime | None = None
    requests: int = 0
    bytes: int = 0


class Boards(Page):
    boards: list[Board]


class BoardChange(_Request):
    name: Name | None = None
    options: BoardOptions | None = None
    idle_timeout: Annotated[float, Field(ge=0, le=10 * 365 * 86400)] | None = None
    extend: Seconds | None = None  # the deadline, by so much
    ends_in: Annotated[float, Field(ge=0, le=10 * 365 * 86400)] | None = None  # the deadline, anew
    max_runtime: Annotated[float, Field(ge=0, le=10 * 365 * 86400)] | None = None  # from now on


class BoardRuns(_Request):
    """Runs to add to a board, or to take out of it."""

    runs: Selector = ""
    uris: Annotated[list[str], Field(max_length=1000)] = []


class LogLine(_Model):
    id: int
    time: datetime
    level: Literal["info", "warning", "error"]
    text: str


class LogLines(_Model):
    lines: list[LogLine]


class NewShare(_Request):
    expires_in: Seconds = 7 * 86400


class Share(_Model):
    id: int
    board: str
    url: str | None = None  # shown once
    expires: datetime
    created: datetime


class Finding(_Model):
    """One thing the doctor has looked at."""

    level: Literal["ok", "info", "warning", "error"]
    subject: str
    text: str
    advice: str = ""


class Findings(_Model):
    findings: list[Finding]


class Host(_Model):
    """A process that serves boards.

    Attributes:
        state: ``draining``: it takes no board, those it has go to others, and then it ends.
        message: For how long it has not answered; empty if it answers.
    """

    id: str
    launcher: str
    state: Literal["starting", "running", "draining"]
    message: str = ""
    address: str | None = None
    boards: int = 0
    created: datetime


class Status(_Model):
    """How the hub is."""

    version: str
    home: str | None = None
    database: str
    started: datetime
    runs: int
    experiments: int
    boards: dict[State, int]
    hosts: list[Host]
    indexing: dict[str, Any]


class Event(_Model):
    """A line of the live stream ``/api/v1/events``: what has changed, to be asked for anew."""

    kind: Literal["board", "runs", "experiments", "hello"]
    id: str | None = None
    data: dict[str, Any] = {}


# --- series

RunIds = Annotated[list[Id], Field(min_length=1, max_length=10_000)]
Tag = Annotated[str, StringConstraints(max_length=4096)]
Bound = Annotated[float, Field(allow_inf_nan=False)]


class SeriesRuns(_Request):
    """Some runs."""

    runs: RunIds


class SeriesQuery(SeriesRuns):
    """Which points of which runs; the answer is packed, see ``packed_series``.

    All tags without `tags`. A series keeps at most so many `points`: the extremes of each part of
    it, and its ends. `min` and `max` are steps, seconds since the epoch, or seconds since the first
    point of each series, as `x` says. `x_tag` asks for what another tag was at each of the points,
    `means` for the mean of all values since the point before.
    """

    tags: Annotated[list[Tag], Field(max_length=10_000)] | None = None
    points: Annotated[int, Field(ge=1, le=1_000_000)] = 1000
    x: Literal["step", "wall", "relative"] = "step"
    min: Bound | None = None
    max: Bound | None = None
    x_tag: Tag | None = None
    means: bool = False


class SeriesImages(SeriesRuns):
    """Which images: of all tags without `tags`."""

    tags: Annotated[list[Tag], Field(max_length=10_000)] | None = None


class TagCount(_Model):
    """A tag, and how many of the runs have it. `single`: none of them has a second point."""

    tag: str
    runs: int
    single: bool = False


class _SeriesAnswer(_Model):
    """`loading` are runs that are still being read: the news tell when they have been. `problems`
    says of runs why they cannot be, by their numbers."""

    loading: list[int]
    problems: dict[str, str]


class SeriesTags(_SeriesAnswer):
    """Tags by what they are: ``scalars``, ``images``, ``histograms`` and so on."""

    tags: dict[str, list[TagCount]]


class ImageSteps(_Model):
    """The images of one run under one tag: at each step `samples` of them."""

    run: int
    tag: str
    steps: list[int]
    wall_times: list[float]
    samples: int


class Images(_SeriesAnswer):
    """Each is at ``GET /api/v1/series/image``."""

    images: list[ImageSteps]
