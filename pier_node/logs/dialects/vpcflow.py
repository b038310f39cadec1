"""AWS VPC flow logs: version 2 by default, or any fields in the order of the header line S3 files begin with."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

from pier_node.logs import printing, stamps
from pier_node.logs.decode import relabel
from pier_node.logs.dialects.base import Carries, Dialect
from pier_node.logs.fields import Fields, Layout, LayoutScanner, NamedFields, layout_of
from pier_node.logs.rows import RowBuilder, Rows
from pier_node.logs.scan_numpy import SPACE

_MARK = b"srcaddr"
_LAYOUT: Layout = layout_of(
    "version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes start end action "
    "log-status"
)
_ACTIONS = {"ACCEPT": "allow", "REJECT": "reject"}
_WORDS = {action: word for word, action in _ACTIONS.items()}
_DIRECTIONS = {"ingress": "in", "egress": "out"}
_FLOWS = {direction: word for word, direction in _DIRECTIONS.items()}


def _read_header(line: bytes) -> Layout | None:
    names = tuple(line.decode("utf-8", "replace").replace("${", "").replace("}", "").split())
    return names if "srcaddr" in names and "dstaddr" in names else None


def _fill(builder: RowBuilder, layout: Layout) -> Rows:
    block = builder.block
    fields = NamedFields(Fields(block, block.starts, SPACE, nil=ord("-")), layout, block)
    start = fields.span("start")
    found = stamps.epoch(block.data, start.start, start.end)
    builder.stamp(found.us, found.good)
    builder.word("action", fields.span("action"), _ACTIONS.get)
    builder.columns["action"] = pc.fill_null(builder.columns["action"], "flow")
    builder.word("direction", fields.span("flow-direction"), _DIRECTIONS.get)
    builder.text("iface", fields.span("interface-id"))
    builder.protocol(fields.span("protocol"))
    builder.address("src", fields.span("srcaddr"))
    builder.address("dst", fields.span("dstaddr"))
    for column, name in (("spt", "srcport"), ("dpt", "dstport"), ("length", "bytes")):
        builder.number(column, fields.span(name))
    builder.ports_by_protocol()
    # NODATA and SKIPDATA records say that nothing was, or could not be, recorded: no addresses on them.
    status = fields.span("log-status")
    first = block.data[status.start]
    empty = status.present & ((first == ord("N")) | (first == ord("S")))
    return builder.rows("vpcflow", empty)


def _print(batch: Any) -> Any:
    seconds = printing.epoch_seconds(batch)
    return printing.join(
        "2 123456789012 ",
        printing.text(batch["iface"], "-"),
        " ",
        batch["src"],
        " ",
        batch["dst"],
        " ",
        printing.text(batch["spt"], "0"),
        " ",
        printing.text(batch["dpt"], "0"),
        " ",
        printing.protocol_numbers(batch),
        " 1 ",
        printing.text(batch["length"], "-"),
        " ",
        seconds,
        " ",
        seconds,
        " ",
        printing.spoken(batch["action"], _WORDS),
        " OK ",
        printing.spoken(batch["direction"], _FLOWS, "-"),
    )


DIALECT = Dialect(
    name="vpcflow",
    title="AWS VPC flow log",
    sign=r"^\d{1,2} (?:\d{12}|unknown) \S+ \S+ \S+ \S+ \S+ \S+ \S+ \S+ \d{9,10} \d{9,10} (?:ACCEPT|REJECT|-) "
    r"|^(?:\S+ )*srcaddr (?:\S+ )*dstaddr(?: \S+)*$|(?:^| )eni-[0-9a-f]+ (?:.* )?(?:ACCEPT|REJECT)(?: |$)",
    weight=1.0,
    carries=Carries(
        frozenset({"action", "direction", "iface", "proto", "src", "spt", "dst", "dpt", "length"}),
        1_000_000,
        ("allow", "reject"),
        (None, "in", "out"),
    ),
    scanner=lambda engine: LayoutScanner(engine, _LAYOUT, _MARK, _read_header, _fill),
    printer=_print,
    adapt=lambda columns: columns | {"iface": relabel(columns["iface"], lambda name: name.replace(" ", "-"))},
    head=(" ".join(_LAYOUT) + " flow-direction\n").encode(),
)
