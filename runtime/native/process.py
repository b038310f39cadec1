"""One process's runtime: three kinds of task turn what the host does into callbacks.

The *reader* drains the socket after one readiness and hands over all it yielded; the *timekeeper* sleeps until
the heap's next deadline; each stream and each computation has its own. Callbacks run on the trio thread, one
at a time; what they raise is counted and logged, and the node goes on: remote input may have provoked it.
"""

from __future__ import annotations

import logging
import os
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import trio

from runtime.api import Address, DatagramHandler, Datagrams, Stream, Timer
from runtime.native.address import AddressError, format_address, is_loopback, is_wildcard, split_address
from runtime.native.apart import WAITING_MAX, Apart
from runtime.native.statistics import NativeStatistics
from runtime.native.streams import Streams
from runtime.native.timers import TimerHeap
from runtime.native.udp import UdpSocket
from runtime.rng import Rng

T = TypeVar("T")
A = TypeVar("A")
#: Datagrams handed over at once at most, so that timers are not kept waiting by a flood.
BATCH_DATAGRAMS_MAX = 256
#: Batches between two visits to trio's scheduler, so that other tasks are not kept waiting either.
BATCHES_MAX = 8
#: Threads for long computations, and computations that may wait for one.
COMPUTE_THREADS = 4
COMPUTE_WAITING_MAX = 256

_log = logging.getLogger(__name__)


def own_clock() -> float:
    """Seconds that never go back and, where the system can tell, go on while the machine is suspended: a node that was
    away finds its clock to have jumped between two timers. Timers themselves need not: they come late then."""
    return time.clock_gettime(_CLOCK)


