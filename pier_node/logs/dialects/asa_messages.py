"""The Cisco ASA messages that are firewall events: per id the text's pattern and what it means.

Groups: iface, src, spt, dst, dpt, proto, rule, verdict, way, bytes; `iface2` is the destination's interface.
Built connections are written foreign side first; for an outbound one that is the destination, so sides swap.
"""

from __future__ import annotations

from dataclasses import dataclass

GROUPS = ("iface", "src", "spt", "iface2", "dst", "dpt", "proto", "rule", "verdict", "way", "bytes")

_NOTE = r"(?:\s*\([^)]*\))*"  # mapped addresses and user names, in parentheses
_FROM = r"(?P<iface>[^:\s]+):(?P<src>[^/\s(]+)(?:/(?P<spt>\d+))?" + _NOTE
_TO = r"(?P<iface2>[^:\s]+):(?P<dst>[^/\s(]+)(?:/(?P<dpt>\d+))?"


@dataclass(frozen=True, slots=True)
class Message:
    """`action` when the text has no `verdict` word; `direction` when it has no `way`."""

    pattern: str
    action: str
    direction: str | None = None


_BUILT = Message(
    rf"^Built (?P<way>inbound|outbound) (?P<proto>\S+) connection \d+ for {_FROM} to {_TO}", "allow"
)
_TEARDOWN = Message(
    rf"^Teardown (?P<proto>\S+) connection \d+ for {_FROM} to {_TO}{_NOTE} duration \S+ bytes (?P<bytes>\d+)",
    "close",
)

MESSAGES = {
    "106001": Message(
        r"^Inbound (?P<proto>\S+) connection denied from (?P<src>[^/\s]+)/(?P<spt>\d+) to "
        r"(?P<dst>[^/\s]+)/(?P<dpt>\d+) flags .*on interface (?P<iface>\S+)",
        "drop",
        "in",
    ),
    "106023": Message(
        rf"^Deny (?:protocol )?(?P<proto>\S+) src {_FROM} dst {_TO}.*? by access-group \"?(?P<rule>[^\"\s]+)",
        "drop",
    ),
    "106100": Message(
        r"^access-list (?P<rule>\S+) (?P<verdict>permitted|denied|est-allowed) (?P<proto>\S+) "
        rf"(?P<iface>[^/\s]+)/(?P<src>[^(\s]+)\((?P<spt>\d+)\){_NOTE} -> "
        r"(?P<iface2>[^/\s]+)/(?P<dst>[^(\s]+)\((?P<dpt>\d+)\)",
        "log",
    ),
    "302013": _BUILT,
    "302014": _TEARDOWN,
    "302015": _BUILT,
    "302016": _TEARDOWN,
    "305011": Message(
        rf"^Built (?:dynamic|static) (?P<proto>\S+) translation from {_FROM} to {_TO}", "translate"
    ),
}
VERDICTS = {"permitted": "allow", "est-allowed": "allow", "denied": "drop"}
WAYS = {"inbound": "in", "outbound": "out"}
