"""Names of services for a cluster of tests: what CoreDNS does elsewhere, written for dnsmasq."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from lightkube import Client, KubeConfig
from lightkube.resources.core_v1 import Endpoints, Service

_LOOK_SECONDS = 0.3


class Names:
    """Keeps the names of all services of a namespace in a directory of dnsmasq's."""

    def __init__(self, kubeconfig: str, namespace: str, directory: Path) -> None:
        self._client = Client(config=KubeConfig.from_file(kubeconfig), namespace=namespace)
        self._namespace = namespace
        self._path = directory / namespace
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        self._client.close()
        self._path.unlink(missing_ok=True)

    def _keep(self) -> None:
        written = ""
        while not self._over.wait(_LOOK_SECONDS):
            text = "".join(sorted(self._lines()))
            if text != written:
                new = self._path.parent.with_name(f"{self._namespace}.new")
                new.write_text(text)
                os.replace(new, self._path)  # so that it is read when it is whole
                written = text

    def _lines(self) -> list[str]:
        found = []
        for service in self._client.list(Service):
            name = service.metadata.name
            for address in self._addresses(name, service.spec.clusterIP):
                found.append(f"{address} {name}.{self._namespace}.svc.cluster.local\n")
        return found

    def _addresses(self, name: str, own: str) -> list[str]:
        if own != "None":
            return [own]
        return [
            address.ip
            for each in self._client.list(Endpoints, fields={"metadata.name": name})
            for subset in each.subsets or ()
            for address in subset.addresses or ()
        ]
