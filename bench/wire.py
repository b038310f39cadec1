"""Batches on the wire: bytes and microseconds against Arrow IPC streams and msgpack rows.

Rows of (string, int, int, int), the shape of a partial aggregate. "ours" is a message to a peer that knows the
schema; Arrow IPC and msgpack rows carry theirs as they must. Times are medians over interleaved rounds, the
ratios medians of the rounds' ratios. Encoding starts and decoding ends at Arrow columns, for msgpack rows at
Python tuples, which is kinder to it.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import msgpack
import pyarrow as pa

from query.batch import Batch, from_rows
from query.wire import SchemaReceiver, decode, decode_many, encode, encode_parts

SIZES = (1, 10, 100, 1_000, 10_000)
ROUNDS = 15
SCHEMA = pa.schema(
    [("src", pa.string()), ("dpt", pa.int64()), ("packets", pa.int64()), ("bytes", pa.int64())]
)


def make(rows: int) -> Batch:
    rng = random.Random(rows)
    sources = [
        f"10.{rng.randrange(4)}.{rng.randrange(256)}.{rng.randrange(256)}" for _ in range(max(rows // 4, 1))
    ]
    made = [
        (
            rng.choice(sources),
            rng.choice((22, 53, 80, 443, rng.randrange(65_536))),
            rng.randrange(1, 1_000),
            rng.randrange(10**6),
        )
        for _ in range(rows)
    ]
    return from_rows("fw", made, SCHEMA)


def ipc_encode(batch: Batch, compression: str | None) -> Any:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)
    ) as writer:
        writer.write_batch(batch.data)
    return sink.getvalue()


def ipc_decode(message: Any) -> pa.RecordBatch:
    return pa.ipc.open_stream(message).read_next_batch()


class Way:
    """One way to carry a batch: how to encode and decode it, and what was measured."""

    def __init__(self, name: str, encode: Callable[[], Any], decode: Callable[[Any], Any]) -> None:
        self.name = name
        self.encode = encode
        self.decode = decode
        self.message = encode()
        self.encode_us: list[float] = []
        self.decode_us: list[float] = []

    def round(self, repeats: int) -> None:
        start = time.perf_counter()
        for _ in range(repeats):
            self.encode()
        middle = time.perf_counter()
        for _ in range(repeats):
            self.decode(self.message)
        self.encode_us.append((middle - start) / repeats * 1e6)
        self.decode_us.append((time.perf_counter() - middle) / repeats * 1e6)

    def total_us(self) -> list[float]:
        return [e + d for e, d in zip(self.encode_us, self.decode_us, strict=True)]


def ways(batch: Batch) -> list[Way]:
    peer = SchemaReceiver()
    decode(encode(batch, inline_schema=True), peer)
    rows = [tuple(r.values()) for r in batch.to_rows()]
    made = [
        Way("ours", lambda: encode(batch, inline_schema=False), lambda m: decode(m, peer)),
        Way("ours + schema", lambda: encode(batch, inline_schema=True), lambda m: decode(m, peer)),
        Way("Arrow IPC", lambda: ipc_encode(batch, None), ipc_decode),
        Way("Arrow IPC zstd", lambda: ipc_encode(batch, "zstd"), ipc_decode),
        Way("msgpack rows", lambda: msgpack.packb(rows), lambda m: msgpack.unpackb(m, use_list=False)),
    ]
    assert made[0].decode(made[0].message) == batch
    return made


def ratio(ours: Way, peer: Way) -> float:
    return median(o / p for o, p in zip(ours.total_us(), peer.total_us(), strict=True))


def figure(name: str, ours: float, peer: float, peer_name: str, share: float, target: float) -> None:
    print(
        json.dumps(
            {
                "name": name,
                "ours": round(ours, 1),
                "peer": round(peer, 1),
                "peer_name": peer_name,
                "ratio": round(share, 3),
                "target": target,
                "holds": share <= target,
            }
        )
    )


#: What a scan of a loaded table reads: so many objects, of so many rows each.
OBJECTS, OBJECT_ROWS = 2_000, 4
OBJECTS_TARGET = 0.5


def objects() -> None:
    """Many small objects as a bulk load makes them, read together, against msgpack that is read into columns."""
    batch = make(OBJECTS * OBJECT_ROWS)
    bounds = [(at, at + OBJECT_ROWS) for at in range(0, batch.num_rows, OBJECT_ROWS)]
    peer = SchemaReceiver()
    alone = [encode(batch.slice(start, end - start), inline_schema=True) for start, end in bounds]
    loaded, msgpacked = (
        Way("loaded", lambda: encode_parts(batch, bounds), lambda m: list(decode_many(m, peer))),
        Way("msgpack", lambda: alone, lambda m: list(decode_many(m, peer))),
    )
    for _ in range(ROUNDS):
        for way in (loaded, msgpacked):
            way.round(2)
    bytes_each = [sum(map(len, way.message)) / OBJECTS for way in (loaded, msgpacked)]
    print(
        f"{OBJECTS} objects of {OBJECT_ROWS} rows: {bytes_each[0]:.0f} bytes each, as msgpack {bytes_each[1]:.0f}"
    )
    times = median(loaded.decode_us), median(msgpacked.decode_us)
    share = median(o / p for o, p in zip(loaded.decode_us, msgpacked.decode_us, strict=True))
    figure("wire_us_2000_objects_read", *times, "msgpack columns", share, OBJECTS_TARGET)


def main() -> None:
    measured: dict[int, dict[str, Way]] = {}
    print(f"{'rows':>6}  {'':<15}{'bytes':>9}{'encode us':>11}{'decode us':>11}")
    for size in SIZES:
        made = ways(make(size))
        for _ in range(ROUNDS):
            for way in made:
                way.round(max(2, 400 // size))
        measured[size] = {w.name: w for w in made}
        for way in made:
            times = f"{median(way.encode_us):>11.1f}{median(way.decode_us):>11.1f}"
            print(f"{size:>6}  {way.name:<15}{len(way.message):>9}{times}")
    one, thousand, many = measured[1], measured[1_000], measured[10_000]
    row_bytes = len(one["ours"].message)
    figure("wire_bytes_1_row", row_bytes, 60, "limit", row_bytes / 60, 1.0)
    sizes = len(many["ours + schema"].message), len(many["Arrow IPC zstd"].message)
    figure("wire_bytes_10000_rows", *sizes, "Arrow IPC zstd", sizes[0] / sizes[1], 1.0)
    for peer in ("Arrow IPC", "Arrow IPC zstd"):
        times = median(thousand["ours"].total_us()), median(thousand[peer].total_us())
        name = "wire_us_1000_rows" + ("_uncompressed_peer" if peer == "Arrow IPC" else "")
        figure(name, *times, peer, ratio(thousand["ours"], thousand[peer]), 2.0)
    objects()


if __name__ == "__main__":
    main()
