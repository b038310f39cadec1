"""docs/ufl.md says of every operator and setting what is so."""

from __future__ import annotations

import query.operators  # noqa: F401 - makes the operators known
import ufl
from query.dataflow.check import operator_problems
from query.dataflow.reference import BEGIN, END, PAGE, TITLES, markdown, renewed
from query.dataflow.registry import all_operators
from query.plan_check import OPERATOR_TYPES

TEXT = PAGE.read_text(encoding="utf-8")
OURS = [kind for kind in all_operators() if kind.TYPE not in ("test", "bench")]


def test_the_page_is_up_to_date() -> None:
    assert renewed(TEXT) == TEXT, "run python -m query.dataflow.reference"


def test_every_operator_and_setting_is_on_it() -> None:
    assert set(TITLES) == set(OPERATOR_TYPES) == {kind.TYPE for kind in OURS}
    printed = markdown()
    for kind in OURS:
        assert f"#### {kind.TYPE} {kind.IMPLEMENTATION}" in printed
        assert kind.__doc__, kind
        for option in kind.OPTIONS:
            assert option.doc, option
            assert f"| `{option.name}` |" in printed


def test_pages_keep_what_surrounds_the_marks() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert renewed(page) == f"before\n{BEGIN}\n\n{markdown()}\n{END}\nafter\n"


def test_the_queries_of_the_page_name_real_settings() -> None:
    queries = [block.split("```")[0] for block in TEXT.split("```ufl\n")[1:]]
    assert len(queries) >= 2
    for text in queries:
        assert list(operator_problems(ufl.parse(text))) == []
