"""Printer and parser agree on every plan, and nothing but UflError comes out of broken text."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ufl
from query.plan import QUERY_ID, QUERY_TIME, Array, Constant, Operator, Opgraph, Plan, Table
from query.plan_check import plan_problems
from query.plan_problem import PlanError
from query.plan_settings import Tally
from tests.ufl.plans import plans, texts
from ufl.limits import Budget
from ufl.literals import encode

EXAMPLES = sorted((Path(ufl.__file__).parent / "examples").glob("*.ufl"))


@given(plans())
@settings(max_examples=150, deadline=None)
def test_every_plan_survives_printing(plan: Plan) -> None:
    text = ufl.unparse(plan)
    assert ufl.parse(text) == plan
    assert ufl.unparse(ufl.parse(text)) == text


@given(plans())
@settings(max_examples=50, deadline=None)
def test_order_and_wire_form_survive_printing(plan: Plan) -> None:
    wire = msgspec.msgpack.encode(plan)
    assert msgspec.msgpack.encode(ufl.parse(ufl.unparse(plan))) == wire
    assert msgspec.msgpack.decode(wire, type=Plan) == plan


@given(plans())
@settings(max_examples=50, deadline=None)
def test_a_plan_within_bounds_is_a_text_within_bounds(plan: Plan) -> None:
    """The checks must count no fewer nodes than the parser spends, or a valid plan might not read back."""
    with patch.object(Budget, "spend_node") as spent:
        ufl.parse(ufl.unparse(plan))
    counted = Tally()
    with patch("query.plan_check.Tally", return_value=counted):
        assert not list(plan_problems(plan))
    assert spent.call_count <= counted.nodes


@given(texts)
@settings(max_examples=300, deadline=None)
def test_every_text_survives_quoting(text: str) -> None:
    source = f"%opgraph(g) {{ a = {encode(text)} b = {encode(text)}::{encode('odd type')} }}"
    plan = ufl.parse(source)
    assert plan.opgraphs[0].settings == {"a": text, "b": Constant(text, "odd type")}


@given(plans())
@settings(max_examples=50, deadline=None)
def test_printed_text_is_one_printable_line_a_setting(plan: Plan) -> None:
    assert all(char.isprintable() or char == "\n" for char in ufl.unparse(plan))


@given(plans())
@settings(max_examples=50, deadline=None)
def test_expansion_commutes_with_parsing(plan: Plan) -> None:
    expanded = ufl.expand(plan, "a1b2", 1_700_000_000)
    assert QUERY_ID not in repr(expanded) and QUERY_TIME not in repr(expanded)
    assert ufl.parse(ufl.unparse(plan), {"qi": "a1b2", "qt": "1700000000"}) == expanded
    assert ufl.parse(ufl.unparse(expanded)) == expanded


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_parse_and_round_trip(path: Path) -> None:
    plan = ufl.parse(path.read_text(encoding="utf-8"))
    assert ufl.parse(ufl.unparse(plan)) == plan


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 6


_ALPHABET = '%(){}[]=,$":\\#*-_/. \n<>!abuqt019é\ufdd0\ud800'
_edits = st.lists(
    st.tuples(st.integers(0, 10_000), st.integers(0, 12), st.text(st.sampled_from(_ALPHABET), max_size=4)),
    min_size=1,
    max_size=4,
)


@given(st.sampled_from(EXAMPLES), _edits)
@settings(max_examples=400, deadline=None)
def test_broken_text_raises_only_ufl_errors(path: Path, edits: list[tuple[int, int, str]]) -> None:
    text = path.read_text(encoding="utf-8")
    for at, cut, insert in edits:
        at %= len(text) + 1
        text = text[:at] + insert + text[at + cut :]
    try:
        plan = ufl.parse(text)
    except ufl.UflError as error:
        lines = text.split("\n")
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1
        assert error.message and "^" in str(error)
    else:
        assert ufl.parse(ufl.unparse(plan)) == plan


@given(st.text(st.sampled_from(_ALPHABET), max_size=60))
@settings(max_examples=300, deadline=None)
def test_noise_raises_only_ufl_errors(text: str) -> None:
    with pytest.raises(ufl.UflError):
        ufl.parse(text)


@pytest.mark.parametrize(
    "plan",
    [
        Plan(),
        Plan((Opgraph("", {}),)),
        Plan((Opgraph("g", {"a": Array(("x", None))}),)),
        Plan((Opgraph("g", {"a": "\ud800"}),)),
        Plan((Opgraph("g", {"a" + QUERY_ID: "x"}),)),
        Plan((Opgraph("g", {"a": Table({QUERY_TIME: "x"})}),)),
        Plan((Opgraph("g", {}, (Operator("o", "SCAN"),)),)),
        Plan((Opgraph("g", {}, (Operator("o", "scan", settings={"type": "x"}),)),)),
        Plan((Opgraph("g", {"a": Constant("1", "")}),)),
    ],
    ids=lambda plan: repr(plan)[:40].encode("ascii", "backslashreplace").decode(),
)
def test_plans_without_text_are_refused(plan: Plan) -> None:
    with pytest.raises(PlanError):
        ufl.unparse(plan)
