"""The load that every driver of `dht.py` runs: random keys, 100-byte values, 64 in flight, each operation timed."""

from __future__ import annotations

import json
import random
import time
from typing import Any

IN_FLIGHT = 64
VALUE = b"v" * 100


class Load:
    """One run of puts or gets. Keys are a tag and a number: a put run tells how many there were, and another node is
    told to get among them."""

    def __init__(self, mode: str, seconds: float, copies: int, tag: str, count: int) -> None:
        self.mode = mode
        self.copies = copies
        self.value = VALUE
        self.began = time.perf_counter()
        self._until = self.began + seconds
        self._random = random.Random(7)
        self._tag = tag
        self._count = count
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
        if self.mode == "get":
            return f"{self._tag}-{self._random.randrange(self._count)}"
        self._count += 1
        return f"{self._tag}-{self._count - 1}"

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
            "p50_s": ranked[len(ranked) // 2],
            "p99_s": ranked[len(ranked) * 99 // 100],
            "max_s": ranked[-1],
        }


def answer(load: Load) -> None:
    print(json.dumps(load.result()), flush=True)
