"""From options to an open connection: an address, a cluster's directory, or what runs here anyway."""

from __future__ import annotations

import argparse
import ssl
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from cli.failure import EXIT_USAGE, CommandFailed
from pier_node.client import DEFAULT_PORT, ConnectFailed, Connection, connect
from pier_node.cluster.directory import ClusterDir, default_cluster_dir
from pier_node.config.addresses import AddressError, split_address
from pier_node.tls import TlsError, client_context

AGENT = "pier-cli"
ANY_NAME = (
    "pier: WARNING: --tls-any-name: the name in the node's certificate is not checked; "
    "whoever has the key of any host of the ring can pose as this node"
)


@dataclass(frozen=True, slots=True)
class Way:
    """One address to try, with what it takes to get in."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    token: str
    #: The name that its certificate must be for; its host when None.
    name: str | None = None


@asynccontextmanager
async def reach(args: argparse.Namespace) -> AsyncIterator[Connection]:
    """A connection to the node the options name, or to the first that answers of a cluster."""
    last: ConnectFailed | None = None
    for way in ways(args):
        opened = connect(
            way.host,
            way.port,
            token=way.token,
            tls=way.tls,
            server_name=way.name,
            timeout_s=args.connect_timeout,
            agent=AGENT,
        )
        try:
            conn = await opened.__aenter__()
        except ConnectFailed as error:
            last = error
            continue
        try:
            yield conn
        except BaseException as error:
            if not await opened.__aexit__(type(error), error, error.__traceback__):
                raise
        else:
            await opened.__aexit__(None, None, None)
        return
    raise last or CommandFailed("no node to talk to")


def ways(args: argparse.Namespace) -> Iterator[Way]:
    try:
        tls = _tls(args)
        token = args.token_file.read_text().strip() if args.token_file else ""
    except TlsError as error:
        raise CommandFailed(str(error)) from None
    if args.node is not None:
        yield replace(_way(args.node, tls, token), name=args.tls_name)
        return
    directory = ClusterDir(args.dir or default_cluster_dir())
    if args.dir is None and not directory.running():
        yield _way(f"127.0.0.1:{DEFAULT_PORT}", tls, token)
        return
    yield from cluster_ways(directory, tls, token)


def _tls(args: argparse.Namespace) -> ssl.SSLContext | None:
    if args.tls_any_name and not args.tls_ca:
        raise CommandFailed("--tls-any-name goes with --tls-ca", EXIT_USAGE)
    if args.tls_any_name:
        print(ANY_NAME, file=sys.stderr)
    if args.tls_ca:
        return client_context(args.tls_ca, check_names=not args.tls_any_name)
    return client_context() if args.tls else None


def cluster_ways(directory: ClusterDir, tls: ssl.SSLContext | None = None, token: str = "") -> Iterator[Way]:
    """Every node of a cluster that runs, with the cluster's own keys where it has some."""
    running = directory.running()
    if not running:
        raise CommandFailed(f"no node of {directory.path} runs; start them with: pier cluster start --dir …")
    keys = directory.client_keys()
    if keys is not None:
        tls = tls or client_context(keys.authority)
        token = token or keys.token
    for node in running:
        yield _way(node.client_address, tls, token)


def _way(text: str, tls: ssl.SSLContext | None, token: str) -> Way:
    try:
        host, port = split_address(text, DEFAULT_PORT)
    except AddressError as error:
        raise CommandFailed(f"--node {error}", EXIT_USAGE) from None
    return Way(host, port, tls, token)
