"""Cisco ASA, PIX and FTD syslog: `%ASA-4-106023: Deny tcp src outside:1.2.3.4/55 dst inside:... `.

Lines of the ids in `asa_messages` become events; any other id is unparsed, with the id as the reason.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pier_node.logs import printing, syslog
from pier_node.logs.decode import relabel
from pier_node.logs.dialects.asa_messages import GROUPS, MESSAGES, VERDICTS, WAYS
from pier_node.logs.dialects.base import Carries, Dialect, LineScanner
from pier_node.logs.events import PORT_PROTOCOLS
from pier_node.logs.rows import RowBuilder, Rows
from pier_node.logs.signatures import empty_to_null

_LINE = r"%(?P<full>(?:ASA|PIX|FTD)-(?:\w+-)?\d-(?P<id>\d{6})): ?(?P<text>.*)$"
_SWAPPED = (("src", "dst"), ("spt", "dpt"), ("iface", "iface2"))


def _fill(builder: RowBuilder) -> Rows:
    header = syslog.headers(builder.engine, builder.block, builder.context)
    builder.stamp(header.us, header.good)
    builder.text("host", header.host)
    parts = pc.extract_regex(builder.strings(builder.block.lines), _LINE)
    number = pc.struct_field(parts, "id")
    field, known = _texts(number, pc.struct_field(parts, "text"))
    builder.require(known)
    builder.columns["action"] = pc.coalesce(
        relabel(field["verdict"], VERDICTS.get),
        relabel(number, lambda id_: MESSAGES[id_].action if id_ in MESSAGES else None),
    )
    builder.columns["direction"] = pc.coalesce(
        relabel(field["way"], WAYS.get),
        relabel(number, lambda id_: MESSAGES[id_].direction if id_ in MESSAGES else None),
    )
    outbound = pc.fill_null(pc.equal(field["way"], "outbound"), False)
    for one, two in _SWAPPED:
        field[one], field[two] = (
            pc.if_else(outbound, field[two], field[one]),
            pc.if_else(outbound, field[one], field[two]),
        )
    builder.columns["iface"], builder.columns["rule"] = field["iface"], field["rule"]
    builder.protocol(field["proto"])
    builder.address("src", field["src"])
    builder.address("dst", field["dst"])
    for name, group in (("spt", "spt"), ("dpt", "dpt"), ("length", "bytes")):
        builder.number(name, field[group])
    builder.ports_by_protocol()
    coded = np.asarray(number.is_valid())
    return builder.rows("asa", header.good & ~coded, pc.struct_field(parts, "full"))


def _texts(number: Any, text: Any) -> tuple[dict[str, Any], Any]:
    """Every group per line, each id by its own pattern, and which lines matched theirs."""
    count = len(number)
    known = np.zeros(count, np.bool_)
    place = np.zeros(count, np.int64)
    parts: dict[str, list[Any]] = {name: [pa.nulls(1, pa.string())] for name in GROUPS}
    offset = 1  # row 0 is null, for lines of no known id
    for id_ in sorted({MESSAGES[key].pattern: key for key in sorted(MESSAGES, reverse=True)}.values()):
        same = [key for key in MESSAGES if MESSAGES[key].pattern == MESSAGES[id_].pattern]
        lines = np.flatnonzero(pc.fill_null(pc.is_in(number, pa.array(same)), False))
        if not len(lines):
            continue
        found = pc.extract_regex(text.take(pa.array(lines)), MESSAGES[id_].pattern)
        known[lines] = found.is_valid()
        place[lines] = offset + np.arange(len(lines))
        offset += len(lines)
        groups = set(re.compile(MESSAGES[id_].pattern).groupindex)
        for name in GROUPS:
            values = (
                empty_to_null(pc.struct_field(found, name))
                if name in groups
                else pa.nulls(len(lines), pa.string())
            )
            parts[name].append(values)
    index = pa.array(place)
    return {name: pa.concat_arrays(arrays).take(index) for name, arrays in parts.items()}, known


def _adapt(columns: dict[str, Any]) -> dict[str, Any]:
    """Each verdict has its message, and each message says only some columns (see `_print`)."""
    nothing = pa.scalar(None, pa.string())
    proto = pc.fill_null(columns["proto"], "ip")
    ported = pc.is_in(proto, pa.array(["tcp", "udp"]))
    action = columns["action"]
    sessions = pc.or_(pc.equal(action, "close"), pc.equal(action, "translate"))
    action = pc.if_else(pc.and_(sessions, pc.invert(ported)), "drop", action)
    built = pc.and_(pc.equal(action, "allow"), ported)
    ruled = pc.or_(pc.equal(action, "drop"), pc.and_(pc.equal(action, "allow"), pc.invert(ported)))
    rule = relabel(columns["rule"], lambda name: re.sub(r'[\s"]+', "_", name))
    numbered = pc.is_in(proto, pa.array(sorted(PORT_PROTOCOLS)))
    ports = {}
    for name in ("spt", "dpt"):
        filled = pc.fill_null(columns[name], pa.scalar(0, pa.int32()))
        ports[name] = pc.if_else(numbered, filled, pa.scalar(None, pa.int32()))
    bytes_ = pc.fill_null(columns["length"], pa.scalar(0, pa.int64()))
    iface = relabel(columns["iface"], lambda name: re.sub(r"[\s:/]+", "_", name))
    return (
        columns
        | ports
        | {
            "proto": proto,
            "action": action,
            "direction": pc.if_else(built, pc.fill_null(columns["direction"], "in"), nothing),
            "rule": pc.if_else(ruled, pc.fill_null(rule, "outside_in"), nothing),
            "iface": pc.fill_null(iface, "outside"),
            "length": pc.if_else(pc.equal(action, "close"), bytes_, pa.scalar(None, pa.int64())),
        }
    )


def _ends(batch: Any) -> tuple[Any, Any]:
    """Source and destination as `interface:address/port`."""
    src = printing.join(batch["iface"], ":", batch["src"], printing.pair("/", batch["spt"]))
    return src, printing.join("inside:", batch["dst"], printing.pair("/", batch["dpt"]))


def _print_permit(batch: Any) -> Any:
    return printing.join(
        "6-106100: access-list ",
        batch["rule"],
        " permitted ",
        batch["proto"],
        " ",
        batch["iface"],
        "/",
        batch["src"],
        "(",
        printing.text(batch["spt"], "0"),
        ") -> inside/",
        batch["dst"],
        "(",
        printing.text(batch["dpt"], "0"),
        ") hit-cnt 1 first hit [0x0, 0x0]",
    )


def _print_built(batch: Any) -> Any:
    src, dst = _ends(batch)
    outbound = pc.fill_null(pc.equal(batch["direction"], "out"), False)
    return printing.join(
        pc.if_else(pc.equal(batch["proto"], "udp"), "6-302015: Built ", "6-302013: Built "),
        pc.if_else(outbound, "outbound ", "inbound "),
        relabel(batch["proto"], str.upper),
        " connection 4711 for ",
        pc.if_else(outbound, dst, src),
        " (198.51.100.1/1) to ",
        pc.if_else(outbound, src, dst),
        " (198.51.100.2/2)",
    )


def _print_teardown(batch: Any) -> Any:
    src, dst = _ends(batch)
    return printing.join(
        pc.if_else(pc.equal(batch["proto"], "udp"), "6-302016: Teardown ", "6-302014: Teardown "),
        relabel(batch["proto"], str.upper),
        " connection 4711 for ",
        src,
        " to ",
        dst,
        " duration 0:00:30 bytes ",
        batch["length"].cast(pa.string()),
        " TCP FINs",
    )


def _print(batch: Any) -> Any:
    """A drop is 106023, the end of a session 302014 or 302016, a translation 305011, a permitted TCP or UDP
    session 302013 or 302015, anything else that passed 106100."""
    action, proto = batch["action"], batch["proto"]
    src, dst = _ends(batch)
    deny = printing.join(
        "4-106023: Deny ",
        proto,
        " src ",
        src,
        " dst ",
        dst,
        ' by access-group "',
        batch["rule"],
        '" [0x0, 0x0]',
    )
    upper = relabel(proto, str.upper)
    translation = printing.join("6-305011: Built dynamic ", upper, " translation from ", src, " to ", dst)
    which = pc.make_struct(
        pc.equal(action, "drop"),
        pc.equal(action, "close"),
        pc.equal(action, "translate"),
        pc.is_in(proto, pa.array(["tcp", "udp"])),
    )
    text = pc.case_when(
        which, deny, _print_teardown(batch), translation, _print_built(batch), _print_permit(batch)
    )
    host = printing.text(batch["host"], "-")
    return printing.join(printing.stamp(batch, "%b %d %Y %H:%M:%S "), host, " : %ASA-", text)


DIALECT = Dialect(
    name="asa",
    title="Cisco ASA",
    sign=r"%(?:ASA|PIX|FTD)-(?:\w+-)?\d-\d{6}: ?",
    weight=1.0,
    carries=Carries(
        frozenset(
            {"host", "action", "direction", "iface", "proto", "src", "spt", "dst", "dpt", "length", "rule"}
        ),
        1_000_000,
        ("drop", "allow", "close", "translate"),
        (None, "in", "out"),
    ),
    scanner=lambda engine: LineScanner(engine, _fill),
    printer=_print,
    adapt=_adapt,
)
