"""Publishers keep objects alive while nodes come and go; readers get them all the time, and the outside compares.

Some nodes publish. Any node gets objects of living publishers, and every answer is judged: right, stale,
empty although its publisher keeps it alive, or no answer. An object that is found empty is out until a get
finds it again; how long that takes is what renewal promises. At the end every object of a living publisher
must be at the node that owns it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from overlay.dht.messages import Code
from overlay.dht.operations import GetObject, Got, PutObject
from overlay.objects.name import Name
from overlay.ring import routing_id
from overlay.stack import OVERLAY_MESSAGES, OverlayConfig
from pier_node.scenario.form import Form, NotNegative, Positive, Rate
from pier_node.scenario.overlay_nodes import Life, OverlayNodes
from pier_node.scenario.sample import Sample
from pier_node.scenario.workload import Workload, register_workload
from runtime.sim import SimHost, World

NAMESPACE = "published"
#: How often an object that was found empty is looked at until it is back.
WATCH_S = 1.0


class PublishedForm(Form, frozen=True):
    #: Quiet time between the last arrival and the first publication.
    settle_s: NotNegative = 30.0
    #: Share of the nodes that publish.
    publishers: Rate = 0.1
    objects: int = 50
    value_bytes: int = 100
    lifetime_s: Positive = 150.0
    #: Renewal period; what is lost is back after it.
    renewal_s: Positive = 60.0
    copies: int = 0
    #: Over all nodes.
    gets_per_s: Positive = 20.0


@dataclass(slots=True)
class _Object:
    """One published object as the outside sees it."""

    publisher: Life
    key: str
    value: bytes
    #: When the first put was confirmed.
    stored_at: float | None = None
    #: Since when gets find nothing.
    out_since: float | None = None


@register_workload("published")
class Published(Workload[PublishedForm]):
    form = PublishedForm
    messages = OVERLAY_MESSAGES

    def __init__(self, world: World, form: PublishedForm) -> None:
        super().__init__(world, form)
        self._nodes = OverlayNodes(world, OverlayConfig(in_trees=False), world.rng("nodes"))
        self._rng = world.rng("published")
        self._objects: list[_Object] = []
        self._running = False
        self._latency_s = Sample(world.rng("latency sample"))
        self._outage_s = Sample(world.rng("outage sample"))
        self._asked = self._right = self._empty = self._stale = self._unreached = self._asker_died = 0
        self._puts: dict[str, int] = {}

    def build(self, host: SimHost) -> None:
        life = self._nodes.build(host)
        if self._running and self._rng.random() < self.form_values.publishers:
            host.runtime.call_later(10.0, self._publish, life)

    def start(self) -> None:
        self.world.call_at(self.world.now + self.form_values.settle_s, self._begin, None)

    def stop(self) -> None:
        self._running = False

    def _begin(self, _: None) -> None:
        self._running = True
        members = self._nodes.members()
        for life in self._rng.sample(members, max(1, round(len(members) * self.form_values.publishers))):
            self._publish(life)
        self.world.call_at(self.world.now + 5.0, self._ask, None)

    # --- publishing ------------------------------------------------------------------------------------------------

    def _publish(self, life: Life) -> None:
        form = self.form_values
        objects = []
        for number in range(form.objects):
            value = self._rng.randbytes(form.value_bytes)
            objects.append(_Object(life, f"{life.number}/{number}", value))
        self._objects += objects
        puts = [
            PutObject(Name(NAMESPACE, each.key, "0"), each.value, form.lifetime_s, copies=form.copies)
            for each in objects
        ]

        def done(codes: list[Code]) -> None:
            for each, code in zip(objects, codes, strict=True):
                self._puts[code.name.lower()] = self._puts.get(code.name.lower(), 0) + 1
                if code is Code.OK:
                    each.stored_at = self.world.now

        life.node.publisher.publish(puts, done, period_s=form.renewal_s)

    # --- reading ---------------------------------------------------------------------------------------------------

    def _ask(self, _: None) -> None:
        if not self._running:
            return
        self.world.call_at(
            self.world.now + self._rng.expovariate(self.form_values.gets_per_s), self._ask, None
        )
        wanted = self._rng.choice(self._objects)
        if wanted.stored_at is None or not wanted.publisher.alive:
            return
        members = self._nodes.members()
        asker = self._rng.choice(members)
        self._asked += 1
        asked_at = self.world.now
        asker.node.dht.get(GetObject(NAMESPACE, wanted.key), lambda got: self._got(wanted, asked_at, got))

    def _watch(self, wanted: _Object) -> None:
        """Looks at an object that is out until it is back; such gets count for nothing else."""
        if not wanted.publisher.alive or wanted.out_since is None:
            return
        asker = self._rng.choice(self._nodes.members())
        asker.node.dht.get(GetObject(NAMESPACE, wanted.key), lambda got: self._back(wanted, got))
        self.world.call_at(self.world.now + WATCH_S, self._watch, wanted)

    def _back(self, wanted: _Object, got: Got) -> None:
        if wanted.out_since is not None and [each.value for each in got.objects] == [wanted.value]:
            self._outage_s.add(self.world.now - wanted.out_since)
            wanted.out_since = None

    def _got(self, wanted: _Object, asked_at: float, got: Got) -> None:
        self._latency_s.add(self.world.now - asked_at)
        values = [each.value for each in got.objects]
        if got.code is not Code.OK:
            self._unreached += 1
        elif values == [wanted.value]:
            self._right += 1
            self._back(wanted, got)
        elif values:
            self._stale += 1
        elif wanted.publisher.alive:
            self._empty += 1
            if wanted.out_since is None:
                wanted.out_since = asked_at
                self._watch(wanted)

    # --- the end ---------------------------------------------------------------------------------------------------

    def _missing_at_the_end(self) -> tuple[int, int]:
        """Objects of living publishers that are not at their owner, and how many there are in all."""
        members = sorted(self._nodes.members(), key=lambda life: life.id)
        kept = [each for each in self._objects if each.publisher.alive and each.stored_at is not None]
        missing = 0
        for each in kept:
            owner = self._nodes.owner(routing_id(NAMESPACE, each.key), members)
            found = owner.node.dht.peek(Name(NAMESPACE, each.key, "0"))
            missing += found != each.value
        return missing, len(kept)

    def figures(self) -> Mapping[str, Any]:
        missing, kept = self._missing_at_the_end()
        dhts = [life.node.dht.statistics() for life in self._nodes.lives]
        publishers = [life.node.publisher.statistics() for life in self._nodes.lives]
        ended = self._right + self._empty + self._stale + self._unreached
        return {
            "gets": ended,
            "gets_unended": self._asked - ended,
            "right": self._right,
            "right_share": round(self._right / max(1, ended), 6),
            "empty": self._empty,
            "stale": self._stale,
            "unreached": self._unreached,
            "latency_s": self._latency_s.figures(),
            "outage_s": self._outage_s.figures(),
            "puts": self._puts,
            "kept": kept,
            "missing_at_the_end": missing,
            "republished": sum(each.republished for each in publishers),
            "renewals": sum(each.renewals for each in publishers),
            "moved": sum(each.handover.objects_sent for each in dhts),
            "promoted": sum(each.handover.objects_promoted for each in dhts),
            "asked_previous": sum(each.serve.asked_previous for each in dhts),
            "retries": sum(each.requests.retries for each in dhts),
            "not_mine": sum(each.requests.not_mine for each in dhts),
            "owner_hits": sum(each.owner_hits for each in dhts),
            "lookups": sum(each.lookups for each in dhts),
        }
