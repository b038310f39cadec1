"""Transit-stub networks in the manner of GT-ITM: backbones, and the sites that hang off them.

Transit domains are joined to each other, the routers of a domain among themselves; each router carries stub
domains, and hosts live in stubs. The latencies of the three kinds of hop are those of PIER's experiments.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from runtime.rng import Rng

#: One-way seconds of a hop between transit domains, inside one, from a router to a stub, inside a stub.
INTER_DOMAIN_S = 0.050
INTRA_DOMAIN_S = 0.020
TRANSIT_STUB_S = 0.010
INTRA_STUB_S = 0.002
#: A host is this many hops from its stub's gateway at most.
STUB_HOPS_MAX = 3
#: Chance of an edge between two routers (or domains) beyond those that keep the graph connected.
EXTRA_EDGE_CHANCE = 0.3


@dataclass(frozen=True, slots=True)
class TransitStub:
    """`between[r][s]` is the backbone latency of routers r and s; stubs are dealt to routers in turn."""

    between: Sequence[Sequence[float]]
    stubs: int
    #: Hops of each host to its gateway, repeating.
    hops: Sequence[int]

    def latency_s(self, sender: int, receiver: int) -> float:
        if sender == receiver:
            return 0.0
        hops = self.hops
        inside_s = INTRA_STUB_S * (hops[sender % len(hops)] + hops[receiver % len(hops)])
        here, there = sender % self.stubs, receiver % self.stubs
        if here == there:
            return inside_s
        routers = len(self.between)
        return inside_s + 2 * TRANSIT_STUB_S + self.between[here % routers][there % routers]


def transit_stub(
    seed: int, domains: int = 4, routers_per_domain: int = 4, stubs_per_router: int = 3
) -> TransitStub:
    if min(domains, routers_per_domain, stubs_per_router) < 1:
        raise ValueError("domains, routers_per_domain and stubs_per_router must be at least 1")
    rng = Rng.from_label(seed, "transit-stub")
    edges: list[dict[int, float]] = [{} for _ in range(domains * routers_per_domain)]
    for domain in range(domains):
        first = domain * routers_per_domain
        for here, there in _connected(rng, routers_per_domain):
            _join(edges, first + here, first + there, INTRA_DOMAIN_S)
    for here, there in _connected(rng, domains):
        gateway = here * routers_per_domain + rng.randrange(routers_per_domain)
        other = there * routers_per_domain + rng.randrange(routers_per_domain)
        _join(edges, gateway, other, INTER_DOMAIN_S)
    stubs = len(edges) * stubs_per_router
    # A prime number of hop counts: hosts of one stub do not all sit at the same distance.
    hops = [1 + rng.randrange(STUB_HOPS_MAX) for _ in range(1_009)]
    return TransitStub([_shortest(edges, router) for router in range(len(edges))], stubs, hops)


def _connected(rng: Rng, count: int) -> list[tuple[int, int]]:
    """The edges of a random connected graph: a random tree and some more."""
    tree = [(rng.randrange(node), node) for node in range(1, count)]
    more = [(a, b) for b in range(count) for a in range(b) if rng.random() < EXTRA_EDGE_CHANCE]
    return tree + more


def _join(edges: list[dict[int, float]], here: int, there: int, latency_s: float) -> None:
    edges[here][there] = edges[there][here] = latency_s


def _shortest(edges: list[dict[int, float]], source: int) -> list[float]:
    distance = [float("inf")] * len(edges)
    distance[source] = 0.0
    queue = [(0.0, source)]
    while queue:
        so_far, node = heapq.heappop(queue)
        if so_far > distance[node]:
            continue
        for neighbour, latency_s in edges[node].items():
            if so_far + latency_s < distance[neighbour]:
                distance[neighbour] = so_far + latency_s
                heapq.heappush(queue, (distance[neighbour], neighbour))
    # Sums depend on their order in the last bit; a path is as long in both directions.
    return [round(each, 9) for each in distance]
