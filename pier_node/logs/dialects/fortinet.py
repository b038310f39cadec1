"""Fortinet FortiGate: `date=... time=... eventtime=... type="traffic" srcip=... action="accept" policyid=1`.

Traffic and UTM records, and event records that name a remote address (a VPN login). A session's end (`close`,
`timeout`, a reset) is `close`: the session itself had been allowed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pier_node.logs import printing, stamps
from pier_node.logs.block import Block, Mask, Spans, block_of_strings
from pier_node.logs.dialects.base import Carries, Dialect, LineScanner
from pier_node.logs.events import verdict_of
from pier_node.logs.fields import layout_of
from pier_node.logs.rows import RowBuilder, Rows, first_of
from pier_node.logs.stamps import Micros

_NAMES = layout_of(
    "date time tz eventtime devname type subtype action srcip srcport srcintf dstip dstport proto policyid "
    "policyname sentbyte rcvdbyte remip"
)
_KEYS = tuple(name.encode() for name in _NAMES)
_ACTIONS = {
    "accept": "allow",
    "start": "allow",
    "pass": "allow",
    "passthrough": "allow",
    "deny": "drop",
    "close": "close",
    "timeout": "close",
    "client-rst": "close",
    "server-rst": "close",
    "detected": "alert",
}
_WORDS = {"allow": "accept", "drop": "deny", "close": "close", "alert": "detected", "reject": "reset"}
# eventtime counts seconds, milli-, micro- or nanoseconds since 1970, by firmware: 10, 13, 16 or 19 digits.
_MICRO_DIGITS = 16


def _event_time(builder: RowBuilder, spans: Spans) -> tuple[Micros, Mask]:
    digits = spans.end - spans.start
    values, bad = builder.engine.integers(
        builder.block.data, spans.start, np.minimum(spans.end, spans.start + _MICRO_DIGITS)
    )
    known = ~bad & ((digits == 10) | (digits == 13) | (digits == 16) | (digits == 19))
    return values * 10 ** np.clip(_MICRO_DIGITS - digits, 0, 6), known


def _wall_time(builder: RowBuilder, date: Spans, time: Spans, tz: Spans) -> stamps.Stamps:
    texts = block_of_strings(
        printing.join(builder.strings(date), " ", builder.strings(time), builder.strings(tz))
    )
    return stamps.iso(texts.data, texts.starts, texts.ends, builder.context)


def _with_glued_date(block: Block, date: Spans) -> Spans:
    """`<189>date=2024-10-14 `: the priority is glued to the first key."""
    glued = (date.start == 0) & (block.data[block.starts] == ord("<"))
    if not glued.any():
        return date
    start, end = date.start.copy(), date.end.copy()
    for width in (3, 4, 5):
        at = block.starts + width
        here = glued & (block.data[at - 1] == ord(">"))
        for offset, byte in enumerate(b"date="):
            here &= block.data[at + offset] == byte
        start, end = np.where(here, at + 5, start), np.where(here, np.minimum(at + 15, block.ends), end)
    return Spans(start, end)


def _fill(builder: RowBuilder) -> Rows:
    spans = dict(zip(_NAMES, builder.engine.pairs(builder.block, _KEYS, True), strict=True))
    us, good = _event_time(builder, spans["eventtime"])
    if not good.all():
        wall = _wall_time(builder, _with_glued_date(builder.block, spans["date"]), spans["time"], spans["tz"])
        us, good = np.where(good, us, wall.us), good | wall.good
    builder.stamp(us, good)
    builder.text("host", spans["devname"])
    builder.text("iface", spans["srcintf"])
    builder.text("rule", first_of((spans["policyname"], spans["policyid"])))
    builder.word("action", spans["action"], lambda word: _ACTIONS.get(word, verdict_of(word)))
    builder.columns["action"] = pc.fill_null(builder.columns["action"], "log")
    builder.word("direction", spans["subtype"], lambda word: "forward" if word == "forward" else None)
    builder.protocol(spans["proto"])
    source = first_of((spans["srcip"], spans["remip"]))
    builder.address("src", source)
    builder.address("dst", spans["dstip"], required=False)
    builder.number("spt", spans["srcport"])
    builder.number("dpt", spans["dstport"])
    builder.ports_by_protocol()
    builder.whole("length", _total(builder, spans["sentbyte"], spans["rcvdbyte"]))
    return builder.rows("fortinet", good & spans["type"].present & ~source.present)


def _total(builder: RowBuilder, *counters: Spans) -> Any:
    total = np.zeros(len(builder.block), np.int64)
    for spans in counters:
        values, bad = builder.engine.integers(builder.block.data, spans.start, spans.end)
        builder.require(~bad)
        total += values
    return pa.array(total, mask=~np.logical_or.reduce([spans.present for spans in counters]))


def _print(batch: Any) -> Any:
    return printing.join(
        printing.stamp(batch, "date=%Y-%m-%d time=%H:%M:%S eventtime="),
        pa.array(printing.micros(batch)).cast(pa.string()),
        '000 tz="+0000" logid="0000000013" type="traffic" subtype="',
        printing.spoken(batch["direction"], {}, "local"),
        '" level="notice" vd="root"',
        printing.pair(' devname="', batch["host"], '"'),
        printing.pair(' srcintf="', batch["iface"], '"'),
        " srcip=",
        batch["src"],
        printing.pair(" srcport=", batch["spt"]),
        " dstip=",
        batch["dst"],
        printing.pair(" dstport=", batch["dpt"]),
        " proto=",
        printing.text(printing.protocol_numbers(batch)),
        ' action="',
        printing.spoken(batch["action"], _WORDS),
        '"',
        printing.pair(' policyname="', batch["rule"], '"'),
        printing.pair(" sentbyte=", batch["length"], " rcvdbyte=0"),
    )


DIALECT = Dialect(
    name="fortinet",
    title="Fortinet FortiGate key=value",
    sign=r'date=\d{4}-\d\d-\d\d time=\d\d:\d\d:\d\d .*(?:logid|log_id)="?\d+"? .*type="?\w+',
    weight=1.0,
    carries=Carries(
        frozenset(
            {"host", "action", "direction", "iface", "proto", "src", "spt", "dst", "dpt", "length", "rule"}
        ),
        1,
        ("alert", "allow", "drop", "close", "reject"),
        (None, "forward"),
    ),
    scanner=lambda engine: LineScanner(engine, _fill),
    printer=_print,
)
