"""Keys become ids and ids lead to rows: against dictionaries of Python, with numpy's loops and compiled ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from query.batch import Batch, from_pydict
from query.keys import KeyIndex, Lookup, NullKeys, RowStore, matching, stable_hash, use_numba
from query.keys.chains import Chains
from query.keys.chains_numba import CompiledChains
from query.keys.table import KeyTable
from query.keys.table_numba import CompiledKeyTable


@pytest.fixture(params=[False, True], ids=["numpy", "numba"])
def kernels(request: pytest.FixtureRequest) -> Iterator[None]:
    use_numba(request.param)
    yield
    use_numba(False)


def ids_of(index: KeyIndex, *columns: pa.Array) -> list[int]:
    return index.add(list(columns), len(columns[0]))[0].tolist()


batches = st.lists(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2)), max_size=30), max_size=6)


@pytest.mark.parametrize("table", [KeyTable, CompiledKeyTable])
@given(batches)
@settings(deadline=None)
def test_equal_keys_get_equal_ids_and_the_first_row_of_a_key_is_the_new_one(
    table: type[KeyTable], batches: list[list[tuple[int, int]]]
) -> None:
    keys = table(2, 3)
    seen: dict[tuple[int, int], int] = {}
    for batch in batches:
        if not batch:
            continue
        words = [np.array(word, dtype=np.uint64) for word in zip(*batch, strict=True)]
        unknown = [n for n, key in enumerate(batch) if key not in seen and key not in batch[:n]]
        found = keys.find(words).tolist()
        assert [f >= 0 for f in found] == [key in seen for key in batch]
        ids, fresh = keys.add(words)
        assert fresh.tolist() == unknown
        for key, number in zip(batch, ids.tolist(), strict=True):
            assert seen.setdefault(key, number) == number
        assert keys.find(words).tolist() == ids.tolist()
    assert sorted(seen.values()) == list(range(len(keys)))


@pytest.mark.parametrize("table", [KeyTable, CompiledKeyTable])
def test_a_table_grows_and_keeps_its_ids(table: type[KeyTable]) -> None:
    keys = table(1, 3)
    words = [np.arange(5_000, dtype=np.uint64)]
    ids, _ = keys.add(words)
    keys.add([np.arange(5_000, 50_000, dtype=np.uint64)])
    assert keys.find(words).tolist() == ids.tolist()
    assert len(keys) == 50_000


@pytest.mark.parametrize("chains", [Chains, CompiledChains])
@given(
    st.lists(st.lists(st.integers(0, 5), max_size=12), max_size=8), st.lists(st.integers(-1, 9), max_size=8)
)
@settings(deadline=None)
def test_chains_find_every_pair_once(chains: Any, added: list[list[int]], asked: list[int]) -> None:
    rows = chains()
    for ids in added:
        rows.add(np.array(ids, dtype=np.int64))
    places, found = rows.match(np.array(asked, dtype=np.int64))
    flat = [number for ids in added for number in ids]
    wanted = [(p, r) for p, key in enumerate(asked) for r, other in enumerate(flat) if key == other]
    assert sorted(zip(places.tolist(), found.tolist(), strict=True)) == wanted
    assert rows.counts(np.array(asked, dtype=np.int64)).tolist() == [flat.count(key) for key in asked]


def test_long_chains_are_laid_out_and_later_rows_still_found() -> None:
    chains = Chains()
    one, wanted = np.zeros(1, dtype=np.int64), 0
    for _ in range(20):
        chains.add(np.zeros(500, dtype=np.int64))
        wanted += 500
        assert sorted(chains.match(one)[1].tolist()) == list(range(wanted))
    assert len(chains._order) > 0
    assert chains._steps < 10_000


def test_values_are_equal_as_sql_says(kernels: None) -> None:
    index = KeyIndex(1, 5)
    nan = float("nan")
    (two, half, zero, not_a_number, null) = ids_of(index, pa.array([2.0, 0.5, -0.0, nan, None]))
    assert ids_of(index, pa.array([2, 0], pa.int16())) == [two, zero]
    assert ids_of(index, pa.array([2, 0, None], pa.uint64())) == [two, zero, null]
    assert ids_of(index, pa.array([Decimal(2), None], pa.decimal128(5, 2))) == [two, null]
    assert ids_of(index, pa.array([-nan, 0.5], pa.float32())) == [not_a_number, half]
    assert ids_of(index, pa.nulls(1)) == [null]
    others = [
        *ids_of(index, pa.array(["2", "x"])),
        *ids_of(index, pa.array([True])),
        *ids_of(index, pa.array([date(1970, 1, 3)])),
        *ids_of(index, pa.array([b"2"])),
        *ids_of(index, pa.array([2**63 + 5], pa.uint64())),
        *ids_of(index, pa.array([Decimal("0.25")])),
        *ids_of(index, pa.array([[1, 2], [2, 1]])),
        *ids_of(index, pa.array([math.inf, -math.inf])),
    ]
    assert len({two, half, zero, not_a_number, null, *others}) == 5 + len(others)
    assert ids_of(index, pa.array([[1, 2]])) == [others[7]]


def test_a_null_of_a_text_column_is_a_key_of_its_own_and_never_one_of_a_join(kernels: None) -> None:
    column = pa.array(["a", None, "b", None])
    equal = ids_of(KeyIndex(2, 5), column, pa.array([1, 1, 1, 1]))
    assert equal[1] == equal[3]
    assert len(set(equal)) == 3
    never = KeyIndex(1, 5, NullKeys.NEVER)
    ids, fresh = never.add([column], 4)
    assert ids[1] == ids[3] == -1
    assert fresh.tolist() == [0, 2]


def test_keys_of_many_columns_keep_their_nulls_apart() -> None:
    columns = [pa.array([None if row == number else 0 for row in range(60)]) for number in range(60)]
    assert len(set(ids_of(KeyIndex(60, 1), *columns))) == 60


def rows_of(batches: list[Batch]) -> list[Any]:
    return [row for batch in batches for row in batch.to_rows()]


def test_a_store_gives_back_rows_of_several_schemas_by_number() -> None:
    store = RowStore()
    wanted: list[dict[str, Any]] = []
    for number in range(40):
        batch = from_pydict("t", {"a" if number % 3 else "b": [number, -number]})
        wanted += batch.to_rows()
        store.append(batch)
    asked = np.array([79, 0, 5, 5, 40, 7])
    got: dict[int, Any] = {}
    for places, batch in store.fetch(asked):
        numbers = range(len(asked)) if places is None else places.tolist()
        got.update(zip(numbers, batch.to_rows(), strict=True))
    assert [got[n] for n in range(len(asked))] == [wanted[n] for n in asked]
    assert len(list(store.numbered())) < 20
    for numbers, batch in store.numbered():
        assert batch.to_rows() == [wanted[n] for n in numbers]


def test_a_lookup_finds_the_rows_of_keys_and_no_others(kernels: None) -> None:
    store, lookup = RowStore(), Lookup(("a", "b"), 9)
    batches = [
        from_pydict("t", {"a": [1, 1, None, 2], "b": ["x", "y", "x", "x"], "n": [1, 2, 3, 4]}),
        from_pydict("t", {"other": [1]}),
        from_pydict("t", {"a": [1, 7], "b": ["x", "x"], "n": [5, 6]}),
    ]
    for batch in batches:
        store.append(batch)
    for numbers, batch in store.numbered():
        lookup.add(batch, numbers)
    keys = from_pydict("k", {"a": [1, 1, 9, None], "b": ["x", "x", "x", "x"]})
    found = rows_of([batch for _, batch in store.fetch(lookup.find(keys))])
    assert sorted(row["n"] for row in found) == [1, 5]
    assert [row["n"] for row in matching(batches[0], keys, 4).to_rows()] == [1]


def test_stable_hashes_never_change_and_do_not_depend_on_width() -> None:
    whole = stable_hash([pa.array([1, 2, None]), pa.array(["a", None, "b"])], 3)
    narrow = stable_hash([pa.array([1, 2, None], pa.int8()), pa.array(["a", None, "b"])], 3)
    assert whole.tolist() == narrow.tolist()
    assert len(set(whole.tolist())) == 3
    decimals = pa.array([Decimal("1.00"), Decimal("0.50")], pa.decimal128(9, 2))
    same = pa.array([Decimal("1"), Decimal("0.5")], pa.decimal128(20, 1))
    assert stable_hash([decimals], 2).tolist() == stable_hash([same], 2).tolist()
    assert stable_hash([decimals], 2)[0] == stable_hash([pa.array([1])], 1)[0]
    assert int(stable_hash([pa.array([42])], 1)[0]) == STABLE_42
    assert int(stable_hash([pa.array(["pier"])], 1)[0]) == STABLE_PIER


#: Filters in soft state and partitions of running queries depend on these.
STABLE_42 = 1181371713772969417
STABLE_PIER = 14691332551237674362
