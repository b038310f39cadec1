"""Approximate aggregates whose states stay small whatever the data: sketches of Apache DataSketches in their own
format, so that Spark and others can merge what our nodes computed (docs/decisions/0014).

Stated errors: approx_count_distinct has a standard deviation of 1.6 % of the count; approx_quantile is off by at most
1.33 % of the rank with 99 % certainty; approx_top_k and frequent overlook nothing with more than 0.35 % of the rows.
KLL draws its own coins, so approximate quantiles of the same rows may differ within that error.
"""

from __future__ import annotations

from typing import Any

import datasketches as ds
import pyarrow as pa
import pyarrow.compute as pc

from query.aggregate.aggregate import Call
from query.aggregate.arithmetic import as_double, is_summable
from query.aggregate.gathered import PerGroup
from query.expr.errors import TypeClash

#: 2^12 registers: 2 kB when full, 1.04 / sqrt(4096) error.
HLL_LG_K = 12
#: Items per level: about 2 kB, error 1.33 % of the rank.
KLL_K = 200
#: Slots of a frequent-items sketch: error 3.5 / 1024 of the rows.
FREQUENT_LG_SLOTS = 10
FREQUENT_MOST = 512


class ApproxCountDistinct(PerGroup):
    """About how many different values the argument has (HyperLogLog). Integers are hashed as 64-bit integers, floats
    as doubles, all else as text."""

    NAME = "approx_count_distinct"
    STATES = ("hll",)

    def check(self, types: list[pa.DataType]) -> None:
        if pa.types.is_nested(types[0]):
            raise TypeClash(f"{self.NAME} does not take {types[0]}")

    def summarise(self, values: list[pa.Array]) -> bytes:
        sketch = ds.hll_sketch(HLL_LG_K, ds.tgt_hll_type.HLL_4)
        update = sketch.update
        for value in _plain(values[0].unique()):
            update(value)
        return bytes(sketch.serialize_compact())

    def merge(self, states: list[bytes]) -> bytes:
        union = ds.hll_union(HLL_LG_K)
        for state in states:
            union.update(ds.hll_sketch.deserialize(state))
        return bytes(union.get_result(ds.tgt_hll_type.HLL_4).serialize_compact())

    def conclude(self, state: bytes | None) -> int:
        return 0 if state is None else round(ds.hll_sketch.deserialize(state).get_estimate())


def _plain(values: pa.Array) -> list[Any]:
    """Values as the library hashes them."""
    kind = values.type
    if pa.types.is_floating(kind):
        return list(values.cast(pa.float64()).to_pylist())
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return list(values.cast(pa.int64()).to_pylist())
    if pa.types.is_binary(kind):
        return [value.hex() for value in values.to_pylist()]
    return list(values.cast(pa.string()).to_pylist())


class ApproxQuantile(PerGroup):
    """About the value below which a share of the values lies, as a double: `approx_quantile($ms, "0.99"::double)`
    (KLL)."""

    NAME = "approx_quantile"
    ARGUMENTS = (2, 2)
    STATES = ("kll",)
    RESULT = pa.float64()

    def __init__(self, share: Any = None) -> None:
        share = float(share) if _is_number(share) else None
        if share is None or not 0.0 <= share <= 1.0:
            raise TypeClash(f"{self.NAME} takes a share between 0 and 1, not {share!r}")
        self._share = share

    def check(self, types: list[pa.DataType]) -> None:
        if not is_summable(types[0]) or pa.types.is_boolean(types[0]):
            raise TypeClash(f"{self.NAME} takes numbers, not {types[0]}")

    def summarise(self, values: list[pa.Array]) -> bytes:
        sketch = ds.kll_doubles_sketch(KLL_K)
        # The library takes only arrays it could write to; Arrow's are read-only.
        sketch.update(as_double(values[0]).to_numpy().copy())
        return bytes(sketch.serialize())

    def merge(self, states: list[bytes]) -> bytes:
        sketch = ds.kll_doubles_sketch(KLL_K)
        for state in states:
            sketch.merge(ds.kll_doubles_sketch.deserialize(state))
        return bytes(sketch.serialize())

    def conclude(self, state: bytes | None) -> float | None:
        if state is None:
            return None
        sketch = ds.kll_doubles_sketch.deserialize(state)
        return None if sketch.is_empty() else float(sketch.get_quantile(self._share, True))


