"""Where something is stored, as text and taken apart.

    runs/a   /data/runs   file:///data/runs
    s3://bucket/path      gs://bucket/path      oss://bucket/path
    oss://bucket.oss-cn-hangzhou.aliyuncs.com/path    with the region, as PAI writes it
    az://container/path   az://container@account/path
    abfs://container@account.dfs.core.windows.net/path
    hub://runs/12/path    what a hub keeps for its run 12

Names are kept literally: nothing is percent-decoded, and ``?``, ``#`` and spaces are characters
like any other. Whatever a name holds, it cannot lead out of the place it is put below: ``..``,
``.`` and empty parts are refused, except in a path of this machine that a person typed. What is
printed reads back as the same thing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tbhub.storage.errors import BadName

FILE, S3, GS, AZ, OSS, HUB = "file", "s3", "gs", "az", "oss", "hub"
_SCHEMES = {FILE: FILE, S3: S3, GS: GS, OSS: OSS, AZ: AZ, "abfs": AZ, "abfss": AZ, HUB: HUB}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
# What a bucket may be called differs; these are the characters that any store allows.
_BUCKET = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._-]{0,254}")
_ACCOUNT = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,253}[A-Za-z0-9])?")
_AZURE_HOST = re.compile(r"([^.]+)\.(?:dfs|blob)\.core\.windows\.net")
# A bucket of OSS with the host it is asked at; the region is all that is taken of that.
_OSS_HOST = re.compile(
    r"([a-z0-9][a-z0-9-]{1,61}[a-z0-9])\.(?:s3\.)?oss-([a-z0-9][a-z0-9-]{0,62})\.aliyuncs\.com"
)
_RUN = re.compile(r"[1-9][0-9]{0,17}(/|$)")
# Control characters, the backslash (a slash to some servers), and what XML cannot hold.
_UNSTORABLE = re.compile("[\x00-\x1f\x7f\\\\\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class Uri:
    """A place: a bucket and a path in it, or a path of this machine."""

    scheme: str  # file, s3, gs, az, oss, hub
    bucket: str = ""
    path: str = ""  # without a slash at its end; in a bucket without one at its beginning
    account: str = ""  # of Azure: a name, or the whole host where the cloud is another; OSS: region

    def __str__(self) -> str:
        if self.scheme == FILE:
            return self.path
        account = f"@{self.account}" if self.account else ""
        if account and self.scheme == OSS:
            account = f".oss-{self.account}.aliyuncs.com"
        path = f"/{self.path}" if self.path else ""
        return f"{self.scheme}://{self.bucket}{account}{path}"

    def __truediv__(self, name: str) -> Uri:
        """The place of a name below this one."""
        checked = file_name(name) if self.scheme == FILE else object_name(name)
        between = "" if self.path.endswith("/") or not self.path else "/"
        return Uri(self.scheme, self.bucket, f"{self.path}{between}{checked}", self.account)


def schemes() -> frozenset[str]:
    """What a URI may begin with."""
    return frozenset(_SCHEMES)


def parse(text: str) -> Uri:
    """The place that a text names."""
    found = _SCHEME.match(text)
    if found is None:
        return _file(text, text)
    rest = text[found.end() :]
    scheme = _SCHEMES.get(found[1].lower())
    if scheme is None:
        known = ", ".join(f"{name}://" for name in _SCHEMES)
        raise BadName("open", f"{found[1]}://…", f"unknown scheme; known are {known} and paths")
    if scheme == FILE:
        host, slash, path = rest.partition("/")
        if host not in ("", "localhost") or not slash:
            raise BadName("open", repr(text), "a file URI has three slashes: file:///path")
        return _file(text, f"/{path}")
    return _object(scheme, rest)


def same_place_key(uri: str) -> str:
    """Return one text for all spellings of a place: a bucket of OSS has the same name anywhere."""
    if not uri.startswith("oss://"):
        return uri
    authority, slash, path = uri.removeprefix("oss://").partition("/")
    host = _OSS_HOST.fullmatch(authority)
    return f"oss://{host[1] if host else authority}{slash}{path}"


def _file(text: str, path: str) -> Uri:
    if not path or "\0" in path:
        raise BadName("open", repr(text), "not a path")
    path = re.sub("/{2,}", "/", path)
    return Uri(FILE, path=path.rstrip("/") or "/")


def _object(scheme: str, rest: str) -> Uri:
    authority, _, path = rest.partition("/")
    bucket, at, account = authority.partition("@")
    # The authority is not shown: it may hold a password.
    if not _BUCKET.fullmatch(bucket) or ".." in bucket or (at and scheme != AZ):
        form = "container@account" if scheme == AZ else "bucket"
        raise BadName("open", f"{scheme}://…", f"what follows must be {form}/path")
    if at and (not _ACCOUNT.fullmatch(account) or ".." in account):
        raise BadName("open", f"{scheme}://{bucket}@…", "not the name of an account")
    if scheme == HUB and (bucket != "runs" or not _RUN.match(path)):
        raise BadName("open", f"{scheme}://…", "what follows must be runs/ and a run's number")
    known = _AZURE_HOST.fullmatch(account)
    path = path[:-1] if path.endswith("/") else path
    if scheme == OSS and (host := _OSS_HOST.fullmatch(bucket)):
        bucket, account = host.groups()
    return Uri(scheme, bucket, object_name(path) if path else "", known[1] if known else account)


def object_name(name: str) -> str:
    """A name that every object store keeps as it is, or BadName."""
    _check_parts(name)
    wrong = _UNSTORABLE.search(name)
    if wrong:
        raise BadName("store", repr(name), f"names in a bucket cannot hold {wrong[0]!r}")
    return name


def file_name(name: str) -> str:
    """A relative name for this machine's file system, or BadName."""
    _check_parts(name)
    if "\0" in name:
        raise BadName("store", repr(name), "file names cannot hold a zero byte")
    return name


def _check_parts(name: str) -> None:
    for part in name.split("/"):
        if part in ("", ".", ".."):
            raise BadName("store", repr(name), f"a name cannot have {part!r} between its slashes")
