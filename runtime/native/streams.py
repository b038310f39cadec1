"""Listening, accepting and connecting: sockets in, streams for the node out."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable

import trio

from runtime.api import Address, Stream
from runtime.native.address import family_of, from_sockaddr, split_address, to_sockaddr
from runtime.native.tcp import TcpStream

#: Streams open at once; a client beyond is turned away.
STREAMS_MAX = 4_096
LISTEN_BACKLOG = 256
CONNECT_TIMEOUT_S = 10.0
HANDSHAKE_TIMEOUT_S = 10.0
#: Pause after the kernel refused to accept, out of descriptors most likely.
ACCEPT_PAUSE_S = 0.1


class Streams:
    def __init__(self, nursery: trio.Nursery, guard: Callable[..., None]) -> None:
        self._nursery = nursery
        self._guard = guard
        self.open_count = 0
        self.refused = 0

    def listen(
        self, at: Address, accept: Callable[[Stream], None], ssl_context: ssl.SSLContext | None
    ) -> Address:
        family = family_of(at)
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setblocking(False)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(to_sockaddr(at, family))
            listener.listen(LISTEN_BACKLOG)
        except BaseException:
            listener.close()
            raise
        address = from_sockaddr(listener.getsockname())
        self._nursery.start_soon(
            self._accept_all, trio.socket.from_stdlib_socket(listener), accept, ssl_context
        )
        return address

    async def _accept_all(
        self,
        listener: trio.socket.SocketType,
        accept: Callable[[Stream], None],
        ssl_context: ssl.SSLContext | None,
    ) -> None:
        with listener:
            while True:
                try:
                    connection, sockaddr = await listener.accept()
                except OSError:
                    await trio.sleep(ACCEPT_PAUSE_S)
                    continue
                if self.open_count >= STREAMS_MAX:
                    self.refused += 1
                    connection.close()
                    continue
                stream = trio.SocketStream(connection)
                self._nursery.start_soon(
                    self._serve, stream, from_sockaddr(sockaddr), accept, ssl_context, True
                )

    def connect(
        self, to: Address, done: Callable[[Stream | str], None], ssl_context: ssl.SSLContext | None
    ) -> None:
        self._nursery.start_soon(self._connect, to, done, ssl_context)

    async def _connect(
        self, to: Address, done: Callable[[Stream | str], None], ssl_context: ssl.SSLContext | None
    ) -> None:
        try:
            host, port = split_address(to)
            with trio.fail_after(CONNECT_TIMEOUT_S):
                stream = await trio.open_tcp_stream(host, port)
        except (OSError, ValueError, trio.TooSlowError) as error:
            self._guard(done, str(error) or type(error).__name__)
            return
        await self._serve(stream, to, done, ssl_context, False)

    async def _serve(
        self,
        stream: trio.SocketStream,
        peer: Address,
        done: Callable[[Stream], None],
        ssl_context: ssl.SSLContext | None,
        server_side: bool,
    ) -> None:
        self.open_count += 1
        try:
            secured: trio.SocketStream | trio.SSLStream[trio.SocketStream] = stream
            if ssl_context is not None:
                name = None if server_side else split_address(peer)[0]
                secured = trio.SSLStream(
                    stream, ssl_context, server_side=server_side, server_hostname=name, https_compatible=True
                )
                try:
                    with trio.fail_after(HANDSHAKE_TIMEOUT_S):
                        await secured.do_handshake()
                except (trio.BrokenResourceError, trio.TooSlowError, OSError) as error:
                    self.refused += 1
                    await trio.aclose_forcefully(stream)
                    if not server_side:
                        self._guard(done, f"TLS: {error.__cause__ or error}")
                    return
            tcp = TcpStream(secured, peer, self._guard)
            self._guard(done, tcp)
            await tcp.run()
        finally:
            self.open_count -= 1
