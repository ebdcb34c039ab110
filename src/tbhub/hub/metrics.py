"""Numbers for Prometheus. Each hub has a registry of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """What is counted while the hub works."""

    def __init__(self, version: str) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "tbhub_requests_total",
            "Requests answered.",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "tbhub_request_seconds",
            "Seconds until a request was answered.",
            ["route"],
            buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60),
            registry=self.registry,
        )
        self._open = Gauge(
            "tbhub_requests_open", "Requests being answered, streams too.", registry=self.registry
        )
        about = Gauge("tbhub_info", "The hub.", ["version"], registry=self.registry)
        about.labels(version).set(1)

    def begin(self) -> None:
        """A request has come."""
        self._open.inc()

    def end(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request has been answered."""
        self._open.dec()
        known = method if method in _METHODS else "other"
        self._requests.labels(known, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def add_gauges(self, look: Callable[[], Mapping[str, Mapping[str, float]]]) -> None:
        """Numbers that are looked up when somebody asks: name → label's value → number."""
        self.registry.register(_Gauges(look))

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self.registry)


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class _Gauges(Collector):
    def __init__(self, look: Callable[[], Mapping[str, Mapping[str, float]]]) -> None:
        self._look = look

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterable[Metric]:
        for name, values in self._look().items():
            family = GaugeMetricFamily(name, name, labels=["of"])
            for label, value in values.items():
                family.add_metric([label], value)
            yield family
