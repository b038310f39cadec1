"""Spreads over the whole ring, one after another, and an outside check of each account.

Every node answers with the number of its life. When the root is told the end, the world is compared with it:
who got the message and how often, who lived all the while, who is dead. A tree of soft state may be asked to
broadcast the same beside it, for comparison.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from overlay.spread.account import Account
from overlay.spread.branch import Branch
from overlay.stack import OVERLAY_MESSAGES, OverlayConfig
from pier_node.scenario.form import Form, NotNegative, Positive
from pier_node.scenario.overlay_nodes import Life, OverlayNodes
from pier_node.scenario.sample import Sample
from pier_node.scenario.workload import Workload, register_workload
from runtime.sim import SimHost, World

#: Bytes of a life's number in a reply.
NUMBER_BYTES = 4


class BroadcastForm(Form, frozen=True):
    #: Quiet time between the last arrival and the first spread, for the ring to settle.
    settle_s: NotNegative = 30.0
    period_s: Positive = 10.0
    #: How long each node works on its answer.
    work_s: NotNegative = 0.0
    payload_bytes: NotNegative = 200
    #: Broadcast by distribution trees too, by so many at once; none by default.
    trees: int = 0


@dataclass(slots=True)
class _Spread:
    """One spread as the outside sees it."""

    root: Life
    started_at: float
    #: Members when it began.
    members: list[Life]
    arrivals: dict[int, int] = field(default_factory=dict)
    ended_at: float | None = None


@register_workload("broadcast")
class Broadcast(Workload[BroadcastForm]):
    form = BroadcastForm
    messages = OVERLAY_MESSAGES

    def __init__(self, world: World, form: BroadcastForm) -> None:
        super().__init__(world, form)
        self._nodes = OverlayNodes(world, OverlayConfig(in_trees=form.trees > 0), world.rng("nodes"))
        self._rng = world.rng("broadcast")
        self._running = True
        self._spreads: dict[bytes, _Spread] = {}
        self._duration_s = Sample(world.rng("duration sample"))
        self._finished = self._root_died = 0
        self._members = self._answered = self._failed = self._unreachable = self._uncovered = 0
        self._missed: list[str] = []
        self._wrong: list[str] = []
        self._tree_heard: list[dict[int, int]] = []
        self._tree_members: list[list[Life]] = []
        #: What nodes had sent down before the first spread of this workload: a ring that forms has some of its own.
        self._sent_before = 0

    def build(self, host: SimHost) -> None:
        life = self._nodes.build(host)
        life.node.spread.on_arrival("census", lambda branch: self._arrived(life, branch))
        life.node.trees.on_broadcast("news", lambda _, payload: self._heard(life, payload))

    def start(self) -> None:
        self.world.call_at(self.world.now + self.form_values.settle_s, self._begin, None)

    def stop(self) -> None:
        self._running = False

    # --- one spread ----------------------------------------------------------------------------------------------

    def _begin(self, _: None) -> None:
        if not self._running:
            return
        members = self._nodes.members()
        if not self._spreads:
            self._sent_before = self._sent_down()
        root = self._rng.choice(members)
        payload = bytes(int(self.form_values.payload_bytes))
        branch = root.node.spread.start(
            "census",
            payload,
            lambda reply, account: self._ended(branch.spread, reply or b"", account),
            combine=lambda a, b: a + b,
        )
        self._spreads[branch.spread] = _Spread(root, self.world.now, members)
        if self.form_values.trees:
            number = len(self._tree_heard)
            self._tree_heard.append({})
            self._tree_members.append(members)
            root.node.trees.broadcast("news", number.to_bytes(4, "big"), trees=self.form_values.trees)
        self.world.call_at(self.world.now + self.form_values.period_s, self._begin, None)

    def _arrived(self, life: Life, branch: Branch) -> None:
        spread = self._spreads[branch.spread]
        spread.arrivals[life.number] = spread.arrivals.get(life.number, 0) + 1
        branch.combine = lambda a, b: a + b
        own = life.number.to_bytes(NUMBER_BYTES, "big")
        life.node.runtime.call_later(self.form_values.work_s, branch.reply, own)

    def _ended(self, spread_id: bytes, reply: bytes, account: Account) -> None:
        spread = self._spreads[spread_id]
        assert spread.ended_at is None, "a spread ends once"
        spread.ended_at = self.world.now
        self._finished += 1
        self._duration_s.add(self.world.now - spread.started_at)
        numbers = [
            int.from_bytes(reply[at : at + NUMBER_BYTES], "big") for at in range(0, len(reply), NUMBER_BYTES)
        ]
        self._members += len(spread.members)
        self._answered += account.answered
        self._failed += account.failed
        self._unreachable += account.unreachable
        self._uncovered += account.uncovered
        self._compare(spread, numbers, account)

    def _compare(self, spread: _Spread, numbers: list[int], account: Account) -> None:
        """The account against the world."""
        at = f"at {spread.started_at:.1f} s"
        lives = self._nodes.lives
        answered = dict.fromkeys(numbers)
        if len(answered) != len(numbers) or len(numbers) != account.answered:
            self._wrong.append(
                f"{at}: {len(numbers)} answers of {len(answered)} nodes, {account.answered} counted"
            )
        if account.received != account.answered + account.failed:
            self._wrong.append(f"{at}: {account.received} received is not answered and failed")
        for number, count in spread.arrivals.items():
            if count > 1:
                self._wrong.append(f"{at}: life {number} got it {count} times")
            if lives[number].alive and number not in answered:
                self._wrong.append(f"{at}: life {number} has it and lives, but is not in the account")
        by_id = {lives[number].node.router.me.id for number in answered}
        for node in (*account.failed_nodes, *account.unreachable_nodes):
            if node in by_id:
                self._wrong.append(f"{at}: {node.hex()[:8]} is counted as answered and as missing")
        for life in spread.members:
            if life.alive and life.number not in answered:
                self._missed.append(f"{at}: life {life.number} was a member all the while and did not get it")

    def _heard(self, life: Life, payload: bytes) -> None:
        heard = self._tree_heard[int.from_bytes(payload, "big")]
        heard[life.number] = heard.get(life.number, 0) + 1

    def _sent_down(self) -> int:
        return sum(life.node.spread.statistics().children for life in self._nodes.lives)

    # --- figures -------------------------------------------------------------------------------------------------

    def figures(self) -> Mapping[str, Any]:
        nodes = [life.node.spread.statistics() for life in self._nodes.lives]
        unfinished = [spread for spread in self._spreads.values() if spread.ended_at is None]
        lost = sum(1 for spread in unfinished if not spread.root.alive)
        figures: dict[str, Any] = {
            "spreads": len(self._spreads),
            "finished": self._finished,
            "root_died": lost,
            "unfinished": len(unfinished) - lost,
            "members": self._members,
            "answered": self._answered,
            "failed": self._failed,
            "unreachable": self._unreachable,
            "uncovered": self._uncovered,
            "missed": len(self._missed),
            "wrong": len(self._wrong),
            "messages_down": self._sent_down() - self._sent_before,
            "messages_down_least": self._answered + self._failed - self._finished,
            "children_lost": sum(each.children_lost for each in nodes),
            "rebuilt": sum(each.rebuilt for each in nodes),
            "open_at_the_end": sum(life.node.spread.statistics().open for life in self._nodes.living()),
            "duration_s": self._duration_s.figures(),
        }
        if self.form_values.trees:
            figures["trees"] = self._tree_figures()
        return figures

    def _tree_figures(self) -> dict[str, int]:
        asked = missed = 0
        for heard, members in zip(self._tree_heard, self._tree_members, strict=True):
            living = [life for life in members if life.alive]
            asked += len(living)
            missed += sum(1 for life in living if life.number not in heard)
        nodes = [life.node.trees.statistics() for life in self._nodes.lives]
        return {
            "expected": asked,
            "missed": missed,
            "duplicates": sum(each.duplicates for each in nodes),
            "missed_by_gaps": sum(each.missed for each in nodes),
        }

    def check(self) -> list[str]:
        return self._wrong[:20]
