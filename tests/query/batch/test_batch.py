import pyarrow as pa

from query.batch import Batch, concat, from_arrow, from_pydict, from_rows, schema_id
from query.batch.schemas import SchemaTable

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string())])


def test_from_rows_and_pydict_agree() -> None:
    rows = from_rows("t", [(1, "x"), (None, None)], SCHEMA)
    columns = from_pydict("t", {"a": [1, None], "b": ["x", None]}, SCHEMA)
    assert rows == columns
    assert rows.to_rows() == [{"a": 1, "b": "x"}, {"a": None, "b": None}]
    assert from_rows("t", [], SCHEMA).num_rows == 0
    assert rows != rows.with_table("u")


def test_from_arrow_makes_types_canonical_and_drops_metadata() -> None:
    field = pa.field("a", pa.large_string(), nullable=False, metadata={"k": "v"})
    data = pa.RecordBatch.from_arrays(
        [pa.array(["x"], pa.large_string())], schema=pa.schema([field], {"m": "n"})
    )
    batch = from_arrow("t", data)
    assert batch.schema.equals(pa.schema([("a", pa.string())]), check_metadata=True)
    assert batch.to_rows() == [{"a": "x"}]


def test_slice_filter_and_concat_keep_the_schema_id() -> None:
    batch = from_rows("t", [(i, str(i)) for i in range(10)], SCHEMA)
    number = batch.schema_id
    parts = [batch.slice(0, 3), batch.slice(3, 4), batch.slice(7)]
    assert [p.schema_id for p in parts] == [number] * 3
    whole = concat(parts)
    assert whole == batch and whole.schema_id == number
    kept = batch.take(pa.array([True, None, False] + [False] * 7))
    assert kept.to_rows() == [{"a": 0, "b": "0"}] and kept.schema_id == number
    assert batch.slice(0, 1).nbytes < batch.nbytes


def test_equal_schemas_share_a_number() -> None:
    assert schema_id(SCHEMA) == schema_id(pa.schema(list(SCHEMA)))
    assert schema_id(SCHEMA) != schema_id(pa.schema([("a", pa.int64())]))
    assert Batch("t", from_rows("t", [], SCHEMA).data).schema_id == schema_id(SCHEMA)


def test_the_schema_table_is_bounded_and_numbers_are_never_reused() -> None:
    table = SchemaTable(schemas_max=3)
    seen = [table.intern(pa.schema([(f"c{i}", pa.int64())])) for i in range(10)]
    assert len(table) == 3
    assert len(set(seen)) == 10
    again = table.intern(pa.schema([("c0", pa.int64())]))
    assert again not in seen
    assert table.intern(pa.schema([("c9", pa.int64())])) == seen[9]
