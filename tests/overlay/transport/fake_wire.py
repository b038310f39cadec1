"""Machines joined by a wire with explicit time, on which anything may happen to a datagram."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Sequence

from overlay.transport.config import DEFAULT, TransportConfig
from overlay.transport.identity import Identity
from overlay.transport.keyring import Keyring, new
from overlay.transport.machine import UdpCC
from overlay.transport.versions import Versions

RING = new(bytes(range(32)), 1)
#: When the copies of a datagram arrive, in seconds from now; none means lost.
Fate = Callable[[str, str, bytes], Sequence[float]]


class Endpoint:
    """One life of one node, and what it was told."""

    def __init__(
        self,
        address: str,
        life: int = 0,
        *,
        ring: Keyring | None = RING,
        config: TransportConfig = DEFAULT,
        identity: Identity | None = None,
        versions: Versions | None = None,
    ) -> None:
        self.address = address
        number = int(address.rpartition(":")[2])
        node_id = number.to_bytes(20, "big") if identity is None else identity.node_id
        epoch = (number << 48 | life).to_bytes(8, "big")
        self.machine = UdpCC(
            node_id=node_id, epoch=epoch, keyring=ring, config=config, identity=identity, versions=versions
        )
        self.received: list[tuple[str, bytes]] = []
        self.told: dict[object, list[bool]] = {}
        #: The payload that answers a message, if any does.
        self.answer: Callable[[bytes], bytes | None] | None = None

    def collect(self, now: float) -> None:
        for sender, payloads in self.machine.take_delivered():
            self.received.extend((sender, payload) for payload in payloads)
            for payload in payloads:
                answer = self.answer(payload) if self.answer else None
                if answer is not None:
                    self.machine.send(now, sender, answer)
        for tokens, delivered in self.machine.take_settled():
            for token in tokens:
                self.told.setdefault(token, []).append(delivered)

    def counts(self) -> Counter[bytes]:
        return Counter(payload for _, payload in self.received)


class Wire:
    """Carries datagrams between endpoints and lets time pass from one event to the next."""

    def __init__(self, fate: Fate | None = None) -> None:
        self.now = 100.0
        self.fate = fate or (lambda source, to, datagram: (0.01,))
        self.endpoints: dict[str, Endpoint] = {}
        self._events: list[tuple[float, int, str, str, bytes]] = []
        self._sequence = 0
        #: Everything put on the wire: sender, receiver, datagram.
        self.log: list[tuple[str, str, bytes]] = []

    def add(self, endpoint: Endpoint) -> Endpoint:
        self.endpoints[endpoint.address] = endpoint
        return endpoint

    def send(self, source: Endpoint, to: str, payload: bytes, token: object = None) -> None:
        source.machine.send(self.now, to, payload, token)

    def flush(self) -> None:
        for endpoint in list(self.endpoints.values()):
            endpoint.collect(self.now)
            for to, datagrams in endpoint.machine.datagrams_to_send(self.now):
                for datagram in datagrams:
                    self.put(endpoint.address, to, datagram)

    def put(self, source: str, to: str, datagram: bytes) -> None:
        self.log.append((source, to, datagram))
        for delay_s in self.fate(source, to, datagram):
            self._sequence += 1
            heapq.heappush(self._events, (self.now + delay_s, self._sequence, source, to, datagram))

    def step(self, until: float) -> bool:
        """The next arrival or timer; False when there is none before `until`."""
        self.flush()
        at = self._events[0][0] if self._events else until
        timers = [endpoint.machine.next_timer() for endpoint in self.endpoints.values()]
        at = min([at, *(timer for timer in timers if timer is not None)])
        if at >= until:
            self.now = until
            return False
        self.now = max(at, self.now)
        self._arrive()
        for endpoint in self.endpoints.values():
            timer = endpoint.machine.next_timer()
            if timer is not None and timer <= self.now:
                endpoint.machine.handle_timer(self.now)
        self.flush()
        return True

    def _arrive(self) -> None:
        batches: dict[str, list[tuple[str, bytes]]] = {}
        while self._events and self._events[0][0] <= self.now:
            _, _, source, to, datagram = heapq.heappop(self._events)
            batches.setdefault(to, []).append((source, datagram))
        for to, batch in batches.items():
            if to in self.endpoints:
                self.endpoints[to].machine.receive_datagrams(self.now, batch)

    def run(self, seconds: float, steps_max: int = 200_000) -> None:
        until = self.now + seconds
        for _ in range(steps_max):
            if not self.step(until):
                for endpoint in self.endpoints.values():
                    endpoint.collect(self.now)
                return
        raise AssertionError("the machines do not come to rest")


def pair(
    fate: Fate | None = None, config: TransportConfig = DEFAULT, ring: Keyring | None = RING
) -> tuple[Wire, Endpoint, Endpoint]:
    wire = Wire(fate)
    return (
        wire,
        wire.add(Endpoint("127.0.0.1:1", config=config, ring=ring)),
        wire.add(Endpoint("127.0.0.1:2", config=config, ring=ring)),
    )
