"""Zeek conn.log as tab-separated text, fields in the order of its `#fields` line.

Zeek watches and decides nothing: a connection is a `flow`, or a `reject` when the other side refused it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pier_node.logs import printing, stamps
from pier_node.logs.block import Spans
from pier_node.logs.dialects.base import Carries, Dialect
from pier_node.logs.fields import Fields, Layout, LayoutScanner, NamedFields, layout_of
from pier_node.logs.rows import RowBuilder, Rows

_MARK = b"#fields\t"
_TAB = 9
_LAYOUT: Layout = layout_of(
    "ts uid id.orig_h id.orig_p id.resp_h id.resp_p proto service duration orig_bytes resp_bytes conn_state "
    "local_orig local_resp missed_bytes history orig_pkts orig_ip_bytes resp_pkts resp_ip_bytes "
    "tunnel_parents"
)
# By (local_orig, local_resp): which way the connection crossed the border.
DIRECTIONS = {"TF": "out", "FT": "in"}
CARRIES = Carries(
    frozenset({"action", "direction", "proto", "src", "spt", "dst", "dpt", "length"}),
    1,
    ("flow", "reject"),
    (None, "in", "out"),
)


def state_action(state: str) -> str:
    return "reject" if state == "REJ" else "flow"


def _read_header(line: bytes) -> Layout | None:
    return tuple(line.decode("utf-8", "replace").split("\t")[1:]) if line.startswith(_MARK) else None


def _total(builder: RowBuilder, parts: list[Spans]) -> Any:
    """The sum of counters, null where the line has none of them."""
    total = np.zeros(len(builder.block), np.int64)
    any_present = np.zeros(len(builder.block), np.bool_)
    for spans in parts:
        values, bad = builder.engine.integers(builder.block.data, spans.start, spans.end)
        builder.require(~bad)
        total += values
        any_present |= spans.present
    return pa.array(total, mask=~any_present)


def _fill(builder: RowBuilder, layout: Layout) -> Rows:
    block = builder.block
    fields = NamedFields(Fields(block, block.starts, _TAB, nil=ord("-")), layout, block)
    ts = fields.span("ts")
    found = stamps.epoch(block.data, ts.start, ts.end)
    builder.stamp(found.us, found.good)
    builder.protocol(fields.span("proto"))
    builder.address("src", fields.span("id.orig_h"))
    builder.address("dst", fields.span("id.resp_h"))
    builder.number("spt", fields.span("id.orig_p"))
    builder.number("dpt", fields.span("id.resp_p"))
    builder.ports_by_protocol()
    wire = [fields.span("orig_ip_bytes"), fields.span("resp_ip_bytes")]
    payload = [fields.span("orig_bytes"), fields.span("resp_bytes")]
    builder.whole("length", pc.coalesce(_total(builder, wire), _total(builder, payload)))
    builder.word("action", pc.fill_null(builder.strings(fields.span("conn_state")), ""), state_action)
    sides = (pc.fill_null(builder.strings(fields.span(name)), "-") for name in ("local_orig", "local_resp"))
    builder.word("direction", printing.join(*sides), DIRECTIONS.get)
    # Other Zeek logs have addresses too, but their lines are no connections.
    comment = block.data[block.starts] == ord("#")
    other = np.full(len(block), "conn_state" not in fields)
    return builder.rows("zeek", comment | other)


def _print(batch: Any) -> Any:
    t = "\t"
    sides = {"out": "T\tF", "in": "F\tT"}
    return printing.join(
        printing.epoch_seconds(batch),
        ".",
        printing.padded(printing.micros(batch) % printing.SECOND_US, 6),
        "\tCoyZrY2g74UvMMgp4a\t",
        batch["src"],
        t,
        printing.text(batch["spt"], "0"),
        t,
        batch["dst"],
        t,
        printing.text(batch["dpt"], "0"),
        t,
        printing.text(batch["proto"], "-"),
        "\t-\t-\t-\t-\t",
        printing.spoken(batch["action"], {"reject": "REJ", "flow": "SF"}),
        t,
        printing.spoken(batch["direction"], sides, "-\t-"),
        "\t0\tShADadFf\t1\t",
        printing.text(batch["length"], "-"),
        "\t0\t",
        pc.if_else(batch["length"].is_valid(), "0", "-"),
        "\t-",
    )


DIALECT = Dialect(
    name="zeek",
    title="Zeek conn.log (TSV)",
    sign=r"^\d{9,10}\.\d+\t\w+\t[0-9a-fA-F.:]+\t\d+\t[0-9a-fA-F.:]+\t\d+\t(?:tcp|udp|icmp|unknown_transport)\t"
    r"[^\t]*\t[^\t]*\t[^\t]*\t[^\t]*\t(?:S0|S1|S2|S3|SF|REJ|RSTO|RSTR|RSTOS0|RSTRH|SH|SHR|OTH)\t|^#path\tconn$",
    weight=1.0,
    carries=CARRIES,
    scanner=lambda engine: LayoutScanner(engine, _LAYOUT, _MARK, _read_header, _fill),
    printer=_print,
    head=b"#separator \\x09\n#set_separator\t,\n#empty_field\t(empty)\n#unset_field\t-\n#path\tconn\n#fields\t"
    + "\t".join(_LAYOUT).encode()
    + b"\n",
)
