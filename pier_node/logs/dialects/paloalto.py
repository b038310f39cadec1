"""Palo Alto PAN-OS syslog CSV: TRAFFIC and THREAT records, whose first 31 fields agree.

Quoted fields may hold commas. The record's own time has no zone; a syslog time with one is preferred.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pier_node.logs import printing, stamps, syslog
from pier_node.logs.block import Spans
from pier_node.logs.decode import relabel
from pier_node.logs.dialects.base import Carries, Dialect, LineScanner
from pier_node.logs.events import verdict_of
from pier_node.logs.fields import Fields
from pier_node.logs.rows import RowBuilder, Rows

_COMMA = ord(",")
_PLACES = {"type": 3, "generated": 6, "src": 7, "dst": 8, "rule": 11, "iface": 18, "spt": 24, "dpt": 25}
_PLACES |= {"proto": 29, "action": 30, "length": 31}
_FIELDS_MIN = 31
_WORDS = {"allow": "allow", "drop": "drop", "reject": "reset-both", "alert": "alert"}


def _action(word: str) -> str:
    return "alert" if word == "alert" else verdict_of(word)


def _fill(builder: RowBuilder) -> Rows:
    block = builder.block
    header = syslog.headers(builder.engine, block, builder.context)
    # A record without syslog's header begins with its `1,`.
    fields = Fields(block, np.where(header.good, header.message, block.starts), _COMMA, quoted=True)
    spans = {name: fields.span(number) for name, number in _PLACES.items()}
    written = stamps.iso(block.data, spans["generated"].start, spans["generated"].end, builder.context, "/")
    zoned = header.good & header.zoned
    builder.stamp(np.where(zoned, header.us, written.us), zoned | written.good)
    builder.text("host", header.host)
    kind = builder.strings(spans["type"])
    traffic = np.asarray(pc.fill_null(pc.equal(kind, "TRAFFIC"), False))
    threat = np.asarray(pc.fill_null(pc.equal(kind, "THREAT"), False))
    builder.require((traffic | threat) & (fields.count > _FIELDS_MIN))
    builder.columns["rule"] = pc.replace_substring(builder.strings(spans["rule"]), '""', '"')
    builder.text("iface", spans["iface"])
    builder.word("action", spans["action"], _action)
    builder.protocol(spans["proto"])
    builder.address("src", spans["src"])
    builder.address("dst", spans["dst"])
    builder.number("spt", spans["spt"])
    builder.number("dpt", spans["dpt"])
    builder.ports_by_protocol()
    counted = np.where(traffic, spans["length"].end, spans["length"].start)
    builder.number("length", Spans(spans["length"].start, counted))
    other = pc.fill_null(pc.match_substring_regex(kind, "^[A-Z-]{3,20}$"), False)
    return builder.rows("paloalto", np.asarray(other) & (fields.count > 6) & ~traffic & ~threat)


def _adapt(columns: dict[str, Any]) -> dict[str, Any]:
    """Threat records count no bytes."""
    counted = pc.not_equal(columns["action"], "alert")
    return columns | {"length": pc.if_else(counted, columns["length"], pa.scalar(None, pa.int64()))}


def _print(batch: Any) -> Any:
    written = printing.stamp(batch, "%Y/%m/%d %H:%M:%S")
    threat = pc.equal(batch["action"], "alert")
    traffic = printing.join(batch["length"].cast(pa.string()), ",0,0,1")
    rule = relabel(batch["rule"], lambda name: '"' + name.replace('"', '""') + '"')
    return printing.join(
        printing.stamp(batch, "%Y-%m-%dT%H:%M:%S+00:00 "),
        printing.text(batch["host"], "-"),
        " 1,",
        written,
        ",016401002737,",
        pc.if_else(threat, "THREAT,vulnerability,2561,", "TRAFFIC,end,2561,"),
        written,
        ",",
        batch["src"],
        ",",
        batch["dst"],
        ",0.0.0.0,0.0.0.0,",
        rule,
        ",,,ssl,vsys1,Untrust,DMZ,",
        batch["iface"],
        ",ethernet1/2,to-log,",
        written,
        ",238810,1,",
        printing.text(batch["spt"], "0"),
        ",",
        printing.text(batch["dpt"], "0"),
        ",0,0,0x402400,",
        batch["proto"],
        ",",
        printing.spoken(batch["action"], _WORDS),
        ",",
        pc.if_else(threat, '"a,b",Brute Force(40015),any,high', traffic),
    )


DIALECT = Dialect(
    name="paloalto",
    title="Palo Alto PAN-OS CSV",
    sign=r"(?:^|[ >])\d*,\d{4}/\d\d/\d\d \d\d:\d\d:\d\d,[0-9A-Za-z]+,(?:TRAFFIC|THREAT|SYSTEM|CONFIG),",
    weight=1.0,
    carries=Carries(
        frozenset({"host", "action", "iface", "proto", "src", "spt", "dst", "dpt", "length", "rule"}),
        1_000_000,
        ("alert", "allow", "drop", "reject"),
        (None,),
    ),
    scanner=lambda engine: LineScanner(engine, _fill),
    printer=_print,
    adapt=_adapt,
)
