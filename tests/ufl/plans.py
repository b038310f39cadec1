"""Strategies: any well-formed plan, with texts as odd as a plan allows."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from query.plan import (
    QUERY_ID,
    QUERY_TIME,
    Array,
    Constant,
    Expression,
    Field,
    Function,
    Operator,
    Opgraph,
    Plan,
    Predicate,
    Table,
)
from query.plan_check import OPERATOR_KEYS, OPERATOR_TYPES
from query.plan_predicates import OPS

_ODD = '"\\$*%#{}[](),=:\n\r\t\0 \x1b\u2028\ufeff\U0001f600\U000e0001-0123abuqtiéDF'
_chars = st.one_of(
    st.sampled_from(_ODD), st.characters(exclude_categories=["Cs"], exclude_characters=QUERY_ID + QUERY_TIME)
)
names = st.text(_chars, min_size=1, max_size=8)
keys = names.filter(lambda key: key not in OPERATOR_KEYS)
texts = st.text(st.one_of(_chars, st.sampled_from(QUERY_ID + QUERY_TIME)), max_size=12)
constants = st.builds(Constant, texts, names)
fields = st.builds(Field, texts)


def _functions(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(Function, texts, st.lists(inner, max_size=3).map(tuple))


expressions: st.SearchStrategy[Expression] = st.recursive(
    st.one_of(constants, fields), _functions, max_leaves=6
)
values = st.one_of(texts, expressions)
arrays = st.lists(st.one_of(st.none(), values), max_size=5).map(
    lambda items: Array(tuple(items) if not items or items[-1] is not None else (*items, "last"))
)
table_keys = st.one_of(st.sampled_from(["*", "0", "-1", "007", ""]), names)
tables = st.dictionaries(table_keys, values, max_size=4).map(Table)
settings = st.dictionaries(keys, st.one_of(values, arrays, tables), max_size=4)


@st.composite
def predicates(draw: st.DrawFn) -> tuple[Predicate, ...]:
    """Later predicates combine earlier ones, so the trees end; then any order."""
    found: list[Predicate] = []
    for name in draw(st.lists(names, unique=True, max_size=4)):
        if bool(found) and draw(st.booleans()):
            pool = st.sampled_from([predicate.name for predicate in found])
            members = draw(st.lists(pool, min_size=1, max_size=3).map(tuple))
            found.append(Predicate(name, draw(st.sampled_from(["and", "or"])), members=members))
        else:
            op = draw(st.sampled_from(OPS))
            found.append(Predicate(name, "atomic", op, draw(expressions), draw(expressions)))
    return tuple(draw(st.permutations(found)))


@st.composite
def opgraphs(draw: st.DrawFn, name: str) -> Opgraph:
    operator_names = draw(st.lists(names, unique=True, max_size=3))
    operators = [
        Operator(
            operator_name,
            draw(st.sampled_from(OPERATOR_TYPES)),
            draw(texts),
            draw(st.lists(st.sampled_from(operator_names), max_size=2).map(tuple)),
            draw(settings),
            draw(predicates()),
        )
        for operator_name in operator_names
    ]
    return Opgraph(name, draw(settings), tuple(operators))


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    return Plan(
        tuple(draw(opgraphs(name)) for name in draw(st.lists(names, min_size=1, max_size=2, unique=True)))
    )
