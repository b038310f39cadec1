"""`pier health`: asks a node's HTTP door whether it lives, or is ready; for containers, supervisors and balancers."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from cli.failure import EXIT_FAILED, EXIT_USAGE, CommandFailed
from cli.options import add_command, seconds

#: Where a node's health is asked for when nobody says otherwise.
DEFAULT_ADDRESS = "127.0.0.1:7702"
ANSWER_BYTES_MAX = 64 << 10


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "health",
        "Ask whether a node lives (its loop turns) or, with --ready, whether it is on the ring.\n"
        "Exit code 0: yes; 1: no. The node needs http.listen.",
        "pier health --ready --http 127.0.0.1:7702",
    )
    parser.add_argument(
        "--http",
        metavar="H:P",
        help=f"the node's http.listen; default PIER_HTTP_LISTEN, else {DEFAULT_ADDRESS}",
    )
    parser.add_argument("--ready", action="store_true", help="on the ring, not only alive")
    parser.add_argument("--timeout", metavar="S", type=seconds, default=3.0, help="default 3")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import http.client

    host, port = _address(args.http or os.environ.get("PIER_HTTP_LISTEN") or DEFAULT_ADDRESS)
    connection = http.client.HTTPConnection(host, port, timeout=args.timeout)
    try:
        connection.request("GET", "/ready" if args.ready else "/health")
        answer = connection.getresponse()
        text = answer.read(ANSWER_BYTES_MAX).decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as error:
        raise CommandFailed(f"{host}:{port} does not answer: {error}") from None
    finally:
        connection.close()
    print(text, file=sys.stderr)
    return 0 if answer.status == 200 else EXIT_FAILED


def _address(text: str) -> tuple[str, int]:
    from pier_node.config.addresses import AddressError, split_address

    try:
        host, port = split_address(text)
    except AddressError as error:
        raise CommandFailed(f"--http {error}", EXIT_USAGE) from None
    # A node that listens on every address is asked on this machine.
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port
