"""Two nodes, a wire that loses, repeats and reorders, restarts on both sides: every batch is decoded."""

import random

import pyarrow as pa
import pytest

from query.batch import Batch, from_rows
from query.wire import MissingSchema, SchemaReceiver, SchemaSender, WireError, decode, describe, encode
from query.wire.schemas import HELD_BYTES_MAX, HELD_MESSAGES_MAX


def batch(schema: int, value: int) -> Batch:
    return from_rows(
        f"t{schema}", [(value, None)], pa.schema([("v", pa.int64()), (f"c{schema}", pa.string())])
    )


def test_a_schema_rides_along_until_a_delivery_is_confirmed() -> None:
    sender = SchemaSender()
    schema = describe(batch(1, 0))
    assert sender.must_inline(schema) and sender.must_inline(schema)
    sender.delivered(schema)
    assert not sender.must_inline(schema)
    sender.asked(schema.id)
    assert sender.must_inline(schema)
    sender.delivered(schema)
    sender.reset()
    assert sender.must_inline(schema)


def test_both_memories_are_bounded_by_use() -> None:
    sender, receiver = SchemaSender(schemas_max=3), SchemaReceiver(schemas_max=3)
    schemas = [describe(batch(i, 0)) for i in range(6)]
    for schema in schemas:
        sender.delivered(schema)
        receiver.learn(schema.description)
        sender.must_inline(schemas[0])
        receiver.get(schemas[0].id)
    assert len(sender) == len(receiver) == 3
    assert not sender.must_inline(schemas[0]) and receiver.get(schemas[0].id) is not None
    assert sender.must_inline(schemas[2]) and receiver.get(schemas[2].id) is None


def test_the_name_covers_table_names_and_types() -> None:
    one = describe(from_rows("t", [], pa.schema([("a", pa.int64())]))).id
    for table, name, kind in (("u", "a", pa.int64()), ("t", "b", pa.int64()), ("t", "a", pa.int32())):
        assert describe(from_rows(table, [], pa.schema([(name, kind)]))).id != one
    assert describe(from_rows("t", [], pa.schema([("a", pa.int64())]))).id == one


def test_a_schema_under_a_forged_name_is_refused() -> None:
    message = bytearray(encode(batch(1, 5), inline_schema=True))
    message[3] ^= 1
    with pytest.raises(WireError, match="name"):
        decode(bytes(message), SchemaReceiver())


def test_held_messages_are_bounded_and_counted() -> None:
    receiver = SchemaReceiver()
    for i in range(HELD_MESSAGES_MAX + 5):
        assert receiver.hold(MissingSchema(b"12345678", b"x")) is (i == 0)
    assert receiver.held_messages == HELD_MESSAGES_MAX and receiver.dropped_messages == 5
    receiver.hold(MissingSchema(b"abcdefgh", b"y" * HELD_BYTES_MAX))
    assert receiver.held_messages == 1 and receiver.asking() == (b"abcdefgh",)


@pytest.mark.parametrize("seed", range(12))
def test_every_delivered_batch_is_decoded_in_the_end(seed: int) -> None:
    rng = random.Random(seed)
    sender, receiver = SchemaSender(schemas_max=2), SchemaReceiver(schemas_max=2)
    wire: list[tuple[str, object]] = []
    arrived: list[int] = []
    delivered: set[int] = set()

    def take(message: bytes, value: int) -> None:
        out = decode(message, receiver)
        if isinstance(out, MissingSchema):
            receiver.hold(out)
            return
        arrived.append(out.to_rows()[0]["v"])

    for value in range(300):
        one = batch(rng.randrange(4), value)
        schema = describe(one)
        inline = sender.must_inline(schema)
        wire.append(("batch", (encode(one, inline_schema=inline), schema, inline, value)))
        rng.shuffle(wire)
        while len(wire) > 5:
            kind, content = wire.pop()
            if kind == "batch":
                message, schema, inline, number = content  # type: ignore[misc]
                if rng.random() < 0.2:
                    continue
                delivered.add(number)
                take(message, number)
                if inline:
                    sender.delivered(schema)
            for wire_id in receiver.asking():
                sender.asked(wire_id)
                known = {describe(batch(i, 0)).id: describe(batch(i, 0)) for i in range(4)}
                for ready in receiver.answered(known[wire_id].description):
                    take(ready, -1)
        if rng.random() < 0.02:
            receiver = SchemaReceiver(schemas_max=2)
        if rng.random() < 0.02:
            sender.reset()
    assert receiver.held_messages == 0
    assert sorted(arrived) == sorted(delivered)
