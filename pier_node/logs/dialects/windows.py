"""Windows Firewall's pfirewall.log: words in the order of the `#Fields:` line, `-` for nothing.

Its times are the host's wall clock without a zone: the parser's `tz` places them.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pier_node.logs import printing, stamps
from pier_node.logs.decode import relabel
from pier_node.logs.dialects.base import Carries, Dialect
from pier_node.logs.fields import Fields, Layout, LayoutScanner, NamedFields, layout_of
from pier_node.logs.rows import RowBuilder, Rows
from pier_node.logs.scan_numpy import SPACE

_MARK = b"#Fields:"
_LAYOUT: Layout = layout_of(
    "date time action protocol src-ip dst-ip src-port dst-port size tcpflags tcpsyn tcpack tcpwin icmptype "
    "icmpcode info path"
)
_ACTIONS = {"ALLOW": "allow", "DROP": "drop", "OPEN": "allow", "OPEN-INBOUND": "allow", "CLOSE": "close"}
_WORDS = {"allow": "ALLOW", "drop": "DROP", "close": "CLOSE"}
_DIRECTIONS = {"RECEIVE": "in", "SEND": "out", "FORWARD": "forward"}
_PATHS = {direction: word for word, direction in _DIRECTIONS.items()}
_LOST = pa.array(["INFO-EVENTS-LOST"])


def _read_header(line: bytes) -> Layout | None:
    if not line.startswith(_MARK):
        return None
    return tuple(line[len(_MARK) :].decode("utf-8", "replace").split())


def _fill(builder: RowBuilder, layout: Layout) -> Rows:
    block = builder.block
    fields = NamedFields(Fields(block, block.starts, SPACE, nil=ord("-")), layout, block)
    date, time, action = fields.span("date"), fields.span("time"), fields.span("action")
    comment = block.data[block.starts] == ord("#")
    lost = pc.fill_null(pc.is_in(builder.strings(action), value_set=_LOST), False)
    found = stamps.iso(block.data, date.start, time.end, builder.context)
    builder.stamp(found.us, found.good & (time.start == date.end + 1))
    builder.word("action", action, _ACTIONS.get)
    builder.require(builder.columns["action"].is_valid().to_numpy(zero_copy_only=False))
    builder.word("direction", fields.span("path"), _DIRECTIONS.get)
    builder.protocol(fields.span("protocol"))
    builder.address("src", fields.span("src-ip"))
    builder.address("dst", fields.span("dst-ip"))
    for column, name in (("spt", "src-port"), ("dpt", "dst-port"), ("length", "size")):
        builder.number(column, fields.span(name))
    return builder.rows("windows", comment | lost.to_numpy(zero_copy_only=False))


def _print(batch: Any) -> Any:
    known = {"tcp": "TCP", "udp": "UDP", "icmp": "ICMP"}
    numbers = printing.protocol_numbers(batch)
    named = relabel(batch["proto"], known.get)
    return printing.join(
        printing.stamp(batch, "%Y-%m-%d %H:%M:%S "),
        printing.spoken(batch["action"], _WORDS),
        " ",
        pc.coalesce(named, numbers),
        " ",
        batch["src"],
        " ",
        batch["dst"],
        " ",
        printing.text(batch["spt"], "-"),
        " ",
        printing.text(batch["dpt"], "-"),
        " ",
        printing.text(batch["length"], "-"),
        " - - - - - - - ",
        printing.spoken(batch["direction"], _PATHS, "-"),
    )


DIALECT = Dialect(
    name="windows",
    title="Windows Firewall",
    sign=r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (?:ALLOW|DROP|OPEN|CLOSE|OPEN-INBOUND|INFO-EVENTS-LOST) \S+ \S+ \S+ "
    r"|^#Fields: date time action protocol src-ip",
    weight=1.0,
    carries=Carries(
        frozenset({"action", "direction", "proto", "src", "spt", "dst", "dpt", "length"}),
        1_000_000,
        ("drop", "allow", "close"),
        (None, "in", "out", "forward"),
    ),
    scanner=lambda engine: LayoutScanner(engine, _LAYOUT, _MARK, _read_header, _fill),
    printer=_print,
    head=(
        b"#Version: 1.5\r\n#Software: Microsoft Windows Firewall\r\n#Time Format: Local\r\n#Fields: "
        + " ".join(_LAYOUT).encode()
        + b"\r\n\r\n"
    ),
)
