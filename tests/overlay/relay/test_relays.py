"""Messages around broken paths: delivered once, with an honest notice, through nobody who did not agree to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import overlay.relay.carrier as carrier
import overlay.relay.messenger as messenger
from overlay.relay import RELAY_MESSAGES, Relays
from overlay.relay.messages import Relay, RelayAsk, Relayed, RelayNotice, RelayTry
from overlay.relay.paths import IDLE_S, PATHS_MAX, RETRY_MAX_S, Paths
from overlay.relay.seeks import ASKED_MAX, SEEKS_MAX, Seeks
from pier_node.scenario.transport import sealed_transport
from runtime.message import Codec, Message, NotUnderstood
from runtime.rng import Rng
from runtime.sim import SimHost, World, star


class Note(Message, frozen=True, tag=1):
    text: str


class Other(Message, frozen=True, tag=2):
    text: str


CODEC = Codec([Note, Other, NotUnderstood, *RELAY_MESSAGES])


class Hosts:
    """Some hosts, each with relays that may ask all the others."""

    def __init__(self, count: int = 4, packets: bool = False) -> None:
        self.world = World(
            seed=3, topology=star(0.02), codec=CODEC, messenger=sealed_transport(3) if packets else None
        )
        self.hosts: list[SimHost] = [self.world.add_host() for _ in range(count)]
        self.relays = [Relays(host.runtime, host.messenger) for host in self.hosts]
        self.got: list[list[tuple[str, str]]] = [[] for _ in self.hosts]
        for at, relays in enumerate(self.relays):
            relays.on(Note, self.note_at(at))
            others = tuple(host.address for host in self.hosts if host is not self.hosts[at])
            relays.helpers = lambda others=others: others  # type: ignore[misc]

    def note_at(self, at: int) -> Callable[[str, Note], None]:
        return lambda sender, note: self.got[at].append((sender, note.text))

    def address(self, at: int) -> str:
        return self.hosts[at].address

    def send(self, sender: int, to: int, text: str) -> list[bool]:
        told: list[bool] = []
        self.relays[sender].send(self.address(to), Note(text), told.append)
        return told

    def cut(self, *pairs: tuple[int, int]) -> Any:
        return self.world.faults.partitions.cut_pairs(pairs)

    def find(self, sender: int, to: int) -> None:
        """Sends until a path is known."""
        self.send(sender, to, "are you there?")
        self.world.run_for(3.0)
        assert self.relays[sender].statistics().paths == 1

    def relay_of(self, sender: int, to: int) -> int:
        via = self.relays[sender]._paths.by_target[self.address(to)].via
        return next(at for at, host in enumerate(self.hosts) if host.address == via)

    def raw(self, sender: int, to: int, message: Message) -> None:
        """What a member may send, whatever its own relays think of it."""
        self.hosts[sender].messenger.send(self.address(to), message)
        self.world.run_for(0.5)


@pytest.mark.parametrize("packets", [False, True], ids=["messages", "packets"])
def test_a_message_gets_there_once_and_its_sender_is_told(packets: bool) -> None:
    hosts = Hosts(packets=packets)
    hosts.cut((0, 1))
    first = hosts.send(0, 1, "lost")
    hosts.world.run_for(3.0)
    assert first == [False], "as soon as there is another way, and not when the transport gives up"
    told = [hosts.send(0, 1, f"{number}") for number in range(20)]
    hosts.world.run_for(1.0)
    back = hosts.send(1, 0, "back")
    hosts.world.run_for(20.0)
    assert told == [[True]] * 20
    assert back == [True]
    assert sorted(hosts.got[1]) == sorted((hosts.address(0), f"{number}") for number in range(20))
    assert hosts.got[0] == [(hosts.address(1), "back")]
    assert sum(relays.statistics().carried for relays in hosts.relays) >= 21
    assert all(relays.statistics().waiting == 0 for relays in hosts.relays)


def test_a_dead_peer_is_reached_through_nobody() -> None:
    hosts = Hosts()
    hosts.world.crash(hosts.hosts[1])
    told = hosts.send(0, 1, "hello")
    hosts.world.run_for(20.0)
    assert told == [False]
    statistics = hosts.relays[0].statistics()
    assert (statistics.paths, statistics.found) == (0, 0)
    assert statistics.sought > 0


def test_a_peer_that_dies_behind_a_relay_fails_its_messages() -> None:
    hosts = Hosts()
    hosts.cut((0, 1))
    hosts.find(0, 1)
    hosts.world.crash(hosts.hosts[1])
    told = hosts.send(0, 1, "hello")
    hosts.world.run_for(messenger.CALL_S + 5.0)
    assert told == [False]
    assert hosts.relays[0].statistics().paths == 0


def test_a_relay_that_dies_is_replaced_and_what_it_had_fails() -> None:
    hosts = Hosts()
    hosts.cut((0, 1))
    hosts.find(0, 1)
    via = hosts.relay_of(0, 1)
    hosts.world.crash(hosts.hosts[via])
    told = hosts.send(0, 1, "on its way")
    hosts.world.run_for(10.0)
    assert told == [False]
    again = hosts.send(0, 1, "again")
    hosts.world.run_for(5.0)
    assert again == [True]


def test_the_straight_path_is_taken_again() -> None:
    hosts = Hosts()
    cut = hosts.cut((0, 1))
    hosts.find(0, 1)
    hosts.world.faults.partitions.heal(cut)
    for number in range(4):
        hosts.world.run_for(RETRY_MAX_S / 2)
        hosts.send(0, 1, f"{number}")
        hosts.send(1, 0, f"{number}")
    hosts.world.run_for(5.0)
    assert [relays.statistics().paths for relays in hosts.relays[:2]] == [0, 0]
    assert hosts.relays[0].statistics().straightened == 1


def test_a_peer_that_answers_slowly_is_not_sent_around() -> None:
    hosts = Hosts()
    hosts.hosts[1].lag_s = 2.0
    for _ in range(10):
        hosts.send(0, 1, "slow")
        hosts.world.run_for(0.7)
    hosts.world.run_for(10.0)
    assert len(hosts.got[1]) == 10
    assert hosts.relays[0].statistics().sent == 0


def test_a_relay_serves_only_pairs_of_which_one_answered() -> None:
    hosts = Hosts()
    payload = CODEC.encode(Note("through you"))
    hosts.raw(0, 2, Relay(7, hosts.address(1), payload))
    assert hosts.got[1] == []
    assert hosts.relays[2].statistics().refused_unknown == 1
    # Nor does it speak to itself, or go on through another.
    hosts.raw(0, 2, RelayAsk(1, hosts.address(2)))
    hosts.raw(0, 2, RelayAsk(1, hosts.address(0)))
    assert hosts.relays[2].statistics().refused_tries == 2
    # A relayed message holds no message to a relay.
    inner = CODEC.encode(Relay(1, hosts.address(3), payload))
    hosts.raw(2, 1, Relayed(hosts.address(0), inner))
    assert hosts.relays[1].statistics().not_understood == 1
    assert hosts.relays[3].statistics().received == 0


def test_strangers_are_sent_one_small_message_for_each_question_and_few_at_a_time() -> None:
    hosts = Hosts()
    before = hosts.hosts[2].counters.messages_out
    for number in range(3 * carrier.TRIES_EACH_MAX):
        hosts.hosts[0].messenger.send(hosts.address(2), RelayAsk(number, f"192.0.2.1:{number}"))
    hosts.world.run_for(1.0)
    assert hosts.hosts[2].counters.messages_out - before == carrier.TRIES_EACH_MAX
    assert hosts.relays[2].statistics().refused_tries == 2 * carrier.TRIES_EACH_MAX
    asked, tried = RelayAsk(1, "192.0.2.1:1"), RelayTry(1 << 48, hosts.address(0))
    assert len(CODEC.encode(tried)) <= len(CODEC.encode(asked)) + 20


def test_a_relay_carries_so_much_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = Hosts()
    hosts.cut((0, 1))
    hosts.find(0, 1)
    monkeypatch.setattr(carrier, "CARRYING_BYTES_MAX", 1_000)
    told = [hosts.send(0, 1, "x" * 400) for _ in range(10)]
    hosts.world.run_for(10.0)
    assert sorted(each for one in told for each in one) == [False] * 8 + [True] * 2
    refused = sum(relays.statistics().refused_load for relays in hosts.relays)
    assert refused >= 1
    assert all(relays.statistics().carrying_bytes == 0 for relays in hosts.relays)


def test_a_revoked_node_gets_nowhere_through_others() -> None:
    """Its relay has not got the list yet; the node at the other end has."""
    hosts = Hosts(packets=True)
    hosts.cut((0, 1))
    hosts.find(0, 1)
    target: Any = hosts.hosts[1].messenger
    helper: Any = hosts.hosts[hosts.relay_of(0, 1)].messenger
    revoked = helper.peer_id(hosts.address(0))
    assert revoked is not None
    target.revoke(frozenset([revoked]))
    before = len(hosts.got[1])
    hosts.send(0, 1, "let me in")
    hosts.world.run_for(10.0)
    assert len(hosts.got[1]) == before
    assert hosts.relays[1].statistics().refused_revoked > 0


def test_what_came_around_and_is_not_understood_is_told_once() -> None:
    hosts = Hosts()
    hosts.cut((0, 1))
    hosts.find(0, 1)
    hosts.relays[0].send(hosts.address(1), Other("?"))
    hosts.world.run_for(5.0)
    assert hosts.relays[1].statistics().not_understood == 1
    assert hosts.relays[0].statistics().not_understood == 1, "the word of it came back, and was not answered"


def test_a_notice_from_somebody_else_settles_nothing() -> None:
    hosts = Hosts()
    hosts.cut((0, 1))
    hosts.find(0, 1)
    via = hosts.relay_of(0, 1)
    other = 5 - via
    told = hosts.send(0, 1, "hello")
    for call in range(hosts.relays[0]._call - 2, hosts.relays[0]._call + 2):
        hosts.hosts[other].messenger.send(
            hosts.address(0), RelayNotice(max(0, call), hosts.address(1), False)
        )
    hosts.world.run_for(5.0)
    assert told == [True]


def test_tables_are_bounded() -> None:
    paths = Paths()
    for number in range(2 * PATHS_MAX):
        assert paths.learn(f"10.0.0.1:{number}", "10.0.0.2:1", 0.0) is not None
    assert len(paths.by_target) == PATHS_MAX
    assert paths.learn("10.0.0.3:1", f"10.0.0.1:{2 * PATHS_MAX - 1}", 0.0) is None, "a path of two steps"
    assert paths.get(f"10.0.0.1:{2 * PATHS_MAX - 1}", IDLE_S) is None, "forgotten"
    seeks = Seeks(Rng.from_label(1, "seeks"))
    for number in range(2 * SEEKS_MAX):
        seeks.of(f"10.0.0.1:{number}", 0.0)
    assert len(seeks) == SEEKS_MAX
    seek = seeks.of("10.0.0.1:0", 0.0)
    assert seek is not None
    helpers = [f"10.0.0.2:{number}" for number in range(100)]
    rng = Rng.from_label(1, "helpers")
    assert sum(len(seek.choose(rng, helpers)) for _ in range(10)) == ASKED_MAX
