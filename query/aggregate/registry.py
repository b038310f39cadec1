"""Aggregates by name. Nodes may register their own; a query can only name what is registered.

`make` is what group-bys and the SQL compiler call: it turns a call in a query into an aggregate with its constants,
and the expressions of the columns it is to be fed with.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from query.aggregate.aggregate import Aggregate
from query.aggregate.basic import Avg, BoolAnd, BoolOr, Count, CountAll, Max, Min, Sum
from query.aggregate.bits import BitAnd, BitOr, BitXor
from query.aggregate.filters import Bloom, SpectralBloom
from query.aggregate.moments import StddevPop, StddevSamp, VarPop, VarSamp
from query.aggregate.ordered import ArgMax, ArgMin, First, Last, MaxK, MinK
from query.aggregate.sketches import ApproxCountDistinct, ApproxQuantile, ApproxTopK, Frequent
from query.aggregate.values import CountDistinct, Histogram, WidthHistogram
from query.expr import ExprError, compile_expression
from query.expr.errors import TypeClash
from query.plan import Expression, fields_of

_OURS = (
    *(Count, CountAll, Sum, Avg, Min, Max, BoolAnd, BoolOr),
    *(VarPop, VarSamp, StddevPop, StddevSamp, BitAnd, BitOr, BitXor),
    *(ArgMin, ArgMax, First, Last, MaxK, MinK, CountDistinct, Histogram, WidthHistogram),
    *(ApproxCountDistinct, ApproxQuantile, ApproxTopK, Frequent, Bloom, SpectralBloom),
)
AGGREGATES: dict[str, type[Aggregate]] = {kind.NAME: kind for kind in _OURS}
#: Other names people use for the same thing.
SYNONYMS = {
    "mean": "avg",
    "every": "bool_and",
    "any_true": "bool_or",
    "variance": "var_samp",
    "stddev": "stddev_samp",
    "min_by": "arg_min",
    "argmin": "arg_min",
    "max_by": "arg_max",
    "argmax": "arg_max",
}
#: Names that mean something else with that many arguments.
BY_ARGUMENTS = {
    ("count", 0): "count_all",
    ("max", 2): "max_k",
    ("min", 2): "min_k",
    ("histogram", 4): "width_histogram",
}


def find(name: str, arguments: int) -> type[Aggregate] | None:
    """The aggregate of that name; `count` without an argument counts rows."""
    name = SYNONYMS.get(name.lower(), name.lower())
    return AGGREGATES.get(BY_ARGUMENTS.get((name, arguments), name))


def make(
    kind: type[Aggregate], arguments: tuple[Expression, ...]
) -> tuple[Aggregate, tuple[Expression, ...]]:
    """An aggregate for a call, and those of the arguments that are columns. Raises `TypeClash`."""
    least, most = kind.ARGUMENTS
    if not least <= len(arguments) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise TypeClash(f"{kind.NAME} takes {wanted} arguments, not {len(arguments)}")
    constants = [_constant(kind.NAME, each) for each in arguments[kind.COLUMNS :]]
    return kind(*constants), arguments[: kind.COLUMNS]


def _constant(name: str, expression: Expression) -> Any:
    try:
        value = None if any(fields_of(expression)) else compile_expression(expression, pa.schema([])).constant
    except ExprError as error:
        raise TypeClash(f"{name}: {error}") from None
    if value is None:
        raise TypeClash(f"{name} takes constants after its columns")
    return value.as_py()


def register(kind: type[Aggregate]) -> type[Aggregate]:
    """Makes an aggregate of the node's owner known (never shipped in a query)."""
    assert kind.NAME not in AGGREGATES, f"aggregate registered twice: {kind.NAME}"
    AGGREGATES[kind.NAME] = kind
    return kind
