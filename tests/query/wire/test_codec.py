import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from query.batch import Batch, UnsupportedType, concat, from_pydict, from_rows
from query.wire import (
    BatchTooLarge,
    MissingSchema,
    SchemaReceiver,
    WireError,
    count_rows,
    decode,
    decode_many,
    encode,
    encode_parts,
    split,
)
from query.wire.codec import PLAIN
from query.wire.limits import BATCH_BYTES_MAX, ROWS_MAX
from query.wire.small import SMALL_ROWS_MAX
from tests.query.wire.batches import TYPES, column, random_batch

FLOWS = pa.schema([("src", pa.string()), ("dpt", pa.int64()), ("n", pa.int64()), ("bytes", pa.int64())])


def flows(rows: int, seed: int = 1) -> Batch:
    rng = random.Random(seed)
    made = [
        (f"10.1.{rng.randrange(99)}.{rng.randrange(99)}", rng.randrange(65536), rng.randrange(999), i)
        for i in range(rows)
    ]
    return from_rows("fw", made, FLOWS)


def same(one: Batch, other: Batch) -> bool:
    """Equal, and valid all through; NaN and -0.0 are compared by their bits."""
    other.data.validate(full=True)
    if one.table != other.table or one.schema != other.schema or one.num_rows != other.num_rows:
        return False
    return all(_bits(a).equals(_bits(b)) for a, b in zip(one.data.columns, other.data.columns, strict=True))


