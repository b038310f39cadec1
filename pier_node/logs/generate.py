"""Made-up firewall traffic that looks like the real thing, for demonstrations, tests and benchmarks.

A workload (all numbers, a seed and a start time) to events, and through a dialect's printer to log bytes.
Invariant: the same workload gives the same bytes on any machine; no clock and no global randomness is read.
The population of sources does not depend on the seed, so logs made for several hosts with different seeds
share their busiest sources, as real hosts on one internet do.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pier_node.logs.dialects import dialect_named
from pier_node.logs.events import FIREWALL_SCHEMA
from pier_node.logs.printing import SECOND_US, print_events

# Events made at once: bounds memory whatever the count, and is part of what the seed determines.
EVENTS_AT_ONCE = 65_536
POPULATION_SEED = 20_251
HOSTS_MAX = 65_536
SOURCES_MAX = 1 << 20

Ints = npt.NDArray[np.int64]

# Ports strangers knock at, most popular first, with their protocol.
_TARGETS = (
    [(port, "tcp") for port in (23, 22, 445, 80, 443, 3389, 8080, 5555, 1433, 3306, 6379, 8443, 25, 5900, 21)]
    + [(port, "udp") for port in (53, 5060, 123, 1900, 161, 11211, 389)]
    + [(0, "icmp")]
)
_ACTIONS = (("drop", 0.72), ("allow", 0.18), ("reject", 0.08), ("log", 0.02))
_RULES = {"drop": "INPUT-DROP", "allow": "INPUT-ACCEPT", "reject": "INPUT-REJECT", "log": "INPUT-NOTE"}
_IFACES = ("eth0", "eth1", "wan0")


@dataclass(frozen=True, slots=True)
class Workload:
    """`count` events, or as many as `duration_s` holds, at `rate` a second on average from `start_us`.

    Sources follow Zipf's law with `zipf` as exponent; `scans` of the events belong to port scans and `bursts`
    to floods of one source against one port; `v6` of the sources speak IPv6.
    """

    seed: int
    start_us: int
    count: int | None = None
    duration_s: float | None = None
    rate: float = 100.0
    hosts: int = 8
    host_prefix: str = "fw"
    sources: int = 20_000
    zipf: float = 1.1
    scans: float = 0.15
    bursts: float = 0.10
    v6: float = 0.08

    def __post_init__(self) -> None:
        if (self.count is None) == (self.duration_s is None):
            raise ValueError("a workload has either a count or a duration_s")
        if self.rate <= 0 or self.total < 0 or self.seed < 0:
            raise ValueError("rate must be positive, count, duration_s and seed not negative")
        if not 1 <= self.hosts <= HOSTS_MAX or not 1 <= self.sources <= SOURCES_MAX:
            raise ValueError(f"hosts must be 1 to {HOSTS_MAX}, sources 1 to {SOURCES_MAX}")
        shares = (self.scans, self.bursts, self.v6)
        if min(shares) < 0 or self.scans + self.bursts > 1 or self.v6 > 1:
            raise ValueError("scans, bursts and v6 are shares between 0 and 1; scans + bursts at most 1")

    @property
    def total(self) -> int:
        return self.count if self.count is not None else round((self.duration_s or 0.0) * self.rate)


@dataclass(frozen=True, slots=True)
class _World:
    """Who there is: texts of the sources and hosts' addresses by family, and how likely each source is."""

    sources: Any
    source_is_v6: npt.NDArray[np.bool_]
    ranks: npt.NDArray[np.float64]
    hosts: Any
    host_v4: Any
    host_v6: Any


def _world(workload: Workload) -> _World:
    random = np.random.default_rng(POPULATION_SEED)
    is_v6 = random.random(workload.sources) < workload.v6
    # 11.0.0.0 to 222.255.255.255: no private 10/8, no multicast.
    numbers = random.integers(11 << 24, 223 << 24, workload.sources)
    low = random.integers(1, 1 << 62, workload.sources)
    v6_net = 0x2001_0DB8 << 96
    texts = [
        str(ipaddress.IPv6Address(v6_net + (int(a) << 64) + int(b)) if six else ipaddress.IPv4Address(int(a)))
        for a, b, six in zip(numbers, low, is_v6, strict=True)
    ]
    weights = 1.0 / np.arange(1, workload.sources + 1) ** workload.zipf
    hosts = range(workload.hosts)
    return _World(
        sources=pa.array(texts),
        source_is_v6=is_v6,
        ranks=np.cumsum(weights) / weights.sum(),
        hosts=pa.array([f"{workload.host_prefix}{number:03d}" for number in hosts]),
        host_v4=pa.array([f"10.20.{number >> 8}.{number & 255}" for number in hosts]),
        host_v6=pa.array([f"2001:db8:20::{number + 1:x}" for number in hosts]),
    )


