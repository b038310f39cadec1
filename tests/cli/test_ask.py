"""Asking: rows on stdout, everything else on stderr, the account last."""

from __future__ import annotations

import io
import json
import os
import signal
from pathlib import Path

import pyarrow as pa
import pytest

from cli.exits import Exit
from cli.main import main
from pier_node.protocol import messages as m
from pier_node.service import AnswerSink, Failure
from tests.cli.conftest import Served
from tests.pier_node.worlds import BATCH

ACCOUNT = m.Account("q1", asked=3, answered=2, empty=1, rows=2)


def answer(sink: AnswerSink) -> None:
    sink.batch("t", BATCH)
    sink.progress(3, 2, 2, 0.1)
    sink.finish(ACCOUNT)


def ask(served: Served, *arguments: str) -> int:
    return main(["sql", "SELECT 1", "--node", served.address, *arguments])


def test_json_is_an_object_a_row_and_the_account_is_last(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    served.engine.on_query = answer
    assert ask(served, "--format", "json", "--timeout", "9", "--limit", "rows=7", "--param", "a=b") == 0
    captured = capsys.readouterr()
    rows = [json.loads(line) for line in captured.out.splitlines()]
    assert rows == [{"src": "10.0.0.1", "n": 1}, {"src": "10.0.0.2", "n": 2}]
    account = json.loads(captured.err.splitlines()[-1])
    assert account["query"] == "q1"
    parts = ("answered", "empty", "failed", "unreachable")
    assert sum(account[part] for part in parts) == account["asked"] == 3
    (asked,) = served.engine.asked
    assert (asked.limits.time_s, asked.limits.rows, asked.params) == (9.0, 7, {"a": "b"})
    assert asked.language == "sql"


def test_a_table_lines_up(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    served.engine.on_query = answer
    assert ask(served) == 0
    assert capsys.readouterr().out == "src       n\n--------  -\n10.0.0.1  1\n10.0.0.2  2\n"


def test_csv(served: Served, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    served.engine.on_query = answer
    assert ask(served, "--format", "csv") == 0
    assert capfdbinary.readouterr().out == b'"src","n"\n"10.0.0.1",1\n"10.0.0.2",2\n'


def test_arrow(served: Served, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    served.engine.on_query = answer
    assert ask(served, "--format", "arrow") == 0
    table = pa.ipc.open_stream(io.BytesIO(capfdbinary.readouterr().out)).read_all()
    assert table.to_batches()[0].equals(BATCH)


def test_rows_of_an_epoch_carry_it(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    def epochs(sink: AnswerSink) -> None:
        for epoch in (1, 2):
            sink.batch("t", BATCH.slice(0, 1), epoch)
            sink.epoch_account(m.Account("q1", asked=1, answered=1, epoch=epoch))
        sink.finish(m.Account("q1"))

    served.engine.on_query = epochs
    assert ask(served, "--format", "json") == 0
    captured = capsys.readouterr()
    assert [json.loads(line)["_epoch"] for line in captured.out.splitlines()] == [1, 2]
    accounts = [json.loads(line) for line in captured.err.splitlines()]
    assert [account.get("epoch") for account in accounts] == [1, 2, None]


def test_a_syntax_error_points_at_the_text(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "q.ufl"
    file.write_text("first line\nsecnd line\n")
    served.engine.on_query = lambda sink: sink.fail(
        Failure("syntax", "there is no secnd", m.Position(2, 1), "did you mean second?")
    )
    assert main(["ufl", str(file), "--node", served.address]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "pier: line 2, column 1: there is no secnd\n  secnd line\n  ^\nhint: did you mean second?\n"
    )


def test_a_failure_half_way_prints_what_there_was_and_the_account(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    def half(sink: AnswerSink) -> None:
        sink.batch("t", BATCH)
        sink.fail(Failure("limit", "limit rows = 2 reached", account=m.Account("q1", asked=1, failed=1)))

    served.engine.on_query = half
    assert ask(served, "--format", "json") == Exit.LIMIT
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 2
    assert "limit rows = 2" in captured.err
    assert json.loads(captured.err.splitlines()[-1])["failed"] == 1


#: How an account ends, the exit code, and the code with --allow-partial.
ENDINGS = [
    ("complete", Exit.COMPLETE, Exit.COMPLETE),
    ("partial", Exit.PARTIAL, Exit.COMPLETE),
    ("limit", Exit.LIMIT, Exit.COMPLETE),
    ("cancelled", Exit.CANCELLED, Exit.CANCELLED),
    ("failed", Exit.UNANSWERED, Exit.UNANSWERED),
    ("in a way nobody has heard of", Exit.UNANSWERED, Exit.UNANSWERED),
]


@pytest.mark.parametrize("command", ["sql", "ufl"])
@pytest.mark.parametrize(("ended", "code", "allowed"), ENDINGS)
def test_only_a_whole_answer_is_a_success(
    served: Served,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    ended: str,
    code: Exit,
    allowed: Exit,
) -> None:
    def end(sink: AnswerSink) -> None:
        sink.batch("t", BATCH)
        sink.finish(m.Account("q1", asked=3, answered=1, failed=2, rows=2, ended=ended, notes=("a note",)))

    served.engine.on_query = end
    (tmp_path / "q.ufl").write_text("x")
    text = "SELECT 1" if command == "sql" else str(tmp_path / "q.ufl")
    asked = [command, text, "--node", served.address, "--format", "json"]
    assert main(asked) == code
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 2, "the rows are printed in any case"
    assert json.loads(captured.err.splitlines()[-1])["ended"] == ended
    assert ("a note" in captured.err.splitlines()[0]) is (code != Exit.COMPLETE) or ended == "complete"
    assert main([*asked, "--allow-partial"]) == allowed


def test_an_epoch_that_is_not_whole_is_no_failure_of_its_query(served: Served) -> None:
    def epochs(sink: AnswerSink) -> None:
        sink.batch("t", BATCH, 1)
        sink.epoch_account(m.Account("q1", asked=2, answered=1, failed=1, epoch=1, ended="partial"))
        sink.finish(m.Account("q1", asked=2, answered=2))

    served.engine.on_query = epochs
    assert ask(served, "--format", "json") == 0


def test_a_table_that_nobody_knows_has_a_code_of_its_own(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    served.engine.on_query = lambda sink: sink.fail(
        Failure("unknown_table", "no node knows a table 'fv'", hint="did you mean 'fw'?")
    )
    assert ask(served) == Exit.UNKNOWN_TABLE
    assert "no node knows a table 'fv'\nhint: did you mean 'fw'?" in capsys.readouterr().err
    assert ask(served, "--allow-unknown") == Exit.UNKNOWN_TABLE
    assert [asked.unknown_tables for asked in served.engine.asked] == [False, True]


@pytest.mark.parametrize("command", [["sql"], ["ufl"], []])
def test_the_codes_are_in_the_help(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--help"]) == 0
    help_text = capsys.readouterr().out
    assert all(f"  {code.value:<4}{code.words[:20]}" in help_text for code in Exit)
    assert len({int(code) for code in Exit}) == len(Exit)


def test_interrupting_cancels_the_query_and_still_accounts(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(sink: AnswerSink) -> None:
        sink.batch("t", BATCH)
        os.kill(os.getpid(), signal.SIGINT)

    served.engine.on_query = interrupt
    assert ask(served, "--format", "json") == 130
    captured = capsys.readouterr()
    assert served.engine.told == [("cancel", "cancelled by the client")]
    assert json.loads(captured.err.splitlines()[-1])["ended"] == "cancelled"


def test_taps_are_shown(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    served.engine.on_taps = lambda sink: (sink.tap("n1", "scan", "hello"), sink.finish(ACCOUNT))
    assert ask(served, "--taps") == 0
    assert "n1 scan: hello" in capsys.readouterr().err


def test_listings(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    at = ["--node", served.address]
    assert main(["tables", *at]) == 0
    assert "fw" in capsys.readouterr().out
    assert main(["queries", *at, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == "q1"
    assert main(["queries", "cancel", "q1", *at]) == 0
    assert main(["queries", "cancel", "q9", *at]) == 1
    assert "there is no query q9" in capsys.readouterr().err
    assert main(["status", *at, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["a.b"] == 1
    assert main(["ring", *at]) == 0
    assert "127.0.0.1:9" in capsys.readouterr().out
    assert main(["explain", "SELECT 1", *at]) == 0
    assert capsys.readouterr().out == "plan of SELECT 1\n"


@pytest.mark.parametrize("kind", ["csv", "ndjson", "parquet"])
def test_publishing_a_file(
    served: Served, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    import pyarrow.csv as csv
    import pyarrow.parquet as parquet

    file = tmp_path / f"rows.{kind}"
    table = pa.Table.from_batches([BATCH])
    if kind == "csv":
        csv.write_csv(table, file)
    elif kind == "parquet":
        parquet.write_table(table, file)
    else:
        file.write_text("".join(json.dumps(row) + "\n" for row in BATCH.to_pylist()))
    command = ["publish", "rep", str(file), "--node", served.address, "--lifetime", "60"]
    assert main([*command, "--key", "src"]) == 0
    assert json.loads(capsys.readouterr().err)["rows"] == 2
    assert served.engine.told[0][1].lifetime_s == 60.0
    assert main([*command, "--key", "nope"]) == 1
    assert "no column nope" in capsys.readouterr().err


def test_unpublish_ends_a_table_or_keys_of_it(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["unpublish", "fw", "--node", served.address]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().err) == {"table": "fw", "objects": 5}
    assert main([*command, "--key", "a,b", "--key", "c"]) == 0
    assert served.engine.told == [("unpublish", "fw", ()), ("unpublish", "fw", ("a,b", "c"))]


def test_members_are_listed_and_retired(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    at = ["--node", served.address]
    assert main(["members", "--format", "json", *at]) == 0
    captured = capsys.readouterr()
    rows = [json.loads(line) for line in captured.out.splitlines()]
    assert [(row["host"], row["state"], row["seen_s"]) for row in rows] == [
        ("web1", "here", 0.0),
        ("web2", "absent", 12.5),
    ]
    assert captured.err == "2 members, 1 absent\n"
    assert main(["members", "retire", "web2", *at]) == 0
    assert capsys.readouterr().err == "retired web2\n"
    assert main(["members", "retire", "web9", *at]) == 1
    assert "no member 'web9' is expected" in capsys.readouterr().err
    assert main(["members", "retire", *at]) == 2
    assert main(["ring", *at]) == 0
    assert "1 absent members: web2" in capsys.readouterr().err
