"""pf as pfSense and OPNsense log it: `filterlog: rule,sub,anchor,tracker,iface,reason,action,dir,version,...`.

IPv4, IPv6 and CARP records, in BSD syslog or RFC 5424. After the ninth field the layouts of IPv4 and IPv6
differ (Netgate, "Raw Filter Log Format"), so field numbers are chosen per line by the version field.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pier_node.logs import printing, syslog
from pier_node.logs.block import Spans
from pier_node.logs.decode import relabel
from pier_node.logs.dialects.base import Carries, Dialect, LineScanner
from pier_node.logs.events import PORT_PROTOCOLS, PROTOCOL_NUMBERS
from pier_node.logs.fields import Fields
from pier_node.logs.rows import RowBuilder, Rows, first_of
from pier_node.logs.scan_numpy import SPACE, words_at

_COMMA = ord(",")
_TAG = int.from_bytes(b"filterlo", "little")
# Field numbers: those of IPv4, those of IPv6.
_PLACES = {
    "ttl": (11, 11),
    "number": (15, 13),
    "proto": (16, 12),
    "length": (17, 14),
    "src": (18, 15),
    "dst": (19, 16),
    "spt": (20, 17),
    "dpt": (21, 18),
}
_ACTIONS = {"pass": "allow", "block": "drop", "reject": "reject", "match": "log", "rdr": "translate"}
_WORDS = {action: word for word, action in _ACTIONS.items()}
_OTHER_TRANSLATIONS = {"nat": "translate", "binat": "translate"}
_PORTED = np.array(sorted(PROTOCOL_NUMBERS[name] for name in PORT_PROTOCOLS if name in PROTOCOL_NUMBERS))


def _fill(builder: RowBuilder) -> Rows:
    block, engine = builder.block, builder.engine
    header = syslog.headers(engine, block, builder.context)
    words = words_at(block.data)
    tagged = words[np.minimum(header.message, len(words) - 1)] == _TAG
    after_tag = np.minimum(engine.find(block.data, header.message, block.ends, SPACE) + 1, block.ends)
    at = np.where(tagged, after_tag, header.message)
    fields = Fields(block, at, _COMMA)
    lead = block.data[at]
    marked = tagged | ((lead >= 48) & (lead <= 57) & (fields.count >= 9))
    builder.require(marked & (fields.count >= 17))
    builder.stamp(header.us, header.good)
    builder.text("host", header.host)
    builder.text("rule", first_of((fields.span(3), fields.span(0))))
    builder.text("iface", fields.span(4))
    builder.word("action", fields.span(6), lambda word: (_ACTIONS | _OTHER_TRANSLATIONS).get(word, "log"))
    builder.word("direction", fields.span(7), lambda word: word if word in ("in", "out") else None)
    _packet(builder, fields)
    return builder.rows("filterlog", header.good & ~marked)


def _packet(builder: RowBuilder, fields: Fields) -> None:
    version = fields.span(8)
    six = builder.block.data[version.start] == ord("6")
    builder.require(
        (version.end - version.start == 1) & (six | (builder.block.data[version.start] == ord("4")))
    )
    spans = {name: fields.span(np.where(six, v6, v4)) for name, (v4, v6) in _PLACES.items()}
    builder.protocol(first_of((spans["proto"], spans["number"])))
    builder.address("src", spans["src"])
    builder.address("dst", spans["dst"])
    builder.number("length", spans["length"])
    builder.number("ttl", spans["ttl"])
    number, _ = builder.engine.integers(builder.block.data, spans["number"].start, spans["number"].end)
    ported = np.isin(number, _PORTED)
    for name in ("spt", "dpt"):
        builder.number(name, Spans(spans[name].start, np.where(ported, spans[name].end, spans[name].start)))


def _print(batch: Any) -> Any:
    v6 = printing.is_v6(batch["src"])
    number, name = printing.protocol_numbers(batch), printing.text(batch["proto"])
    ttl, length = printing.text(batch["ttl"]), printing.text(batch["length"])
    four = printing.join("4,0x0,,", ttl, ",892,0,none,", number, ",", name, ",", length)
    six = printing.join("6,0x00,0x0ea87,", ttl, ",", name, ",", number, ",", length)
    tcp = pc.fill_null(pc.equal(batch["proto"], "tcp"), False)
    ports = printing.join(printing.pair(",", batch["spt"]), printing.pair(",", batch["dpt"], ",0"))
    return printing.join(
        printing.stamp(batch, "%b %e %H:%M:%S"),
        " ",
        printing.text(batch["host"], "-"),
        " filterlog[69805]: 53,,,",
        batch["rule"],
        ",",
        batch["iface"],
        ",match,",
        printing.spoken(batch["action"], _WORDS),
        ",",
        batch["direction"],
        ",",
        pc.if_else(v6, six, four),
        ",",
        batch["src"],
        ",",
        batch["dst"],
        ports,
        pc.if_else(tcp, ",S,17536001,,65535,,mss", ""),
    )


def _adapt(columns: dict[str, Any]) -> dict[str, Any]:
    """Rules are tracker numbers or labels, never empty and without commas."""
    rule = relabel(columns["rule"], lambda name: name.replace(",", "_"))
    return columns | {"rule": pc.fill_null(rule, "1000000103").cast(pa.string())}


DIALECT = Dialect(
    name="filterlog",
    title="pf filterlog (pfSense, OPNsense)",
    sign=r"filterlog(?:\[\d+\]:|:| \d+ - (?:-|\[.*\])) \d+,[^,]*,[^,]*,[^,]*,[^,]*,[^,]*,\w+,(?:in|out|),[46],",
    weight=1.0,
    carries=Carries(
        frozenset(
            {
                "host",
                "action",
                "direction",
                "iface",
                "proto",
                "src",
                "spt",
                "dst",
                "dpt",
                "length",
                "ttl",
                "rule",
            }
        ),
        1_000_000,
        ("log", "allow", "drop", "reject", "translate"),
        (None, "in", "out"),
    ),
    scanner=lambda engine: LineScanner(engine, _fill),
    printer=_print,
    adapt=_adapt,
)
