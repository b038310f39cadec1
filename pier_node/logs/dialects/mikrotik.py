"""MikroTik RouterOS: `firewall,info prefix input: in:ether1 out:(unknown 0), ... proto TCP (SYN), a:p->b:p, len 40`.

The chain tells the direction, the log prefix is the rule and its words the verdict.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pier_node.logs import decode, printing, signatures, syslog
from pier_node.logs.block import Spans
from pier_node.logs.dialects import netfilter
from pier_node.logs.dialects.base import Carries, Dialect, LineScanner
from pier_node.logs.events import verdict_of
from pier_node.logs.rows import RowBuilder, Rows

_MESSAGE = (
    r"^(?:\S+: )?(?:\S+,)?firewall,\S+ (?:(?P<prefix>.*?) )?(?P<chain>[^\s:]+): in:(?P<came>\(.*?\)|.*?) "
    r"out:(?P<went>\(.*?\)|.*?), (?:connection-state:\S+ )?(?:connection-mark:\S+ )?(?:src-mac [0-9a-fA-F:]+, )?"
    r"proto (?P<proto>[\w-]+)(?: \([^)]*\))?, (?P<src>\S+?)->(?P<dst>[^\s,]+)(?:,.*?)??(?:, len (?P<length>\d+))?\s*$"
)
_GROUPS = ("prefix", "chain", "came", "went", "proto", "src", "dst", "length")
_DIRECTIONS = {"input": "in", "output": "out", "forward": "forward"}
_CHAINS = {direction: chain for chain, direction in _DIRECTIONS.items()}
_NO_IFACE = "(unknown 0)"


def _iface(name: str) -> str | None:
    return None if not name or name.startswith("(") else name


def _fill(builder: RowBuilder) -> Rows:
    header = syslog.headers(builder.engine, builder.block, builder.context)
    builder.stamp(header.us, header.good)
    builder.text("host", header.host)
    message = builder.strings(Spans(header.message, builder.block.ends))
    parts = pc.extract_regex(message, _MESSAGE)
    field = {name: signatures.empty_to_null(pc.struct_field(parts, name)) for name in _GROUPS}
    builder.require(np.asarray(field["chain"].is_valid()))
    came, went = (decode.relabel(field[name], _iface) for name in ("came", "went"))
    builder.columns["iface"] = pc.coalesce(came, went)
    builder.word("direction", field["chain"], _DIRECTIONS.get)
    builder.protocol(field["proto"])
    for address, port in (("src", "spt"), ("dst", "dpt")):
        where, number = signatures.endpoints(field[address])
        builder.address(address, where)
        builder.number(port, number)
    builder.number("length", field["length"])
    netfilter.name_and_verdict(builder, field["prefix"], netfilter.clean_prefix, verdict_of)
    firewall = pc.fill_null(pc.match_substring(message, "firewall,"), False)
    return builder.rows("mikrotik", header.good & ~firewall.to_numpy(zero_copy_only=False))


def _adapt(columns: dict[str, Any]) -> dict[str, Any]:
    rule = printing.by_pairs(columns["rule"], columns["action"], netfilter.speaking_rule)
    # A forwarded packet came in somewhere: without that interface the outgoing one would be taken for it.
    through = pc.fill_null(pc.equal(columns["direction"], "forward"), False)
    missing = pc.and_(through, pc.invert(columns["iface"].is_valid()))
    iface = pc.if_else(missing, pa.scalar("ether1"), columns["iface"])
    return columns | {"rule": rule, "iface": iface}


def _print(batch: Any) -> Any:
    iface = printing.text(batch["iface"], _NO_IFACE)
    outbound = pc.fill_null(pc.equal(batch["direction"], "out"), False)
    through = pc.fill_null(pc.equal(batch["direction"], "forward"), False)
    return printing.join(
        printing.stamp(batch, "%Y-%m-%dT%H:%M:%S", 6),
        "+00:00 ",
        printing.text(batch["host"], "-"),
        " firewall,info ",
        printing.pair("", batch["rule"], " "),
        printing.spoken(batch["direction"], _CHAINS, "detect"),
        ": in:",
        pc.if_else(outbound, _NO_IFACE, iface),
        " out:",
        pc.if_else(outbound, iface, pc.if_else(through, "bridge", _NO_IFACE)),
        ", connection-state:new src-mac 00:17:10:88:bc:02, proto ",
        printing.text(decode.relabel(batch["proto"], str.upper), "-"),
        ", ",
        signatures.print_endpoint(batch["src"], batch["spt"]),
        "->",
        signatures.print_endpoint(batch["dst"], batch["dpt"]),
        printing.pair(", len ", batch["length"]),
    )


DIALECT = Dialect(
    name="mikrotik",
    title="MikroTik RouterOS",
    sign=r"firewall,\S+ .*in:.* out:.*, .*proto \S.*, \S+->\S+",
    weight=1.0,
    carries=Carries(
        frozenset(
            {"host", "action", "direction", "iface", "proto", "src", "spt", "dst", "dpt", "length", "rule"}
        ),
        1,
        ("log", "allow", "drop", "reject"),
        (None, "in", "out", "forward"),
    ),
    scanner=lambda engine: LineScanner(engine, _fill),
    printer=_print,
    adapt=_adapt,
)
