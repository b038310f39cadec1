"""Every kind of message of the overlay, with every number, text and list in it at its extremes, at a node at work.

What a member sends may be anything that its keys seal. It must not raise out of a handler, and whatever the node asks
of others or is asked must still end: a bad message is the failure of whoever sent it.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from overlay.bamboo.messages import Down, Find, Hop, Join, Leaving
from overlay.dht.messages import Item, MultiSendOne, Send, SendTo
from overlay.dht.operations import GetObject, PutObject, RenewObject
from overlay.objects.name import Name
from overlay.relay.messages import DirectTry
from overlay.ring import BITS
from overlay.roster.config import RosterConfig
from overlay.roster.member import MARK_BYTES, Member
from overlay.roster.messages import (
    BUCKET_BYTES,
    BUCKETS,
    ROSTER_MESSAGES,
    Namesake,
    RosterAsk,
    RosterMarks,
    RosterParts,
    RosterTell,
)
from overlay.spread.messages import SpreadEnd, SpreadInto, SpreadUp, SpreadWait, TreeRegister
from overlay.stack import OVERLAY_MESSAGES, OverlayConfig, OverlayNode
from runtime.message import Codec, CodecError, Message, NotUnderstood
from runtime.sim import SimHost, World, star
from runtime.sim.messages import Flight

CODEC = Codec(OVERLAY_MESSAGES)
INTEGERS = (-(2**63), -1, 0, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 1)
FLOATS = (math.nan, math.inf, -math.inf, -1.0, -0.0, 1e9, 1e308, 5e-324)
TEXTS = ("", "x" * 1_025, "\x00\x1b", "no address", "127.0.0.1:-1", "127.0.0.1:999999999999")
NODES = 7
EVERYTHING = ["get", "lookup", "multi-send", "put", "renew", "send", "spread"]
#: Mutants in front of one message.
AT_ONCE = 5
#: Mutants of one kind: most have fewer. What one of them leads to is attacked in its turn, so there must be an end.
TRIED_MAX = 400


def leaves(value: Any, at: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """Where in a message's array form something stands; its own tag left out."""
    if at:
        yield at
    if isinstance(value, list):
        for number, part in enumerate(value):
            if at or number:
                yield from leaves(part, (*at, number))


def extremes(value: Any) -> tuple[Any, ...]:
    """What to put in the place of a value."""
    if isinstance(value, bool):
        return (not value, 2, None)
    if isinstance(value, int | float):
        return (*INTEGERS, *FLOATS)
    if isinstance(value, bytes):
        return (b"", value[:-1], value + b"\0", bytes(len(value)), b"\xff" * len(value), bytes(70_000))
    if isinstance(value, str):
        return TEXTS
    if isinstance(value, list):
        return ([], value * 2, value * 300)
    return (0, b"", [])


def with_part(value: Any, at: tuple[int, ...], part: Any) -> Any:
    if not at:
        return part
    changed = list(value)
    changed[at[0]] = with_part(value[at[0]], at[1:], part)
    return changed


def mutants(message: Message) -> list[bytes]:
    form = msgspec.msgpack.decode(CODEC.encode(message))
    made = []
    for at in leaves(form):
        held = form
        for number in at:
            held = held[number]
        made += [msgspec.msgpack.encode(with_part(form, at, part)) for part in extremes(held)]
    return made


#: What nodes say to each other all the time; the others are in the second test.
RARE = (
    SpreadUp, SpreadInto, SpreadWait, SpreadEnd, SendTo, MultiSendOne, TreeRegister, Find, Join, Send, Down, Leaving,
    NotUnderstood, DirectTry, Hop, *ROSTER_MESSAGES,
)  # fmt: skip
COMMON = {kind for kind in OVERLAY_MESSAGES if kind not in RARE}


