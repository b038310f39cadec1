"""Messages made to hurt: each claims something its bytes do not hold. All must be refused cheaply."""

import tracemalloc
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from query.batch import Batch, from_pydict
from query.wire import SchemaReceiver, WireError, count_rows, decode, encode
from query.wire.codec import RAW, SMALL
from query.wire.limits import DECODED_BYTES_MAX, DECODING_BYTES_MAX, ROWS_MAX, SCHEMA_BYTES_MAX
from query.wire.schemas import describe, read_schema

#: Refusing a message must not cost more memory than the largest legal batch.
REFUSAL_BYTES_MAX = DECODING_BYTES_MAX


def receiver(*kinds: pa.DataType) -> tuple[SchemaReceiver, bytes]:
    batch = Batch(
        "t",
        pa.RecordBatch.from_arrays(
            [pa.nulls(0, k) for k in kinds], names=[f"c{i}" for i in range(len(kinds))]
        ),
    )
    schema = describe(batch)
    peer = SchemaReceiver()
    peer.learn(schema.description)
    return peer, schema.id


def raw(
    wire_id: bytes, rows: Any, body: bytes, notes: list[Any], size: int | None = None, packed: bool = False
) -> bytes:
    header = msgspec.msgpack.encode([rows, len(body) if size is None else size, packed, notes])
    return bytes([RAW]) + wire_id + len(header).to_bytes(3, "big") + header + body


def refused(message: bytes, peer: SchemaReceiver) -> None:
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    try:
        with pytest.raises(WireError):
            decode(message, peer)
        assert tracemalloc.get_traced_memory()[1] < REFUSAL_BYTES_MAX
        assert pa.total_allocated_bytes() - before < REFUSAL_BYTES_MAX
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("rows", "body", "notes"),
    [
        (-1, b"", [0, 0, 0]),
        (ROWS_MAX + 1, b"", [0, 0, 0]),
        (2**40, b"", [0, 0, 0]),
        (True, b"", [0, 0, 0]),
        (1, b"", []),
        (1, b"", [0, 0]),
        (1, b"", [2, 0, 0]),
        (1, b"", [0, 2**63, 0]),
        (1, b"", [0, 0, 3]),
        (1, b"", [0, 0, 16]),
        (1, b"", [0, 0, -8]),
        (2, b"\x01", [0, 0, 1]),
        (1, b"\x01\x02", [0, 0, 1]),
        (1, b"\x01", [0, 2**63 - 1, 1]),
        (1, b"", [0, 0, 0, 0]),
        (9, b"\xff", [1, 0, 0]),
        (1, b"", [0, "x", 0]),
        (1, b"", [0, None, 0]),
    ],
)
def test_integers(rows: Any, body: bytes, notes: list[Any]) -> None:
    peer, wire_id = receiver(pa.int64())
    refused(raw(wire_id, rows, body, notes), peer)


@pytest.mark.parametrize(
    ("rows", "body", "notes"),
    [
        (1, b"", [0, 5, 0]),
        (2, b"ab", [0, -1, 1]),
        (1, b"\xff", [0, 1, 0]),
        (1, b"\xed\xa0\x80", [0, 3, 0]),
        (2, b"\xc3\xa4", [0, 1, 0]),
        (ROWS_MAX, b"", [0, 2**31 - 1, 0]),
        (1, b"", [0, -5, 0]),
    ],
)
def test_text(rows: int, body: bytes, notes: list[int]) -> None:
    peer, wire_id = receiver(pa.string())
    refused(raw(wire_id, rows, body, notes), peer)


def test_lists_whose_lengths_multiply() -> None:
    peer, wire_id = receiver(pa.list_(pa.list_(pa.int64())))
    refused(raw(wire_id, ROWS_MAX, b"", [0, 1000, 0, 0, 1000, 0, 0, 0, 0]), peer)


def test_many_constant_columns_stay_within_the_budget() -> None:
    peer, wire_id = receiver(*[pa.int64()] * 64)
    message = raw(wire_id, ROWS_MAX, b"", [0, 7, 0] * 64)
    with pytest.raises(WireError, match=str(DECODING_BYTES_MAX)):
        decode(message, peer)


def test_decimals_and_times_out_of_range() -> None:
    peer, wire_id = receiver(pa.decimal128(3, 1))
    refused(raw(wire_id, 1, b"\xff" * 15 + b"\x0f", [0]), peer)
    peer, wire_id = receiver(pa.time64("us"))
    refused(raw(wire_id, 1, b"", [0, -1, 0]), peer)
    refused(raw(wire_id, 1, b"", [0, 86_400_000_001, 0]), peer)


def test_a_bomb_is_not_inflated() -> None:
    peer, wire_id = receiver(pa.string())
    zeros = pa.Codec("zstd").compress(bytes(DECODED_BYTES_MAX * 2), asbytes=True)
    refused(raw(wire_id, 1, zeros, [0, 5, 0], size=DECODED_BYTES_MAX * 2, packed=True), peer)
    refused(raw(wire_id, 1, zeros, [0, 5, 0], size=100, packed=True), peer)
    small = pa.Codec("zstd").compress(b"hello", asbytes=True)
    refused(raw(wire_id, 1, small, [0, 5, 0], size=6, packed=True), peer)
    refused(raw(wire_id, 1, small[:-2], [0, 5, 0], size=5, packed=True), peer)
    refused(raw(wire_id, 1, b"junk", [0, 5, 0], size=5, packed=True), peer)


