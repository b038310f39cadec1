"""`pier node`: runs one node in the foreground until it is told to stop."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.failure import EXIT_USAGE, CommandFailed
from cli.options import add_command

if TYPE_CHECKING:
    from pier_node.config import Config


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "node",
        "Run a node until SIGTERM or Ctrl-C; it then hands over what it owns and leaves the ring.\n"
        "Settings come from a preset, a TOML file, PIER_... variables and these flags; the last one wins.\n"
        "docs/configuration.md describes every knob. Exit code 3: an earlier life of this node's id runs elsewhere\n"
        "(a copied data directory), and this one was put out.",
        "pier node --listen 127.0.0.1:7700 --client 127.0.0.1:7701 --source fw=firewall:/var/log/ufw.log",
    )
    parser.add_argument("--config", metavar="F", type=Path, help="a TOML file")
    parser.add_argument("--preset", metavar="NAME", help="local, datacentre or internet")
    _knob(parser, "--listen", "node.listen", "H:P", "for other nodes; default 127.0.0.1:7700")
    _knob(parser, "--advertise", "node.advertise", "H:P", "where other nodes reach it, if that differs")
    _knob(parser, "--join", "node.join", "H:P", "a member to join through; may be repeated", many=True)
    _knob(parser, "--client", "client.listen", "H:P", "for clients; default 127.0.0.1:7701")
    _knob(parser, "--keyring", "security.keyring", "F", "keys for traffic between nodes")
    _knob(parser, "--keys", "security.keys_dir", "D", "a directory made by pier keys new")
    _knob(parser, "--source", "node.sources", "SPEC", "data, as TABLE=KIND:PATH; may be repeated", many=True)
    _knob(parser, "--aggregates", "node.aggregates", "F", "a Python file of your aggregates", many=True)
    _knob(parser, "--data-dir", "node.data_dir", "D", "keeps the node's identity over restarts")
    _knob(parser, "--state", "node.state_file", "F", "write process id and addresses here")
    _knob(parser, "--log-format", "log.format", "FORM", "text or json")
    parser.add_argument(
        "--set",
        metavar="KNOB=VALUE",
        action="append",
        default=[],
        help="any knob, as in bamboo.leaf_per_side=6",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check-config", action="store_true", help="check all settings, print them, and exit")
    what.add_argument("--describe-config", action="store_true", help="print the page of all knobs, and exit")
    parser.set_defaults(run=run)


def _knob(
    parser: argparse.ArgumentParser, flag: str, knob: str, metavar: str, text: str, *, many: bool = False
) -> None:
    parser.add_argument(flag, dest=knob, metavar=metavar, help=text, action="append" if many else "store")


def run(args: argparse.Namespace) -> int:
    if args.describe_config:
        from pier_node.config.describe import configuration_page

        sys.stdout.write(configuration_page())
        return 0
    config = _load(args)
    if args.check_config:
        return _check(config)
    import trio

    from pier_node.process import EXIT_PUT_OUT, PutOut, StartError, run_node

    try:
        trio.run(run_node, config)
    except StartError as error:
        raise CommandFailed(str(error)) from None
    except PutOut as error:
        raise CommandFailed(str(error), EXIT_PUT_OUT) from None
    return 0


def _load(args: argparse.Namespace) -> Config:
    from pier_node.config import ConfigError, load
    from pier_node.config.describe import knobs

    flags: dict[str, Any] = {name: value for name, value in vars(args).items() if "." in name}
    known = {knob.path for knob in knobs()}
    for text in args.set:
        knob, equals, value = text.partition("=")
        if not equals or knob not in known:
            raise CommandFailed(
                f"--set {text}: not KNOB=VALUE with a knob of docs/configuration.md", EXIT_USAGE
            )
        flags[knob] = value
    try:
        return load(args.config, flags=flags, preset=args.preset)
    except ConfigError as error:
        raise CommandFailed(str(error), EXIT_USAGE) from None


def _check(config: Config) -> int:
    """Prints what would be used, as TOML; also reads every key the configuration names."""
    from pier_node.config.describe import knobs
    from pier_node.data_dir import DataDir, DataDirError
    from pier_node.key_files import KeyFilesError
    from pier_node.security import SecurityError, load_credentials
    from pier_node.tls import TlsError

    data = DataDir(Path(config.node.data_dir)) if config.node.data_dir else None
    try:
        secret = data.known_secret() if data is not None else None
        load_credentials(config, secret or bytes(32), data if secret else None)
    except (SecurityError, KeyFilesError, TlsError, DataDirError) as error:
        raise CommandFailed(str(error)) from None
    section = ""
    for knob in knobs():
        if knob.section != section:
            section = knob.section
            print(f"\n[{section}]" if section != "node" else f"[{section}]")
        print(f"{knob.name} = {_toml(getattr(getattr(config, section), knob.name))}")
    print("the configuration is good", file=sys.stderr)
    return 0


def _toml(value: Any) -> str:
    import json

    if isinstance(value, tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)
