"""The trace: every event and message of a run flows in, one hash comes out.

Two hashes run side by side: numbers (instants, hosts, kinds, sizes) and contents (encoded messages). Both are
buffered, since hashing in large pieces costs a tenth of hashing each. Equal hashes mean equal runs.
"""

from __future__ import annotations

import hashlib
from array import array

#: Numbers held before they are hashed: 32 kB as doubles.
NUMBERS_MAX = 4_096
#: Content bytes held before they are hashed.
CONTENT_BYTES_MAX = 65_536

#: Kinds of entries. Negative where a single number must not be taken for a host.
MESSAGE_SENT = -10
DATAGRAM_SENT = -11
SEGMENT_SENT = -12
HOST_ADDED = -13
HOST_CRASHED = -14
HOST_RESTARTED = -15
#: Plus one if the sender is going to be told of success.
NOTICE_DUE = -20


class Trace:
    """`log` appends one number."""

    __slots__ = ("_content", "_content_bytes", "_content_hash", "_number_hash", "_numbers", "log")

    def __init__(self) -> None:
        self._numbers: list[float] = []
        self._content: list[bytes] = []
        self._content_bytes = 0
        self._number_hash = hashlib.blake2b(digest_size=16)
        self._content_hash = hashlib.blake2b(digest_size=16)
        self.log = self._numbers.append

    def message(self, kind: int, sender: int, receiver: int, encoded: bytes) -> None:
        """A message, datagram or stream segment was sent."""
        numbers = self._numbers
        numbers += (kind, sender, receiver, len(encoded))
        self._content.append(encoded)
        self._content_bytes += len(encoded)
        if self._content_bytes > CONTENT_BYTES_MAX:
            self.flush()

    def host(self, kind: int, index: int, now: float) -> None:
        """A host was added, crashed or restarted."""
        self._numbers += (kind, index, now)

    def trim(self) -> None:
        """Bounds what is held; the event core calls it after each bucket."""
        if len(self._numbers) > NUMBERS_MAX:
            self.flush()

    def flush(self) -> None:
        self._number_hash.update(array("d", self._numbers).tobytes())
        self._numbers.clear()
        self._content_hash.update(b"".join(self._content))
        self._content.clear()
        self._content_bytes = 0

    def hexdigest(self) -> str:
        """The hash of everything so far; the trace goes on."""
        self.flush()
        whole = hashlib.blake2b(self._number_hash.digest() + self._content_hash.digest(), digest_size=16)
        return whole.hexdigest()
