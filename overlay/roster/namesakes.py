"""Two lives of one id: a copied data directory, started while the original runs.

A node that hears its own id from another address tells that address when its own life began. Whoever of the two
began later is put out: it says when it began, so that the other can tell its owner, and stops. A node that was started
anew elsewhere is nobody's namesake: the life before it is over and does not speak. Only the word of a peer that
has proven to be of this id counts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from overlay.roster.messages import Namesake
from overlay.router import Router
from runtime.api import Address, Messenger, Runtime

#: Addresses that are remembered, and how long one is left in peace after it was told.
SEEN_MAX = 16
TOLD_MAX = 64
TELL_AGAIN_S = 2.0

_log = logging.getLogger("pier.roster")


@dataclass(frozen=True, slots=True)
class Twin:
    """Another life of this node's id."""

    address: Address
    #: When it was last heard, by this node's wall clock.
    heard: float
    #: Whether it is the one that has to go.
    later: bool


class Namesakes:
    """What one node knows of other lives of its id."""

    def __init__(
        self,
        runtime: Runtime,
        messenger: Messenger,
        router: Router,
        peer_id: Callable[[Address], bytes | None] | None,
    ) -> None:
        """`peer_id` is the id that the node at an address has proven; without it any word is believed."""
        self._runtime = runtime
        self._messenger = messenger
        self._router = router
        self._peer_id = peer_id
        #: Of two lives that began in the same millisecond one is the later all the same.
        self.began = int(runtime.wall() * 1e3) << 20 | runtime.rng("namesakes").getrandbits(20)
        self.seen: dict[Address, Twin] = {}
        self.unproven = 0
        #: This node is put out, by the life at an address; called once.
        self.on_put_out: Callable[[Address], None] | None = None
        self._out = False
        self._told: dict[Address, float] = {}
        messenger.on(Namesake, self._heard)
        router.on_namesake(self.tell)

    def tell(self, address: Address) -> None:
        """Somebody at this address has our id, or had it."""
        now = self._runtime.now()
        if address == self._router.me.address or now - self._told.get(address, -TELL_AGAIN_S) < TELL_AGAIN_S:
            return
        self._told.pop(address, None)
        if len(self._told) >= TOLD_MAX:
            del self._told[next(iter(self._told))]
        self._told[address] = now
        self._messenger.send(address, Namesake(self.began))

    def _heard(self, sender: Address, message: Namesake) -> None:
        me = self._router.me
        if sender == me.address or message.began == self.began:
            return
        if self._peer_id is not None and self._peer_id(sender) != me.id:
            self.unproven += 1
            return
        later = message.began > self.began
        fresh = sender not in self.seen
        self.seen.pop(sender, None)
        if len(self.seen) >= SEEN_MAX:
            del self.seen[next(iter(self.seen))]
        self.seen[sender] = Twin(sender, self._runtime.wall(), later)
        self.tell(sender)
        if fresh:
            _log.error(
                "another node has this node's id: a data directory was copied",
                extra={
                    "details": {
                        "id": me.id.hex(),
                        "here": me.address,
                        "there": sender,
                        "put_out": sender if later else me.address,
                    }
                },
            )
        if not later and not self._out:
            self._out = True
            if self.on_put_out is not None:
                self.on_put_out(sender)
