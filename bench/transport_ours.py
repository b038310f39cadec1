"""Our end of `transport.py`: `serve [LOSS]`, or `MODE ADDRESS SECONDS [LOSS]` as the client. Sealed throughout."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence

import trio

from overlay.transport import MessageHost, open_messenger
from overlay.transport.keyring import new
from runtime.api import Address, DatagramHandler, Datagrams
from runtime.message import Codec, Message
from runtime.native import NativeRuntime, open_native, settle
from runtime.rng import Rng

RING = new(bytes(range(32)), 1)
PAYLOAD = bytes(200)
BULK = bytes(65_536)
IN_FLIGHT = 64
#: One-way messages not yet acknowledged; bulk messages not yet acknowledged (1 MB).
ONE_WAY_OPEN = 2_048
BULK_OPEN = 16
#: Left out of the measurement.
WARM_UP_S = 0.3


class Request(Message, frozen=True, tag=1):
    number: int
    body: bytes


class Response(Message, frozen=True, tag=2):
    number: int
    body: bytes


class OneWay(Message, frozen=True, tag=3):
    body: bytes


CODEC = Codec([Request, Response, OneWay])


class LossyRuntime:
    """A runtime whose datagrams are lost now and then on their way out."""

    def __init__(self, runtime: NativeRuntime, loss: float) -> None:
        self._runtime = runtime
        self._rng = Rng(1)
        self._loss = loss

    def __getattr__(self, name: str) -> object:
        return getattr(self._runtime, name)

    def open_datagrams(self, handler: DatagramHandler) -> Datagrams:
        self._datagrams = self._runtime.open_datagrams(handler)
        return self  # type: ignore[return-value]

    def send_many(self, to: Address, datagrams: Sequence[bytes]) -> None:
        kept = [datagram for datagram in datagrams if self._rng.random() >= self._loss]
        if kept:
            self._datagrams.send_many(to, kept)

    def close(self) -> None:
        self._datagrams.close()


def messenger(runtime: NativeRuntime, loss: float) -> MessageHost:
    return open_messenger(LossyRuntime(runtime, loss) if loss else runtime, CODEC, keyring=RING)  # type: ignore[arg-type]


async def serve(loss: float) -> None:
    async with open_native() as runtime:
        host = messenger(runtime, loss)
        host.on(Request, lambda sender, request: host.send(sender, Response(request.number, request.body)))
        host.on(OneWay, lambda sender, message: None)
        print(runtime.address, flush=True)
        await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)


class Client:
    def __init__(self, host: MessageHost, server: Address) -> None:
        self.host = host
        self.server = server
        self.done = 0
        self.stop = False

    def request(self, in_flight: int) -> None:
        send, server = self.host.send, self.server

        def responded(_: Address, response: Response) -> None:
            self.done += 1
            if not self.stop:
                send(server, Request(response.number, PAYLOAD))

        self.host.on(Response, responded)
        for number in range(in_flight):
            send(server, Request(number, PAYLOAD))

    def request_in_tasks(self, nursery: trio.Nursery) -> None:
        waiting: dict[int, trio.lowlevel.Task] = {}

        def responded(_: Address, response: Response) -> None:
            task = waiting.pop(response.number, None)
            if task is not None:
                trio.lowlevel.reschedule(task)

        async def ask(number: int) -> None:
            """One request: this task sleeps until its response is there."""
            self.host.send(self.server, Request(number, PAYLOAD))
            waiting[number] = trio.lowlevel.current_task()

            def abort(_: object) -> trio.lowlevel.Abort:
                waiting.pop(number, None)
                return trio.lowlevel.Abort.SUCCEEDED

            await trio.lowlevel.wait_task_rescheduled(abort)

        async def asker(number: int) -> None:
            while not self.stop:
                await ask(number)
                self.done += 1

        self.host.on(Response, responded)
        for number in range(IN_FLIGHT):
            nursery.start_soon(asker, number)

    def push(self, message: Message, open_max: int) -> None:
        """Keeps `open_max` messages unacknowledged."""
        send, server = self.host.send, self.server

        def settled(delivered: bool) -> None:
            self.done += delivered
            if not self.stop:
                send(server, message, settled)

        for _ in range(open_max):
            send(server, message, settled)


async def run_client(mode: str, server: Address, seconds: float, loss: float) -> None:
    async with open_native() as runtime, trio.open_nursery() as nursery:
        host = messenger(runtime, loss)
        client = Client(host, server)
        start: dict[str, Callable[[], None]] = {
            "rr": lambda: client.request(IN_FLIGHT),
            "latency": lambda: client.request(1),
            "tasks": lambda: client.request_in_tasks(nursery),
            "oneway": lambda: client.push(OneWay(PAYLOAD), ONE_WAY_OPEN),
            "bulk": lambda: client.push(OneWay(BULK), BULK_OPEN),
        }
        start[mode]()
        await trio.sleep(WARM_UP_S)
        before, done = host.statistics(), client.done
        began, used = time.perf_counter(), time.process_time()
        calls = runtime.statistics().send_calls
        await trio.sleep(seconds)
        seconds = time.perf_counter() - began
        client.stop = True
        after = host.statistics()
        used = time.process_time() - used
        messages = after.messages_sent - before.messages_sent
        print(
            json.dumps(
                {
                    "per_s": (client.done - done) / seconds,
                    "per_cpu_s": (client.done - done) / used,
                    "datagrams_per_message": (after.datagrams_sent - before.datagrams_sent)
                    / max(messages, 1),
                    "messages_per_send_call": messages / max(runtime.statistics().send_calls - calls, 1),
                    "repeated": after.segments_repeated - before.segments_repeated,
                    "timeouts": after.timeouts - before.timeouts,
                    "tasks": trio.lowlevel.current_statistics().tasks_living,
                }
            )
        )
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    settle()
    if sys.argv[1] == "serve":
        trio.run(serve, float(sys.argv[2]) if len(sys.argv) > 2 else 0.0)
    else:
        trio.run(run_client, sys.argv[1], sys.argv[2], float(sys.argv[3]), float((sys.argv[4:] or ["0"])[0]))
