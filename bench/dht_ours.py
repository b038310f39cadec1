"""Our end of `dht.py`: one overlay node, sealed. `serve [GATEWAY]`, or `drive GATEWAY` with commands on stdin."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import trio
from dht_load import IN_FLIGHT, Load, answer

from overlay.dht.messages import Code
from overlay.dht.operations import GetObject, Got, PutObject
from overlay.objects.name import Name
from overlay.ring import BITS, routing_id
from overlay.stack import OVERLAY_MESSAGES, OverlayNode
from overlay.transport import LOCAL, open_messenger
from overlay.transport.keyring import new
from runtime.message import Codec
from runtime.native import open_native

RING = new(bytes(range(32)), 1)
CODEC = Codec(OVERLAY_MESSAGES)
LIFETIME_S = 3600.0


class Driver:
    """Keeps operations in flight; completions start the next, as callbacks do."""

    def __init__(self, node: OverlayNode, load: Load, finished: Callable[[], None]) -> None:
        self._node = node
        self._load = load
        self._finished = finished
        self._open = 0

    def start(self) -> None:
        for _ in range(IN_FLIGHT):
            self._next()

    def _next(self) -> None:
        key = self._load.next_key()
        if key is None:
            if self._open == 0:
                self._finished()
            return
        self._open += 1
        began = time.perf_counter()
        if self._load.mode == "put":
            put = PutObject(Name("bench", key, "0"), self._load.value, LIFETIME_S, copies=self._load.copies)
            self._node.dht.put(put, lambda code: self._put(began, code))
        else:
            self._node.dht.get(GetObject("bench", key), lambda got: self._got(began, got))

    def _put(self, began: float, code: Code) -> None:
        self._ended(began, code is Code.OK)

    def _got(self, began: float, got: Got) -> None:
        right = got.code is Code.OK and len(got.objects) == 1 and got.objects[0].value == self._load.value
        self._ended(began, right)

    def _ended(self, began: float, right: bool) -> None:
        self._load.ended(time.perf_counter() - began, right)
        self._open -= 1
        self._next()


async def run(role: str, gateway: str | None) -> None:
    async with open_native() as runtime:
        messenger = open_messenger(runtime, CODEC, keyring=RING, config=LOCAL)
        node = OverlayNode(runtime, messenger, runtime.rng("id").getrandbits(BITS))
        if gateway is None:
            node.start()
        else:
            node.join([gateway])
        while not node.router.joined:
            await trio.sleep(0.02)
        print(runtime.address, flush=True)
        if role == "serve":
            await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
        else:
            await drive(node)


async def drive(node: OverlayNode) -> None:
    while line := await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
        load = Load.parse(line)
        load.holds = lambda key: node.router.owns(routing_id("bench", key))
        done = trio.Event()
        Driver(node, load, done.set).start()
        await done.wait()
        answer(load)


if __name__ == "__main__":
    trio.run(run, sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
