"""Operators that SQL adds: rows spelled out, the first rows, rows as often as said, one row of each group."""

from __future__ import annotations

import pytest

import ufl
from tests.query.engine.cluster import Cluster

VALUES = """
%operator(v) {{ type = scan implementation = Values columns[0] = a columns[1] = n
    values[0] = "x"::string values[1] = "2"::long values[2] = "y"::string values[3] = "0"::long
    values[4] = "z"::string values[5] = "1"::long }}
{operator}
%operator(answer) {{ type = result sources[0] = {last} }}
"""


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return Cluster(2)


def answer(cluster: Cluster, operator: str = "", last: str = "v") -> list[tuple[object, ...]]:
    text = "%opgraph(g) { at = asker " + VALUES.format(operator=operator, last=last) + "}"
    collected = cluster.answer(ufl.parse(text))
    assert collected.account is not None
    if collected.account.errors:
        raise ValueError(collected.account.errors[0])
    return collected.tuples()


def test_values_are_rows(cluster: Cluster) -> None:
    assert answer(cluster) == [("x", 2), ("y", 0), ("z", 1)]


def test_limit_counts_over_batches(cluster: Cluster) -> None:
    limit = "%operator(o) { type = sort implementation = Limit sources[0] = v limit = 1 offset = 1 }"
    assert answer(cluster, limit, "o") == [("y", 0)]
    offset = "%operator(o) { type = sort implementation = Limit sources[0] = v offset = 2 }"
    assert answer(cluster, offset, "o") == [("z", 1)]


def test_repeat_gives_rows_as_often_as_said(cluster: Cluster) -> None:
    repeat = "%operator(o) { type = projection implementation = Repeat sources[0] = v times = $n }"
    assert answer(cluster, repeat, "o") == [("x", 2), ("x", 2), ("z", 1)]


def test_single_passes_one_row_of_each_group_and_fails_at_two(cluster: Cluster) -> None:
    single = "%operator(o) {{ type = groupby implementation = Single sources[0] = v {keys} }}"
    assert len(answer(cluster, single.format(keys="keys[0] = $a"), "o")) == 3
    with pytest.raises(ValueError, match="more than one row"):
        answer(cluster, single.format(keys=""), "o")
    with pytest.raises(ValueError, match="more than one row"):
        answer(cluster, single.format(keys='keys[0] = greater($n, "0"::long)'), "o")


def test_single_over_nothing_is_a_row_of_nulls(cluster: Cluster) -> None:
    operators = """
    %operator(none) { type = selection sources[0] = v where = "false"::bool }
    %operator(o) { type = groupby implementation = Single sources[0] = none columns[0] = a columns[1] = n }"""
    assert answer(cluster, operators, "o") == [(None, None)]
