"""From a URI and credentials to a store.

What is not given is taken from the environment, under the names that the clouds' own tools use, and
from the identity of the machine. Credentials that are given stand alone: nothing of the
environment's is mixed into them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tbhub.storage.classify import classify
from tbhub.storage.environment import VARIABLES, google_login_file, settings_from
from tbhub.storage.errors import BadCredentials, WrongRegion
from tbhub.storage.local import LocalStore
from tbhub.storage.store import Patience, Store
from tbhub.storage.uri import AZ, FILE, GS, HUB, OSS, S3, Uri, parse

if TYPE_CHECKING:
    from obstore.store import BackoffConfig, ClientConfig, ObjectStore, RetryConfig

LIMIT = 16  # requests under way at a time

# What may be given for each kind of store.
SETTINGS: Mapping[str, frozenset[str]] = {
    FILE: frozenset(),
    S3: frozenset(
        {"access_key_id", "secret_access_key", "session_token", "region", "endpoint", "anonymous"}
    ),
    GS: frozenset({"service_account", "service_account_key", "token", "endpoint", "anonymous"}),
    AZ: frozenset(
        {
            *("account_name", "account_key", "sas_key", "token", "connection_string"),
            *("tenant_id", "client_id", "client_secret", "endpoint", "anonymous"),
        }
    ),
    OSS: frozenset({"access_key_id", "secret_access_key", "session_token", "region", "endpoint"}),
    HUB: frozenset({"url", "token", "attempt"}),
}


@dataclass
class Plan:
    """How obstore is to be called."""

    config: dict[str, Any] = field(default_factory=dict)
    secret: dict[str, Any] | None = None  # what the store's credential provider gives
    endpoint: str = ""
    creating_header: str = ""


def open_store(
    uri: str | Uri,
    credentials: Mapping[str, str] | None = None,
    *,
    patience: Patience | None = None,
    limit: int = LIMIT,
) -> tuple[Store, str]:
    """The store that holds a place, and the place's path in it.

    The caller keeps the store: connections, limit and meter belong to it.
    """
    place = parse(uri) if isinstance(uri, str) else uri
    if place.scheme == FILE:
        plan_for(place, credentials or {}, os.environ)
        return LocalStore(), os.path.abspath(os.path.expanduser(place.path)).strip("/")
    if place.scheme == HUB:
        from tbhub.storage.hub import HubStore  # so is a client for HTTP
        from tbhub.storage.known_hub import known_hub

        if not credentials and not os.environ.get("TBHUB_URL"):
            credentials = known_hub(os.environ)
        plan = plan_for(place, credentials or {}, os.environ)
        return HubStore(plan.config, patience or Patience(), limit), place.path
    plan = plan_for(place, credentials or {}, os.environ)
    return _bucket_store(place, plan, patience or Patience(), limit), place.path


def plan_for(place: Uri, credentials: Mapping[str, str], environ: Mapping[str, str]) -> Plan:
    """Everything obstore is told about a place; pure."""
    unknown = sorted(set(credentials) - SETTINGS[place.scheme])
    if unknown:
        known = ", ".join(sorted(SETTINGS[place.scheme])) or "none"
        raise BadCredentials(
            "open", str(place), f"unknown settings {', '.join(unknown)}; there are {known}"
        )
    given = {name: value for name, value in credentials.items() if value != ""}
    match place.scheme:
        case "s3":
            return _s3(given, environ)
        case "gs":
            return _gs(given, environ)
        case "az":
            return _az(place, given, environ)
        case "oss":
            return _oss(place, given, environ)
        case "hub":
            return _hub(place, given, environ)
        case _:
            return Plan()


def _s3(given: Mapping[str, str], environ: Mapping[str, str]) -> Plan:
    plan = Plan(endpoint=given.get("endpoint") or _first(environ, *VARIABLES[S3]["endpoint"]))
    region = given.get("region") or _first(environ, *VARIABLES[S3]["region"])
    plan.config["region"] = region or "us-east-1"
    if plan.endpoint:
        plan.config["endpoint"] = plan.endpoint
        plan.config["aws_endpoint_url_s3"] = plan.endpoint  # the environment's would win
    plan.secret = _keys(given)
    if _is_on(given.get("anonymous")):
        plan.config["skip_signature"] = True
    return plan


def _oss(place: Uri, given: Mapping[str, str], environ: Mapping[str, str]) -> Plan:
    known = settings_from(environ, place)
    region = given.get("region") or place.account or known.get("region", "")
    region = region.removeprefix("oss-")
    endpoint = given.get("endpoint") or known.get("endpoint", "")
    if not endpoint and not region:
        raise WrongRegion(
            "open",
            str(place),
            "give a region or an endpoint, or set OSS_REGION, or write "
            f"oss://{place.bucket}.oss-REGION.aliyuncs.com/…",
        )
    endpoint = endpoint or f"https://s3.oss-{region}.aliyuncs.com"
    scheme, _, host = endpoint.rpartition("://")
    keys = _keys(given) or _keys(known)
    if keys is None:
        raise BadCredentials(
            "open", str(place), "no credentials; give them, or set OSS_ACCESS_KEY_ID and _SECRET"
        )
    host = host.strip("/")
    # The bucket is a part of the host's name: OSS itself takes no other form.
    in_host = _may_have_subdomains(host)
    address = f"{scheme or 'https'}://{f'{place.bucket}.{host}' if in_host else host}"
    return Plan(
        config={
            "region": f"oss-{region.removesuffix('-internal')}" if region else "oss",
            "endpoint": address,
            "aws_endpoint_url_s3": address,
            "virtual_hosted_style_request": in_host,
            "disable_bulk_delete": True,
        },
        secret=keys,
        endpoint=address,
        creating_header="x-oss-forbid-overwrite",
    )


def _may_have_subdomains(host: str) -> bool:
    """Return whether a host is a domain name: no IP address, no single label such as localhost."""
    name = host.partition("/")[0].partition(":")[0]
    _, dot, last = name.rpartition(".")
    return dot != "" and not last.isdecimal()  # an IPv6 address, in brackets, has no dot here


def _keys(given: Mapping[str, str]) -> dict[str, Any] | None:
    if not given.get("access_key_id"):
        return None
    return {
        "access_key_id": given["access_key_id"],
        "secret_access_key": given.get("secret_access_key", ""),
        "token": given.get("session_token") or None,
        "expires_at": None,
    }


def _gs(given: Mapping[str, str], environ: Mapping[str, str]) -> Plan:
    plan = Plan()
    emulator = _first(environ, "STORAGE_EMULATOR_HOST")
    if emulator and "://" not in emulator:
        emulator = f"http://{emulator}"
    plan.endpoint = given.get("endpoint") or emulator
    if plan.endpoint:
        plan.config["base_url"] = plan.endpoint.rstrip("/")
    for name in ("service_account", "service_account_key"):
        if name in given:
            plan.config[name] = given[name]
    token = given.get("token") or ("emulator" if emulator and not given else "")
    if token:
        plan.secret = {"token": token, "expires_at": None}
    if _is_on(given.get("anonymous")):  # to read; writing is never anonymous there
        plan.config["skip_signature"] = True
    return plan


def _az(place: Uri, given: Mapping[str, str], environ: Mapping[str, str]) -> Plan:
    settings = dict(given)
    text = settings.pop("connection_string", "")
    if not given:
        text = _first(environ, "AZURE_STORAGE_CONNECTION_STRING")
    settings = {**_connection(text), **settings}
    account, dot, cloud = place.account.partition(".")
    account = account or settings.get("account_name", "")
    account = account or _first(environ, *VARIABLES[AZ]["account_name"])
    if not account:
        raise BadCredentials(
            "open",
            str(place),
            "no account; write az://container@account/path, or set AZURE_STORAGE_ACCOUNT_NAME",
        )
    plan = Plan(config={"account_name": account})
    plan.endpoint = settings.get("endpoint") or _first(environ, "AZURE_STORAGE_ENDPOINT")
    if dot and not plan.endpoint:  # another cloud than the public one
        plan.endpoint = f"https://{account}.blob.{cloud.removeprefix('dfs.').removeprefix('blob.')}"
    if plan.endpoint:
        plan.config["endpoint"] = plan.endpoint
    for setting, secret in (
        ("account_key", "access_key"),
        ("sas_key", "sas_token"),
        ("token", "token"),
    ):
        if setting in settings and plan.secret is None:
            plan.secret = {secret: settings[setting].removeprefix("?"), "expires_at": None}
    for name in ("tenant_id", "client_id", "client_secret"):
        if name in settings:
            plan.config[name] = settings[name]
    if _is_on(settings.get("anonymous")):
        plan.config["skip_signature"] = True
    return plan


def _hub(place: Uri, given: Mapping[str, str], environ: Mapping[str, str]) -> Plan:
    names = {"url": "TBHUB_URL", "token": "TBHUB_TOKEN", "attempt": "TBHUB_ATTEMPT"}
    config = dict(given) or {
        name: environ[variable] for name, variable in names.items() if environ.get(variable)
    }
    url = config.get("url", "")
    if not url.startswith(("http://", "https://")):
        raise BadCredentials(
            "open",
            str(place),
            "no hub is known: say where it is with `tbhub login URL` or TBHUB_URL, or start one on "
            "this machine with `tbhub up`",
        )
    if not config.get("attempt", "1").isdecimal():
        raise BadCredentials("open", str(place), "attempt, or TBHUB_ATTEMPT, is a number")
    config["url"] = url.partition("?")[0].rstrip("/")
    return Plan(config=config, endpoint=config["url"])


def _connection(text: str) -> dict[str, str]:
    """An Azure connection string as settings."""
    parts = dict(part.split("=", 1) for part in text.split(";") if "=" in part)
    names = {
        "AccountName": "account_name",
        "AccountKey": "account_key",
        "SharedAccessSignature": "sas_key",
        "BlobEndpoint": "endpoint",
    }
    found = {names[name]: value for name, value in parts.items() if name in names}
    if "account_name" in found and "endpoint" not in found and "EndpointSuffix" in parts:
        scheme = parts.get("DefaultEndpointsProtocol", "https")
        found["endpoint"] = f"{scheme}://{found['account_name']}.blob.{parts['EndpointSuffix']}"
    return found


def _first(environ: Mapping[str, str], *names: str) -> str:
    return next((environ[name] for name in names if environ.get(name)), "")


def _is_on(value: str | None) -> bool:
    return value is not None and value.lower() in ("1", "true", "yes", "on")


def _bucket_store(place: Uri, plan: Plan, patience: Patience, limit: int) -> Store:
    from tbhub.storage.objects import BucketStore, Clients  # obstore is large

    login_file = google_login_file(os.environ) if _uses_login_file(place, plan) else ""
    try:
        once = _client(place, plan, patience, retries=0)
        patient = _client(place, plan, patience, retries=patience.retries)
        creating = None
        if plan.creating_header:
            creating = _client(place, plan, patience, retries=0, header=plan.creating_header)
    except BaseException as raised:
        error = classify(raised, "open", str(place), "", login_file)
    else:
        clients = Clients(once, patient, creating)
        return BucketStore(place, clients, patience, limit, login_file)
    raise error


def _uses_login_file(place: Uri, plan: Plan) -> bool:
    """Return whether a store takes its login from the environment, where that may name a file."""
    given = {"service_account", "service_account_key", "skip_signature"}
    return place.scheme == GS and plan.secret is None and not given & plan.config.keys()


def _client(
    place: Uri, plan: Plan, patience: Patience, *, retries: int, header: str = ""
) -> ObjectStore:
    from obstore.store import AzureStore, GCSStore, S3Store

    options: ClientConfig = {
        "allow_http": plan.endpoint.startswith("http://"),
        "timeout": timedelta(seconds=patience.timeout),
        "connect_timeout": timedelta(seconds=patience.connect_timeout),
    }
    if header:
        options["default_headers"] = {header: "true"}
    backoff: BackoffConfig = {
        "init_backoff": timedelta(seconds=patience.first_pause),
        "max_backoff": timedelta(seconds=patience.longest_pause),
        "base": 2,
    }
    retry: RetryConfig = {
        "max_retries": retries,
        "retry_timeout": timedelta(seconds=patience.total),
        "backoff": backoff,
    }
    kind: Any = {GS: GCSStore, AZ: AzureStore}.get(place.scheme, S3Store)
    settings = dict(plan.config)
    if plan.secret is not None:
        secret = plan.secret
        settings["credential_provider"] = lambda: secret
    made: ObjectStore = kind(place.bucket, client_options=options, retry_config=retry, **settings)
    return made
