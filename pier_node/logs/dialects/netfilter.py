"""Kernel packet lines (`IN=eth0 OUT= SRC=... PROTO=TCP SPT=... `), the body that iptables, UFW, nftables,
firewalld, Proxmox and UniFi logs share; they differ in what stands before it.

Keys come in the kernel's order (nf_log_ipv4.c, nf_log_ipv6.c); of repeated keys the first counts, so the
UDP length and the packet quoted inside an ICMP error do not disturb the outer packet's columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pier_node.logs import decode, printing, syslog
from pier_node.logs.block import Block, Mask, Positions, Spans
from pier_node.logs.dialects.base import Carries
from pier_node.logs.engine import Engine
from pier_node.logs.events import ACTIONS, verdict_of
from pier_node.logs.rows import RowBuilder, Rows, first_of
from pier_node.logs.scan_numpy import EQUALS, words_at

_KEYS = (b"IN", b"OUT", b"SRC", b"DST", b"LEN", b"TTL", b"HOPLIMIT", b"PROTO", b"SPT", b"DPT")
_KERNEL = int.from_bytes(b"kernel: ", "little")
_TAG = re.compile(r"^(?:kernel|[\w./-]+\[\d+\]): ?")

CARRIES = Carries(
    columns=frozenset(
        {"host", "action", "direction", "iface", "proto", "src", "spt", "dst", "dpt", "length", "ttl", "rule"}
    ),
    ts_unit_us=1_000_000,
    actions=("log", "allow", "drop", "reject"),
    directions=(None, "in", "out", "forward"),
)

Label = Callable[[str], str | None]


def _glued_in(block: Block, spans_in: Spans, spans_out: Spans) -> Spans:
    """A log prefix without a trailing space glues itself to the first key: `DROP:IN=eth0 OUT=`."""
    glued = np.flatnonzero((spans_in.start == 0) & (spans_out.start > 0))
    if not len(glued):
        return spans_in
    equals = np.flatnonzero(block.data == EQUALS)
    key_end = spans_out.start[glued] - len(b" OUT=")
    at = equals[np.maximum(np.searchsorted(equals, key_end) - 1, 0)]
    is_in = (block.data[at - 1] == ord("N")) & (block.data[at - 2] == ord("I"))
    is_in &= (at > block.starts[glued]) & (at < key_end + 1)
    glued, at, key_end = glued[is_in], at[is_in], key_end[is_in]
    start, end = spans_in.start.copy(), spans_in.end.copy()
    start[glued], end[glued] = at + 1, key_end
    return Spans(start, end)


def body(builder: RowBuilder) -> tuple[Mask, Positions]:
    """Fill every column the packet part holds. Returns which lines have such a part, and where it begins."""
    spans = dict(zip(_KEYS, builder.engine.pairs(builder.block, _KEYS, False), strict=True))
    came, went = _glued_in(builder.block, spans[b"IN"], spans[b"OUT"]), spans[b"OUT"]
    marked = spans[b"SRC"].start > 0
    builder.require(((came.start > 0) | (went.start > 0)) & marked & spans[b"DST"].present)
    builder.text("iface", first_of((came, went)))
    sides = came.present + 2 * went.present.astype(np.int64)
    builder.columns["direction"] = _DIRECTIONS.take(pa.array(sides))
    builder.protocol(spans[b"PROTO"])
    builder.address("src", spans[b"SRC"])
    builder.address("dst", spans[b"DST"])
    builder.number("length", spans[b"LEN"])
    builder.number("ttl", first_of((spans[b"TTL"], spans[b"HOPLIMIT"])))
    # Ports directly follow the protocol; ports further on belong to a packet quoted in an ICMP error.
    spt, dpt, proto = spans[b"SPT"], spans[b"DPT"], spans[b"PROTO"]
    own = (spt.start == proto.end + len(" SPT=")) & (dpt.start == spt.end + len(" DPT="))
    builder.number("spt", Spans(spt.start, np.where(own, spt.end, spt.start)))
    builder.number("dpt", Spans(dpt.start, np.where(own, dpt.end, dpt.start)))
    first_key = np.where(came.start > 0, came.start - len("IN="), went.start - len("OUT="))
    return marked, np.where(marked & (first_key > 0), first_key, builder.block.starts)


_DIRECTIONS = pa.array([None, "in", "out", "forward"], pa.string())


def after_kernel_tag(engine: Engine, block: Block, at: Positions) -> Positions:
    """Past `kernel: ` and the uptime `[50028442.088484] ` that may follow it."""
    data = block.data
    words = words_at(block.data)
    at = np.where(words[np.minimum(at, len(words) - 1)] == _KERNEL, at + 8, at)
    inner = data[at + 1]
    uptime = (data[at] == ord("[")) & (((inner >= 48) & (inner <= 57)) | (inner == 32))
    if uptime.any():
        closing = engine.find(data, at, block.ends, ord("]"))
        # Uptimes have six decimals; anything else in brackets is the rule's name.
        uptime &= (data[closing] == ord("]")) & (data[closing - 7] == ord("."))
        at = np.where(uptime, np.minimum(closing + 2, block.ends), at)
    return at


def clean_prefix(prefix: str) -> str | None:
    """The log prefix as its author wrote it, without the program's tag, padding and closing colon."""
    return _TAG.sub("", prefix.strip()).strip(" :") or None


