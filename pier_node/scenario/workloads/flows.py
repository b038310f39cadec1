"""Bulk flows into one host: do they share its link, and do they fill it?

Each flow is a sender that keeps a number of messages under way to the sink. Goodput is what arrived of the
messages' own bytes from `measure_after_s` on; the Jain index is 1 when all flows got the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from pier_node.scenario.form import Form, NotNegative, Positive
from pier_node.scenario.sample import Sample
from pier_node.scenario.workload import Workload, register_workload
from runtime.api import Address
from runtime.message import Message
from runtime.sim import SimHost, World


class Block(Message, frozen=True, tag=1):
    body: bytes


class FlowsForm(Form, frozen=True):
    #: The host that receives; all others send.
    sink: Annotated[int, msgspec.Meta(ge=0)] = 0
    block_bytes: Annotated[int, msgspec.Meta(ge=1, le=16 << 20)] = 8_192
    #: Blocks of one flow under way: enough to fill the path.
    in_flight: Annotated[int, msgspec.Meta(ge=1, le=4_096)] = 16
    #: Flows begin at random within this time.
    start_s_max: NotNegative = 1.0
    #: The start of the flows is not measured.
    measure_after_s: NotNegative = 5.0
    #: The shared link, for the utilisation.
    capacity_bps: Positive = 1_500_000.0


class _Flow:
    __slots__ = ("_load", "_messenger", "_runtime", "failed", "told")

    def __init__(self, load: Flows, host: SimHost) -> None:
        self._load = load
        self._messenger = host.messenger
        self._runtime = host.runtime
        self.told = 0
        self.failed = 0

    def start(self) -> None:
        form = self._load.form_values
        delay_s = self._runtime.rng("flow").random() * form.start_s_max
        for _ in range(form.in_flight):
            self._runtime.call_later(delay_s, _Flow.send, self)

    def send(self) -> None:
        sent_at = self._load.world.now
        self._messenger.send(
            self._load.sink, Block(self._load.body), lambda success: self._done(success, sent_at)
        )

    def _done(self, success: bool, sent_at: float) -> None:
        self._load.notice_s.add(self._load.world.now - sent_at)
        self.told += 1
        self.failed += not success
        if self._load.running:
            self.send()


@register_workload("flows")
class Flows(Workload[FlowsForm]):
    form = FlowsForm
    messages = (Block,)

    def __init__(self, world: World, form: FlowsForm) -> None:
        super().__init__(world, form)
        self.body = bytes(form.block_bytes)
        self.sink: Address = ""
        self.running = False
        self._flows: dict[Address, _Flow] = {}
        self._received: dict[Address, int] = {}
        self._last_at = 0.0
        #: From a block's sending until its sender is told, whatever it is told.
        self.notice_s = Sample(world.rng("notice sample"))

    def build(self, host: SimHost) -> None:
        if host.index == self.form_values.sink:
            self.sink = host.address
            host.messenger.on(Block, self._arrived)
        else:
            self._flows[host.address] = flow = _Flow(self, host)
            self._received.setdefault(host.address, 0)
            if self.running:
                flow.start()

    def start(self) -> None:
        self.running = True
        for flow in self._flows.values():
            flow.start()

    def stop(self) -> None:
        self.running = False
        self._last_at = self.world.now

    def _arrived(self, sender: Address, block: Block) -> None:
        if self.running and self.world.now >= self.form_values.measure_after_s:
            self._received[sender] += len(block.body)

    def figures(self) -> Mapping[str, Any]:
        measured_s = max(self._last_at - self.form_values.measure_after_s, 1e-9)
        goodputs = [received * 8.0 / measured_s for received in self._received.values()]
        total = sum(goodputs)
        squares = sum(goodput * goodput for goodput in goodputs)
        return {
            "flows": len(goodputs),
            "goodput_bps": [round(goodput) for goodput in goodputs],
            "goodput_bps_total": round(total),
            "jain_index": round(total * total / (len(goodputs) * squares), 6) if squares else 0.0,
            "utilisation": round(total / self.form_values.capacity_bps, 6),
            "told": sum(flow.told for flow in self._flows.values()),
            "told_failed": sum(flow.failed for flow in self._flows.values()),
            "notice_s": self.notice_s.figures(),
        }
