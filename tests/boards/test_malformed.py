"""Whatever is asked is answered: with what there is, or with a reason why not. Never with a 500."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.endpoints import PLUGIN
from support.ours import Answer, Ours
from support.small import log
from tbhub.boards import host as host_module

DEEP = "[" * 10_000
FORM = [(b"content-type", b"application/x-www-form-urlencoded")]

# What each parameter may be given that no page gives it.
ODD = [
    "",
    "0",
    "-1",
    "1e5",
    "x",
    "9" * 400,
    "9" * 5000,
    "nan",
    "null",
    "\0",
    "\ud7ff🙂",
    "../..",
    "(",
]
MORE = {
    "scalars": ["format"],
    "custom_scalars": ["format"],
    "timeseries": ["requests", "imageId"],
    "images": ["sample", "blob_key"],
    "audio": ["sample", "blob_key", "content_type"],
    "text": ["markdown"],
    "mesh": ["sample", "step", "content_type"],
    "graphs": ["limit_attr_size", "large_attrs_key", "conceptual"],
    "hparams": ["request", "columnsVisibility", "format"],
    "projector": ["name", "num_rows"],
    "/tbhub/scalars": ["from", "to", "points"],
}
PARAMETERS = ["run", "tag", *dict.fromkeys(itertools.chain.from_iterable(MORE.values()))]
JSON = [
    "",
    "{",
    "null",
    "1",
    '"text"',
    "[]",
    "[1]",
    "[[]]",
    "[null]",
    "{}",
    "[{}]",
    "NaN",
    '{"a": NaN}',
    DEEP,
    '{"a":' * 10_000,
    '["\\ud800"]',
    "9" * 5000,
    "\ufeff{}",
]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ours]:
    directory = tmp_path_factory.mktemp("logs")
    log(directory, "mine", 1)
    with Ours(directory) as made:
        yield made


@pytest.fixture(scope="module")
def routes(ours: Ours) -> list[str]:
    """Everything that is data, and our own."""
    known = ours.host.application._tensorboard.exact_routes
    assert len(known) > 40
    return [
        *(route for route in known if route.startswith("/data/") and "." not in route),
        "/tbhub/scalars",
    ]


def check(answer: Answer, what: object) -> None:
    status, _, body = answer
    assert status < 500, what
    if status >= 400:
        assert body, what


def test_odd_parameters(ours: Ours, routes: list[str]) -> None:
    for route in routes:
        right = right_for(route)
        for name, value in itertools.product(names_for(route), ODD):
            # The rest is right, so that the odd one is looked at.
            check(ours.get(route, **{**right, name: value}), (route, name, value))
        for left_out in right:
            query = {name: value for name, value in right.items() if name != left_out}
            check(ours.get(route, **query), (route, query))


def names_for(route: str) -> list[str]:
    """The parameters that a route knows."""
    plugin = route if route in MORE else route.removeprefix(f"{PLUGIN}/").split("/")[0]
    return ["run", "tag", *MORE.get(plugin, ["name", "tensorBoardFeatureFlags"])]


def right_for(route: str) -> dict[str, str]:
    """A run and a tag that the route's plugin knows."""
    plugin = route.removeprefix(f"{PLUGIN}/").split("/")[0]
    endings = {
        "images": " image",
        "audio": " audio",
        "histograms": " histogram",
        "distributions": " histogram",
        "pr_curves": " curve/pr_curves",
        "mesh": " mesh",
        "text": "/text_summary",
    }
    query = {"run": "shared", "tag": "shared" + endings.get(plugin, ""), "sample": "0"}
    return {**query, "name": "mine:00000", "step": "1", "content_type": "VERTEX"}


@pytest.mark.parametrize(
    "query",
    [
        b"",
        b"%",
        b"&&==;;&=&",
        b"run=%ff%fe&tag=%80%80",
        b"\xff\xfe=\xff",
        b"run=a&run=b&tag=c&tag=d&sample=0&sample=1",
        b"run[]=a&tag[x]=y",
        b"run=shared&tag=" + b"t" * 60_000,
        b"&".join(b"run=shared" for _ in range(5000)),
        b"run=shared\r\nX-Injected: 1&tag=x",
    ],
)
def test_odd_queries(ours: Ours, routes: list[str], query: bytes) -> None:
    for route in routes:
        check(ours.request("GET", route, query=query), (route, query))


