"""Snort's and Suricata's fast alerts: `time  [**] [1:2200074:2] text [**] [...] {TCP} a:p -> b:p`.

Snort writes no year unless told to; Suricata always does, and puts ICMP type and code where ports would be.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pier_node.logs import decode, printing, signatures, stamps
from pier_node.logs.block import block_of_strings
from pier_node.logs.dialects.base import Carries, Dialect, LineScanner
from pier_node.logs.events import PORT_PROTOCOLS, normal_protocol
from pier_node.logs.rows import RowBuilder, Rows

_LINE = (
    r"^(?P<ts>\d\d/\d\d(?:/\d{2,4})?-\d\d:\d\d:\d\d\.\d+) +(?:\[(?P<verdict>w?Drop)\] +)?\[\*\*\] "
    r"\[(?P<id>\d+:\d+:\d+)\] (?P<text>.*?) ?\[\*\*\] .*\{(?P<proto>[^}]*)\} (?P<src>\S+) -> (?P<dst>\S+)\s*$"
)
# Suricata names protocols it has no short word for as PROTO:047.
_NUMBERED = "proto:"


def _protocol(word: str) -> str | None:
    return normal_protocol(word.lower().removeprefix(_NUMBERED))


def _fill(builder: RowBuilder) -> Rows:
    parts = pc.extract_regex(builder.strings(builder.block.lines), _LINE)
    field = {
        name: pc.struct_field(parts, name) for name in ("ts", "verdict", "id", "text", "proto", "src", "dst")
    }
    texts = block_of_strings(field["ts"])
    found = stamps.slashed(texts.data, texts.starts, texts.ends, builder.context)
    builder.stamp(found.us, found.good)
    builder.columns["proto"] = decode.relabel(field["proto"], _protocol)
    ported = pc.fill_null(pc.is_in(builder.columns["proto"], pa.array(sorted(PORT_PROTOCOLS))), False)
    dated = np.asarray(texts.ends - texts.starts >= len("MM/DD/YYYY-HH:MM:SS.f"))
    for address, port in (("src", "spt"), ("dst", "dpt")):
        where, number = signatures.endpoints(field[address], pc.or_(ported, pa.array(dated)))
        builder.address(address, where)
        builder.number(port, pc.if_else(ported, number, pa.scalar(None, pa.string())))
    builder.columns["rule"] = pc.binary_join_element_wise(field["id"], field["text"], " ")
    builder.word(
        "action", pc.fill_null(field["verdict"], ""), lambda word: "drop" if word == "Drop" else "alert"
    )
    return builder.rows("fast", np.zeros(len(builder.block), np.bool_))


def _print(batch: Any) -> Any:
    gid, sid, rev, text = signatures.split_signature(batch["rule"])
    ported = batch["spt"].is_valid()

    def endpoint(address: str, port: str) -> Any:
        return printing.join(batch[address], ":", pc.if_else(ported, printing.text(batch[port], "0"), "0"))

    return printing.join(
        printing.stamp(batch, "%m/%d/%Y-%H:%M:%S", 6),
        "  ",
        pc.if_else(pc.equal(batch["action"], "drop"), "[Drop] ", ""),
        "[**] [",
        gid,
        ":",
        sid,
        ":",
        rev,
        "] ",
        text,
        " [**] [Classification: Misc activity] [Priority: 3] {",
        printing.text(decode.relabel(batch["proto"], str.upper)),
        "} ",
        endpoint("src", "spt"),
        " -> ",
        endpoint("dst", "dpt"),
    )


DIALECT = Dialect(
    name="fast",
    title="Snort and Suricata fast alerts",
    sign=r"^\d\d/\d\d(?:/\d{2,4})?-\d\d:\d\d:\d\d\.\d+ +(?:\[w?Drop\] +)?\[\*\*\] \[\d+:\d+:\d+\] ",
    weight=1.0,
    carries=Carries(
        frozenset({"action", "proto", "src", "spt", "dst", "dpt", "rule"}), 1, ("alert", "drop"), (None,)
    ),
    scanner=lambda engine: LineScanner(engine, _fill),
    printer=_print,
    adapt=lambda columns: (
        columns
        | {
            "rule": printing.by_pairs(
                columns["rule"], columns["action"], lambda rule, _: signatures.conforming_signature(rule)
            )
        }
    ),
)
