"""Zeek conn.log as JSON lines; times as epoch numbers or, with Zeek's ISO option, as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pier_node.logs import printing, stamps
from pier_node.logs.block import Block, block_of_strings
from pier_node.logs.decode import Addresses
from pier_node.logs.dialects import zeek
from pier_node.logs.dialects.base import Dialect
from pier_node.logs.engine import Engine
from pier_node.logs.jsonlines import ObjectReader
from pier_node.logs.rows import RowBuilder, Rows, flat
from pier_node.logs.stamps import Context

_FIELDS = [
    ("id.orig_h", pa.string()),
    ("id.orig_p", pa.int64()),
    ("id.resp_h", pa.string()),
    ("id.resp_p", pa.int64()),
    ("proto", pa.string()),
    ("conn_state", pa.string()),
    ("local_orig", pa.bool_()),
    ("local_resp", pa.bool_()),
    ("orig_bytes", pa.int64()),
    ("resp_bytes", pa.int64()),
    ("orig_ip_bytes", pa.int64()),
    ("resp_ip_bytes", pa.int64()),
]
_ISO_MARKS = (b'"ts":"', b'"ts": "')
# Beyond these seconds a double no longer holds microseconds, and no log speaks of such times.
_SECONDS_MAX = 7_258_118_400.0


class _Scanner:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._addresses = Addresses()
        self._by_number = ObjectReader(pa.schema([("ts", pa.float64()), *_FIELDS]))
        self._by_text = ObjectReader(pa.schema([("ts", pa.string()), *_FIELDS]))

    def scan(self, block: Block, context: Context) -> Rows:
        raw = block.data.tobytes()
        textual = any(mark in raw for mark in _ISO_MARKS)
        table, good = (self._by_text if textual else self._by_number).read(block)
        builder = RowBuilder(self._engine, self._addresses, block, context)
        builder.require(good)
        column = {name: flat(table[name]) for name in table.column_names}
        if textual:
            texts = block_of_strings(column["ts"])
            found = stamps.iso(texts.data, texts.starts, texts.ends, context)
            builder.stamp(found.us, found.good)
        else:
            seconds = np.asarray(column["ts"].fill_null(-1.0))
            fine = (seconds >= 0) & (seconds < _SECONDS_MAX)
            builder.stamp(np.round(np.where(fine, seconds, 0) * 1e6).astype(np.int64), fine)
        _fill(builder, column)
        connection = np.asarray(column["conn_state"].is_valid())
        return builder.rows("zeek-json", good & ~connection)


def _fill(builder: RowBuilder, column: dict[str, Any]) -> None:
    builder.protocol(column["proto"])
    builder.address("src", column["id.orig_h"])
    builder.address("dst", column["id.resp_h"])
    builder.whole("spt", column["id.orig_p"])
    builder.whole("dpt", column["id.resp_p"])
    builder.ports_by_protocol()
    wire, payload = (_sum(column[f"orig_{kind}"], column[f"resp_{kind}"]) for kind in ("ip_bytes", "bytes"))
    builder.whole("length", pc.coalesce(wire, payload))
    builder.word("action", pc.fill_null(column["conn_state"], ""), zeek.state_action)
    sides = [pc.fill_null(pc.if_else(column[name], "T", "F"), "-") for name in ("local_orig", "local_resp")]
    builder.word("direction", printing.join(*sides), zeek.DIRECTIONS.get)


def _sum(one: Any, two: Any) -> Any:
    """Wraps round on overflow: the negative sum then makes the line bad."""
    return pc.if_else(
        pc.or_(one.is_valid(), two.is_valid()), pc.add(pc.fill_null(one, 0), pc.fill_null(two, 0)), None
    )


def _print(batch: Any) -> Any:
    sides = {"out": ',"local_orig":true,"local_resp":false', "in": ',"local_orig":false,"local_resp":true'}
    return printing.join(
        '{"ts":',
        printing.epoch_seconds(batch),
        ".",
        printing.padded(printing.micros(batch) % printing.SECOND_US, 6),
        ',"uid":"CH53301MTU21BMj2Bj","id.orig_h":"',
        batch["src"],
        '","id.orig_p":',
        printing.text(batch["spt"], "0"),
        ',"id.resp_h":"',
        batch["dst"],
        '","id.resp_p":',
        printing.text(batch["dpt"], "0"),
        printing.pair(',"proto":"', batch["proto"], '"'),
        ',"conn_state":"',
        printing.spoken(batch["action"], {"reject": "REJ", "flow": "SF"}),
        '"',
        printing.spoken(batch["direction"], sides),
        printing.pair(',"orig_ip_bytes":', batch["length"], ',"resp_ip_bytes":0'),
        "}",
    )


DIALECT = Dialect(
    name="zeek-json",
    title="Zeek conn.log (JSON)",
    sign=r'^\{.*"id\.orig_h": ?".*"conn_state": ?"',
    weight=1.0,
    carries=zeek.CARRIES,
    scanner=_Scanner,
    printer=_print,
)
