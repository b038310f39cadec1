"""iptables/netfilter LOG lines in syslog, with any log prefix: the prefix is the rule, its words the verdict."""

from __future__ import annotations

from typing import Any

from pier_node.logs import printing
from pier_node.logs.dialects import netfilter
from pier_node.logs.dialects.base import Dialect, LineScanner
from pier_node.logs.events import verdict_of


def _prefix(batch: Any) -> Any:
    return printing.pair("", batch["rule"], ": ")


DIALECT = Dialect(
    name="iptables",
    title="iptables/netfilter kernel lines",
    sign=r"(?:IN|OUT)=\S* .*SRC=[0-9a-fA-F.:]+ DST=[0-9a-fA-F.:]+ ",
    weight=0.7,
    carries=netfilter.CARRIES,
    scanner=lambda engine: LineScanner(
        engine, netfilter.fill_syslog("iptables", netfilter.clean_prefix, verdict_of)
    ),
    printer=netfilter.print_syslog(_prefix),
    adapt=netfilter.adapt,
)