class HostileRing:
    """A ring in which every message that arrives is preceded by one made from it, from the same sender."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed=seed, topology=star(0.02), codec=CODEC, serialise=True)
        self.draw = random.Random(seed)
        self.hosts: list[SimHost] = []
        self.nodes: list[OverlayNode] = []
        self.hostile = False
        self.offset = self.draw.randrange(1_000)
        #: By kind: how many were made, and which of them are next; how many got past the decoder, and how many did not.
        self.tried: Counter[str] = Counter()
        self.decoded: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        network: Any = self.world._messages
        arrived = network._arrived

        def precede(flight: Flight) -> None:
            if self.hostile and flight.receiver.alive:
                self.attack(flight)
            arrived(flight)

        network._arrived = precede
        ids = self.world.rng("ids")
        for _ in range(NODES):
            host = self.world.add_host()
            config = OverlayConfig(roster=RosterConfig())
            node = OverlayNode(host.runtime, host.messenger, ids.getrandbits(BITS), config)
            node.spread.on_arrival("census", lambda branch: branch.reply(b"1"))
            node.trees.on_broadcast("news", lambda origin, payload: None)
            if self.nodes:
                node.join([self.hosts[0].address])
            else:
                node.start()
            self.hosts.append(host)
            self.nodes.append(node)
            self.world.run_for(1.0)
        self.world.run_for(20.0)

    def attack(self, flight: Flight) -> None:
        name = name_of(flight.message)
        if self.tried[name] >= TRIED_MAX:
            return
        made = mutants(flight.message)
        first = self.tried[name]
        self.tried[name] += min(len(made), AT_ONCE)
        for number in range(first, self.tried[name]):
            try:
                message = CODEC.decode(made[(number + self.offset) % len(made)])
            except CodecError:
                self.refused[name] += 1
                continue
            self.decoded[name] += 1
            handler = flight.receiver.handlers.get(type(message))
            if handler is not None:
                handler(flight.sender.address, message)

    def about(self, host: SimHost) -> Member:
        """What a liar says of a node to itself."""
        me = self.nodes[self.hosts.index(host)].router.me
        return Member(me.id, me.address, 1, 2)

    def ask_everything(self, number: int) -> list[str]:
        """Begins one of everything that nodes ask of each other; returns the names of what ended."""
        ended: list[str] = []
        rng, nodes = self.draw, self.nodes

        def over(name: str) -> Callable[..., None]:
            return lambda *results: ended.append(name)

        rng.choice(nodes).router.lookup(rng.getrandbits(BITS), over("lookup"))
        puts = [PutObject(Name("t", f"{number}/{n}", "s"), b"v", 60.0) for n in range(5)]
        rng.choice(nodes).dht.put_many(puts, over("put"))
        rng.choice(nodes).dht.get_many([GetObject("t", f"{number}/{n}") for n in range(5)], over("get"))
        renewals = [RenewObject(put.name, 60.0) for put in puts]
        rng.choice(nodes).dht.renew_many(renewals, over("renew"))
        rng.choice(nodes).dht.send_many(puts, over("send"))
        rng.choice(nodes).dht.multi_send(puts, over("multi-send"))
        rng.choice(nodes).trees.broadcast("news", b"news")
        rng.choice(nodes).spread.start("census", b"", over("spread"), combine=lambda a, b: (a + b)[:8])
        return ended


def name_of(message: Message) -> str:
    if isinstance(message, Hop):
        payload = message.payload
        inside = type(payload).__name__ if isinstance(payload, Message) else f"kind {payload[0]}"
        return f"Hop of {inside}"
    return type(message).__name__


@pytest.mark.parametrize("seed", range(4))
def test_a_ring_lives_on_whatever_its_members_send(seed: int) -> None:
    ring = HostileRing(seed)
    ring.hostile = True
    everything: list[list[str]] = []
    for number in range(24):
        if number == 10:
            cut = ring.world.faults.partitions.cut_pairs([(1, 2), (3, 4)])
        if number == 20:
            ring.world.faults.partitions.heal(cut)
        everything.append(ring.ask_everything(number))
        ring.world.run_for(1.0)
    ring.world.run_for(120.0)
    for ended in everything:
        assert sorted(ended) == EVERYTHING
    ring.hostile = False
    ring.world.run_for(120.0)
    ended = ring.ask_everything(100)
    ring.world.run_for(60.0)
    assert sorted(ended) == EVERYTHING
    assert all(node.router.joined for node in ring.nodes)
    assert sum(ring.refused.values()) > 1_000
    assert sum(ring.decoded.values()) > 1_000
    assert {kind for kind in OVERLAY_MESSAGES if ring.tried[kind.__name__]} >= COMMON


def test_kinds_that_are_rarely_sent() -> None:
    """All mutants of each, at a node that takes part in a spread with the sender."""
    ring = HostileRing(9)
    sender, target = ring.nodes[1].router.me, ring.hosts[2]
    item = Item(sender.id, "t", "k", "s", b"v", 1_000)
    member = Member(sender.id, sender.address, 1, 2, tables=("t",))
    for node in ring.nodes:
        node.spread.on_arrival("stays", lambda branch: None)
    held = [ring.nodes[1].spread.start("stays", b"", lambda reply, account: None) for _ in range(3)]
    ring.world.run_for(2.0)
    spread = held[0].spread
    samples: tuple[Message, ...] = (
        SpreadUp(spread, (0, 0), b"up"),
        SpreadInto(spread, (0, 0), b"down"),
        SpreadWait(((spread, (0, 0)),)),
        SpreadEnd(held[1].spread, (0, 0)),
        SendTo((item,)),
        MultiSendOne(1, sender, item, True),
        TreeRegister(0, sender),
        Find(1),
        Join(sender, (sender,)),
        Send(1, (item,)),
        Down(ring.nodes[3].router.me),
        Leaving(sender.id, (sender, ring.nodes[3].router.me)),
        NotUnderstood(5, False),
        DirectTry(),
        RosterAsk(bytes(MARK_BYTES)),
        RosterParts(bytes(BUCKETS * BUCKET_BYTES)),
        RosterMarks(bytes(3), bytes(4 * MARK_BYTES)),
        RosterTell((member, ring.about(target)), bytes(MARK_BYTES)),
        Namesake(1),
    )
    assert {type(sample) for sample in samples} | {Hop} == set(RARE)
    for sample in samples:
        routed = Hop(sender.id, sender, sender.id, 1, 3, True, sample)
        for made in (*mutants(sample), *mutants(routed)):
            try:
                message = CODEC.decode(made)
            except CodecError:
                continue
            handler = target.runtime.handlers.get(type(message))
            if handler is not None:
                handler(sender.address, message)
        ring.world.run_for(0.5)
    ring.world.run_for(60.0)
    ended = ring.ask_everything(1)
    ring.world.run_for(60.0)
    assert sorted(ended) == EVERYTHING
