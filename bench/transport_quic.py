"""aioquic's end of `transport.py`: `serve [LOSS]`, or `MODE ADDRESS SECONDS [LOSS]` as the client.

Tuned as well as it lets itself be: one connection, flow-control windows that never close, data handed over
inside the event callback so that it leaves with the next datagrams, AES-128-GCM, garbage collection as ours.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import ssl
import sys
import time
from typing import Any

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import HandshakeCompleted, QuicEvent, StreamDataReceived
from aioquic.tls import CipherSuite
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from runtime.native import settle
from runtime.rng import Rng

PAYLOAD = bytes(200)
BULK = bytes(65_536)
WINDOW = 1 << 40
#: The same as ours has in flight.
ONE_WAY_OPEN = 2_048
BULK_OPEN = 16
#: Left out of the measurement, for both.
WARM_UP_S = 0.3


def configuration(client: bool) -> QuicConfiguration:
    config = QuicConfiguration(
        is_client=client,
        alpn_protocols=["bench"],
        max_data=WINDOW,
        max_stream_data=WINDOW,
        cipher_suites=[CipherSuite.AES_128_GCM_SHA256],
    )
    if client:
        config.verify_mode = ssl.CERT_NONE
    else:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
        now = datetime.datetime.now(datetime.UTC)
        config.private_key = key
        config.certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(1)
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .sign(key, hashes.SHA256())
        )
    return config


class Lossy:
    """A transport that loses datagrams now and then on their way out."""

    def __init__(self, transport: Any, loss: float) -> None:
        self._transport = transport
        self._rng = Rng(2)
        self._loss = loss

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def sendto(self, data: bytes, address: Any = None) -> None:
        if self._rng.random() >= self._loss:
            self._transport.sendto(data, address)


class Protocol(QuicConnectionProtocol):
    loss = 0.0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(Lossy(transport, self.loss) if self.loss else transport)


class Server(Protocol):
    """Echoes bidirectional streams; takes in the others."""

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, StreamDataReceived) and not event.stream_id & 2:
            self._quic.send_stream_data(event.stream_id, event.data)


class Client(Protocol):
    mode = "rr"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.received = 0
        self.ready = asyncio.Event()

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, HandshakeCompleted):
            self.ready.set()
        elif isinstance(event, StreamDataReceived):
            before = self.received // len(PAYLOAD)
            self.received += len(event.data)
            for _ in range(self.received // len(PAYLOAD) - before):
                self._quic.send_stream_data(event.stream_id, PAYLOAD)


async def run_server(loss: float) -> None:
    Server.loss = loss
    server = await serve("127.0.0.1", 0, configuration=configuration(False), create_protocol=Server)
    port = server._transport.get_extra_info("sockname")[1]  # type: ignore[attr-defined]
    print(f"127.0.0.1:{port}", flush=True)
    await asyncio.to_thread(sys.stdin.read)


def acknowledged(client: Client, stream_id: int) -> int:
    """Bytes of a stream that the peer has, as its sender knows."""
    stream = client._quic._streams[stream_id]
    return stream.sender._buffer_start


class Bulk:
    """One stream, a megabyte not yet acknowledged at any time."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._stream_id = client._quic.get_next_available_stream_id(is_unidirectional=True)
        self._written = 0

    def push(self) -> None:
        while self._written - self._acknowledged() < BULK_OPEN * len(BULK):
            self._client._quic.send_stream_data(self._stream_id, BULK)
            self._written += len(BULK)

    def _acknowledged(self) -> int:
        return acknowledged(self._client, self._stream_id) if self._written else 0

    def done(self) -> float:
        return self._acknowledged() / len(BULK)


class OneWay:
    """A stream for each message; aioquic forgets a stream when all of it is acknowledged."""

    def __init__(self, client: Client) -> None:
        self._quic = client._quic
        self._opened = 0

    def push(self) -> None:
        quic = self._quic
        while len(quic._streams) < ONE_WAY_OPEN and self._opened < quic._remote_max_streams_uni:
            quic.send_stream_data(quic.get_next_available_stream_id(is_unidirectional=True), PAYLOAD, True)
            self._opened += 1

    def done(self) -> float:
        return self._opened - len(self._quic._streams)


class Requests:
    def __init__(self, client: Client, in_flight: int) -> None:
        self._client = client
        stream_id = client._quic.get_next_available_stream_id()
        for _ in range(in_flight):
            client._quic.send_stream_data(stream_id, PAYLOAD)
        client.transmit()

    def done(self) -> float:
        return self._client.received / len(PAYLOAD)


async def keep_up(client: Client, load: Requests | Bulk | OneWay, seconds: float) -> None:
    """Requests renew themselves in the event callback; the others are topped up now and then."""
    end = time.perf_counter() + seconds
    if isinstance(load, Requests):
        await asyncio.sleep(seconds)
        return
    while time.perf_counter() < end:
        load.push()
        client.transmit()
        await asyncio.sleep(0.0002)


async def run_client(mode: str, address: str, seconds: float, loss: float) -> None:
    Client.loss = loss
    host, _, port = address.rpartition(":")
    async with connect(
        host, int(port), configuration=configuration(True), create_protocol=Client
    ) as connected:
        client: Client = connected  # type: ignore[assignment]
        load: Requests | Bulk | OneWay
        if mode == "bulk":
            load = Bulk(client)
        elif mode == "oneway":
            load = OneWay(client)
        else:
            load = Requests(client, 64 if mode == "rr" else 1)
        await keep_up(client, load, WARM_UP_S)
        done, began, used = load.done(), time.perf_counter(), time.process_time()
        await keep_up(client, load, seconds)
        done = load.done() - done
        used = time.process_time() - used
        print(
            json.dumps({"per_s": done / (time.perf_counter() - began), "per_cpu_s": done / used}), flush=True
        )
        client._quic.close()


if __name__ == "__main__":
    settle()
    if sys.argv[1] == "serve":
        asyncio.run(run_server(float(sys.argv[2]) if len(sys.argv) > 2 else 0.0))
    else:
        loss = float((sys.argv[4:] or ["0"])[0])
        asyncio.run(run_client(sys.argv[1], sys.argv[2], float(sys.argv[3]), loss))