@pytest.mark.parametrize("text", JSON)
def test_odd_json(ours: Ours, routes: list[str], text: str) -> None:
    known = [route for route in routes if "hparams" in route or "timeseries" in route]
    for route in [*known, f"{PLUGIN}/scalars/scalars_multirun", "/data/runs"]:
        for body in (text.encode(), urlencode({"requests": text, "request": text}).encode()):
            for headers in ([], FORM, [(b"content-type", b"application/json")]):
                answer = ours.request("POST", route, form=body, headers=headers)
                check(answer, (route, text[:50], headers))
    for name in ("request", "requests", "tensorBoardFeatureFlags"):
        for route in known:
            query = urlencode({name: text[:20_000]}).encode()
            check(ours.request("GET", route, query=query), (route, name, text[:50]))
    flags = [(b"x-tensorboard-feature-flags", text[:20_000].encode())]
    check(ours.request("GET", "/data/runs", headers=flags), text[:50])


@pytest.mark.parametrize(
    ("wanted", "status"),
    [
        ("", 400),
        ("null", 400),
        ("{}", 400),
        ("[1]", 400),
        ("[[]]", 400),
        (DEEP, 400),
        ('[{"plugin": "scalars", "tag": "shared", "run": 1}]', 400),
        ('[{"plugin": "scalars", "tag": "shared", "run": ["shared"]}]', 400),
        ('[{"plugin": "scalars", "tag": "\\ud800", "run": "shared"}]', 400),
        ('[{"plugin": [], "tag": "shared"}]', 200),
        ('[{"plugin": "images", "tag": "shared image", "run": "shared", "sample": "x"}]', 200),
        ('[{"plugin": "images", "tag": "shared image", "run": "shared", "sample": -5}]', 200),
        ('[{"plugin": "scalars", "tag": "shared", "run": "none"}]', 200),
        ('[{"plugin": "scalars", "tag": 1}]', 200),
        ("[{}]", 200),
        ("[]", 200),
    ],
)
def test_odd_time_series(ours: Ours, wanted: str, status: int) -> None:
    path = f"{PLUGIN}/timeseries/timeSeries"
    answer = ours.post(path, {"requests": wanted})
    check(answer, wanted[:50])
    assert answer[0] == status
    if status == 200:
        assert isinstance(json.loads(answer[2]), list)


# Each raises in the plugin itself, for which stock answers with a 500.
STOCK_FAILS: list[tuple[str, dict[str, Any]]] = [
    ("audio/audio", {"run": "shared", "tag": "shared audio", "sample": "x"}),
    ("audio/individualAudio", {}),
    ("audio/individualAudio", {"blob_key": "é", "content_type": "audio/wav"}),
    ("images/images", {"run": "shared", "tag": "shared image", "sample": "x"}),
    ("images/individualImage", {"blob_key": "WzFd"}),
    ("images/individualImage", {"blob_key": "!!"}),
    ("timeseries/imageData", {}),
    ("pr_curves/pr_curves", {"tag": "x"}),
    ("graphs/graph", {"run": "shared", "limit_attr_size": "x"}),
    ("graphs/graph", {"run": "shared", "limit_attr_size": "-1"}),
    ("histograms/histograms", {}),
    ("distributions/distributions", {}),
    ("mesh/data", {"run": "shared", "tag": "shared mesh", "sample": "99", "step": "x"}),
    ("custom_scalars/scalars", {"tag": "shared"}),
]


@pytest.mark.parametrize(("route", "query"), STOCK_FAILS)
def test_where_a_plugin_raises_there_is_a_reason(
    ours: Ours, route: str, query: dict[str, Any]
) -> None:
    status, content_type, body = ours.get(f"{PLUGIN}/{route}", **query)
    assert 400 <= status < 500
    assert content_type.startswith("text/") or content_type == "application/json"
    assert body


def test_odd_patterns_for_hyperparameters(ours: Ours) -> None:
    for column in (
        {"hparam": "mine", "filterRegexp": "("},
        {"hparam": "none", "filterRegexp": "a"},
        {"metric": {"tag": "none"}, "filterInterval": {"minValue": "x"}},
        {"order": "ORDER_ASC"},
    ):
        request = json.dumps({"allowedStatuses": ["STATUS_UNKNOWN"], "colParams": [column]})
        check(ours.post(f"{PLUGIN}/hparams/session_groups", request), column)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "get", "X", ""])
