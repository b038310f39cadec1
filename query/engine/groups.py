"""Which node holds which partition group of a query: decided once, at its start, by the proxy (docs/decisions/0011).

The owners of the groups' ids are looked up on the ring. Arcs are of very different lengths, so the groups are then
shared out evenly among the owners found, and stay where they are for the whole query, whatever the ring does
meanwhile. So rows of one group always meet at one node: a node that joins or leaves during a query can make rows go
missing, which the account tells, but never makes two halves of one group look like two.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial

from overlay.ring import Arc, from_wire, routing_id
from overlay.router import Owner, Router
from runtime.api import Address

#: Lookups under way at once; each finds the owner of all groups in its arc.
LOOKUPS_MAX = 64
#: Lookups that may fail before the query is given up: the ring is not in a state to answer.
FAILURES_MAX = 8
#: Nodes of a ring that is small: all of them take part, also those in whose arcs no group happens to lie.
SMALL_NODES = 32


class GroupOwners:
    """Finds the owners of all groups of one query."""

    def __init__(
        self,
        router: Router,
        query_id: str,
        groups: int,
        done: Callable[[tuple[Address, ...], tuple[int, ...]], None],
        failed: Callable[[], None],
        owner_of: Callable[[int], Address] | None = None,
    ) -> None:
        """`done` gets the owners' addresses, and for each group which of them it is. `owner_of` spares the lookups."""
        self._router = router
        self._done = done
        self._failed = failed
        self._keys = [routing_id(f"pier.q.{query_id}", str(group)) for group in range(groups)]
        self._owner_of: list[Address | None] = [
            None if owner_of is None else owner_of(key) for key in self._keys
        ]
        #: Groups without an owner: those nobody was asked for yet, and all of them in the order of their keys.
        self._waiting: dict[int, None] = {}
        self._open: list[tuple[int, int]] = []
        self._asked: set[int] = set()
        #: What is known of who owns what.
        self._arcs: dict[Address, Arc] = {}
        self._failures = 0
        self._over = False
        self._without_lookups = owner_of is not None

    def start(self) -> None:
        me = self._router.me
        if not self._without_lookups:
            self._arcs[me.address] = self._router.arc()
            self._meet_neighbours()
        for group, key in enumerate(self._keys):
            if self._owner_of[group] is None:
                if self._router.owns(key):
                    self._owner_of[group] = me.address
                else:
                    self._waiting[group] = None
        self._open = sorted((self._keys[group], group) for group in self._waiting)
        self._go_on()

    def _meet_neighbours(self) -> None:
        """In a small ring the neighbours are looked up beside the groups: one whose short arc has no group can take its
        share all the same, and rows that stay where they are need not leave it. Who has not answered by then is left
        out."""
        neighbours = [each.node for each in self._router.neighbours() if each.role != "suspect"]
        if len(neighbours) < min(SMALL_NODES, len(self._keys)):
            for node in neighbours:
                self._router.lookup(from_wire(node.id), self._met)

    def _met(self, found: Owner | None) -> None:
        if found is not None:
            self._arcs[found.node.address] = found.arc

    def _go_on(self) -> None:
        if self._over:
            return
        if not self._open:
            self._tell()
            return
        while self._waiting and len(self._asked) < LOOKUPS_MAX and not self._over:
            group = next(iter(self._waiting))
            del self._waiting[group]
            self._asked.add(group)
            self._router.lookup(self._keys[group], partial(self._found, group))

    def _found(self, asked: int, found: Owner | None) -> None:
        self._asked.discard(asked)
        if found is None:
            if self._owner_of[asked] is None:
                self._waiting = {asked: None, **self._waiting}
            self._failures += 1
            if self._failures > FAILURES_MAX and not self._over:
                self._over = True
                self._failed()
        else:
            self._arcs[found.node.address] = found.arc
            self._settle(self._within(found.arc, asked), found.node.address)
        self._go_on()

    def _within(self, arc: Arc, asked: int) -> list[int]:
        """Groups without an owner whose keys lie in an arc, and the one asked for."""
        first, last = bisect_left(self._open, (arc.start,)), bisect_left(self._open, (arc.end,))
        found = self._open[first:last] if arc.start < arc.end else self._open[first:] + self._open[:last]
        groups = [group for _, group in found]
        return groups if asked in groups or self._owner_of[asked] is not None else [*groups, asked]

    def _settle(self, groups: list[int], owner: Address) -> None:
        for group in groups:
            self._owner_of[group] = owner
            self._waiting.pop(group, None)
        gone = set(groups)
        self._open = [each for each in self._open if each[1] not in gone]

    def _tell(self) -> None:
        self._over = True
        addresses = [address for address in self._owner_of if address is not None]
        more = self._arcs if len(self._arcs) <= min(SMALL_NODES, len(self._keys)) else {}
        owners = tuple(dict.fromkeys((*addresses, *more)))
        index = {address: at for at, address in enumerate(owners)}
        self._done(owners, shared_out([index[address] for address in addresses], len(owners)))


def shared_out(owner_of: Sequence[int], owners: int) -> tuple[int, ...]:
    """For each group its owner, none with more than an even share: what one has beyond it goes to those with less."""
    share = -(-len(owner_of) // owners)
    counts = [0] * owners
    given: list[int | None] = []
    for owner in owner_of:
        fits = counts[owner] < share
        counts[owner] += fits
        given.append(owner if fits else None)
    room = (owner for owner in range(owners) for _ in range(share - counts[owner]))
    return tuple(next(room) if owner is None else owner for owner in given)
