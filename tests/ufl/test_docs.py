"""docs/ufl.md says what is so: its queries parse, its errors print as shown, its limits are the limits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import query.plan
import query.plan_predicates
import query.plan_settings
import ufl
import ufl.limits

DOCS = (Path(__file__).parents[2] / "docs" / "ufl.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\S*)\n(.*?)\n```", DOCS, re.DOTALL)


def test_queries_parse() -> None:
    queries = [text for kind, text in BLOCKS if kind == "ufl"]
    assert queries
    for text in queries:
        ufl.parse(text)


def test_parts_parse_within_an_operator() -> None:
    parts = [text for kind, text in BLOCKS if kind == "ufl-part"]
    plans = [ufl.parse(f"%opgraph(g) {{ %operator(o) {{ type = null\n{text}\n}} }}") for text in parts]
    assert len(plans) == 3
    assert plans[0] == plans[1], "members by name and by nesting"


def test_errors_print_as_shown() -> None:
    kinds = [kind for kind, _ in BLOCKS]
    assert kinds.count("ufl-error") >= 5
    for number, (kind, text) in enumerate(BLOCKS):
        if kind == "ufl-error":
            with pytest.raises(ufl.UflError) as caught:
                ufl.parse(text)
            assert BLOCKS[number + 1] == ("text", str(caught.value))


def test_limits_are_the_limits() -> None:
    known: dict[str, int] = {}
    for module in (query.plan, query.plan_predicates, query.plan_settings, ufl.limits):
        known.update({name: value for name, value in vars(module).items() if name.endswith("_MAX")})
    table = DOCS.split("## Limits")[1].split("## ")[0]
    rows = re.findall(r"^\| (`[^|]*) \| ([^|]*) \|", table, re.MULTILINE)
    assert len(rows) >= 12
    for names, values in rows:
        for name, value in zip(names.split(", "), values.split(", "), strict=True):
            assert known[name.strip("`")] == int(value.replace(",", ""))
