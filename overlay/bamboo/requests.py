"""What this node waits for end to end: owners it looked up, receipts of messages it routed.

Hops are reliable one by one, but a node may die with a message in hand, or with the answer. So the origin asks
again when nothing came within what lookups take, mean + 4 deviations, and gives up after some attempts.
"""

from __future__ import annotations

from collections.abc import Callable

from overlay.bamboo.core import Core
from overlay.bamboo.forward import Forwarder
from overlay.bamboo.messages import Find, Found, Receipt
from overlay.bamboo.peer import Distance
from overlay.ring import Arc, NodeRef, from_wire
from overlay.router import Owner
from runtime.api import Address, Notice, Timer
from runtime.message import Message

#: Lookups and receipts awaited at once; at the bound new ones fail at once instead of starving the old.
REQUESTS_MAX = 65_536


class Request:
    """One awaited answer. Exactly one of `found` and `notice` is set."""

    __slots__ = ("attempts", "found", "key", "notice", "payload", "sent_at", "sequence", "timer")

    timer: Timer

    def __init__(self, key: int, sequence: int, payload: Message) -> None:
        self.key = key
        self.sequence = sequence
        self.payload = payload
        self.found: Callable[[Owner | None], None] | None = None
        self.notice: Notice | None = None
        self.attempts = 0
        self.sent_at = 0.0

    def fail(self) -> None:
        if self.found is not None:
            self.found(None)
        elif self.notice is not None:
            self.notice(False)


class Requests:
    __slots__ = ("_core", "_forwarder", "_open", "_sequence", "_took")

    def __init__(self, core: Core, forwarder: Forwarder) -> None:
        self._core = core
        self._forwarder = forwarder
        #: Starts at random, so that an earlier life's messages are not taken for copies.
        self._sequence = core.rng.getrandbits(48)
        self._open: dict[int, Request] = {}
        self._took = Distance()
        core.on_answer(Found, self._on_found)
        core.on_answer(Receipt, self._on_receipt)

    def route(self, key: int, message: Message, notice: Notice | None) -> None:
        self._sequence += 1
        if notice is None:
            self._forwarder.submit(key, message, self._sequence, receipt=False)
            return
        request = Request(key, self._sequence, message)
        request.notice = notice
        self._begin(request)

    def lookup(self, key: int, done: Callable[[Owner | None], None]) -> None:
        self._sequence += 1
        request = Request(key, self._sequence, Find(self._sequence))
        request.found = done
        self._begin(request)

    def _begin(self, request: Request) -> None:
        if len(self._open) >= REQUESTS_MAX:
            self._core.count("requests_refused")
            self._core.runtime.call_later(0.0, Request.fail, request)
            return
        self._open[request.sequence] = request
        request.sent_at = self._core.runtime.now()
        self._try(request)

    def _try(self, request: Request) -> None:
        core = self._core
        config = core.config
        took = self._took
        wait_s = (
            took.rtt_s + 4.0 * took.deviation_s if took.rtt_s >= 0.0 else config.lookup_timeout_ceiling_s / 2
        )
        wait_s = min(max(wait_s, config.lookup_timeout_floor_s), config.lookup_timeout_ceiling_s)
        request.timer = core.runtime.call_later(wait_s * 1.5**request.attempts, self._late, request)
        again = request.attempts > 0
        request.attempts += 1
        receipt = request.notice is not None
        self._forwarder.submit(request.key, request.payload, request.sequence, receipt, again)

    def _late(self, request: Request) -> None:
        if request.attempts >= self._core.config.lookup_attempts_max:
            del self._open[request.sequence]
            self._core.count("requests_failed")
            request.fail()
        else:
            self._core.count("requests_repeated")
            self._try(request)

    def _on_found(self, sender: Address, found: Found) -> None:
        request = self._open.get(found.token)
        if request is None or request.found is None:
            return
        self._finish(request)
        arc = Arc(from_wire(found.arc.start), from_wire(found.arc.end))
        request.found(Owner(NodeRef(found.id, sender), arc))

    def _on_receipt(self, sender: Address, receipt: Receipt) -> None:
        request = self._open.get(receipt.sequence)
        if request is None or request.notice is None:
            return
        self._finish(request)
        request.notice(True)

    def _finish(self, request: Request) -> None:
        del self._open[request.sequence]
        request.timer.cancel()
        if request.attempts == 1:
            self._took.sample(self._core.runtime.now() - request.sent_at)
