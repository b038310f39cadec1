import pyarrow as pa
import pytest

from query.batch.types import UnsupportedType, canonical_type, is_canonical, parse_type, type_name, type_names


@pytest.mark.parametrize("name", type_names())
def test_every_name_parses_in_any_case_and_prints_back(name: str) -> None:
    kind = parse_type(name.upper())
    assert kind is not None and is_canonical(kind)
    assert parse_type(type_name(kind)) == kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("decimal", pa.decimal128(18, 3)),
        ("DECIMAL(10, 2)", pa.decimal128(10, 2)),
        ("numeric(5)", pa.decimal128(5, 0)),
        ("decimal(50,3)", pa.decimal256(50, 3)),
        ("varchar(10)", pa.string()),
        ("long[]", pa.list_(pa.int64())),
        ("Double  Precision", pa.float64()),
    ],
)
def test_sized_and_nested_names(text: str, kind: pa.DataType) -> None:
    assert parse_type(text) == kind
    assert parse_type(type_name(kind)) == kind


@pytest.mark.parametrize(
    "text", ["", "lnog", "decimal(0,0)", "decimal(99,1)", "decimal(5,9)", "[]" * 20, "long" + "[]" * 9]
)
def test_unknown_names(text: str) -> None:
    assert parse_type(text) is None


@pytest.mark.parametrize(
    ("kind", "canonical"),
    [
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.dictionary(pa.int32(), pa.large_string()), pa.string()),
        (pa.binary(4), pa.binary()),
        (pa.timestamp("ns", "Europe/Paris"), pa.timestamp("us", "UTC")),
        (pa.timestamp("s"), pa.timestamp("us")),
        (pa.time32("ms"), pa.time64("us")),
        (pa.large_list(pa.large_string()), pa.list_(pa.string())),
        (pa.struct([("a", pa.date64())]), pa.struct([("a", pa.date32())])),
    ],
)
def test_canonical(kind: pa.DataType, canonical: pa.DataType) -> None:
    assert canonical_type(kind) == canonical
    assert is_canonical(canonical)


def test_unsupported_and_too_deep() -> None:
    with pytest.raises(UnsupportedType):
        canonical_type(pa.map_(pa.string(), pa.int64()))
    deep = pa.int64()
    for _ in range(20):
        deep = pa.list_(deep)
    with pytest.raises(UnsupportedType):
        canonical_type(deep)
    assert not is_canonical(deep)
