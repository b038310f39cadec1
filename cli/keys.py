"""`pier keys`: makes a cluster's keys, rotates them while it runs, lists them without showing them, revokes them.

An action and what it is about: the keyring (between nodes), a token (of a client), a node (its certificate), tls
(what nodes show to clients). The word of a new token goes to stdout, once; nothing else ever shows a secret.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cli.failure import EXIT_USAGE, CommandFailed
from cli.options import add_command, add_format_option

ROLES = ("ask", "publish", "administer")
COLUMNS = ("kind", "key", "role", "made", "note")
LIMITS = ("time_s", "rows", "bytes", "memory_bytes", "steps")


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "keys",
        "Make, rotate, list and revoke the keys of a cluster.\n\n"
        "new                 a directory with the keyring for traffic between nodes, the authority that certifies\n"
        "                    node ids, a TLS certificate, and a token for the administrator\n"
        "new token NAME      a word for a client, with --role; printed once, only its hash is kept\n"
        "new node            a node's identity in a --data-dir, for a host that is not to have the authority\n"
        "                    (`certify` is the same); with --name also a TLS certificate for that host alone\n"
        "rotate              stages a new ring key; once every node has it, rotate again to put it to use\n"
        "rotate token NAME   another word; the one before opens until --retire\n"
        "rotate tls          another certificate for nodes to show, or for the node with this --data-dir\n"
        "list                keys, tokens, certified and revoked nodes: names, ages and roles, never the keys\n"
        "revoke token NAME   its sessions end\n"
        "revoke node ID      it is let in no more\n"
        "revoke key ID       what it seals opens no more\n\n"
        "Running nodes take up whatever changes in their copy of the directory.",
        "pier keys new token dashboard --role ask --dir /etc/pier/keys > dashboard.token",
    )
    parser.add_argument("action", choices=("new", "rotate", "list", "revoke", "certify"))
    parser.add_argument("what", nargs="?", choices=("keyring", "token", "node", "tls", "key"))
    parser.add_argument("subject", metavar="NAME", nargs="?", help="a token's name, a node's id, a key's id")
    parser.add_argument("--dir", metavar="D", type=Path, default=Path("keys"), help="default ./keys")
    parser.add_argument(
        "--keyring", metavar="F", type=Path, help="a keyring file in place of the directory's"
    )
    parser.add_argument(
        "--name",
        metavar="HOST",
        action="append",
        default=[],
        help="new, new node, rotate tls: a name or address under which clients reach nodes, or this one; may be "
        "repeated. A certificate is good for its names and for the machine itself",
    )
    parser.add_argument(
        "--role", action="append", choices=ROLES, default=[], help="new token: may be repeated; default ask"
    )
    parser.add_argument(
        "--namespace",
        metavar="NS",
        action="append",
        default=[],
        help="new token: where publish is allowed, as in fw or sensors.*; may be repeated",
    )
    parser.add_argument(
        "--limit",
        metavar="NAME=N",
        action="append",
        default=[],
        help=f"new token: the most its queries may use: {', '.join(LIMITS)}",
    )
    parser.add_argument(
        "--days", metavar="N", type=float, help="new token: opens for so long; default for ever"
    )
    parser.add_argument("--note", metavar="TEXT", default="", help="new node: shown in the list")
    parser.add_argument(
        "--data-dir", metavar="D", type=Path, help="new node, rotate tls: the node's data directory"
    )
    parser.add_argument(
        "--retire", action="store_true", help="rotate: drop what is older than the key, or word, in use"
    )
    add_format_option(parser, ("table", "json", "csv"))
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from pier_node.data_dir import DataDirError
    from pier_node.key_files import KeyFilesError

    if args.action == "certify":
        args.action, args.what = "new", "node"
    actions = {
        ("new", "keyring"): _new,
        ("new", "token"): _new_token,
        ("new", "node"): _new_node,
        ("rotate", "keyring"): _rotate,
        ("rotate", "token"): _rotate_token,
        ("rotate", "tls"): _rotate_tls,
        ("list", "keyring"): _show,
        ("list", "token"): _show,
        ("list", "node"): _show,
        ("revoke", "token"): _revoke_token,
        ("revoke", "node"): _revoke_node,
        ("revoke", "key"): _revoke_key,
    }
    what = args.what or ("" if args.action == "revoke" else "keyring")
    action = actions.get((args.action, what))
    if action is None:
        fits = " | ".join(kind for name, kind in actions if name == args.action)
        raise CommandFailed(f"pier keys {args.action} {what or 'what'}: write one of {fits}", EXIT_USAGE)
    if (what in ("token", "key") or args.action == "revoke") and args.action != "list" and not args.subject:
        raise CommandFailed(f"pier keys {args.action} {what} needs a name", EXIT_USAGE)
    try:
        action(args)
    except (KeyFilesError, DataDirError) as error:
        raise CommandFailed(str(error)) from None
    return 0


def _keyring(args: argparse.Namespace) -> Path:
    from pier_node.key_files import KeysDir

    return Path(args.keyring or KeysDir(args.dir).keyring)


def _new(args: argparse.Namespace) -> None:
    from pier_node.key_files import KeysDir

    ring = KeysDir(args.dir).make(args.name)
    print(f"made keys in {args.dir}; give nodes security.keys_dir or --keys {args.dir}", file=sys.stderr)
    if len(args.name) > 1:
        print(
            "one certificate for all of these names: whoever takes it from one host can pose as the others; "
            "pier keys new node --name makes one a host",
            file=sys.stderr,
        )
    _print(args, _ring_rows(ring))


def _new_token(args: argparse.Namespace) -> None:
    import time

    import msgspec

    from pier_node.access import tokens
    from pier_node.key_files import KeysDir, change_tokens, fresh_word

    roles = tuple(dict.fromkeys(args.role)) or ("ask",)
    if ("publish" in roles) != bool(args.namespace):
        raise CommandFailed("--role publish and --namespace go together", EXIT_USAGE)
    word, now_s = fresh_word(), int(time.time())
    try:
        # Through the decoder, so that what is written can be read again.
        token = msgspec.convert(
            {
                "name": args.subject,
                "roles": roles,
                "digests": [tokens.digest(word)],
                "made_s": now_s,
                "namespaces": args.namespace,
                "expires_s": None if args.days is None else now_s + int(args.days * 86_400),
                "limits": _limits(args.limit),
            },
            tokens.Token,
        )
    except msgspec.ValidationError as error:
        raise CommandFailed(f"token {args.subject}: {error}", EXIT_USAGE) from None
    change_tokens(KeysDir(args.dir).tokens, lambda book: tokens.added(book, token))
    print(word)
    print(f"token {args.subject} may {', '.join(roles)}; this is the only time it is shown", file=sys.stderr)


def _limits(texts: list[str]) -> list[float | None]:
    """Limits as their wire form has them, by position."""
    found: dict[str, float | None] = dict.fromkeys(LIMITS)
    for text in texts:
        name, _, value = text.partition("=")
        try:
            found[name] = float(value) if name == "time_s" else int(value)
        except ValueError:
            name = ""
        if name not in LIMITS:
            raise CommandFailed(f"--limit {text}: not NAME=N with a name of {', '.join(LIMITS)}", EXIT_USAGE)
    return [found[name] for name in LIMITS]


def _new_node(args: argparse.Namespace) -> None:
    from pier_node.data_dir import DataDir
    from pier_node.key_files import KeysDir, TlsPair

    if args.data_dir is None:
        raise CommandFailed("pier keys new node needs --data-dir", EXIT_USAGE)
    data, keys = DataDir(args.data_dir), KeysDir(args.dir)
    args.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    identity = keys.certify(data.secret())
    data.certificate.write_text(identity.certificate.hex() + "\n")
    keys.record(identity.node_id, args.note or args.data_dir.name)
    if args.name:
        names = keys.renew_tls(args.name, TlsPair(data.tls_certificate, data.tls_key))
        print(f"its TLS certificate is for {', '.join(names)}", file=sys.stderr)
    print(f"node {identity.node_id.hex()} is certified; copy {args.data_dir} to its host", file=sys.stderr)


def _rotate(args: argparse.Namespace) -> None:
    from pier_node.key_files import retire_keys, rotate_keyring

    file = _keyring(args)
    ring = retire_keys(file) if args.retire else rotate_keyring(file)
    print(_next_step(args, ring.staged is not None), file=sys.stderr)
    _print(args, _ring_rows(ring))


def _next_step(args: argparse.Namespace, staged: bool) -> str:
    if args.retire:
        return "old keys are gone: nodes that still seal with them are locked out"
    if staged:
        return "a new key is staged: copy the keyring to every node, then rotate again to put it to use"
    return "the staged key is in use: copy the keyring to every node; old keys still open"


def _rotate_token(args: argparse.Namespace) -> None:
    from pier_node.access import tokens
    from pier_node.key_files import KeysDir, change_tokens, fresh_word

    file = KeysDir(args.dir).tokens
    if args.retire:
        change_tokens(file, lambda book: tokens.retired(book, args.subject))
        print(f"the word that {args.subject} had before opens no more", file=sys.stderr)
        return
    word = fresh_word()
    change_tokens(file, lambda book: tokens.rotated(book, args.subject, word))
    print(word)
    print(
        f"copy {file} to every node, give {args.subject} its new word, then rotate with --retire",
        file=sys.stderr,
    )


def _rotate_tls(args: argparse.Namespace) -> None:
    from pier_node.data_dir import DataDir
    from pier_node.key_files import KeysDir, TlsPair

    keys = KeysDir(args.dir)
    if args.data_dir is not None:
        data = DataDir(args.data_dir)
        pair, where = TlsPair(data.tls_certificate, data.tls_key), "its host"
    else:
        pair, where = TlsPair(keys.tls_certificate, keys.tls_key), "every node that has none of its own"
    names = keys.renew_tls(args.name, pair)
    print(
        f"a certificate for {', '.join(names)}: copy {pair.certificate} and {pair.key} to {where}; "
        "clients need nothing",
        file=sys.stderr,
    )


def _revoke_token(args: argparse.Namespace) -> None:
    from pier_node.access import tokens
    from pier_node.key_files import KeysDir, change_tokens

    file = KeysDir(args.dir).tokens
    change_tokens(file, lambda book: tokens.revoked(book, args.subject))
    print(
        f"copy {file} to every node: sessions of {args.subject} end as soon as a node has it", file=sys.stderr
    )


def _revoke_node(args: argparse.Namespace) -> None:
    from overlay.transport.seal import NODE_ID_BYTES
    from pier_node.key_files import KeysDir, read_nodes

    keys = KeysDir(args.dir)
    fits = [node for node in read_nodes(keys.certified) if node.startswith(args.subject)]
    try:
        node_id = bytes.fromhex(fits[0] if len(fits) == 1 else args.subject)
    except ValueError:
        node_id = b""
    if len(node_id) != NODE_ID_BYTES:
        raise CommandFailed(
            f"{args.subject} is neither a node id nor the start of one in pier keys list", EXIT_USAGE
        )
    keys.revoke_node(node_id)
    print(
        f"copy {keys.revoked} to every node; then rotate the keyring twice and retire: the node still has its keys",
        file=sys.stderr,
    )


def _revoke_key(args: argparse.Namespace) -> None:
    from pier_node.key_files import drop_key

    _print(args, _ring_rows(drop_key(_keyring(args), args.subject)))


def _show(args: argparse.Namespace) -> None:
    from pier_node.key_files import KeysDir, read_keyring, read_nodes, read_tokens

    keys = KeysDir(args.dir)
    rows: list[dict[str, Any]] = []
    if args.what in (None, "keyring"):
        rows += _ring_rows(read_keyring(_keyring(args)))
    if args.what in (None, "token") and keys.tokens.exists():
        rows += _token_rows(read_tokens(keys.tokens))
    if args.what in (None, "node"):
        revoked = read_nodes(keys.revoked)
        for node, record in sorted((read_nodes(keys.certified) | revoked).items()):
            role = "revoked" if node in revoked else "certified"
            rows.append({"kind": "node", "key": node, "role": role, "made": record.at_s, "note": record.note})
    _print(args, rows)


def _ring_rows(ring: Any) -> Iterator[dict[str, Any]]:
    from overlay.transport import keyring

    for row in keyring.rows(ring):
        yield {"kind": "key", "key": row.key_id, "role": row.role, "made": row.made_s, "note": ""}


def _token_rows(book: Any) -> Iterator[dict[str, Any]]:
    for token in book.tokens:
        notes = [*token.namespaces]
        notes += [
            f"{name}={value:g}" for name in LIMITS if (value := getattr(token.limits, name)) is not None
        ]
        notes += [f"until {_date(token.expires_s)}"] if token.expires_s is not None else []
        notes += ["rotating"] if len(token.digests) > 1 else []
        role = " ".join(token.roles)
        yield {
            "kind": "token",
            "key": token.name,
            "role": role,
            "made": token.made_s,
            "note": " ".join(notes),
        }


def _print(args: argparse.Namespace, rows: Any) -> None:
    from cli.output import print_rows

    print_rows(({**row, "made": _date(row["made"])} for row in rows), args.format, COLUMNS)


def _date(at_s: int) -> str:
    import datetime

    return datetime.datetime.fromtimestamp(at_s, datetime.UTC).isoformat()
