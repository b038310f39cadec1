"""Options that several commands share: which node to talk to, how to print, how long to wait."""

from __future__ import annotations

import argparse
from pathlib import Path

FORMATS = ("table", "json", "csv", "arrow")


def add_command(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    text: str,
    example: str,
    more: str = "",
) -> argparse.ArgumentParser:
    """A subcommand with a description and an example in its help, and whatever else is to be known."""
    return subparsers.add_parser(
        name,
        help=text.splitlines()[0],
        description=text,
        epilog=f"example:\n  {example}" + (f"\n\n{more}" if more else ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_node_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which node")
    where = group.add_mutually_exclusive_group()
    where.add_argument("--node", metavar="H:P", help="a node's client address; default 127.0.0.1:7701")
    where.add_argument(
        "--dir", metavar="D", type=Path, help="a cluster's directory: any node of it that answers"
    )
    group.add_argument(
        "--tls-ca",
        metavar="FILE",
        type=Path,
        help="use TLS and trust this authority; the node's certificate must be for the host of --node",
    )
    group.add_argument("--tls", action="store_true", help="use TLS and trust the system's authorities")
    group.add_argument(
        "--tls-name",
        metavar="HOST",
        help="the name that the node's certificate must be for; default its host",
    )
    group.add_argument(
        "--tls-any-name",
        action="store_true",
        help="with --tls-ca: take any certificate of the authority. Whoever has the key of one host can then pose as "
        "the node, and gets your token",
    )
    group.add_argument(
        "--token-file", metavar="FILE", type=Path, help="file with the word the node wants to hear"
    )
    group.add_argument(
        "--connect-timeout", metavar="S", type=seconds, default=10.0, help="to reach the node; default 10"
    )


def add_format_option(parser: argparse.ArgumentParser, formats: tuple[str, ...] = FORMATS) -> None:
    parser.add_argument(
        "--format", choices=formats, default="table", help="of the rows on stdout; default table"
    )


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)
