"""The simulator's event core against SimPy's, and what ten thousand simulated nodes cost.

First figure: one workload on both, ping and pong between pairs of nodes, each ping with a timeout of one second
that its pong cancels. The same latencies in the same order; both written as callbacks, SimPy's fastest style.
An event is a ping or a pong that arrived. Rounds are interleaved; the ratio is the median of the rounds'.

Second figure: a `World` as overlay code uses it, trace on: `NODES` hosts on a star, each holding a timer and
exchanging messages (encoded for their size) with random others. Bytes per node are resident memory, everything
included; the bare numbers without trace are printed beside it.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from simpy.core import Environment
from simpy.events import Timeout

from runtime.message import Codec, Message
from runtime.rng import Rng
from runtime.sim import SimHost, World, star
from runtime.sim.wheel import WORLD, Event, Wheel

ROUNDS = 7
PAIRS = 5_000
PING_PONG_S = 3.0
TIMEOUT_S = 1.0
TARGET = 1.5
NODES = 10_000
EXCHANGE_S = 10.0
#: Latencies are drawn beforehand: the generator must not be what is measured.
LATENCIES = 4_096


def latencies() -> list[float]:
    rng = Rng(5)
    return [rng.uniform(0.01, 0.1) for _ in range(LATENCIES)]


class OurPlayer:
    """One node of a pair, on the wheel."""

    __slots__ = ("_delays", "_next", "_timeout", "_wheel", "arrived", "peer")

    peer: OurPlayer

    def __init__(self, wheel: Wheel, delays: list[float], number: int) -> None:
        self._wheel = wheel
        self._delays = delays
        self._next = number * 7
        self._timeout: Event | None = None
        self.arrived = 0

    def ping(self, _: None) -> None:
        wheel = self._wheel
        self._timeout = wheel.call_at(wheel.now + TIMEOUT_S, self.timed_out, None, WORLD)
        self._next += 1
        wheel.call_at(wheel.now + self._delays[self._next % LATENCIES], self.peer.on_ping, self, WORLD)

    def on_ping(self, sender: OurPlayer) -> None:
        self.arrived += 1
        wheel = self._wheel
        self._next += 1
        wheel.call_at(wheel.now + self._delays[self._next % LATENCIES], sender.on_pong, None, WORLD)

    def on_pong(self, _: None) -> None:
        self.arrived += 1
        assert self._timeout is not None
        self._timeout.cancel()
        self.ping(None)

    def timed_out(self, _: None) -> None:
        raise AssertionError("every ping is answered in time")


class SimpyPlayer:
    """The same on SimPy's events."""

    __slots__ = ("_delays", "_environment", "_next", "_timeout", "arrived", "peer")

    peer: SimpyPlayer

    def __init__(self, environment: Any, delays: list[float], number: int) -> None:
        self._environment = environment
        self._delays = delays
        self._next = number * 7
        self._timeout: Any = None
        self.arrived = 0

    def ping(self, _: Any) -> None:
        self._timeout = timeout = Timeout(self._environment, TIMEOUT_S)
        timeout.callbacks.append(self.timed_out)
        self._next += 1
        event = Timeout(self._environment, self._delays[self._next % LATENCIES], self)
        event.callbacks.append(self.peer.on_ping)

    def on_ping(self, event: Any) -> None:
        self.arrived += 1
        self._next += 1
        answer = Timeout(self._environment, self._delays[self._next % LATENCIES])
        answer.callbacks.append(event.value.on_pong)

    def on_pong(self, _: Any) -> None:
        self.arrived += 1
        # SimPy cannot take an event back; without its callback it does nothing.
        self._timeout.callbacks.clear()
        self.ping(None)

    def timed_out(self, _: Any) -> None:
        raise AssertionError("every ping is answered in time")


