"""Functions over IP addresses, which batches carry as text.

A column's distinct texts are parsed together: IPv4 by numpy, the few IPv6 by the standard library. Text that
is no address has no family, belongs to no network, and gives NULL: logs are full of it, and a row is not lost
for it. An IPv4 address written inside IPv6 (::ffff:a.b.c.d) is IPv6, as it was written.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from query.batch.types import BOOL, INT8, INT64, STRING
from query.expr.coerce import want
from query.expr.columns import Mask, numbers, row_wise, whole
from query.expr.errors import BadLiteral, EvalError, shown
from query.expr.nodes import Call, Kernel, Node
from query.expr.registry import function

FAMILY = "address"
Network = IPv4Network | IPv6Network

#: The text of an IPv4 address, without leading zeros, which some systems read as octal.
_V4 = r"\A(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.|\z)){4}\z"
#: Longer text is no address.
_TEXT_CHARS_MAX = 45


class _Parsed(NamedTuple):
    """The distinct texts of a column, parsed."""

    #: Which distinct text each row has; the result of each is taken by these.
    indices: pa.Array
    texts: list[str]
    #: 4, 6, or 0 for text that is no address.
    family: npt.NDArray[np.int8]
    #: IPv4 as a number; 0 elsewhere.
    v4: npt.NDArray[np.uint32]
    v6: dict[int, IPv6Address]


def parse(column: pa.Array) -> _Parsed:
    encoded = column.dictionary_encode()
    words = encoded.dictionary
    is_v4 = pc.match_substring_regex(words, pattern=_V4).to_numpy(zero_copy_only=False)
    v4 = np.zeros(len(words), dtype=np.uint32)
    if is_v4.any():
        octets = pc.split_pattern(words.filter(pa.array(is_v4)), pattern=".").flatten().cast(pa.uint32())
        table = octets.to_numpy(zero_copy_only=False).reshape(-1, 4)
        v4[is_v4] = (table[:, 0] << 24) | (table[:, 1] << 16) | (table[:, 2] << 8) | table[:, 3]
    family = np.where(is_v4, 4, 0).astype(np.int8)
    texts = words.to_pylist()
    v6: dict[int, IPv6Address] = {}
    for place in np.flatnonzero(~is_v4).tolist():
        address = read_v6(texts[place])
        if address is not None:
            v6[place] = address
            family[place] = 6
    return _Parsed(encoded.indices, texts, family, v4, v6)


def read_v6(text: str) -> IPv6Address | None:
    if ":" not in text or len(text) > _TEXT_CHARS_MAX or "%" in text:
        return None
    try:
        return IPv6Address(text)
    except ValueError:
        return None


def read_network(text: str) -> Network:
    """`10.0.0.0/8`; an address alone is a network of one. Bits beyond the prefix are ignored."""
    try:
        return ip_network(text.strip(), strict=False)
    except ValueError:
        raise EvalError(f"{shown(text)} is not a network") from None


def _within(parsed: _Parsed, networks: Sequence[Network]) -> Mask:
    """Which distinct addresses lie in one of the networks."""
    inside = np.zeros(len(parsed.texts), dtype=np.bool_)
    for network in networks:
        if network.version == 4:
            mask = np.uint32(int(network.netmask))
            inside |= (parsed.family == 4) & ((parsed.v4 & mask) == np.uint32(int(network.network_address)))
        else:
            for place, address in parsed.v6.items():
                inside[place] |= address in network
    return inside


def _result(parsed: _Parsed, values: pa.Array) -> pa.Array:
    return values.take(parsed.indices)


def _membership(networks: Sequence[Network]) -> Kernel:
    @whole
    def run(column: pa.Array) -> pa.Array:
        parsed = parse(column)
        return _result(parsed, pa.array(_within(parsed, networks), mask=parsed.family == 0))

    return run


@function(
    "cidr_match",
    FAMILY,
    "(ip, network, ...) -> bool",
    "The address lies in one of the networks, such as 10.0.0.0/8; NULL for text that is no address.",
    args=(2, None),
    aliases=["ip_in"],
)
def _cidr_match(args: Sequence[Node]) -> Node:
    args = [want(a, STRING, "cidr_match") for a in args]
    constants = [a.constant for a in args[1:]]
    if all(c is not None and c.is_valid for c in constants):
        try:
            networks = [read_network(c.as_py()) for c in constants if c is not None]
        except EvalError as error:
            raise BadLiteral(f"cidr_match: {error}") from None
        return Call(BOOL, _membership(networks), args[:1])
    return Call(BOOL, row_wise(_match, BOOL), args)


def _match(text: str, *networks: str) -> bool | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return any(address in read_network(n) for n in networks)


@function("ip_family", FAMILY, "(ip) -> byte", "4 or 6; NULL for text that is no address.", args=(1, 1))
def _ip_family(args: Sequence[Node]) -> Node:
    @whole
    def run(column: pa.Array) -> pa.Array:
        parsed = parse(column)
        return _result(parsed, pa.array(parsed.family, mask=parsed.family == 0))

    return Call(INT8, run, [want(args[0], STRING, "ip_family")])


@function("is_ip", FAMILY, "(s) -> bool", "The text is an IPv4 or IPv6 address.", args=(1, 1))
def _is_ip(args: Sequence[Node]) -> Node:
    @whole
    def run(column: pa.Array) -> pa.Array:
        parsed = parse(column)
        return _result(parsed, pa.array(parsed.family != 0))

    return Call(BOOL, run, [want(args[0], STRING, "is_ip")])


def _networks(*texts: str) -> list[Network]:
    return [ip_network(t) for t in texts]


def _class_function(name: str, doc: str, networks: Sequence[Network]) -> None:
    def bind(args: Sequence[Node]) -> Node:
        return Call(BOOL, _membership(networks), [want(args[0], STRING, name)])

    function(name, FAMILY, "(ip) -> bool", doc, args=(1, 1))(bind)


_class_function(
    "ip_in_private",
    "An address of a private network: RFC 1918 and RFC 4193.",
    _networks("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"),
)
_class_function("ip_is_loopback", "127.0.0.0/8 or ::1.", _networks("127.0.0.0/8", "::1/128"))
_class_function("ip_is_link_local", "169.254.0.0/16 or fe80::/10.", _networks("169.254.0.0/16", "fe80::/10"))
_class_function("ip_is_multicast", "224.0.0.0/4 or ff00::/8.", _networks("224.0.0.0/4", "ff00::/8"))


def _dotted(values: npt.NDArray[np.uint32]) -> pa.Array:
    """IPv4 numbers as text."""
    octets = [pa.array(((values >> shift) & 255).astype(np.uint8)).cast(STRING) for shift in (24, 16, 8, 0)]
    return pc.binary_join_element_wise(*octets, pa.scalar("."))


def _texts(parsed: _Parsed, v4: pa.Array, v6: dict[int, str], suffix: str = "") -> pa.Array:
    """The text of each distinct address: IPv4 from a column, IPv6 from a few strings, NULL for the rest."""
    if suffix:
        v4 = pc.binary_join_element_wise(v4, pa.scalar(suffix), pa.scalar(""))
    if not v6:
        return pc.if_else(pa.array(parsed.family == 4), v4, pa.scalar(None, STRING))
    others = pa.array([v6.get(i) for i in range(len(parsed.texts))], type=STRING)
    return pc.if_else(pa.array(parsed.family == 4), v4, others)


@function(
    "ip_prefix",
    FAMILY,
    "(ip, bits[, bits6]) -> string",
    "The network of the address with that many bits, as 10.1.0.0/16; bits6 (64 unless given) is for IPv6.",
    args=(2, 3),
)
def _ip_prefix(args: Sequence[Node]) -> Node:
    address = want(args[0], STRING, "ip_prefix")
    bits, bits6 = (_bits(a) for a in (args[1], args[2] if len(args) == 3 else None))
    if bits is None or not 0 <= bits <= 32 or bits6 is None or not 0 <= bits6 <= 128:
        raise BadLiteral("ip_prefix takes 0 to 32 bits for IPv4 and 0 to 128 for IPv6, both constant")
    mask = np.uint32(0xFFFFFFFF ^ ((1 << (32 - bits)) - 1))
    mask6 = ((1 << 128) - 1) ^ ((1 << (128 - bits6)) - 1)

    @whole
    def run(column: pa.Array) -> pa.Array:
        parsed = parse(column)
        v6 = {i: f"{IPv6Address(int(a) & mask6)}/{bits6}" for i, a in parsed.v6.items()}
        return _result(parsed, _texts(parsed, _dotted(parsed.v4 & mask), v6, f"/{bits}"))

    return Call(STRING, run, [address])


def _bits(node: Node | None) -> int | None:
    if node is None:
        return 64
    constant = want(node, INT64, "ip_prefix").constant
    return None if constant is None else constant.as_py()


@function(
    "ip_canonical", FAMILY, "(ip) -> string", "The address in its canonical text, RFC 5952.", args=(1, 1)
)
def _ip_canonical(args: Sequence[Node]) -> Node:
    @whole
    def run(column: pa.Array) -> pa.Array:
        parsed = parse(column)
        return _result(parsed, _texts(parsed, _dotted(parsed.v4), {i: str(a) for i, a in parsed.v6.items()}))

    return Call(STRING, run, [want(args[0], STRING, "ip_canonical")])


@function(
    "ip_to_int",
    FAMILY,
    "(ip) -> long",
    "An IPv4 address as a number; NULL for others, which need 128 bits.",
    args=(1, 1),
)
def _ip_to_int(args: Sequence[Node]) -> Node:
    @whole
    def run(column: pa.Array) -> pa.Array:
        parsed = parse(column)
        return _result(parsed, pa.array(parsed.v4.astype(np.int64), mask=parsed.family != 4))

    return Call(INT64, run, [want(args[0], STRING, "ip_to_int")])


@function("int_to_ip", FAMILY, "(n) -> string", "The IPv4 address of a number.", args=(1, 1))
def _int_to_ip(args: Sequence[Node]) -> Node:
    @whole
    def run(column: pa.Array) -> pa.Array:
        values = numbers(column)
        null = column.is_null().to_numpy(zero_copy_only=False)
        if np.any(((values < 0) | (values > 0xFFFFFFFF)) & ~null):
            raise EvalError("number out of range for an IPv4 address")
        text = _dotted(np.where(null, 0, values).astype(np.uint32))
        return pc.if_else(pa.array(null), pa.scalar(None, STRING), text)

    return Call(STRING, run, [want(args[0], INT64, "int_to_ip")])
