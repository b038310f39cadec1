"""A client machine and a node machine joined by a wire that a test can cut into any pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pier_node.protocol import messages as m
from pier_node.protocol.client import ClientMachine
from pier_node.protocol.server import ServerLimits, ServerMachine

IDENTITY = m.Welcome(1, ("taps",), "ab" * 20, "127.0.0.1:1", 0, 0)


class Wire:
    """Both ends, the time, and everything each end was told."""

    def __init__(
        self, token: str = "", wanted: str = "", limits: ServerLimits | None = None, cut: int | None = None
    ) -> None:
        self.now = 0.0
        self.cut = cut
        self.node = ServerMachine(
            IDENTITY, lambda given: "" if given == wanted else "token not accepted", self.now, limits
        )
        self.client = ClientMachine(self.now, token, "test")
        self.to_node: list[Any] = []
        self.to_client: list[Any] = []

    def run(self) -> Wire:
        """Carries bytes until neither side has more to say."""
        while True:
            up, down = b"".join(self.client.take_output()), b"".join(self.node.take_output())
            if not up and not down:
                return self
            for piece in self._pieces(up):
                self.to_node += self.node.receive(piece, self.now)
            for piece in self._pieces(down):
                self.to_client += self.client.receive(piece, self.now)

    def _pieces(self, data: bytes) -> Sequence[bytes]:
        step = self.cut or max(1, len(data))
        return [data[at : at + step] for at in range(0, len(data), step)]

    def told(self, kind: type) -> list[Any]:
        return [event for event in (*self.to_node, *self.to_client) if isinstance(event, kind)]
