"""Every table of the hub.

Times are seconds since the epoch. Foreign keys cascade, so that deleting a row removes exactly what
belongs to it. Numbers a person sees (experiments, runs, jobs) are never given twice.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)

# Constraints have names, so that migrations can speak of them.
metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite counts only its INTEGER up; PostgreSQL wants a BIGINT for what may grow.
_Id = BigInteger().with_variant(Integer, "sqlite")


def _id() -> Column[int]:
    return Column("id", _Id, primary_key=True, autoincrement=True)


def _to(column: str, *, null: bool = False, gone: str = "CASCADE") -> Column[int]:
    """A reference to another table's id: ``workspace_id`` to ``workspaces.id`` and so on."""
    table = {
        "owner_id": "users",
        "created_by": "users",
    }.get(column, column.removesuffix("_id") + "s")
    return Column(column, _Id, ForeignKey(f"{table}.id", ondelete=gone), nullable=null)


# Compared by its bytes, in indexes and outside of them, whatever the language of the database is.
_Ordered = Text().with_variant(Text(collation="C"), "postgresql")


def _few(name: str | None, *columns: str, unique: bool = False) -> Index:
    """An index of the few rows that have a value in its last column: the others cost nothing."""
    there = text(f"{columns[-1]} IS NOT NULL")
    return Index(name, *columns, unique=unique, sqlite_where=there, postgresql_where=there)


# --- people

users = Table(
    "users",
    metadata,
    _id(),
    Column("name", String(200), nullable=False, unique=True),
    Column("email", String(320)),
    Column("role", String(16), nullable=False),  # admin, member, viewer
    Column("password", Text),  # scrypt$…; none for who signs in elsewhere
    Column("subject", String(512), unique=True),  # issuer and subject of OpenID Connect
    Column("disabled", Boolean, nullable=False, default=False),
    Column("max_boards", Integer),  # none: the hub's default
    Column("created", Double, nullable=False),
    Column("name_template", Text),  # of the user's boards; none: the workspace's, then the hub's
    sqlite_autoincrement=True,
)

tokens = Table(
    "tokens",
    metadata,
    _id(),
    _to("user_id"),
    Column("kind", String(16), nullable=False),  # api, session
    Column("name", String(200), nullable=False),
    Column("hash", String(64), nullable=False, unique=True),  # sha256, hex
    Column("scope", String(16), nullable=False),  # read, write, admin
    Column("created", Double, nullable=False),
    Column("expires", Double),
    Column("used", Double),
    Index(None, "user_id"),
    sqlite_autoincrement=True,
)

# Links that log a browser in, until they are used: a used one is deleted.
login_links = Table(
    "login_links",
    metadata,
    _id(),
    _to("user_id"),
    _to("token_id", null=True),  # what it was created with: a link ends with its token
    Column("purpose", String(16), nullable=False),  # session, password
    Column("hash", String(64), nullable=False, unique=True),  # sha256 of the code, hex
    Column("scope", String(16), nullable=False),  # of the session
    Column("path", Text, nullable=False),  # where the browser goes, below the hub's address
    Column("created", Double, nullable=False),
    Column("expires", Double, nullable=False),
    Index(None, "user_id"),
    Index(None, "token_id"),
    sqlite_autoincrement=True,
)

# --- runs

workspaces = Table(
    "workspaces",
    metadata,
    _id(),
    Column("name", String(200), nullable=False, unique=True),
    Column("note", Text, nullable=False, default=""),
    Column("max_boards", Integer),
    Column("created", Double, nullable=False),
    Column("name_template", Text),  # of boards that count for it; none: the hub's
    sqlite_autoincrement=True,
)

