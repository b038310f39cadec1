"""A Bloom filter over keys, the same on every node: which keys are certainly absent elsewhere.

Filters merge by OR; the smaller of two is repeated to the size of the larger first, which adds keys it does not have
and loses none. One that turns out larger than its keys need is folded in half. A filter made for n keys at an error
rate e has at most that rate of false positives while it holds no more than n; beyond that the rate grows, and
`error_rate` says what it is now. The positions of a key come from its 64-bit stable hash by double hashing (Kirsch and
Mitzenmacher 2006).
"""

from __future__ import annotations

import math
import struct
import zlib

import numpy as np
import numpy.typing as npt

from query.keys.encode import Words

#: Bits of the smallest and the largest filter; the largest is 16 MB on the wire.
BITS_LOG2_MIN, BITS_LOG2_MAX = 6, 27
HASHES_MAX = 24
_VERSION = 1
_HEADER = struct.Struct(">BBBxI")


class BloomFilter:
    """A set of keys that may contain more than was added, never less."""

    __slots__ = ("_flags", "hashes")

    def __init__(self, bits_log2: int, hashes: int) -> None:
        self.hashes = hashes
        self._flags: npt.NDArray[np.bool_] = np.zeros(1 << bits_log2, dtype=np.bool_)

    @classmethod
    def sized(cls, keys: int, error_rate: float) -> BloomFilter:
        """For so many keys at most that rate of false positives; the size is rounded up to a power of two."""
        bits = -max(1, keys) * math.log(error_rate) / math.log(2) ** 2
        bits_log2 = min(max(math.ceil(math.log2(bits)), BITS_LOG2_MIN), BITS_LOG2_MAX)
        best = round((1 << bits_log2) / max(1, keys) * math.log(2))
        needed = math.ceil(-math.log2(error_rate))
        return cls(bits_log2, max(1, min(best, needed, HASHES_MAX)))

    @property
    def bits(self) -> int:
        return len(self._flags)

    @property
    def nbytes(self) -> int:
        return int(self._flags.nbytes)

    @property
    def error_rate(self) -> float:
        """The share of absent keys that it takes for present, from how full it is."""
        return float(np.mean(self._flags)) ** self.hashes

    def add(self, hashed: Words) -> None:
        """Adds keys by their stable hashes."""
        for place in self._places(hashed):
            self._flags[place] = True

    def contains(self, hashed: Words) -> npt.NDArray[np.bool_]:
        """Which keys may be there; the others are not."""
        found: npt.NDArray[np.bool_] = np.ones(len(hashed), dtype=np.bool_)
        for place in self._places(hashed):
            found &= self._flags[place]
        return found

    def merge(self, other: BloomFilter) -> None:
        """Takes over the keys of another filter; ValueError if it hashes otherwise."""
        if other.hashes != self.hashes:
            raise ValueError("Bloom filters of different numbers of hashes do not merge")
        if other.bits > self.bits:
            self._flags = np.tile(self._flags, other.bits // self.bits)
        self._flags |= np.tile(other._flags, self.bits // other.bits)

    def folded(self, error_rate: float) -> BloomFilter:
        """The smallest filter of the same keys that errs no more often than this, or itself if it does already."""
        best = self
        while best.bits > 1 << BITS_LOG2_MIN and (half := best.halved()).error_rate <= error_rate:
            best = half
        return best

    def halved(self) -> BloomFilter:
        """The same keys in half the bits."""
        half = BloomFilter(self.bits.bit_length() - 2, self.hashes)
        half._flags = self._flags[: half.bits] | self._flags[half.bits :]
        return half

    def to_bytes(self) -> bytes:
        header = _HEADER.pack(_VERSION, self.bits.bit_length() - 1, self.hashes, 0)
        return header + zlib.compress(np.packbits(self._flags).tobytes(), 1)

    @classmethod
    def from_bytes(cls, data: bytes) -> BloomFilter:
        """Reads what `to_bytes` wrote; ValueError for anything else."""
        if len(data) < _HEADER.size:
            raise ValueError("too short for a Bloom filter")
        version, bits_log2, hashes, _ = _HEADER.unpack_from(data)
        sound = BITS_LOG2_MIN <= bits_log2 <= BITS_LOG2_MAX and 1 <= hashes <= HASHES_MAX
        if version != _VERSION or not sound:
            raise ValueError("not a Bloom filter of this version")
        size = (1 << bits_log2) // 8
        opener = zlib.decompressobj()
        try:
            bits = opener.decompress(data[_HEADER.size :], size + 1)
        except zlib.error as error:
            raise ValueError(f"not a Bloom filter: {error}") from None
        if len(bits) != size or not opener.eof:
            raise ValueError("a Bloom filter of another size than it says")
        filter_ = cls(bits_log2, hashes)
        packed = np.frombuffer(bits, dtype=np.uint8)
        filter_._flags = np.unpackbits(packed).view(np.bool_)
        return filter_

    def _places(self, hashed: Words) -> list[npt.NDArray[np.int64]]:
        mask = np.uint64(self.bits - 1)
        step = (hashed >> np.uint64(32)) | np.uint64(1)
        return [((hashed + np.uint64(n) * step) & mask).astype(np.int64) for n in range(self.hashes)]
