"""A messenger that keeps a node's messages to itself off the network.

Asking and serving are written once, for peers; what a node asks of itself takes the same path, one turn of
the loop later, so that no caller is ever called back before its call returns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from runtime.api import Address, Messenger, Notice, Runtime
from runtime.message import Message

M = TypeVar("M", bound=Message)


class Loopback:
    """A `Messenger` over another one."""

    __slots__ = (
        "_address",
        "_handlers",
        "_messenger",
        "_runtime",
    )

    def __init__(self, runtime: Runtime, messenger: Messenger) -> None:
        self._runtime = runtime
        self._messenger = messenger
        self._address = runtime.address
        self._handlers: dict[type[Message], Callable[[Address, Any], None]] = {}

    @classmethod
    def over(cls, runtime: Runtime, messenger: Messenger) -> Loopback:
        """The messenger itself when it is one already: the services of a node share one."""
        return messenger if isinstance(messenger, cls) else cls(runtime, messenger)

    def send(self, to: Address, message: Message, notice: Notice | None = None) -> None:
        if to != self._address:
            self._messenger.send(to, message, notice)
        else:
            self._runtime.call_later(0.0, self._deliver, (message, notice))

    def on(self, kind: type[M], handler: Callable[[Address, M], None]) -> None:
        self._handlers[kind] = handler
        self._messenger.on(kind, handler)

    def _deliver(self, sent: tuple[Message, Notice | None]) -> None:
        message, notice = sent
        if notice is not None:
            notice(True)
        self._handlers[type(message)](self._address, message)
