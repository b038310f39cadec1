"""What intrusion detectors say: `gid:sid:rev text` as the rule, and endpoints with or without ports."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pier_node.logs import printing

_SIGNATURE = re.compile(r"\d{1,10}:\d{1,10}:\d{1,10} \S.*")
_ENDPOINT = (
    r"^(?:\[(?P<a6>[^\]]+)\](?::(?P<p6>\d+))?|(?P<a4>\d+\.\d+\.\d+\.\d+)(?::(?P<p4>\d+))?"
    r"|(?P<bare>[^\[\]\s]+))$"
)
_PORT_LAST = r"^(?P<address>[0-9a-fA-F:]*:[0-9a-fA-F:.]*):(?P<port>\d+)$"


def conforming_signature(rule: str | None) -> str:
    """A rule as a detector would name it."""
    if rule is not None and _SIGNATURE.fullmatch(rule):
        return rule
    return f"1:1000001:1 {rule or 'GENERIC'}"


def split_signature(column: Any) -> tuple[Any, Any, Any, Any]:
    """gid, sid, rev and text of conforming rules."""
    parts = pc.extract_regex(column, r"^(?P<gid>\d+):(?P<sid>\d+):(?P<rev>\d+) (?P<text>.*)$")
    gid, sid, rev, text = (pc.struct_field(parts, name) for name in ("gid", "sid", "rev", "text"))
    return gid, sid, rev, text


def endpoints(column: Any, port_last: Any = None) -> tuple[Any, Any]:
    """Addresses and ports of `1.2.3.4:80`, `[2001:db8::1]:80`, `1.2.3.4` or a bare IPv6 address; where
    `port_last`, what follows the last colon of an IPv6 text without brackets is its port."""
    parts = pc.extract_regex(column, _ENDPOINT)
    piece = {name: empty_to_null(pc.struct_field(parts, name)) for name in ("a6", "p6", "a4", "p4", "bare")}
    address = pc.coalesce(piece["a6"], piece["a4"], piece["bare"])
    port = pc.coalesce(piece["p6"], piece["p4"])
    if port_last is not None:
        split = pc.extract_regex(piece["bare"], _PORT_LAST)
        nothing = pa.scalar(None, pa.string())
        address = pc.coalesce(pc.if_else(port_last, pc.struct_field(split, "address"), nothing), address)
        port = pc.coalesce(pc.if_else(port_last, pc.struct_field(split, "port"), nothing), port)
    return address, port


def empty_to_null(column: Any) -> Any:
    """A regex group that did not take part is an empty text; here nothing is null."""
    return pc.if_else(pc.not_equal(column, ""), column, pa.scalar(None, pa.string()))


def print_endpoint(address: Any, port: Any) -> Any:
    """With brackets round an IPv6 address that has a port."""
    bracketed = pc.and_(printing.is_v6(address), port.is_valid())
    opening, closing = pc.if_else(bracketed, "[", ""), pc.if_else(bracketed, "]", "")
    return printing.join(opening, address, closing, printing.pair(":", port))
