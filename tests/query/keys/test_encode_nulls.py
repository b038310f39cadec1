"""NULL equals NULL, whatever the type of the batch it came in: of the column's type, of no type, of another."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from query.keys import KeyIndex

BATCHES = [
    ([None, 1], pa.int64()),
    ([None, None], pa.null()),
    (["x", None], pa.string()),
    ([None, True], pa.bool_()),
]


@pytest.mark.parametrize("order", list(itertools.permutations(range(len(BATCHES)))))
def test_one_column(order: tuple[int, ...]) -> None:
    index = KeyIndex(1, seed=7)
    nulls = set()
    for number in order:
        values, kind = BATCHES[number]
        ids, _ = index.add([pa.array(values, kind)], len(values))
        nulls |= {int(key) for key, value in zip(ids, values, strict=True) if value is None}
    assert len(nulls) == 1
    assert len(index) == 4


@pytest.mark.parametrize("first", [pa.null(), pa.int64(), pa.string(), pa.date32()])
def test_beside_a_column_with_a_value(first: pa.DataType) -> None:
    index = KeyIndex(2, seed=7)
    index.add([pa.array([None], first), pa.array(["a"])], 1)
    ids = [
        int(index.add([pa.array([None], kind), pa.array([5], pa.int64())], 1)[0][0])
        for kind in (pa.null(), pa.int64(), pa.string(), pa.date32())
    ]
    assert len(set(ids)) == 1
    assert len(index) == 2