class Frequent(PerGroup):
    """The k values with most rows, about, and their numbers of rows: a list of (value, count), most frequent first."""

    NAME = "frequent"
    ARGUMENTS = (2, 2)
    #: Values are kept as texts; the second state is one of them and says what type they had.
    STATES = ("items", "like")
    ADD = (Call(0, "list"), Call(1, "min"))
    COMBINE = (Call(0, "list"), Call(1, "min"))

    def __init__(self, k: Any = None) -> None:
        if not isinstance(k, int) or not 1 <= k <= FREQUENT_MOST:
            raise TypeClash(f"{self.NAME} gives 1 to {FREQUENT_MOST} values, not {k!r}")
        self._k = k

    def check(self, types: list[pa.DataType]) -> None:
        kind = types[0]
        if pa.types.is_nested(kind) or pa.types.is_binary(kind) or kind == pa.month_day_nano_interval():
            raise TypeClash(f"{self.NAME} does not take {kind}")

    def prepare(self, arguments: list[pa.Array]) -> list[pa.Array]:
        return [*super().prepare(arguments), arguments[0]]

    def added(self, columns: list[pa.Array]) -> list[pa.Array]:
        return [*super().added(columns[:1]), columns[1]]

    def regroup(self, states: list[pa.Array]) -> list[pa.Array]:
        return [*super().regroup(states[:1]), states[1]]

    def combined(self, columns: list[pa.Array]) -> list[pa.Array]:
        return [*super().combined(columns[:1]), columns[1]]

    def summarise(self, values: list[pa.Array]) -> bytes:
        sketch = ds.frequent_strings_sketch(FREQUENT_LG_SLOTS)
        counted = pc.value_counts(values[0].cast(pa.string()))
        for value, count in zip(counted.field(0).to_pylist(), counted.field(1).to_pylist(), strict=True):
            sketch.update(value, count)
        return bytes(sketch.serialize())

    def merge(self, states: list[bytes]) -> bytes:
        sketch = ds.frequent_strings_sketch(FREQUENT_LG_SLOTS)
        for state in states:
            sketch.merge(ds.frequent_strings_sketch.deserialize(state))
        return bytes(sketch.serialize())

    def conclude(self, state: bytes | None) -> list[tuple[str, int]] | None:
        if state is None:
            return None
        sketch = ds.frequent_strings_sketch.deserialize(state)
        found = sketch.get_frequent_items(ds.frequent_items_error_type.NO_FALSE_NEGATIVES, 0)
        # Ties by value, so that the order does not depend on the sketch's memory.
        ranked = sorted(
            ((item, int(estimate)) for item, estimate, *_ in found), key=lambda each: (-each[1], each[0])
        )
        return ranked[: self._k]

    def result(self, states: list[pa.Array]) -> pa.Array:
        lists, values = self._ranked(states)
        counts = pa.array([count for each in lists if each for _, count in each], pa.int64())
        pairs = pa.StructArray.from_arrays([values, counts], names=["value", "count"])
        return _as_lists(lists, pairs)

    def _ranked(self, states: list[pa.Array]) -> tuple[list[Any], pa.Array]:
        lists = [self._sound(self.conclude, state) for state in states[0].to_pylist()]
        texts = pa.array([item for each in lists if each for item, _ in each], pa.string())
        kind = states[1].type
        return lists, pa.nulls(len(texts)) if pa.types.is_null(kind) else self._sound(texts.cast, kind)


class ApproxTopK(Frequent):
    """The k values with most rows, about, most frequent first."""

    NAME = "approx_top_k"

    def result(self, states: list[pa.Array]) -> pa.Array:
        return _as_lists(*self._ranked(states))


def _as_lists(lists: list[Any], values: pa.Array) -> pa.Array:
    """A list for each group, from all their values in one column."""
    offsets, at = [0], 0
    for each in lists:
        at += len(each or ())
        offsets.append(at)
    mask = pa.array([each is None for each in lists], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, mask=mask)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
