"""The one table every firewall dialect becomes: its Arrow schema and the words allowed in it.

Parsers fill these columns, printers read them, queries see nothing else. Invariant: a word in `action`,
`direction` or `proto` is one of the words below whatever the device called it, so that a question asked
over hosts with different firewalls groups the same thing together.
"""

from __future__ import annotations

import pyarrow as pa

FIREWALL_SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("host", pa.string()),
        ("action", pa.string()),
        ("direction", pa.string()),
        ("iface", pa.string()),
        ("proto", pa.string()),
        ("src", pa.string()),
        ("spt", pa.int32()),
        ("dst", pa.string()),
        ("dpt", pa.int32()),
        ("length", pa.int64()),
        ("ttl", pa.int16()),
        ("rule", pa.string()),
        ("raw_format", pa.string()),
    ]
)

# What became of the packet or session. `log` is a note without a verdict (netfilter's LOG target decides
# nothing), `flow` a passive record of a session, `close` its end, `translate` a NAT binding.
ACTIONS = ("allow", "drop", "reject", "alert", "log", "flow", "close", "translate")
DIRECTIONS = ("in", "out", "forward")

PORT_MAX = 65_535
TTL_MAX = 255
LENGTH_MAX = (1 << 63) - 1

# IANA protocol numbers met in firewall logs; others stay numbers in text.
PROTOCOL_NAMES = {
    0: "hopopt",
    1: "icmp",
    2: "igmp",
    4: "ipip",
    6: "tcp",
    8: "egp",
    17: "udp",
    41: "ipv6",
    43: "ipv6-route",
    44: "ipv6-frag",
    46: "rsvp",
    47: "gre",
    50: "esp",
    51: "ah",
    58: "icmpv6",
    59: "ipv6-nonxt",
    60: "ipv6-opts",
    88: "eigrp",
    89: "ospf",
    103: "pim",
    112: "carp",
    115: "l2tp",
    132: "sctp",
    136: "udplite",
}
PROTOCOL_NUMBERS = {name: number for number, name in PROTOCOL_NAMES.items()}
# Spellings of one protocol; VRRP and CARP share number 112, the BSD word is kept for both.
_PROTOCOL_ALIASES = {"ipv6-icmp": "icmpv6", "icmp6": "icmpv6", "icmpv6": "icmpv6", "vrrp": "carp"}
PORT_PROTOCOLS = frozenset({"tcp", "udp", "sctp", "udplite", "dccp"})

# A protocol is a short word; what is longer is not one and would only be carried about.
PROTOCOL_LENGTH_MAX = 24


def normal_protocol(word: str) -> str | None:
    """`TCP`, `6` and `tcp` are one protocol; `-` and nothing are none."""
    lowered = word.strip().lower()
    if not lowered or lowered == "-" or len(lowered) > PROTOCOL_LENGTH_MAX:
        return None
    if lowered.isascii() and lowered.isdigit():
        return PROTOCOL_NAMES.get(int(lowered), str(int(lowered)))
    return _PROTOCOL_ALIASES.get(lowered, lowered)


def protocol_number(word: str | None) -> str:
    """The number as text, for dialects that print numbers."""
    if word is None:
        return "-"
    return str(PROTOCOL_NUMBERS[word]) if word in PROTOCOL_NUMBERS else word


# Words by which rule names, log prefixes and devices tell a verdict, strongest first: a prefix such as
# "UFW LIMIT BLOCK" or "policy DROP" is matched by substring.
_VERDICT_WORDS = (
    ("reject", "reject"),
    ("reset", "reject"),
    ("drop", "drop"),
    ("block", "drop"),
    ("deny", "drop"),
    ("denied", "drop"),
    ("discard", "drop"),
    ("fail", "drop"),
    ("accept", "allow"),
    ("allow", "allow"),
    ("permit", "allow"),
    ("pass", "allow"),
)


def verdict_of(text: str) -> str:
    """The verdict a free-text prefix speaks of, `log` when it speaks of none."""
    lowered = text.lower()
    for word, verdict in _VERDICT_WORDS:
        if word in lowered:
            return verdict
    return "log"
