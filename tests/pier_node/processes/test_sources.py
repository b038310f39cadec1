"""Sources of a real node: tables of every kind, a log that is followed, what cannot be opened."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from pier_node.client import sync
from pier_node.config.addresses import split_address
from pier_node.logs import generate
from tests.pier_node.processes.test_node_process import FOLLOW, clean_environment, node

pytestmark = pytest.mark.processes

ROWS = [{"host": f"h{n}", "n": n} for n in range(100)]
COUNT = """
%opgraph(g) {{
    %operator(s) {{ type = scan implementation = Local table = {table} }}
    %operator(c) {{ type = groupby sources[0] = s aggregates[n] = count() }}
    %operator(r) {{ type = result sources[0] = c }}
}}
"""


def sources(folder: Path) -> list[str]:
    pylist = pa.Table.from_pylist(ROWS)
    parquet.write_table(pylist, folder / "t.parquet")
    (folder / "t.csv").write_text("host,n\n" + "".join(f"{r['host']},{r['n']}\n" for r in ROWS))
    (folder / "t.ndjson").write_text("".join(f'{{"host": "{r["host"]}", "n": {r["n"]}}}\n' for r in ROWS))
    database = sqlite3.connect(folder / "t.db")
    database.execute("CREATE TABLE t (host TEXT, n INTEGER)")
    database.executemany("INSERT INTO t VALUES (:host, :n)", ROWS)
    database.commit()
    database.close()
    specs = [f"{kind}t={kind}:{folder}/t.{kind}" for kind in ("csv", "ndjson", "parquet")]
    specs += [f"sqlt=sql:sqlite://{folder}/t.db#t", f"fw=firewall:{folder}/fw.log"]
    return [word for spec in specs for word in ("--source", spec)]


def log(count: int) -> bytes:
    return generate("iptables", seed=1, start_us=int(time.time() - 60) * 1_000_000, count=count)


def test_every_kind_of_source_is_a_table_and_a_log_is_followed(tmp_path: Path) -> None:
    flags = sources(tmp_path)
    path = tmp_path / "fw.log"
    with node(tmp_path / "data", *flags) as (process, state):
        host, port = split_address(state.client_address)
        path.write_bytes(log(30))
        with sync.connect(host, port) as conn:
            tables = {entry.name: entry for entry in conn.tables()}
            assert tables["csvt"].columns == tables["sqlt"].columns == ("host", "n")
            assert "src" in tables["fw"].columns and "fw.unparsed" in tables
            for name in ("csvt", "ndjsont", "parquett", "sqlt"):
                assert conn.query(COUNT.format(table=name), "ufl").table().to_pylist() == [{"n": 100}]
            assert conn.query(COUNT.format(table="fw"), "ufl").table().to_pylist() == [{"n": 30}]
            while conn.status().figures["sources.fw.lines"] < 30:
                continue
            answer = conn.query(FOLLOW, "ufl")
            while conn.status().figures["sources.fw.followers"] == 0:
                continue
            with path.open("ab") as file:
                file.write(log(7) + b"what is this?\n")
            began_s = time.monotonic()
            assert next(iter(answer)).num_rows == 7
            assert time.monotonic() - began_s < 1.0, "a live event took a second"
            figures = conn.status().figures
            assert (figures["sources.fw.parsed"], figures["sources.fw.unparsed"]) == (37, 1)
            kept = conn.query(COUNT.format(table="fw.unparsed"), "ufl").table().to_pylist()
            assert kept == [{"n": 1}]
        process.terminate()
        assert process.wait(10) == 0
    with path.open("ab") as file:
        file.write(log(5))
    with (
        node(tmp_path / "data", *flags) as (_, state),
        sync.connect(*split_address(state.client_address)) as conn,
    ):
        assert next(iter(conn.query(FOLLOW, "ufl"))).num_rows == 5, "what was written meanwhile"


def test_a_source_that_cannot_be_opened_is_named_at_the_start() -> None:
    command = [sys.executable, "-m", "cli.main", "node", "--listen", "127.0.0.1:0"]
    command += ["--source", "t=csv:/no/such.csv"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=clean_environment())
    assert run.returncode == 1
    assert "node.sources: t=csv:/no/such.csv: /no/such.csv: " in run.stderr
    assert "Traceback" not in run.stderr