def play(kind: type[OurPlayer] | type[SimpyPlayer], core: Any, run: Callable[[], None]) -> float:
    """Events per CPU second."""
    delays = latencies()
    players = [kind(core, delays, number) for number in range(2 * PAIRS)]
    for one, other in zip(players[::2], players[1::2], strict=True):
        one.peer, other.peer = other, one
    gc.collect()
    started = time.process_time()
    for player in players:
        player.ping(None)
    run()
    cpu_s = time.process_time() - started
    return sum(player.arrived for player in players) / cpu_s


def ours() -> float:
    wheel = Wheel()
    return play(OurPlayer, wheel, lambda: wheel.run_until(PING_PONG_S))


def simpys() -> float:
    environment = Environment()
    return play(SimpyPlayer, environment, lambda: environment.run(until=PING_PONG_S))


class Ask(Message, frozen=True, tag=1):
    number: int
    body: bytes


class Answer(Message, frozen=True, tag=2):
    number: int


class Node:
    """Holds a timer; at each expiry asks a random other."""

    __slots__ = ("_asked", "_host", "_hosts", "_rng")

    def __init__(self, host: SimHost, hosts: list[SimHost]) -> None:
        self._host = host
        self._hosts = hosts
        self._rng = host.runtime.rng("node")
        self._asked = 0
        host.messenger.on(Ask, self._on_ask)
        host.messenger.on(Answer, self._on_answer)
        host.runtime.call_later(self._rng.random(), self._tick, None)

    def _tick(self, _: None) -> None:
        self._asked += 1
        self._host.messenger.send(self._rng.choice(self._hosts).address, Ask(self._asked, bytes(64)))
        self._host.runtime.call_later(1.0, self._tick, None)

    def _on_ask(self, sender: str, ask: Ask) -> None:
        self._host.messenger.send(sender, Answer(ask.number))

    def _on_answer(self, sender: str, answer: Answer) -> None:
        self._asked = max(self._asked, answer.number)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def exchange(trace: bool) -> tuple[float, float]:
    """Bytes a node, and events per CPU second."""
    gc.collect()
    before = resident_bytes()
    world = World(seed=1, topology=star(0.05), codec=Codec([Ask, Answer]), trace=trace)
    hosts: list[SimHost] = []
    for _ in range(NODES):
        hosts.append(world.add_host())
    nodes = [Node(host, hosts) for host in hosts]
    world.run_until(2.0)
    gc.collect()
    node_bytes = (resident_bytes() - before) / len(nodes)
    ran = world.wheel.run
    with world.settled():
        started = time.process_time()
        world.run_for(EXCHANGE_S)
        cpu_s = time.process_time() - started
    return node_bytes, (world.wheel.run - ran) / cpu_s


def main() -> None:
    # Memory first, in a fresh process: later, freed memory of other rounds would hide what nodes take.
    node_bytes, traced = exchange(trace=True)
    _, untraced = exchange(trace=False)
    rounds = []
    for number in range(ROUNDS):
        pair = (ours(), simpys()) if number % 2 == 0 else (simpys(), ours())[::-1]
        rounds.append(pair)
        print(
            f"round {number + 1}: {pair[0]:,.0f} against {pair[1]:,.0f} events/s, {pair[0] / pair[1]:.2f} x"
        )
    print(
        f"{NODES} nodes in a World: {node_bytes:,.0f} bytes a node, {traced:,.0f} events/s traced, "
        f"{untraced:,.0f} without trace"
    )
    for name, value, unit in (
        ("bytes per node, World of 10,000", node_bytes, "bytes"),
        ("events per CPU second, World of 10,000", traced, "events/s"),
    ):
        print(json.dumps({"name": name, "ours": round(value), "unit": unit, "peer": None, "holds": True}))
    ratio = statistics.median(one / other for one, other in rounds)
    headline = {
        "name": "event core, ping/pong with cancelled timeouts, 10,000 nodes",
        "ours": round(statistics.median(one for one, _ in rounds)),
        "peer": round(statistics.median(other for _, other in rounds)),
        "peer_name": "SimPy callbacks",
        "ratio": round(ratio, 2),
        "target": TARGET,
        "holds": ratio >= TARGET,
    }
    print(json.dumps(headline))


if __name__ == "__main__":
    main()
