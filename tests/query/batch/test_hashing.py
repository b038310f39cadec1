"""Hashes depend on the values alone, and spread them."""

from __future__ import annotations

import decimal

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from query.batch.hashing import hash_columns


@given(st.lists(st.one_of(st.none(), st.text(max_size=12)), min_size=1, max_size=30), st.data())
def test_texts_hash_alike_in_any_batch_and_slice(values: list[str | None], data: st.DataObject) -> None:
    whole = hash_columns([pa.array(values, pa.string())])
    cut = data.draw(st.integers(0, len(values)))
    parts = [hash_columns([pa.array(values, pa.string()).slice(*at)]) for at in ((0, cut), (cut,))]
    assert np.concatenate(parts).tolist() == whole.tolist()
    by_value: dict[str | None, int] = {}
    for value, hashed in zip(values, whole.tolist(), strict=True):
        assert by_value.setdefault(value, hashed) == hashed
    assert len(set(by_value.values())) == len(by_value)


@given(st.lists(st.one_of(st.none(), st.integers(-(1 << 15), (1 << 15) - 1)), max_size=30))
def test_numbers_hash_alike_whatever_their_width(values: list[int | None]) -> None:
    wide = hash_columns([pa.array(values, pa.int64())]).tolist()
    assert hash_columns([pa.array(values, pa.int16())]).tolist() == wide
    assert hash_columns([pa.array(values, pa.float64())]).tolist() == wide


def test_several_columns_and_their_order_matter() -> None:
    a, b = pa.array(["x", "y", "x"]), pa.array([1, 1, None])
    both = hash_columns([a, b]).tolist()
    assert len(set(both)) == 3
    assert hash_columns([b.cast(pa.string()), a]).tolist() != both


def test_hashes_are_the_same_in_every_process_and_version() -> None:
    assert hash_columns([pa.array(["10.0.0.1"])]).tolist() == [13770935581111596027]
    assert hash_columns([pa.array([42])]).tolist() == [5695472266747893962]


def test_odd_types_hash_by_value() -> None:
    decimals = pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("1.5")], pa.decimal128(10, 2))
    hashed = hash_columns([decimals]).tolist()
    assert hashed[0] == hashed[2] != hashed[1]
    stamps = pa.array([1, 2, 1], pa.timestamp("us", "UTC"))
    assert hash_columns([stamps]).tolist()[0] == hash_columns([stamps]).tolist()[2]


@given(st.lists(st.integers(-(2**62), 2**62), max_size=20), st.integers(0, 9))
def test_whole_decimals_hash_as_integers_do(values: list[int], scale: int) -> None:
    decimals = pa.array([decimal.Decimal(value) for value in values], pa.decimal128(38, scale))
    assert hash_columns([decimals]).tolist() == hash_columns([pa.array(values, pa.int64())]).tolist()


def test_groups_are_even() -> None:
    texts = pa.array([f"10.0.{n >> 8}.{n & 255}" for n in range(65_536)])
    counts = np.bincount(hash_columns([texts]) % np.uint64(64))
    assert counts.min() > 0.85 * 1024
    assert counts.max() < 1.15 * 1024
