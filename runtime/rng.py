"""Random numbers of one node and one concern.

SplitMix64: eight bytes of state where the standard library's generator holds 2.5 kB, so that ten thousand
simulated nodes may each have several; and the same numbers on every Python version. Not for secrets: keys
and nonces come from the operating system at the edges.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import MutableSequence, Sequence
from typing import TypeVar

T = TypeVar("T")
_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15


class Rng:
    """A small seeded generator with the vocabulary of `random.Random`."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    @classmethod
    def from_label(cls, seed: int, label: str) -> Rng:
        """An independent stream for each (seed, label)."""
        digest = hashlib.blake2b(f"{seed}/{label}".encode(), digest_size=8).digest()
        return cls(int.from_bytes(digest, "big"))

    def bits64(self) -> int:
        self._state = state = (self._state + _GAMMA) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        return state ^ (state >> 31)

    def getrandbits(self, bits: int) -> int:
        value = 0
        for _ in range((bits + 63) // 64):
            value = (value << 64) | self.bits64()
        return value >> (-bits % 64)

    def randbytes(self, count: int) -> bytes:
        return self.getrandbits(count * 8).to_bytes(count, "big")

    def random(self) -> float:
        """Uniform in [0, 1)."""
        return (self.bits64() >> 11) * (1.0 / (1 << 53))

    def uniform(self, low: float, high: float) -> float:
        return low + (high - low) * self.random()

    def randrange(self, stop: int) -> int:
        """Uniform in 0 ... stop-1; the bias below 2**-40 for any stop used here does not matter."""
        assert stop > 0
        return (self.bits64() * stop) >> 64

    def choice(self, items: Sequence[T]) -> T:
        return items[self.randrange(len(items))]

    def shuffle(self, items: MutableSequence[T]) -> None:
        for last in range(len(items) - 1, 0, -1):
            other = self.randrange(last + 1)
            items[last], items[other] = items[other], items[last]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """`count` distinct positions of `items`, in random order; all of them when there are fewer."""
        pool = list(items)
        count = min(count, len(pool))
        for position in range(count):
            other = position + self.randrange(len(pool) - position)
            pool[position], pool[other] = pool[other], pool[position]
        return pool[:count]

    def expovariate(self, rate: float) -> float:
        return -math.log(1.0 - self.random()) / rate

    def gauss(self, mean: float, deviation: float) -> float:
        """Box-Muller, one of the pair."""
        radius = math.sqrt(-2.0 * math.log(1.0 - self.random()))
        return mean + deviation * radius * math.cos(2.0 * math.pi * self.random())
