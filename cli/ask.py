"""`pier sql`, `pier ufl`, `pier explain`: a query in, rows out, and who answered.

Rows go to stdout as they come. On stderr: progress while a terminal watches, errors with their place in the
text, and as the last line the completeness account as JSON. The exit code is 0 for a whole answer only. Ctrl-C cancels
the query on every node and still prints the account; a second one leaves at once.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.exits import Exit, exit_codes, exit_of
from cli.failure import EXIT_INTERRUPTED, EXIT_USAGE, CommandFailed, query_error
from cli.options import add_command, add_format_option, add_node_options, seconds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import trio

    from pier_node.client import Answer
    from pier_node.protocol.messages import Account, Language, Limits

LIMITS = ("time_s", "rows", "bytes", "memory_bytes", "steps")
#: What the node gets on top of a query's own time to say that it is over.
_TIMEOUT_GRACE_S = 5.0


def add_parser(subparsers: Any) -> None:
    sql = add_command(
        subparsers,
        "sql",
        "Ask a question in SQL; rows on stdout, the account of who answered last on stderr.",
        'pier sql "SELECT src, count(*) AS n FROM fw GROUP BY src ORDER BY n DESC LIMIT 10"',
        exit_codes(),
    )
    sql.add_argument(
        "text",
        metavar="QUERY",
        nargs="?",
        help="the query, or - to read it from standard input; without one a prompt asks for queries",
    )
    sql.set_defaults(run=run_sql)
    ufl = add_command(
        subparsers,
        "ufl",
        "Run a query written in UFL, PIER's dataflow language.",
        "pier ufl query.ufl --format json",
        exit_codes(),
    )
    ufl.add_argument("file", metavar="FILE", type=Path, help="the query, or - to read it from standard input")
    ufl.set_defaults(run=run_ufl)
    for parser in (sql, ufl):
        add_node_options(parser)
        add_format_option(parser)
        parser.add_argument("--timeout", metavar="S", type=seconds, help="end the query after S seconds")
        parser.add_argument(
            "--limit",
            metavar="NAME=N",
            type=_limit,
            action="append",
            default=[],
            help=f"a budget per node, may be repeated: {', '.join(LIMITS)}",
        )
        parser.add_argument(
            "--param",
            metavar="NAME=VALUE",
            type=_param,
            action="append",
            default=[],
            help="a query parameter",
        )
        parser.add_argument(
            "--taps", action="store_true", help="show messages from inside the query on stderr"
        )
        parser.add_argument(
            "--allow-partial",
            action="store_true",
            help="exit with 0 also when nodes or rows are missing, or a limit ended the answer",
        )
        parser.add_argument(
            "--allow-unknown", action="store_true", help="take a table that no node knows for an empty one"
        )
        parser.add_argument("--quiet", action="store_true", help="no progress line")
    explain = add_command(
        subparsers,
        "explain",
        "Show how a query would run, without running it.",
        'pier explain "SELECT src, count(*) FROM fw GROUP BY src"',
    )
    explain.add_argument("text", metavar="QUERY")
    explain.add_argument("--language", choices=("sql", "ufl"), default="sql")
    add_node_options(explain)
    explain.set_defaults(run=run_explain)


def run_sql(args: argparse.Namespace) -> int:
    if args.text is None and sys.stdin.isatty():
        from cli.repl import Prompt

        return Prompt(args, lambda text: _run(args, text, "sql")).run()
    text = sys.stdin.read() if args.text in ("-", None) else args.text
    return _run(args, text, "sql")


def run_ufl(args: argparse.Namespace) -> int:
    text = sys.stdin.read() if str(args.file) == "-" else args.file.read_text()
    return _run(args, text, "ufl")


def run_explain(args: argparse.Namespace) -> int:
    import trio

    from cli.reach import reach
    from pier_node.client import RequestFailed

    async def explain() -> int:
        async with reach(args) as conn:
            try:
                print(await conn.explain(args.text, args.language))
            except RequestFailed as error:
                raise CommandFailed(query_error(error, args.text)) from None
        return 0

    return trio.run(explain)


def _run(args: argparse.Namespace, text: str, language: Language) -> int:
    import trio

    return trio.run(_ask, args, text, language)


async def _ask(args: argparse.Namespace, text: str, language: Language) -> int:
    import signal

    import trio

    from cli.reach import reach

    patience_s = args.timeout + _TIMEOUT_GRACE_S if args.timeout else float("inf")
    code = Exit.FAILED
    # The receiver is there before the query is, so that no Ctrl-C finds a query without someone to cancel it.
    async with reach(args) as conn:
        with trio.open_signal_receiver(signal.SIGINT) as signals:
            answer = conn.query(
                text,
                language,
                limits=_limits(args),
                params=dict(args.param),
                allow_partial=args.allow_partial,
                allow_unknown=args.allow_unknown,
            )
            if args.taps:
                answer.taps(True)
            async with trio.open_nursery() as nursery:
                stopper = Stopper(answer, nursery.cancel_scope)
                nursery.start_soon(stopper.watch, signals)
                with trio.move_on_after(patience_s) as patience:
                    code = await _print(args, answer, text)
                nursery.cancel_scope.cancel()
    if patience.cancelled_caught:
        raise CommandFailed(f"no answer within {args.timeout:g} s", Exit.LIMIT)
    return EXIT_INTERRUPTED if stopper.pressed else code


class Stopper:
    """Ctrl-C: once cancels the query and waits for its account, twice leaves."""

    def __init__(self, answer: Answer, scope: trio.CancelScope) -> None:
        self._answer = answer
        self._scope = scope
        self.pressed = 0

    async def watch(self, signals: AsyncIterator[int]) -> None:
        async for _ in signals:
            self.pressed += 1
            if self.pressed > 1:
                self._scope.cancel()
                return
            print("\npier: cancelling the query; Ctrl-C again to leave at once", file=sys.stderr)
            self._answer.cancel()


async def _print(args: argparse.Namespace, answer: Answer, text: str) -> Exit:
    from cli.live import LiveTable
    from cli.output import RowWriter, writer
    from cli.progress import ProgressLine
    from pier_node.client import Account, Piece, PierError, Progress

    line = ProgressLine(wanted=not args.quiet)
    rows: RowWriter = LiveTable(sys.stdout) if args.format == "table" else writer(args.format)
    code, epochs = Exit.COMPLETE, 0
    try:
        async for event in answer.events():
            if isinstance(event, Progress):
                if epochs == 0:
                    line.update(event.answered, event.asked, event.rows, event.elapsed_s)
                continue
            line.clear()
            if isinstance(event, Piece):
                rows.write(event.batch, event.epoch)
            elif isinstance(event, Account) and not answer.ended:
                epochs += 1
                rows.epoch(event)
                if args.format != "table":
                    print(account_json(event), file=sys.stderr)
            elif isinstance(event, Account):
                rows.flush()
            else:
                print(f"{event.node} {event.operator}: {event.text}", file=sys.stderr)
    except PierError as error:
        line.clear()
        rows.flush()
        print(f"pier: {query_error(error, text)}", file=sys.stderr)
        code = exit_of(error)
    sys.stdout.flush()
    if answer.account is not None:
        print(account_json(answer.account), file=sys.stderr)
    return code


def account_json(account: Account) -> str:
    """The account on one line, fields without meaning left out."""
    import json

    import msgspec

    fields = msgspec.structs.asdict(account)
    optional = ("epoch", "revision", "dropped", "notes", "causes")
    shown = {
        name: value
        for name, value in fields.items()
        if name not in optional or (value not in (None, {}, ()) and (name, value) != ("revision", 0))
    }
    if isinstance(shown.get("elapsed_s"), float):
        shown["elapsed_s"] = round(shown["elapsed_s"], 6)
    return json.dumps(shown)


def _limits(args: argparse.Namespace) -> Limits:
    from pier_node.client import Limits

    named: dict[str, Any] = dict(args.limit)
    if args.timeout is not None:
        if "time_s" in named:
            raise CommandFailed("--timeout and --limit time_s=… say the same; give one", EXIT_USAGE)
        named["time_s"] = args.timeout
    return Limits(**named)


def _limit(text: str) -> tuple[str, float | int]:
    name, equals, value = text.partition("=")
    if not equals or name not in LIMITS:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=N with a name of {', '.join(LIMITS)}")
    if name == "time_s":
        return name, seconds(value)
    if not value.isascii() or not value.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r}: {value!r} is not a whole number")
    return name, int(value)


def _param(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value