def _bits(array: pa.Array) -> pa.Array:
    widths = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}
    return array.view(widths[array.type]) if array.type in widths else array


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32), rows=st.sampled_from([0, 1, 2, 7, 31, 33, 40, 200]), columns=st.integers(0, 6)
)
def test_what_was_encoded_is_decoded(seed: int, rows: int, columns: int) -> None:
    batch = random_batch(seed, rows if columns else 0, columns)
    peer = SchemaReceiver()
    first = decode(encode(batch, inline_schema=True), peer)
    later = decode(encode(batch, inline_schema=False), peer)
    for out in (first, later):
        assert isinstance(out, Batch) and same(batch, out)
        assert out.schema_id == batch.schema_id


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), columns=st.integers(1, 6), sizes=st.lists(st.integers(1, 70), max_size=30))
def test_parts_are_read_as_if_they_came_alone(seed: int, columns: int, sizes: list[int]) -> None:
    batch = random_batch(seed, sum(sizes), columns)
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    bounds = [(end - size, end) for size, end in zip(sizes, ends, strict=True)]
    wanted = encode_parts(batch, bounds)
    for message, (start, end) in zip(wanted, bounds, strict=True):
        part = batch.slice(start, end - start)
        alone = decode(message, SchemaReceiver())
        assert isinstance(alone, Batch) and same(part, alone)
        assert message[0] & PLAIN or message == encode(part, inline_schema=True)
    # Read together they are the same rows in fewer batches; what is no batch is told alone.
    garbage = [b"", b"\x11nothing", wanted[0][:-1]] if wanted else [b""]
    mixed = [*wanted[: len(wanted) // 2], *garbage, *wanted[len(wanted) // 2 :]]
    read = list(decode_many(mixed, SchemaReceiver()))
    assert sum(count for count, _ in read) == len(mixed)
    assert sum(isinstance(each, WireError) for _, each in read) == len(garbage)
    rows = [each for _, each in read if isinstance(each, Batch)]
    assert sum(each.num_rows for each in rows) == batch.num_rows
    # Small and large ones apart, each in their order.
    large = [end - start > SMALL_ROWS_MAX for start, end in bounds]
    in_order = sorted(range(len(bounds)), key=lambda number: large[number] != large[0])
    if rows:
        assert same(concat(rows), concat([batch.slice(a, b - a) for a, b in (bounds[n] for n in in_order)]))
    for message, (start, end) in zip(wanted, bounds, strict=True):
        assert count_rows(message) == end - start


@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize("rows", [5, SMALL_ROWS_MAX, SMALL_ROWS_MAX + 1, 500])
def test_every_type_in_both_forms(kind: pa.DataType, rows: int) -> None:
    for seed in range(3):
        data = pa.RecordBatch.from_arrays([column(kind, rows, random.Random(seed))], names=["c"])
        out = decode(encode(Batch("t", data), inline_schema=True), SchemaReceiver())
        assert isinstance(out, Batch) and same(Batch("t", data), out)


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_every_type_of_many_small_parts(kind: pa.DataType) -> None:
    rng = random.Random(str(kind))
    sizes = [rng.randrange(1, SMALL_ROWS_MAX + 1) for _ in range(40)]
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    data = pa.RecordBatch.from_arrays([column(kind, ends[-1], rng) for _ in range(3)], names=["a", "b", "c"])
    batch = Batch("t", data)
    messages = encode_parts(batch, [(end - size, end) for size, end in zip(sizes, ends, strict=True)])
    nested = pa.types.is_nested(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind)
    assert bool(messages[0][0] & PLAIN) != bool(nested or pa.types.is_interval(kind))
    ((count, read),) = decode_many(messages, SchemaReceiver())
    assert count == len(sizes) and isinstance(read, Batch) and same(batch, read)


def test_small_parts_are_hardly_larger_than_msgpack() -> None:
    batch = flows(4_000)
    bounds = [(start, start + 2) for start in range(0, 4_000, 2)]
    alone = [encode(batch.slice(start, end - start), inline_schema=True) for start, end in bounds]
    together = encode_parts(batch, bounds)
    assert together[0][0] & PLAIN and not alone[0][0] & PLAIN
    assert sum(map(len, together)) <= 1.05 * sum(map(len, alone))


def test_one_row_is_small_and_many_rows_are_smaller_than_arrow_ipc() -> None:
    assert len(encode(flows(1), inline_schema=False)) <= 60
    batch = flows(10_000)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch.data)
    assert len(encode(batch, inline_schema=True)) <= sink.tell()


def test_values_behind_nulls_do_not_travel() -> None:
    raw = pa.array(["secret"] * 100)
    hidden = pa.Array.from_buffers(pa.string(), 100, [pa.py_buffer(bytes(13)), *raw.buffers()[1:]])
    numbers = pa.Array.from_buffers(
        pa.float64(), 100, [pa.py_buffer(bytes(13)), pa.py_buffer(b"hidden!!" * 100)]
    )
    for array, word in ((hidden, b"secret"), (numbers, b"hidden")):
        message = encode(Batch("t", pa.record_batch([array], names=["c"])), inline_schema=True)
        out = decode(message, SchemaReceiver())
        assert isinstance(out, Batch) and out.data.column(0).null_count == 100
        assert word not in bytes(message) and word not in b"".join(
            bytes(b) for b in out.data.column(0).buffers() if b
        )


def test_an_unknown_schema_is_a_result_not_an_error() -> None:
    message = encode(flows(3), inline_schema=False)
    out = decode(message, SchemaReceiver())
    assert isinstance(out, MissingSchema) and out.message == message and len(out.id) == 8


def test_too_large_is_the_callers_fault_and_split_helps() -> None:
    batch = from_pydict("t", {"a": pa.repeat(1, ROWS_MAX + 1)})
    with pytest.raises(BatchTooLarge, match="rows"):
        encode(batch, inline_schema=True)
    wide = from_pydict("t", {"a": ["x" * 100_000] * 800})
    with pytest.raises(BatchTooLarge):
        encode(wide, inline_schema=True)
    for whole in (batch, wide):
        pieces = list(split(whole))
        assert len(pieces) > 1 and concat(pieces) == whole
        peer = SchemaReceiver()
        out = [decode(encode(p, inline_schema=True), peer) for p in pieces[:2]]
        assert out == pieces[:2]
    assert list(split(flows(3))) == [flows(3)]


def test_the_largest_batch_that_may_be_sent_can_be_received() -> None:
    numbers = pa.array(range(2**40, 2**40 + ROWS_MAX * 4096, 4096), pa.int64())
    data = pa.RecordBatch.from_arrays([numbers] * 5, names=list("abcde"))
    assert 0.8 * BATCH_BYTES_MAX < data.nbytes <= BATCH_BYTES_MAX
    assert decode(encode(Batch("t", data), inline_schema=True), SchemaReceiver()) == Batch("t", data)
    lists = pa.array([[1, 2, 3]] * 700_000, pa.list_(pa.int64()))
    batch = Batch("t", pa.record_batch([lists], names=["l"]))
    assert decode(encode(batch, inline_schema=True), SchemaReceiver()) == batch


def test_columns_that_are_not_canonical_do_not_leave() -> None:
    with pytest.raises(UnsupportedType, match="canonical"):
        encode(Batch("t", pa.record_batch({"a": pa.array(["x"], pa.large_string())})), inline_schema=True)


def check_hostile(message: bytes, known: bytes) -> None:
    """Any bytes: a valid batch, a missing schema, or WireError; and rows are counted as they are read."""
    peer = SchemaReceiver()
    decode(known, peer)
    try:
        counted: int | None = count_rows(message)
        assert counted is not None and counted >= 0
    except WireError:
        counted = None
    try:
        out = decode(message, peer)
    except WireError:
        return
    if isinstance(out, Batch):
        assert counted == out.num_rows
        out.data.validate(full=True)
        out.data.to_pydict() if not any(_unprintable(f.type) for f in out.schema) else None


def _unprintable(kind: pa.DataType) -> bool:
    """Arrow holds instants that Python's datetime does not."""
    text = str(kind)
    return any(word in text for word in ("timestamp", "date", "duration"))


@settings(max_examples=400, deadline=None)
@given(data=st.data(), seed=st.integers(0, 40), rows=st.sampled_from([1, 5, 40, 120]), inline=st.booleans())
def test_mutated_messages_never_crash(data: st.DataObject, seed: int, rows: int, inline: bool) -> None:
    batch = random_batch(seed, rows, 3)
    known = encode(batch, inline_schema=True)
    message = bytearray(encode(batch, inline_schema=inline))
    for _ in range(data.draw(st.integers(1, 4))):
        where = data.draw(st.integers(0, len(message) - 1)) if message else 0
        action = data.draw(st.sampled_from("xxxid"))
        if action == "x" and message:
            message[where] = data.draw(st.integers(0, 255))
        elif action == "i":
            message[where:where] = data.draw(st.binary(max_size=6))
        else:
            del message[where : where + data.draw(st.integers(1, 20))]
    check_hostile(bytes(message), known)


@settings(max_examples=200, deadline=None)
@given(body=st.binary(max_size=200), form=st.sampled_from([0x10, 0x11, 0x20, 0x21, 0x30, 0x00]))
def test_random_bytes_never_crash(body: bytes, form: int) -> None:
    known = encode(flows(2), inline_schema=True)
    check_hostile(bytes([form]) + known[1:9] + body, known)
    check_hostile(bytes([form]) + body, known)
    check_hostile(body, known)


@settings(max_examples=300, deadline=None)
@given(data=st.data(), seed=st.integers(0, 40), count=st.sampled_from([1, 2, 9]))
def test_one_damaged_part_hurts_no_other(data: st.DataObject, seed: int, count: int) -> None:
    """Parts that are read together: what one of them became is told of it alone."""
    rng = random.Random(seed)
    kinds = [
        rng.choice([kind for kind in TYPES if pa.types.is_primitive(kind)] + [pa.string()]) for _ in range(3)
    ]
    arrays = [column(kind, 3 * count, rng) for kind in kinds]
    batch = Batch("t", pa.RecordBatch.from_arrays(arrays, names=["a", "b", "c"]))
    messages = encode_parts(batch, [(start, start + 3) for start in range(0, 3 * count, 3)])
    which = data.draw(st.integers(0, count - 1))
    known = messages[which]
    damaged = bytearray(known)
    where = data.draw(st.integers(0, len(damaged) - 1))
    if data.draw(st.booleans()):
        damaged[where] = data.draw(st.integers(0, 255))
    else:
        del damaged[where : where + data.draw(st.integers(1, 9))]
    messages[which] = bytes(damaged)
    alone: list[Batch | None] = []
    for message in messages:
        try:
            read = decode(message, SchemaReceiver())
        except WireError:
            read = None
        alone.append(read if isinstance(read, Batch) else None)
    check_hostile(bytes(damaged), known)
    together = list(decode_many(messages, SchemaReceiver()))
    assert sum(n for n, _ in together) == count
    rows = [each for _, each in together if isinstance(each, Batch)]
    for each in rows:
        each.data.validate(full=True)
    assert sum(each.num_rows for each in rows) == sum(each.num_rows for each in alone if each is not None)
