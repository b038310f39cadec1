"""Spreads over the perfect router: exactly once, at the cost of a tree; accounts that hold when nodes die."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.ring import MASK, SPACE, WHOLE, Arc
from overlay.spread.account import Account
from overlay.spread.below import DECIDED_S, GIVEN_UP_S
from overlay.spread.branch import Branch, Ended, Event, ParentChanged
from overlay.spread.liveness import ABANDONED_AFTER_S, FINISHED_KEEP_S, WAIT_PERIOD_S
from overlay.spread.messages import SPREAD_MESSAGES
from tests.overlay.rings import Node, Ring


class Party:
    """Every node notes each arrival and answers with its own id; replies are joined."""

    def __init__(self, count: int, *, delay_s: float = 0.0, seed: int = 1) -> None:
        self.ring = Ring(count, seed=seed)
        self.arrivals: dict[int, int] = {}
        self.events: list[tuple[int, Event]] = []
        self.branches: dict[int, Branch] = {}
        self.delay_s = delay_s
        for node in self.ring.nodes:
            self.listen(node)
        # The objects' own messages about arcs that came to their owners.
        self.ring.world.run_for(1.0)

    def listen(self, node: Node) -> None:
        def arrived(branch: Branch) -> None:
            self.arrivals[node.id] = self.arrivals.get(node.id, 0) + 1
            self.branches[node.id] = branch
            branch.combine = lambda a, b: a + b
            branch.on_event = lambda event: self.events.append((node.id, event))
            own = node.id.to_bytes(20, "big")
            if self.delay_s:
                node.runtime.call_later(self.delay_s, branch.reply, own)
            else:
                branch.reply(own)

        node.spread.on_arrival("census", arrived)

    def ask(self, root: Node, arc: Arc = WHOLE, within_s: float = 120.0) -> tuple[list[int], Account]:
        results: list[tuple[bytes | None, Account]] = []
        self.begin(root, results, arc)
        until = self.ring.world.now + within_s
        while not results and self.ring.world.now < until:
            self.ring.world.run_for(0.05)
        return self.read(results)

    def begin(self, root: Node, results: list[tuple[bytes | None, Account]], arc: Arc = WHOLE) -> Branch:
        return root.spread.start(
            "census",
            b"who is there",
            lambda reply, account: results.append((reply, account)),
            arc=arc,
            combine=lambda a, b: a + b,
        )

    def read(self, results: list[tuple[bytes | None, Account]]) -> tuple[list[int], Account]:
        assert len(results) == 1, "the end comes once"
        reply, account = results[0]
        reply = reply or b""
        return sorted(int.from_bytes(reply[at : at + 20], "big") for at in range(0, len(reply), 20)), account

    def messages(self) -> int:
        return self.ring.world.statistics().messages_out

    def alive(self) -> list[int]:
        return sorted(node.id for node in self.ring.nodes)


@pytest.mark.parametrize("count", [1, 2, 3, 17, 150])
def test_the_whole_ring_exactly_once_for_n_minus_one_messages_each_way(count: int) -> None:
    party = Party(count)
    before = party.messages()
    replies, account = party.ask(party.ring.nodes[count // 2])
    assert replies == party.alive()
    assert account == Account(received=count, answered=count)
    assert party.arrivals == dict.fromkeys(party.alive(), 1)
    assert party.messages() - before == 2 * (count - 1)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, SPACE - 1), st.integers(0, SPACE - 1), st.integers(0, 19))
def test_an_interval_reaches_exactly_the_owners_of_its_ids(start: int, end: int, root: int) -> None:
    party = Party(20)
    arc = Arc(start, end)
    owners = [node.id for node in party.ring.nodes if overlaps(node.router.arc(), arc)]
    replies, account = party.ask(party.ring.nodes[root], arc)
    assert replies == sorted(owners)
    assert account == Account(received=len(owners), answered=len(owners))


def overlaps(a: Arc, b: Arc) -> bool:
    return a.contains(b.start) or b.contains(a.start)


def test_a_point_reaches_its_owner() -> None:
    party = Party(20)
    key = party.ring.nodes[11].id + 99
    replies, account = party.ask(party.ring.nodes[0], Arc(key, (key + 1) & MASK))
    assert replies == [party.ring.nodes[11].id]
    assert account == Account(received=1, answered=1)


def test_nearly_the_whole_ring_by_an_interval_within_one_owner() -> None:
    party = Party(12)
    key = party.ring.nodes[3].id
    replies, _ = party.ask(party.ring.nodes[3], Arc(key + 5, key + 4))
    assert replies == party.alive()


def test_a_node_without_handler_or_that_fails_is_named() -> None:
    party = Party(9)
    deaf, failing = party.ring.nodes[4], party.ring.nodes[6]
    deaf.spread._handlers.clear()
    failing.spread.on_arrival("census", lambda branch: branch.fail())
    replies, account = party.ask(party.ring.nodes[0])
    assert len(replies) == 7
    assert (account.received, account.answered, account.failed) == (9, 7, 2)
    assert set(account.failed_nodes) == {deaf.router.me.id, failing.router.me.id}
    assert not account.complete


def test_a_child_dead_from_the_start_is_unreachable_and_what_lies_behind_it_is_reached() -> None:
    party = Party(60)
    root = party.ring.nodes[0]
    victims = [
        node for node in party.ring.nodes if node.router.me in [n for n, _ in root.router.split(WHOLE)]
    ]
    dead = victims[2]
    party.ring.kill(dead, noticed=False)
    results: list[tuple[bytes | None, Account]] = []
    party.begin(root, results)
    party.ring.world.run_for(1.0)
    party.ring.notice(dead)
    party.ring.world.run_for(60.0)
    replies, account = party.read(results)
    assert replies == party.alive()
    assert party.arrivals == dict.fromkeys(party.alive(), 1)
    assert account == Account(received=59, answered=59, unreachable=1, unreachable_nodes=(dead.router.me.id,))


def test_inner_nodes_that_die_at_work_are_replaced_and_nobody_is_counted_twice() -> None:
    party = Party(80, delay_s=20.0)
    root = party.ring.nodes[0]
    results: list[tuple[bytes | None, Account]] = []
    party.begin(root, results)
    party.ring.world.run_for(2.0)
    inner = [node for node in party.ring.nodes if node is not root and party.branches[node.id].children]
    for node in inner[:4]:
        party.ring.kill(node)
        party.ring.world.run_for(1.0)
    party.ring.world.run_for(60.0)
    replies, account = party.read(results)
    assert replies == party.alive(), "every living node, each once"
    assert party.arrivals == dict.fromkeys([*party.alive(), *(node.id for node in inner[:4])], 1)
    # Who had the message from a parent that died too cannot be told from one that never got it.
    assert (account.answered, account.failed + account.unreachable) == (76, 4)
    assert account.failed > 0
    missed = {*account.failed_nodes, *account.unreachable_nodes}
    assert missed == {node.router.me.id for node in inner[:4]}
    assert any(isinstance(event, ParentChanged) for _, event in party.events)


def test_a_node_wrongly_suspected_is_still_counted_once() -> None:
    party = Party(40, delay_s=10.0)
    root = party.ring.nodes[0]
    results: list[tuple[bytes | None, Account]] = []
    party.begin(root, results)
    party.ring.world.run_for(1.0)
    for child in party.branches[root.id].children[:3]:
        root.router.suspects(child)
    party.ring.world.run_for(30.0)
    replies, account = party.read(results)
    assert replies == party.alive()
    assert account == Account(received=40, answered=40)
    assert party.arrivals == dict.fromkeys(party.alive(), 1)


def test_a_node_given_up_moments_ago_is_not_waited_for_again() -> None:
    party = Party(30)
    root, dead = party.ring.nodes[0], party.ring.nodes[7]
    party.ring.kill(dead)
    took = []
    for _ in range(2):
        began = party.ring.world.now
        replies, account = party.ask(root)
        took.append(party.ring.world.now - began)
        assert replies == party.alive()
        assert account == Account(
            received=29, answered=29, unreachable=1, unreachable_nodes=(dead.router.me.id,)
        )
    assert DECIDED_S <= took[0] < DECIDED_S + 1.0
    assert took[1] < 1.0


def test_a_node_that_was_given_up_and_is_back_answers_again() -> None:
    party = Party(30)
    root, away = party.ring.nodes[0], party.ring.nodes[7]
    cut = party.ring.world.faults.partitions.cut(
        {away.host.index}, {node.host.index for node in party.ring.nodes if node is not away}
    )
    others = [node for node in party.ring.nodes if node is not away]
    for node in others:
        node.router.suspects(away.router.me)
    assert party.ask(root)[1].unreachable == 1
    party.ring.world.faults.partitions.heal(cut)
    # The routers do not know yet that it is back: after a while it is asked all the same.
    party.ring.world.run_for(GIVEN_UP_S)
    assert party.ask(root) == (party.alive(), Account(received=30, answered=30))
    for node in others:
        node.router.silent.clear()
    assert party.ask(root) == (party.alive(), Account(received=30, answered=30))


def test_a_node_that_forgot_is_found_out_by_waiting() -> None:
    party = Party(20, delay_s=30.0)
    root = party.ring.nodes[0]
    results: list[tuple[bytes | None, Account]] = []
    party.begin(root, results)
    party.ring.world.run_for(1.0)
    forgetful = next(n for n in party.ring.nodes if n.router.me == party.branches[root.id].children[1])
    forgetful.spread._branches.clear()
    party.ring.world.run_for(WAIT_PERIOD_S + 60.0)
    replies, account = party.read(results)
    assert replies == party.alive()
    assert (account.answered, account.failed) == (20, 0)


def test_when_the_root_dies_everybody_lets_go() -> None:
    party = Party(30, delay_s=1e6)
    party.begin(party.ring.nodes[0], [])
    party.ring.world.run_for(2.0)
    party.ring.kill(party.ring.nodes[0])
    party.ring.world.run_for(2 * ABANDONED_AFTER_S + 3 * WAIT_PERIOD_S)
    assert [node.spread.statistics().open for node in party.ring.nodes] == [0] * 29
    ended = [at for at, event in party.events if isinstance(event, Ended)]
    assert sorted(ended) == party.alive()


def test_cancelling_ends_it_everywhere_and_finished_state_goes() -> None:
    party = Party(30, delay_s=1e6)
    branch = party.begin(party.ring.nodes[0], [])
    party.ring.world.run_for(2.0)
    branch.cancel()
    party.ring.world.run_for(2.0)
    assert all(node.spread.statistics().open == 0 for node in party.ring.nodes)
    party.delay_s = 0.0
    party.ask(party.ring.nodes[1])
    assert any(node.spread.statistics().remembered for node in party.ring.nodes)
    party.ring.world.run_for(FINISHED_KEEP_S + 3 * WAIT_PERIOD_S)
    assert not any(node.spread.statistics().remembered for node in party.ring.nodes)


def test_a_spread_that_is_concluded_says_who_had_not_answered() -> None:
    party = Party(30)
    root = party.ring.nodes[0]
    results: list[tuple[bytes | None, Account]] = []
    slow = party.ring.nodes[11]
    slow.spread.on_arrival("census", lambda branch: None)
    branch = party.begin(root, results)
    party.ring.world.run_for(5.0)
    assert not results
    branch.conclude()
    party.ring.world.run_for(5.0)
    replies, account = party.read(results)
    assert (account.failed, account.uncovered) == (1, 1)
    assert account.answered == len(replies) == len(set(replies)) > 10
    assert account.failed_nodes[0] in [child.id for child in party.branches[root.id].children]
    assert all(node.spread.statistics().open == 0 for node in party.ring.nodes)


def test_bodies_travel_along_the_edges() -> None:
    party = Party(25, delay_s=50.0)
    root = party.ring.nodes[0]
    party.begin(root, [])
    party.ring.world.run_for(2.0)
    heard_up: list[bytes] = []
    heard_down: list[int] = []
    for node in party.ring.nodes:
        branch = party.branches[node.id]

        def passed_up(child: object, body: bytes, branch: Branch = branch) -> None:
            if branch.is_root:
                heard_up.append(body)
            else:
                branch.send_up(body)

        def passed_down(body: bytes, branch: Branch = branch, at: int = node.id) -> None:
            heard_down.append(at)
            branch.send_down(body)

        branch.on_up = passed_up
        branch.on_down = passed_down
    for node in party.ring.nodes:
        party.branches[node.id].send_up(b"from %d" % node.id)
    party.branches[root.id].send_down(b"hello")
    party.ring.world.run_for(5.0)
    assert sorted(heard_up) == sorted(b"from %d" % at for at in party.alive())
    assert sorted(heard_down) == [at for at in party.alive() if at != root.id]


def test_renewing_a_spread_reaches_newcomers_and_disturbs_nobody() -> None:
    party = Party(15, delay_s=40.0)
    root = party.ring.nodes[0]
    results: list[tuple[bytes | None, Account]] = []
    branch = party.begin(root, results)
    party.ring.world.run_for(2.0)
    newcomer = party.ring.make(root.id + 12345)
    party.ring.nodes.append(newcomer)
    party.listen(newcomer)
    newcomer.router.start()
    root.spread.renew(branch)
    party.ring.world.run_for(60.0)
    replies, account = party.read(results)
    assert replies == party.alive() and len(replies) == 16
    assert account == Account(received=16, answered=16)
    assert party.arrivals == dict.fromkeys(party.alive(), 1)


def test_tags_are_ours() -> None:
    assert all(70 <= int(str(kind.__struct_config__.tag)) < 90 for kind in SPREAD_MESSAGES)