def _times(workload: Workload, random: np.random.Generator, first: int, count: int, burst: Any) -> Ints:
    """Arrival times of one stretch: even on average, with the burst events drawn to a few moments."""
    began = first / workload.rate
    length = count / workload.rate
    at = random.random(count) * length
    moments = random.random(max(1, count // 4096)) * length
    near = moments[random.integers(0, len(moments), count)] + random.exponential(min(0.5, length / 20), count)
    at = np.where(burst, np.minimum(near, length), at)
    at.sort()
    return workload.start_us + ((began + at) * SECOND_US).astype(np.int64)


def _choose(random: np.random.Generator, cumulative: npt.NDArray[np.float64], count: int) -> Ints:
    return np.minimum(np.searchsorted(cumulative, random.random(count)), len(cumulative) - 1)


def _events(workload: Workload, world: _World, stretch: int, first: int, count: int) -> Any:
    random = np.random.default_rng([workload.seed, stretch])
    kind = random.random(count)
    scan, burst = kind < workload.scans, kind >= 1 - workload.bursts
    source = _choose(random, world.ranks, count)
    # Scanners and flooders are few at any time, and each has its own place on the ranks.
    actors = random.integers(0, workload.sources, 8)
    actor = random.integers(0, 4, count)
    source = np.where(scan, actors[actor], np.where(burst, actors[4 + actor], source))
    host = random.integers(0, workload.hosts, count)
    host = np.where(burst, actors[4 + actor] % workload.hosts, host)
    weights = 1.0 / np.arange(1, len(_TARGETS) + 1)
    target = _choose(random, np.cumsum(weights) / weights.sum(), count)
    target = np.where(burst, actors[4 + actor] % 15, target)
    ports = np.array([port for port, _ in _TARGETS])[target]
    # A scan walks the ports upwards, one after another, whoever's turn it is.
    ports = np.where(scan, 1 + (np.cumsum(scan) + stretch * 977) % 10_000, ports)
    proto = np.where(scan, 0, np.array([("tcp", "udp", "icmp").index(word) for _, word in _TARGETS])[target])
    action = _choose(random, np.cumsum([share for _, share in _ACTIONS]), count)
    side = _choose(random, np.array([0.92, 0.97, 1.0]), count)  # in, out, forward
    times = _times(workload, random, first, count, burst)
    return _batch(random, world, times, source, host, side, proto, ports, action)


def _batch(
    random: np.random.Generator,
    world: _World,
    times: Ints,
    source: Ints,
    host: Ints,
    side: Ints,
    proto: Ints,
    ports: Ints,
    action: Ints,
) -> Any:
    count = len(times)
    six = world.source_is_v6[source]
    theirs = world.sources.take(pa.array(source))
    ours = pc.if_else(pa.array(six), world.host_v6.take(pa.array(host)), world.host_v4.take(pa.array(host)))
    outward = pa.array(side == 1)
    ported = proto < 2
    names = pa.array(["tcp", "udp", "icmp", "icmpv6"]).take(pa.array(proto + (six & (proto == 2))))
    sizes = [40 + 4 * random.integers(0, 6, count), random.integers(48, 512, count)]
    length = np.select([proto == 0, proto == 1], sizes, 84)
    ttl = np.array([64, 128, 255])[random.integers(0, 3, count)] - random.integers(3, 25, count)
    ephemeral = random.integers(1024, 65_536, count)
    verdicts = pa.array([word for word, _ in _ACTIONS])
    columns = {
        "ts": pa.array(times).cast(pa.timestamp("us", "UTC")),
        "host": world.hosts.take(pa.array(host)),
        "action": verdicts.take(pa.array(action)),
        "direction": pa.array(["in", "out", "forward"]).take(pa.array(side)),
        "iface": pa.array(_IFACES).take(pa.array(host % len(_IFACES))),
        "proto": names,
        "src": pc.if_else(outward, ours, theirs),
        "spt": pa.array(ephemeral, mask=~ported).cast(pa.int32()),
        "dst": pc.if_else(outward, theirs, ours),
        "dpt": pa.array(ports, mask=~ported).cast(pa.int32()),
        "length": pa.array(length),
        "ttl": pa.array(ttl).cast(pa.int16()),
        "rule": pa.array([_RULES[word] for word, _ in _ACTIONS]).take(pa.array(action)),
        "raw_format": pa.repeat("generated", count),
    }
    return pa.RecordBatch.from_arrays(
        [columns[field.name] for field in FIREWALL_SCHEMA], schema=FIREWALL_SCHEMA
    )


def generate_events(workload: Workload) -> Iterator[Any]:
    """The workload's events in order of time, in batches of at most EVENTS_AT_ONCE."""
    world = _world(workload)
    for stretch, first in enumerate(range(0, workload.total, EVENTS_AT_ONCE)):
        yield _events(workload, world, stretch, first, min(EVENTS_AT_ONCE, workload.total - first))


def generate_pieces(dialect: str, workload: Workload) -> Iterator[bytes]:
    """The same as log bytes, piece by piece, so that any count fits in memory."""
    named = dialect_named(dialect)
    yield named.head
    for batch in generate_events(workload):
        yield print_events(named, batch, head=False)


def generate(dialect: str, **workload: Any) -> bytes:
    """A whole log at once: `generate("ufw", seed=1, start_us=..., count=1000)`; see Workload."""
    return b"".join(generate_pieces(dialect, Workload(**workload)))
