"""Vertex AI's managed TensorBoards: found by name or made, once, however many ask at a time.

Vertex gives a TensorBoard its id and lets several have one name, so two jobs that start together
would make two. Here a small object below the output directory says which one is meant: whoever is
the first to put it there has decided, and who comes second deletes what they had made.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tbhub.errors import TbhubError
from tbhub.storage.errors import Conflict, NotFound
from tbhub.storage.open import open_store
from tbhub.storage.store import Store
from tbhub.tracking.executors import BUCKET, output_directory

LOG_DIR = "AIP_TENSORBOARD_LOG_DIR"
"""How a job on Vertex is told where to log."""
LOCATION = "us-central1"
_EMULATOR = "TBHUB_VERTEX_EMULATOR"  # an address that is spoken to as Vertex, in the clear
_RESOURCE = re.compile(r"projects/[^/]+/locations/([^/]+)/tensorboards/[^/]+")
_PATIENCE = 60.0  # seconds for one answer
_LONGEST = 100  # letters of an id, before what tells it from others

T = TypeVar("T")


class VertexError(TbhubError):
    """Vertex AI refuses, or cannot be asked."""


@dataclass(frozen=True)
class TensorboardCapability:
    """A managed TensorBoard and the directory that what belongs to it is logged below.

    Args:
        name: Its display name, or the whole name of one that there is
            (``projects/p/locations/l/tensorboards/1``).
        base_output_directory: ``gs://bucket/path`` or ``bucket/path``; any store that tbhub writes
            to will do. Without one the bucket of ``GOOGLE_CLOUD_BUCKET_NAME``.
        project: Of Google Cloud; as the environment says unless given.
        location: Its region.
    """

    name: str
    base_output_directory: str | None = None
    project: str = ""
    location: str = LOCATION

    def log_dir(self, run: str) -> str:
        """Return where a run logs to.

        Raises:
            VertexError: No directory is given, and no default bucket is set.
        """
        base = output_directory(self.base_output_directory)
        if base is None:
            raise VertexError(
                f"no output directory. hint: give base_output_directory, or set {BUCKET}"
            )
        return f"{base.rstrip('/')}/{run}/logs"

    def environment(self, run: str) -> dict[str, str]:
        """What a job is told, as jobs on Vertex are."""
        return {LOG_DIR: self.log_dir(run)}

    def get_or_create(self, client: Any = None) -> str:
        """The whole name of the TensorBoard; it is made if there is none, and never twice.

        Args:
            client: A ``TensorboardServiceClient``; one for the location unless given.

        Raises:
            VertexError: Vertex refuses, or cannot be asked.
        """
        if _RESOURCE.fullmatch(self.name):
            return self.name
        client = client or connect(self.location)
        parent = f"projects/{self.project or default_project()}/locations/{self.location}"
        base = output_directory(self.base_output_directory)
        if base is None:
            return asked(lambda: _oldest_or_new(client, parent, self.name))
        return asked(lambda: self._get_or_create(client, parent, base))

    def _get_or_create(self, client: Any, parent: str, directory: str) -> str:
        store, base = open_store(directory)
        try:
            path = f"{base}/.tbhub/vertex/{slug(self.name)}.json".lstrip("/")
            while True:
                meant, version = _read(store, path)
                if meant and _exists(client, meant):
                    return meant
                found = _oldest(client, parent, self.name)
                made = found or _create(client, parent, self.name)
                data = json.dumps({"tensorboard": made}).encode()
                try:
                    if version is None:
                        store.put_if_absent(path, data)
                    else:  # what was meant has been deleted
                        store.put_if_unchanged(path, data, version)
                except Conflict:  # another was first, perhaps with the one that we have made
                    if found is None and _read(store, path)[0] != made:
                        client.delete_tensorboard(name=made, timeout=_PATIENCE)
                    continue
                return made
        finally:
            store.close()


def connect(location: str = LOCATION) -> Any:
    """A client for a region.

    Raises:
        VertexError: The library is not installed, or nobody is logged in.
    """
    try:
        from google.api_core.exceptions import GoogleAPIError
        from google.auth.exceptions import GoogleAuthError
        from google.cloud.aiplatform_v1.services import tensorboard_service as service
    except ImportError:
        raise VertexError("this needs Google's library: pip install 'tbhub[vertex]'") from None
    emulator = os.environ.get(_EMULATOR)
    try:
        if emulator:
            import grpc
            from google.cloud.aiplatform_v1.services.tensorboard_service import transports

            kind = transports.TensorboardServiceGrpcTransport
            transport = kind(channel=grpc.insecure_channel(emulator))
            return service.TensorboardServiceClient(transport=transport)
        endpoint = f"{location}-aiplatform.googleapis.com"
        return service.TensorboardServiceClient(client_options={"api_endpoint": endpoint})
    except (GoogleAPIError, GoogleAuthError) as error:
        raise VertexError(f"Vertex AI cannot be asked: {error}") from error


def default_project() -> str:
    """The project that the environment names.

    Raises:
        VertexError: It names none.
    """
    if project := os.environ.get("GOOGLE_CLOUD_PROJECT"):
        return project
    import google.auth
    from google.auth.exceptions import GoogleAuthError

    try:
        _, project = google.auth.default()
    except GoogleAuthError as error:
        raise VertexError(f"nobody is logged in to Google Cloud: {error}") from error
    if not project:
        raise VertexError("which project? Give one, or set GOOGLE_CLOUD_PROJECT")
    return str(project)


def location_of(tensorboard: str) -> str | None:
    """The region in the whole name of a TensorBoard; none if it is no such name."""
    found = _RESOURCE.fullmatch(tensorboard)
    return found[1] if found else None


def slug(name: str) -> str:
    """An id that Vertex takes, always the same for a name, and another for another name."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:_LONGEST]
    if plain == name and plain[0].isalpha():
        return plain
    return f"t-{plain}-{hashlib.sha256(name.encode()).hexdigest()[:10]}".replace("--", "-")


