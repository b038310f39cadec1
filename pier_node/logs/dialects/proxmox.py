"""Proxmox pve-firewall: `VMID level chain 20/Jun/2022:13:09:14 +0200 policy DROP: IN=...`.

The chain is the rule and, for a guest, tells the direction (`tap101i0-IN`) better than the bridge's ports.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc

from pier_node.logs import decode, printing, stamps
from pier_node.logs.block import Positions, Spans
from pier_node.logs.dialects import netfilter
from pier_node.logs.dialects.base import Carries, Dialect, LineScanner
from pier_node.logs.events import verdict_of
from pier_node.logs.rows import RowBuilder, Rows
from pier_node.logs.scan_numpy import SPACE

_CHAIN_DIRECTIONS = {"in": "IN", "out": "OUT"}
_WORDS = {"drop": "policy DROP: ", "reject": "REJECT: ", "allow": "ACCEPT: ", "log": ""}


def _chain_direction(chain: str) -> str | None:
    if chain.endswith("-IN"):
        return "in"
    return "out" if chain.endswith("-OUT") else None


def _fill(builder: RowBuilder) -> Rows:
    block, ends = builder.block, builder.block.ends
    marked, first_key = netfilter.body(builder)

    def after(at: Positions) -> Positions:
        return np.minimum(builder.engine.find(block.data, at, ends, SPACE) + 1, ends)

    chain_at = after(after(block.starts))
    stamp_at = after(chain_at)
    found = stamps.apache(block.data, stamp_at, ends)
    builder.stamp(found.us, found.good)
    builder.text("rule", Spans(chain_at, np.maximum(stamp_at - 1, chain_at)))
    by_chain = decode.relabel(builder.columns["rule"], _chain_direction)
    builder.columns["direction"] = pc.coalesce(by_chain, builder.columns["direction"])
    prefix = builder.strings(Spans(np.minimum(found.end, first_key), first_key))
    builder.word("action", pc.fill_null(prefix, ""), verdict_of)
    return builder.rows("proxmox", found.good & ~marked)


def _adapt(columns: dict[str, Any]) -> dict[str, Any]:
    def chain(rule: str | None, direction: str | None) -> str | None:
        name = (rule or "").replace(" ", "_")
        if name and _chain_direction(name) == (direction if direction in _CHAIN_DIRECTIONS else None):
            return name
        return (
            f"PVEFW-HOST-{_CHAIN_DIRECTIONS[direction]}"
            if direction in _CHAIN_DIRECTIONS
            else "PVEFW-FORWARD"
        )

    rule = columns["rule"]
    columns = netfilter.adapt(columns)
    return columns | {"rule": printing.by_pairs(rule, columns["direction"], chain)}


def _print(batch: Any) -> Any:
    return printing.join(
        "0 3 ",
        batch["rule"],
        " ",
        printing.stamp(batch, "%d/%b/%Y:%H:%M:%S +0000 "),
        printing.spoken(batch["action"], _WORDS),
        netfilter.print_body(batch),
    )


DIALECT = Dialect(
    name="proxmox",
    title="Proxmox pve-firewall",
    sign=r"^\d+ \d \S+ \d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4} .*SRC=\S+ DST=\S+ ",
    weight=1.0,
    carries=Carries(
        netfilter.CARRIES.columns - {"host"},
        1_000_000,
        netfilter.CARRIES.actions,
        netfilter.CARRIES.directions,
    ),
    scanner=lambda engine: LineScanner(engine, _fill),
    printer=_print,
    adapt=_adapt,
)
