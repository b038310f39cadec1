"""Address functions against Python's ipaddress, which DuckDB has no equal of."""

import random
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from query.expr import BadLiteral, compile_expression
from query.plan import Expression
from tests.query.expr.oracle import call

_ODD = [
    "",
    "x",
    "1.2.3",
    "1.2.3.4.5",
    "256.1.1.1",
    "01.2.3.4",
    "1.2.3.4 ",
    "::1",
    "fe80::1%eth0",
    "1:2",
    "fc00::1",
    "ff02::1",
]
_ODD += [
    "127.0.0.1",
    "10.255.255.255",
    "172.31.0.1",
    "172.32.0.1",
    "192.168.1.1",
    "169.254.1.1",
    "224.0.0.1",
    "0.0.0.0",
]
_ODD += [
    "255.255.255.255",
    "::ffff:10.0.0.1",
    "2001:DB8:0:0::1",
    "1.2.3.4/8",
    "١.2.3.4",
    ":" * 60,
    "1.2.3.4\n",
]

texts = st.one_of(
    st.sampled_from(_ODD),
    st.integers(0, 2**32 - 1).map(lambda n: str(IPv4Address(n))),
    st.integers(0, 2**128 - 1).map(lambda n: str(IPv6Address(n))),
    st.text(max_size=12),
    st.none(),
)


def parsed(text: str | None) -> IPv4Address | IPv6Address | None:
    if text is None or "%" in text:
        return None
    try:
        return ip_address(text)
    except ValueError:
        return None


def run(expression: Expression, values: list[Any], kind: pa.DataType | None = None) -> list[Any]:
    data = pa.record_batch({"x": pa.array(values, kind or pa.string())})
    result, bad = compile_expression(expression, data.schema).evaluate(data)
    result.validate(full=True)
    assert bad is None
    return list(result.to_pylist())


def expected(values: list[str | None], answer: Callable[[Any], Any]) -> list[Any]:
    addresses = [parsed(v) for v in values]
    return [None if a is None else answer(a) for a in addresses]


@given(st.lists(texts, max_size=30))
def test_families_numbers_and_texts(values: list[str | None]) -> None:
    assert run(call("ip_family", "$x"), values) == expected(values, lambda a: a.version)
    assert run(call("ip_to_int", "$x"), values) == expected(
        values, lambda a: int(a) if a.version == 4 else None
    )
    assert run(call("ip_canonical", "$x"), values) == expected(values, str)
    assert run(call("is_ip", "$x"), values) == [None if v is None else parsed(v) is not None for v in values]


@given(
    st.lists(texts, max_size=30),
    st.sampled_from(
        ["10.0.0.0/8", "172.16.0.0/12", "0.0.0.0/0", "1.2.3.4", "fc00::/7", "::/0", "10.1.2.3/9"]
    ),
)
def test_membership(values: list[str | None], network: str) -> None:
    inside = expected(values, lambda a: a in ip_network(network, strict=False))
    assert run(call("cidr_match", "$x", network), values) == inside
    assert run(call("cidr_match", "$x", "203.0.113.0/24", network), values) == expected(
        values, lambda a: a in ip_network(network, strict=False) or a in ip_network("203.0.113.0/24")
    )


@given(st.lists(texts, max_size=20), st.integers(0, 32), st.integers(0, 128))
def test_prefixes(values: list[str | None], bits: int, bits6: int) -> None:
    def prefix(address: Any) -> str:
        return str(ip_network((address, bits if address.version == 4 else bits6), strict=False))

    assert run(call("ip_prefix", "$x", bits, bits6), values) == expected(values, prefix)


_CLASSES: dict[str, list[str]] = {
    "ip_in_private": ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"],
    "ip_is_loopback": ["127.0.0.0/8", "::1/128"],
    "ip_is_link_local": ["169.254.0.0/16", "fe80::/10"],
    "ip_is_multicast": ["224.0.0.0/4", "ff00::/8"],
}


@pytest.mark.parametrize("name", _CLASSES)
def test_classes(name: str) -> None:
    rng = random.Random(1)
    values = [
        *_ODD,
        *(str(IPv4Address(rng.randrange(2**32))) for _ in range(300)),
        None,
        "fe80::1",
        "fd00::5",
    ]
    networks = [ip_network(n) for n in _CLASSES[name]]
    assert run(call(name, "$x"), values) == expected(values, lambda a: any(a in n for n in networks))


@given(st.lists(st.one_of(st.none(), st.integers(0, 2**32 - 1)), max_size=20))
def test_numbers_to_addresses_and_back(values: list[int | None]) -> None:
    there = run(call("int_to_ip", "$x"), values, pa.int64())
    assert there == [None if v is None else str(IPv4Address(v)) for v in values]
    assert run(call("ip_to_int", call("int_to_ip", "$x")), values, pa.int64()) == values


def test_networks_in_a_column_and_bad_ones() -> None:
    data = pa.record_batch(
        {
            "x": ["10.1.1.1", "10.1.1.1", "zzz", "::1", None],
            "n": ["10.0.0.0/8", "11.0.0.0/8", "10.0.0.0/8", "::/0", "::/0"],
        }
    )
    assert compile_expression(call("cidr_match", "$x", "$n"), data.schema)(data).to_pylist() == [
        True,
        False,
        None,
        True,
        None,
    ]
    broken = pa.record_batch({"x": ["10.1.1.1", "10.1.1.1"], "n": ["10.0.0.0/99", "10.0.0.0/8"]})
    values, bad = compile_expression(call("cidr_match", "$x", "$n"), broken.schema).evaluate(broken)
    assert values.to_pylist() == [None, True] and bad is not None and bad.to_pylist() == [True, False]
    with pytest.raises(BadLiteral, match="not a network"):
        compile_expression(call("cidr_match", "$x", "10.0.0.0/99"), data.schema)
    with pytest.raises(BadLiteral, match="bits"):
        compile_expression(call("ip_prefix", "$x", 33), data.schema)
    numbers = pa.record_batch({"x": [-1, 2**32, 5]})
    values, bad = compile_expression(call("int_to_ip", "$x"), numbers.schema).evaluate(numbers)
    assert values.to_pylist() == [None, None, "0.0.0.5"] and bad is not None