@pytest.mark.parametrize(
    "columns",
    [
        b"",
        b"\xdd\xff\xff\xff\xff",
        b"\x91\xdd\xff\xff\xff\xff",
        b"\x91" * 5000,
        msgspec.msgpack.encode([[1], [2]]),
        msgspec.msgpack.encode([["x"]]),
        msgspec.msgpack.encode([[1.5]]),
        msgspec.msgpack.encode([[1.0]]),
        msgspec.msgpack.encode([[True]]),
        msgspec.msgpack.encode([[2**63]]),
        msgspec.msgpack.encode([[b"1"]]),
        msgspec.msgpack.encode([[[1]]]),
        msgspec.msgpack.encode([{"a": 1}]),
        msgspec.msgpack.encode([[1] * 1000]),
        msgspec.msgpack.encode({"a": 1}),
        msgspec.msgpack.encode([[1]]) + b"\x00",
    ],
)
def test_small_columns_of_the_wrong_kind(columns: bytes) -> None:
    peer, wire_id = receiver(pa.int64())
    refused(bytes([SMALL]) + wire_id + columns, peer)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.string(), [1]),
        (pa.string(), [b"\xff"]),
        (pa.decimal128(5, 2), ["1e9"]),
        (pa.decimal128(5, 2), ["NaN"]),
        (pa.decimal128(5, 2), ["x"]),
        (pa.decimal128(5, 2), ["1" * 2000]),
        (pa.decimal128(5, 2), [1]),
        (pa.time64("us"), [-1]),
        (pa.month_day_nano_interval(), [[1, 2]]),
        (pa.month_day_nano_interval(), [[1, 2, 2**63]]),
        (pa.month_day_nano_interval(), [["a", 2, 3]]),
        (pa.struct([("a", pa.int64())]), [[1, 2]]),
        (pa.list_(pa.int64()), [["x"]]),
        (pa.null(), [1]),
        (pa.bool_(), [1]),
        (pa.float64(), ["x"]),
    ],
)
def test_small_values_of_the_wrong_kind(kind: pa.DataType, values: list[Any]) -> None:
    peer, wire_id = receiver(kind)
    refused(bytes([SMALL]) + wire_id + msgspec.msgpack.encode([values]), peer)


@pytest.mark.parametrize(
    "description",
    [
        b"",
        b"junk",
        msgspec.msgpack.encode([1, []]),
        msgspec.msgpack.encode(["t", [["a", "lnog"]]]),
        msgspec.msgpack.encode(["t", [["a", 5]]]),
        msgspec.msgpack.encode(["t", [["a", ["list", "long", 1]]]]),
        msgspec.msgpack.encode(["t", [["a", ["map", "long"]]]]),
        msgspec.msgpack.encode(["t", [[b"a", "long"]]]),
        msgspec.msgpack.encode(["t", [["a", "long"]] * 5000]),
        b"\x92\xa1t\x91\x92\xa1a" + b"\x92\xa4list" * 3000 + b"\xa4long",
        msgspec.msgpack.encode(["t", [["a" * SCHEMA_BYTES_MAX, "long"]]]),
        msgspec.msgpack.encode(["t", [["a", "struct"]]]),
    ],
)
def test_schemas_that_are_none(description: bytes) -> None:
    with pytest.raises(WireError):
        read_schema(description)


def counted(message: bytes) -> int | None:
    """What a node makes of an object's rows when it describes its tables: nothing but WireError may come out."""
    try:
        return count_rows(message)
    except WireError:
        return None


@pytest.mark.parametrize("rows", [3, 100])
def test_rows_of_a_message_cut_short_are_not_counted_wrongly(rows: int) -> None:
    whole = encode(from_pydict("t", {"a": list(range(rows)), "s": ["x"] * rows}), inline_schema=True)
    assert counted(whole) == rows
    assert {counted(whole[:length]) for length in range(len(whole))} <= {None, rows}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\xdd\xff\xff\xff\xff", id="four billion columns"),
        pytest.param(b"\x91\xdd\xff\xff\xff\xff", id="four billion rows"),
        pytest.param(b"\x91\xdc\x00\x21" + b"\xc0" * 33, id="more rows than a small batch has"),
        pytest.param(b"\x91" * 200_000, id="deep"),
        pytest.param(b"\x91\xc0", id="a column that is no list"),
        pytest.param(b"\xff\xff\xff\xff" * 4, id="a header beyond the end"),
        pytest.param(b"", id="nothing"),
    ],
)
@pytest.mark.parametrize("form", [SMALL, RAW])
def test_rows_that_cannot_be_are_not_counted(form: int, body: bytes) -> None:
    assert counted(bytes((form,)) + bytes(8) + body) is None


@pytest.mark.parametrize("rows", [-1, ROWS_MAX + 1, 1 << 63])
def test_a_header_cannot_claim_any_number_of_rows(rows: int) -> None:
    _, head = receiver(pa.int64())
    assert counted(raw(head, rows, b"", [0, 0, 0])) is None
