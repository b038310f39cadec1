"""Where clients reach each node: asked of the nodes themselves, one spread over the ring.

Whoever feeds much data, or reads it in parallel, talks to the nodes that own it. The ring knows its members by their
address among nodes; only a node knows its own door for clients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec

from overlay.ring import to_wire
from overlay.router import Router
from overlay.spread.account import Account as Coverage
from overlay.spread.branch import Branch
from overlay.spread.spread import Spread
from pier_node.config.addresses import AddressError, join_address, split_address
from pier_node.protocol.messages import LISTED_MAX, NodeEntry
from pier_node.service import Failure, Reply, RingView

TOPIC = "doors"
#: Hosts that mean every address of a machine: nobody else can connect to them.
UNSPECIFIED = ("0.0.0.0", "::")

_decoder = msgspec.msgpack.Decoder(Annotated[list[NodeEntry], msgspec.Meta(max_length=LISTED_MAX)])


class Doors:
    """Answers for this node, asks for all."""

    def __init__(self, spread: Spread, router: Router, client_address: Callable[[], str]) -> None:
        self._spread = spread
        self._router = router
        self._client_address = client_address
        spread.on_arrival(TOPIC, self._asked)

    def ask(self, done: Reply[RingView]) -> None:
        """Every member; `whole` when none is missing."""

        def answered(reply: bytes | None, coverage: Coverage) -> None:
            entries = sorted(_read(reply or b""), key=lambda entry: entry.id)
            missing = coverage.failed + coverage.unreachable + coverage.uncovered
            done(RingView(tuple(entries), missing == 0))

        if self._router.joined:
            self._spread.start(TOPIC, b"", answered, combine=_both)
        else:
            done(Failure("unavailable", "this node is not on the ring yet", hint="ask again in a moment"))

    def _asked(self, branch: Branch) -> None:
        branch.combine = _both
        me, arc = self._router.me, self._router.arc()
        entry = NodeEntry(
            me.id.hex(),
            me.address,
            arc_start=to_wire(arc.start).hex(),
            arc_end=to_wire(arc.end).hex(),
            client=reachable(self._client_address(), me.address),
        )
        branch.reply(msgspec.msgpack.encode([entry]))


def reachable(client_address: str, node_address: str) -> str:
    """A node's door as others can use it: one that listens everywhere is where other nodes find the node."""
    try:
        host, port = split_address(client_address)
        return join_address(split_address(node_address)[0], port) if host in UNSPECIFIED else client_address
    except AddressError:
        return ""


def _both(left: bytes, right: bytes) -> bytes:
    return msgspec.msgpack.encode([*_read(left), *_read(right)][:LISTED_MAX])


def _read(data: bytes) -> list[NodeEntry]:
    """What peers say; nothing when it cannot be read."""
    try:
        return _decoder.decode(data) if data else []
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return []
