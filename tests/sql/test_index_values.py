"""Whatever lies in an indexed column, the index finds what a scan finds, and what DuckDB finds."""

from __future__ import annotations

import datetime
import math
import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from query.index.keys import equal_keys, ordered_keys
from tests.query.engine.cluster import Cluster
from tests.sql.test_indexes import explained
from tests.sql.test_node import Node

ROWS = 120
SEEDS = (1, 2)
#: Values of one column: the type, those that make trouble, and how others are drawn.
LONG = "x" * 300
KINDS: dict[str, tuple[pa.DataType, list[Any], Any]] = {
    "i8": (pa.int8(), [-128, -1, 0, 127], lambda rng: rng.randint(-128, 127)),
    "i32": (pa.int32(), [-(1 << 31), (1 << 31) - 1, 0], lambda rng: rng.randint(-50, 50)),
    "i64": (pa.int64(), [-1, (1 << 63) - 1, -(1 << 63)], lambda rng: rng.randint(-50, 50)),
    "u32": (pa.uint32(), [0, (1 << 32) - 1], lambda rng: rng.randint(0, 50)),
    "f32": (
        pa.float32(),
        [0.1, -0.0, 0.0, 16777217.0, -2.5, math.inf, -math.inf, math.nan],
        lambda rng: rng.randint(-40, 40) / 10,
    ),
    "f64": (
        pa.float64(),
        [0.1, -0.0, 0.0, 1e300, 5e-324, math.inf, -math.inf, math.nan],
        lambda rng: rng.randint(-40, 40) / 10,
    ),
    "s": (
        pa.string(),
        ["", "a", "über", LONG + "a", LONG + "b", "0", "-0"],
        lambda rng: rng.choice("abc") * 2,
    ),
    "b": (pa.bool_(), [True, False], lambda rng: rng.random() < 0.5),
    "d": (
        pa.date32(),
        [datetime.date(1969, 12, 31), datetime.date(9999, 12, 31)],
        lambda rng: datetime.date(2024, 1, rng.randint(1, 28)),
    ),
    "tm": (
        pa.time64("us"),
        [datetime.time(0), datetime.time(23, 59, 59, 999_999)],
        lambda rng: datetime.time(12, 1),
    ),
    "ts": (
        pa.timestamp("us"),
        [datetime.datetime(1960, 1, 1, 0, 0, 0, 1), datetime.datetime(2200, 1, 1)],
        lambda rng: datetime.datetime(2024, 1, 1, rng.randint(0, 23)),
    ),
    "tz": (
        pa.timestamp("us", "UTC"),
        [datetime.datetime(1960, 1, 1, tzinfo=datetime.UTC)],
        lambda rng: datetime.datetime(2024, 1, 1, rng.randint(0, 23), tzinfo=datetime.UTC),
    ),
}


def literals(kind: pa.DataType, value: Any) -> list[str]:
    """Ways to write a value in SQL."""
    if isinstance(value, bool):
        return [str(value).lower()]
    if isinstance(value, int):
        return [str(value), f"{value}.0", f"{value}e0"] if abs(value) < 1 << 50 else [str(value)]
    if isinstance(value, float):
        if not math.isfinite(value):
            return [f"CAST('{value}' AS {'FLOAT' if kind == pa.float32() else 'DOUBLE'})"]
        narrow = [f"CAST({value!r} AS FLOAT)"] if abs(value) < 1e30 else []
        return [repr(value), f"{value:e}", *narrow, f"CAST({value!r} AS DOUBLE)"]
    if isinstance(value, str):
        return [f"'{value}'"]
    name = {pa.date32(): "DATE", pa.time64("us"): "TIME", pa.timestamp("us"): "TIMESTAMP"}.get(
        kind, "TIMESTAMPTZ"
    )
    return [f"{name} '{value}'", f"'{value}'"]


def conditions(name: str, kind: pa.DataType, rng: random.Random, values: list[Any]) -> list[str]:
    made = []
    for value in values:
        for text in literals(kind, value):
            made.append(f"{name} = {text}")
        low, high = text, rng.choice(literals(kind, rng.choice(values)))
        made += [f"{name} BETWEEN {low} AND {high}", f"{name} >= {high} AND {name} < {low}"]
    return made


@pytest.mark.parametrize("seed", SEEDS)
def test_an_index_finds_what_a_scan_and_duckdb_find(seed: int) -> None:
    rng = random.Random(seed)
    cluster = Cluster(4, seed=seed)
    node = Node(cluster, 1)
    table = {"k": pa.array(range(ROWS))}
    for name, (kind, special, drawn) in KINDS.items():
        values = [None, *special, *(drawn(rng) for _ in range(ROWS))][:ROWS]
        rng.shuffle(values)
        # Floats of one width are drawn from those that the column can hold.
        table[name] = pa.array(values, pa.float64()).cast(kind) if name == "f32" else pa.array(values, kind)
    for copy in ("t", "u"):
        node.publish(copy, table, "k")  # type: ignore[arg-type]
    for name in KINDS:
        for using in ("pht", "hash"):
            assert node.ask(f"CREATE INDEX {using}_{name} ON t ({name}) USING {using}").failure is None
    duck = duckdb.connect()
    duck.execute("SET TimeZone = 'UTC'")
    duck.register("t", pa.table(table))
    wrong = []
    for name, (kind, special, drawn) in KINDS.items():
        # Every type is found through an index when it is written as what it is.
        (plain, *_) = literals(kind, special[0])
        assert f"index hash_{name} " in explained(node, f"SELECT k FROM t WHERE {name} = {plain}")
        for condition in conditions(name, kind, rng, [*special, *(drawn(rng) for _ in range(3))]):
            text = f"SELECT k FROM t WHERE {condition}"
            found, scanned = (
                node.ask(text, wait_s=2.0),
                node.ask(text.replace("FROM t", "FROM u"), wait_s=2.0),
            )
            assert found.failure is None, (text, found.failure)
            assert found.account is not None and scanned.account is not None, text
            assert (found.account.ended, scanned.account.ended) == ("complete", "complete"), (
                text,
                found.account,
            )
            keys = sorted(row["k"] for row in found.rows)
            truth = sorted(k for (k,) in duck.execute(text).fetchall())
            if not keys == sorted(row["k"] for row in scanned.rows) == truth:
                wrong.append((text, keys, sorted(row["k"] for row in scanned.rows), truth))
    assert wrong == []


@pytest.mark.parametrize("name", KINDS)
def test_equal_values_have_one_key_and_others_another(name: str) -> None:
    kind, special, _ = KINDS[name]
    column = pa.array(special, pa.float64()).cast(kind) if name == "f32" else pa.array(special, kind)
    values = column.to_pylist()
    for keys in (equal_keys(column), ordered_keys(column)):
        for one, a in zip(values, keys, strict=True):
            for other, b in zip(values, keys, strict=True):
                same = one == other or (one != one and other != other)
                cut = (
                    keys is not None
                    and isinstance(one, str)
                    and one[:256] == other[:256]
                    and len(a or "") > 32
                )
                assert (a == b) == (same or cut), (one, other)


def test_floats_of_both_widths_have_the_keys_of_their_values() -> None:
    values = [0.5, -0.0, math.nan, math.inf, -1.25]
    for keys in (equal_keys, ordered_keys):
        assert keys(pa.array(values, pa.float32())) == keys(pa.array(values, pa.float64()))
        assert keys(pa.array([0.0])) == keys(pa.array([-0.0]))
