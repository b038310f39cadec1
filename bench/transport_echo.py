"""The floor for `transport.py`: an echo of bare datagrams, nothing sealed, nothing acknowledged, one at a time."""

from __future__ import annotations

import json
import socket
import sys
import time

PAYLOAD = bytes(200)


def serve() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * 1024 * 1024)
        server.bind(("127.0.0.1", 0))
        print(f"127.0.0.1:{server.getsockname()[1]}", flush=True)
        receive, send = server.recvfrom, server.sendto
        while True:
            data, sender = receive(2_048)
            send(data, sender)


def client(mode: str, server: str, seconds: float) -> None:
    host, _, port = server.rpartition(":")
    to = (host, int(port))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * 1024 * 1024)
        receive, send = client.recvfrom, client.sendto
        for _ in range(64 if mode == "rr" else 1):
            send(PAYLOAD, to)
        done, began, used = 0, time.perf_counter(), time.process_time()
        end = began + seconds
        while time.perf_counter() < end:
            for _ in range(100):
                receive(2_048)
                send(PAYLOAD, to)
            done += 100
        used = time.process_time() - used
        print(json.dumps({"per_s": done / (time.perf_counter() - began), "per_cpu_s": done / used}))


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    else:
        client(sys.argv[1], sys.argv[2], float(sys.argv[3]))
