"""A Bamboo ring under lookups and routed messages, judged by an oracle that knows every member.

Measures what the router promises: that lookups end at the closest live member and how long they take, hops, stretch
over direct round trips, maintenance traffic, and whether leaf sets and rings are whole at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from overlay.bamboo import BambooConfig
from pier_node.scenario.deliverers import Deliverers
from pier_node.scenario.form import Form, NotNegative, Positive
from pier_node.scenario.routing_ring import ROUTING_MESSAGES, RoutingRing, Tally
from pier_node.scenario.workload import Workload, register_workload
from runtime.sim import SimHost, World

#: When, after the last arrival, the leaf sets are looked at for the first time.
LEAF_SETS_AFTER_S = 10.0


class RoutingForm(Form, frozen=True):
    #: How the first nodes get their tables: by joining one after the other, or perfect ones at the beginning.
    begin: Literal["join", "static"] = "join"
    #: From the end of the arrivals to the first lookup; and what comes before is not counted in the traffic.
    settle_s: NotNegative = 60.0
    #: Of the whole ring, at random instants.
    lookups_per_s: Positive = 20.0
    routes_per_s: NotNegative = 0.0
    leaf_per_side: int = BambooConfig().leaf_per_side
    proximity: bool = True
    maintenance: bool = True


@register_workload("routing")
class Routing(Workload[RoutingForm]):
    form = RoutingForm
    messages = ROUTING_MESSAGES

    def __init__(self, world: World, form: RoutingForm) -> None:
        super().__init__(world, form)
        config = BambooConfig(
            leaf_per_side=form.leaf_per_side, proximity=form.proximity, maintenance=form.maintenance
        )
        self.ring = RoutingRing(world, config)
        self._deliverers = Deliverers(world, self.ring)
        self._rng = world.rng("routing load")
        self._running = False
        self._waiting: list[SimHost] = []
        self._began_at = 0.0
        self._ended_at = 0.0
        self._traffic_bytes = 0
        self._wrong_leaf_sets_begun: int | None = None

    def build(self, host: SimHost) -> None:
        if self.form_values.begin == "static" and not self._running:
            self._waiting.append(host)
        else:
            self.ring.build(host)

    def start(self) -> None:
        if self._waiting:
            self._running = True
            self.ring.fill(self._waiting)
        self.world.call_at(self.world.now + LEAF_SETS_AFTER_S, self._count_leaf_sets, None)
        self.world.call_at(self.world.now + self.form_values.settle_s, self._begin, None)

    def _count_leaf_sets(self, _: None) -> None:
        self._wrong_leaf_sets_begun = self.ring.wrong_leaf_sets()

    def _begin(self, _: None) -> None:
        self._running = True
        self.ring.tally = Tally(self.world)
        self._began_at = self.world.now
        self._traffic_bytes = -self.world.statistics().bytes_out
        self._look(None)
        if self.form_values.routes_per_s > 0.0:
            self._send(None)

    def _look(self, _: None) -> None:
        if self._running:
            self.ring.look()
            self._deliverers.sample()
            wait_s = self._rng.expovariate(self.form_values.lookups_per_s)
            self.world.call_at(self.world.now + wait_s, self._look, None)

    def _send(self, _: None) -> None:
        if self._running:
            self.ring.send()
            wait_s = self._rng.expovariate(self.form_values.routes_per_s)
            self.world.call_at(self.world.now + wait_s, self._send, None)

    def stop(self) -> None:
        self._running = False
        self._ended_at = self.world.now
        self._traffic_bytes += self.world.statistics().bytes_out

    def figures(self) -> Mapping[str, Any]:
        ring = self.ring
        tally = ring.tally
        unfinished = ring.unfinished()
        wrong_leaf_sets = ring.wrong_leaf_sets()
        delivered = tally.delivered_right + tally.delivered_wrong
        node_s = max(len(ring.members) * (self._ended_at - self._began_at), 1.0)
        return {
            "start": self.form_values.begin,
            "members": len(ring.members),
            "lookups": tally.total,
            "right_share": round(tally.right_share(), 6),
            "wrong": tally.wrong,
            "failed": tally.failed,
            "unfinished": unfinished,
            "last_wrong_at_s": round(tally.last_wrong_at_s, 3),
            "latency_s": tally.latency_s.figures(),
            "direct_s": tally.direct_s.figures(),
            "stretch": round(tally.stretch(), 4),
            "delivered": delivered,
            "delivered_right_share": round(tally.delivered_right / delivered, 6) if delivered else 0.0,
            "delivered_twice": tally.delivered_twice,
            "deliverers_of_a_key": self._deliverers.figures(),
            "hops": tally.hops.figures(),
            "bytes_per_node_s": round(self._traffic_bytes / node_s, 1),
            "wrong_leaf_sets_begun": self._wrong_leaf_sets_begun,
            "wrong_leaf_sets": wrong_leaf_sets,
            "rings": ring.rings(),
            "routers": ring.statistics(),
        }
