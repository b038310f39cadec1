"""Which node holds which partition group of a query: decided once, at its start, by the proxy (DESIGN D7).

The owner of a group is looked up on the ring, and then stays the same for the whole query, whatever the ring does
meanwhile. So rows of one group always meet at one node: a node that joins or leaves during a query can make rows go
missing, which the account tells, but never makes two halves of one group look like two.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from overlay.ring import routing_id
from overlay.router import Owner, Router
from runtime.api import Address

#: Lookups under way at once; each finds the owner of all groups in its arc.
LOOKUPS_MAX = 64
#: Lookups that may fail before the query is given up: the ring is not in a state to answer.
FAILURES_MAX = 8


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
        self._asked: set[int] = set()
        self._failures = 0
        self._over = False

    def start(self) -> None:
        me = self._router.me
        for group, key in enumerate(self._keys):
            if self._owner_of[group] is None and self._router.owns(key):
                self._owner_of[group] = me.address
        self._go_on()

    def _go_on(self) -> None:
        if self._over:
            return
        if None not in self._owner_of:
            self._over = True
            self._tell()
            return
        for group, owner in enumerate(self._owner_of):
            if len(self._asked) >= LOOKUPS_MAX:
                return
            if owner is None and group not in self._asked:
                self._asked.add(group)
                self._router.lookup(self._keys[group], partial(self._found, group))

    def _found(self, asked: int, found: Owner | None) -> None:
        self._asked.discard(asked)
        if found is None:
            self._failures += 1
            if self._failures > FAILURES_MAX and not self._over:
                self._over = True
                self._failed()
        else:
            for group, key in enumerate(self._keys):
                if self._owner_of[group] is None and (group == asked or found.arc.contains(key)):
                    self._owner_of[group] = found.node.address
        self._go_on()

    def _tell(self) -> None:
        addresses = [address for address in self._owner_of if address is not None]
        owners = tuple(dict.fromkeys(addresses))
        index = {address: at for at, address in enumerate(owners)}
        self._done(owners, tuple(index[address] for address in addresses))
