"""Events as tests make them: a Hypothesis strategy over the normal vocabulary, and batches from rows."""

from __future__ import annotations

import datetime
import ipaddress
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from pier_node.logs import FIREWALL_SCHEMA
from pier_node.logs.events import ACTIONS, DIRECTIONS, PORT_PROTOCOLS
from pier_node.logs.parser import Parser

START = datetime.datetime(2025, 1, 1, tzinfo=datetime.UTC)
REFERENCE = datetime.datetime(2025, 6, 1, tzinfo=datetime.UTC)
REFERENCE_US = int(REFERENCE.timestamp()) * 1_000_000

_WORD = st.from_regex(r"[A-Za-z][A-Za-z0-9_.-]{0,11}", fullmatch=True)
_RULE = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,9}( [A-Za-z0-9_-]{1,9}){0,2}", fullmatch=True)
_SECONDS = int((REFERENCE - START).total_seconds())


@st.composite
def event(draw: st.DrawFn) -> dict[str, Any]:
    family = draw(st.sampled_from((4, 6)))
    proto = draw(
        st.sampled_from(("tcp", "udp", "icmp" if family == 4 else "icmpv6", "gre", "esp", "sctp", None))
    )
    ported = proto in PORT_PROTOCOLS
    port = st.integers(0, 65_535)
    at = START + datetime.timedelta(microseconds=draw(st.integers(0, _SECONDS * 1_000_000)))
    return {
        "ts": at,
        "host": draw(st.none() | _WORD),
        "action": draw(st.sampled_from(ACTIONS)),
        "direction": draw(st.none() | st.sampled_from(DIRECTIONS)),
        "iface": draw(st.none() | _WORD),
        "proto": proto,
        "src": _address(draw, family),
        "spt": draw(port) if ported else None,
        "dst": _address(draw, family),
        "dpt": draw(port) if ported else None,
        "length": draw(st.none() | st.integers(0, 10**12)),
        "ttl": draw(st.none() | st.integers(0, 255)),
        "rule": draw(st.none() | _RULE),
        "raw_format": "made",
    }


def _address(draw: st.DrawFn, family: int) -> str:
    address = draw(st.ip_addresses(v=family))  # type: ignore[arg-type]
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return f"::ffff:{address.ipv4_mapped}"
    return str(address)


def batch_of(rows: list[dict[str, Any]]) -> Any:
    return pa.RecordBatch.from_pylist(rows, schema=FIREWALL_SCHEMA)


def parse(dialect: str, raw: bytes, **options: Any) -> tuple[list[dict[str, Any]], Parser]:
    """All rows of a log, and the parser that read it."""
    parser = Parser(dialect, **({"reference_us": REFERENCE_US, "engine": "numpy"} | options))
    batches = [batch for batch in (parser.feed(raw), parser.finish()) if batch is not None]
    return [row for batch in batches for row in batch.to_pylist()], parser
