"""Kills, starts, goodbyes, retirements and partitions at random, with a judge who knows who is where."""

from __future__ import annotations

import pytest

from overlay.ring import to_wire
from overlay.roster.member import Standing
from tests.overlay.roster.rings import Ring, hosts_of, roster_of

NODES = 14


class Judge:
    def __init__(self, seed: int) -> None:
        self.ring = Ring(NODES, seed=seed)
        self.rng = self.ring.world.rng("faults")
        self.up = set(range(NODES))
        self.dropped: set[int] = set()

    def asker(self) -> int:
        return min(self.up)

    def look(self) -> None:
        """Everybody is in exactly one place of the account, whatever the ring is going through."""
        account = self.ring.spread(self.asker())
        missing = account.failed + account.unreachable
        expected = NODES - len(self.dropped)
        assert account.uncovered == 0
        assert account.answered == len(self.up), account
        assert account.answered + missing + account.absent == expected, (account, self.up, self.dropped)

    def kill(self) -> None:
        if len(self.up) > NODES // 2:
            victim = self.rng.choice(sorted(self.up - {self.asker()}))
            self.ring.crash(victim)
            self.up.discard(victim)

    def leave(self) -> None:
        if len(self.up) > NODES // 2:
            leaver = self.rng.choice(sorted(self.up - {self.asker()}))
            self.ring.call(lambda done: self.ring.nodes[leaver].leave(lambda: done(None)))
            self.ring.world.run_for(1.0)
            self.ring.crash(leaver)
            self.up.discard(leaver)
            self.dropped.add(leaver)

    def start(self) -> None:
        away = sorted(set(range(NODES)) - self.up)
        if away:
            back = self.rng.choice(away)
            node = self.ring.again(back, through=self.asker())
            while not node.router.joined:
                self.ring.world.run_for(0.1)
            self.ring.world.run_for(2.0)
            self.up.add(back)
            self.dropped.discard(back)

    def retire(self) -> None:
        lost = sorted(set(range(NODES)) - self.up - self.dropped)
        if lost:
            each = self.rng.choice(lost)
            self.ring.world.run_for(20.0)
            roster = roster_of(self.ring.nodes[self.asker()])
            self.ring.call(lambda done: roster.retire(to_wire(self.ring.ids[each]), done))
            self.dropped.add(each)


@pytest.mark.parametrize("seed", range(1, 7))
def test_nobody_is_lost_without_a_word(seed: int) -> None:
    judge = Judge(seed)
    judge.look()
    for _ in range(12):
        judge.rng.choice((judge.kill, judge.kill, judge.leave, judge.start, judge.start, judge.retire))()
        for _ in range(4):
            judge.look()
            judge.ring.world.run_for(judge.rng.uniform(0.0, 4.0))
    judge.ring.world.run_for(90.0)
    expected = {f"host-{number}" for number in range(NODES) if number not in judge.dropped}
    for number in judge.up:
        node = judge.ring.nodes[number]
        assert hosts_of(node) == expected
        here = {kept.member.host for kept in roster_of(node).book if kept.member.standing is Standing.HERE}
        assert here == {f"host-{number}" for number in judge.up}
