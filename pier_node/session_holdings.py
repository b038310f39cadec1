"""What one connection holds of its client's share of the node (`access.rates`), and how it is given back.

Taken when the client is let in and when a request opens; told when bytes wait here, in either direction. Invariant:
what this connection has taken and not given back is what it holds now; when it is gone, nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from pier_node.access.rates import Hold, Share


class Holdings:
    """One connection's part of a share."""

    def __init__(self, share: Share) -> None:
        """The share has room for the connection, and it is taken."""
        self.share = share
        self._requests: dict[int, Hold] = {}
        self._bytes = {Hold.BACKLOG_BYTES: 0, Hold.INPUT_BYTES: 0}

    def opened(self, request: int, hold: Hold | None) -> None:
        """A request that was judged, and what it has taken."""
        if hold is not None:
            self._requests[request] = hold

    def closed(self, request: int) -> None:
        hold = self._requests.pop(request, None)
        if hold is not None:
            self.share.give(hold)

    @property
    def requests(self) -> Iterable[int]:
        return list(self._requests)

    def waiting(self, hold: Hold, size_bytes: int) -> bool:
        """So many bytes wait here now; whether these are more than before."""
        before = self._bytes[hold]
        self.share.adjust(hold, before, size_bytes)
        self._bytes[hold] = size_bytes
        return size_bytes > before

    def give_back(self) -> None:
        """The connection is gone."""
        for hold in self._requests.values():
            self.share.give(hold)
        self._requests.clear()
        for hold, size_bytes in self._bytes.items():
            self.share.adjust(hold, size_bytes, 0)
        self.share.give(Hold.CONNECTIONS)
