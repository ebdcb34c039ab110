"""As much of Kubernetes' API as the launcher uses, kept in memory: a double for faults.

Objects have versions, watches begin at one, and what is deleted takes with it what it owns. Nothing
runs: a test says how a pod is. Its faults go by their names: `drop_watches`, `forget` (what was
before, so that old watches are answered 410), `refuse`, `lingers`, `close`.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

from aiohttp import web

Object = dict[str, Any]


class KubernetesApi:
    """A server between ``start`` and ``close``.

    Attributes:
        url: Where it is.
        asked: How often what was asked: ``"list pods"``, ``"watch pods"``, ``"create secrets"``.
        refuse: What is answered with 403 from now on, by the same names, and why.
        lingers: Whether what is deleted by request only begins to go; ``delete`` is its end.
    """

    def __init__(self) -> None:
        self.url = ""
        self.asked: Counter[str] = Counter()
        self.refuse: dict[str, str] = {}
        self.lingers = False
        self.objects: dict[tuple[str, str], Object] = {}
        self.logs: dict[str, str] = {}
        self.events: dict[str, list[Object]] = {}  # by what they are about
        self._version = 100
        self._oldest = 0
        self._changes: list[tuple[int, str, Object]] = []  # of pods
        self._changed = asyncio.Condition()
        self._watches: set[asyncio.Task[Any]] = set()
        self._runner: web.AppRunner | None = None
        self._port = 0

    async def start(self) -> None:
        """Starts it, again on the same port."""
        application = web.Application()
        application.router.add_route("*", "/{rest:.*}", self._answer)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        self._port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{self._port}"

    async def close(self) -> None:
        """Away, with all connections; what it knows stays."""
        await self.drop_watches()
        if self._runner is not None:
            await self._runner.cleanup()

    async def drop_watches(self) -> None:
        """Breaks every watch."""
        for each in list(self._watches):
            each.cancel()
        await asyncio.sleep(0)

    def forget(self) -> None:
        """Remembers no change before now."""
        self._oldest = self._version
        self._changes.clear()

    async def put_pod(self, pod: str, host: Object, *, leaves: bool = False, **status: Any) -> None:
        """A pod of a Deployment's, and how it is."""
        old = self.objects.get(("pods", pod))
        metadata = {
            "name": pod,
            "uid": f"uid-{pod}",
            "labels": host["spec"]["template"]["metadata"]["labels"],
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": host["metadata"]["name"],
                    "uid": host["metadata"]["uid"],
                }
            ],
        }
        if leaves:
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        made = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": host["spec"]["template"]["spec"],
            "status": status,
        }
        await self._keep("pods", made, "ADDED" if old is None else "MODIFIED")

    async def delete(self, kind: str, name: str) -> None:
        """Takes an object away, and what it owns."""
        gone = self.objects.pop((kind, name))
        if kind == "pods":
            await self._tell("DELETED", gone)
        for (other, its), each in list(self.objects.items()):
            owners = [owner["uid"] for owner in each["metadata"].get("ownerReferences", ())]
            if gone["metadata"]["uid"] in owners:
                await self.delete(other, its)

    def one(self, kind: str) -> Object:
        """The only object of a kind."""
        (found,) = (each for (its, _), each in self.objects.items() if its == kind)
        return found

    async def _keep(self, kind: str, made: Object, change: str) -> None:
        self._version += 1
        made["metadata"]["resourceVersion"] = str(self._version)
        self.objects[kind, made["metadata"]["name"]] = made
        if kind == "pods":
            await self._tell(change, made)

    async def _tell(self, change: str, made: Object) -> None:
        self._version += 1
        told = json.loads(json.dumps(made))
        told["metadata"]["resourceVersion"] = str(self._version)
        self._changes.append((self._version, change, told))
        async with self._changed:
            self._changed.notify_all()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        parts = request.path.split("/")
        after = parts[parts.index("namespaces") + 2 :]
        kind, name = after[0], after[1] if len(after) > 1 else ""
        verb = {"POST": "create", "GET": "get" if name else "list"}.get(
            request.method, request.method.lower()
        )
        verb = "watch" if "watch" in request.query else "log" if after[2:] else verb
        self.asked[f"{verb} {kind}"] += 1
        if (why := self.refuse.get(f"{verb} {kind}")) is not None:
            return _status(403, why)
        if verb == "create":
            made = await request.json()
            if (kind, made["metadata"]["name"]) in self.objects:
                return _status(409, "it exists")
            made["metadata"]["uid"] = f"uid-{kind}-{made['metadata']['name']}"
            await self._keep(kind, made, "ADDED")
            return web.json_response(made, status=201)
        if (verb, kind) == ("list", "events"):
            about = request.query["fieldSelector"].removeprefix("involvedObject.uid=")
            return web.json_response({"metadata": {}, "items": self.events.get(about, [])})
        if verb == "list":
            labels = dict(each.split("=") for each in request.query["labelSelector"].split(","))
            found = [
                each
                for (its, _), each in self.objects.items()
                if its == kind and labels.items() <= each["metadata"]["labels"].items()
            ]
            metadata = {"resourceVersion": str(self._version)}
            return web.json_response({"metadata": metadata, "items": found})
        if verb == "watch":
            return await self._watch(request)
        if (kind, name) not in self.objects:
            return _status(404, f'{kind} "{name}" not found')
        if verb == "log":
            return web.Response(text=self.logs.get(name, ""))
        if verb == "delete":
            if self.lingers:
                self.objects[kind, name]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            else:
                await self.delete(kind, name)
            return _status(200, "gone")
        if verb == "patch":
            self.objects[kind, name]["spec"] |= (await request.json())["spec"]
        return web.json_response(self.objects[kind, name])

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        since = int(request.query.get("resourceVersion", 0))
        response = web.StreamResponse(headers={"content-type": "application/json"})
        await response.prepare(request)
        if since < self._oldest:
            gone = {"kind": "Status", "code": 410, "message": "too old resource version"}
            await response.write(json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n")
            return response
        task = asyncio.current_task()
        assert task is not None
        self._watches.add(task)
        try:
            while True:
                for version, change, pod in list(self._changes):
                    if version > since:
                        since = version
                        line = json.dumps({"type": change, "object": pod})
                        await response.write(line.encode() + b"\n")
                async with self._changed:
                    await self._changed.wait()
        finally:
            self._watches.discard(task)


def _status(code: int, message: str) -> web.Response:
    body = json.dumps({"kind": "Status", "code": code, "message": message}).encode()
    # By its bare type, as Kubernetes does: the client takes nothing else for an error of its.
    return web.Response(body=body, status=code, content_type="application/json")
