"""Groups as operators: partial states where rows lie, final ones where equal keys meet (PIER 4.2).

`count(DISTINCT x)` and the like need equal values to meet before they count: rows are thinned out at each node,
rehashed by the group, and thinned out again there. Beside other aggregates each kind of row carries a mark, so that
one group-by computes them all: an aggregate ignores rows of other kinds, where its column is NULL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from query.plan import Constant, Expression, Field, Function, Setting, Table, Value, fields_of
from ufl.sql.fragments import Fragment
from ufl.sql.kinds import type_texts
from ufl.sql.relations import Aggregate, Call, Column, Distinct

if TYPE_CHECKING:
    from ufl.sql.lowering import Lowering


def aggregate(lowering: Lowering, relation: Aggregate, needed: Sequence[str]) -> Fragment:
    wanted = set(needed)
    calls = {name: call for name, call in relation.calls.items() if name in wanted}
    if not relation.keys and not calls:
        calls = relation.calls or {"": Call("count", ())}
    used = [*relation.keys.values(), *(arg for call in calls.values() for arg in call.args)]
    fragment = lowering.lower(relation.source, list(fields_of(*used)))
    types = types_of([column for column in relation.shape if column.name in calls])
    if any(call.distinct for call in calls.values()):
        fragment = _with_distinct(lowering, fragment, relation.keys, calls, types)
    else:
        fragment = grouped(lowering, fragment, relation.keys, calls, types)
    fragment.columns = [*relation.keys, *calls]
    return fragment


def distinct(lowering: Lowering, relation: Distinct) -> Fragment:
    builder = lowering.builder
    fragment = lowering.lower(relation.source, relation.names)
    builder.add(fragment, "distinct", "dupelim", "Basic")
    if fragment.single:
        return fragment
    if relation.open or fragment.columns is None:
        builder.note("DISTINCT over columns that are not known: at the node that was asked")
        return builder.add(builder.gather(fragment), "distinct", "dupelim", "Basic")
    columns = fragment.columns
    if any(set(way) <= set(columns) for way in fragment.hashed):
        return fragment
    builder.note("DISTINCT: duplicates are left out at each node, then by the owners of what is left")
    fragment = builder.rehash(fragment, [Field(name) for name in columns])
    return builder.add(fragment, "distinct", "dupelim", "Basic")


def types_of(columns: Sequence[Column]) -> dict[str, Setting]:
    """The types of columns as a setting, for when there are no rows to tell them."""
    texts = zip(
        (each.name for each in columns), type_texts([each.name for each in columns], columns), strict=True
    )
    known: dict[str, Value] = {name: text for name, text in texts if text not in ("", "null")}
    return {"types": Table(known)} if known else {}


def grouped(
    lowering: Lowering,
    fragment: Fragment,
    keys: Mapping[str, Expression],
    calls: Mapping[str, Call],
    types: Mapping[str, Setting] | None = None,
) -> Fragment:
    builder, types = lowering.builder, {} if keys or types is None else types
    settings = settings_of(keys, calls)
    fields = {each.name: name for name, each in keys.items() if isinstance(each, Field)}
    ways = [tuple(fields[n] for n in way) for way in fragment.hashed if all(n in fields for n in way)]
    if fragment.single or ways:
        builder.add(fragment, "group", "groupby", "Basic", **settings, **types, mode="complete")
        fragment.hashed = ways
        return fragment
    builder.add(fragment, "partial", "groupby", "Basic", **settings, mode="partial")
    again = settings_of({name: Field(name) for name in keys}, calls)
    if keys:
        by = ", ".join(keys)
        builder.note(
            f"GROUP BY {by}: partial groups at each node, rehashed by {by}, made final by their owners"
        )
        fragment = builder.rehash(fragment, [Field(name) for name in keys])
    else:
        builder.note(
            "aggregates without GROUP BY: partial states are combined on their way to the node that was asked"
        )
        fragment = builder.climb(fragment, **again)
    return builder.add(fragment, "final", "groupby", "Basic", **again, **types, mode="final")


def settings_of(keys: Mapping[str, Expression], calls: Mapping[str, Call]) -> dict[str, Setting]:
    settings: dict[str, Setting] = {}
    if keys:
        settings["keys"] = Table(dict(keys))
    if calls:
        settings["aggregates"] = Table(
            {name: Function(call.function, call.args) for name, call in calls.items()}
        )
    return settings


def _with_distinct(
    lowering: Lowering,
    fragment: Fragment,
    keys: Mapping[str, Expression],
    calls: Mapping[str, Call],
    types: Mapping[str, Setting],
) -> Fragment:
    """Every aggregate over rows that are thinned out where DISTINCT says so."""
    builder = lowering.builder
    kinds = _Kinds(calls)
    fragment = _copied(lowering, fragment, keys, kinds)
    names: dict[str, Expression] = {name: Field(name) for name in keys}
    if not fragment.single:
        builder.note(
            "DISTINCT in an aggregate: values are thinned out at each node and again where they meet"
        )
        if not keys and len(kinds.columns) == 1:
            fragment = builder.rehash(fragment, [Field("value0")])
            builder.add(fragment, "distinct", "dupelim", "Basic")
            return grouped(lowering, fragment, {}, kinds.calls, types)
        fragment = builder.rehash(fragment, list(names.values())) if keys else builder.gather(fragment)
    fragment = _thinned(lowering, fragment, kinds)
    settings = {**settings_of(names, kinds.calls), **({} if keys else types)}
    return builder.add(fragment, "group", "groupby", "Basic", **settings, mode="complete")


class _Kinds:
    """Rows of several kinds: one for each DISTINCT argument, and one for all aggregates without DISTINCT. Each has
    columns of its own, which are NULL in rows of other kinds."""

    def __init__(self, calls: Mapping[str, Call]) -> None:
        values = list(dict.fromkeys(call.args[0] for call in calls.values() if call.distinct))
        self.columns: list[dict[str, Expression]] = [{f"value{n}": each} for n, each in enumerate(values)]
        self.distinct = len(values)
        self.calls: dict[str, Call] = {}
        others: dict[str, Expression] = {}
        for name, call in calls.items():
            if call.distinct:
                column = f"value{values.index(call.args[0])}"
            else:
                first = call.args[0] if call.args else Constant("true", "bool")
                column = next((known for known, each in others.items() if each == first), f"arg{len(others)}")
                others[column] = first
            # Further arguments are constants, as the fraction of a quantile.
            self.calls[name] = Call(call.function, (Field(column), *call.args[1:]))
        if others:
            self.columns.append(others)

    @property
    def has_others(self) -> bool:
        return len(self.columns) > self.distinct

    def outputs(self, number: int) -> dict[str, Expression]:
        """The columns of rows of one kind."""
        every = {name: Constant("", "null") for columns in self.columns for name in columns}
        return {"mark": Constant(str(number), "long"), **every, **self.columns[number]}


def _copied(
    lowering: Lowering, fragment: Fragment, keys: Mapping[str, Expression], kinds: _Kinds
) -> Fragment:
    """Rows once for each kind, with its mark; equal ones left out where they count once."""
    builder = lowering.builder
    several = len(kinds.columns) > 1
    if several:
        builder.add(fragment, "copy", "tee", "Basic")
    top = fragment.last
    branches = []
    for number in range(len(kinds.columns)):
        branch = fragment if number == 0 else Fragment(fragment.place, [], top, None, target=fragment.target)
        branch.last = top
        outputs = {**keys, **kinds.outputs(number)}
        builder.add(branch, "rows", "projection", "Generate", columns=Table(dict(outputs)))
        if number < kinds.distinct:
            builder.add(branch, "distinct", "dupelim", "Basic")
        branches.append(branch)
    fragment = builder.merge(branches, "rows", "union", "Basic") if several else fragment
    fragment.columns, fragment.hashed = None, []
    return fragment


def _thinned(lowering: Lowering, fragment: Fragment, kinds: _Kinds) -> Fragment:
    """Equal values left out again, now that all of a group are here; other rows pass."""
    builder = lowering.builder
    if not kinds.has_others:
        return builder.add(fragment, "distinct", "dupelim", "Basic")
    builder.add(fragment, "copy", "tee", "Basic")
    top = fragment.last
    first = Constant(str(kinds.distinct), "long")
    builder.add(fragment, "values", "selection", "Basic", where=Function("less", (Field("mark"), first)))
    builder.add(fragment, "distinct", "dupelim", "Basic")
    others = Fragment(fragment.place, [], top, None, target=fragment.target)
    builder.add(others, "others", "selection", "Basic", where=Function("equal", (Field("mark"), first)))
    return builder.merge([fragment, others], "rows", "union", "Basic")
