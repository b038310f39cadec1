"""When the groups of an epoch outgrow a tree: the aggregation is divided, and every node hears of it.

The asker sees that states became too large and spreads a split: from epoch `first` on the groups belong to so many
parts by a hash of their keys, and each part is an aggregation of its own whose states go to the owner of its root id
(HashGrouping, CAN 4). Nodes keep their own states of a few epochs, so that no epoch is lost by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec

from overlay.spread.branch import Branch
from overlay.spread.spread import Spread
from query.aggregation.messages import Count, SessionId

TOPIC = "epochs-split"
#: The first split has so many parts, and each part that is still too large makes that many times more of all.
PARTS_STEP = 16
PARTS_MAX = 256
#: Splits remembered for queries that have not come yet.
KNOWN_MAX = 1_024


class Split(msgspec.Struct, frozen=True, array_like=True):
    """A division; a later generation replaces an earlier one."""

    session: SessionId
    generation: Annotated[int, msgspec.Meta(ge=1, le=16)]
    parts: Annotated[int, msgspec.Meta(ge=2, le=PARTS_MAX)]
    first: Count

    def part_id(self, part: int) -> str:
        """What the aggregation of a part is called."""
        return f"{self.session}/{self.generation}.{part}"


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Split).decode


class Splits:
    """Splits on one node: those it announces, and those it hears of."""

    def __init__(self, spread: Spread) -> None:
        self._spread = spread
        self._handlers: dict[str, Callable[[Split], None]] = {}
        self._known: dict[str, Split] = {}
        #: Those of queries that were asked here, by session.
        self._announced: dict[str, Split] = {}
        self.malformed = 0
        spread.on_arrival(TOPIC, self._arrived)

    def announce(self, split: Split) -> None:
        self._announced[split.session] = split
        self._spread.start(TOPIC, _encode(split), lambda reply, account: None)

    def announce_again(self, query_id: str) -> None:
        """Nodes have come that do not know how a query's aggregations are divided."""
        for session, split in self._announced.items():
            if session.startswith(f"{query_id}."):
                self._spread.start(TOPIC, _encode(split), lambda reply, account: None)

    def forget(self, session: str) -> None:
        self._announced.pop(session, None)

    def listen(self, session: str, handler: Callable[[Split], None]) -> Callable[[], None]:
        """Calls handler for splits of an aggregation, also for one that was here first; returns what ends it."""
        self._handlers[session] = handler
        split = self._known.pop(session, None)
        if split is not None:
            handler(split)
        return lambda: self._handlers.pop(session, None) and None

    def _arrived(self, branch: Branch) -> None:
        try:
            split = _decode(branch.payload)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self.malformed += 1
            branch.fail()
            return
        handler = self._handlers.get(split.session)
        if handler is not None:
            handler(split)
        else:
            if len(self._known) >= KNOWN_MAX:
                del self._known[next(iter(self._known))]
            self._known[split.session] = split
        branch.reply()
