"""Put, DHTMessage: sends rows hop by hop to the owner of their key (PIER Table 3.3, the DHT's `send`).

As Put DHT, but the rows themselves travel through the overlay, so that nodes on the way may take them (scan
DHTMessage with `midway`). What arrives is stored at the owner as what is put.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from overlay.dht.messages import Code
from overlay.dht.operations import PutObject, Target
from overlay.ring import routing_id
from query.dataflow.registry import register
from query.operators.put.dht import PutDht

#: Bytes of one node on their way through the overlay at a time.
UNDER_WAY_BYTES_MAX = 32 << 10


@register
class PutDhtMessage(PutDht):
    """Rows sent through the overlay towards the owners of their keys."""

    TYPE = "put"
    IMPLEMENTATION = "DHTMessage"

    def targets(self, key: str) -> list[Target]:
        """Towards whoever owns the id, by the overlay's own way: no owner is looked up."""
        return [Target(id=routing_id(self.meet, key))]

    def open(self) -> None:
        super().open()
        self._together = None
        #: What waits for room on the way, with whom to tell how it ended; and bytes that are on their way.
        self._queue: deque[tuple[PutObject, Callable[[bool], None]]] = deque()
        self._under_way_bytes = 0

    def submit(self, objects: list[PutObject], done: Callable[[list[Code]], None]) -> None:
        codes = [Code.UNREACHED] * len(objects)
        left = len(objects)

        def told(number: int, arrived: bool) -> None:
            nonlocal left
            left -= 1
            codes[number] = Code.OK if arrived else Code.UNREACHED
            if left == 0:
                done(codes)

        self._queue.extend((each, partial(told, number)) for number, each in enumerate(objects))
        self._send()

    def _send(self) -> None:
        """Hops are judged by how fast they take messages: a flood would make live nodes look dead."""
        while self._queue and self._under_way_bytes < UNDER_WAY_BYTES_MAX:
            each, told = self._queue.popleft()
            self._under_way_bytes += len(each.value)
            self.dht.send(each, partial(self._sent, len(each.value), told))

    def _sent(self, size: int, told: Callable[[bool], None], arrived: bool) -> None:
        self._under_way_bytes -= size
        told(arrived)
        self._send()
