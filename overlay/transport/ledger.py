"""What all peers of one transport share: counters, the total backlog, and the notices that are due."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from overlay.transport.statistics import Counters

#: What the caller gave with a message; handed back when the message is settled. None asks for nothing.
Token: TypeAlias = Any


class Ledger:
    __slots__ = ("backlog_bytes", "counters", "reassembly_bytes", "settled")

    def __init__(self) -> None:
        self.counters = Counters()
        #: Bytes of messages accepted and not yet settled.
        self.backlog_bytes = 0
        #: Bytes reserved for half-received messages.
        self.reassembly_bytes = 0
        #: Tokens of messages that were acknowledged (True) or failed (False), not yet handed out.
        self.settled: list[tuple[Sequence[Token], bool]] = []

    def settle(self, messages: int, tokens: Sequence[Token], delivered: bool) -> None:
        """So many messages are settled; those with a token are to be told."""
        if delivered:
            self.counters.messages_acknowledged += messages
        else:
            self.counters.messages_failed += messages
        if tokens:
            self.settled.append((tokens, delivered))
