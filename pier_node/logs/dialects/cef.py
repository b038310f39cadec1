"""ArcSight CEF as firewalls send it (UniFi among them): `CEF:0|vendor|product|version|id|name|severity|k=v ...`.

Values may hold spaces, so each key is sought by its own pattern. Records without a source address are no
network events.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pier_node.logs import printing, stamps, syslog
from pier_node.logs.block import block_of_strings
from pier_node.logs.decode import relabel
from pier_node.logs.dialects.base import Carries, Dialect, LineScanner
from pier_node.logs.events import verdict_of
from pier_node.logs.rows import RowBuilder, Rows

_LINE = r"(?:CEF: ?|^)\d+\|[^|]*\|[^|]*\|[^|]*\|[^|]*\|(?P<name>(?:[^|\\]|\\.)*)\|[^|]*\|(?P<extension>.*)$"
_WORD = r"\S+"
_PHRASE = r".*?(?:$| \w+=)"
_KEYS = {
    "src": _WORD,
    "spt": _WORD,
    "dst": _WORD,
    "dpt": _WORD,
    "proto": _WORD,
    "act": _WORD,
    "in": _WORD,
    "rt": _WORD,
    "dvchost": _WORD,
    "UNIFIutcTime": _WORD,
    "UNIFIdirection": _WORD,
    "UNIFItotalBytes": _WORD,
    "deviceDirection": _WORD,
    "deviceInboundInterface": _PHRASE,
}
_DIRECTIONS = {"0": "in", "1": "out", "incoming": "in", "outgoing": "out"}
_WORDS = {"allow": "allowed", "drop": "blocked", "reject": "reject", "log": "none"}


def _value(extension: Any, key: str, pattern: str) -> Any:
    found = pc.struct_field(pc.extract_regex(extension, rf"(?:^| ){key}=(?P<value>{pattern})"), "value")
    if pattern == _PHRASE:
        found = pc.replace_substring_regex(found, r" \w+=$", "")
    return found


def _fill(builder: RowBuilder) -> Rows:
    header = syslog.headers(builder.engine, builder.block, builder.context)
    parts = pc.extract_regex(builder.strings(builder.block.lines), _LINE)
    name, extension = pc.struct_field(parts, "name"), pc.struct_field(parts, "extension")
    value = {key: _value(extension, key, pattern) for key, pattern in _KEYS.items()}
    _stamp(builder, header, value["UNIFIutcTime"], value["rt"])
    builder.columns["host"] = pc.coalesce(value["dvchost"], builder.strings(header.host))
    builder.columns["iface"] = value["deviceInboundInterface"]
    builder.columns["rule"] = name
    builder.word("action", pc.fill_null(pc.coalesce(value["act"], name), ""), verdict_of)
    builder.word("direction", pc.coalesce(value["deviceDirection"], value["UNIFIdirection"]), _DIRECTIONS.get)
    builder.protocol(value["proto"])
    builder.address("src", value["src"])
    builder.address("dst", value["dst"], required=False)
    builder.number("spt", value["spt"])
    builder.number("dpt", value["dpt"])
    builder.number("length", pc.coalesce(value["in"], value["UNIFItotalBytes"]))
    builder.ports_by_protocol()
    cef, sourced = np.asarray(parts.is_valid()), np.asarray(value["src"].is_valid())
    return builder.rows("cef", (cef & ~sourced) | (header.good & ~cef))


def _stamp(builder: RowBuilder, header: syslog.Headers, written: Any, received: Any) -> None:
    """The record's own UTC time, else its receipt time in milliseconds, else syslog's."""
    texts, digits = block_of_strings(written), block_of_strings(received)
    exact = stamps.iso(texts.data, texts.starts, texts.ends, builder.context)
    millis, bad = builder.engine.integers(digits.data, digits.starts, digits.ends)
    given = ~bad & (digits.ends - digits.starts == 13)
    us = np.where(exact.good, exact.us, np.where(given, millis * 1000, header.us))
    builder.stamp(us, exact.good | given | header.good)


def _adapt(columns: dict[str, Any]) -> dict[str, Any]:
    rule = pc.fill_null(relabel(columns["rule"], lambda name: name.replace("|", "/")), "Firewall")
    host = relabel(columns["host"], lambda name: name.replace(" ", "_"))
    return columns | {"rule": rule, "host": host}


def _print(batch: Any) -> Any:
    sides = {"in": "0", "out": "1"}
    return printing.join(
        "CEF:0|Example|Firewall|1.0|100|",
        batch["rule"],
        "|5|rt=",
        pa.array(printing.micros(batch) // 1000).cast(pa.string()),
        printing.pair(" dvchost=", batch["host"]),
        " act=",
        printing.spoken(batch["action"], _WORDS),
        printing.pair(" proto=", batch["proto"]),
        " src=",
        batch["src"],
        printing.pair(" spt=", batch["spt"]),
        " dst=",
        batch["dst"],
        printing.pair(" dpt=", batch["dpt"]),
        printing.pair(" in=", batch["length"]),
        printing.pair(" deviceDirection=", relabel(batch["direction"], sides.get)),
        printing.pair(" deviceInboundInterface=", batch["iface"]),
        " msg=done",
    )


DIALECT = Dialect(
    name="cef",
    title="CEF (UniFi and others)",
    sign=r"(?:CEF: ?|^)\d+\|[^|]+\|[^|]+\|[^|]*\|[^|]*\|[^|]*\|[^|]*\|.*=",
    weight=0.9,
    carries=Carries(
        frozenset(
            {"host", "action", "direction", "iface", "proto", "src", "spt", "dst", "dpt", "length", "rule"}
        ),
        1_000,
        ("log", "allow", "drop", "reject"),
        (None, "in", "out"),
    ),
    scanner=lambda engine: LineScanner(engine, _fill),
    printer=_print,
    adapt=_adapt,
)
