"""The shipped transport in packet-level simulation: fairness, utilisation, loss, dead and restarted peers."""

from __future__ import annotations

import pytest

from overlay.transport import DEFAULT, MessageHost, open_messenger
from overlay.transport.keyring import new
from runtime.api import Address
from runtime.message import Codec, Message
from runtime.sim import World
from runtime.sim.host import SimHost
from runtime.sim.links import Fifo
from runtime.sim.topology import star

RING = new(bytes(32), 1)
LINK_BPS = 1_500_000.0


class Chunk(Message, frozen=True, tag=1):
    flow: int
    body: bytes


def make_world(seed: int, *, rtt_s: float = 0.1, limited: bool = False) -> World:
    return World(
        seed=seed,
        topology=star(rtt_s / 2),
        codec=Codec([Chunk]),
        links=Fifo(LINK_BPS, LINK_BPS) if limited else None,
        messenger=lambda runtime, codec: open_messenger(runtime, codec, keyring=RING),
    )


class Flow:
    """Keeps messages waiting for one peer all the time, and counts what the peer got."""

    def __init__(
        self, sender: SimHost, to: Address, number: int, size: int = 1_000, open_max: int = 200
    ) -> None:
        self.sender = sender
        self.to = to
        self.chunk = Chunk(number, bytes(size))
        self.told = [0, 0]
        for _ in range(open_max):
            self.send()

    def send(self) -> None:
        self.sender.messenger.send(self.to, self.chunk, self.notice)

    def notice(self, delivered: bool) -> None:
        self.told[delivered] += 1
        if delivered:
            self.send()


def jain(shares: list[float]) -> float:
    return sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares))


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("late_s", [0.0, 3.0])
def test_two_flows_share_a_fifo_link_fairly_and_fill_it(seed: int, late_s: float) -> None:
    world = make_world(seed, rtt_s=0.06, limited=True)
    receiver, first, second = (world.add_host() for _ in range(3))
    got = [0, 0]
    receiver.messenger.on(
        Chunk, lambda _, chunk: got.__setitem__(chunk.flow, got[chunk.flow] + len(chunk.body))
    )
    Flow(first, receiver.address, 0)
    world.run_for(late_s)
    Flow(second, receiver.address, 1)
    world.run_for(1.0)
    got[:] = [0, 0]
    before = receiver.counters.bytes_in
    world.run_for(60.0)
    assert jain([float(share) for share in got]) >= 0.95, got
    assert (receiver.counters.bytes_in - before) * 8 / 60.0 >= 0.9 * LINK_BPS
    assert sum(got) * 8 / 60.0 >= 0.8 * LINK_BPS, "of which most is new"


@pytest.mark.parametrize("seed", [1, 2])
def test_a_flow_keeps_delivering_at_five_percent_loss(seed: int) -> None:
    world = make_world(seed, rtt_s=0.1)
    world.faults.loss.set_rate(0.05)
    receiver, sender = world.add_host(), world.add_host()
    seconds: dict[int, int] = {}
    receiver.messenger.on(
        Chunk, lambda _, chunk: seconds.__setitem__(int(world.now), seconds.get(int(world.now), 0) + 1)
    )
    flow = Flow(sender, receiver.address, 0)
    world.run_for(60.0)
    assert flow.told[False] == 0
    assert all(seconds.get(second, 0) >= 10 for second in range(2, 60)), seconds


def test_a_dead_peer_is_reported_within_a_bounded_time() -> None:
    world = make_world(1)
    receiver, sender = world.add_host(), world.add_host()
    receiver.messenger.on(Chunk, lambda *_: None)
    flow = Flow(sender, receiver.address, 0, open_max=50)
    world.run_for(2.0)
    assert flow.told[True] > 50 and flow.told[False] == 0
    world.crash(receiver)
    world.run_for(DEFAULT.dead_after_s())
    assert flow.told[False] == 50


def test_a_restarted_peer_is_found_again() -> None:
    world = make_world(1)
    receiver, sender = world.add_host(), world.add_host()
    receiver.messenger.on(Chunk, lambda *_: None)
    flow = Flow(sender, receiver.address, 0, open_max=50)
    world.run_for(2.0)
    receiver = world.restart(receiver)
    got: list[Chunk] = []
    receiver.messenger.on(Chunk, lambda _, chunk: got.append(chunk))
    world.run_for(2.0)
    assert len(got) > 50 and flow.told[False] == 0
    assert isinstance(sender.messenger, MessageHost)
    assert sender.messenger.statistics().peers_restarted == 1


def test_the_same_seed_gives_the_same_trace() -> None:
    def run() -> str:
        world = make_world(7, limited=True)
        world.faults.loss.set_rate(0.02)
        receiver, sender = world.add_host(), world.add_host()
        receiver.messenger.on(Chunk, lambda *_: None)
        Flow(sender, receiver.address, 0, size=5_000, open_max=20)
        world.run_for(5.0)
        return world.trace_hash()

    assert run() == run()