members = Table(
    "members",
    metadata,
    Column("workspace_id", _Id, ForeignKey("workspaces.id", ondelete="CASCADE"), primary_key=True),
    Column("user_id", _Id, ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
    Column("role", String(16), nullable=False),  # admin, member, viewer
    Index(None, "user_id"),
)

logdirs = Table(
    "logdirs",
    metadata,
    _id(),
    _to("workspace_id"),
    Column("path", Text, nullable=False),
    Column("created", Double, nullable=False),
    Column("experiment", Text),  # of all runs that are found there
    UniqueConstraint("workspace_id", "path"),
    sqlite_autoincrement=True,
)

experiments = Table(
    "experiments",
    metadata,
    _id(),
    _to("workspace_id"),
    Column("name", Text, nullable=False),
    Column("note", Text, nullable=False, default=""),
    _to("owner_id", null=True, gone="SET NULL"),
    Column("archived", Boolean, nullable=False, default=False),
    Column("created", Double, nullable=False),
    UniqueConstraint("workspace_id", "name"),
    sqlite_autoincrement=True,
)

jobs = Table(
    "jobs",
    metadata,
    _id(),
    _to("workspace_id"),
    Column("name", Text, nullable=False, default=""),  # none: it goes by its number
    _to("owner_id", null=True, gone="SET NULL"),
    Column("created", Double, nullable=False),
    Index(
        "uq_jobs_workspace_id_name",
        "workspace_id",
        "name",
        unique=True,
        sqlite_where=text("name != ''"),
        postgresql_where=text("name != ''"),
    ),
    sqlite_autoincrement=True,
)

runs = Table(
    "runs",
    metadata,
    _id(),
    _to("workspace_id"),
    _to("experiment_id"),
    _to("job_id", null=True, gone="SET NULL"),
    _to("logdir_id", null=True, gone="SET NULL"),  # where it was found
    Column("name", String(400), nullable=False),  # as shown everywhere; see catalog.naming
    Column("path", Text, nullable=False, default=""),  # below its logdir, for people
    Column("location", Text, nullable=False),  # a path or URI
    Column("status", String(16), nullable=False),  # see api.models.RunStatus
    Column("exit_code", Integer),
    Column("note", Text, nullable=False, default=""),
    _to("owner_id", null=True, gone="SET NULL"),
    Column("archived", Boolean, nullable=False, default=False),
    Column("machine", Text),
    Column("command", Text),
    Column("created", Double, nullable=False),  # of a run that was found: its first event
    Column("started", Double),  # its first event
    Column("updated", Double),  # its last event
    Column("ended", Double),
    Column("heartbeat", Double),
    Column("seen", Text, nullable=False, default=""),  # what its files were when last read
    Column("problem", Text),  # why it cannot be read, or what was skipped
    Column("key", String(200)),  # made by who created it, so that asking twice makes one
    Column("resume_key", String(200)),  # the same for the attempt that goes on with it
    Column("attempt", Integer, nullable=False, server_default="0"),  # 0: found, nobody started it
    Column("kept", Boolean, nullable=False, server_default=false()),  # the hub has its files
    Column("progress", Double),  # from 0 to 1, as told with a heartbeat
    Column("named", Boolean, nullable=False, server_default=false()),  # the name was given to it
    Column("tail", _Ordered),  # where it was found, the last directory first; see catalog.names
    UniqueConstraint("workspace_id", "name"),
    UniqueConstraint("workspace_id", "location"),
    _few("uq_runs_workspace_id_key", "workspace_id", "key", unique=True),
    _few(None, "workspace_id", "resume_key"),
    _few(None, "workspace_id", "tail"),
    Index(None, "experiment_id"),
    _few(None, "job_id"),
    Index(None, "logdir_id"),
    Index(None, "workspace_id", "archived"),
    Index(None, "workspace_id", "status"),
    _few(None, "status", "heartbeat"),
    Index(None, "created", "id"),
    sqlite_autoincrement=True,
)

# What a worker tells of where it runs: commit, packages, machine. One that goes on tells it anew.
run_details = Table(
    "run_details",
    metadata,
    Column("run_id", _Id, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("details", JSON, nullable=False),
)

# Deleted by a person who kept the files: discovery leaves these alone.
forgotten = Table(
    "forgotten",
    metadata,
    Column("workspace_id", _Id, ForeignKey("workspaces.id", ondelete="CASCADE"), primary_key=True),
    Column("location", Text, primary_key=True),
    sqlite_with_rowid=False,
)

# Event files of runs that were started: a file and its copy have the same name and first record.
event_files = Table(
    "event_files",
    metadata,
    Column("run_id", _Id, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("name", String(255), primary_key=True),
    Column("begun", Double, primary_key=True),  # the time of the first record
    Index(None, "begun"),
    sqlite_with_rowid=False,
)

# Directories below a logdir whose event files are all among these: discovery leaves them alone.
adopted_dirs = Table(
    "adopted_dirs",
    metadata,
    Column("workspace_id", _Id, ForeignKey("workspaces.id", ondelete="CASCADE"), primary_key=True),
    Column("location", Text, primary_key=True),
    sqlite_with_rowid=False,
)

# Event files of deleted runs in such directories, of which other runs have event files, too.
deleted_files = Table(
    "deleted_files",
    metadata,
    Column("workspace_id", _Id, ForeignKey("workspaces.id", ondelete="CASCADE"), primary_key=True),
    Column("location", Text, primary_key=True),
    Column("name", String(255), primary_key=True),
    Column("begun", Double, primary_key=True),
    sqlite_with_rowid=False,
)

# How the hub gets at what lies below a prefix.
connections = Table(
    "connections",
    metadata,
    _id(),
    Column("name", String(200), nullable=False, unique=True),
    _to("workspace_id", null=True),  # none: for all of them
    Column("uri", Text, nullable=False),
    Column("settings", JSON, nullable=False),  # the names of those that are set
    Column("secret", Text, nullable=False),  # their values, encrypted
    _to("created_by", null=True, gone="SET NULL"),
    Column("created", Double, nullable=False),
    Index(None, "workspace_id"),
    sqlite_autoincrement=True,
)

hparams = Table(
    "hparams",
    metadata,
    Column("run_id", _Id, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("name", String(400), primary_key=True),
    Column("number", Double),  # numbers and booleans
    Column("text", Text, nullable=False),  # as a person would write it
    Column("kind", String(8), nullable=False),  # int, float, bool, text
    Index(None, "name", "number"),
    sqlite_with_rowid=False,
)

run_tags = Table(
    "run_tags",
    metadata,
    Column("run_id", _Id, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("tag", String(200), primary_key=True),
    Index(None, "tag"),
    sqlite_with_rowid=False,
)

metrics = Table(
    "metrics",
    metadata,
    Column("run_id", _Id, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("tag", String(400), primary_key=True),
    Column("count", BigInteger, nullable=False),
    Column("last", Double),  # none: not a number
    Column("last_step", BigInteger, nullable=False),
    Column("last_time", Double, nullable=False),
    Column("min", Double),
    Column("min_step", BigInteger),
    Column("max", Double),
    Column("max_step", BigInteger),
    Index(None, "tag", "last"),
    Index(None, "tag", "min"),
    Index(None, "tag", "max"),
    sqlite_with_rowid=False,
)

# --- boards

hosts = Table(
    "hosts",
    metadata,
    Column("id", String(64), primary_key=True),  # local-1
    Column("launcher", String(32), nullable=False),
    Column("state", String(16), nullable=False),  # starting, running, ended
    Column("details", JSON, nullable=False),  # what the launcher needs to find it again
    Column("address", Text),  # where the hub reaches it, once it has registered
    Column("token", String(64)),  # sha256 of the one-time token, until it is used
    Column("secret", Text),  # what the hub shows the host with every request
    Column("created", Double, nullable=False),
    Column("ended", Double),
    Column("exit_code", Integer),
)

boards = Table(
    "boards",
    metadata,
    Column("id", String(36), primary_key=True),  # a UUID
    Column("short", String(8), nullable=False, unique=True),  # its first eight digits, in the URL
    Column("name", String(200), nullable=False),  # a pet name unless given another
    Column("key", String(200)),  # of get-or-create, unique for its owner
    _to("owner_id"),
    _to("workspace_id", null=True, gone="SET NULL"),
    Column("selector", Text, nullable=False),
    Column("follow", Boolean, nullable=False, default=False),
    Column("sources_key", String(64), nullable=False),  # alike for boards of the same sources
    Column("sources", JSON, nullable=False),  # paths and URIs that are not runs of the catalog
    Column("asked", JSON, nullable=False),  # see hub.sources: what was named, added and removed
    Column("options", JSON, nullable=False),  # template, group_by, hide_grouped, samples
    Column("state", String(16), nullable=False),
    Column("reason", String(16)),
    Column("exit_code", Integer),
    Column("message", Text, nullable=False, default=""),
    Column("host_id", String(64), ForeignKey("hosts.id", ondelete="SET NULL")),
    Column("generation", Integer, nullable=False, default=0),  # counts starts
    Column("created", Double, nullable=False),
    Column("started", Double),  # this time
    Column("ready", Double),  # when it was RUNNING or WAITING this time
    Column("ended", Double),
    Column("active", Double, nullable=False),  # the last authorised request
    Column("idle_timeout", Double),  # seconds; none: no limit
    Column("no_data_timeout", Double),
    Column("max_runtime", Double),
    Column("deadline", Double),  # when max_runtime ends it, as extended
    Column("requests", BigInteger, nullable=False, default=0),
    Column("bytes", BigInteger, nullable=False, default=0),
    UniqueConstraint("owner_id", "key"),
    Index(None, "state"),
    Index(None, "owner_id", "state"),
    Index(None, "host_id"),
)

board_runs = Table(
    "board_runs",
    metadata,
    Column("board_id", String(36), ForeignKey("boards.id", ondelete="CASCADE"), primary_key=True),
    Column("run_id", _Id, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Index(None, "run_id"),
    sqlite_with_rowid=False,
)

board_logs = Table(
    "board_logs",
    metadata,
    _id(),
    Column("board_id", String(36), ForeignKey("boards.id", ondelete="CASCADE"), nullable=False),
    Column("time", Double, nullable=False),
    Column("level", String(8), nullable=False),  # info, warning, error
    Column("text", Text, nullable=False),
    Index(None, "board_id", "id"),
    sqlite_autoincrement=True,
)

shares = Table(
    "shares",
    metadata,
    _id(),
    Column("board_id", String(36), ForeignKey("boards.id", ondelete="CASCADE"), nullable=False),
    _to("created_by"),
    Column("created", Double, nullable=False),
    Column("expires", Double, nullable=False),
    Index(None, "board_id"),
    sqlite_autoincrement=True,
)

settings = Table(
    "settings",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", JSON, nullable=False),
)