def asked(ask: Callable[[], T]) -> T:
    """An answer of Vertex's; what it refuses is said in one sentence."""
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError

    try:
        return ask()
    except (GoogleAPIError, GoogleAuthError) as error:
        raise VertexError(f"Vertex AI refuses: {error}") from error


def _read(store: Store, path: str) -> tuple[str, str | None]:
    """Which TensorBoard is meant, and the version of the object that says so."""
    try:
        version = store.stat(path).version
        return str(json.loads(store.read(path))["tensorboard"]), version
    except NotFound:
        return "", None
    except (ValueError, KeyError, TypeError) as error:
        raise VertexError(f"{path} does not say which TensorBoard is meant: {error}") from error


def _exists(client: Any, name: str) -> bool:
    from google.api_core.exceptions import NotFound as Missing

    try:
        client.get_tensorboard(name=name, timeout=_PATIENCE)
    except Missing:
        return False
    return True


def _oldest(client: Any, parent: str, name: str) -> str | None:
    """The first that was made under a name, by whatever program."""
    named = f"display_name={json.dumps(name)}"
    request = {"parent": parent, "filter": named}
    found = list(client.list_tensorboards(request=request, timeout=_PATIENCE))
    found.sort(key=lambda each: (each.create_time, each.name))
    return str(found[0].name) if found else None


def _oldest_or_new(client: Any, parent: str, name: str) -> str:
    """Return the oldest of a name; where several are made at once, the others are deleted."""
    if found := _oldest(client, parent, name):
        return found
    made = _create(client, parent, name)
    kept = _oldest(client, parent, name) or made
    if kept != made:
        client.delete_tensorboard(name=made, timeout=_PATIENCE)
    return kept


def _create(client: Any, parent: str, name: str) -> str:
    request = {"parent": parent, "tensorboard": {"display_name": name}}
    making = client.create_tensorboard(request=request, timeout=_PATIENCE)
    return str(making.result(timeout=10 * _PATIENCE).name)
