"""UniFi gateways: netfilter lines with `[WAN_LOCAL-D-2147483647] DESCR="..."`; the letter is the verdict."""

from __future__ import annotations

import re
from typing import Any

from pier_node.logs import printing
from pier_node.logs.dialects import netfilter
from pier_node.logs.dialects.base import Carries, Dialect, LineScanner

_RULE = re.compile(r"\[([^\]\s]+-([ADR])-\d+)\]")
_LETTERS = {"A": "allow", "D": "drop", "R": "reject"}
_WORDS = {action: letter for letter, action in _LETTERS.items()}


def _rule(prefix: str) -> str | None:
    found = _RULE.search(prefix)
    return found[1] if found else netfilter.clean_prefix(prefix)


def _verdict(prefix: str) -> str | None:
    found = _RULE.search(prefix)
    return _LETTERS[found[2]] if found else "log"


def _adapt(columns: dict[str, Any]) -> dict[str, Any]:
    def speak(rule: str | None, action: str | None) -> str | None:
        known = _RULE.fullmatch(f"[{rule}]")
        if known and _LETTERS[known[2]] == action:
            return rule
        name = re.sub(r"[\]\[\s]+", "_", rule or "WAN_LOCAL")
        return f"{name}-{_WORDS[str(action)]}-2000"

    given = columns["rule"]
    columns = netfilter.adapt(columns)
    return columns | {"rule": printing.by_pairs(given, columns["action"], speak)}


def _print(batch: Any) -> Any:
    return printing.join(
        printing.stamp(batch, "%b %e %H:%M:%S"),
        " ",
        printing.text(batch["host"], "-"),
        " [",
        batch["rule"],
        '] DESCR="Block traffic" ',
        netfilter.print_body(batch),
    )


DIALECT = Dialect(
    name="unifi",
    title="UniFi gateway",
    sign=r"\[[^\]\s]+-[ADR]-\d+\] .*IN=\S* .*SRC=\S+ DST=\S+ ",
    weight=1.0,
    carries=Carries(
        netfilter.CARRIES.columns, 1_000_000, ("drop", "allow", "reject"), netfilter.CARRIES.directions
    ),
    scanner=lambda engine: LineScanner(engine, netfilter.fill_syslog("unifi", _rule, _verdict)),
    printer=_print,
    adapt=_adapt,
)
