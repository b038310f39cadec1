"""`pier logs`: what a firewall log is written in, its events as rows, and made-up logs to try things on.

The edge of `pier_node.logs`: files, standard input and the clock are read here. Rows (or generated lines) go
to stdout; on stderr the last line is the count of lines parsed, unparsed and skipped, as JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import gzip
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from cli.failure import EXIT_FAILED, EXIT_USAGE, CommandFailed
from cli.options import add_command, add_format_option, positive, seconds
from cli.output import writer

if TYPE_CHECKING:
    from pier_node.logs import Parser, Workload

#: Bytes read from a file at once; the parser scans as many at a time.
READ_BYTES = 1 << 20


def add_parser(subparsers: Any) -> None:
    logs = add_command(
        subparsers,
        "logs",
        "Firewall logs: find out their dialect, parse them into rows, or make some up.",
        "pier logs parse /var/log/ufw.log --format json",
    )
    actions = logs.add_subparsers(metavar="ACTION", required=True)
    detect = add_command(actions, "detect", "Tell which dialect logs are in.", "pier logs detect *.log")
    detect.add_argument(
        "files", metavar="FILE", nargs="+", help="a log, plain or .gz, or - for standard input"
    )
    detect.set_defaults(run=run_detect)
    _add_parse(actions)
    _add_generate(actions)


def _add_parse(actions: Any) -> None:
    parse = add_command(
        actions,
        "parse",
        "Print the events of a firewall log as rows of one table, whatever its dialect.",
        "pier logs parse pfirewall.log --tz Europe/Berlin --format csv",
    )
    parse.add_argument("file", metavar="FILE", help="a log, plain or .gz, or - for standard input")
    parse.add_argument("--dialect", metavar="NAME", help="instead of detecting it; see pier logs detect")
    parse.add_argument("--host", metavar="NAME", help="host of lines that name none")
    parse.add_argument("--tz", metavar="ZONE", default="UTC", help="zone of times without one; default UTC")
    parse.add_argument(
        "--unparsed", action="store_true", help="show the latest lines that did not parse, on stderr"
    )
    parse.add_argument("--engine", choices=("auto", "numpy", "numba"), default="auto", help="how to scan")
    add_format_option(parse)
    parse.set_defaults(run=run_parse)


def _add_generate(actions: Any) -> None:
    generate = add_command(
        actions,
        "generate",
        "Write a made-up log: the same options give the same bytes.",
        "pier logs generate ufw --start 2025-03-03T00:00:00Z --count 100000 --seed 7 > ufw.log",
    )
    generate.add_argument(
        "dialect", metavar="DIALECT", help="what to write; pier logs generate help lists them"
    )
    generate.add_argument(
        "--start", metavar="TIME", type=_moment, help="of the first event, ISO 8601; required"
    )
    size = generate.add_mutually_exclusive_group()
    size.add_argument("--count", metavar="N", type=positive, help="events to write")
    size.add_argument("--duration", metavar="S", type=seconds, help="seconds of traffic to write")
    generate.add_argument(
        "--rate", metavar="R", type=seconds, default=100.0, help="events a second; default 100"
    )
    generate.add_argument("--seed", metavar="N", type=int, default=0, help="default 0")
    generate.add_argument("--hosts", metavar="N", type=positive, default=8, help="logging hosts; default 8")
    generate.add_argument("--host-prefix", metavar="NAME", default="fw", help="of host names; default fw")
    generate.add_argument("--sources", metavar="N", type=positive, default=20_000, help="default 20000")
    generate.add_argument("--zipf", metavar="S", type=float, default=1.1, help="exponent; default 1.1")
    for share, default in (("scans", 0.15), ("bursts", 0.10), ("v6", 0.08)):
        generate.add_argument(
            f"--{share}", metavar="SHARE", type=float, default=default, help=f"default {default}"
        )
    generate.add_argument("--output", metavar="FILE", type=Path, help="instead of stdout")
    generate.set_defaults(run=run_generate)


def _moment(text: str) -> datetime.datetime:
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time like 2025-03-03T00:00:00Z") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)


@contextlib.contextmanager
def _opened(name: str) -> Iterator[IO[bytes] | gzip.GzipFile]:
    if name == "-":
        yield sys.stdin.buffer
    elif name.endswith(".gz"):
        with gzip.open(name, "rb") as file:
            yield file
    else:
        with Path(name).open("rb") as file:
            yield file


def _pieces(name: str) -> Iterator[bytes]:
    """The log's bytes; a damaged archive ends in words, not in a traceback."""
    with _opened(name) as file:
        try:
            while piece := file.read(READ_BYTES):
                yield piece
        except (EOFError, gzip.BadGzipFile) as error:
            raise CommandFailed(f"{name}: {error}") from error


