"""The load that every driver of `dht.py` runs: 100-byte values, 64 in flight, each operation timed.

Gets read what was put in an order drawn at random, each key once before any comes again. Keys that the reading node
holds itself are passed over where it can tell: a look into its own memory says nothing of a DHT, and how many there are
follows from the number of copies and from how often peers were lost, not from how fast gets are.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from typing import Any

IN_FLIGHT = 64
VALUE = b"v" * 100


class Load:
    """One run of puts or gets. Keys are a tag and a number: a put run tells how many there were, and another node is
    told to get them."""

    def __init__(self, mode: str, seconds: float, copies: int, tag: str, count: int) -> None:
        self.mode = mode
        self.copies = copies
        self.value = VALUE
        self.began = time.perf_counter()
        self._until = self.began + seconds
        self._tag = tag
        self._count = count
        self._order = random.Random(7).sample(range(count), count) if mode == "get" else []
        self._place = 0
        self._passed_over = 0
        #: Whether this node has the value of a key itself.
        self.holds: Callable[[str], bool] = lambda key: False
        self._latencies: list[float] = []
        self._failed = 0
        self._last = self.began

    @classmethod
    def parse(cls, line: str) -> Load:
        """`put SECONDS COPIES TAG 0` or `get SECONDS COPIES TAG COUNT`."""
        mode, seconds, copies, tag, count = line.split()
        return cls(mode, float(seconds), int(copies), tag, int(count))

    def next_key(self) -> str | None:
        """None when the time is over."""
        if time.perf_counter() >= self._until:
            return None
        if self.mode == "put":
            self._count += 1
            return f"{self._tag}-{self._count - 1}"
        for _ in self._order:
            key = f"{self._tag}-{self._order[self._place]}"
            self._place = (self._place + 1) % self._count
            if not self.holds(key):
                return key
            self._passed_over += 1
        return None

    def ended(self, took_s: float, right: bool) -> None:
        self._latencies.append(took_s)
        self._last = time.perf_counter()
        if not right:
            self._failed += 1

    def result(self) -> dict[str, Any]:
        ranked = sorted(self._latencies)
        return {
            "per_s": max(1, len(ranked) - self._failed) / (self._last - self.began),
            "count": self._count,
            "failed": self._failed,
            "passed_over": self._passed_over,
            "p50_s": ranked[len(ranked) // 2],
            "p99_s": ranked[len(ranked) * 99 // 100],
            "max_s": ranked[-1],
        }


def answer(load: Load) -> None:
    print(json.dumps(load.result()), flush=True)
