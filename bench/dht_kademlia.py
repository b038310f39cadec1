"""kademlia's end of `dht.py`: one node. `serve [GATEWAY]`, or `drive GATEWAY` with commands on stdin."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
import time

from dht_load import IN_FLIGHT, Load, answer
from kademlia.network import Server
from kademlia.utils import digest

#: Its default of 20 would write every value to all 16 nodes; with fewer it is several times faster.
COPIES = 4
#: It loses replies in the default buffer when stores of 64 puts come back at once, and then drops the node.
BUFFER_BYTES = 8 << 20


#: From Linux' socket.h; Python does not name it.
SO_RCVBUFFORCE = 33


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def widen(server: Server) -> None:
    """The force option needs root; without, what the system allows."""
    transport_socket = server.transport.get_extra_info("socket")
    transport_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    with contextlib.suppress(PermissionError):
        transport_socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)


async def work(server: Server, load: Load) -> None:
    while (key := load.next_key()) is not None:
        began = time.perf_counter()
        try:
            if load.mode == "put":
                right = bool(await server.set(key, load.value))
            else:
                right = await server.get(key) == load.value
        except ValueError:
            # It raises when every node it knows has timed out: a failed operation, not the end of the run.
            right = False
        load.ended(time.perf_counter() - began, right)


async def run(role: str, gateway: str | None) -> None:
    logging.disable(logging.ERROR)
    server = Server(ksize=COPIES)
    port = free_port()
    await server.listen(port, interface="127.0.0.1")
    widen(server)
    if gateway is not None:
        host, _, number = gateway.rpartition(":")
        while not await server.bootstrap([(host, int(number))]):
            await asyncio.sleep(0.1)
    print(f"127.0.0.1:{port}", flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        load = Load.parse(line)
        load.holds = lambda key: server.storage.get(digest(key)) is not None
        await asyncio.gather(*(work(server, load) for _ in range(IN_FLIGHT)))
        answer(load)
    server.stop()


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None))
