"""nftables `log prefix "..."`: the same kernel lines; by custom the prefix names nft or its chain."""

from __future__ import annotations

from typing import Any

from pier_node.logs import printing
from pier_node.logs.dialects import netfilter
from pier_node.logs.dialects.base import Dialect, LineScanner
from pier_node.logs.events import verdict_of


def _adapt(columns: dict[str, Any]) -> dict[str, Any]:
    def speak(rule: str | None, action: str | None) -> str | None:
        return rule if rule is not None and rule.startswith("nft") else f"nft-{rule or 'LOG'}"

    columns = netfilter.adapt(columns)
    return columns | {"rule": printing.by_pairs(columns["rule"], columns["action"], speak)}


DIALECT = Dialect(
    name="nftables",
    title="nftables",
    sign=r"(?i:kernel: (?:\[[ \d.]+\] )?\[?nft[^=]*IN=).*SRC=\S+ DST=\S+ ",
    weight=0.95,
    carries=netfilter.CARRIES,
    scanner=lambda engine: LineScanner(
        engine, netfilter.fill_syslog("nftables", netfilter.clean_prefix, verdict_of)
    ),
    printer=netfilter.print_syslog(lambda batch: printing.join(batch["rule"], " ")),
    adapt=_adapt,
)
