"""The permissions that boards and runs need in each store, and the roles that grant them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from tbhub.storage.store import DELETE, LIST, READ, WRITE
from tbhub.storage.uri import AZ, GS, OSS, S3

Purpose = Literal["boards", "runs"]
"""What a place is for: boards read it, runs write it as well."""

BOARDS: Purpose = "boards"
RUNS: Purpose = "runs"
VERBS: Mapping[Purpose, tuple[str, ...]] = {
    BOARDS: (LIST, READ),
    RUNS: (LIST, READ, WRITE, DELETE),
}

_PERMISSIONS: Mapping[str, Mapping[str, str]] = {
    S3: {
        LIST: "s3:ListBucket",
        READ: "s3:GetObject",
        WRITE: "s3:PutObject and s3:AbortMultipartUpload",
        DELETE: "s3:DeleteObject",
    },
    GS: {
        LIST: "storage.objects.list",
        READ: "storage.objects.get",
        WRITE: "storage.objects.create",
        DELETE: "storage.objects.delete",
    },
    AZ: {
        LIST: "blobs/read (SAS: l)",
        READ: "blobs/read (SAS: r)",
        WRITE: "blobs/write (SAS: cw)",
        DELETE: "blobs/delete (SAS: d)",
    },
    OSS: {
        LIST: "oss:ListObjects",
        READ: "oss:GetObject",
        WRITE: "oss:PutObject and oss:AbortMultipartUpload",
        DELETE: "oss:DeleteObject",
    },
}
_ROLES: Mapping[str, Mapping[Purpose, str]] = {
    S3: {BOARDS: "AmazonS3ReadOnlyAccess", RUNS: "AmazonS3FullAccess"},
    GS: {
        BOARDS: "Storage Object Viewer (roles/storage.objectViewer)",
        RUNS: "Storage Object User (roles/storage.objectUser)",
    },
    AZ: {BOARDS: "Storage Blob Data Reader", RUNS: "Storage Blob Data Contributor"},
    OSS: {BOARDS: "AliyunOSSReadOnlyAccess", RUNS: "AliyunOSSFullAccess"},
}


def permission(scheme: str, verb: str) -> str:
    """Return the permission that a verb needs; empty where a store has no names for them."""
    return _PERMISSIONS.get(scheme, {}).get(verb, "")


def role(scheme: str, purpose: Purpose) -> str:
    """Return the role that grants what a purpose needs, with its permissions; empty if unknown."""
    name = _ROLES.get(scheme, {}).get(purpose)
    if name is None:
        return ""
    permissions = ", ".join(permission(scheme, verb) for verb in VERBS[purpose])
    return f"{name}: {permissions.replace(' and ', ', ')}"
