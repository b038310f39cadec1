"""What a native runtime has done, for whoever asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NativeStatistics:
    #: Exceptions that callbacks raised, caught at the edge.
    crashes: int
    timers: int
    datagrams_sent: int
    datagrams_received: int
    send_calls: int
    receive_calls: int
    #: Datagrams that the kernel did not take, by the name of the error.
    unsent: Mapping[str, int]
    #: Datagrams that came before anybody was there to take them.
    unclaimed: int
    gso: bool
    gro: bool
    streams: int
    streams_refused: int
    computations: int
    computations_refused: int
    #: Of computations in a process of their own: those done, and those that were ended at their bounds or failed.
    computations_apart: int
    computations_ended: int
