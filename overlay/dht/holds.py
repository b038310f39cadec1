"""Whose the rows of a query are: settled when the query begins at a node, and not again.

The ring moves an arc as soon as its owner is silent, and back when it is heard after all. Stored tables follow; rows
that meet in a query cannot: those that came before are used up, and two nodes that each have some of them miss pairs
or make them twice. So a node that begins to read a namespace of a query holds it: until the query ends there it takes
temporary objects of that namespace in the arc it has for certain, and no others. What the ring brings it
besides it refuses with the name of the neighbour that holds the rest. Where that neighbour is dead, and was silent
already when the query began, its arc is taken over once it is given up.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from overlay.dht.messages import Item
from overlay.objects.stored import StoredObject
from overlay.ring import HALF, MASK, WHOLE, NodeRef, from_wire
from overlay.router import Place, Router

#: Namespaces remembered whose reading is over: those of queries that ended within the life of their rows.
ENDED_MAX = 4_096


@dataclass(slots=True, eq=False)
class Hold:
    """One namespace at this node."""

    place: Place
    #: Scans of this node that read it.
    readers: int = 1
    #: Neighbours that were silent when it began.
    silent: dict[bytes, None] = field(default_factory=dict)


class Holds:
    """The namespaces of queries that are read at this node."""

    __slots__ = ("_ended", "_holds", "_router")

    def __init__(self, router: Router) -> None:
        self._router = router
        self._holds: dict[str, Hold] = {}
        #: Namespaces whose reading is over, the oldest first: what is left of them moves no more.
        self._ended: dict[str, None] = {}
        router.on_death(self._died)

    def begin(self, namespace: str) -> None:
        held = self._holds.get(namespace)
        if held is not None:
            held.readers += 1
        elif self._router.joined:
            place = self._router.place()
            silent = {node.id: None for node in self._router.silent_in(WHOLE)}
            self._holds[namespace] = Hold(place, silent=silent)

    def end(self, namespace: str) -> bool:
        """Whether nobody here reads it any more."""
        held = self._holds.get(namespace)
        if held is not None and held.readers > 1:
            held.readers -= 1
            return False
        if held is not None:
            del self._holds[namespace]
            if len(self._ended) >= ENDED_MAX:
                del self._ended[next(iter(self._ended))]
            self._ended[namespace] = None
        return True

    def mine(self, namespace: str, temporary: bool, identifier: int) -> bool | None:
        """Whether an object is this node's; None where nothing is held and the ring decides."""
        hold = self._holds.get(namespace) if temporary and self._holds else None
        return None if hold is None else hold.place.arc.contains(identifier)

    def holder(self, item: Item) -> NodeRef | None:
        """Who holds what is refused here."""
        hold = self._holds.get(item.namespace)
        if hold is None:
            return None
        clockwise = (from_wire(item.id) - from_wire(self._router.me.id)) & MASK <= HALF
        return hold.place.after if clockwise else hold.place.before

    def keeps(self, stored: StoredObject) -> bool:
        """Whether an object stays here whoever owns its id."""
        namespace = stored.name.namespace
        if stored.temporary and namespace in self._ended:
            return True
        return self.mine(namespace, stored.temporary, stored.id) is True

    def _died(self, node: NodeRef) -> None:
        for hold in self._holds.values():
            if node.id in hold.silent:
                hold.place = self._router.place()
