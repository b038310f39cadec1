"""OpenDHT's end of `dht.py`: one node. `serve [GATEWAY]`, or `drive GATEWAY` with commands on stdin."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import opendht
from dht_load import IN_FLIGHT, Load, answer


def run_load(node: Any, load: Load) -> None:
    """Completions come on OpenDHT's own thread; a semaphore keeps the number in flight."""
    free = threading.Semaphore(IN_FLIGHT)
    while True:
        free.acquire()
        key = load.next_key()
        if key is None:
            break
        start(node, load, key, free.release)
    for _ in range(IN_FLIGHT - 1):
        free.acquire()


def start(node: Any, load: Load, key: str, release: Callable[[], None]) -> None:
    began = time.perf_counter()
    hashed = opendht.InfoHash.get(key)

    if load.mode == "put":

        def put(ok: bool, _: object) -> None:
            load.ended(time.perf_counter() - began, ok)
            release()

        node.put(hashed, opendht.Value(load.value), put)
        return
    found: list[bytes] = []

    def each(value: Any) -> bool:
        found.append(bytes(value.data))
        return False

    def done(ok: bool, _: object) -> None:
        load.ended(time.perf_counter() - began, found[:1] == [load.value])
        release()

    node.get(hashed, each, done)


def main(role: str, gateway: str | None) -> None:
    config = opendht.DhtConfig()
    # Its limits on requests a second are for the open Internet: off, or the figure would be the limit.
    config.setRateLimit(-1, -1)
    node = opendht.DhtRunner()
    node.run(port=0, ipv4="127.0.0.1", ipv6="", config=config, is_bootstrap=gateway is None)
    if gateway is not None:
        host, _, port = gateway.rpartition(":")
        node.bootstrap(host, port)
    print(f"127.0.0.1:{node.getBound().getPort()}", flush=True)
    while line := sys.stdin.readline():
        load = Load.parse(line)
        run_load(node, load)
        answer(load)
    node.shutdown()
    node.join()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
