"""TCP streams as callbacks: bytes in to the handler, bytes out from a bounded buffer."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

import trio

from runtime.api import Address, StreamHandler

#: Above this much unsent, `write` says stop; below the other, `drained` says go on.
HIGH_WATER_BYTES = 1024 * 1024
LOW_WATER_BYTES = 256 * 1024
#: A writer that does not stop is cut off.
BUFFER_BYTES_MAX = 64 * 1024 * 1024
RECEIVE_BYTES = 256 * 1024
#: Pieces are sent together up to this size.
SEND_BYTES = 64 * 1024
#: How long unsent bytes may take to leave after `close`.
LINGER_S = 5.0


class ByteStream(Protocol):
    """What trio's TCP and TLS streams have in common."""

    async def send_all(self, data: bytes) -> None: ...

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray: ...

    async def aclose(self) -> None: ...


class TcpStream:
    """Implements `runtime.api.Stream`. `run` serves it until it is closed."""

    def __init__(self, stream: ByteStream, peer: Address, guard: Callable[..., None]) -> None:
        """`guard(fn, *args)` calls the handler so that its exceptions stay where they are."""
        self._stream = stream
        self._peer = peer
        self._guard = guard
        self._handler: StreamHandler | None = None
        self._handled = trio.Event()
        self._out: deque[bytes] = deque()
        self._out_bytes = 0
        self._stopped_writer = False
        self._work = trio.Event()
        self._reading = trio.Event()
        self._reading.set()
        self._closing = False
        self._reason: str | None = None
        self._scope = trio.CancelScope()

    @property
    def peer(self) -> Address:
        return self._peer

    def handle(self, handler: StreamHandler) -> None:
        self._handler = handler
        self._handled.set()

    def write(self, data: bytes) -> bool:
        if self._closing or not data:
            return not self._closing
        self._out.append(data)
        self._out_bytes += len(data)
        self._work.set()
        if self._out_bytes > BUFFER_BYTES_MAX:
            self._end(f"more than {BUFFER_BYTES_MAX} bytes unsent")
        if self._out_bytes > HIGH_WATER_BYTES:
            self._stopped_writer = True
            return False
        return True

    def pause_reading(self) -> None:
        if self._reading.is_set():
            self._reading = trio.Event()

    def resume_reading(self) -> None:
        self._reading.set()

    def close(self) -> None:
        """Sends what is buffered, then closes."""
        self._closing = True
        self._work.set()
        self._scope.deadline = trio.current_time() + LINGER_S

    def _end(self, reason: str) -> None:
        if self._reason is None:
            self._reason = reason
        self._closing = True
        self._scope.cancel()

    async def run(self) -> None:
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write_all)
                await self._attempt(self._read_all)
        with trio.move_on_after(LINGER_S):
            await self._attempt(self._stream.aclose)
        self._closing = True
        if self._handler is not None:
            self._guard(self._handler.closed, self._reason or "")

    async def _attempt(self, step: Callable[[], Awaitable[None]]) -> None:
        try:
            await step()
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError) as error:
            if not self._closing:
                self._end(str(error) or type(error).__name__)

    async def _read_all(self) -> None:
        await self._handled.wait()
        assert self._handler is not None
        while True:
            await self._reading.wait()
            data = await self._stream.receive_some(RECEIVE_BYTES)
            if not data:
                if not self._closing:
                    self._end("")
                return
            if not self._closing:
                self._guard(self._handler.received, bytes(data))

    def _next_piece(self) -> bytes:
        """What goes out in one call: large pieces as they are, small ones together."""
        pieces = [self._out.popleft()]
        size = len(pieces[0])
        while self._out and size + len(self._out[0]) <= SEND_BYTES:
            size += len(self._out[0])
            pieces.append(self._out.popleft())
        return b"".join(pieces)

    async def _write_all(self) -> None:
        while True:
            await self._work.wait()
            self._work = trio.Event()
            while self._out:
                data = self._next_piece()
                await self._attempt(lambda data=data: self._stream.send_all(data))  # type: ignore[misc]
                self._out_bytes -= len(data)
                if self._stopped_writer and self._out_bytes < LOW_WATER_BYTES:
                    self._stopped_writer = False
                    if self._handler is not None and not self._closing:
                        self._guard(self._handler.drained)
            if self._closing:
                self._scope.cancel()
                return
