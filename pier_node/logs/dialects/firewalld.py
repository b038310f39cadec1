"""firewalld with LogDenied: kernel lines whose prefix is the chain, `filter_IN_public_REJECT: `."""

from __future__ import annotations

import re
from typing import Any

from pier_node.logs import printing
from pier_node.logs.dialects import netfilter
from pier_node.logs.dialects.base import Dialect, LineScanner
from pier_node.logs.events import verdict_of

_NAME = (
    r"(?:FINAL_REJECT|STATE_INVALID_DROP|(?:filter|raw|mangle|nat)_[A-Za-z0-9_-]+_(?:DROP|REJECT|ACCEPT|LOG))"
)
_IS_NAME = re.compile(_NAME)
_WORDS = {"drop": "DROP", "reject": "REJECT", "allow": "ACCEPT", "log": "LOG"}


def _adapt(columns: dict[str, Any]) -> dict[str, Any]:
    def speak(rule: str | None, action: str | None) -> str | None:
        ours = rule is not None and _IS_NAME.fullmatch(rule) and verdict_of(rule) == action
        return rule if ours else f"filter_IN_public_{_WORDS[str(action)]}"

    columns = netfilter.adapt(columns)
    return columns | {"rule": printing.by_pairs(columns["rule"], columns["action"], speak)}


DIALECT = Dialect(
    name="firewalld",
    title="firewalld",
    sign=rf"[ \"]{_NAME}: ?IN=.*SRC=\S+ DST=\S+ ",
    weight=1.0,
    carries=netfilter.CARRIES,
    scanner=lambda engine: LineScanner(
        engine, netfilter.fill_syslog("firewalld", netfilter.clean_prefix, verdict_of)
    ),
    printer=netfilter.print_syslog(lambda batch: printing.join(batch["rule"], ": ")),
    adapt=_adapt,
)