#: Linux; elsewhere a suspended machine shows by its wall clock.
_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class NativeRuntime:
    """Implements `runtime.api.Runtime`; made by `open_native`."""

    def __init__(self, udp: UdpSocket, address: Address, nursery: trio.Nursery) -> None:
        self._udp = udp
        self._address = address
        self._nursery = nursery
        self._timers = TimerHeap()
        self._handler: DatagramHandler | None = None
        self._unclaimed = 0
        self._crashes = 0
        self._limiter = trio.CapacityLimiter(COMPUTE_THREADS)
        self._computing = self._computations = self._computations_refused = 0
        self._apart = Apart(nursery, self._guard)
        self._streams = Streams(nursery, self._guard)
        #: The timekeeper while it sleeps, and its alarm.
        self._sleeper: trio.lowlevel.Task | None = None
        self._alarm: trio.CancelScope | None = None
        self._wakes_at = 0.0
        #: Callbacks are being run whose end looks at the heap anyway.
        self._running = False
        self.now = own_clock
        self.wall = time.time

    @property
    def address(self) -> Address:
        return self._address

    def rng(self, label: str) -> Rng:
        """Unpredictable, whatever the label."""
        return Rng(int.from_bytes(os.urandom(8), "big"))

    # -- timers

    def call_later(self, delay_s: float, fn: Callable[[T], None], arg: T) -> Timer:
        if delay_s <= 0.0:
            timer = self._timers.add_soon(fn, arg)
            self._wake()
            return timer
        at = time.monotonic() + delay_s
        timer = self._timers.add(at, fn, arg)
        if self._alarm is not None and at < self._wakes_at:
            self._wakes_at = at
            self._alarm.deadline = trio.current_time() + delay_s
        return timer

    def _wake(self) -> None:
        sleeper = self._sleeper
        if sleeper is not None and not self._running:
            self._sleeper = None
            trio.lowlevel.reschedule(sleeper)

    def _run_due(self) -> None:
        outer, self._running = self._running, True
        for timer in self._timers.pop_due(time.monotonic()):
            call = timer.take()
            if call is not None:
                self._guard(*call)
        self._running = outer

    async def _keep_time(self) -> None:
        while True:
            self._run_due()
            await trio.lowlevel.checkpoint()
            if self._timers.soon:
                continue
            at = self._timers.next_at()
            self._wakes_at = float("inf") if at is None else at
            with trio.CancelScope() as self._alarm:
                if at is not None:
                    self._alarm.deadline = trio.current_time() + at - time.monotonic()
                self._sleeper = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._awoken)
            self._alarm = None

    def _awoken(self, _: Any) -> trio.lowlevel.Abort:
        self._sleeper = None
        return trio.lowlevel.Abort.SUCCEEDED

    def _guard(self, fn: Callable[..., None], *args: Any) -> None:
        try:
            fn(*args)
        except Exception:
            self._crashes += 1
            _log.exception("a callback failed: %r", fn)

    # -- datagrams

    def open_datagrams(self, handler: DatagramHandler) -> Datagrams:
        if self._handler is not None:
            raise RuntimeError("this runtime's datagrams are already open")
        self._handler = handler
        return _Datagrams(self)

    def _close_datagrams(self) -> None:
        self._handler = None

    async def _read_datagrams(self) -> None:
        udp = self._udp
        while True:
            await trio.lowlevel.wait_readable(udp.socket)
            for _ in range(BATCHES_MAX):
                batch: list[tuple[Address, bytes]] = []
                while len(batch) < BATCH_DATAGRAMS_MAX and udp.receive(batch):
                    pass
                if not batch:
                    break
                self._running = True
                if self._handler is None:
                    self._unclaimed += len(batch)
                else:
                    self._guard(self._handler, batch)
                self._running = False
                if self._timers.soon:
                    self._run_due()
                if self._timers.soon:
                    self._wake()

    # -- computations

    def compute(self, fn: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        if self._computing >= COMPUTE_WAITING_MAX:
            self._computations_refused += 1
            self.call_later(0.0, done, RuntimeError(f"more than {COMPUTE_WAITING_MAX} computations wait"))
            return
        self._computing += 1
        self._computations += 1
        self._nursery.start_soon(self._compute, fn, done)

    async def _compute(self, fn: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        result: T | Exception
        try:
            result = await trio.to_thread.run_sync(fn, abandon_on_cancel=True, limiter=self._limiter)
        except Exception as error:
            result = error
        finally:
            self._computing -= 1
        self._guard(done, result)

    def compute_apart(
        self,
        fn: Callable[[A], T],
        argument: A,
        time_s: float,
        memory_bytes: int,
        done: Callable[[T | Exception], None],
    ) -> None:
        if not self._apart.run(fn, argument, time_s, memory_bytes, done):
            self.call_later(0.0, done, RuntimeError(f"more than {WAITING_MAX} computations wait"))

    # -- streams

    def listen(
        self, at: Address, accept: Callable[[Stream], None], ssl_context: ssl.SSLContext | None = None
    ) -> Address:
        return self._streams.listen(at, accept, ssl_context)

    def connect(
        self,
        to: Address,
        done: Callable[[Stream | str], None],
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._streams.connect(to, done, ssl_context)

    def statistics(self) -> NativeStatistics:
        udp, streams = self._udp, self._streams
        return NativeStatistics(
            crashes=self._crashes,
            timers=len(self._timers),
            datagrams_sent=udp.datagrams_sent,
            datagrams_received=udp.datagrams_received,
            send_calls=udp.sends,
            receive_calls=udp.receives,
            unsent=dict(udp.unsent),
            unclaimed=self._unclaimed,
            gso=udp.gso,
            gro=udp.gro,
            streams=streams.open_count,
            streams_refused=streams.refused,
            computations=self._computations,
            computations_refused=self._computations_refused + self._apart.refused,
            computations_apart=self._apart.done,
            computations_ended=self._apart.killed,
        )


class _Datagrams:
    """The node's side of the socket."""

    def __init__(self, runtime: NativeRuntime) -> None:
        self._runtime = runtime
        self.send_many = runtime._udp.send_many

    def close(self) -> None:
        self._runtime._close_datagrams()


@asynccontextmanager
async def open_native(
    bind: Address = "127.0.0.1:0",
    advertise: Address | None = None,
    *,
    sealed: bool = False,
    offload: bool = True,
) -> AsyncIterator[NativeRuntime]:
    """A runtime for as long as the block lasts; at its end all tasks, streams and the socket are gone.

    `bind` is numeric. `advertise` is what other nodes are told, needed when `bind` is a wildcard. `sealed` says
    that a keyring protects the datagrams; without it only loopback may be bound.
    """
    if not sealed and not is_loopback(bind):
        raise AddressError(f"{bind}: without a keyring a node listens on loopback only")
    if advertise is None and is_wildcard(bind):
        raise AddressError(f"{bind}: say which address other nodes shall use")
    udp = UdpSocket(bind, offload=offload)
    try:
        async with trio.open_nursery() as nursery:
            runtime = NativeRuntime(udp, _advertised(advertise, udp.address), nursery)
            nursery.start_soon(runtime._read_datagrams)
            nursery.start_soon(runtime._keep_time)
            yield runtime
            nursery.cancel_scope.cancel()
    finally:
        udp.close()


def _advertised(advertise: Address | None, bound: Address) -> Address:
    """What others are told; port 0 stands for whichever the kernel picked."""
    if advertise is None:
        return bound
    host, port = split_address(advertise)
    return format_address(host, port or split_address(bound)[1])