def _reference_us(name: str) -> int:
    """No line is much later than the file's last change, or than now."""
    changed_s = time.time() if name == "-" else Path(name).stat().st_mtime
    return int(changed_s * 1_000_000)


def run_detect(args: argparse.Namespace) -> int:
    from pier_node.logs import detect

    code = 0
    for name in args.files:
        found = detect(next(_pieces(name), b""))
        if found.dialect is None:
            code = EXIT_FAILED
        print(json.dumps({"file": name, "dialect": found.dialect, "confidence": found.confidence}))
    return code


def run_parse(args: argparse.Namespace) -> int:
    import pyarrow as pa

    from pier_node.logs import FIREWALL_SCHEMA, detect

    pieces = _pieces(args.file)
    first = next(pieces, b"")
    dialect = args.dialect or detect(first).dialect
    if dialect is None:
        raise CommandFailed(f"{args.file}: no known firewall dialect; --dialect NAME tries one")
    parser = _parser(args, dialect)
    out = writer(args.format)
    wrote = False
    while first:
        batch = parser.feed(first)
        if batch is not None:
            wrote = True
            out.write(batch)
        first = next(pieces, b"")
    batch = parser.finish()
    if batch is not None or not wrote:
        out.write(pa.RecordBatch.from_pylist([], FIREWALL_SCHEMA) if batch is None else batch)
    out.flush()
    _report(parser, args.unparsed)
    return 0


def _parser(args: argparse.Namespace, dialect: str) -> Parser:
    from pier_node.logs import Parser

    try:
        return Parser(
            dialect, reference_us=_reference_us(args.file), host=args.host, tz=args.tz, engine=args.engine
        )
    except ValueError as error:
        raise CommandFailed(str(error), EXIT_USAGE) from error


def _report(parser: Parser, unparsed: bool) -> None:
    if unparsed:
        for line in parser.unparsed():
            print(
                f"line {line.number}: {line.reason}: {line.text.decode('utf-8', 'replace')}", file=sys.stderr
            )
    figures = dataclasses.asdict(parser.statistics())
    figures["reasons"] = dict(figures["reasons"])
    print(json.dumps(figures), file=sys.stderr)


def run_generate(args: argparse.Namespace) -> int:
    from pier_node.logs import DIALECTS
    from pier_node.logs.generate import generate_pieces

    if args.dialect == "help":
        for dialect in DIALECTS.values():
            print(f"{dialect.name:10} {dialect.title}")
        return 0
    if args.dialect not in DIALECTS:
        raise CommandFailed(f"no dialect {args.dialect!r}: it is one of {', '.join(DIALECTS)}", EXIT_USAGE)
    workload = _workload(args)
    if args.output is None:
        for piece in generate_pieces(args.dialect, workload):
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
    else:
        with args.output.open("wb") as file:
            for piece in generate_pieces(args.dialect, workload):
                file.write(piece)
    return 0


def _workload(args: argparse.Namespace) -> Workload:
    from pier_node.logs import Workload

    if args.start is None or (args.count is None and args.duration is None):
        raise CommandFailed("generate needs --start and either --count or --duration", EXIT_USAGE)
    since = args.start - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    try:
        return Workload(
            seed=args.seed,
            start_us=since // datetime.timedelta(microseconds=1),
            count=args.count,
            duration_s=args.duration,
            rate=args.rate,
            hosts=args.hosts,
            host_prefix=args.host_prefix,
            sources=args.sources,
            zipf=args.zipf,
            scans=args.scans,
            bursts=args.bursts,
            v6=args.v6,
        )
    except ValueError as error:
        raise CommandFailed(str(error), EXIT_USAGE) from error
