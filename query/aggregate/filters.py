"""Filters as aggregates: a Bloom filter of a column, and a spectral one that counts. Results are bytes.

They are read by `query.keys.bloom` and `query.keys.spectral`.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from query.aggregate.gathered import PerGroup
from query.expr.errors import TypeClash
from query.keys.bloom import BloomFilter
from query.keys.spectral import SpectralFilter
from query.keys.stable import stable_hash

#: What a filter is made for when the call does not say.
KEYS_DEFAULT = 10_000
ERROR_RATE_DEFAULT = 0.01
KEYS_MAX = 10_000_000


class _Filter(PerGroup):
    ARGUMENTS = (1, 3)
    STATES = ("filter",)
    RESULT = pa.binary()

    def __init__(self, keys: Any = KEYS_DEFAULT, error_rate: Any = ERROR_RATE_DEFAULT) -> None:
        if not isinstance(keys, int) or not 1 <= keys <= KEYS_MAX:
            raise TypeClash(f"{self.NAME} is made for 1 to {KEYS_MAX} keys, not {keys!r}")
        try:
            self._error_rate = float(error_rate)
        except (TypeError, ValueError):
            raise TypeClash(f"{self.NAME} takes an error rate, not {error_rate!r}") from None
        if not 0.0 < self._error_rate < 1.0:
            raise TypeClash(f"{self.NAME} takes an error rate between 0 and 1, not {error_rate!r}")
        self._keys = keys

    def conclude(self, state: bytes | None) -> bytes | None:
        return state


class Bloom(_Filter):
    """A Bloom filter of the argument's values, for so many keys (10,000) at most that rate (0.01) of false positives:
    `bloom($id, "1000000"::long, "0.001"::double)`."""

    NAME = "bloom"

    def summarise(self, values: list[pa.Array]) -> bytes:
        filter_ = BloomFilter.sized(self._keys, self._error_rate)
        filter_.add(stable_hash([values[0]], len(values[0])))
        return filter_.to_bytes()

    def merge(self, states: list[bytes]) -> bytes:
        filter_ = BloomFilter.from_bytes(states[0])
        for state in states[1:]:
            filter_.merge(BloomFilter.from_bytes(state))
        return filter_.to_bytes()


class SpectralBloom(_Filter):
    """A spectral Bloom filter of the argument's values: how often each occurs, never too few."""

    NAME = "spectral_bloom"

    def summarise(self, values: list[pa.Array]) -> bytes:
        filter_ = SpectralFilter.sized(self._keys, self._error_rate)
        counted = pc.value_counts(values[0])
        keys, counts = counted.field(0), counted.field(1)
        filter_.add(stable_hash([keys], len(keys)), counts.to_numpy())
        return filter_.to_bytes()

    def merge(self, states: list[bytes]) -> bytes:
        filter_ = SpectralFilter.from_bytes(states[0])
        for state in states[1:]:
            filter_.merge(SpectralFilter.from_bytes(state))
        return filter_.to_bytes()
