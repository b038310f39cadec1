"""A node's statistics as Prometheus metrics: snapshots in, the text that is scraped out.

Names follow the snapshots, so that `pier status` and a dashboard say the same: the field `messages_sent` of the
transport is `pier_transport_messages_sent_total`. A mapping inside a snapshot becomes a label: drops by `reason`,
figures by `client` or `table`. What may fall is a gauge and is named here; everything else only rises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from itertools import accumulate
from typing import Any

from prometheus_client import GC_COLLECTOR, PROCESS_COLLECTOR, CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from pier_node.engine.figures import DURATION_BOUNDS_S, Durations
from pier_node.service import NodeStatus

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: Fields that may fall, by the end of their dotted name.
GAUGES = frozenset(
    {
        "transport.peers",
        "transport.backlog_bytes",
        "transport.reassembly_bytes",
        "clients.connections",
        "clients.client.held",
        "overlay.dht.store.objects",
        "overlay.dht.store.bytes",
        "overlay.dht.requests.under_way",
        "overlay.dht.handover.open",
        "overlay.dht.owners_cached",
        "overlay.publisher.published",
        "overlay.relay.paths",
        "overlay.relay.seeking",
        "overlay.relay.waiting",
        "overlay.relay.pairs",
        "overlay.relay.carrying_bytes",
        "overlay.spread.open",
        "overlay.spread.remembered",
        "overlay.trees.children",
        "overlay.roster.members",
        "overlay.roster.expected",
        "overlay.roster.lost",
        "overlay.roster.namesakes",
        "queries.running",
        "queries.runs",
        "runtime.timers",
        "runtime.streams",
        "runtime.gso",
        "runtime.gro",
        "staging.loads",
        "staging.bytes",
        "logs.kept",
        "logs.bytes",
        "keys.ring",
        "keys.tokens",
    }
)
#: Sections whose figures describe what is there, such as how far a log was read: any may fall.
GAUGE_SECTIONS = ("sources.",)
#: What the keys of a mapping are, by the mapping's dotted name.
LABELS = {
    "clients.client": "client",
    "clients.client.held": "what",
    "clients.client.limited": "what",
    "sources": "table",
    "overlay.router": "event",
    "queries.ended": "how",
    "queries.causes": "cause",
}
DEFAULT_LABEL = "reason"
#: Series of one node; beyond, the rest is left out and counted.
SERIES_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Series:
    """One number with its labels."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float | Durations


def series(name: str, value: Any, labels: tuple[tuple[str, str], ...] = ()) -> Iterator[Series]:
    """Every number in a snapshot."""
    if isinstance(value, bool | int | float | Durations):
        yield Series(name, labels, value)
    elif isinstance(value, Mapping):
        label = LABELS.get(name, DEFAULT_LABEL)
        for key, part in value.items():
            yield from series(name, part, (*labels, (label, str(key))))
    elif is_dataclass(value):
        for part_of in fields(value):
            yield from series(f"{name}.{part_of.name}", getattr(value, part_of.name), labels)


def is_gauge(name: str) -> bool:
    return name in GAUGES or name.startswith(GAUGE_SECTIONS)


class NodeCollector(Collector):
    """Reads the snapshots when it is scraped, and never in between."""

    def __init__(
        self, status: Callable[[], NodeStatus], snapshots: Callable[[], Mapping[str, object]]
    ) -> None:
        self._status = status
        self._snapshots = snapshots

    def collect(self) -> Iterable[Metric]:
        status = self._status()
        info = {"id": status.id, "address": status.address, "version": status.version}
        yield InfoMetricFamily("pier_node", "Who this node is.", value=info)
        yield GaugeMetricFamily("pier_ring_joined", "Whether the node is on the ring.", float(status.joined))
        yield GaugeMetricFamily("pier_ring_neighbours", "Nodes this one knows.", status.neighbours)
        yield GaugeMetricFamily("pier_uptime_seconds", "Since the node started.", status.uptime_s)
        families: dict[str, list[Series]] = {}
        left_out = count = 0
        for section, snapshot in self._snapshots().items():
            for each in series(section, snapshot):
                count += 1
                if count > SERIES_MAX:
                    left_out += 1
                else:
                    families.setdefault(each.name, []).append(each)
        yield GaugeMetricFamily("pier_metrics_left_out", "Series beyond what a scrape may have.", left_out)
        for name, group in families.items():
            yield _family(name, group)


def _family(name: str, group: list[Series]) -> Metric:
    metric = "pier_" + name.replace(".", "_")
    text = f"{name}, as in pier status."
    first = group[0]
    if isinstance(first.value, Durations):
        histogram = HistogramMetricFamily(f"{metric}_seconds", text)
        bounds = [*map(str, DURATION_BOUNDS_S), "+Inf"]
        counted = list(zip(bounds, accumulate(first.value.counts), strict=True))
        histogram.add_metric([], [(bound, float(count)) for bound, count in counted], first.value.sum_s)
        return histogram
    labels = [label for label, _ in first.labels]
    family: CounterMetricFamily | GaugeMetricFamily
    family = (GaugeMetricFamily if is_gauge(name) else CounterMetricFamily)(metric, text, labels=labels)
    for each in group:
        assert not isinstance(each.value, Durations)
        family.add_metric([value for _, value in each.labels], each.value)
    return family


class Metrics:
    """What `/metrics` answers."""

    def __init__(
        self, status: Callable[[], NodeStatus], snapshots: Callable[[], Mapping[str, object]]
    ) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(NodeCollector(status, snapshots))
        self._registry.register(PROCESS_COLLECTOR)
        self._registry.register(GC_COLLECTOR)

    def text(self) -> bytes:
        return generate_latest(self._registry)
