"""Nodes that ask random others, each request with a timeout that the answer cancels.

The least that any protocol does, so it exercises the simulator itself: timers armed and cancelled, messages
with and without notices, hosts that vanish. It checks the messenger's contract: every sender that lives is told
exactly once, and no message arrives twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pier_node.scenario.form import Form, NotNegative, Positive
from pier_node.scenario.sample import Sample
from pier_node.scenario.workload import Workload, register_workload
from runtime.api import Address, Timer
from runtime.message import Message
from runtime.sim import SimHost, World


class Request(Message, frozen=True, tag=1):
    number: int
    body: bytes


class Response(Message, frozen=True, tag=2):
    number: int


class ExchangeForm(Form, frozen=True):
    #: Between two requests of a node, on average.
    period_s: Positive = 1.0
    timeout_s: Positive = 3.0
    body_bytes: NotNegative = 100


class _Node:
    """One incarnation."""

    __slots__ = ("_load", "_messenger", "_pending", "_rng", "_runtime", "untold")

    def __init__(self, load: Exchange, host: SimHost) -> None:
        self._load = load
        self._runtime = host.runtime
        self._messenger = host.messenger
        self._rng = host.runtime.rng("exchange")
        #: Number to its timeout and when it was sent. Bounded by timeout / period.
        self._pending: dict[int, tuple[Timer, float]] = {}
        #: Requests whose notice has not come.
        self.untold = 0
        host.messenger.on(Request, self._asked)
        host.messenger.on(Response, self._answered)
        self._sleep()

    def _sleep(self) -> None:
        period_s = self._load.form_values.period_s
        self._runtime.call_later(self._rng.uniform(0.5, 1.5) * period_s, _Node._ask, self)

    def _ask(self) -> None:
        load = self._load
        if not load.running:
            return
        number = load.next_number()
        timeout = self._runtime.call_later(load.form_values.timeout_s, self._timed_out, number)
        self._pending[number] = (timeout, self._runtime.now())
        self.untold += 1
        self._messenger.send(self._rng.choice(load.addresses), Request(number, load.body), self._told)
        self._sleep()

    def _told(self, success: bool) -> None:
        self.untold -= 1
        self._load.told(success)

    def _asked(self, sender: Address, request: Request) -> None:
        self._load.received_once(request.number)
        self._messenger.send(sender, Response(request.number))

    def _answered(self, sender: Address, response: Response) -> None:
        pending = self._pending.pop(response.number, None)
        if pending is None:
            self._load.late += 1
            return
        timeout, sent_at = pending
        timeout.cancel()
        self._load.latency_s.add(self._runtime.now() - sent_at)

    def _timed_out(self, number: int) -> None:
        del self._pending[number]
        self._load.timeouts += 1


@register_workload("exchange")
class Exchange(Workload[ExchangeForm]):
    form = ExchangeForm
    messages = (Request, Response)

    def __init__(self, world: World, form: ExchangeForm) -> None:
        super().__init__(world, form)
        self.addresses: list[Address] = []
        self.body = bytes(int(form.body_bytes))
        self.running = True
        self.latency_s = Sample(world.rng("latency sample"))
        self.delivered = self.failed = self.timeouts = self.late = 0
        #: One byte a request: how often it arrived.
        self._arrivals = bytearray()
        self._nodes: dict[int, _Node] = {}

    def build(self, host: SimHost) -> None:
        if host.index not in self._nodes:
            self.addresses.append(host.address)
        self._nodes[host.index] = _Node(self, host)

    def stop(self) -> None:
        self.running = False

    def next_number(self) -> int:
        self._arrivals.append(0)
        return len(self._arrivals) - 1

    def received_once(self, number: int) -> None:
        self._arrivals[number] = min(self._arrivals[number] + 1, 2)

    def told(self, success: bool) -> None:
        if success:
            self.delivered += 1
        else:
            self.failed += 1

    def figures(self) -> Mapping[str, Any]:
        requests = len(self._arrivals)
        return {
            "requests": requests,
            "answered": self.latency_s.count,
            "answered_ratio": round(self.latency_s.count / requests, 6) if requests else 0.0,
            "told_delivered": self.delivered,
            "told_failed": self.failed,
            "timeouts": self.timeouts,
            "answered_late": self.late,
            "latency_s": self.latency_s.figures(),
        }

    def check(self) -> list[str]:
        complaints = []
        twice = sum(1 for count in self._arrivals if count > 1)
        if twice:
            complaints.append(f"{twice} requests arrived twice")
        untold = sum(node.untold for index, node in self._nodes.items() if self.world.hosts[index].alive)
        if untold:
            complaints.append(f"{untold} senders were never told what became of their request")
        return complaints
