"""What travels inside a routed message: opened by type, shown to upcalls, delivered, receipted, once.

Kinds are registered by the layers above. A payload of a kind nobody here registered passes through unopened.
"""

from __future__ import annotations

from typing import Any

import msgspec

from overlay.bamboo.core import Core
from overlay.bamboo.messages import Find, Hop, Join, Receipt
from overlay.router import Deliver, Passage, Upcall, Verdict
from runtime.api import Address
from runtime.message import TAG_MAX, Message, NotUnderstood

#: Messages that ended here and are remembered against second copies: at 500 a second as long as any sender keeps
#: trying, and some 1.5 MB.
ENDED_MAX = 8_192


class Payloads:
    __slots__ = ("_core", "_delivers", "_ended", "_kinds", "_upcalls")

    def __init__(self, core: Core) -> None:
        self._core = core
        self._kinds: dict[object, type[Message]] = {}
        self._delivers: dict[type[Message], Deliver[Any]] = {}
        self._upcalls: dict[type[Message], Upcall[Any]] = {}
        #: (origin, sequence), oldest first.
        self._ended: dict[tuple[Address, int], None] = {}
        self._register(Find)
        self._register(Join)

    def on_deliver(self, kind: type[Message], handler: Deliver[Any]) -> None:
        self._register(kind)
        self._delivers[kind] = handler

    def on_upcall(self, kind: type[Message], handler: Upcall[Any]) -> None:
        self._register(kind)
        self._upcalls[kind] = handler

    def _register(self, kind: type[Message]) -> None:
        self._kinds[kind.__struct_config__.tag] = kind

    def open(self, payload: Any) -> Any:
        """The payload as a message, as it came where its kind is not known here, None where it is malformed."""
        if isinstance(payload, Message):
            return payload
        if not isinstance(payload, list) or not payload or not isinstance(payload[0], int):
            return None
        kind = self._kinds.get(payload[0])
        if kind is None:
            return payload
        try:
            return msgspec.convert(payload, kind)
        except msgspec.ValidationError:
            return None

    def ended(self, hop: Hop) -> bool:
        """Whether a copy of this message has ended here; its receipt may have been lost, so it goes again."""
        if (hop.origin.address, hop.sequence) not in self._ended:
            return False
        self._core.count("duplicates")
        if hop.receipt:
            self._core.send_again(hop.origin.address, Receipt(hop.sequence))
        return True

    def upcall(self, payload: Any, passage: Passage, hop: Hop) -> Any:
        """The payload as it goes on, perhaps replaced; None when it was stopped."""
        handler = self._upcalls.get(type(payload))
        if handler is None:
            return payload
        verdict = handler(payload, passage)
        if verdict is Verdict.STOP:
            self._core.count("stopped")
            self._end(hop)
            return None
        return payload if verdict is Verdict.FORWARD else verdict

    def deliver(self, payload: Any, passage: Passage, hop: Hop) -> None:
        handler = self._delivers.get(type(payload))
        if handler is None:
            self._core.count("dropped_unhandled")
            if hop.origin.address != self._core.me.address:
                self._core.messenger.send(hop.origin.address, NotUnderstood(_tag(payload), False))
            return
        self._core.count("delivered")
        self._end(hop)
        handler(payload, passage)

    def _end(self, hop: Hop) -> None:
        if len(self._ended) >= ENDED_MAX:
            del self._ended[next(iter(self._ended))]
        self._ended[hop.origin.address, hop.sequence] = None
        self._receipt(hop)

    def _receipt(self, hop: Hop) -> None:
        if hop.receipt:
            self._core.send(hop.origin.address, Receipt(hop.sequence))


def _tag(payload: Any) -> int:
    """Of a message, or of the array form of one that is not known here."""
    tag = type(payload).__struct_config__.tag if isinstance(payload, Message) else payload[0]
    return tag if isinstance(tag, int) and 0 <= tag <= TAG_MAX else 0
