"""Connections of drivers and tasks to nodes: the first of some addresses that answers, with bounded patience."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from pier_node.client import ConnectFailed, sync
from pier_node.config.addresses import split_address
from pier_node.protocol.messages import NodeEntry
from pier_node.tls import TlsError, client_context
from pyspark_pier.errors import OptionError, PierSparkError
from pyspark_pier.options import Access

AGENT = "pier-spark"
#: For each address that is tried.
CONNECT_TIMEOUT_S = 10.0


@contextmanager
def reach(access: Access, first: Iterable[str] = ()) -> Iterator[sync.Connection]:
    """A connection to the first address that answers: of `first`, then of the nodes the job was told."""
    tls = _tls(access)
    addresses = dict.fromkeys((*(split_address(text) for text in first if text), *access.nodes))
    problems = []
    for host, port in addresses:
        opened = _connect(access, host, port, tls)
        try:
            conn = opened.__enter__()
        except ConnectFailed as error:
            problems.append(str(error))
            continue
        try:
            yield conn
        finally:
            opened.__exit__(None, None, None)
        return
    raise PierSparkError("no node answers: " + "; ".join(problems))


@contextmanager
def only(access: Access, address: str) -> Iterator[sync.Connection]:
    """A connection to one node and no other; raises ConnectFailed."""
    host, port = split_address(address)
    with _connect(access, host, port, _tls(access)) as conn:
        yield conn


def _connect(
    access: Access, host: str, port: int, tls: ssl.SSLContext | None
) -> AbstractContextManager[sync.Connection]:
    return sync.connect(
        host,
        port,
        token=access.token,
        tls=tls,
        server_name=access.tls_name or None,
        timeout_s=CONNECT_TIMEOUT_S,
        agent=AGENT,
    )


def _tls(access: Access) -> ssl.SSLContext | None:
    if not access.tls_ca:
        return None
    try:
        return client_context(Path(access.tls_ca))
    except TlsError as error:
        raise OptionError(f"option tlsCa: {error}") from None


def doors(access: Access) -> tuple[NodeEntry, ...]:
    """Every node that clients can reach, in order of its id; whoever asked counts even if it has no door for others."""
    with reach(access) as conn:
        return doors_at(conn)


def doors_at(conn: sync.Connection) -> tuple[NodeEntry, ...]:
    entries = tuple(entry for entry in conn.doors().nodes if entry.client)
    if not entries:
        raise PierSparkError("no node of the ring has a door for clients")
    return entries
