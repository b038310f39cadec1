"""Put, DHTMessage: sends rows hop by hop to the owner of their key (PIER Table 3.3, the DHT's `send`).

As Put DHT, but the rows themselves travel through the overlay, so that nodes on the way may take them (scan
DHTMessage with `midway`). What arrives is stored at the owner as what is put.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from overlay.dht.messages import Code
from overlay.dht.operations import PutObject, Target
from overlay.ring import routing_id
from query.dataflow.registry import register
from query.operators.put.dht import PutDht


@register
class PutDhtMessage(PutDht):
    """Rows sent through the overlay towards the owners of their keys."""

    TYPE = "put"
    IMPLEMENTATION = "DHTMessage"

    def targets(self, key: str) -> list[Target]:
        """Towards whoever owns the id, by the overlay's own way: no owner is looked up."""
        return [Target(id=routing_id(self.meet, key))]

    def submit(self, objects: list[PutObject], done: Callable[[list[Code]], None]) -> None:
        codes = [Code.UNREACHED] * len(objects)
        left = len(objects)

        def told(number: int, arrived: bool) -> None:
            nonlocal left
            left -= 1
            codes[number] = Code.OK if arrived else Code.UNREACHED
            if left == 0:
                done(codes)

        for number, each in enumerate(objects):
            self.dht.send(each, partial(told, number))