def test_other_methods(ours: Ours, routes: list[str], method: str) -> None:
    for route in [*routes, "/", "/index.js", "/tbhub/events", "/nothing"]:
        assert ours.request(method, route)[0] == 405


@pytest.mark.parametrize(
    "path", ["/", "/index.html", "/index.js", "/tbhub/events", "/tbhub/scalars"]
)
def test_what_cannot_be_posted_to(ours: Ours, path: str) -> None:
    status, _, body = ours.post(path, "{}")
    assert (status, body) == (405, b"GET or HEAD")


def test_head_has_no_body_and_no_end_to_wait_for(ours: Ours, routes: list[str]) -> None:
    for route in [*routes, "/tbhub/events"]:
        status, _, body = ours.request("HEAD", route)
        assert status < 500
        if status == 200 and route.startswith("/tbhub/events"):
            assert body == b""


def test_a_body_that_is_too_large(ours: Ours, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_module, "_MAX_BODY", 1 << 20)
    path = f"{PLUGIN}/timeseries/timeSeries"
    status, _, body = ours.request("POST", path, form=b"x" * ((1 << 20) + 1), headers=FORM)
    assert (status, body) == (413, b"a request may have 1 MB")
    assert ours.request("POST", path, form=b"x" * (1 << 20), headers=FORM)[0] == 400


@pytest.mark.parametrize(
    "content_type",
    [
        b"",
        b"text/plain",
        b"multipart/form-data",
        b"multipart/form-data; boundary=",
        b"multipart/form-data; boundary=\xff",
        b"application/x-www-form-urlencoded; charset=none",
        b"application/json; charset=utf-16",
        b"/",
        b"\x00",
    ],
)
def test_odd_content_types(ours: Ours, routes: list[str], content_type: bytes) -> None:
    headers = [(b"content-type", content_type)]
    for route in routes:
        for body in (b"", b"requests=[]", b"--x\r\n\r\n", b"\xff" * 100, b"--\r\n" * 1000):
            answer = ours.request("POST", route, form=body, headers=headers)
            check(answer, (route, body[:20]))


def test_many_fields_are_as_good_as_few(ours: Ours) -> None:
    runs = [f"run {number}" for number in range(5000)]
    form = {"tag": "shared", "runs": [*runs, "shared"]}
    status, _, body = ours.post(f"{PLUGIN}/scalars/scalars_multirun", form)
    assert status == 200, body
    assert list(json.loads(body)) == ["shared"]


# ---------------------------------------------------------------------------------- anything

PIECES = st.sampled_from(
    [
        *("data", "plugin", "experiment", "defaultExperimentId", "tbhub", "static", "b", "one"),
        *("events", "scalars", "runs", "tags", "..", ".", "", "%2e%2e", "\0", "index.html"),
        *("timeseries", "images", "projector", "hparams", "graphs", "mesh", "text", "info"),
    ]
)
TEXTS = st.text(max_size=20)
PATHS = st.lists(PIECES | TEXTS, max_size=7).map("/".join)
VALUES = st.sampled_from(["shared", "mine run", "shared image", "0", "-1", "[]", "{}"]) | TEXTS
QUERIES = st.dictionaries(st.sampled_from(PARAMETERS) | TEXTS, VALUES, max_size=5).map(
    lambda fields: "&".join(f"{quote(k)}={quote(v)}" for k, v in fields.items()).encode()
) | st.binary(max_size=50)


@settings(max_examples=150, deadline=None)
@given(path=PATHS, query=QUERIES, method=st.sampled_from(["GET", "HEAD", "POST"]))
def test_any_path(ours: Ours, path: str, query: bytes, method: str) -> None:
    if path == "tbhub/events":  # has no end
        return
    path = path.encode("utf-8", "replace").decode()
    answer = ours.request(method, "/" + path, query=query)
    if method != "HEAD":
        check(answer, (method, path, query))
    assert answer[0] < 500


@settings(max_examples=300, deadline=None)
@given(data=st.data(), query=QUERIES, body=st.none() | st.binary(max_size=100) | TEXTS)
def test_any_query(
    ours: Ours, routes: list[str], data: st.DataObject, query: bytes, body: bytes | str | None
) -> None:
    route = data.draw(st.sampled_from(routes))
    if isinstance(body, str):
        body = urlencode({"requests": body, "request": body}).encode()
    method = "GET" if body is None else "POST"
    headers = data.draw(st.sampled_from([[], FORM]))
    check(ours.request(method, route, query=query, form=body, headers=headers), (route, query))
