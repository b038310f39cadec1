"""Suricata EVE JSON: alerts, drops and flows are firewall events; dns, http, tls, stats and the like are not.

An alert that was let through is `alert`, one that was blocked is `drop`.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pier_node.logs import printing, signatures, stamps
from pier_node.logs.block import Block, block_of_strings
from pier_node.logs.decode import Addresses, relabel
from pier_node.logs.dialects.base import Carries, Dialect
from pier_node.logs.engine import Engine
from pier_node.logs.jsonlines import ObjectReader
from pier_node.logs.rows import RowBuilder, Rows, flat
from pier_node.logs.stamps import Context

_INTEGER, _TEXT = pa.int64(), pa.string()
_ALERT = [
    ("action", _TEXT),
    ("gid", _INTEGER),
    ("signature_id", _INTEGER),
    ("rev", _INTEGER),
    ("signature", _TEXT),
]
_BYTES = [("bytes_toserver", _INTEGER), ("bytes_toclient", _INTEGER)]
_SCHEMA = pa.schema(
    [
        ("timestamp", _TEXT),
        ("event_type", _TEXT),
        ("host", _TEXT),
        ("in_iface", _TEXT),
        ("src_ip", _TEXT),
        ("src_port", _INTEGER),
        ("dest_ip", _TEXT),
        ("dest_port", _INTEGER),
        ("proto", _TEXT),
        ("alert", pa.struct(_ALERT)),
        ("drop", pa.struct([("len", _INTEGER), ("ttl", _INTEGER)])),
        ("flow", pa.struct(_BYTES)),
        ("netflow", pa.struct([("bytes", _INTEGER)])),
    ]
)
_ACTIONS = {"alert": "alert", "drop": "drop", "flow": "flow", "netflow": "flow"}


class _Scanner:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._addresses = Addresses()
        self._reader = ObjectReader(_SCHEMA)

    def scan(self, block: Block, context: Context) -> Rows:
        table, good = self._reader.read(block)
        builder = RowBuilder(self._engine, self._addresses, block, context)
        column = {name: flat(table[name]) for name in _SCHEMA.names}
        kind = column["event_type"]
        builder.require(good & np.asarray(kind.is_valid()))
        _fill(builder, column)
        other = pc.and_(kind.is_valid(), pc.invert(pc.is_in(kind, pa.array(list(_ACTIONS)))))
        return builder.rows("eve", np.asarray(other))


def _fill(builder: RowBuilder, column: dict[str, Any]) -> None:
    texts = block_of_strings(column["timestamp"])
    found = stamps.iso(texts.data, texts.starts, texts.ends, builder.context)
    builder.stamp(found.us, found.good)
    builder.columns["host"] = column["host"]
    builder.columns["iface"] = column["in_iface"]
    builder.protocol(column["proto"])
    builder.address("src", column["src_ip"])
    builder.address("dst", column["dest_ip"])
    builder.whole("spt", column["src_port"])
    builder.whole("dpt", column["dest_port"])
    builder.ports_by_protocol()
    alert, drop, flow = (_members(column[name]) for name in ("alert", "drop", "flow"))
    blocked = pc.fill_null(pc.equal(alert["action"], "blocked"), False)
    builder.word("action", column["event_type"], lambda word: _ACTIONS.get(word, "log"))
    builder.columns["action"] = pc.if_else(blocked, "drop", builder.columns["action"])
    sent = pc.add(flow["bytes_toserver"], pc.fill_null(flow["bytes_toclient"], 0))
    builder.whole("length", pc.coalesce(drop["len"], sent, _members(column["netflow"])["bytes"]))
    builder.whole("ttl", drop["ttl"])
    named = [pc.fill_null(alert[name], 0).cast(_TEXT) for name in ("gid", "signature_id", "rev")]
    builder.columns["rule"] = pc.binary_join_element_wise(
        pc.binary_join_element_wise(*named, ":"), alert["signature"], " ", null_handling="emit_null"
    )


def _members(column: Any) -> dict[str, Any]:
    """The fields of a struct column, null where the struct is."""
    kind = column.type
    return {kind.field(i).name: pc.struct_field(column, [i]) for i in range(kind.num_fields)}


def _adapt(columns: dict[str, Any]) -> dict[str, Any]:
    """A flow names no rule; only a drop tells the packet's TTL."""
    action = columns["action"]
    ruled = pc.not_equal(action, "flow")
    rule = printing.by_pairs(columns["rule"], action, lambda rule, _: signatures.conforming_signature(rule))
    return columns | {
        "rule": pc.if_else(ruled, rule, pa.scalar(None, _TEXT)),
        "ttl": pc.if_else(pc.equal(action, "drop"), columns["ttl"], pa.scalar(None, pa.int16())),
    }


def _quoted(column: Any) -> Any:
    return relabel(column, json.dumps)


def _print(batch: Any) -> Any:
    gid, sid, rev, text = signatures.split_signature(batch["rule"])
    verdict = printing.spoken(batch["action"], {"drop": "blocked", "alert": "allowed"})
    alert = pc.binary_join_element_wise(
        ',"alert":{"action":"',
        verdict,
        '","gid":',
        gid,
        ',"signature_id":',
        sid,
        ',"rev":',
        rev,
        ',"signature":',
        _quoted(text),
        "}",
        "",
        null_handling="emit_null",
    )
    dropped = pc.equal(batch["action"], "drop")
    drop = printing.join(
        ',"drop":{"tos":0',
        printing.pair(',"len":', batch["length"]),
        printing.pair(',"ttl":', batch["ttl"]),
        "}",
    )
    flow = printing.text(printing.pair(',"flow":{"bytes_toserver":', batch["length"], ',"bytes_toclient":0}'))
    return printing.join(
        '{"timestamp":"',
        printing.stamp(batch, "%Y-%m-%dT%H:%M:%S", 6),
        '+0000","flow_id":1258832998001901',
        printing.pair(',"host":', _quoted(batch["host"])),
        printing.pair(',"in_iface":', _quoted(batch["iface"])),
        ',"event_type":"',
        batch["action"],
        '","src_ip":"',
        batch["src"],
        '"',
        printing.pair(',"src_port":', batch["spt"]),
        ',"dest_ip":"',
        batch["dst"],
        '"',
        printing.pair(',"dest_port":', batch["dpt"]),
        printing.pair(',"proto":', _quoted(relabel(batch["proto"], str.upper))),
        alert,
        pc.if_else(dropped, drop, flow),
        "}",
    )


DIALECT = Dialect(
    name="eve",
    title="Suricata EVE JSON",
    sign=r'^\{.*"event_type": ?"\w+".*"src_ip": ?"|^\{"timestamp": ?"[^"]+",.*"event_type": ?"',
    weight=1.0,
    carries=Carries(
        frozenset({"host", "action", "iface", "proto", "src", "spt", "dst", "dpt", "length", "ttl", "rule"}),
        1,
        ("alert", "drop", "flow"),
        (None,),
    ),
    scanner=_Scanner,
    printer=_print,
    adapt=_adapt,
)
