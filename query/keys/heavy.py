"""Keys that very many rows share: counted by their stable hashes on every node, added up, and those kept that would
burden one node with more than its share.

A summary holds at most `KEYS_MAX` keys, the most frequent ones. A key that is frequent in all is frequent on some node,
so what is cut off on the way is never what matters.
"""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from query.keys.encode import Words

#: Keys of one summary.
KEYS_MAX = 256
_VERSION = 2
_HEADER = struct.Struct(">BxHQ")

Counts = npt.NDArray[np.uint64]


class HeavyKeys:
    """Frequent keys with how often they occur, among so many rows."""

    __slots__ = ("counts", "hashes", "rows")

    def __init__(self, hashes: Words, counts: Counts, rows: int) -> None:
        self.hashes = hashes
        self.counts = counts
        self.rows = rows

    @classmethod
    def counted(cls, hashed: Words) -> HeavyKeys:
        """The most frequent of some keys, given once a row."""
        hashes, counts = np.unique(hashed, return_counts=True)
        return cls(hashes, counts.astype(np.uint64), len(hashed))._most()

    def merged(self, other: HeavyKeys) -> HeavyKeys:
        every = np.concatenate([self.hashes, other.hashes])
        hashes, places = np.unique(every, return_inverse=True)
        counts = np.zeros(len(hashes), dtype=np.uint64)
        np.add.at(counts, places, np.concatenate([self.counts, other.counts]))
        return HeavyKeys(hashes, counts, self.rows + other.rows)._most()

    def above(self, rows: int) -> HeavyKeys:
        """The keys that more than so many rows have."""
        keep = self.counts > rows
        return HeavyKeys(self.hashes[keep], self.counts[keep], self.rows)

    def has(self, hashed: Words) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = np.isin(hashed, self.hashes)
        return found

    def _most(self) -> HeavyKeys:
        if len(self.hashes) <= KEYS_MAX:
            return self
        # By count and then by hash, so that the same keys are kept wherever they are counted.
        keep = np.sort(np.lexsort((self.hashes, self.counts))[-KEYS_MAX:])
        return HeavyKeys(self.hashes[keep], self.counts[keep], self.rows)

    def to_bytes(self) -> bytes:
        header = _HEADER.pack(_VERSION, len(self.hashes), self.rows)
        return header + self.hashes.astype("<u8").tobytes() + self.counts.astype("<u8").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> HeavyKeys:
        """Reads what `to_bytes` wrote; ValueError for anything else."""
        if len(data) < _HEADER.size:
            raise ValueError("too short for a summary of heavy keys")
        version, keys, rows = _HEADER.unpack_from(data)
        if version != _VERSION or keys > KEYS_MAX or len(data) != _HEADER.size + 16 * keys:
            raise ValueError("not a summary of heavy keys")
        words = np.frombuffer(data, dtype="<u8", offset=_HEADER.size).astype(np.uint64)
        return cls(words[:keys], words[keys:], rows)
