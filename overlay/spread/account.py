"""Who got a spread message and what became of it: counted in each subtree, added up on the way to the root."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from overlay.spread.messages import NAMED_MAX, NODES_MAX, WireAccount


@dataclass(frozen=True, slots=True)
class Account:
    """Exact for every node that is reached or known to be missing; each node is in one of the last three."""

    #: Nodes that have the message: answered and failed ones.
    received: int = 0
    #: Nodes whose own reply is part of the result, each exactly once.
    answered: int = 0
    #: Nodes that got it and could not answer, or fell silent after they had acknowledged it.
    failed: int = 0
    #: Nodes that were known and never acknowledged it.
    unreachable: int = 0
    #: Parts of the ring given up after repeated repairs, where nobody can say who is there.
    uncovered: int = 0
    #: Their ids, as far as they fit.
    failed_nodes: tuple[bytes, ...] = ()
    unreachable_nodes: tuple[bytes, ...] = ()
    #: Members that the roster expects where nobody was asked: in none of the numbers above.
    absent: int = 0
    absent_nodes: tuple[bytes, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether everybody on the ring has answered. Those that are not on it are another matter."""
        return self.failed == self.unreachable == self.uncovered == 0

    def plus(self, other: Account) -> Account:
        return Account(
            min(NODES_MAX, self.received + other.received),
            min(NODES_MAX, self.answered + other.answered),
            min(NODES_MAX, self.failed + other.failed),
            min(NODES_MAX, self.unreachable + other.unreachable),
            min(NODES_MAX, self.uncovered + other.uncovered),
            (self.failed_nodes + other.failed_nodes)[:NAMED_MAX],
            (self.unreachable_nodes + other.unreachable_nodes)[:NAMED_MAX],
            min(NODES_MAX, self.absent + other.absent),
            (self.absent_nodes + other.absent_nodes)[:NAMED_MAX],
        )

    def to_wire(self) -> WireAccount:
        return WireAccount(
            self.received,
            self.answered,
            self.failed,
            self.unreachable,
            self.uncovered,
            self.failed_nodes,
            self.unreachable_nodes,
            self.absent,
            self.absent_nodes,
        )


NOBODY = Account()


def from_wire(account: WireAccount) -> Account:
    return Account(
        account.received,
        account.answered,
        account.failed,
        account.unreachable,
        account.uncovered,
        account.failed_nodes,
        account.unreachable_nodes,
        account.absent,
        account.absent_nodes,
    )


def missing(node_id: bytes, received: bool) -> Account:
    """The account of one node that is gone."""
    if received:
        return Account(received=1, failed=1, failed_nodes=(node_id,))
    return Account(unreachable=1, unreachable_nodes=(node_id,))


def not_there(node_ids: Sequence[bytes]) -> Account:
    """The account of members that are expected and that nobody asks."""
    return Account(absent=len(node_ids), absent_nodes=tuple(node_ids)[:NAMED_MAX])
