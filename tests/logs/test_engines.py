"""The compiled scans answer as numpy's do, on any bytes."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pier_node.logs import DIALECTS, Parser, generate
from pier_node.logs.block import Spans, block_of
from pier_node.logs.engine import engine_named
from tests.logs.events import REFERENCE_US

pytest.importorskip("numba", reason="the numba engine is an optional extra")

NUMPY, NUMBA = engine_named("numpy"), engine_named("numba")
_KEYS = (b"IN", b"SRC", b"DST", b"HOPLIMIT", b"eventtime", b"AB")
_TEXT = st.lists(
    st.sampled_from(
        [
            b" IN=",
            b"\nIN=",
            b"SRC=",
            b" SRC=1.2.3.4",
            b' DST="a b"',
            b' AB="',
            b"=",
            b" ",
            b"\n",
            b"\r\n",
            b'"',
            b"x",
        ]
    )
    | st.sampled_from(
        [b"255.1.0.9", b"256.1.1.1", b"01.2.3.4", b"1.2.3", b"1..2.3", b"1.2.3.4.", b"0.0.0.0", b"12a"]
    )
    | st.sampled_from([b" HOPLIMIT=64", b" eventtime=17", b"123456789012345678901"])
    | st.binary(max_size=4),
    max_size=60,
).map(b"".join)


@settings(max_examples=80, deadline=None)
@given(raw=_TEXT, quoted=st.booleans())
def test_pairs_agree(raw: bytes, quoted: bool) -> None:
    block = block_of(raw + b"\n")
    for one, two in zip(NUMPY.pairs(block, _KEYS, quoted), NUMBA.pairs(block, _KEYS, quoted), strict=True):
        assert one.start.tolist() == two.start.tolist()
        assert one.end.tolist() == two.end.tolist()


def _spans(draw: st.DataObject, raw: bytes, count: int) -> tuple[np.ndarray, Spans]:  # type: ignore[type-arg]
    block = block_of(raw + b"\n")
    place = st.integers(16, 16 + len(raw))
    bounds = [sorted((draw.draw(place), draw.draw(place))) for _ in range(count)]
    return block.data, Spans(np.array([a for a, _ in bounds]), np.array([b for _, b in bounds]))


@settings(max_examples=80, deadline=None)
@given(raw=_TEXT, data=st.data(), byte=st.integers(0, 255))
def test_gather_integers_find_and_quads_agree(raw: bytes, data: st.DataObject, byte: int) -> None:
    block_data, spans = _spans(data, raw, 5)
    for name in ("gather", "integers"):
        one, two = (getattr(engine, name)(block_data, spans.start, spans.end) for engine in (NUMPY, NUMBA))
        assert [part.tolist() for part in one] == [part.tolist() for part in two]
    found = [engine.find(block_data, spans.start, spans.end, byte).tolist() for engine in (NUMPY, NUMBA)]
    assert found[0] == found[1]
    words = block_of(raw.replace(b" ", b"\n") + b"\n")
    plain = [engine.plain_ipv4(words.data, words.starts, words.ends).tolist() for engine in (NUMPY, NUMBA)]
    assert plain[0] == plain[1]


@pytest.mark.parametrize("name", DIALECTS)
def test_a_whole_log_parses_alike(name: str) -> None:
    raw = generate(name, seed=11, start_us=REFERENCE_US - 10**12, count=500, v6=0.3)
    raw = raw.replace(b"80", b"8x", 3)
    results = []
    for engine in ("numpy", "numba"):
        parser = Parser(name, reference_us=REFERENCE_US, engine=engine)
        results.append((parser.feed(raw), parser.unparsed()))
    assert results[0][0].equals(results[1][0])
    assert results[0][1] == results[1][1]


def test_a_node_scans_with_numpy_until_the_scans_are_compiled_beside_its_loop() -> None:
    """In a process of its own: what is compiled stays compiled."""
    program = """
import sys
from pier_node.logs import Parser, generate
from pier_node.sources.log_scan import LogOptions, compile_parsers

raw = generate("iptables", seed=3, start_us=0, count=200)
before = LogOptions().parser("iptables", 0).feed(raw)
assert "numba" not in sys.modules, "a loop would have waited for the compiler"
compile_parsers()
assert "pier_node.logs.scan_numba" in sys.modules
from pier_node.logs import engine, scan_numba
assert engine._compiled.pairs is scan_numba.pairs
assert LogOptions().parser("iptables", 0).feed(raw) == before and before.num_rows == 200
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