def fill_syslog(raw_format: str, rule: Label, verdict: Label) -> Callable[[RowBuilder], Rows]:
    """A scanner body for syslog lines whose log prefix tells rule and verdict."""

    def fill(builder: RowBuilder) -> Rows:
        header = syslog.headers(builder.engine, builder.block, builder.context)
        marked, first_key = body(builder)
        builder.stamp(header.us, header.good)
        builder.text("host", header.host)
        prefix = builder.strings(
            Spans(after_kernel_tag(builder.engine, builder.block, header.message), first_key)
        )
        name_and_verdict(builder, prefix, rule, verdict)
        return builder.rows(raw_format, header.good & ~marked)

    return fill


def name_and_verdict(builder: RowBuilder, prefix: Any, rule: Label, verdict: Label) -> None:
    builder.columns["rule"], action = decode.relabel_twice(prefix, rule, verdict)
    builder.columns["action"] = action.fill_null("log") if action.null_count else action


def speaking_rule(rule: str | None, action: str | None) -> str | None:
    """A rule name whose words tell `action`, so that the prefix alone carries both."""
    action = action if action in ACTIONS else "log"
    name = (rule or "").strip(" :")
    if name and verdict_of(name) == action:
        return name
    if action == "log":
        return None if not name else "LOG"
    word = {"allow": "ACCEPT", "drop": "DROP", "reject": "REJECT"}[str(action)]
    spoken = f"{name}-{word}" if name else word
    return spoken if verdict_of(spoken) == action else word


def adapt(columns: dict[str, Any]) -> dict[str, Any]:
    """An interface without a direction (or the reverse) cannot be said: IN= and OUT= tell both."""
    known = pc.and_(columns["iface"].is_valid(), columns["direction"].is_valid())
    nothing = pa.scalar(None, pa.string())
    rule = printing.by_pairs(columns["rule"], columns["action"], speaking_rule)
    return columns | {
        "iface": pc.if_else(known, columns["iface"], nothing),
        "direction": pc.if_else(known, columns["direction"], nothing),
        "rule": rule,
    }


_UPPER = {"icmpv6": "ICMPv6"}


def print_body(batch: Any) -> Any:
    """From `IN=` to the protocol's own fields."""
    side, iface = batch["direction"], printing.text(batch["iface"])
    inbound = pc.fill_null(pc.is_in(side, pa.array(["in", "forward"])), False)
    outward = pc.fill_null(pc.equal(side, "forward"), False)
    outbound = pc.fill_null(pc.equal(side, "out"), False)
    v6 = printing.is_v6(batch["src"])
    hops = pc.if_else(v6, printing.pair(" HOPLIMIT=", batch["ttl"]), printing.pair(" TTL=", batch["ttl"]))
    middle = pc.if_else(v6, " TC=0", " TOS=0x00 PREC=0x00")
    protocol = decode.relabel(batch["proto"], lambda word: _UPPER.get(word, word.upper()))
    tcp = pc.fill_null(pc.equal(batch["proto"], "tcp"), False)
    return printing.join(
        "IN=",
        pc.if_else(inbound, iface, ""),
        " OUT=",
        pc.if_else(outward, "br0", pc.if_else(outbound, iface, "")),
        pc.if_else(inbound, " MAC=52:54:00:0c:1f:12:00:c8:8b:e2:d6:87:08:00", ""),
        " SRC=",
        printing.exploded(batch["src"]),
        " DST=",
        printing.exploded(batch["dst"]),
        printing.pair(" LEN=", batch["length"]),
        middle,
        hops,
        printing.pair(" ID=", batch["spt"], " DF"),
        printing.pair(" PROTO=", protocol),
        printing.pair(" SPT=", batch["spt"]),
        printing.pair(" DPT=", batch["dpt"]),
        pc.if_else(tcp, " WINDOW=1024 RES=0x00 SYN URGP=0", ""),
    )


def print_syslog(prefix: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A printer of kernel lines in syslog; `prefix` writes the log prefix with what separates it."""

    def lines(batch: Any) -> Any:
        uptime = printing.micros(batch) // printing.SECOND_US % 10_000_000
        return printing.join(
            printing.stamp(batch, "%b %e %H:%M:%S"),
            " ",
            printing.text(batch["host"], "-"),
            " kernel: [",
            pa.array(uptime).cast(pa.string()),
            ".088484] ",
            prefix(batch),
            print_body(batch),
        )

    return lines
