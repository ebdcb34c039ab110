"""Everything a TensorBoard page can ask, and whether two applications answer it alike.

``requests_for`` follows one application's answers as the page does: from lists of runs and tags to
every request for their data. ``compare`` sends them to two applications. A difference is
anything a page could see: blob keys are replaced by what they lead to, lists whose order means
nothing are sorted, and what names the place or the server is left out. Nothing else is forgiven.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol
from urllib.parse import parse_qsl, urlencode

Answer = tuple[int, str, bytes]
Fields = Mapping[str, str | Sequence[str]]

PLUGIN = "/data/plugin"
# The Angular half of the page asks below this, the Polymer half below the root.
EXPERIMENT = "/experiment/defaultExperimentId"
ABSENT = "no such thing"
PATIENCE = 10.0
SHOWN = 5  # differences told per request

# What rightly depends on the server or on where the logs are: board and place have other names.
LEFT_OUT = {
    "/data/environment": {
        "data_location",
        "window_title",
        "experiment_name",
        "experiment_description",
        "creation_time",
        "debug",
    },
    "/data/logdir": {"logdir"},
    "/data/window_properties": {"window_title"},
    f"{PLUGIN}/projector/info": {"modelCheckpointPath"},
}
MESH_PARTS = {1: "VERTEX", 2: "FACE", 3: "COLOR"}
STATUSES = [f"STATUS_{name}" for name in ("FAILURE", "RUNNING", "SUCCESS", "UNKNOWN")]


class Application(Protocol):
    """What can be compared: anything that answers requests."""

    def get(self, path: str, /, **query: str | Sequence[str]) -> Answer: ...

    def post(self, path: str, form: Fields | str, /) -> Answer: ...


@dataclass(frozen=True)
class Request:
    """One request, the same for every application: a GET, or a POST of a form or of JSON."""

    path: str
    query: Fields = field(default_factory=dict)
    form: Fields | str | None = None

    @property
    def route(self) -> str:
        """The path without the experiment before it."""
        return self.path.removeprefix(EXPERIMENT)

    def send(self, app: Application) -> Answer:
        if self.form is None:
            return app.get(self.path, **self.query)
        return app.post(self.path, self.form)

    def __str__(self) -> str:
        if self.form is None:
            query = urlencode(self.query, doseq=True)
            return f"GET {self.path}?{query}" if query else f"GET {self.path}"
        form = self.form if isinstance(self.form, str) else urlencode(self.form, doseq=True)
        return f"POST {self.path} {form}"


# -------------------------------------------------------------------------------- what is asked


def requests_for(app: Application) -> Iterator[Request]:
    """Every request of a page for what ``app`` says there is, and some for what there is not."""
    runs = _ask(app, "/data/runs")
    yield from _core()
    yield from _scalars(app, runs)
    yield from _time_series(app)
    yield from _images_and_audio(app)
    yield from _histograms(app)
    yield from _text(app)
    yield from _pr_curves(app)
    yield from _custom_scalars(app, runs)
    yield from _graphs(app)
    yield from _hparams(app)
    yield from _meshes(app)
    yield from _projector(app, runs)


def _core() -> Iterator[Request]:
    for name in (
        "environment",
        "logdir",
        "runs",
        "experiments",
        "experiment_runs",
        "notifications",
        "window_properties",
        "plugins_listing",
    ):
        yield Request(f"/data/{name}")
    yield Request(f"{EXPERIMENT}/data/runs")
    yield Request("/data/plugins_listing", {"experimentalPlugin": ABSENT})
    for plugin in ("projector", "scalars", ABSENT):  # an iframe, none, and no plugin
        yield Request("/data/plugin_entry.html", {"name": plugin})


def _scalars(app: Application, runs: list[str]) -> Iterator[Request]:
    path = f"{PLUGIN}/scalars"
    yield Request(f"{path}/tags")
    runs_by_tag: dict[str, list[str]] = {}
    for run, tag in _series(app, f"{path}/tags"):
        runs_by_tag.setdefault(tag, []).append(run)
        yield Request(f"{path}/scalars", {"run": run, "tag": tag})
        for form in ("csv", "json"):  # the buttons of the old and of the new dashboard
            query = {"run": run, "tag": tag, "format": form}
            yield Request(f"{path}/scalars", query)
            yield Request(f"{EXPERIMENT}{path}/scalars", query)
    for tag, holders in runs_by_tag.items():
        yield Request(f"{path}/scalars_multirun", form={"tag": tag, "runs": holders})
        everyone = [*runs, ABSENT]
        yield Request(f"{path}/scalars_multirun", form={"tag": tag, "runs": everyone})
    for missing in _absent(app, f"{path}/tags"):
        yield Request(f"{path}/scalars", missing)
        yield Request(
            f"{path}/scalars_multirun", form={"tag": missing["tag"], "runs": [missing["run"]]}
        )
    yield Request(f"{path}/scalars", {"run": ABSENT})
    yield Request(f"{path}/scalars_multirun", {"tag": ABSENT})  # by GET
    yield Request(f"{path}/scalars_multirun", form={"runs": runs})


def _time_series(app: Application) -> Iterator[Request]:
    path = f"{PLUGIN}/timeseries"
    for prefix in ("", EXPERIMENT):
        yield Request(f"{prefix}{path}/tags")
    tags = _ask(app, f"{path}/tags")
    wanted: list[dict[str, Any]] = []
    for kind in ("scalars", "histograms"):
        for run, names in tags[kind]["runTagInfo"].items():
            wanted += ({"plugin": kind, "tag": tag, "run": run} for tag in names)
    scalars = {tag for names in tags["scalars"]["runTagInfo"].values() for tag in names}
    wanted += ({"plugin": "scalars", "tag": tag} for tag in sorted(scalars))  # of all runs
    for tag, holders in tags["images"]["tagRunSampledInfo"].items():
        for run, info in holders.items():
            for sample in range(info["maxSamplesPerStep"] + 1):  # one beyond the last
                wanted.append({"plugin": "images", "tag": tag, "run": run, "sample": sample})
    for kind in ("scalars", "histograms", "images"):
        wanted.append({"plugin": kind, "tag": ABSENT, "run": ABSENT, "sample": 0})
        wanted.append({"plugin": kind, "tag": ABSENT})  # which only scalars allow
    wanted += [{"plugin": "scalars"}, {"plugin": ABSENT, "tag": ABSENT}]
    for request in wanted:
        form = {"requests": json.dumps([request])}
        yield Request(f"{EXPERIMENT}{path}/timeSeries", form=form)
    several = {"requests": json.dumps(wanted[:3])}
    yield Request(f"{path}/timeSeries", form=several)
    yield Request(f"{path}/timeSeries", several)
    yield Request(f"{path}/timeSeries", form={"requests": "not JSON"})
    yield Request(f"{path}/timeSeries")
    yield Request(f"{path}/imageData", {"imageId": ""})


def _images_and_audio(app: Application) -> Iterator[Request]:
    for plugin in ("images", "audio"):
        path = f"{PLUGIN}/{plugin}"
        yield Request(f"{path}/tags")
        for run, tags in _ask(app, f"{path}/tags").items():
            for tag, info in tags.items():
                for sample in range(info["samples"]):
                    query = {"run": run, "tag": tag, "sample": str(sample)}
                    yield Request(f"{path}/{plugin}", query)
        for missing in _absent(app, f"{path}/tags"):
            yield Request(f"{path}/{plugin}", missing)
    yield Request(f"{PLUGIN}/images/individualImage")
    yield Request(f"{PLUGIN}/audio/individualAudio", {"blob_key": "", "content_type": "text/html"})


def _histograms(app: Application) -> Iterator[Request]:
    for plugin in ("histograms", "distributions"):
        path = f"{PLUGIN}/{plugin}"
        yield Request(f"{path}/tags")
        for run, tag in _series(app, f"{path}/tags"):
            yield Request(f"{path}/{plugin}", {"run": run, "tag": tag})
        for missing in _absent(app, f"{path}/tags"):
            yield Request(f"{path}/{plugin}", missing)


def _text(app: Application) -> Iterator[Request]:
    path = f"{PLUGIN}/text"
    yield Request(f"{path}/tags")
    for run, tag in _series(app, f"{path}/tags"):
        for markdown in ("true", "false"):
            yield Request(f"{path}/text", {"run": run, "tag": tag, "markdown": markdown})
    for missing in _absent(app, f"{path}/tags"):
        yield Request(f"{path}/text", missing)


def _pr_curves(app: Application) -> Iterator[Request]:
    path = f"{PLUGIN}/pr_curves"
    yield Request(f"{path}/tags")
    runs_by_tag: dict[str, list[str]] = {}
    for run, tag in _series(app, f"{path}/tags"):
        runs_by_tag.setdefault(tag, []).append(run)
        yield Request(f"{path}/pr_curves", {"run": run, "tag": tag})
    for tag, holders in runs_by_tag.items():
        yield Request(f"{path}/pr_curves", {"run": holders, "tag": tag})
        yield Request(f"{path}/pr_curves", {"run": [*holders, ABSENT], "tag": tag})
    for missing in _absent(app, f"{path}/tags"):
        yield Request(f"{path}/pr_curves", missing)


def _custom_scalars(app: Application, runs: list[str]) -> Iterator[Request]:
    path = f"{PLUGIN}/custom_scalars"
    yield Request(f"{path}/layout")
    patterns = [ABSENT, ".*", "(", ""]  # nothing, everything, no pattern, none
    for category in _ask(app, f"{path}/layout").get("category", []):
        for chart in category.get("chart", []):
            # As the page joins them.
            patterns.append(
                "|".join(f"({tag})" for tag in chart.get("multiline", {}).get("tag", []))
            )
            for series in chart.get("margin", {}).get("series", []):
                parts = [re.escape(series[part]) for part in ("value", "lower", "upper")]
                patterns.append("|".join(f"({part})" for part in parts))
    for run in [*runs, ABSENT]:
        for pattern in dict.fromkeys(patterns):
            yield Request(f"{path}/scalars", {"run": run, "tag": pattern})
    for run, tag in _series(app, f"{PLUGIN}/scalars/tags"):
        for form in ("csv", "json"):
            yield Request(f"{path}/download_data", {"run": run, "tag": tag, "format": form})
    for missing in _absent(app, f"{PLUGIN}/scalars/tags"):
        yield Request(f"{path}/download_data", {**missing, "format": "json"})


def _graphs(app: Application) -> Iterator[Request]:
    path = f"{PLUGIN}/graphs"
    yield Request(f"{path}/info")
    limits = {"limit_attr_size": "1024", "large_attrs_key": "_too_large_attrs"}
    for run, info in _ask(app, f"{path}/info").items():
        queries: list[dict[str, str]] = [{"run": run}]  # a 404 where there is none
        for tag, has in info["tags"].items():
            queries.append({"run": run, "tag": tag, "conceptual": "false"})
            if has["conceptual_graph"]:
                queries.append({"run": run, "tag": tag, "conceptual": "true"})
            yield Request(f"{path}/run_metadata", {"run": run, "tag": tag})
        for query in queries:
            yield Request(f"{path}/graph", query)
            yield Request(f"{path}/graph", {**query, **limits})
            yield Request(f"{path}/graph", {**query, **limits, "limit_attr_size": "8"})
    for query in ({"run": ABSENT}, {"run": ABSENT, "tag": ABSENT}, {}):
        yield Request(f"{path}/graph", query)
        yield Request(f"{path}/run_metadata", query)


def _hparams(app: Application) -> Iterator[Request]:
    path = f"{PLUGIN}/hparams"

    def ways(route: str, request: dict[str, Any]) -> Iterator[Request]:
        text = json.dumps(request)
        yield Request(f"{path}/{route}", {"request": text})
        yield Request(f"{EXPERIMENT}{path}/{route}", form=text)

    for limit in (0, 1, 1000):
        for metrics in (True, False):
            asks = {"experimentName": "", "hparamsLimit": limit, "includeMetrics": metrics}
            yield from ways("experiment", asks)
    yield Request(f"{path}/experiment")

    experiment = _ask(app, f"{path}/experiment", request="{}")
    columns: list[dict[str, Any]] = [
        {"hparam": info["name"]} for info in experiment.get("hparamInfos", [])
    ]
    columns += ({"metric": info["name"]} for info in experiment.get("metricInfos", []))
    everything: dict[str, Any] = {
        "experimentName": "",
        "allowedStatuses": STATUSES,
        "colParams": columns,
        "startIndex": 0,
        "sliceSize": 1_000_000,
    }
    asked = [everything, everything | {"includeMetrics": False}]
    asked += (everything | {"allowedStatuses": [status]} for status in STATUSES)
    asked += (everything | {"startIndex": start, "sliceSize": 2} for start in (0, 1, 100))
    for kind in ("AVG", "MEDIAN", "MIN", "MAX"):
        request = everything | {"aggregationType": f"AGGREGATION_{kind}"}
        for info in experiment.get("metricInfos", []):
            asked.append(request | {"aggregationMetric": info["name"]})
    for place, column in enumerate(columns):

        def having(change: dict[str, Any], place: int = place) -> dict[str, Any]:
            changed = [{**c, **(change if n == place else {})} for n, c in enumerate(columns)]
            return everything | {"colParams": changed}

        for order in ("ORDER_ASC", "ORDER_DESC"):
            for first in (True, False):
                asked.append(having({"order": order, "missingValuesFirst": first}))
        asked.append(having({"filterInterval": {"minValue": 0.01, "maxValue": 0.6}}))
        asked.append(having({"excludeMissingValues": True}))
        if "hparam" in column:
            asked.append(having({"filterRegexp": "a"}))
            asked.append(having({"filterDiscrete": ["adam", True, 1]}))
            asked.append(having({"includeInResult": True}))
    for request in asked:
        yield from ways("session_groups", request)
    yield Request(f"{path}/session_groups", form="not JSON")

    groups = _ask(app, f"{path}/session_groups", request=json.dumps(everything))
    for group in groups.get("sessionGroups", []):
        for session in group["sessions"]:
            for info in experiment.get("metricInfos", []):  # a 404 where it has none
                request = {"sessionName": session["name"], "metricName": info["name"]}
                yield from ways("metric_evals", request)
    missing = {"sessionName": ABSENT, "metricName": {"group": "", "tag": ABSENT}}
    yield from ways("metric_evals", missing)

    for form in ("csv", "json", "latex", ABSENT):
        for shown in ([True] * len(columns), [n % 2 == 0 for n in range(len(columns))]):
            query = {"columnsVisibility": json.dumps(shown), "request": json.dumps(everything)}
            yield Request(f"{path}/download_data", {"format": form, **query})


def _meshes(app: Application) -> Iterator[Request]:
    path = f"{PLUGIN}/mesh"
    yield Request(f"{path}/tags")
    for run, tags in _ask(app, f"{path}/tags").items():
        for tag, info in tags.items():
            for sample in map(str, range(info["samples"])):
                query = {"run": run, "tag": tag, "sample": sample}
                yield Request(f"{path}/meshes", query)
                steps = {str(mesh["step"]) for mesh in _ask(app, f"{path}/meshes", **query)}
                for step in [*sorted(steps), "123456"]:
                    for part in MESH_PARTS.values():
                        at = {**query, "step": step, "content_type": part}
                        yield Request(f"{path}/data", at)
    for missing in _absent(app, f"{path}/tags"):
        yield Request(f"{path}/meshes", missing)
        yield Request(f"{path}/data", {**missing, "content_type": "VERTEX"})
        yield Request(f"{path}/data", {**missing, "content_type": ABSENT})


def _projector(app: Application, runs: list[str]) -> Iterator[Request]:
    path = f"{PLUGIN}/projector"
    yield Request(f"{path}/runs")
    named: list[dict[str, str]] = [{"run": ABSENT, "name": ABSENT}, {"run": ABSENT}, {}]
    for run in _ask(app, f"{path}/runs"):
        info = _ask(app, f"{path}/info", run=run)
        named += ({"run": run, "name": e["tensorName"]} for e in info["embeddings"])
        named.append({"run": run, "name": ABSENT})
    for run in [*runs, ABSENT]:
        yield Request(f"{path}/info", {"run": run})
    yield Request(f"{path}/info")
    for query in named:
        for route in ("tensor", "metadata"):
            yield Request(f"{path}/{route}", query)
            for rows in ("100000", "2", "0"):
                yield Request(f"{path}/{route}", {**query, "num_rows": rows})
        yield Request(f"{path}/bookmarks", query)
        yield Request(f"{path}/sprite_image", query)


def _ask(app: Application, path: str, **query: str) -> Any:
    """The JSON an application must answer for the enumeration to go on."""
    status, _, body = app.get(path, **query)
    assert status == 200, f"GET {path} {query}: {status} {body[-2000:].decode(errors='replace')}"
    return json.loads(body)


def _series(app: Application, path: str) -> Iterator[tuple[str, str]]:
    """(run, tag) of all that a plugin lists, as {run: {tag: …}} or {run: [tag, …]}."""
    for run, tags in _ask(app, path).items():
        for tag in tags:
            yield run, tag


def _absent(app: Application, path: str) -> Iterator[dict[str, str]]:
    """A tag no run has, a run there is not, and a run that lacks a tag others have."""
    listed = _ask(app, path)
    tags = {tag: None for names in listed.values() for tag in names}
    yield {"run": ABSENT, "tag": next(iter(tags), ABSENT)}
    yield {"run": next(iter(listed), ABSENT), "tag": ABSENT}
    for run, names in listed.items():
        for tag in tags:
            if tag not in names:
                yield {"run": run, "tag": tag}
                return


# ----------------------------------------------------------------------------- what is answered


def normalise(request: Request, answer: Answer, app: Application) -> Any:
    """An answer so that equal ones are equal; ``app`` gave it and has the blobs it names."""
    status, content_type, body = answer
    route = request.route
    if status >= 500:  # what went wrong is the server's own
        return {"status": status}
    if status >= 400 and route.startswith((f"{PLUGIN}/projector/", f"{PLUGIN}/hparams/")):
        # The texts name files, and the first session of many in any order.
        return {"status": status, "content type": content_type}
    return {
        "status": status,
        "content type": content_type,
        "body": _normalise_body(route, content_type, body, app),
    }


def _normalise_body(route: str, content_type: str, body: bytes, app: Application) -> Any:
    kind = content_type.partition(";")[0]
    if kind == "application/json":
        try:
            content = json.loads(body, parse_constant=_not_json)
        except ValueError as error:
            return {"not JSON": str(error), **_digest(body)}
        try:
            return _normalise_json(route, content, app)
        except (AttributeError, KeyError, TypeError):  # not stock's shape: as it is
            return content
    if kind == "text/csv":
        return list(csv.reader(io.StringIO(body.decode())))
    if kind in ("text/plain", "text/html", "text/x-protobuf", "application/x-latex"):
        return body.decode().splitlines()
    return _digest(body)


def _normalise_json(route: str, content: Any, app: Application) -> Any:
    plugin, _, name = route.removeprefix(f"{PLUGIN}/").partition("/")
    if route in LEFT_OUT:
        return {key: value for key, value in content.items() if key not in LEFT_OUT[route]}
    if (plugin, name) in (("images", "images"), ("audio", "audio")):
        individual = f"{PLUGIN}/{plugin}/individual{plugin.removesuffix('s').capitalize()}"
        return [
            {**item, "query": _blob(app, individual, **dict(parse_qsl(item["query"])))}
            for item in content
        ]
    if (plugin, name) == ("timeseries", "timeSeries"):
        for series in content:
            if series.get("plugin") == "images":
                for points in (series.get("runToSeries") or {}).values():
                    for point in points:
                        image = f"{PLUGIN}/timeseries/imageData"
                        point["imageId"] = _blob(app, image, imageId=point["imageId"])
        return content
    if (plugin, name) == ("text", "tags"):
        return {run: sorted(tags) for run, tags in content.items()}
    if (plugin, name) == ("projector", "runs"):
        return sorted(content)
    if (plugin, name) == ("mesh", "meshes"):  # by step; the parts of one are in any order
        return sorted(content, key=lambda mesh: (mesh["step"], mesh["content_type"]))
    if (plugin, name) == ("hparams", "experiment"):
        for info in content.get("hparamInfos", []):  # made from sets where nothing was declared
            info.get("domainDiscrete", []).sort(key=repr)
        return content
    return content


def _blob(app: Application, path: str, **query: str) -> Any:
    """What a blob key leads to."""
    status, content_type, body = app.get(path, **query)
    return {"status": status, "content type": content_type, **_digest(body)}


def _digest(body: bytes) -> dict[str, Any]:
    return {"length": len(body), "sha256": hashlib.sha256(body).hexdigest()}


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON, and no browser reads it")


# -------------------------------------------------------------------------------- whether alike


def compare(ours: Application, stock: Application) -> list[str]:
    """Every difference a page would see, one line each; none when the two are alike.

    Where stock fails (500) anything else is as good; nothing else is forgiven.
    """
    for app in (ours, stock):
        _await_projector(app)
    found: list[str] = []
    for request in requests_for(stock):
        theirs = normalise(request, request.send(stock), stock)
        if theirs["status"] >= 500:
            continue
        told = list(differences(normalise(request, request.send(ours), ours), theirs))
        found += (f"{request}: {difference}" for difference in told[:SHOWN])
        if len(told) > SHOWN:
            found.append(f"{request}: and {len(told) - SHOWN} more")
    return found


def differences(ours: Any, stock: Any, where: str = "$") -> Iterator[str]:
    """Where two normalised answers differ, by the path to it."""
    if isinstance(ours, dict) and isinstance(stock, dict):
        for key in dict.fromkeys([*stock, *ours]):
            place = f"{where}[{key!r}]"
            if key not in ours:
                yield f"{place}: nothing, stock has {stock[key]!r:.200}"
            elif key not in stock:
                yield f"{place}: {ours[key]!r:.200}, stock has nothing"
            else:
                yield from differences(ours[key], stock[key], place)
    elif isinstance(ours, list) and isinstance(stock, list):
        if len(ours) != len(stock):
            yield f"{where}: {len(ours)} items, stock has {len(stock)}"
        for index, (mine, theirs) in enumerate(zip(ours, stock, strict=False)):
            yield from differences(mine, theirs, f"{where}[{index}]")
    elif isinstance(ours, bool) is not isinstance(stock, bool) or ours != stock:
        yield f"{where}: {ours!r:.200}, stock has {stock!r:.200}"


def _await_projector(app: Application) -> None:
    """The projector finds out in a thread whether it has something to show: waits for it."""
    if not _ask(app, f"{PLUGIN}/projector/runs"):
        return
    deadline = time.monotonic() + PATIENCE
    while not _ask(app, "/data/plugins_listing")["projector"]["enabled"]:
        if time.monotonic() > deadline:  # then it is a difference
            return
        time.sleep(0.01)
