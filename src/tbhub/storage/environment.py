"""Credentials that environment variables hold for a place, as settings to hand on.

A store that is opened where the variables are set finds them by itself. Elsewhere, in a container
or on another machine, the same store needs them as settings.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from tbhub.storage.uri import AZ, GS, OSS, S3, Uri

# Each setting with the variables that may hold it; the first that is set counts.
VARIABLES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    S3: {
        "access_key_id": ("AWS_ACCESS_KEY_ID",),
        "secret_access_key": ("AWS_SECRET_ACCESS_KEY",),
        "session_token": ("AWS_SESSION_TOKEN",),
        "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
        "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
        "anonymous": ("AWS_SKIP_SIGNATURE",),
    },
    OSS: {
        "access_key_id": ("OSS_ACCESS_KEY_ID", "ALIBABA_CLOUD_ACCESS_KEY_ID"),
        "secret_access_key": ("OSS_ACCESS_KEY_SECRET", "ALIBABA_CLOUD_ACCESS_KEY_SECRET"),
        "session_token": ("OSS_SESSION_TOKEN", "ALIBABA_CLOUD_SECURITY_TOKEN"),
        "region": ("OSS_REGION", "ALIBABA_CLOUD_REGION_ID"),
        "endpoint": ("OSS_ENDPOINT",),
    },
    GS: {
        "service_account_key": ("GOOGLE_SERVICE_ACCOUNT_KEY",),
        "endpoint": ("STORAGE_EMULATOR_HOST",),
    },
    AZ: {
        "connection_string": ("AZURE_STORAGE_CONNECTION_STRING",),
        "account_name": ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"),
        "account_key": ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY"),
        "sas_key": ("AZURE_STORAGE_SAS_KEY", "AZURE_STORAGE_SAS_TOKEN"),
        "endpoint": ("AZURE_STORAGE_ENDPOINT",),
        "tenant_id": ("AZURE_STORAGE_TENANT_ID", "AZURE_TENANT_ID"),
        "client_id": ("AZURE_STORAGE_CLIENT_ID", "AZURE_CLIENT_ID"),
        "client_secret": ("AZURE_STORAGE_CLIENT_SECRET", "AZURE_CLIENT_SECRET"),
    },
}
_KEY_FILES = ("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_APPLICATION_CREDENTIALS")
_MAX_KEY_FILE_BYTES = 64 << 10
_GCLOUD_LOGIN = "~/.config/gcloud/application_default_credentials.json"

logger = logging.getLogger("tbhub.storage")


def settings_from(environ: Mapping[str, str], place: Uri) -> dict[str, str]:
    """Return the settings that variables hold for a place; none for a place they are not for."""
    found = {}
    for setting, names in VARIABLES.get(place.scheme, {}).items():
        value = next((environ[name] for name in names if environ.get(name)), "")
        if value:
            found[setting] = value
    if place.scheme == GS:
        return _google(found, environ)
    if place.scheme == AZ and _is_other_account(place, found):
        return {}
    return found


def google_login_file(environ: Mapping[str, str]) -> str:
    """Return the file that a store of Google's reads its login from; empty if from none."""
    if environ.get("GOOGLE_SERVICE_ACCOUNT_KEY") or environ.get("STORAGE_EMULATOR_HOST"):
        return ""
    named = next((environ[name] for name in _KEY_FILES if environ.get(name)), "")
    home = environ.get("HOME", "")
    if named or not home:
        return named
    return _GCLOUD_LOGIN if os.path.exists(_GCLOUD_LOGIN.replace("~", home)) else ""


def _google(found: dict[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """A key may lie in a file, which is not seen elsewhere; an emulator takes any token."""
    if "endpoint" in found:
        address = found["endpoint"]
        return {"endpoint": address if "://" in address else f"http://{address}", "token": "any"}
    path = next((environ[name] for name in _KEY_FILES if environ.get(name)), "")
    if path and not found:
        key = _service_account_key(path)
        return {"service_account_key": key} if key else {}
    return found


def _service_account_key(path: str) -> str:
    """Return the text of a service account's key file; empty if it is none."""
    try:
        with Path(path).expanduser().open("rb") as file:
            text = file.read(_MAX_KEY_FILE_BYTES).decode()
        kind = json.loads(text).get("type")
    except (OSError, ValueError, AttributeError):
        logger.warning("cannot read the Google credentials in %s", path)
        return ""
    return text if kind == "service_account" else ""  # others are tied to their machine


def _is_other_account(place: Uri, found: Mapping[str, str]) -> bool:
    """A key goes to no account or host but its own, whatever account a place names."""
    if not place.account:
        return False
    return place.account != found.get("account_name", place.account) or "." in place.account
