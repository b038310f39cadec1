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


def frame(body: bytes) -> bytes:
    """One body with its length in front."""
    if len(body) > FRAME_BYTES_MAX:
        raise LocalProtocolError(f"a frame of {len(body)} bytes is over FRAME_BYTES_MAX = {FRAME_BYTES_MAX}")
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    """Cuts a stream of bytes into bodies."""

    __slots__ = ("_buffer", "bytes_max")

    def __init__(self, bytes_max: int = HELLO_FRAME_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self._buffer = bytearray()

    @property
    def held_bytes(self) -> int:
        return len(self._buffer)

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def bodies(self) -> Iterator[bytes]:
        """Every whole body so far. The size limit may change between two of them."""
        buffer = self._buffer
        start = 0
        try:
            while len(buffer) - start >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(buffer, start)
                if length > self.bytes_max:
                    raise RemoteProtocolError(f"a frame of {length} bytes, the limit is {self.bytes_max}")
                end = start + _LENGTH.size + length
                if end > len(buffer):
                    return
                body = bytes(memoryview(buffer)[start + _LENGTH.size : end])
                start = end
                yield body
        finally:
            del buffer[:start]
