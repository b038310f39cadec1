r"""Query expansions: `\qt` and `\qi` become the time and the id of a query when it is submitted.

A parsed plan holds them as reserved characters, so it can be printed, stored and submitted many times;
the proxy node expands it once, before it is disseminated, and every node sees the same text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from query.plan import Plan
from query.plan_check import require_well_formed
from ufl.limits import EXPANSION_CHARS_MAX
from ufl.literals import EXPANSION_CHARS


def expand(plan: Plan, query_id: str, query_time_s: int) -> Plan:
    r"""The plan with `\qi` as the query's id and `\qt` as the time of its submission in whole seconds.

    Raises PlanError if the plan is not well formed, or a text becomes too long.
    """
    require_well_formed(plan)
    expanded = expand_texts(plan, {"qi": query_id, "qt": str(query_time_s)})
    require_well_formed(expanded)
    return expanded


def expand_texts(plan: Plan, expansions: Mapping[str, str]) -> Plan:
    """The plan with the given expansions, by name, in every text. Its depth must have been checked."""
    for name, text in expansions.items():
        if name not in EXPANSION_CHARS:
            raise ValueError(f"there is no query expansion {name!r}, only {', '.join(EXPANSION_CHARS)}")
        if len(text) > EXPANSION_CHARS_MAX:
            raise ValueError(
                f"the expansion {name} is longer than {EXPANSION_CHARS_MAX} (EXPANSION_CHARS_MAX)"
            )
        if any(char in text for char in EXPANSION_CHARS.values()):
            raise ValueError(f"the expansion {name} holds an expansion")
    texts = {ord(EXPANSION_CHARS[name]): text for name, text in expansions.items()}
    expanded = _with_texts(plan, texts)
    assert isinstance(expanded, Plan)
    return expanded


def _with_texts(node: Any, texts: Mapping[int, str]) -> Any:
    """The same structure with every text translated; keys hold no expansions and stay."""
    if isinstance(node, str):
        return node if node.isascii() else node.translate(texts)
    if isinstance(node, tuple):
        return tuple([_with_texts(item, texts) for item in node])
    if isinstance(node, dict):
        return {key: _with_texts(item, texts) for key, item in node.items()}
    if isinstance(node, msgspec.Struct):
        return type(node)(*[_with_texts(getattr(node, name), texts) for name in node.__struct_fields__])
    return node
