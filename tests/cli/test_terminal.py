"""What a terminal gets: text, whatever other hosts and strangers have written into rows, names and errors."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from cli import repl
from cli.main import main
from cli.output import json_text
from cli.terminal import Guarded, shown
from pier_node.protocol import messages as m
from pier_node.service import AnswerSink, Failure
from tests.cli.conftest import Served

#: Clears the screen, sets the title, goes back, beeps, deletes; orders of eight bits; turns text round.
ORDERS = "\x1b[2J\x1b]0;gotcha\x07\r\x08\x7f\x9b31m\x90x\x9c\u202e\u2028end"
ACTED_UPON = [char for char in ORDERS if not char.isprintable()]


class Terminal(io.StringIO):
    """Keeps what it is told to show, or to do."""

    encoding = "utf-8"
    errors = "strict"

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1


@contextmanager
def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Terminal, Terminal]]:
    out, err = Terminal(), Terminal()
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", out)
        patched.setattr(sys, "stderr", err)
        yield out, err


def own_orders_gone(text: str) -> str:
    """Without what the program itself tells the terminal: to clear its progress line, and to redraw a table."""
    for order in ("\r\x1b[K", "\x1b[J", "\x1b[5F", "\x1b[4F", "\x1b[3F", "\x1b[2F"):
        text = text.replace(order, "")
    return text


HOSTILE = pa.record_batch(
    {
        f"name{ORDERS}": [f"value{ORDERS}"],
        "list": [[ORDERS]],
        "binary": pa.array([ORDERS.encode()], pa.binary()),
    }
)


def answer(sink: AnswerSink) -> None:
    sink.progress(3, 1, 0, 0.1)
    sink.batch(ORDERS, HOSTILE)
    sink.tap(ORDERS, ORDERS, ORDERS)
    sink.finish(m.Account("q1", asked=3, answered=3, ended="partial", notes=(ORDERS,), dropped={ORDERS: 1}))


def epochs(sink: AnswerSink) -> None:
    for epoch in (1, 2):
        sink.batch(ORDERS, HOSTILE, epoch)
        sink.epoch_account(m.Account("q1", asked=1, answered=1, rows=1, epoch=epoch, notes=(ORDERS,)))
    sink.finish(m.Account("q1", asked=1, answered=1))


def refuse(sink: AnswerSink) -> None:
    sink.fail(Failure("syntax", f"wrong: {ORDERS}", m.Position(1, 1), f"rather {ORDERS}"))


@pytest.mark.parametrize("form", ["table", "json", "csv"])
@pytest.mark.parametrize("engine", [answer, epochs, refuse])
def test_nothing_that_comes_from_elsewhere_brings_a_terminal_orders(
    served: Served, monkeypatch: pytest.MonkeyPatch, form: str, engine: Any
) -> None:
    served.engine.on_query = engine
    with at_a_terminal(monkeypatch) as (out, err):
        main(["sql", f"SELECT {ORDERS}", "--node", served.address, "--format", form, "--taps"])
    for text in (own_orders_gone(out.getvalue()), own_orders_gone(err.getvalue())):
        assert not [char for char in ACTED_UPON if char in text], repr(text)
    if engine is not refuse:
        assert "gotcha" in out.getvalue(), "the text itself is shown"


def test_lists_of_tables_and_queries_bring_none_either(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = m.TableEntry(ORDERS, ORDERS, (ORDERS,), (ORDERS,), (ORDERS,))
    served.engine.tables = lambda done: done((entry,))  # type: ignore[method-assign]
    query = m.QueryEntry(ORDERS, ORDERS, client=ORDERS)
    served.engine.queries = lambda done: done((query,))  # type: ignore[method-assign]
    for command in (["tables"], ["queries"], ["queries", "cancel", ORDERS], ["explain", ORDERS]):
        for form in ("table", "json", "csv") if len(command) == 1 else ("",):
            with at_a_terminal(monkeypatch) as (out, err):
                main([*command, "--node", served.address, *(["--format", form] if form else [])])
            text = out.getvalue() + err.getvalue()
            assert not [char for char in ACTED_UPON if char in text], (command, repr(text))


def test_what_the_prompt_offers_is_printable(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    entry = m.TableEntry("fw", "", ("src", f"x{ORDERS}"), ("", ""))
    served.engine.tables = lambda done: done((entry,))  # type: ignore[method-assign]
    args: Any = SimpleNamespace(
        node=served.address, dir=None, tls=False, tls_ca=None, tls_name=None, tls_any_name=False
    )
    args.token_file, args.connect_timeout = None, 5.0
    assert list(repl.Prompt(args, lambda text: 0)._names()) == ["fw", "src"]


def test_an_arrow_stream_is_not_for_a_terminal(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    served.engine.on_query = answer
    with at_a_terminal(monkeypatch) as (out, err):
        assert main(["sql", "SELECT 1", "--node", served.address, "--format", "arrow"]) == 2
    assert not out.getvalue() and "not for a terminal" in err.getvalue()


def test_files_and_pipes_get_rows_as_they_are(
    served: Served, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    served.engine.on_query = answer
    main(["sql", "SELECT 1", "--node", served.address, "--format", "csv"])
    assert f"value{ORDERS}".encode() in capfdbinary.readouterr().out
    main(["sql", "SELECT 1", "--node", served.address, "--format", "json"])
    written = capfdbinary.readouterr()
    row = json.loads(written.out.splitlines()[0])
    assert row[f"name{ORDERS}"] == f"value{ORDERS}", "another spelling of the same JSON"
    assert not [char for char in ACTED_UPON if char in written.err.decode()], (
        "words are for people, wherever they go"
    )


def test_letters_of_all_scripts_stay_as_they_are() -> None:
    text = "Größe, 大きさ, размер, حجم, 🦀\n\tindented"
    assert shown(text) == text
    assert json_text({"a": "Größe 大きさ"}) == '{"a": "Größe 大きさ"}'
    assert json.loads(json_text({"a": ORDERS})) == {"a": ORDERS}


def test_bytes_are_shown_as_text() -> None:
    terminal = Terminal()
    guarded = Guarded(terminal)
    buffer = guarded.buffer
    buffer.write("größe\x1b[2J".encode() + b"\xff\n")
    buffer.flush()
    assert terminal.getvalue() == "größe\\x1b[2J�\n"
