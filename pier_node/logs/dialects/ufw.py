"""UFW: netfilter lines whose prefix is `[UFW BLOCK]`, `[UFW ALLOW]`, `[UFW AUDIT]`, `[UFW LIMIT BLOCK]`."""

from __future__ import annotations

from typing import Any

from pier_node.logs import printing
from pier_node.logs.dialects import netfilter
from pier_node.logs.dialects.base import Carries, Dialect, LineScanner
from pier_node.logs.events import verdict_of

_WORDS = {"drop": "UFW BLOCK", "allow": "UFW ALLOW", "log": "UFW AUDIT"}


def _rule(prefix: str) -> str | None:
    return (netfilter.clean_prefix(prefix) or "").strip("[]") or None


def _adapt(columns: dict[str, Any]) -> dict[str, Any]:
    def speak(rule: str | None, action: str | None) -> str | None:
        ours = rule is not None and rule.startswith("UFW ") and verdict_of(rule) == action
        return rule if ours else _WORDS[str(action)]

    columns = netfilter.adapt(columns)
    return columns | {"rule": printing.by_pairs(columns["rule"], columns["action"], speak)}


DIALECT = Dialect(
    name="ufw",
    title="UFW",
    sign=r"\[UFW [A-Z ]+\].*SRC=\S+ DST=\S+ ",
    weight=1.0,
    carries=Carries(
        netfilter.CARRIES.columns, netfilter.CARRIES.ts_unit_us, tuple(_WORDS), netfilter.CARRIES.directions
    ),
    scanner=lambda engine: LineScanner(engine, netfilter.fill_syslog("ufw", _rule, verdict_of)),
    printer=netfilter.print_syslog(lambda batch: printing.join("[", batch["rule"], "] ")),
    adapt=_adapt,
)
