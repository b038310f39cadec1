"""`pier keys`: makes a cluster's keys, rotates them while it runs, lists them without showing them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from cli.failure import EXIT_USAGE, CommandFailed
from cli.options import add_command, add_format_option


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "keys",
        "Make, rotate and list the keys of a cluster.\n\n"
        "new     makes a directory with the keyring for traffic between nodes, the authority that\n"
        "        certifies node ids, TLS certificates for clients and a token they must say\n"
        "rotate  stages a new key; once every node has it, rotate again to put it to use\n"
        "list    shows the keys' names, ages and roles, never the keys\n"
        "certify makes a node's identity in a data directory, for a host that is not to have the authority",
        "pier keys new --dir /etc/pier/keys --name db1.example.net --name 192.0.2.7",
    )
    parser.add_argument("action", choices=("new", "rotate", "list", "certify"))
    parser.add_argument("--dir", metavar="D", type=Path, default=Path("keys"), help="default ./keys")
    parser.add_argument(
        "--keyring", metavar="F", type=Path, help="a keyring file in place of the directory's"
    )
    parser.add_argument(
        "--name",
        metavar="HOST",
        action="append",
        default=[],
        help="new: a name or address under which clients reach nodes, for the certificate; may be repeated",
    )
    parser.add_argument("--data-dir", metavar="D", type=Path, help="certify: the node's data directory")
    parser.add_argument(
        "--retire", action="store_true", help="rotate: drop the keys older than the one in use"
    )
    add_format_option(parser, ("table", "json", "csv"))
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from overlay.transport import keyring
    from pier_node.key_files import KeyFilesError, KeysDir, read_keyring, retire_keys, rotate_keyring

    keys = KeysDir(args.dir)
    if args.action == "certify":
        return _certify(args)
    file = args.keyring or keys.keyring
    try:
        if args.action == "new":
            ring = keys.make(args.name or ["localhost", "127.0.0.1", "::1"])
            print(
                f"made keys in {args.dir}; give nodes security.keys_dir or --keys {args.dir}", file=sys.stderr
            )
        elif args.action == "rotate":
            ring = retire_keys(file) if args.retire else rotate_keyring(file)
            print(_next_step(args, ring.staged is not None), file=sys.stderr)
        else:
            ring = read_keyring(file)
    except KeyFilesError as error:
        raise CommandFailed(str(error)) from None
    _list(args, keyring.rows(ring))
    return 0


def _certify(args: argparse.Namespace) -> int:
    from pier_node.data_dir import DataDir, DataDirError
    from pier_node.key_files import KeyFilesError, KeysDir

    if args.data_dir is None:
        raise CommandFailed("pier keys certify needs --data-dir", EXIT_USAGE)
    data = DataDir(args.data_dir)
    try:
        args.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        identity = KeysDir(args.dir).certify(data.secret())
        data.certificate.write_text(identity.certificate.hex() + "\n")
    except (KeyFilesError, DataDirError) as error:
        raise CommandFailed(str(error)) from None
    print(f"node {identity.node_id.hex()} is certified; copy {args.data_dir} to its host", file=sys.stderr)
    return 0


def _next_step(args: argparse.Namespace, staged: bool) -> str:
    if args.retire:
        return "old keys are gone: nodes that still seal with them are locked out"
    if staged:
        return "a new key is staged: copy the keyring to every node, then rotate again to put it to use"
    return "the staged key is in use: copy the keyring to every node; old keys still open"


def _list(args: argparse.Namespace, rows: Any) -> None:
    import datetime

    from cli.output import print_rows

    listed = (
        {
            "key": row.key_id,
            "role": row.role,
            "made": datetime.datetime.fromtimestamp(row.made_s, datetime.UTC).isoformat(),
        }
        for row in rows
    )
    print_rows(listed, args.format, ("key", "role", "made"))
