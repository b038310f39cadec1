"""CSV, NDJSON, Parquet and SQL as tables: any size in bounded batches, damage in words."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from pier_node.sources.csv import CsvReader
from pier_node.sources.ndjson import NdjsonReader
from pier_node.sources.parquet import ParquetReader
from pier_node.sources.reader import READ_ROWS, Reader, ReadError
from pier_node.sources.sql import query_reader, sql_reader
from pier_node.sources.static import StaticTable

COUNT = 40_000
ROWS = [{"src": f"10.0.{n % 256}.{n % 251}", "n": n, "share": n / 7} for n in range(COUNT)]
SCHEMA = pa.schema([("src", pa.string()), ("n", pa.int64()), ("share", pa.float64())])


def as_csv(folder: Path) -> Reader:
    path = folder / "t.csv"
    path.write_text("src,n,share\n" + "".join(f"{r['src']},{r['n']},{r['share']!r}\n" for r in ROWS))
    return CsvReader(path)


def as_tsv(folder: Path) -> Reader:
    path = folder / "t.tsv"
    path.write_text("src\tn\tshare\n" + "".join(f"{r['src']}\t{r['n']}\t{r['share']!r}\n" for r in ROWS))
    return CsvReader(path)


def as_ndjson(folder: Path) -> Reader:
    path = folder / "t.ndjson"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return NdjsonReader(path)


def as_parquet(folder: Path) -> Reader:
    (folder / "t").mkdir()
    for number in range(4):
        part = pa.Table.from_pylist(ROWS[number * COUNT // 4 : (number + 1) * COUNT // 4], SCHEMA)
        parquet.write_table(part, folder / "t" / f"part-{number}.parquet")
    return ParquetReader(folder / "t")


def as_sql(folder: Path) -> Reader:
    database = sqlite3.connect(folder / "t.db")
    database.execute('CREATE TABLE "odd name" (src TEXT, n INTEGER, share REAL)')
    database.executemany('INSERT INTO "odd name" VALUES (:src, :n, :share)', ROWS)
    database.commit()
    database.close()
    return sql_reader(f"sqlite://{folder}/t.db", "odd name")


@pytest.mark.parametrize("kind", [as_csv, as_tsv, as_ndjson, as_parquet, as_sql])
def test_every_kind_gives_the_same_rows(kind: Callable[[Path], Reader], tmp_path: Path) -> None:
    table = StaticTable("t", kind(tmp_path))
    assert table.schema() == SCHEMA
    batches = list(table.scan(None))
    assert [row for batch in batches for row in batch.to_rows()] == ROWS
    assert len(batches) > 1 and max(batch.num_rows for batch in batches) <= 2 * READ_ROWS
    assert table.statistics().rows == COUNT
    assert list(table.scan(None)) == batches, "a table is read anew each time"


def test_a_value_of_another_type_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("n\n" + "1\n" * 1_000_000 + "x\n")
    table = StaticTable("t", CsvReader(path))
    with pytest.raises(ReadError, match=r"t\.csv.*'x'"):
        list(table.scan(None))
    assert table.statistics().errors == 1
    database = sqlite3.connect(tmp_path / "t.db")
    database.execute("CREATE TABLE t (n INTEGER)")
    database.execute("INSERT INTO t VALUES ('many')")
    database.commit()
    database.close()
    with pytest.raises(ReadError, match=r"t\.db, column n"):
        list(sql_reader(f"sqlite:{tmp_path}/t.db", "t").batches())


def test_a_database_answers_queries_of_its_own(tmp_path: Path) -> None:
    as_sql(tmp_path)
    reader = query_reader(f"sqlite:{tmp_path}/t.db", 'SELECT count(*) AS c, min(src) AS s FROM "odd name"')
    assert [batch.to_pylist() for batch in reader.batches()] == [[{"c": COUNT, "s": "10.0.0.0"}]]


@pytest.mark.parametrize(
    ("reader", "words"),
    [
        (lambda at: CsvReader(at / "no.csv"), "no.csv"),
        (lambda at: NdjsonReader(at / "no.ndjson"), "no.ndjson"),
        (lambda at: ParquetReader(at / "no.parquet"), "no.parquet"),
        (lambda at: ParquetReader(at), "there are no .parquet files"),
        (lambda at: sql_reader(f"sqlite:{at}/no.db", "t"), "no such file"),
        (lambda at: sql_reader("sqlite:/dev/null", "t"), "no such file"),
    ],
)
def test_what_is_not_there_is_named(reader: Callable[[Path], Reader], words: str, tmp_path: Path) -> None:
    table = StaticTable("t", reader(tmp_path))
    with pytest.raises(ReadError, match=words):
        table.start()
    assert table.schema() is None
    assert words in table.statistics().last_error


def test_garbage_is_an_error_and_not_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "garbage"
    for garbage in (b"", b"\x00" * 100, b"\xff\xfe{]\n" * 50, b"{", b"PAR1"):
        path.write_bytes(garbage)
        database = sql_reader(f"sqlite:{path}", "t")
        for reader in (CsvReader(path), NdjsonReader(path), ParquetReader(path), database):
            try:
                list(StaticTable("t", reader).scan(None))
            except ReadError as error:
                assert str(path) in str(error)


def test_an_empty_field_is_null_and_a_quoted_one_is_not(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('a,b\n,1\n"",\nNA,3\n')
    (batch,) = StaticTable("t", CsvReader(tmp_path / "t.csv")).scan(None)
    assert batch.to_rows() == [{"a": None, "b": 1}, {"a": "", "b": None}, {"a": "NA", "b": 3}]


def test_columns_must_be_told_apart(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b,a\n1,2,3\n")
    with pytest.raises(ReadError, match="two columns 'a'"):
        StaticTable("t", CsvReader(tmp_path / "t.csv")).start()


def test_a_database_without_driver_says_what_to_install() -> None:
    with pytest.raises(ReadError, match="adbc-driver-postgresql"):
        sql_reader("postgresql://localhost/x", "t")
    with pytest.raises(ReadError, match="no reader for 'oracle'"):
        sql_reader("oracle://localhost/x", "t")
