"""What can be set of a hub: by argument, by environment (``TBHUB_…``), or left at its default.

A setting that cannot work is refused here, before anything has been opened.
"""

from __future__ import annotations

import ipaddress
import json
import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

import platformdirs
from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from tbhub.api.invalid import sentence
from tbhub.catalog.templates import parse_template
from tbhub.errors import TbhubError
from tbhub.launchers import choose
from tbhub.storage.errors import StoreError
from tbhub.storage.uri import FILE, HUB, parse

DEFAULT_PORT = 6060


class SettingsError(TbhubError, ValueError):
    """A setting that cannot be; the text names it."""


class Settings(BaseSettings):
    """The settings of a hub. Seconds unless a name says otherwise; 0 means no limit."""

    model_config = SettingsConfigDict(env_prefix="TBHUB_", extra="ignore", frozen=True)

    home: Path = Field(default_factory=lambda: Path(platformdirs.user_data_dir("tbhub")))
    database: str = ""  # a URL; empty: hub.db in the home
    logdirs: Annotated[tuple[Path, ...], NoDecode] = ()  # separated as in PATH
    storage: str = ""  # a directory or a bucket for the files of runs; empty: files in the home

    # --- where it listens
    host: str = "127.0.0.1"
    port: int = Field(default=DEFAULT_PORT, ge=0, le=65535)
    base_path: str = ""  # what stands before every path: "/tbhub"
    public_url: str = ""  # how others reach it, where that is not host and port
    tls_cert: Path | None = None
    tls_key: Path | None = None
    replicas: bool = False  # one of several hubs on one home and one PostgreSQL, of which one leads
    replica_address: str = ""  # how the others reach this one, where that is not host and port
    # Addresses whose X-Forwarded-… are believed.
    trusted_proxies: Annotated[tuple[str, ...], NoDecode] = ()

    # --- who may
    auth: Literal["token", "users", "none"] = "token"
    session_hours: float = Field(default=24 * 14, gt=0, le=24 * 365)
    login_attempts: int = Field(default=10, ge=1)  # per name and per address, in login_window
    login_window: float = Field(default=300.0, gt=0)
    oidc_issuer: str = ""
    oidc_client_id: str = ""
    oidc_client_secret: SecretStr = SecretStr("")
    oidc_scopes: str = "openid profile email"
    oidc_name: str = "single sign-on"  # what the button of the login page says

    # --- boards
    idle_timeout: float = Field(default=1800.0, ge=0)
    no_data_timeout: float = Field(default=0.0, ge=0)
    max_runtime: float = Field(default=0.0, ge=0)
    name_template: str = Field(default="", max_length=1000)  # how boards name their runs
    max_boards_per_user: int = Field(default=50, ge=0)
    max_boards_per_workspace: int = Field(default=0, ge=0)
    start_timeout: float = Field(default=60.0, gt=0)
    host_lost_after: float = Field(default=600.0, gt=0)  # a host without a hub ends by itself
    host_hung_after: float = Field(default=30.0, gt=0)  # a host that does not answer is replaced
    memory_budget: int = Field(default=0, ge=0)  # bytes a host may keep; 0: its own default

    # --- where boards are served
    launcher: str = "local"
    launcher_options: Annotated[dict[str, Any], NoDecode] = Field(default_factory=dict)
    hosts_url: str = ""  # how hosts reach the hub, where that is not host and port
    host_tls: bool = False  # hosts that are started serve TLS, known by their certificates
    boards_per_host: int | None = Field(default=None, ge=0)  # none: as the launcher has it
    min_hosts: int | None = Field(default=None, ge=0)  # kept, with boards or without
    max_hosts: int = Field(default=0, ge=0)
    host_linger: float = Field(default=10.0, ge=0)  # a host that is not needed ends after it

    # --- runs
    heartbeat_timeout: float = Field(default=60.0, gt=0)  # a worker that is silent so long is lost
    max_file: int = Field(default=1 << 40, ge=1024)  # bytes of a file that is sent whole

    # --- the rest
    max_body: int = Field(default=64 << 20, ge=1024)  # bytes
    log_format: Literal["text", "json"] = "text"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    keep_hosts: bool = False  # boards stay up when the hub ends, for the next one
    metrics_public: bool = False  # /metrics without a token

    @classmethod
    def load(cls, config: Path | None = None, **given: Any) -> Settings:
        """Settings from arguments, the environment and a file; the first that has one counts.

        Arguments that are None are not given.

        Args:
            config: A TOML file; without it the one that ``TBHUB_CONFIG`` names, if it does.

        Raises:
            SettingsError: One of them cannot be; in one sentence.
        """
        config = config or Path(os.environ.get("TBHUB_CONFIG", ""))
        values = _read(config, set(cls.model_fields)) if config != Path() else {}
        values |= {name: value for name, value in given.items() if value is not None}
        try:
            return cls(**values)
        except ValidationError as error:
            raise SettingsError(sentence(error.errors(include_url=False))) from None

    @field_validator("logdirs", mode="before")
    @classmethod
    def _split_paths(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(each for each in value.split(os.pathsep) if each)
        return value

    @field_validator("trusted_proxies", mode="before")
    @classmethod
    def _split_names(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(each.strip() for each in value.split(",") if each.strip())
        return value

    @field_validator("launcher_options", mode="before")
    @classmethod
    def _object(cls, value: object) -> object:
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError as error:
                raise ValueError(f"it is to be JSON, which it is not: {error}") from None
            if not isinstance(value, dict):
                raise ValueError('it is to be an object of JSON: {"option": value}')
        return value

    @field_validator("name_template")
    @classmethod
    def _template(cls, value: str) -> str:
        if value:
            parse_template(value)
        return value

    @field_validator("home")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return Path(os.path.abspath(value.expanduser()))

    @field_validator("logdirs")
    @classmethod
    def _all_absolute(cls, value: tuple[Path, ...]) -> tuple[Path, ...]:
        return tuple(Path(os.path.abspath(each.expanduser())) for each in value)

    @field_validator("storage")
    @classmethod
    def _place(cls, value: str) -> str:
        if not value:
            return ""
        try:
            place = parse(value)
        except StoreError as error:
            raise ValueError(error.what) from None
        if place.scheme == HUB:
            raise ValueError("a directory, or a bucket as s3://bucket/prefix; not another hub")
        if place.scheme != FILE:
            return str(place)
        return os.path.abspath(os.path.expanduser(place.path))

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            ipaddress.ip_network(each, strict=False)
        return value

    @field_validator("base_path")
    @classmethod
    def _one_slash_in_front(cls, value: str) -> str:
        value = value.strip("/")
        if any(ord(letter) <= 32 or letter in '?#%\\"<>' for letter in value):
            raise ValueError("a path without spaces, quotes, ? # % \\")
        return f"/{value}" if value else ""

    @field_validator("public_url", "hosts_url", "oidc_issuer")
    @classmethod
    def _url(cls, value: str) -> str:
        parts = urlsplit(value)
        if value and (parts.scheme not in ("http", "https") or not parts.netloc):
            raise ValueError("an address that begins with http:// or https://")
        return value.rstrip("/")

    @model_validator(mode="after")
    def _together(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key are given together or not at all")
        if self.oidc_issuer and not self.oidc_client_id:
            raise ValueError("oidc_issuer needs oidc_client_id")
        issuer = urlsplit(self.oidc_issuer)
        if issuer.scheme == "http" and not is_loopback(issuer.hostname or ""):
            raise ValueError("oidc_issuer must begin with https:// (anybody could answer for it)")
        if self.auth == "none" and not self.on_loopback:
            raise ValueError(
                f"with auth none the hub listens on this machine alone, not on {self.host}: "
                "anybody there could do anything; take auth token or users"
            )
        if self.replicas and not self.database.startswith("postgresql"):
            raise ValueError("replicas need a database that all of them have: postgresql://…")
        if self.max_hosts and (self.min_hosts or 0) > self.max_hosts:
            raise ValueError(f"min_hosts is {self.min_hosts}, more than max_hosts {self.max_hosts}")
        choose.check(self.launcher, self.launcher_options)
        return self

    @property
    def on_loopback(self) -> bool:
        """True if nobody else's machine can connect."""
        return is_loopback(self.host)

    @property
    def database_url(self) -> str:
        """The database's URL."""
        return self.database or f"sqlite:///{self.home / 'hub.db'}"

    @property
    def files(self) -> Path:
        """Where the hub keeps the files of runs, all or those that are not in its bucket yet."""
        return Path(self.storage) if self.storage and not self.bucket else self.home / "files"

    @property
    def bucket(self) -> str:
        """The bucket for the files of runs; empty if a directory is."""
        return self.storage if "://" in self.storage else ""

    @property
    def single_user(self) -> bool:
        """True if there is one person, who is known by a token or by being here."""
        return self.auth != "users"


def is_loopback(name: str) -> bool:
    """Whether a host's name or address can only mean this machine."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _read(config: Path, known: set[str]) -> dict[str, Any]:
    """What a file sets and the environment does not."""
    try:
        found = tomllib.loads(config.read_text())
    except OSError as error:
        raise SettingsError(f"cannot read {config}: {error.strerror}") from error
    except ValueError as error:
        raise SettingsError(f"{config} is to be TOML, which it is not: {error}") from error
    if unknown := sorted(set(found) - known):
        raise SettingsError(f"{config} sets {', '.join(unknown)}, which a hub does not have")
    given = {name.upper() for name in os.environ}
    return {name: value for name, value in found.items() if f"TBHUB_{name.upper()}" not in given}
