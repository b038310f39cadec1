"""The virtual runtime interface: everything a node knows of the world (PIER 3.1, Table 3.1).

Two bindings exist, `runtime.native` (trio, real sockets) and `runtime.sim` (thousands of nodes in one
thread). Node code is callbacks over these protocols and cannot tell which one it runs on. All calls
are made from, and all callbacks arrive on, one thread; a callback runs to its end before the next.
Callbacks of a node that has stopped or crashed never run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, TypeVar

from runtime.message import Message
from runtime.rng import Rng

#: Where a node is reached: "host:port", IPv6 as "[host]:port". Opaque to node code; compared as text.
Address: TypeAlias = str
#: Told exactly once per message: True when the peer's transport acknowledged it, False when the retries
#: are spent (the peer may still have seen it: a failure notice is not a proof of absence).
Notice: TypeAlias = Callable[[bool], None]

T = TypeVar("T")
A = TypeVar("A")
M = TypeVar("M", bound=Message)


class OutOfTime(Exception):
    """A computation took longer than it may, and was ended."""


class OutOfMemory(Exception):
    """A computation took more memory than it may, and was ended."""


class Timer(Protocol):
    """A pending call. Cancelling twice, or after it ran, does nothing."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Time and timers of one node. `now` is monotonic and unrelated between nodes; `wall` is Unix time as
    the node believes it. Two nodes' times must never be compared: send ages, not instants."""

    def now(self) -> float: ...

    def wall(self) -> float: ...

    def call_later(self, delay_s: float, fn: Callable[[T], None], arg: T) -> Timer: ...


class Datagrams(Protocol):
    """Unreliable datagrams of one node, on one socket."""

    def send_many(self, to: Address, datagrams: Sequence[bytes]) -> None:
        """Sends some datagrams to one peer, in one system call where the kernel can."""
        ...

    def close(self) -> None: ...


#: All datagrams that one readiness of the socket yielded, each with its sender.
DatagramHandler: TypeAlias = Callable[[Sequence[tuple[Address, bytes]]], None]


class StreamHandler(Protocol):
    """What the owner of a TCP stream is told."""

    def received(self, data: bytes) -> None: ...

    def drained(self) -> None:
        """The write buffer fell below its low-water mark after `write` had returned False."""
        ...

    def closed(self, reason: str) -> None:
        """The stream is gone; the last call. `reason` is empty for an orderly end."""
        ...


class Stream(Protocol):
    """One TCP connection, for clients and bulk feeds."""

    @property
    def peer(self) -> Address: ...

    def handle(self, handler: StreamHandler) -> None: ...

    def write(self, data: bytes) -> bool:
        """Queues data. False: above the high-water mark, write no more until `drained`."""
        ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None: ...


class Runtime(Clock, Protocol):
    """One node's whole world, apart from its messages (see `Messenger`)."""

    @property
    def address(self) -> Address:
        """Where other nodes reach this one."""
        ...

    def rng(self, label: str) -> Rng:
        """A generator of this node's own for one concern; the same label gives an independent, repeatable
        stream in simulation and an unpredictable one natively."""
        ...

    def compute(self, fn: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """Runs a long pure computation off the event loop; `done` gets its result or its exception.
        In simulation the result arrives after the time the computation is charged for."""
        ...

    def compute_apart(
        self,
        fn: Callable[[A], T],
        argument: A,
        time_s: float,
        memory_bytes: int,
        done: Callable[[T | Exception], None],
    ) -> None:
        """Runs what strangers can make long or large: in a process of its own, which ends with the bounds; `done`
        gets the result, `OutOfTime`, `OutOfMemory` or another exception. One at a time. The function is one of a
        module, and it, its argument and its result can be pickled. In simulation it is as `compute`."""
        ...

    def open_datagrams(self, handler: DatagramHandler) -> Datagrams: ...

    def listen(self, at: Address, accept: Callable[[Stream], None]) -> Address:
        """Accepts TCP streams; returns the bound address (port 0 picks one)."""
        ...

    def connect(self, to: Address, done: Callable[[Stream | str], None]) -> None:
        """Opens a TCP stream; `done` gets it, or the reason why not."""
        ...


class Messenger(Protocol):
    """Typed messages with a delivery-or-failure notice, unordered, at most once each.

    Natively and in packet-level simulation this is UdpCC over `Datagrams`; in message-level
    simulation the network model carries the objects themselves. Messages are immutable."""

    def send(self, to: Address, message: Message, notice: Notice | None = None) -> None: ...

    def on(self, kind: type[M], handler: Callable[[Address, M], None]) -> None:
        """Registers the one handler of a message type; a second registration replaces the first."""
        ...
