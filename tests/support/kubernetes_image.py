"""Images for a cluster that no registry gives any: archives as Docker saves them."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tarfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

from support.podman import IMAGE, ROOT

PAUSE = "localhost/pause:1"
USER = 10001
_LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
_DIRECTORIES = (
    "usr",
    "etc",
    "proc",
    "sys",
    "dev",
    "run",
    "tmp",
    "root",
    "var/tmp",
    "var/lib",
    "var/run",
)
_USERS = {"root": 0, "tbhub": USER, "postgres": 999}
_FILES = {
    "etc/passwd": "".join(
        f"{name}:x:{number}:{number}::/tmp:/bin/sh\n" for name, number in _USERS.items()
    ),
    "etc/group": "".join(f"{name}:x:{number}:\n" for name, number in _USERS.items()),
}


def programs() -> list[str]:
    """Directories of this machine that a container needs to run the package, none in another."""
    wanted = {"/usr", sys.prefix, sys.base_prefix, str(ROOT), *sys.path}
    found = sorted(each for each in wanted if os.path.isdir(each))
    return [
        each
        for each in found
        if not any(each != other and f"{each}/".startswith(f"{other}/") for other in found)
    ]


def bare_image(path: Path) -> None:
    """Nothing but directories, in which this machine's programs are mounted; run by no root."""
    made = BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name in _DIRECTORIES:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if "tmp" in name else 0o755
            tar.addfile(entry)
        for name, target in _LINKS.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
        for name, text in _FILES.items():
            _add(tar, name, text.encode(), 0o644)
    search = f"PATH={Path(sys.executable).parent}:/usr/bin:/bin"
    _archive(path, IMAGE, made.getvalue(), {"Env": [search], "User": f"{USER}:{USER}"})


def pause_image(path: Path, program: Path) -> None:
    """What holds the namespaces of a pod."""
    made = BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        _add(tar, "pause", program.read_bytes(), 0o755)
    _archive(path, PAUSE, made.getvalue(), {"Entrypoint": ["/pause"]})


def _archive(path: Path, name: str, layer: bytes, config: Mapping[str, object]) -> None:
    digest = f"sha256:{hashlib.sha256(layer).hexdigest()}"
    described = {
        "architecture": "amd64" if os.uname().machine == "x86_64" else "arm64",
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [digest]},
    }
    listed = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w") as tar:
        _add(tar, "config.json", json.dumps(described).encode())
        _add(tar, "layer.tar", layer)
        _add(tar, "manifest.json", json.dumps(listed).encode())


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, BytesIO(content))
