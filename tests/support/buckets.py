"""Places in buckets of real servers, each for one test, and how to get there."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support import azurite as azure
from support import seaweedfs as weed
from support.azurite import Azurite
from support.fault_proxy import FaultProxy, fault_proxy
from support.seaweedfs import SeaweedFS
from tbhub.storage.open import open_store
from tbhub.storage.source import FileSource
from tbhub.storage.store import Patience, Store

QUICK = Patience(timeout=2, connect_timeout=2, retries=4, first_pause=0.01, longest_pause=0.05)
_ELSEWHERE = ("TBHUB_", "AWS_", "AZURE_", "GOOGLE_", "OSS_", "ALIBABA_", "STORAGE_EMULATOR_HOST")
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Place:
    """A directory or a prefix that nobody else uses, and how to get there."""

    kind: str
    uri: str
    credentials: dict[str, str]

    def open(self, patience: Patience = QUICK) -> tuple[Store, str]:
        return open_store(self.uri, self.credentials, patience=patience)

    def upload(self, directory: Path) -> None:
        """Copies a directory there."""
        store, prefix = self.open()
        for path in sorted(directory.rglob("*")):
            if path.is_file():
                with FileSource(path) as source:
                    store.put(f"{prefix}/{path.relative_to(directory)}", source)
        store.close()


def fresh_name() -> str:
    """A name that no other test of this process has."""
    return f"t{next(_numbers)}"


@pytest.fixture
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No credentials of the machine the tests run on, and no asking it for some."""
    for name in list(os.environ):
        if name.startswith(_ELSEWHERE):
            monkeypatch.delenv(name)
    nowhere = "127.0.0.1:1"
    for name in ("AWS_METADATA_ENDPOINT", "IDENTITY_ENDPOINT"):
        monkeypatch.setenv(name, f"http://{nowhere}")
    for name in ("GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP"):
        monkeypatch.setenv(name, nowhere)


@pytest.fixture
def s3(seaweedfs: SeaweedFS) -> Callable[..., Place]:
    """Places in a bucket of S3, for one of those the server knows."""

    def make(who: str = "everything", **changed: str) -> Place:
        known = {"endpoint": seaweedfs.url, "access_key_id": who, "secret_access_key": weed.SECRET}
        return Place("s3", f"s3://{weed.BUCKET}/{fresh_name()}", {**known, **changed})

    return make


@pytest.fixture
def azure_place(azurite: Azurite) -> Place:
    """A place in a container of Azure's."""
    credentials = {"account_key": azure.KEY, "endpoint": azurite.url}
    return Place("az", f"az://{azure.CONTAINER}@{azure.ACCOUNT}/{fresh_name()}", credentials)


@pytest.fixture
def proxy(seaweedfs: SeaweedFS) -> Iterator[FaultProxy]:
    """A proxy in front of S3 that can fail."""
    with fault_proxy("127.0.0.1", seaweedfs.port) as made:
        yield made
