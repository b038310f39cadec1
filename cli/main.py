"""The `pier` command: finds the module of a subcommand, parses its options, runs it, and says how it went.

Only the module of the command that was typed is imported, so `pier --help` is quick. Exit codes are those of
`cli.exits`. Rows go to stdout, everything else to stderr, and neither brings a terminal orders (`cli.terminal`).
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence

from cli.exits import exit_codes, exit_of
from cli.failure import EXIT_INTERRUPTED, EXIT_USAGE, CommandFailed, describe
from cli.terminal import guarded

#: Command, the module that has it, and what it is for, in the order people meet them.
COMMANDS: tuple[tuple[str, str, str], ...] = (
    ("demo", "cli.demo", "start a small cluster, show what it does, stop it"),
    ("node", "cli.node", "run a node"),
    ("cluster", "cli.cluster", "start, look at and stop node processes on this machine"),
    ("sql", "cli.ask", "ask a question in SQL"),
    ("ufl", "cli.ask", "run a query written in UFL"),
    ("explain", "cli.ask", "show how a query would run"),
    ("publish", "cli.publish", "put the rows of a file into the DHT"),
    ("unpublish", "cli.unpublish", "end a published table, or some keys of it"),
    ("tables", "cli.tables", "list tables"),
    ("queries", "cli.queries", "list running queries, or cancel one"),
    ("status", "cli.status", "show how a node is doing"),
    ("health", "cli.health", "ask whether a node lives or is ready"),
    ("ring", "cli.ring", "show who is on the ring and who owns what"),
    ("members", "cli.members", "show who belongs to the ring, there or not; retire one"),
    ("keys", "cli.keys", "make, rotate, list and revoke a cluster's keys"),
    ("logs", "cli.logs", "detect and parse firewall logs"),
    ("sim", "cli.sim", "simulate a scenario"),
)
_EPILOG = """
start here:
  pier demo                                   see it work
  pier cluster start -n 8                     eight nodes on this machine
  pier sql "SELECT count(*) FROM fw"          ask them

`pier COMMAND --help` explains a command.

"""


def commands() -> list[tuple[str, str, str]]:
    """Those whose module is installed."""
    return [entry for entry in COMMANDS if importlib.util.find_spec(entry[1]) is not None]


def main(argv: Sequence[str] | None = None) -> int:
    with guarded():
        return _main(argv)


def _main(argv: Sequence[str] | None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser, command = _parser(arguments)
    try:
        args, unknown = parser.parse_known_args(arguments)
        if unknown:
            (command or parser).error(f"unrecognized arguments: {' '.join(unknown)}")
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else EXIT_USAGE
    try:
        return _run(args)
    except BrokenPipeError:
        # Whoever read our output has had enough: `pier sql … | head` is no failure. Python would complain
        # once more when it flushes at exit, so stdout leads nowhere from here on.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except CommandFailed as failure:
        print(f"pier: {failure}", file=sys.stderr)
        return failure.code
    except Exception as error:
        text = describe(error)
        if text is None:
            raise
        print(f"pier: {text}", file=sys.stderr)
        return exit_of(error)


def _run(args: argparse.Namespace) -> int:
    try:
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except BaseExceptionGroup as group:
        # Concurrent tasks wrap what went wrong in one of them; alone it is the error itself.
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from None


def _parser(arguments: Sequence[str]) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser | None]:
    """The whole parser, and the part of it that belongs to the command that was typed."""
    known = commands()
    width = max(len(name) for name, _, _ in known)
    listing = "\n".join(f"  {name:{width}}  {text}" for name, _, text in known)
    parser = argparse.ArgumentParser(
        prog="pier",
        usage="pier COMMAND [OPTIONS]",
        description="Ask many hosts one question, get one answer and an honest account of who gave it.\n\n"
        f"commands:\n{listing}",
        epilog=_EPILOG + exit_codes(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"pier {_version(arguments)}")
    subparsers = parser.add_subparsers(metavar="COMMAND", help=argparse.SUPPRESS, prog="pier")
    chosen = next((word for word in arguments if not word.startswith("-")), None)
    module = next((module for name, module, _ in known if name == chosen), None)
    if module is not None:
        importlib.import_module(module).add_parser(subparsers)
    parser.set_defaults(run=lambda args: _no_command(parser, chosen, [name for name, _, _ in known]))
    if module is None and chosen is not None:
        subparsers.add_parser(chosen, add_help=False).add_argument("rest", nargs=argparse.REMAINDER)
    return parser, subparsers.choices.get(chosen or "")


def _no_command(parser: argparse.ArgumentParser, chosen: str | None, names: list[str]) -> int:
    if chosen is None:
        parser.print_help(sys.stderr)
        return EXIT_USAGE
    close = difflib.get_close_matches(chosen, names, 1)
    hint = f"; did you mean {close[0]}?" if close else "; pier --help lists them"
    raise CommandFailed(f"there is no command {chosen!r}{hint}", EXIT_USAGE)


def _version(arguments: Sequence[str]) -> str:
    if "--version" not in arguments:
        return ""
    from importlib.metadata import version

    return version("pier")


if __name__ == "__main__":
    sys.exit(main())
