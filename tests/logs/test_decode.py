"""Addresses and words: one normal form, held against the standard library."""

from __future__ import annotations

import ipaddress

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pier_node.logs import decode
from pier_node.logs.block import block_of_strings
from pier_node.logs.engine import engine_named
from pier_node.logs.events import normal_protocol, verdict_of

NUMPY = engine_named("numpy")


def normal(texts: list[str]) -> tuple[list[str | None], list[bool]]:
    block = block_of_strings(pa.array(texts, pa.string()))
    column, bad = decode.Addresses().normal(NUMPY, block, block.lines)
    return column.to_pylist(), bad.tolist()


@settings(max_examples=50, deadline=None)
@given(addresses=st.lists(st.ip_addresses(), min_size=1, max_size=8))
def test_any_spelling_has_one_normal_form(
    addresses: list[ipaddress.IPv4Address | ipaddress.IPv6Address],
) -> None:
    spelled = [
        text for address in addresses for text in (address.exploded, address.exploded.upper(), str(address))
    ]
    column, bad = normal(spelled)
    assert not any(bad)
    for text, got in zip(spelled, column, strict=True):
        assert got is not None and got == got.lower()
        assert ipaddress.ip_address(got) == ipaddress.ip_address(text)
    assert len(set(column)) == len(set(addresses))


@settings(max_examples=50, deadline=None)
@given(texts=st.lists(st.text("0123456789.:af%x", min_size=1, max_size=18), min_size=1, max_size=6))
def test_what_the_library_refuses_is_bad(texts: list[str]) -> None:
    column, bad = normal(texts)
    for text, got, is_bad in zip(texts, column, bad, strict=True):
        try:
            ipaddress.ip_address(text.partition("%")[0])
            refused = False
        except ValueError:
            refused = True
        assert is_bad == refused == (got is None)


def test_remembered_addresses_are_bounded() -> None:
    addresses = decode.Addresses()
    for start in range(0, decode.ADDRESSES_REMEMBERED_MAX * 2, 4096):
        block = block_of_strings(pa.array([f"2001:db8::{number:x}" for number in range(start, start + 4096)]))
        addresses.normal(NUMPY, block, block.lines)
    assert len(addresses._known) <= decode.ADDRESSES_REMEMBERED_MAX


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("TCP", "tcp"),
        ("6", "tcp"),
        ("006", "tcp"),
        ("IPv6-ICMP", "icmpv6"),
        ("-", None),
        ("", None),
        ("253", "253"),
    ],
)
def test_protocols(word: str, expected: str | None) -> None:
    assert normal_protocol(word) == expected


def test_verdicts_are_told_by_words() -> None:
    told = {
        "FW-DROP": "drop",
        "UFW LIMIT BLOCK": "drop",
        "policy ACCEPT": "allow",
        "REJECT": "reject",
        "hello": "log",
    }
    assert {text: verdict_of(text) for text in told} == told
