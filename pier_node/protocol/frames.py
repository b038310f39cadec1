"""Frames: four bytes of length, big endian, then that many bytes of body.

The stream's bytes come in as they arrive, whole bodies go out to the message codec. Invariant: a reader
never holds more than one frame of the permitted size plus what one read brought, however the peer cuts or
lies about its bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from pier_node.protocol.errors import LocalProtocolError, RemoteProtocolError

#: A query text may have 10 MB, a batch is cut to pieces far below this.
FRAME_BYTES_MAX = 16 << 20
#: Until the peer has introduced itself it gets no more of our memory than a hello needs.
HELLO_FRAME_BYTES_MAX = 64 << 10

_LENGTH = struct.Struct(">I")


#: A body up to this size is put behind its length; a larger one is not worth copying for that.
_JOINED_BYTES_MAX = 16 << 10


def frame(body: bytes) -> bytes:
    """One body with its length in front."""
    return b"".join(frame_pieces(body))


def frame_pieces(body: bytes) -> tuple[bytes, ...]:
    """The same, to be sent one after the other."""
    if len(body) > FRAME_BYTES_MAX:
        raise LocalProtocolError(f"a frame of {len(body)} bytes is over FRAME_BYTES_MAX = {FRAME_BYTES_MAX}")
    length = _LENGTH.pack(len(body))
    return (length + body,) if len(body) <= _JOINED_BYTES_MAX else (length, body)


class FrameReader:
    """Cuts a stream of bytes into bodies."""

    __slots__ = ("_pieces", "_wanted_bytes", "bytes_max", "held_bytes")

    def __init__(self, bytes_max: int = HELLO_FRAME_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.held_bytes = 0
        self._pieces: list[bytes] = []
        #: With fewer than these there is nothing to read.
        self._wanted_bytes = _LENGTH.size

    def feed(self, data: bytes) -> None:
        self._pieces.append(data)
        self.held_bytes += len(data)

    def bodies(self) -> Iterator[bytes | memoryview]:
        """Every whole body so far. The size limit may change between two of them. A large body is a view of what came
        in, and at least half of it: whoever keeps it keeps little else."""
        if self.held_bytes < self._wanted_bytes:
            return
        held = b"".join(self._pieces)
        start, wanted = 0, _LENGTH.size
        try:
            while len(held) - start >= wanted:
                (length,) = _LENGTH.unpack_from(held, start)
                if length > self.bytes_max:
                    raise RemoteProtocolError(f"a frame of {length} bytes, the limit is {self.bytes_max}")
                end = start + _LENGTH.size + length
                if end > len(held):
                    wanted = end - start
                    return
                body = memoryview(held)[start + _LENGTH.size : end]
                start = end
                yield body if 2 * length >= len(held) else bytes(body)
        finally:
            self._pieces = [held[start:]] if start < len(held) else []
            self.held_bytes = len(held) - start
            self._wanted_bytes = wanted
