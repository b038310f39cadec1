"""Scans of files and databases through the real services: streaming, bad rows, and what a query may not read."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import query.operators  # noqa: F401 - makes the operators known
from pier_node.readable import csv as csv_module
from pier_node.readable.databases import Database, ReadableDatabases
from pier_node.readable.files import ReadableFiles
from query import plan
from query.batch import from_pydict
from query.dataflow.check import operator_problems
from query.dataflow.context import CsvForm, SourceUnavailable
from query.dataflow.flow import Flow, Probe, ProbeKind
from query.plan import Array, Setting, Table
from tests.query.dataflow.harness import Harness, operator, sink


def run(kind: str, services: dict[str, Any], **settings: Setting) -> Harness:
    harness = Harness([operator("s", kind, **settings), sink("s")], {}, **services)
    return harness.run(1.0)


def answer(harness: Harness) -> list[tuple[Any, ...]]:
    assert harness.errors == []
    assert harness["out"].ends == [1]
    rows: list[tuple[Any, ...]] = harness["out"].rows()
    return rows


@pytest.fixture
def home(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "secret.csv").write_text("a\n1\n")
    return data


def files(home: Path) -> dict[str, Any]:
    return {"files": ReadableFiles(home)}


def test_csv_with_guessed_and_given_types(home: Path) -> None:
    (home / "c.csv").write_text("src,dpt,ok\n10.0.0.1,22,true\n,80,false\n")
    assert answer(run("scan/CSV", files(home), path="c.csv")) == [("10.0.0.1", 22, True), (None, 80, False)]
    typed = run("scan/CSV", files(home), path="c.csv", types=Table({"dpt": "string"}), table="x")
    assert answer(typed)[0] == ("10.0.0.1", "22", True)
    assert typed["out"].batches[0].table == "x"


def test_csv_forms(home: Path) -> None:
    (home / "c.txt").write_text("1;'a;b'\n-;'c'\n")
    harness = run(
        "scan/CSV",
        files(home),
        path="c.txt",
        delimiter=";",
        quote="'",
        header="false",
        columns=Array(("n", "t")),
        nulls=Array(("-",)),
    )
    assert answer(harness) == [(1, "a;b"), (None, "c")]
    (home / "empty.csv").write_text("")
    assert answer(run("scan/CSV", files(home), path="empty.csv")) == []


def test_rows_that_break_the_guess_are_dropped_and_counted(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_module, "BLOCK_BYTES", 64)
    lines = [f"{n},{'x' if n == 50 else n}" for n in range(100)]
    lines[70] = "1,2,3"
    (home / "c.csv").write_text("a,b\n" + "\n".join(lines) + "\n")
    harness = run("scan/CSV", files(home), path="c.csv")
    assert [row[0] for row in answer(harness)] == [n for n in range(100) if n not in (50, 70)]
    drops = harness["s"].counters.drops
    assert drops["a value is not of the column's type"] == 1
    assert sum(drops.values()) == 2


def test_a_column_that_starts_empty_is_text(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_module, "BLOCK_BYTES", 64)
    (home / "c.csv").write_text("a,b\n" + "".join(f"{n},\n" for n in range(40)) + "40,late\n")
    rows = answer(run("scan/CSV", files(home), path="c.csv"))
    assert len(rows) == 41
    assert rows[-1] == (40, "late")


def test_a_file_is_read_as_it_is_wanted(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_module, "BLOCK_BYTES", 1 << 12)
    (home / "c.csv").write_text("a\n" + "".join(f"{n}\n" for n in range(20_000)))
    pieces = ReadableFiles(home).open_csv("c.csv", CsvForm(), lambda rows, reason: None)
    first = next(pieces)
    assert first.num_rows < 2_000
    harness = Harness([operator("s", "scan/CSV", path="c.csv"), sink("s")], {}, **files(home))
    harness.context.guard(harness.flow.start)
    assert harness["out"].batches == []
    harness["out"].answer = Flow.DONE
    harness.clock.run(1.0)
    assert harness["s"].idle()
    assert harness["out"].ends == [1]


@pytest.mark.parametrize("path", ["../secret.csv", "/etc/passwd", "link.csv", "dir/../../secret.csv", "\0"])
def test_a_query_reads_nothing_that_was_not_opened_to_it(home: Path, path: str) -> None:
    (home / "link.csv").symlink_to(home.parent / "secret.csv")
    harness = run("scan/CSV", files(home), path=path)
    (error,) = harness.errors
    assert isinstance(error, SourceUnavailable)
    assert "made readable" in str(error)
    assert harness["out"].batches == []


def test_files_outside_are_read_when_their_owner_says_so(home: Path) -> None:
    service = ReadableFiles(home, [home.parent / "secret.csv"])
    assert answer(run("scan/CSV", {"files": service}, path="../secret.csv")) == [(1,)]


def test_pipes_directories_and_missing_files(home: Path) -> None:
    os.mkfifo(home / "pipe.csv")
    (home / "folder").mkdir()
    for path in ("pipe.csv", "folder", "none.csv"):
        (error,) = run("scan/CSV", files(home), path=path).errors
        assert isinstance(error, SourceUnavailable)
    harness = run("scan/CSV", files(home), path="none.csv", missing="empty")
    assert answer(harness) == []
    assert "no file" in harness.complaints[0][1]


def test_parquet_files_and_directories(home: Path) -> None:
    (home / "p").mkdir()
    for part in (1, 2):
        pq.write_table(pa.table({"a": [part], "b": ["x"]}), home / "p" / f"{part}.parquet")
    assert answer(run("scan/Parquet", files(home), path="p")) == [(1, "x"), (2, "x")]
    assert answer(run("scan/Parquet", files(home), path="p/2.parquet", columns=Array(("b",)))) == [("x",)]
    (home / "bad.parquet").write_bytes(b"PAR1 nothing PAR1")
    (error,) = run("scan/Parquet", files(home), path="bad.parquet").errors
    assert isinstance(error, SourceUnavailable)


def database(home: Path, *tables: str) -> dict[str, Any]:
    path = home / "d.db"
    with sqlite3.connect(path) as connection:
        connection.execute('CREATE TABLE "od""d" (id INTEGER, name TEXT, x REAL, raw)')
        rows = [(n, f"n{n}", n / 2, b"b") for n in range(30_000)]
        connection.executemany(
            'INSERT INTO "od""d" VALUES (?, ?, ?, ?)', [*rows, ("not a number", "z", 1, b"b")]
        )
    connection.close()
    return {"databases": ReadableDatabases({"d": Database(f"sqlite://{path}", tables)})}


def test_sqlite_rows_stream_and_misfits_are_dropped(home: Path) -> None:
    harness = run("scan/JDBC", database(home), connection="d", **{"from": 'od"d'})
    rows = answer(harness)
    assert len(rows) == 30_000
    assert rows[3] == (3, "n3", 1.5, b"b")
    assert harness["s"].counters.dropped_rows == 1
    columns = run(
        "scan/JDBC", database_again(home), connection="d", columns=Array(("name",)), **{"from": 'od"d'}
    )
    assert answer(columns)[:2] == [("n0",), ("n1",)]


def database_again(home: Path, *tables: str) -> dict[str, Any]:
    return {"databases": ReadableDatabases({"d": Database(f"sqlite://{home / 'd.db'}", tables)})}


def test_keys_are_looked_up_by_the_database(home: Path) -> None:
    service = database(home)["databases"]
    keys = from_pydict(
        "k", {"id": [*range(0, 30_000, 30), None], "name": [*(f"n{n}" for n in range(0, 30_000, 30)), "x"]}
    )
    batches = list(service.open_table("d", 'od"d', ("id", "name"), keys, lambda rows, reason: None))
    assert sum(batch.num_rows for batch in batches) == 1_000

    harness = Harness(
        [operator("s", "scan/JDBC", connection="d", **{"from": 'od"d'}), sink("s")], {}, databases=service
    )
    harness.flow.operators["s"].open()
    harness.flow.operators["out"].open()
    harness["s"].probe(Probe(ProbeKind.SET_PREDICATE, 7, from_pydict("k", {"id": [4, 9]})))
    harness["s"].probe(Probe(ProbeKind.STREAM, 8))
    harness.clock.run(1.0)
    assert [row[0] for row in harness["out"].rows()] == [4, 9]
    assert sorted(harness["out"].ends) == [7, 8]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"connection": "other", "from": "t"}, "no database"),
        ({"connection": "d", "from": "sqlite_master"}, "not open to queries"),
        ({"connection": "d", "from": 'od"d', "columns": Array(("nope",))}, "no column"),
        ({"connection": "d", "from": 'od"d', "columns": Array(('id" FROM "od""d" --',))}, "no column"),
    ],
)
def test_databases_refuse_what_was_not_registered(
    home: Path, settings: dict[str, Setting], message: str
) -> None:
    (error,) = run("scan/JDBC", database(home, 'od"d'), **settings).errors
    assert message in str(error)


def test_a_database_without_its_driver_says_which_package_and_not_its_password(home: Path) -> None:
    service = ReadableDatabases({"d": Database("postgresql://me:hunter2@host/db")})
    (error,) = run("scan/JDBC", {"databases": service}, connection="d", **{"from": "t"}).errors
    assert "adbc-driver-postgresql" in str(error)
    assert "hunter2" not in str(error)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("scan/CSV", {"path": "x"}),
        ("scan/Parquet", {"path": "x"}),
        ("scan/JDBC", {"connection": "d", "from": "t"}),
    ],
)
def test_a_node_that_opened_nothing_says_so(kind: str, settings: dict[str, Setting]) -> None:
    (error,) = run(kind, {}, **settings).errors
    assert isinstance(error, SourceUnavailable)
    assert "open to queries" in str(error)


def test_settings_are_checked_before_a_query_spreads() -> None:
    def problem(**settings: Setting) -> str:
        operators = (operator("s", "scan/CSV", **settings), sink("s"))
        return next(iter(operator_problems(plan.Plan((plan.Opgraph("g", {}, operators),))))).message

    assert "one plain character" in problem(path="x", delimiter="::")
    assert "needed when there is no header" in problem(path="x", header="no")
    assert "no type 'lnog'" in problem(path="x", types=Table({"a": "lnog"}))
