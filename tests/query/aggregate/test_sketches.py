"""Sketches stay within their stated errors, whatever was combined with what; filters find all that was added."""

from __future__ import annotations

import random
from typing import Any

import datasketches as ds
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from query.aggregate.sketches import FREQUENT_LG_SLOTS, KLL_K
from query.keys.bloom import BloomFilter
from query.keys.spectral import SpectralFilter
from query.keys.stable import stable_hash
from tests.query.aggregate.ways import add, all_ways, grouping, oracle, parts

ROWS = 6_000


def sample(seed: int, distinct: int) -> pa.Table:
    """Skewed integers, texts and doubles."""
    rng = random.Random(seed)
    picks = [min(int(rng.paretovariate(0.6)), distinct) for _ in range(ROWS)]
    return pa.table(
        {
            "k": [rng.choice("ab") for _ in picks],
            "i": picks,
            "s": [f"host-{n}" for n in picks],
            "d": [rng.gauss(0.0, 100.0) for _ in picks],
        }
    )


def pieces_of(table: pa.Table) -> list[pa.Table]:
    return [table.slice(at, 1_500) for at in range(0, table.num_rows, 1_500)]


@pytest.mark.parametrize("column", ["i", "s", "d"])
@pytest.mark.parametrize("distinct", [5, 300, 5_000])
def test_distinct_values_are_counted_within_five_percent(column: str, distinct: int) -> None:
    table = sample(distinct, distinct)
    expected = oracle(table, ["k"], f"count(distinct {column})")
    for found in all_ways(pieces_of(table), ["k"], "approx_count_distinct", [column]):
        # Three standard deviations of 1.6 %.
        assert found == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.95, 1.0])
def test_quantiles_have_nearly_the_rank_asked_for(share: float) -> None:
    table = sample(7, 1_000)
    ordered = np.sort(table.column("d").to_numpy())
    error = ds.kll_doubles_sketch.get_normalized_rank_error(KLL_K, False)
    for found in all_ways(pieces_of(table), [], "approx_quantile", ["d"], (share,)):
        rank = np.searchsorted(ordered, found[()], side="right") / len(ordered)
        # The stated error holds with 99 %; twice as much is practically certain.
        assert abs(rank - share) <= 2 * error


@pytest.mark.parametrize("column", ["i", "s"])
def test_frequent_values_are_those_of_an_exact_count(column: str) -> None:
    table = sample(3, 5_000)
    exact: dict[Any, int] = {}
    for value in table.column(column).to_pylist():
        exact[value] = exact.get(value, 0) + 1
    error = ds.frequent_strings_sketch.get_apriori_error(FREQUENT_LG_SLOTS, ROWS)
    best = sorted(exact.values(), reverse=True)[:5]
    for found in all_ways(pieces_of(table), [], "frequent", [column], (5,)):
        counted = {each["value"]: each["count"] for each in found[()]}
        assert all(abs(exact[value] - count) <= error for value, count in counted.items())
        assert sorted((exact[value] for value in counted), reverse=True) == pytest.approx(best, abs=error)
    for found in all_ways(pieces_of(table), [], "approx_top_k", [column], (5,)):
        assert sorted((exact[value] for value in found[()]), reverse=True) == pytest.approx(best, abs=error)


def test_states_are_in_the_format_of_the_library() -> None:
    table = sample(1, 1_000)
    group = grouping([], "approx_count_distinct", ["i"])
    add(group, table, ["i"])
    state = group.states().column(0)[0].as_py()
    expected = oracle(table, [], "count(distinct i)")[()]
    assert ds.hll_sketch.deserialize(state).get_estimate() == pytest.approx(expected, rel=0.05)


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_filters_are_the_same_however_they_were_combined(data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | st.integers(-50, 50), max_size=60))
    table = pa.table({"v": pa.array(values, pa.int64())})
    pieces = parts(data, table)
    known = pa.array([value for value in values if value is not None], pa.int64())
    hashed = stable_hash([known], len(known))
    blooms = [found[()] for found in all_ways(pieces, [], "bloom", ["v"], (100, 0.01))]
    assert len(set(blooms)) == 1
    spectra = [found[()] for found in all_ways(pieces, [], "spectral_bloom", ["v"], (100, 0.01))]
    counted = [each and SpectralFilter.from_bytes(each).count(hashed).tobytes() for each in spectra]
    assert len(set(counted)) == 1
    if blooms[0] is not None:
        assert BloomFilter.from_bytes(blooms[0]).contains(hashed).all()
        counts = SpectralFilter.from_bytes(spectra[0]).count(hashed)
        assert all(
            count >= values.count(key) for key, count in zip(known.to_pylist(), counts.tolist(), strict=True)
        )


def test_a_spectral_filter_is_seldom_wrong() -> None:
    table = sample(11, 2_000)
    group = grouping([], "spectral_bloom", ["s"], (3_000, 0.01))
    add(group, table, ["s"])
    filter_ = SpectralFilter.from_bytes(group.results().column(0)[0].as_py())
    counted = table.column("s").combine_chunks().value_counts()
    keys = counted.field("values")
    found = filter_.count(stable_hash([keys], len(keys)))
    exact = counted.field("counts").to_numpy()
    assert (found >= exact).all()
    assert (found > exact).mean() <= 0.02
    absent = pa.array([f"nobody-{n}" for n in range(1_000)])
    assert (filter_.count(stable_hash([absent], 1_000)) > 0).mean() <= 0.02


@given(st.binary(max_size=40))
def test_bytes_that_are_no_spectral_filter_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="spectral filter"):
        SpectralFilter.from_bytes(data)


def test_filters_of_different_sizes_do_not_merge() -> None:
    with pytest.raises(ValueError, match="different sizes"):
        SpectralFilter(8, 3).merge(SpectralFilter(9, 3))


def test_large_counts_survive_the_wire() -> None:
    key = stable_hash([pa.array(["x"])], 1)
    filter_ = SpectralFilter(6, 2)
    filter_.add(key, np.array([1 << 40]))
    assert SpectralFilter.from_bytes(filter_.to_bytes()).count(key).tolist() == [1 << 40]
