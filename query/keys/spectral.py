"""A spectral Bloom filter: how often each key was added, never too few (Cohen and Matias, SIGMOD 2003).

Counters in place of bits; a key's count is the least of its counters (minimum selection). Filters of one size merge by
adding counters, so the filter of all nodes is what one filter over all rows would be. The share of keys whose
count is too high is at most the error rate a filter was sized for.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np
import numpy.typing as npt

from query.keys.bloom import BITS_LOG2_MIN, HASHES_MAX, BloomFilter
from query.keys.encode import Words

#: The largest filter has a million counters: 8 MB in memory.
COUNTERS_LOG2_MAX = 20
_VERSION = 1
_HEADER = struct.Struct(">BBBB")


class SpectralFilter:
    """A multiset of keys."""

    __slots__ = ("_counters", "hashes")

    def __init__(self, counters_log2: int, hashes: int) -> None:
        self.hashes = hashes
        self._counters: npt.NDArray[np.int64] = np.zeros(1 << counters_log2, dtype=np.int64)

    @classmethod
    def sized(cls, keys: int, error_rate: float) -> SpectralFilter:
        """For so many different keys, of which at most that rate has too high a count."""
        like = BloomFilter.sized(keys, error_rate)
        return cls(min(like.bits.bit_length() - 1, COUNTERS_LOG2_MAX), like.hashes)

    @property
    def size(self) -> int:
        return len(self._counters)

    def add(self, hashed: Words, counts: npt.NDArray[np.int64] | None = None) -> None:
        """Adds keys by their stable hashes, each once or so often as `counts` says."""
        times = np.ones(len(hashed), dtype=np.int64) if counts is None else counts
        for place in self._places(hashed):
            np.add.at(self._counters, place, times)

    def count(self, hashed: Words) -> npt.NDArray[np.int64]:
        """How often each key was added, or more."""
        least: npt.NDArray[np.int64] = np.full(len(hashed), np.iinfo(np.int64).max)
        for place in self._places(hashed):
            least = np.minimum(least, self._counters[place])
        return least

    def merge(self, other: SpectralFilter) -> None:
        """Takes over the keys of another filter; ValueError if it has another size."""
        if (other.size, other.hashes) != (self.size, self.hashes):
            raise ValueError("spectral filters of different sizes do not merge")
        self._counters += other._counters

    def to_bytes(self) -> bytes:
        """Most counters are small and many are nought: the narrowest integers that hold them, compressed."""
        most = int(self._counters.max(initial=0))
        width = next(log2 for log2 in range(4) if most < 1 << (8 << log2) or log2 == 3)
        packed = self._counters.astype(f">u{1 << width}").tobytes()
        return _HEADER.pack(_VERSION, self.size.bit_length() - 1, self.hashes, width) + zlib.compress(
            packed, 1
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> SpectralFilter:
        """Reads what `to_bytes` wrote; ValueError for anything else."""
        if len(data) < _HEADER.size:
            raise ValueError("too short for a spectral filter")
        version, counters_log2, hashes, width = _HEADER.unpack_from(data)
        sound = (
            BITS_LOG2_MIN <= counters_log2 <= COUNTERS_LOG2_MAX and 1 <= hashes <= HASHES_MAX and width <= 3
        )
        if version != _VERSION or not sound:
            raise ValueError("not a spectral filter of this version")
        expected = (1 << counters_log2) << width
        try:
            packed = zlib.decompressobj().decompress(data[_HEADER.size :], expected + 1)
        except zlib.error as error:
            raise ValueError(f"not a spectral filter: {error}") from None
        if len(packed) != expected:
            raise ValueError("not a spectral filter: another number of counters")
        filter_ = cls(counters_log2, hashes)
        filter_._counters = np.frombuffer(packed, dtype=f">u{1 << width}").astype(np.int64)
        return filter_

    def _places(self, hashed: Words) -> list[npt.NDArray[np.int64]]:
        """Different for the hashes of one key, or a counter would count it twice: an odd step of a power of two."""
        mask = np.uint64(self.size - 1)
        step = (hashed >> np.uint64(32)) | np.uint64(1)
        return [((hashed + np.uint64(n) * step) & mask).astype(np.int64) for n in range(self.hashes)]
